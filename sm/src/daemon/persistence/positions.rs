//! Stores host positions of compute ports: the rank of each leaf, and the leaf and place of each
//! port.

use std::collections::BTreeMap;

use rsm_gdr::host_order::{HostPosition, HostPositions};
use rsm_ids::Guid;
use rsm_store::{ChangeSet, Persisted};

use super::table::{self, Rows};

/// Table of positions. A key consists of a letter for the kind of the row, and a GUID.
const POSITIONS: &str = "positions";

/// Letter of the row with the stride, whose GUID is 0.
const STRIDE: u8 = b's';
/// Letter of the row of a leaf switch.
const LEAF: u8 = b'l';
/// Letter of the row of a compute port.
const PORT: u8 = b'p';

/// Decoded row.
enum Row {
    /// Number of places of every leaf.
    Stride(u32),
    /// Leaf switch, with its rank.
    Leaf(Guid, u32),
    /// Compute port, with its leaf and place.
    Port(Guid, HostPosition),
}

/// Host positions in the store. Logs and skips rows that cannot be read. If the other rows are
/// inconsistent, returns no positions, and every host gets its position from its cable.
pub(super) fn restored(persisted: &Persisted) -> HostPositions {
    let (mut stride, mut leaves, mut ports) = (0, BTreeMap::new(), BTreeMap::new());
    for row in table::read(persisted, POSITIONS, decode) {
        match row {
            Row::Stride(places) => stride = places,
            Row::Leaf(leaf, rank) => drop(leaves.insert(leaf, rank)),
            Row::Port(port, position) => drop(ports.insert(port, position)),
        }
    }
    HostPositions::from_parts(stride, leaves, ports).unwrap_or_else(|error| {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "the positions of compute ports are forgotten"
        );
        HostPositions::default()
    })
}

/// Adds the changes after which `persisted` holds these positions.
pub(super) fn changes(persisted: &Persisted, positions: &HostPositions, changes: &mut ChangeSet) {
    let key = |kind: u8, guid: Guid| [&[kind][..], &guid.0.to_be_bytes()].concat();
    let mut rows = Rows::new();
    if !positions.is_empty() {
        rows.insert(
            key(STRIDE, Guid::ZERO),
            positions.stride().to_be_bytes().to_vec(),
        );
    }
    for (&leaf, rank) in positions.leaves() {
        rows.insert(key(LEAF, leaf), rank.to_be_bytes().to_vec());
    }
    for (&port, position) in positions.ports() {
        let value = [
            &position.leaf.0.to_be_bytes()[..],
            &position.place.to_be_bytes(),
        ]
        .concat();
        rows.insert(key(PORT, port), value);
    }
    table::replace(persisted, POSITIONS, &rows, changes);
}

/// Decodes a row; `None` if the row is invalid.
fn decode(key: &[u8], value: &[u8]) -> Option<Row> {
    let (&kind, guid) = key.split_first()?;
    let guid = Guid(u64::from_be_bytes(guid.try_into().ok()?));
    let number = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.try_into().ok()?));
    Some(match kind {
        STRIDE => Row::Stride(number(value)?),
        LEAF => Row::Leaf(guid, number(value)?),
        PORT => {
            let (leaf, place) = value.split_first_chunk()?;
            let leaf = Guid(u64::from_be_bytes(*leaf));
            Row::Port(
                guid,
                HostPosition {
                    leaf,
                    place: number(place)?,
                },
            )
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use rsm_store::Namespace;

    use super::*;

    #[test]
    fn stored_positions_are_restored_without_unreadable_rows_unless_inconsistent() {
        let leaves = BTreeMap::from([(Guid(1), 0), (Guid(2), 7)]);
        let position = |leaf, place| HostPosition {
            leaf: Guid(leaf),
            place,
        };
        let ports = BTreeMap::from([(Guid(11), position(1, 0)), (Guid(12), position(2, 31))]);
        let positions = HostPositions::from_parts(32, leaves, ports).expect("they fit");
        let mut persisted = Persisted::default();
        let change = |persisted: &Persisted, positions: &HostPositions| {
            let mut set = ChangeSet::new();
            changes(persisted, positions, &mut set);
            set
        };
        persisted.apply(&change(&persisted, &positions));
        assert_eq!(persisted.len(), 5);
        assert_eq!(restored(&persisted), positions);
        assert!(change(&persisted, &positions).is_empty());
        let namespace = Namespace::new(POSITIONS).expect("a name");
        let mut broken = ChangeSet::new();
        broken.set_record(&namespace, b"x", b"").expect("room");
        broken
            .set_record(&namespace, b"l2345678", b"1234")
            .expect("room");
        persisted.apply(&broken);
        assert_eq!(
            restored(&persisted),
            positions,
            "what is not readable is left out"
        );
        // The leaf of this port is unknown.
        let mut orphan = ChangeSet::new();
        let key = [&[PORT][..], &[0, 0, 0, 0, 0, 0, 0, 9]].concat();
        orphan.set_record(&namespace, &key, &[0; 12]).expect("room");
        persisted.apply(&orphan);
        assert!(restored(&persisted).is_empty());
        persisted.apply(&change(&persisted, &HostPositions::default()));
        assert_eq!(persisted.len(), 0);
    }
}
