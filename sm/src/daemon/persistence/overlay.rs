//! Stores the partition overlay, one row for each partition and for each member.

use std::collections::{BTreeMap, BTreeSet};

use rsm_config::overlay::{MAX_NAME_BYTES, Member, Overlay, OverlayPartition, PartitionSettings};
use rsm_config::{Membership, Owned, Protection, TrustMode};
use rsm_ids::Guid;
use rsm_mad::wire::attr::{Mtu, PKey};
use rsm_mad::wire::sa::Rate;
use rsm_store::{ChangeSet, Persisted};

use super::table::{self, Rows};

/// Table of partitions. A key is a P_Key; P_Key 0 is the key of the overlay itself.
const PARTITIONS: &str = "partitions";

/// Table of members. A key consists of a P_Key and a port GUID.
const MEMBERS: &str = "partition-members";

/// Table of the protection of partitions: trust mode and reserved prefixes. A key is a P_Key.
/// The table is separate, because earlier versions ignore a table that they do not know.
const PROTECTIONS: &str = "partition-protections";

/// Overlay in the store. Logs and skips invalid records, and members of partitions that do not
/// exist.
pub(super) fn restored(persisted: &Persisted) -> Overlay {
    let mut limits_default = false;
    let mut partitions: BTreeMap<u16, OverlayPartition> = BTreeMap::new();
    for (p_key, row) in table::read(persisted, PARTITIONS, decode) {
        match row {
            Row::Overlay { limits } => limits_default = limits,
            Row::Partition(partition) => {
                partitions.insert(p_key, *partition);
            }
        }
    }
    for (p_key, protection) in table::read(persisted, PROTECTIONS, decode_protection) {
        if let Some(partition) = partitions.get_mut(&p_key) {
            partition.protection = protection;
        }
    }
    let mut orphans = 0;
    for (p_key, guid, member) in table::read(persisted, MEMBERS, decode_member) {
        match partitions.get_mut(&p_key) {
            Some(partition) => {
                partition.members.insert(guid, member);
            }
            None => orphans += 1,
        }
    }
    if orphans > 0 {
        tracing::warn!(
            orphans,
            "members of partitions that are not stored are left out"
        );
    }
    Overlay::restore(partitions, limits_default)
}

/// Adds the changes after which `persisted` holds this overlay.
pub(super) fn changes(persisted: &Persisted, overlay: &Overlay, changes: &mut ChangeSet) {
    let mut partitions = Rows::new();
    let mut members = Rows::new();
    let mut protections = Rows::new();
    if overlay.limits_default() {
        partitions.insert(0_u16.to_be_bytes().to_vec(), vec![1]);
    }
    for (p_key, partition) in overlay.partitions() {
        partitions.insert(p_key.to_be_bytes().to_vec(), encode(partition));
        if !partition.protection.is_empty() {
            let row = encode_protection(&partition.protection);
            protections.insert(p_key.to_be_bytes().to_vec(), row);
        }
        for (guid, member) in &partition.members {
            let key = [&p_key.to_be_bytes()[..], &guid.0.to_be_bytes()].concat();
            members.insert(key, encode_member(member));
        }
    }
    let unread = unread_partitions(persisted);
    // A partition that cannot be read keeps its members and its protection.
    let is_kept = |key: &[u8]| key.get(..2).is_some_and(|p_key| unread.contains(p_key));
    let is_partition = |key: &[u8], value: &[u8]| decode(key, value).is_some();
    let is_member = |key: &[u8], value: &[u8]| decode_member(key, value).is_some() && !is_kept(key);
    let is_protection =
        |key: &[u8], value: &[u8]| decode_protection(key, value).is_some() && !is_kept(key);
    table::replace_readable(persisted, PARTITIONS, &partitions, is_partition, changes);
    table::replace_readable(persisted, MEMBERS, &members, is_member, changes);
    table::replace_readable(persisted, PROTECTIONS, &protections, is_protection, changes);
}

/// Keys of the partitions in the store that cannot be read.
fn unread_partitions(persisted: &Persisted) -> BTreeSet<&[u8]> {
    let rows = table::rows_of(persisted, PARTITIONS);
    let unread = rows.filter(|(key, value)| decode(key, value).is_none());
    unread.map(|(key, _)| key).collect()
}

/// Descriptions of the rows that cannot be read, for operators.
pub(super) fn unreadable(persisted: &Persisted) -> Vec<String> {
    let p_key = |key: &[u8]| match key.first_chunk() {
        Some(&[0, 0]) => "the limitation of the default partition".to_owned(),
        Some(&bytes) => format!("partition {:#06x}", u16::from_be_bytes(bytes)),
        None => format!("record {} of the partitions", hex::encode(key)),
    };
    let partitions = unread_partitions(persisted).into_iter().map(p_key);
    let members = table::rows_of(persisted, MEMBERS)
        .filter(|(key, value)| decode_member(key, value).is_none())
        .map(|(key, _)| format!("a member of {}", p_key(key)));
    let protections = table::rows_of(persisted, PROTECTIONS)
        .filter(|(key, value)| decode_protection(key, value).is_none())
        .map(|(key, _)| format!("names and trust of {}", p_key(key)));
    partitions.chain(members).chain(protections).collect()
}

