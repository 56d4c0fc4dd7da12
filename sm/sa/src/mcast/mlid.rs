//! The assignment of multicast LIDs to groups.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::Lid;
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::PKey;

use super::mgid;

/// Multicast LID of the default partition's broadcast group, which hosts that start before the SA
/// answers may assume.
pub(super) const BROADCAST: Lid = Lid::MULTICAST_FIRST;

/// Number of multicast LIDs, 0xC000 to 0xFFFE.
const ALL: u16 = 0x3FFF;

/// The multicast LIDs in use, and the groups that use them.
///
/// Groups use the same multicast LID only if no LID is left, or if their partition has used up its
/// share: all partitions have equal shares, and a partition may exceed its share while at least
/// half of the LIDs are free. Groups of different partitions never use the same LID, because a
/// packet of a group reaches the members of all groups with its LID.
#[derive(Debug)]
pub(super) struct Mlids {
    used: BTreeMap<Lid, Slot>,
    /// Number of multicast LIDs, from 0xC000 on, for which switches have entries.
    capacity: u16,
    /// Number of partitions that share the multicast LIDs.
    partitions: usize,
    /// Number of multicast LIDs in use by each partition.
    held: BTreeMap<u16, usize>,
}

/// A multicast LID in use.
#[derive(Debug)]
struct Slot {
    /// P_Key of the partition, without the membership bit.
    partition: u16,
    groups: BTreeSet<Gid>,
}

impl Default for Mlids {
    fn default() -> Mlids {
        Mlids {
            used: BTreeMap::new(),
            capacity: ALL,
            partitions: 1,
            held: BTreeMap::new(),
        }
    }
}

impl Mlids {
    pub(super) fn set_capacity(&mut self, mlids: u16, partitions: usize) {
        self.capacity = mlids.min(ALL);
        self.partitions = partitions.max(1);
    }

    /// Whether the partition may have one more multicast LID.
    fn may_use_another(&self, partition: u16) -> bool {
        let capacity = usize::from(self.capacity);
        let held = self.held.get(&partition).copied().unwrap_or(0);
        let share = (capacity / self.partitions).max(1);
        held < share || self.used.len() < capacity / 2
    }

    /// The slot of a multicast LID; a free LID is assigned to `partition`.
    fn slot(&mut self, mlid: Lid, partition: u16) -> &mut Slot {
        let held = &mut self.held;
        self.used.entry(mlid).or_insert_with(|| {
            *held.entry(partition).or_default() += 1;
            Slot {
                partition,
                groups: BTreeSet::new(),
            }
        })
    }

    /// The groups with this multicast LID.
    pub(super) fn groups(&self, mlid: Lid) -> impl Iterator<Item = &Gid> {
        self.used
            .get(&mlid)
            .into_iter()
            .flat_map(|slot| &slot.groups)
    }

    /// Assigns a multicast LID to a group: the LID `wanted` if that is free, otherwise the lowest
    /// free LID. If no LID is free, or if the partition has used up its share, the group gets the
    /// LID that the fewest groups of its partition use. `None` if the partition has no LID.
    pub(super) fn allocate(&mut self, mgid: Gid, p_key: PKey, wanted: Option<Lid>) -> Option<Lid> {
        let is_free = |mlid: &Lid| self.is_usable(*mlid) && !self.used.contains_key(mlid);
        let free = || wanted.filter(is_free).or_else(|| self.lowest_free());
        let free = self.may_use_another(p_key.base()).then(free).flatten();
        let mlid = free.or_else(|| self.least_shared(p_key))?;
        self.slot(mlid, p_key.base()).groups.insert(mgid);
        Some(mlid)
    }

    /// Assigns `mlid` to a group, unless another partition uses that LID, or it is not a multicast
    /// LID. Returns whether the LID was assigned.
    pub(super) fn claim(&mut self, mgid: Gid, p_key: PKey, mlid: Lid) -> bool {
        if !mlid.is_multicast() {
            return false;
        }
        let slot = self.slot(mlid, p_key.base());
        let fits = slot.partition == p_key.base();
        if fits {
            slot.groups.insert(mgid);
        }
        fits
    }

    /// The lowest multicast LID of a solicited-node group in the partition; `None` if there is no
    /// such group.
    pub(super) fn of_snm(&self, p_key: PKey) -> Option<Lid> {
        let same = |slot: &Slot| slot.partition == p_key.base();
        let mut slots = self.used.iter().filter(|(_, slot)| same(slot));
        let slot = slots.find(|(_, slot)| slot.groups.iter().any(|&mgid| mgid::is_snm(mgid)));
        slot.map(|(&mlid, _)| mlid)
    }

    /// Ends the assignment of `mlid` to a group.
    pub(super) fn release(&mut self, mlid: Lid, mgid: Gid) {
        if let Some(slot) = self.used.get_mut(&mlid) {
            slot.groups.remove(&mgid);
            if slot.groups.is_empty() {
                let partition = slot.partition;
                self.used.remove(&mlid);
                if let Some(held) = self.held.get_mut(&partition) {
                    *held -= 1;
                    if *held == 0 {
                        self.held.remove(&partition);
                    }
                }
            }
        }
    }

