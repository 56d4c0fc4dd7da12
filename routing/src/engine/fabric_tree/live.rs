//! The present parts of a known fabric.

use fixedbitset::FixedBitSet;
use rayon::prelude::*;
use rsm_ids::Guid;

use crate::topology::{Destination, Group, SwitchIdx, Topology};

/// The parts of a known fabric that are present in a topology, by the numbers of the known fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Live {
    /// For each known switch, its number in the topology; `None` if it is missing.
    pub(super) switches: Vec<Option<SwitchIdx>>,
    /// For each port group, whether at least one of its links is present.
    pub(super) groups: FixedBitSet,
    /// For each link, whether it is present.
    pub(super) links: FixedBitSet,
    /// For each destination, whether it is present.
    pub(super) destinations: FixedBitSet,
}

impl Live {
    /// Compares a topology with the known fabric; `None` if the topology has a part that is unknown
    /// or that differs from the known one.
    pub(super) fn of(known: &Topology, present: &Topology) -> Option<Live> {
        let mut live = Live {
            switches: switches(known, present)?,
            groups: FixedBitSet::with_capacity(known.group_count()),
            links: FixedBitSet::with_capacity(known.half_link_count()),
            destinations: FixedBitSet::with_capacity(known.destinations().len()),
        };
        // Nearly all switches are complete, and checking that takes most of the time.
        let is_whole = |switch| live.is_whole(known, switch, present);
        let is_whole: Vec<(bool, bool)> = known.par_indices().map(is_whole).collect();
        for (switch, is_whole) in known.indices().zip(is_whole) {
            live.add(known, switch, present, is_whole)?;
        }
        Some(live)
    }

    /// Computes the result of [`Live::of`] from `self`, which belongs to an earlier topology:
    /// `present` differs from that topology only at the switches with the GUIDs `changed`.
    pub(super) fn follow(
        &self,
        known: &Topology,
        present: &Topology,
        changed: &[Guid],
    ) -> Option<Live> {
        let mut live = Live {
            switches: switches(known, present)?,
            ..self.clone()
        };
        for switch in changed
            .iter()
            .filter_map(|&guid| known.switch_by_guid(guid))
        {
            live.links.remove_range(known.links_of(switch));
            live.groups.remove_range(known.group_range(switch));
            let destinations = known.destination_range(switch);
            live.destinations.remove_range(destinations);
            live.add(
                known,
                switch,
                present,
                live.is_whole(known, switch, present),
            )?;
        }
        debug_assert_eq!(Some(&live), Live::of(known, present).as_ref());
        Some(live)
    }

    /// Whether the present links of a switch are exactly its known links, and whether its present
    /// destinations are exactly its known destinations.
    fn is_whole(&self, known: &Topology, switch: SwitchIdx, present: &Topology) -> (bool, bool) {
        self.switches[switch.index()].map_or((false, false), |here| {
            (
                self.has_all_links(known, switch, present, here),
                has_all_destinations(known, switch, present, here),
            )
        })
    }

    /// Adds the present parts of a switch, given the result of [`Live::is_whole`]; `None` if a part
    /// is unknown or differs.
    fn add(
        &mut self,
        known: &Topology,
        switch: SwitchIdx,
        present: &Topology,
        (all_links, all_destinations): (bool, bool),
    ) -> Option<()> {
        let Some(here) = self.switches[switch.index()] else {
            return Some(());
        };
        if all_links {
            self.links.insert_range(known.links_of(switch));
            self.groups.insert_range(known.group_range(switch));
        } else {
            self.add_links(known, switch, present, here)?;
        }
        if all_destinations {
            let destinations = known.destination_range(switch);
            self.destinations.insert_range(destinations);
            Some(())
        } else {
            self.add_destinations(known, switch, present, here)
        }
    }

    /// Whether a switch has exactly its known links, to the same neighbours. `here` is its number
    /// in `present`.
    fn has_all_links(
        &self,
        known: &Topology,
        switch: SwitchIdx,
        present: &Topology,
        here: SwitchIdx,
    ) -> bool {
        let present_neighbour = |group: Group<'_>| self.switches[group.neighbour.index()];
        let wanted = known.groups(switch).map(present_neighbour);
        let found = present.groups(here).map(|group| Some(group.neighbour));
        known.links(switch) == present.links(here) && wanted.eq(found)
    }

