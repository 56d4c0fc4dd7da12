//! Rows packed into pages, which are etcd's keys and values.
//!
//! A shared page contains the rows of one table whose keys have the same first ten bits of hash. A
//! wide row, of more than [`WIDE_ROW`] bytes, has a page of its own, so that no page exceeds a
//! transaction. A page and the pages of wide rows with the same ten bits are a family. The value of
//! a page is
//!
//! ```text
//! ┌─────────┬────────────┬──────────────┬─────┬───────┬───┬─────────────────────┐
//! │ version │ key length │ value length │ key │ value │ … │ checksum of all and │
//! │ 1 byte  │ 2 bytes    │ 4 bytes      │     │       │   │ of etcd's key, 8    │
//! └─────────┴────────────┴──────────────┴─────┴───────┴───┴─────────────────────┘
//! ```
//!
//! with keys and values encoded as in the embedded database ([`codec`]), and numbers big-endian.
//!
//! A subnet of 45,056 hosts takes a few thousand keys. Keys that rsm did not write, and pages that
//! do not match their checksums, make a claim fail before it changes anything.

use std::collections::{BTreeMap, BTreeSet};

use crate::codec::{self, StoredRecord};
use crate::{CLAIMS, ChangeSet, Checksum, Persisted, StoreError};

/// Number of bytes above which a row has a page of its own.
const WIDE_ROW: usize = 1024;

/// Maximum size of a page in bytes: a transaction with one page stays below etcd's default limit of
/// 1.5 MiB.
pub(super) const PAGE_MAX: usize = 1_200_000;

/// Number of hash bits that select a page, so that a table has 2^10 pages. At 48,000 ports a page
/// has about 47 rows, and fewer than a hundred even in the largest tables.
const PAGE_BITS: u32 = 10;

/// Version of the layout of pages.
const VERSION: u8 = 1;

/// Name of a page below the prefix of all pages: `members/2a1` for a shared page of table
/// `members`, `members/2a1.` and 16 digits for the page of a wide row.
pub(super) type PageName = String;

/// Rows of a page by their keys.
type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// All rows, by page.
#[derive(Clone, Default, Debug)]
pub(super) struct Pages {
    pages: BTreeMap<PageName, Rows>,
}

impl Pages {
    /// Replaces the page `name` with `value`, which was read from the store, and applies the
    /// differences of the rows to `state`.
    ///
    /// # Errors
    /// Fails with a description of the damage if `value` is no valid page.
    pub(super) fn follow(
        &mut self,
        name: &str,
        value: &[u8],
        state: &mut Persisted,
    ) -> Result<(), String> {
        let rows = decode(name, value)?;
        let before = self.pages.remove(name).unwrap_or_default();
        for (key, value) in before.iter().filter(|(key, _)| !rows.contains_key(*key)) {
            self.remove_from(state, name, key, value);
        }
        for (key, value) in &rows {
            if before.get(key) == Some(value) {
                continue;
            }
            match codec::decode(key, value).map_err(|damage| damage.to_string())? {
                StoredRecord::Claim(guid, claim) => {
                    state.claims.insert(guid, claim);
                }
                StoredRecord::Generic(namespace, key, value) => {
                    let table = state.records.entry(namespace).or_default();
                    table.insert(key, value);
                }
            }
        }
        if !rows.is_empty() {
            self.pages.insert(name.to_owned(), rows);
        }
        Ok(())
    }

    /// Removes a page that the store no longer has, and removes its rows from `state`.
    pub(super) fn forget(&mut self, name: &str, state: &mut Persisted) {
        for (key, value) in self.pages.remove(name).unwrap_or_default() {
            self.remove_from(state, name, &key, &value);
        }
    }

