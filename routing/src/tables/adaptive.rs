//! Groups and entries of switches, for adaptive routing.

use std::sync::Arc;

use rsm_ids::Lid;

use super::{PortMask, Tables};
use crate::topology::SwitchIdx;

/// The number of the empty group, which is the entry of a LID without adaptive routing.
pub const NO_GROUP: u16 = 0;

/// The groups and entries of one switch. Without groups and entries, the switch forwards by its
/// forwarding table alone.
///
/// Tables compare by content. Entries that most switches of a fabric have in common share memory.
#[derive(Clone, Debug, Default)]
pub struct AdaptiveTable {
    /// The group of each LID, except those in `own`.
    common: Arc<[u16]>,
    /// The LIDs whose group at this switch differs from `common`, sorted by LID.
    own: Vec<(Lid, u16)>,
    /// For each group, the index of its ports in `masks`: many groups have the same ports.
    groups: Vec<u32>,
    /// The distinct sets of ports, in the order of first use.
    masks: Vec<PortMask>,
}

impl AdaptiveTable {
    /// Creates a table with entries (the group of each LID) that it shares with other tables.
    pub(crate) fn with_entries(common: Arc<[u16]>) -> AdaptiveTable {
        AdaptiveTable {
            common,
            ..AdaptiveTable::default()
        }
    }

    /// The entries (the group of each LID) that the table may share with other tables.
    pub(crate) fn common(&self) -> &Arc<[u16]> {
        &self.common
    }

    /// The group of a LID; [`NO_GROUP`] if packets to the LID take the port of the forwarding
    /// table.
    pub fn group_of(&self, lid: Lid) -> u16 {
        match self.own.binary_search_by_key(&lid, |&(lid, _)| lid) {
            Ok(place) => self.own[place].1,
            Err(_) => self.common_group(lid),
        }
    }

    /// The ports of a group; empty if the switch does not hold the group.
    pub fn group(&self, group: u16) -> PortMask {
        let place = self.groups.get(usize::from(group)).copied();
        let mask = place.and_then(|place| self.masks.get(place as usize));
        mask.copied().unwrap_or_default()
    }

    /// The ports of the LID's group, by which packets to the LID may leave in addition to the
    /// forwarding table's port; empty without a group.
    pub fn ports(&self, lid: Lid) -> PortMask {
        match self.group_of(lid) {
            NO_GROUP => PortMask::EMPTY,
            group => self.group(group),
        }
    }

    /// Sets the group of a LID.
    pub fn set_entry(&mut self, lid: Lid, group: u16) {
        let place = self.own.binary_search_by_key(&lid, |&(lid, _)| lid);
        match (place, self.common_group(lid) == group) {
            (Ok(place), true) => drop(self.own.remove(place)),
            (Ok(place), false) => self.own[place].1 = group,
            (Err(_), true) => {}
            (Err(place), false) => self.own.insert(place, (lid, group)),
        }
    }

    /// Removes the groups of all LIDs.
    pub(crate) fn clear_entries(&mut self) {
        self.common = Arc::default();
        self.own.clear();
    }

    /// Removes the groups of some LIDs, which must be sorted by LID.
    pub(crate) fn clear_entries_of(&mut self, lids: &[Lid]) {
        if self.own.is_empty() {
            let grouped = lids
                .iter()
                .filter(|lid| self.common_group(**lid) != NO_GROUP);
            self.own = grouped.map(|&lid| (lid, NO_GROUP)).collect();
        } else {
            lids.iter().for_each(|&lid| self.set_entry(lid, NO_GROUP));
        }
    }

    /// Sets the ports of a group; [`NO_GROUP`] never has any.
    pub fn set_group(&mut self, group: u16, ports: PortMask) {
        let index = usize::from(group);
        if group == NO_GROUP || (ports.is_empty() && index >= self.groups.len()) {
            return;
        }
        let place = self
            .masks
            .iter()
            .position(|&mask| mask == ports)
            .unwrap_or_else(|| {
                self.masks.push(ports);
                self.masks.len() - 1
            });
        if index >= self.groups.len() {
            let empty = self.place_of_empty();
            self.groups.resize(index + 1, empty);
        }
        // `pack` limits the number of masks to about twice the number of groups, which have 16
        // bits.
        self.groups[index] = place as u32;
        if self.masks.len() > 2 * self.groups.len() + 2 {
            self.pack();
        }
    }

