//! Stores GPU inventories.
//!
//! ```text
//! table gpu-hosts   "h" NAME 0 PART   the text of a host's inventory, in parts of 60,000 bytes
//!                   "m" NAME 0 PART   the text of the machine type of the other hosts
//!                   "v"               present once an inventory has been stored
//! table gpu-seen    PAGE              times of the last reports of hosts with this hash of names
//! ```
//!
//! Part 0 of a text begins with the version (1 byte), the number of parts (1), the time of the
//! import (8) and the checksum of the whole text (8), big-endian. An unreadable text loses only its
//! own host.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::import::{InventoryFormat, import, to_compact_json};
use rsm_gdr::inventory::HostInventory;
use rsm_store::{ChangeSet, Checksum, Namespace, Persisted};

use super::gpu_files::{self, OldFiles};
use super::table::{self, Rows};
use crate::daemon::gpu_hosts::SavedGpus;

/// Table of inventories.
const HOSTS: &str = "gpu-hosts";
/// Table of report times.
const SEEN: &str = "gpu-seen";

/// Key of the row that distinguishes a store without hosts from a store of an earlier version.
const MARKER: &[u8] = b"v";
/// Version of the format of a text.
const VERSION: u8 = 1;
/// Length of the header in part 0, in bytes.
const HEADER: usize = 1 + 1 + 8 + 8;

/// Length of a part in bytes; with its header and key, a part fits into a row.
const PART: usize = 60_000;

/// Longest text of a host, in bytes; a host with eight GPUs takes about 4,000.
pub(in crate::daemon) const TEXT_MAX: usize = 8 * PART;

/// Number of bits of the hash that assigns report times to rows; with 45,056 hosts a row holds
/// about 44 times.
const PAGE_BITS: u32 = 10;

/// Kind of machine that a text describes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum MachineKind {
    Host,
    MachineType,
}

impl MachineKind {
    /// Letter of the kind in keys.
    const fn letter(self) -> u8 {
        match self {
            MachineKind::Host => b'h',
            MachineKind::MachineType => b'm',
        }
    }

    /// Kind with a letter; `None` if no kind has the letter.
    const fn of(letter: u8) -> Option<MachineKind> {
        match letter {
            b'h' => Some(MachineKind::Host),
            b'm' => Some(MachineKind::MachineType),
            _ => None,
        }
    }
}

/// Inventories of a store.
#[derive(Clone, Default, Debug)]
pub(in crate::daemon) struct StoredGpus {
    /// Inventories, with the times of their imports.
    pub(in crate::daemon) inventory: GpuInventory,
    /// Host name → time of the last report, in seconds since the Unix epoch. Hosts without a time
    /// have not reported since their import.
    pub(in crate::daemon) seen: BTreeMap<String, u64>,
    /// Hosts with unreadable inventories; for a key that names no host, the key in hexadecimal.
    pub(in crate::daemon) unreadable: BTreeSet<String>,
    /// Whether a version that keeps inventories in the store has written it.
    pub(in crate::daemon) is_complete: bool,
}

/// Keeps GPU inventories in the store, for [`GpuHosts`](crate::daemon::gpu_hosts::GpuHosts).
#[derive(Default)]
pub(in crate::daemon) struct GpuRows {
    pub(in crate::daemon) reader: GpuReader,
    /// Inventories that the store holds, so that changes need not compare them; `None` if unknown.
    pub(super) known: Option<Arc<GpuInventory>>,
    /// Files of an earlier version, until the store holds their inventories.
    old_files: Option<OldFiles>,
}

impl GpuRows {
    /// Reads the inventories in `persisted`, and adds the inventories in files of an earlier
    /// version.
    pub(super) fn open(
        dir: Option<&Path>,
        persisted: &mut Persisted,
        uncommitted: &mut ChangeSet,
    ) -> (GpuRows, StoredGpus) {
        let mut rows = GpuRows::default();
        let mut stored = rows.reader.read(persisted);
        rows.known = Some(Arc::new(stored.inventory.clone()));
        let old = dir.map(|dir| gpu_files::load(dir, &mut stored));
        if let Some(old) = old.filter(|old| !old.is_empty()) {
            let mut changes = ChangeSet::new();
            let known = rows.known.as_deref();
            self::changes(persisted, known, &stored.inventory, &mut changes);
            persisted.apply(&changes);
            uncommitted.merge(changes);
            rows.known = Some(Arc::new(stored.inventory.clone()));
            rows.old_files = Some(old);
        }
        (rows, stored)
    }