    /// Removes a row of the page `name` from `state`, unless it has moved within its family.
    fn remove_from(&self, state: &mut Persisted, name: &str, key: &[u8], value: &[u8]) {
        let shared = family(name).to_owned();
        let wide = format!("{shared}.{:016x}", mixed(Checksum::of(key)));
        let holds = |page: &String| {
            let rows = self.pages.get(page);
            page != name && rows.is_some_and(|rows| rows.contains_key(key))
        };
        if [shared, wide].iter().any(holds) {
            return;
        }
        match codec::decode(key, value) {
            Ok(StoredRecord::Claim(guid, _)) => {
                state.claims.remove(&guid);
            }
            Ok(StoredRecord::Generic(namespace, key, _)) => state.remove_record(&namespace, &key),
            // The row was decoded when it was read, or encoded by this process.
            Err(_) => {}
        }
    }

    /// Adds a page that was read from the store.
    ///
    /// # Errors
    /// Fails with a description of the damage if `value` is no valid page.
    #[cfg(test)]
    pub(super) fn read(&mut self, name: &str, value: &[u8]) -> Result<(), String> {
        let rows = decode(name, value)?;
        if !rows.is_empty() {
            self.pages.insert(name.to_owned(), rows);
        }
        Ok(())
    }

    /// Decodes all rows.
    ///
    /// # Errors
    /// Fails with the name of the damaged page, and a description of the damaged row.
    #[cfg(test)]
    pub(super) fn state(&self) -> Result<Persisted, (PageName, String)> {
        let mut state = Persisted::default();
        for (name, rows) in &self.pages {
            for (key, value) in rows {
                match codec::decode(key, value) {
                    Ok(StoredRecord::Claim(guid, claim)) => {
                        state.claims.insert(guid, claim);
                    }
                    Ok(StoredRecord::Generic(namespace, key, value)) => {
                        state
                            .records
                            .entry(namespace)
                            .or_default()
                            .insert(key, value);
                    }
                    Err(damage) => return Err((name.clone(), damage.to_string())),
                }
            }
        }
        Ok(state)
    }

    /// Applies `changes`. Returns the names of the pages that have changed.
    pub(super) fn apply(&mut self, changes: &ChangeSet) -> BTreeSet<PageName> {
        let mut changed = BTreeSet::new();
        for (&guid, claim) in &changes.claims {
            let key = codec::claim_key(guid);
            let value = claim.as_ref().map(|claim| codec::claim_value(&key, claim));
            self.put(CLAIMS, key, value, &mut changed);
        }
        for ((namespace, name), payload) in &changes.records {
            let key = codec::record_key(namespace, name);
            let value = payload
                .as_ref()
                .map(|payload| codec::record_value(&key, payload));
            self.put(namespace.as_str(), key, value, &mut changed);
        }
        changed
    }

    /// Sets a row, or removes it if `value` is `None`. Adds the names of changed pages to
    /// `changed`.
    fn put(
        &mut self,
        table: &str,
        key: Vec<u8>,
        value: Option<Vec<u8>>,
        changed: &mut BTreeSet<PageName>,
    ) {
        let hash = mixed(Checksum::of(&key));
        let page = hash >> (u64::BITS - PAGE_BITS);
        let shared = format!("{table}/{page:03x}");
        let wide = format!("{shared}.{hash:016x}");
        let is_wide = value
            .as_ref()
            .is_some_and(|value| key.len() + value.len() > WIDE_ROW);
        let (at, other) = if is_wide {
            (wide, shared)
        } else {
            (shared, wide)
        };
        if self.remove(&other, &key) {
            changed.insert(other);
        }
        let differs = match value {
            Some(value) => {
                let rows = self.pages.entry(at.clone()).or_default();
                let differs = rows.get(&key) != Some(&value);
                rows.insert(key, value);
                differs
            }
            None => self.remove(&at, &key),
        };
        if differs {
            changed.insert(at);
        }
    }

    /// Removes a row. Returns whether it existed.
    fn remove(&mut self, page: &str, key: &[u8]) -> bool {
        let Some(rows) = self.pages.get_mut(page) else {
            return false;
        };
        let existed = rows.remove(key).is_some();
        if rows.is_empty() {
            self.pages.remove(page);
        }
        existed
    }

