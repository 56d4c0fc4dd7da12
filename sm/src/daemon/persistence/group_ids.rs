//! Stores groups of leaves for adaptive routing, one row for each leaf.

use rsm_ids::Guid;
use rsm_routing::adaptive::GroupIds;
use rsm_store::{ChangeSet, Persisted};

use super::table::{self, Rows};

/// Table of groups. A key is the GUID of a leaf, and a value the number of its group.
const TABLE: &str = "adaptive-groups";

/// Groups in the store. Logs and skips invalid rows.
pub(super) fn restored(persisted: &Persisted) -> GroupIds {
    GroupIds::from_pairs(table::read(persisted, TABLE, |leaf, group| {
        let leaf = Guid(u64::from_be_bytes(leaf.try_into().ok()?));
        Some((leaf, u16::from_be_bytes(group.try_into().ok()?)))
    }))
}

/// Adds the changes after which the store holds `ids`.
pub(super) fn changes(persisted: &Persisted, ids: &GroupIds, changes: &mut ChangeSet) {
    let row =
        |(leaf, group): (Guid, u16)| (leaf.0.to_be_bytes().to_vec(), group.to_be_bytes().to_vec());
    let rows: Rows = ids.pairs().map(row).collect();
    table::replace(persisted, TABLE, &rows, changes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_restored_and_forgotten() {
        let ids = GroupIds::from_pairs([(Guid(7), 1), (Guid(u64::MAX), 4095)]);
        let mut persisted = Persisted::default();
        let mut change = ChangeSet::new();
        changes(&persisted, &ids, &mut change);
        persisted.apply(&change);
        assert_eq!(restored(&persisted), ids);
        let mut change = ChangeSet::new();
        changes(&persisted, &ids, &mut change);
        assert!(change.is_empty(), "nothing is written twice");
        changes(&persisted, &GroupIds::default(), &mut change);
        persisted.apply(&change);
        assert_eq!(restored(&persisted), GroupIds::default());
    }
}