    /// Adds the changes after which `persisted` holds these inventories.
    pub(in crate::daemon) fn changes(
        &mut self,
        persisted: &Persisted,
        saved: SavedGpus,
        changes: &mut ChangeSet,
    ) {
        self::changes(persisted, self.known.as_deref(), &saved.inventory, changes);
        if let Some(seen) = &saved.seen {
            seen_changes(persisted, seen, changes);
        }
        self.known = Some(saved.inventory);
    }

    /// Records that all changes so far are on the disk.
    pub(super) fn record_stored(&mut self) {
        if let Some(files) = self.old_files.take() {
            files.remove();
        }
    }
}

/// Parts of a text, each with its number.
type Parts<'a> = Vec<(u8, &'a [u8])>;

/// Reads inventories repeatedly, and decodes only changed texts.
#[derive(Default)]
pub(in crate::daemon) struct GpuReader {
    inventory: GpuInventory,
    /// Checksums of the texts in `inventory`.
    sums: BTreeMap<(MachineKind, String), u64>,
}

impl GpuReader {
    /// Inventories in `persisted`.
    pub(in crate::daemon) fn read(&mut self, persisted: &Persisted) -> StoredGpus {
        let mut stored = StoredGpus::default();
        let mut texts: BTreeMap<(MachineKind, String), Parts<'_>> = BTreeMap::new();
        for (key, value) in table::rows_of(persisted, HOSTS) {
            match decode_key(key) {
                _ if key == MARKER => stored.is_complete = true,
                Some((kind, name, part)) => {
                    let parts = texts.entry((kind, name.to_owned())).or_default();
                    parts.push((part, value));
                }
                None => drop(stored.unreadable.insert(hex::encode(key))),
            }
        }
        let gone: Vec<_> = self.sums.keys().cloned().collect();
        for key in gone.into_iter().filter(|key| !texts.contains_key(key)) {
            self.forget(&key);
        }
        for (key, parts) in texts {
            if let Err(reason) = self.accept_text(&key, &parts) {
                tracing::warn!(
                    name = key.1,
                    "a GPU inventory in the store cannot be read: {reason}"
                );
                self.forget(&key);
                stored.unreadable.insert(key.1);
            }
        }
        for seen in table::read(persisted, SEEN, |_, value| decode_seen(value)) {
            stored.seen.extend(seen);
        }
        stored.inventory = self.inventory.clone();
        stored
    }

    /// Removes a host or a machine type.
    fn forget(&mut self, key: &(MachineKind, String)) {
        self.sums.remove(key);
        match key.0 {
            MachineKind::Host => self.inventory.remove(&key.1),
            MachineKind::MachineType => self.inventory.remove_machine_type(&key.1),
        };
    }

    /// Decodes the text of a host or machine type, unless it is unchanged.
    fn accept_text(
        &mut self,
        key: &(MachineKind, String),
        parts: &[(u8, &[u8])],
    ) -> Result<(), String> {
        let (header, text) = assemble(parts)?;
        let (kind, name) = key;
        if self.sums.get(key) == Some(&header.sum) {
            self.inventory.saw(name, header.imported);
            return Ok(());
        }
        if Checksum::of(&text) != header.sum {
            return Err("it does not match its checksum".to_owned());
        }
        let host = import(InventoryFormat::Json, &text).map_err(|error| error.to_string())?;
        match kind {
            MachineKind::Host => self.inventory.insert(name, host, header.imported),
            MachineKind::MachineType => set_machine_type(&mut self.inventory, name, &host),
        }
        .map_err(|error| error.to_string())?;
        self.sums.insert(key.clone(), header.sum);
        Ok(())
    }
}

/// Makes a host the machine type of the other hosts.
pub(in crate::daemon) fn set_machine_type(
    inventory: &mut GpuInventory,
    name: &str,
    host: &HostInventory,
) -> Result<(), rsm_gdr::hosts::HostError> {
    inventory.insert_machine_type(name, host)?;
    inventory.set_default(Some(name))
}

/// Length of an inventory's text in the store, in bytes.
pub(in crate::daemon) fn stored_bytes(host: &HostInventory) -> usize {
    to_compact_json(host).len()
}