/// Decoded row of [`PARTITIONS`].
enum Row {
    /// Whether ports are limited members of the default partition unless a rule names them.
    Overlay { limits: bool },
    /// Partition without its members and its protection.
    Partition(Box<OverlayPartition>),
}

/// Encodes, in big-endian order: time of creation (8 bytes), IP over InfiniBand (1), service level
/// (1), MTU and rate in IBA's codes (1 each), then name and creator, each after its length (2).
fn encode(partition: &OverlayPartition) -> Vec<u8> {
    let PartitionSettings {
        name,
        ipoib,
        sl,
        mtu,
        rate,
    } = &partition.settings;
    let mut value = partition.since_unix_ms.to_be_bytes().to_vec();
    value.extend([u8::from(*ipoib), *sl, mtu.code(), rate.0]);
    for text in [name, &partition.by] {
        table::write_text(text, &mut value);
    }
    value
}

/// Decodes a row of [`PARTITIONS`], with its P_Key; `None` if the row is invalid.
fn decode(key: &[u8], value: &[u8]) -> Option<(u16, Row)> {
    let p_key = u16::from_be_bytes(key.try_into().ok()?);
    if p_key == 0 {
        let &[limits] = value else { return None };
        let limits = limits != 0;
        return Some((p_key, Row::Overlay { limits }));
    }
    let (since, value) = value.split_first_chunk()?;
    let (&[ipoib, sl, mtu, rate], value) = value.split_first_chunk()?;
    let (name, value) = table::read_text(value)?;
    let (by, value) = table::read_text(value)?;
    let is_known = p_key == PKey(p_key).base() && sl < 16 && mtu_of(mtu).is_some();
    let rate = Rate::all().find(|known| known.0 == rate)?;
    let is_name = !name.is_empty() && name.len() <= MAX_NAME_BYTES;
    if !is_known || !is_name || !value.is_empty() {
        return None;
    }
    let partition = OverlayPartition {
        settings: PartitionSettings {
            name,
            ipoib: ipoib != 0,
            sl,
            mtu: mtu_of(mtu)?,
            rate,
        },
        by,
        since_unix_ms: u64::from_be_bytes(*since),
        protection: Protection::default(),
        members: BTreeMap::new(),
    };
    Some((p_key, Row::Partition(Box::new(partition))))
}

/// MTU with this code; `None` if IBA does not define the code.
fn mtu_of(code: u8) -> Option<Mtu> {
    let mtu = Mtu::from_code(code);
    mtu.bytes().is_some().then_some(mtu)
}

/// Encodes a member: membership (1 byte), and whether the P_Key is at index 0 (1).
fn encode_member(member: &Member) -> Vec<u8> {
    let membership = match member.membership {
        Membership::Full => 1,
        Membership::Limited => 2,
        Membership::Both => 3,
    };
    vec![membership, u8::from(member.index0)]
}

/// Decodes a row of [`MEMBERS`]; `None` if the row is invalid.
fn decode_member(key: &[u8], value: &[u8]) -> Option<(u16, Guid, Member)> {
    let (p_key, guid) = key.split_first_chunk()?;
    let guid = u64::from_be_bytes(guid.try_into().ok()?);
    let &[membership, index0] = value else {
        return None;
    };
    let membership = match membership {
        1 => Membership::Full,
        2 => Membership::Limited,
        3 => Membership::Both,
        _ => return None,
    };
    let member = Member {
        membership,
        index0: index0 != 0,
    };
    let is_port = !matches!(guid, 0 | u64::MAX);
    is_port.then_some((u16::from_be_bytes(*p_key), Guid(guid), member))
}

/// Encodes the name of the trust mode, which is empty if the partition has none of its own, and
/// then each reserved prefix in its text form after a blank.
fn encode_protection(protection: &Protection) -> Vec<u8> {
    let mode = protection.trust.map_or("", TrustMode::name);
    let owned = protection.owned.iter().map(|owned| format!(" {owned}"));
    let line: String = std::iter::once(mode.to_owned()).chain(owned).collect();
    line.into_bytes()
}