    /// Adds the present links of a switch; `None` if a present link is unknown or differs.
    fn add_links(
        &mut self,
        known: &Topology,
        switch: SwitchIdx,
        present: &Topology,
        here: SwitchIdx,
    ) -> Option<()> {
        let mut found = 0;
        let mut groups = present.groups(here).peekable();
        for group in known.group_range(switch) {
            let present_neighbour = self.switches[known.group(group).neighbour.index()];
            let Some(there) = groups.next_if(|there| Some(there.neighbour) == present_neighbour)
            else {
                continue;
            };
            let mut links = there.links.iter().peekable();
            for (link, number) in known.group(group).links.iter().zip(known.link_range(group)) {
                if links.next_if_eq(&link).is_some() {
                    self.links.insert(number);
                    found += 1;
                }
            }
            self.groups.insert(group);
        }
        (found
            == present
                .groups(here)
                .map(|group| group.links.len())
                .sum::<usize>())
        .then_some(())
    }

    /// Adds the present destinations of a switch; `None` if one is unknown or differs.
    fn add_destinations(
        &mut self,
        known: &Topology,
        switch: SwitchIdx,
        present: &Topology,
        here: SwitchIdx,
    ) -> Option<()> {
        let mut there = present.destinations_of(here).iter().peekable();
        for (destination, number) in known
            .destinations_of(switch)
            .iter()
            .zip(known.destination_range(switch))
        {
            if there.next_if(|there| is_same(there, destination)).is_some() {
                self.destinations.insert(number);
            }
        }
        there.peek().is_none().then_some(())
    }

    /// Whether the present switches and destinations equal those of `other`, which belongs to the
    /// same known fabric.
    pub(super) fn has_nodes_of(&self, other: &Live) -> bool {
        let mut pairs = self.switches.iter().zip(&other.switches);
        self.destinations == other.destinations
            && pairs.all(|(one, other)| one.is_some() == other.is_some())
    }

    /// The number of hosts of a switch that are present.
    pub(super) fn hosts(&self, known: &Topology, switch: SwitchIdx) -> usize {
        let range = known.destination_range(switch);
        let own = known.destinations_of(switch).iter().zip(range);
        own.filter(|(found, number)| found.kind.is_host() && self.destinations.contains(*number))
            .count()
    }

    /// The switches that are missing.
    pub(super) fn absent(&self) -> FixedBitSet {
        let mut absent = FixedBitSet::with_capacity(self.switches.len());
        let switches = self.switches.iter().enumerate();
        absent.extend(
            switches
                .filter(|(_, here)| here.is_none())
                .map(|(at, _)| at),
        );
        absent
    }

    /// Whether all switches and links of `other`, for the same known fabric, are present.
    pub(super) fn has_links_of(&self, other: &Live) -> bool {
        let mut pairs = self.switches.iter().zip(&other.switches);
        pairs.all(|(own, other)| own.is_some() || other.is_none())
            && other.links.is_subset(&self.links)
    }

    /// Whether all known switches and links are present.
    pub(super) fn is_complete(&self) -> bool {
        self.switches.iter().all(Option::is_some) && self.links.is_full()
    }
}

/// For each switch of the known fabric, its number in the topology, or `None` if it is missing. The
/// result is `None` if the topology has a switch that is unknown or that differs from the known
/// one.
fn switches(known: &Topology, present: &Topology) -> Option<Vec<Option<SwitchIdx>>> {
    let mut switches = vec![None; known.switch_count()];
    let mut place = 0;
    for switch in present.indices() {
        let wanted = present.switch(switch);
        while known.switches().get(place)?.guid < wanted.guid {
            place += 1;
        }
        if known.switches()[place].guid != wanted.guid
            || known.switches()[place].num_ports != wanted.num_ports
        {
            return None;
        }
        switches[place] = Some(switch);
    }
    Some(switches)
}

/// Whether a switch has exactly its known destinations. `here` is its number in `present`.
fn has_all_destinations(
    known: &Topology,
    switch: SwitchIdx,
    present: &Topology,
    here: SwitchIdx,
) -> bool {
    let (wanted, found) = (known.destinations_of(switch), present.destinations_of(here));
    wanted.len() == found.len()
        && wanted
            .iter()
            .zip(found)
            .all(|(one, other)| is_same(one, other))
}

/// Whether a known and a present destination are the same, regardless of LIDs of virtual ports.
fn is_same(one: &Destination, other: &Destination) -> bool {
    let key = |of: &Destination| (of.lid, of.lmc, of.guid, of.port, of.kind);
    key(one) == key(other)
}