/// Adds the changes after which `persisted` holds these inventories, and the machine type of the
/// other hosts. Skips the comparison of inventories that are also in `known`, a part of
/// `persisted`.
pub(super) fn changes(
    persisted: &Persisted,
    known: Option<&GpuInventory>,
    wanted: &GpuInventory,
    changes: &mut ChangeSet,
) {
    let Ok(namespace) = Namespace::new(HOSTS) else {
        return;
    };
    let machine_type = wanted.default_machine_type();
    for (key, _) in table::rows_of(persisted, HOSTS).filter(|(key, _)| *key != MARKER) {
        let is_wanted = match decode_key(key) {
            Some((MachineKind::Host, name, _)) => wanted.hosts().contains_key(name),
            Some((MachineKind::MachineType, name, _)) => machine_type == Some(name),
            None => false,
        };
        if !is_wanted {
            changes.remove_record(&namespace, key);
        }
    }
    let is_empty = wanted.hosts().is_empty() && machine_type.is_none();
    if !is_empty {
        table::put(persisted, HOSTS, MARKER, Some(&[VERSION]), changes);
    }
    for (name, record) in wanted.hosts() {
        let known = known.and_then(|known| known.hosts().get(name));
        let is_known = known.is_some_and(|known| {
            Arc::ptr_eq(&known.inventory, &record.inventory) && known.seen == record.seen
        });
        if !is_known {
            let text = to_compact_json(&record.inventory);
            put(
                (MachineKind::Host, name),
                record.seen,
                &text,
                persisted,
                changes,
            );
        }
    }
    let host = machine_type.and_then(|name| Some((name, wanted.machine_types().get(name)?)));
    if let Some((name, host)) = host {
        let key = (MachineKind::MachineType, name);
        put(key, 0, &to_compact_json(host), persisted, changes);
    }
}

/// Adds the changes after which the text of a name consists of exactly these parts.
fn put(
    (kind, name): (MachineKind, &str),
    imported: u64,
    text: &str,
    persisted: &Persisted,
    changes: &mut ChangeSet,
) {
    let parts: Vec<&[u8]> = text.as_bytes().chunks(PART).collect();
    let count = u8::try_from(parts.len()).unwrap_or(u8::MAX);
    let sum = Checksum::of(text.as_bytes());
    for (number, part) in (0..=u8::MAX).zip(&parts) {
        let mut value = Vec::with_capacity(HEADER + part.len());
        if number == 0 {
            value.extend([VERSION, count]);
            value.extend(imported.to_be_bytes());
            value.extend(sum.to_be_bytes());
        }
        value.extend_from_slice(part);
        let key = encode_key(kind, name, number);
        table::put(persisted, HOSTS, &key, Some(&value), changes);
    }
    if count < u8::MAX {
        let surplus = encode_key(kind, name, count)..=encode_key(kind, name, u8::MAX);
        table::remove_range(persisted, HOSTS, surplus, changes);
    }
}

/// Adds the changes after which `persisted` holds these report times.
pub(super) fn seen_changes(
    persisted: &Persisted,
    seen: &BTreeMap<String, u64>,
    changes: &mut ChangeSet,
) {
    let mut pages = Rows::new();
    for (name, time) in seen {
        let Ok(length) = u8::try_from(name.len()) else {
            continue;
        };
        let hash = Checksum::of(name.as_bytes());
        let page = (hash ^ (hash >> 32)) & ((1 << PAGE_BITS) - 1);
        let row = pages.entry((page as u16).to_be_bytes().to_vec());
        let row = row.or_default();
        row.push(length);
        row.extend(name.as_bytes());
        row.extend(time.to_be_bytes());
    }
    table::replace(persisted, SEEN, &pages, changes);
}

/// Fields of the header before the text in part 0.
struct Header {
    /// Time of the import, in seconds since the Unix epoch.
    imported: u64,
    /// Checksum of the whole text.
    sum: u64,
}

