//! The group numbers of destination leaves. A leaf keeps its number as long as it is known.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::Guid;

use crate::tables::NO_GROUP;

/// The group of each destination leaf, by the GUID of its switch.
///
/// A group has the same number on every switch, and keeps it while its leaf is absent. The next
/// plan gets these numbers, so that a fault changes only the ports of groups, and no entry of a
/// LID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupIds {
    by_leaf: BTreeMap<Guid, u16>,
}

impl GroupIds {
    /// Restores the groups that an earlier run stored.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (Guid, u16)>) -> GroupIds {
        let pairs = pairs.into_iter().filter(|&(_, group)| group != NO_GROUP);
        GroupIds {
            by_leaf: pairs.collect(),
        }
    }

    /// All leaves with their groups, absent leaves included.
    pub fn pairs(&self) -> impl Iterator<Item = (Guid, u16)> + '_ {
        self.by_leaf.iter().map(|(&leaf, &group)| (leaf, group))
    }

    /// The group of a leaf; `None` if the leaf is unknown.
    pub fn group_of(&self, leaf: Guid) -> Option<u16> {
        self.by_leaf.get(&leaf).copied()
    }

    /// Assigns groups, numbered 1 to `last`, to `leaves`, which are listed subtree by subtree.
    /// Assigns none if `last` is 0.
    ///
    /// A leaf keeps its group. New leaves get the lowest free numbers; if these do not suffice, the
    /// numbers of absent leaves; if those do not suffice either, neighbouring leaves share numbers.
    /// Absent leaves keep their numbers as long as no other leaf gets them.
    pub(crate) fn assigned(&self, leaves: &[Guid], last: u16) -> GroupIds {
        let mut ids = GroupIds::default();
        if last == NO_GROUP {
            return ids;
        }
        let known = |leaf: &Guid| self.group_of(*leaf).filter(|&group| group <= last);
        let present: BTreeSet<Guid> = leaves.iter().copied().collect();
        ids.by_leaf = leaves
            .iter()
            .filter_map(|leaf| Some((*leaf, known(leaf)?)))
            .collect();
        let mut absent: BTreeMap<Guid, u16> = self
            .by_leaf
            .iter()
            .filter(|&(leaf, &group)| group <= last && !present.contains(leaf))
            .map(|(&leaf, &group)| (leaf, group))
            .collect();
        let new: Vec<Guid> = leaves
            .iter()
            .copied()
            .filter(|leaf| known(leaf).is_none())
            .collect();
        let used: BTreeSet<u16> = ids.by_leaf.values().copied().collect();
        let of_absent: BTreeSet<u16> = absent.values().copied().collect();
        let is_free = |group: &u16| !used.contains(group);
        // Numbers of absent leaves come last.
        let unused = (1..=last).filter(|group| is_free(group) && !of_absent.contains(group));
        let reserved = of_absent.iter().copied().filter(is_free);
        let free: Vec<u16> = unused.chain(reserved).take(new.len()).collect();
        for (place, &leaf) in new.iter().enumerate() {
            let group = if free.is_empty() {
                ids.nearest(leaves, leaf)
            } else if free.len() == new.len() {
                Some(free[place])
            } else {
                Some(free[place * free.len() / new.len()])
            };
            if let Some(group) = group {
                ids.by_leaf.insert(leaf, group);
            }
        }
        let now: BTreeSet<u16> = ids.by_leaf.values().copied().collect();
        absent.retain(|_, group| !now.contains(group));
        ids.by_leaf.extend(absent);
        ids
    }

    /// The group of the nearest leaf before `leaf` that has one, else of the nearest after it;
    /// `None` if no leaf has one.
    fn nearest(&self, leaves: &[Guid], leaf: Guid) -> Option<u16> {
        let place = leaves.iter().position(|&other| other == leaf)?;
        let (before, after) = leaves.split_at(place);
        let mut near = before.iter().rev().chain(after);
        near.find_map(|&leaf| self.group_of(leaf))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guids(guids: &[u64]) -> Vec<Guid> {
        guids.iter().map(|&guid| Guid(guid)).collect()
    }

    fn of(ids: &GroupIds, leaves: &[u64]) -> Vec<u16> {
        let group = |&leaf| ids.group_of(Guid(leaf)).unwrap_or(0);
        leaves.iter().map(group).collect()
    }

    #[test]
    fn a_leaf_keeps_its_group_while_other_leaves_come_and_go() {
        let first = GroupIds::default().assigned(&guids(&[30, 10, 20]), 100);
        assert_eq!(of(&first, &[30, 10, 20]), [1, 2, 3]);
        let without = first.assigned(&guids(&[30, 20, 40]), 100);
        assert_eq!(of(&without, &[30, 20, 40, 10]), [1, 3, 4, 2]);
        let after_return = without.assigned(&guids(&[30, 10, 20, 40]), 100);
        assert_eq!(of(&after_return, &[30, 10, 20, 40]), [1, 2, 3, 4]);
        let stored = GroupIds::from_pairs(after_return.pairs());
        assert_eq!(stored, after_return);
    }

    #[test]
    fn numbers_of_absent_leaves_are_taken_last() {
        let first = GroupIds::default().assigned(&guids(&[1, 2, 3]), 4);
        let next = first.assigned(&guids(&[1, 3, 4, 5]), 4);
        assert_eq!(of(&next, &[1, 3, 4, 5]), [1, 3, 4, 2]);
        assert_eq!(next.group_of(Guid(2)), None, "its number is another leaf's");
    }

    #[test]
    fn neighbouring_leaves_share_groups_if_numbers_are_few() {
        let ids = GroupIds::default().assigned(&guids(&[1, 2, 3, 4, 5, 6]), 3);
        assert_eq!(of(&ids, &[1, 2, 3, 4, 5, 6]), [1, 1, 2, 2, 3, 3]);
        let one_more = ids.assigned(&guids(&[1, 2, 3, 7, 4, 5, 6]), 3);
        assert_eq!(of(&one_more, &[1, 2, 3, 7, 4, 5, 6]), [1, 1, 2, 2, 2, 3, 3]);
        // A new switch holds fewer groups, so that higher numbers are no longer used.
        let fewer = ids.assigned(&guids(&[1, 2, 3, 4, 5, 6]), 2);
        assert_eq!(of(&fewer, &[1, 2, 3, 4, 5, 6]), [1, 1, 2, 2, 2, 2]);
        assert_eq!(of(&ids.assigned(&guids(&[1, 2]), 0), &[1, 2]), [0, 0]);
    }
}
