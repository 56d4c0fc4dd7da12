//! Stores footprints of the last plans, for a manager that follows the master of a shared store.
//!
//! A footprint lists the parts of the subnet that changed up to a plan. The store holds it as a
//! byte string, split into rows of at most [`CHUNK`] bytes. The key of a row is the number of the
//! plan, 8 bytes, and the number of the row, 1 byte. Numbers are big-endian:
//!
//! ```text
//! since: 1 byte (0: none), 8 bytes
//! parts: 1 byte (0: everything changed, and nothing follows)
//! ports:  count, 4 bytes; then node, 8 bytes, and port, 1 byte
//! blocks: count, 4 bytes; then switch, 8 bytes, and block, 2 bytes
//! masks:  count, 4 bytes; then switch, 8 bytes, block, 2 bytes, and position, 1 byte
//! ```
//!
//! A reader omits a footprint that it cannot read in full. If the remaining footprints do not lead
//! back to the state of the subnet that the reader knows, it reads the whole subnet.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_model::Parts;
use rsm_model::footprint::{Footprint, Footprints, PARTS_MAX};
use rsm_model::mft_image::MftBlock;
use rsm_store::{ChangeSet, Persisted};

use super::table::{self, Rows};

/// Table of footprints.
const TABLE: &str = "footprints";

/// Largest size of a row, in bytes.
const CHUNK: usize = 48 * 1024;

/// Reads the footprints from the store; omits each footprint that is damaged or incomplete.
pub(super) fn restored(persisted: &Persisted) -> Footprints {
    let rows = table::read(persisted, TABLE, |key, value| {
        let (plan, row) = key.split_at_checked(8)?;
        let plan = u64::from_be_bytes(plan.try_into().ok()?);
        let [row] = row.try_into().ok()?;
        Some(((plan, row), value.to_vec()))
    });
    let mut plans: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    // The rows of a plan are in order; a missing row causes a wrong length.
    for ((plan, _), chunk) in rows {
        plans.entry(plan).or_default().extend(chunk);
    }
    let footprints = plans.into_iter();
    let footprints = footprints.filter_map(|(plan, bytes)| decode(plan, &bytes));
    Footprints::restored(footprints.collect())
}

/// Adds the changes that replace `known`, which the store holds, by `footprints`.
pub(super) fn changes(
    persisted: &Persisted,
    known: Option<&Footprints>,
    footprints: &Footprints,
    changes: &mut ChangeSet,
) {
    if known.is_some_and(|known| known.is_same(footprints)) {
        return;
    }
    let mut rows = Rows::new();
    for footprint in footprints.iter() {
        for (row, chunk) in (0..=u8::MAX).zip(encode(footprint).chunks(CHUNK)) {
            let key = [&footprint.plan.to_be_bytes()[..], &[row]].concat();
            rows.insert(key, chunk.to_vec());
        }
    }
    table::replace(persisted, TABLE, &rows, changes);
}

/// Encodes a footprint as described in the module.
fn encode(footprint: &Footprint) -> Vec<u8> {
    let mut bytes = vec![u8::from(footprint.since.is_some())];
    bytes.extend(footprint.since.unwrap_or(0).to_be_bytes());
    bytes.push(u8::from(footprint.parts.is_some()));
    let Some(parts) = &footprint.parts else {
        return bytes;
    };
    // A footprint has at most PARTS_MAX parts.
    let count = |count: usize| (count as u32).to_be_bytes();
    bytes.extend(count(parts.ports.len()));
    for key in &parts.ports {
        bytes.extend(key.node.0.to_be_bytes());
        bytes.push(key.port.0);
    }
    bytes.extend(count(parts.blocks.len()));
    for (switch, block) in &parts.blocks {
        bytes.extend(switch.0.to_be_bytes());
        bytes.extend(block.to_be_bytes());
    }
    bytes.extend(count(parts.masks.len()));
    for (switch, at) in &parts.masks {
        bytes.extend(switch.0.to_be_bytes());
        bytes.extend(at.block.to_be_bytes());
        bytes.push(at.position);
    }
    bytes
}