/// Joins the parts of a text, and returns its header and content. The error states what is wrong
/// with the parts.
fn assemble(parts: &[(u8, &[u8])]) -> Result<(Header, Vec<u8>), String> {
    let first = parts.first().filter(|(number, _)| *number == 0);
    let (_, first) = first.ok_or("its first part is missing")?;
    let (header, begin) = first
        .split_first_chunk::<HEADER>()
        .ok_or("its first part is too short")?;
    let (about, numbers) = header.split_at(2);
    let (imported, sum) = numbers.split_at(8);
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).unwrap_or(0);
    if about[0] != VERSION {
        return Err(format!("it has version {}, expected {VERSION}", about[0]));
    }
    let in_order = (0..=u8::MAX).zip(parts).all(|(at, (part, _))| at == *part);
    if parts.len() != usize::from(about[1]) || !in_order {
        return Err(format!("it has {} of its {} parts", parts.len(), about[1]));
    }
    let mut text = begin.to_vec();
    for (_, part) in &parts[1..] {
        text.extend_from_slice(part);
    }
    let header = Header {
        imported: number(imported),
        sum: number(sum),
    };
    Ok((header, text))
}

/// Key of a part of a text.
fn encode_key(kind: MachineKind, name: &str, part: u8) -> Vec<u8> {
    [&[kind.letter()][..], name.as_bytes(), &[0, part]].concat()
}

/// Decodes a key that [`encode_key`] returned; `None` if the key is invalid.
fn decode_key(key: &[u8]) -> Option<(MachineKind, &str, u8)> {
    let (&letter, rest) = key.split_first()?;
    let (name, &[zero, part]) = rest.split_last_chunk()?;
    let name = std::str::from_utf8(name).ok()?;
    Some((MachineKind::of(letter).filter(|_| zero == 0)?, name, part))
}