    /// The value of a page; `None` if the page has no rows.
    ///
    /// # Errors
    /// Fails if the page is too large for a transaction.
    pub(super) fn encode(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(rows) = self.pages.get(name) else {
            return Ok(None);
        };
        let mut value = vec![VERSION];
        for (key, row) in rows {
            // Keys have at most 290 bytes; values have at most 64 KiB and a checksum.
            let lengths = (u16::try_from(key.len()), u32::try_from(row.len()));
            if let (Ok(key_len), Ok(row_len)) = lengths {
                value.extend(key_len.to_be_bytes());
                value.extend(row_len.to_be_bytes());
                value.extend_from_slice(key);
                value.extend_from_slice(row);
            }
        }
        let sum = Checksum::new().with(name.as_bytes()).with(&value).value();
        value.extend(sum.to_be_bytes());
        if value.len() > PAGE_MAX {
            return Err(StoreError::PageTooLarge {
                table: name.to_owned(),
                bytes: value.len(),
                limit: PAGE_MAX,
            });
        }
        Ok(Some(value))
    }
}

/// Name of the shared page in the family of the page `name`. All pages of a family must change in
/// one transaction, because rows move between them.
pub(super) fn family(name: &str) -> &str {
    name.split_once('.').map_or(name, |(page, _)| page)
}

/// The table of a page, by the page's name.
pub(super) fn table_of(name: &str) -> &str {
    name.split_once('/').map_or(name, |(table, _)| table)
}

/// Spreads the bits of `hash`: FNV-1a hashes of keys that differ only in their last bytes differ
/// little in their upper bits.
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

/// Decodes the rows of the page `name`.
///
/// # Errors
/// Fails with a description of the damage.
fn decode(name: &str, value: &[u8]) -> Result<Rows, String> {
    let (body, sum) = value.split_last_chunk().ok_or("it is too short")?;
    let expected = Checksum::new().with(name.as_bytes()).with(body).value();
    if u64::from_be_bytes(*sum) != expected {
        return Err("it does not match its checksum".to_owned());
    }
    let (&version, mut rest) = body.split_first().ok_or("it is too short")?;
    if version != VERSION {
        return Err(format!("it has version {version}, expected {VERSION}"));
    }
    let mut rows = Rows::new();
    while !rest.is_empty() {
        let (key, value, after) = row(rest).ok_or("a row is cut off")?;
        rows.insert(key.to_vec(), value.to_vec());
        rest = after;
    }
    Ok(rows)
}