    /// Whether switches have entries for the LID.
    fn is_usable(&self, mlid: Lid) -> bool {
        mlid.is_multicast() && mlid.0 - Lid::MULTICAST_FIRST.0 < self.capacity
    }

    /// The lowest free multicast LID, except the LID reserved for the broadcast group; `None` if no
    /// LID is free.
    fn lowest_free(&self) -> Option<Lid> {
        let first = BROADCAST.0 + 1;
        let mut expected = first;
        // The used LIDs are sorted; this finds the first gap.
        for mlid in self.used.range(Lid(first)..).map(|(mlid, _)| mlid.0) {
            if mlid != expected {
                break;
            }
            expected = expected.saturating_add(1);
        }
        Some(Lid(expected)).filter(|&mlid| self.is_usable(mlid))
    }

    /// The LID that the fewest groups of the partition use; `None` if the partition has no LID.
    fn least_shared(&self, p_key: PKey) -> Option<Lid> {
        self.used
            .iter()
            .filter(|(mlid, slot)| slot.partition == p_key.base() && self.is_usable(**mlid))
            .min_by_key(|(mlid, slot)| (slot.groups.len(), **mlid))
            .map(|(&mlid, _)| mlid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: PKey = PKey(0x8001);
    const Q: PKey = PKey(0x8002);

    #[test]
    fn group_gets_the_lowest_free_mlid_after_that_of_the_broadcast_group() {
        let mut mlids = Mlids::default();
        assert_eq!(mlids.allocate(Gid(1), P, None), Some(Lid(0xC001)));
        assert_eq!(mlids.allocate(Gid(2), Q, None), Some(Lid(0xC002)));
        assert_eq!(mlids.allocate(Gid(3), Q, None), Some(Lid(0xC003)));
        mlids.release(Lid(0xC002), Gid(2));
        assert_eq!(mlids.allocate(Gid(4), P, None), Some(Lid(0xC002)));
        assert_eq!(mlids.allocate(Gid(5), P, Some(BROADCAST)), Some(BROADCAST));
        // A requested LID that is not free is not assigned.
        assert_eq!(
            mlids.allocate(Gid(6), P, Some(BROADCAST)),
            Some(Lid(0xC004))
        );
        assert_eq!(
            mlids.allocate(Gid(7), P, Some(Lid(0xD000))),
            Some(Lid(0xD000))
        );
        assert_eq!(
            mlids.allocate(Gid(8), P, Some(Lid(0x1000))),
            Some(Lid(0xC005))
        );
    }

    #[test]
    fn scarce_mlids_are_shared_within_a_partition_only() {
        let mut mlids = Mlids::default();
        mlids.set_capacity(4, 1);
        for group in 1..=3 {
            assert!(mlids.allocate(Gid(group), P, None).is_some());
        }
        assert_eq!(mlids.allocate(Gid(9), Q, None), None);
        assert_eq!(mlids.allocate(Gid(4), P, None), Some(Lid(0xC001)));
        assert_eq!(mlids.allocate(Gid(5), P, None), Some(Lid(0xC002)));
        assert_eq!(mlids.groups(Lid(0xC001)).count(), 2);
        mlids.release(Lid(0xC001), Gid(1));
        assert_eq!(
            mlids.allocate(Gid(9), Q, None),
            None,
            "a group still uses the LID"
        );
        mlids.release(Lid(0xC001), Gid(4));
        assert_eq!(mlids.allocate(Gid(9), Q, None), Some(Lid(0xC001)));
        assert!(!mlids.claim(Gid(6), P, Lid(0xC001)));
        assert!(mlids.claim(Gid(6), P, Lid(0xC002)));
        assert!(!mlids.claim(Gid(6), P, Lid(0xBFFF)));
    }

    #[test]
    fn partition_beyond_its_share_reuses_its_own_mlids() {
        let mut mlids = Mlids::default();
        mlids.set_capacity(100, 10);
        let first = Lid(BROADCAST.0 + 1);
        for group in 0..1000 {
            assert!(mlids.allocate(Gid(group), P, None).is_some());
        }
        assert_eq!(
            mlids.used.len(),
            50,
            "half of the LIDs, while LIDs were free"
        );
        assert_eq!(mlids.groups(first).count(), 20);
        for group in 1000..1010 {
            let given = mlids.allocate(Gid(group), Q, None).unwrap();
            assert_eq!(mlids.groups(given).count(), 1);
        }
        let shared = mlids.allocate(Gid(1010), Q, None).unwrap();
        assert_eq!(mlids.groups(shared).count(), 2, "its share is ten LIDs");
        // A LID that partition P requests by number counts as well.
        let wanted = Some(Lid(0xC000 + 99));
        assert_eq!(mlids.allocate(Gid(1011), P, wanted), Some(first));
    }

    #[test]
    fn all_mlids_up_to_0xfffe_are_assigned() {
        let mut mlids = Mlids::default();
        for group in 0..u128::from(ALL) - 1 {
            assert!(mlids.allocate(Gid(group), P, None).is_some());
        }
        assert!(mlids.used.contains_key(&Lid(0xFFFE)));
        assert_eq!(mlids.allocate(Gid(1 << 40), Q, None), None);
        mlids.set_capacity(0, 1);
        assert_eq!(mlids.allocate(Gid(1 << 40), P, None), None);
    }
}