    /// The groups with ports, lowest first.
    pub fn groups(&self) -> impl Iterator<Item = (u16, PortMask)> + '_ {
        // Groups are numbered with 16 bits.
        let groups = (0..self.groups.len() as u32)
            .map(|group| group as u16)
            .map(|group| (group, self.group(group)));
        groups.filter(|(_, ports)| !ports.is_empty())
    }

    /// The number of LIDs, from LID 0 on, for which the table may have entries.
    pub fn lids(&self) -> usize {
        let last = self.own.last().map_or(0, |(lid, _)| lid.index() + 1);
        last.max(self.common.len())
    }

    /// The entries of the LIDs from 0 on; their number is [`Self::lids`].
    pub fn entries(&self) -> impl Iterator<Item = u16> + '_ {
        let mut own = self.own.iter().peekable();
        (0..self.lids()).map(
            move |index| match own.next_if(|(lid, _)| lid.index() == index) {
                Some(&(_, group)) => group,
                None => self.common.get(index).copied().unwrap_or(NO_GROUP),
            },
        )
    }

    /// The LIDs whose groups differ from those of `other`, lowest first.
    pub fn differing_entries<'a>(&'a self, other: &'a AdaptiveTable) -> Vec<Lid> {
        if Arc::ptr_eq(&self.common, &other.common) {
            let own = self.own.iter().chain(&other.own);
            let mut lids: Vec<Lid> = own.map(|&(lid, _)| lid).collect();
            lids.sort_unstable();
            lids.dedup();
            lids.retain(|&lid| self.group_of(lid) != other.group_of(lid));
            return lids;
        }
        let lids = self.lids().max(other.lids());
        let entries = |table: &'a AdaptiveTable| {
            let rest = std::iter::repeat(NO_GROUP);
            table.entries().chain(rest).take(lids)
        };
        let pairs = entries(self).zip(entries(other)).enumerate();
        // Tables are indexed by LID.
        pairs
            .filter(|(_, (one, other))| one != other)
            .map(|(lid, _)| Lid(lid as u16))
            .collect()
    }

    /// The groups whose ports differ from those of `other`, lowest first.
    pub fn differing_groups<'a>(
        &'a self,
        other: &'a AdaptiveTable,
    ) -> impl Iterator<Item = u16> + 'a {
        let count = self.groups.len().max(other.groups.len());
        // Groups are numbered with 16 bits.
        let groups = (0..count as u32).map(|group| group as u16);
        groups.filter(|&group| self.group(group) != other.group(group))
    }

    /// Whether no entry names a group, and no group has ports.
    pub fn is_empty(&self) -> bool {
        self.groups().next().is_none() && self.entries().all(|group| group == NO_GROUP)
    }

    /// The group of a LID in `common`.
    fn common_group(&self, lid: Lid) -> u16 {
        self.common.get(lid.index()).copied().unwrap_or(NO_GROUP)
    }

    /// The index of the empty set in `masks`, which is added if it is missing.
    fn place_of_empty(&mut self) -> u32 {
        let place = self
            .masks
            .iter()
            .position(PortMask::is_empty)
            .unwrap_or_else(|| {
                self.masks.push(PortMask::EMPTY);
                self.masks.len() - 1
            });
        place as u32
    }

    /// Removes the sets in `masks` that no group uses.
    fn pack(&mut self) {
        let mut masks: Vec<PortMask> = Vec::new();
        let mut moved = vec![None; self.masks.len()];
        for group in &mut self.groups {
            let from = *group as usize;
            let to = *moved[from].get_or_insert_with(|| {
                masks.push(self.masks[from]);
                masks.len() - 1
            });
            *group = to as u32;
        }
        self.masks = masks;
    }
}

impl PartialEq for AdaptiveTable {
    fn eq(&self, other: &Self) -> bool {
        self.differing_groups(other).next().is_none() && self.differing_entries(other).is_empty()
    }
}

impl Eq for AdaptiveTable {}

/// The groups and entries of a whole fabric, indexed by [`SwitchIdx`].
///
/// Tables compare by content: a switch past the end equals a switch without groups and entries.
#[derive(Clone, Debug, Default)]
pub struct AdaptiveTables {
    /// The table of each switch, in the order of the topology; switches past the end have no
    /// groups.
    pub switches: Vec<AdaptiveTable>,
}