/// Decodes a row of [`SEEN`]; `None` if the row is invalid.
fn decode_seen(mut value: &[u8]) -> Option<Vec<(String, u64)>> {
    let mut seen = Vec::new();
    while let Some((&length, rest)) = value.split_first() {
        let (name, rest) = rest.split_at_checked(usize::from(length))?;
        let (time, rest) = rest.split_first_chunk()?;
        let name = String::from_utf8(name.to_vec()).ok()?;
        seen.push((name, u64::from_be_bytes(*time)));
        value = rest;
    }
    Some(seen)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A host with one GPU whose model name has `bytes` letters.
    fn host(bytes: usize) -> HostInventory {
        let json = format!(
            r#"{{"version":1,"gpus":[{{"index":0}}],"hca_ports":[{{"device":"mlx5_{bytes}","port":1}}],"tiers":[["PIX"]]}}"#
        );
        let mut host = import(InventoryFormat::Json, json.as_bytes()).unwrap();
        host.gpus[0].model = (bytes > 0).then(|| "m".repeat(bytes));
        host
    }

    /// Inventory of these hosts, each with the length of its model name.
    fn with(hosts: &[(&str, usize)]) -> GpuInventory {
        let mut inventory = GpuInventory::new();
        for (name, bytes) in hosts {
            inventory.insert(name, host(*bytes), 7).unwrap();
        }
        inventory
    }

    fn change(
        persisted: &mut Persisted,
        known: Option<&GpuInventory>,
        wanted: &GpuInventory,
    ) -> usize {
        let mut set = ChangeSet::new();
        changes(persisted, known, wanted, &mut set);
        persisted.apply(&set);
        set.len()
    }

    #[test]
    fn stored_inventories_are_restored_and_only_differences_written() {
        let mut persisted = Persisted::default();
        let mut wanted = with(&[("gpu-1", 0), ("gpu-2", 0), ("gpu-10", 0)]);
        set_machine_type(&mut wanted, "dgx", &host(0)).unwrap();
        // Expects the marker, three hosts and the machine type.
        assert_eq!(change(&mut persisted, None, &wanted), 5);
        assert_eq!(change(&mut persisted, None, &wanted), 0);
        let mut reader = GpuReader::default();
        let stored = reader.read(&persisted);
        assert_eq!(stored.inventory.hosts(), wanted.hosts());
        assert_eq!(stored.inventory.default_machine_type(), Some("dgx"));
        assert!(stored.is_complete && stored.unreadable.is_empty());

        let before = wanted.clone();
        wanted.insert("gpu-2", host(3), 9).unwrap();
        assert_eq!(change(&mut persisted, Some(&before), &wanted), 1);
        wanted.remove("gpu-1");
        assert_eq!(change(&mut persisted, None, &wanted), 1);
        let again = reader.read(&persisted).inventory;
        assert_eq!(again.hosts(), wanted.hosts());
        // An unchanged text is not decoded again.
        let is_shared = |name: &str| {
            let (a, b) = (&again.hosts()[name], &stored.inventory.hosts()[name]);
            Arc::ptr_eq(&a.inventory, &b.inventory)
        };
        assert!(is_shared("gpu-10") && !is_shared("gpu-2"));
        wanted = GpuInventory::new();
        change(&mut persisted, None, &wanted);
        assert_eq!(persisted.len(), 1, "the marker stays");
        assert!(reader.read(&persisted).is_complete);
    }

    #[test]
    fn damaged_inventory_loses_only_its_host_and_the_next_write_repairs_it() {
        let wanted = with(&[("gpu-1", 0), ("gpu-2", 0)]);
        let table = Namespace::new(HOSTS).unwrap();
        let key = encode_key(MachineKind::Host, "gpu-1", 0);
        let mut whole = Persisted::default();
        change(&mut whole, None, &wanted);
        let value = whole.records[&table][&key[..]].to_vec();
        for at in 0..value.len() {
            // The checksum does not cover the import time: a wrong time only makes a host appear
            // older.
            if (2..10).contains(&at) {
                continue;
            }
            let mut persisted = whole.clone();
            let mut damaged = value.clone();
            damaged[at] ^= 0x40;
            let mut set = ChangeSet::new();
            set.set_record(&table, &key, &damaged).unwrap();
            persisted.apply(&set);
            let stored = GpuReader::default().read(&persisted);
            assert_eq!(
                stored.unreadable,
                BTreeSet::from(["gpu-1".to_owned()]),
                "{at}"
            );
            assert!(stored.inventory.hosts().contains_key("gpu-2"));
            change(&mut persisted, None, &wanted);
            assert_eq!(persisted, whole, "{at}");
        }
    }

    #[test]
    fn long_inventory_takes_several_rows_and_a_short_one_removes_them() {
        let mut persisted = Persisted::default();
        let mut wanted = with(&[("a", 0)]);
        wanted.insert("b", host(2 * PART), 1).unwrap();
        let rows = change(&mut persisted, None, &wanted);
        assert_eq!(rows, 1 + 1 + 3);
        let mut reader = GpuReader::default();
        assert_eq!(reader.read(&persisted).inventory.hosts(), wanted.hosts());
        let whole = persisted.clone();
        let table = Namespace::new(HOSTS).unwrap();
        for missing in [0, 1] {
            persisted = whole.clone();
            let mut set = ChangeSet::new();
            set.remove_record(&table, &encode_key(MachineKind::Host, "b", missing));
            persisted.apply(&set);
            let stored = reader.read(&persisted);
            assert_eq!(stored.unreadable.len(), 1);
            assert_eq!(stored.inventory.hosts().len(), 1);
        }
        wanted.insert("b", host(0), 1).unwrap();
        change(&mut persisted, None, &wanted);
        assert_eq!(persisted.len(), 3);
        assert_eq!(reader.read(&persisted).inventory.hosts(), wanted.hosts());
    }

    #[test]
    fn times_of_45056_hosts_fit_into_rows() {
        let seen: BTreeMap<String, u64> = (0..45_056)
            .map(|number| (format!("{number:0>64}"), number))
            .collect();
        let mut persisted = Persisted::default();
        let mut set = ChangeSet::new();
        seen_changes(&persisted, &seen, &mut set);
        assert!(set.len() <= 1 << PAGE_BITS);
        persisted.apply(&set);
        assert_eq!(GpuReader::default().read(&persisted).seen, seen);
    }

    proptest! {
        #[test]
        fn arbitrary_rows_are_read_or_reported_as_unreadable(
            rows: Vec<(Vec<u8>, Vec<u8>)>, parts: Vec<(u8, Vec<u8>)>, page: Vec<u8>,
        ) {
            let mut set = ChangeSet::new();
            let table = Namespace::new(HOSTS).unwrap();
            for (key, value) in &rows {
                let _ = set.set_record(&table, key, value);
            }
            for (part, value) in &parts {
                let key = encode_key(MachineKind::Host, "gpu-1", *part);
                set.set_record(&table, &key, value).unwrap();
            }
            let seen = Namespace::new(SEEN).unwrap();
            set.set_record(&seen, &[0, 0], &page).unwrap();
            let mut persisted = Persisted::default();
            persisted.apply(&set);
            let stored = GpuReader::default().read(&persisted);
            prop_assert_eq!(stored.inventory.hosts().len(), 0);
            prop_assert_eq!(stored.unreadable.contains("gpu-1"), !parts.is_empty());
        }
    }
}