/// Decodes a row of [`PROTECTIONS`], with its P_Key; `None` if the row is invalid.
fn decode_protection(key: &[u8], value: &[u8]) -> Option<(u16, Protection)> {
    let p_key = u16::from_be_bytes(key.try_into().ok()?);
    let mut words = std::str::from_utf8(value).ok()?.split(' ');
    let trust = match words.next()? {
        "" => None,
        word => Some(
            TrustMode::ALL
                .into_iter()
                .find(|mode| mode.name() == word)?,
        ),
    };
    let owned = words.map(|word| Owned::guids(word).or_else(|_| Owned::mgids(word)).ok());
    let owned = owned.collect::<Option<_>>()?;
    Some((p_key, Protection { trust, owned }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rsm_store::Namespace;

    use super::*;

    fn overlay() -> Overlay {
        let member = |membership, index0| Member { membership, index0 };
        let partition = |p_key: u16, members| OverlayPartition {
            settings: PartitionSettings {
                ipoib: true,
                sl: 3,
                mtu: Mtu::Bytes4096,
                rate: Rate(21),
                ..PartitionSettings::plain(p_key)
            },
            by: "alice".to_owned(),
            since_unix_ms: 1_700_000_000_000,
            protection: match p_key {
                0x10 => Protection {
                    trust: Some(TrustMode::Enforce),
                    owned: BTreeSet::from([
                        Owned::mgids("ff12:a01d:10::/48").expect("a prefix"),
                        Owned::guids("0x0252000000100000/44").expect("a prefix"),
                    ]),
                },
                _ => Protection::default(),
            },
            members,
        };
        let members = BTreeMap::from([
            (Guid(7), member(Membership::Full, true)),
            (Guid(8), member(Membership::Both, false)),
        ]);
        let partitions = BTreeMap::from([
            (0x10, partition(0x10, members)),
            (0x11, partition(0x11, BTreeMap::new())),
            (
                0x7fff,
                partition(
                    0x7fff,
                    BTreeMap::from([(Guid(9), member(Membership::Limited, false))]),
                ),
            ),
        ]);
        Overlay::restore(partitions, true)
    }

    #[test]
    fn stored_overlay_is_restored_and_unreadable_rows_are_kept() {
        let wanted = overlay();
        let mut persisted = Persisted::default();
        let change = |persisted: &Persisted, overlay: &Overlay| {
            let mut set = ChangeSet::new();
            changes(persisted, overlay, &mut set);
            set
        };
        persisted.apply(&change(&persisted, &wanted));
        assert_eq!(restored(&persisted), wanted);
        assert!(change(&persisted, &wanted).is_empty());
        let partitions = Namespace::new(PARTITIONS).expect("a name");
        let members = Namespace::new(MEMBERS).expect("a name");
        let mut broken = ChangeSet::new();
        let good = encode(wanted.find(0x10).expect("it is there"));
        let mut cut = good.clone();
        cut.truncate(good.len() - 1);
        let protections = Namespace::new(PROTECTIONS).expect("a name");
        for (table, key, value) in [
            (&protections, &[0x00, 0x11][..], &b"forbid"[..]),
            (&protections, &[0x00, 0x11, 0], b"enforce"),
            (&protections, &[0x00, 0x12], b" ff12::/1"),
            (&partitions, &b"x"[..], &good),
            (&partitions, &[0x00, 0x20], &cut),
            (&partitions, &[0x80, 0x21], &good),
            (&members, &[0x00, 0x10, 1], &[1, 0]),
            (&members, &[0x00, 0x10, 0, 0, 0, 0, 0, 0, 0, 1], &[4, 0]),
            (&members, &[0x00, 0x10, 0, 0, 0, 0, 0, 0, 0, 0], &[1, 0]),
            // The member's partition does not exist.
            (&members, &[0x00, 0x30, 0, 0, 0, 0, 0, 0, 0, 1], &[1, 0]),
        ] {
            broken.set_record(table, key, value).expect("room");
        }
        persisted.apply(&broken);
        assert_eq!(restored(&persisted), wanted);
        // Rows that cannot be read are kept, because a later version may have written them.
        persisted.apply(&change(&persisted, &Overlay::default()));
        assert_eq!(restored(&persisted), Overlay::default());
        let unread = unreadable(&persisted);
        assert_eq!(unread.len(), persisted.len(), "{unread:?}");
        assert!(
            unread.contains(&"partition 0x0020".to_owned()),
            "{unread:?}"
        );
    }

    #[test]
    fn partition_of_a_later_version_is_kept_with_its_members() {
        let mut persisted = Persisted::default();
        let mut set = ChangeSet::new();
        changes(&persisted, &overlay(), &mut set);
        persisted.apply(&set);
        let partitions = Namespace::new(PARTITIONS).expect("a name");
        let key = 0x10_u16.to_be_bytes();
        let good = persisted.records[&partitions][&key[..]].to_vec();
        let write = |persisted: &mut Persisted, value: &[u8]| {
            let mut set = ChangeSet::new();
            set.set_record(&partitions, &key, value).expect("room");
            persisted.apply(&set);
        };
        write(&mut persisted, &[&good[..], b"more"].concat());
        let seen = restored(&persisted);
        assert!(seen.find(0x10).is_none());
        let mut set = ChangeSet::new();
        changes(&persisted, &seen, &mut set);
        assert!(set.is_empty());
        write(&mut persisted, &good);
        assert_eq!(restored(&persisted), overlay());
    }
}