/// Splits one row off the front. Returns its key, its value, and the remaining bytes; `None` if the
/// row is cut off.
fn row(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (key, bytes) = bytes.split_first_chunk()?;
    let (value, bytes) = bytes.split_first_chunk()?;
    let (key, bytes) = bytes.split_at_checked(usize::from(u16::from_be_bytes(*key)))?;
    let length = usize::try_from(u32::from_be_bytes(*value)).ok()?;
    let (value, bytes) = bytes.split_at_checked(length)?;
    Some((key, value, bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Namespace;

    fn table() -> Namespace {
        Namespace::new("members").unwrap()
    }

    fn set(key: &[u8], value: &[u8]) -> ChangeSet {
        let mut changes = ChangeSet::new();
        changes.set_record(&table(), key, value).unwrap();
        changes
    }

    /// Writes the pages `names` to `into`, which stands for the store.
    fn write(pages: &Pages, into: &mut BTreeMap<PageName, Vec<u8>>, names: BTreeSet<PageName>) {
        for name in names {
            match pages.encode(&name).unwrap() {
                Some(value) => into.insert(name, value),
                None => into.remove(&name),
            };
        }
    }

    /// The state that another manager reads from the store `stored`.
    fn read(stored: &BTreeMap<PageName, Vec<u8>>) -> Persisted {
        let mut pages = Pages::default();
        for (name, value) in stored {
            pages.read(name, value).unwrap();
        }
        pages.state().unwrap()
    }

    #[test]
    fn row_that_becomes_wide_moves_to_its_own_page_and_back() {
        let (mut pages, mut stored) = (Pages::default(), BTreeMap::new());
        let mut expected = Persisted::default();
        for (length, changed) in [(10, 1), (2_000, 2), (3_000, 1), (20, 2)] {
            let changes = set(b"row", &vec![7; length]);
            let names = pages.apply(&changes);
            assert_eq!(names.len(), changed, "{length} bytes: {names:?}");
            let families: BTreeSet<&str> = names.iter().map(|name| family(name)).collect();
            assert_eq!(families.len(), 1, "{names:?}");
            write(&pages, &mut stored, names);
            expected.apply(&changes);
            assert_eq!(read(&stored), expected);
        }
        let mut removal = ChangeSet::new();
        removal.remove_record(&table(), b"row");
        let names = pages.apply(&removal);
        write(&pages, &mut stored, names);
        assert!(stored.is_empty());
        assert!(pages.apply(&removal).is_empty(), "nothing differs");
    }

    #[test]
    fn follower_has_the_state_of_the_writer_after_each_step() {
        let (mut writer, mut follower) = (Pages::default(), Pages::default());
        let (mut expected, mut state) = (Persisted::default(), Persisted::default());
        // The row grows, moves to a page of its own, back, and is removed.
        for length in [Some(10), Some(2_000), Some(20), Some(3_000), None] {
            let mut changes = set(b"other", &[length.unwrap_or(0) as u8]);
            match length {
                Some(length) => changes.merge(set(b"row", &vec![7; length])),
                None => changes.remove_record(&table(), b"row"),
            }
            expected.apply(&changes);
            let names = writer.apply(&changes);
            // Changed pages come in the order of their names, followed by removed pages.
            for name in &names {
                if let Some(value) = writer.encode(name).unwrap() {
                    follower.follow(name, &value, &mut state).unwrap();
                }
            }
            for name in &names {
                if writer.encode(name).unwrap().is_none() {
                    follower.forget(name, &mut state);
                }
            }
            assert_eq!(state, expected, "{length:?}");
        }
    }

    #[test]
    fn keys_that_count_up_fill_all_pages_evenly() {
        let mut pages = Pages::default();
        for guid in 0..48_000_u64 {
            let key = (0x0002_c903_0000_0000 + guid).to_be_bytes();
            pages.apply(&set(&key, b"value"));
        }
        assert_eq!(pages.pages.len(), 1 << PAGE_BITS);
        let fullest = pages.pages.values().map(Rows::len).max().unwrap();
        assert!(fullest < 94, "twice the average of 47: {fullest}");
    }

    #[test]
    fn every_changed_bit_of_a_page_is_detected() {
        let mut pages = Pages::default();
        let names = pages.apply(&set(b"key", b"value"));
        let name = names.first().unwrap();
        let value = pages.encode(name).unwrap().unwrap();
        for bit in 0..value.len() * 8 {
            let mut changed = value.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Pages::default().read(name, &changed).is_err(), "bit {bit}");
        }
        assert!(Pages::default().read("members/000x", &value).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_as_a_page_or_refused_without_panic(mut body: Vec<u8>) {
            let _ = decode("t/000", &body);
            let sum = Checksum::new().with(b"t/000").with(&body).value();
            body.extend(sum.to_be_bytes());
            let mut pages = Pages::default();
            if pages.read("t/000", &body).is_ok() {
                let _ = pages.state();
            }
        }

        #[test]
        fn stored_pages_contain_the_state_after_each_change(
            steps in prop::collection::vec((any::<u8>(), prop::option::of(0_usize..3000)), 0..60),
        ) {
            let (mut pages, mut stored) = (Pages::default(), BTreeMap::new());
            let mut expected = Persisted::default();
            for (key, length) in steps {
                let mut changes = ChangeSet::new();
                match length {
                    Some(length) => changes
                        .set_record(&table(), &[key], &vec![key; length])
                        .unwrap(),
                    None => changes.remove_record(&table(), &[key]),
                }
                let names = pages.apply(&changes);
                write(&pages, &mut stored, names);
                expected.apply(&changes);
                prop_assert_eq!(read(&stored), expected.clone());
            }
        }
    }
}