impl PartialEq for AdaptiveTables {
    fn eq(&self, other: &Self) -> bool {
        let pairs = self.switches.iter().zip(&other.switches);
        let shared = self.switches.len().min(other.switches.len());
        let rest = self.switches[shared..]
            .iter()
            .chain(&other.switches[shared..]);
        pairs.into_iter().all(|(one, other)| one == other)
            && rest.into_iter().all(AdaptiveTable::is_empty)
    }
}

impl Eq for AdaptiveTables {}

impl AdaptiveTables {
    /// The groups and entries of a switch; `None` past the end.
    pub fn table(&self, switch: SwitchIdx) -> Option<&AdaptiveTable> {
        self.switches.get(switch.index())
    }

    /// All ports by which packets from a switch to a LID may leave: the ports of the LID's group,
    /// and the port of the forwarding table, which is for packets that must stay in order.
    pub fn ports(&self, tables: &Tables, switch: SwitchIdx, lid: Lid) -> PortMask {
        let table = self.table(switch);
        let mut ports = table.map_or(PortMask::EMPTY, |table| table.ports(lid));
        let lft = tables.lfts.get(switch.index());
        if let Some(port) = lft.and_then(|lft| lft.port(lid)) {
            ports.insert(port);
        }
        ports
    }

    /// The number of groups with ports, and the number of ports in them, over all switches.
    pub fn sizes(&self) -> (usize, usize) {
        let groups = self.switches.iter().flat_map(AdaptiveTable::groups);
        groups.fold((0, 0), |(groups, ports), (_, mask)| {
            (groups + 1, ports + mask.len())
        })
    }
}

#[cfg(test)]
mod tests {
    use rsm_ids::PortNum;

    use super::*;

    fn ports(ports: &[u8]) -> PortMask {
        ports.iter().map(|&port| PortNum(port)).collect()
    }

    #[test]
    fn tables_are_equal_by_content() {
        let mut one = AdaptiveTable::with_entries(vec![0, 1, 1, 2].into());
        let mut other = AdaptiveTable::default();
        for (lid, group) in [(1, 1), (2, 1), (3, 2)] {
            other.set_entry(Lid(lid), group);
        }
        assert_eq!(one, other);
        one.set_group(2, ports(&[3, 200]));
        one.set_group(1, ports(&[7]));
        assert_ne!(one, other);
        other.set_group(1, ports(&[7]));
        assert_eq!(one.differing_groups(&other).collect::<Vec<_>>(), [2]);
        other.set_group(2, ports(&[200, 3]));
        assert_eq!(one, other);
        assert_eq!(one.ports(Lid(3)), ports(&[3, 200]));
        assert_eq!(one.ports(Lid(9)), PortMask::EMPTY);
        one.set_entry(Lid(9), 1);
        one.set_entry(Lid(2), NO_GROUP);
        assert_eq!(one.differing_entries(&other), [Lid(2), Lid(9)]);
        one.set_entry(Lid(9), NO_GROUP);
        one.set_entry(Lid(2), 1);
        assert_eq!(one, other);
    }

    #[test]
    fn table_holds_any_group_number_port_and_lid() {
        let mut table = AdaptiveTable::default();
        let bits_of = |seed: u16| (0..16).filter(move |bit| seed >> bit & 1 != 0);
        for group in [1, u16::MAX, 4096, 2] {
            let of_group: PortMask = bits_of(group).map(PortNum).chain([PortNum(255)]).collect();
            table.set_group(group, of_group);
            assert_eq!(table.group(group), of_group);
        }
        let held: Vec<u16> = table.groups().map(|(group, _)| group).collect();
        assert_eq!(held, [1, 2, 4096, u16::MAX]);
        table.set_entry(Lid(u16::MAX), u16::MAX);
        assert_eq!(table.lids(), 1 << 16);
        assert!(table.ports(Lid(u16::MAX)).contains(PortNum(255)));
        assert_eq!(
            table.entries().filter(|&group| group != NO_GROUP).count(),
            1
        );
    }

    #[test]
    fn empty_group_stays_empty_and_unused_port_sets_are_removed() {
        let mut table = AdaptiveTable::default();
        table.set_group(NO_GROUP, ports(&[1]));
        assert!(table.is_empty());
        for port in 1..=250 {
            table.set_group(4, ports(&[port]));
        }
        assert_eq!(table.group(4), ports(&[250]));
        assert!(table.masks.len() < 20, "{}", table.masks.len());
        table.set_group(4, PortMask::EMPTY);
        assert!(table.is_empty());
        assert_eq!(table, AdaptiveTable::default());
    }
}