/// Decodes the footprint of a plan; `None` if the bytes are invalid.
fn decode(plan: u64, bytes: &[u8]) -> Option<Footprint> {
    let mut reader = Reader(bytes);
    let has_since = reader.flag()?;
    let since = u64::from_be_bytes(reader.take()?);
    let parts = match reader.flag()? {
        true => Some(Parts {
            ports: reader.set(|reader| {
                let node = reader.guid()?;
                let [port] = reader.take()?;
                Some(PortKey::new(node, PortNum(port)))
            })?,
            blocks: reader.set(|reader| {
                let switch = reader.guid()?;
                Some((switch, u16::from_be_bytes(reader.take()?)))
            })?,
            masks: reader.set(|reader| {
                let switch = reader.guid()?;
                let block = u16::from_be_bytes(reader.take()?);
                let [position] = reader.take()?;
                Some((switch, MftBlock { block, position }))
            })?,
        }),
        false => None,
    };
    reader.0.is_empty().then_some(Footprint {
        since: has_since.then_some(since),
        plan,
        parts,
    })
}

/// Reads values from the front of a byte slice.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    /// Splits off `N` bytes; `None` if there are fewer.
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    /// Reads a byte that must be 0 or 1.
    fn flag(&mut self) -> Option<bool> {
        match self.take()? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    /// Reads a GUID.
    fn guid(&mut self) -> Option<Guid> {
        self.take().map(u64::from_be_bytes).map(Guid)
    }

    /// Reads a count and as many values; `None` if the count exceeds [`PARTS_MAX`].
    fn set<T: Ord>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<BTreeSet<T>> {
        let count = u32::from_be_bytes(self.take()?) as usize;
        if count > PARTS_MAX {
            return None;
        }
        (0..count).map(|_| read(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use rsm_store::Namespace;

    use super::*;

    fn footprint(plan: u64, ports: u64) -> Footprint {
        Footprint {
            since: plan.checked_sub(1),
            plan,
            parts: Some(Parts {
                ports: (0..ports)
                    .map(|node| PortKey::new(Guid(node), PortNum(7)))
                    .collect(),
                blocks: BTreeSet::from([(Guid(1), 2), (Guid(u64::MAX), 767)]),
                masks: BTreeSet::from([(
                    Guid(3),
                    MftBlock {
                        block: 511,
                        position: 15,
                    },
                )]),
            }),
        }
    }

    fn stored(footprints: &Footprints) -> Persisted {
        let mut persisted = Persisted::default();
        let mut set = ChangeSet::new();
        changes(&persisted, None, footprints, &mut set);
        persisted.apply(&set);
        persisted
    }

    #[test]
    fn footprints_are_restored_in_several_rows_and_replaced() {
        let everything = Footprint {
            since: None,
            plan: 4,
            parts: None,
        };
        let footprints = vec![everything, footprint(5, 20_000), footprint(9, 0)];
        let footprints = Footprints::restored(footprints);
        let persisted = stored(&footprints);
        assert_eq!(persisted.len(), 6, "180,000 bytes are four rows");
        assert_eq!(restored(&persisted), footprints);
        let mut again = ChangeSet::new();
        changes(&persisted, Some(&footprints), &footprints, &mut again);
        changes(&persisted, None, &footprints, &mut again);
        assert!(again.is_empty(), "nothing is written twice");
        let mut persisted = persisted;
        changes(&persisted, None, &Footprints::default(), &mut again);
        persisted.apply(&again);
        assert_eq!(persisted.len(), 0);
    }

    #[test]
    fn footprint_with_a_missing_cut_or_foreign_row_is_left_out() {
        let footprints = Footprints::restored(vec![footprint(5, 20_000), footprint(9, 1)]);
        let whole = stored(&footprints);
        let table = Namespace::new(TABLE).unwrap();
        let keys: Vec<_> = whole.records[&table].keys().cloned().collect();
        for key in &keys[..4] {
            let mut broken = whole.clone();
            let mut set = ChangeSet::new();
            set.remove_record(&table, key);
            broken.apply(&set);
            let plans: Vec<u64> = restored(&broken).iter().map(|all| all.plan).collect();
            assert_eq!(plans, [9]);
        }
        let key = &keys[4];
        let value = &whole.records[&table][key];
        for length in 0..value.len() {
            let mut broken = whole.clone();
            let mut set = ChangeSet::new();
            set.set_record(&table, key, &value[..length]).unwrap();
            broken.apply(&set);
            assert_eq!(restored(&broken).iter().count(), 1, "{length} bytes");
        }
        let mut broken = whole.clone();
        let mut set = ChangeSet::new();
        set.set_record(&table, b"key", b"value").unwrap();
        set.set_record(&table, &[0; 9], &[2; 9]).unwrap();
        broken.apply(&set);
        assert_eq!(restored(&broken), footprints);
    }
}
