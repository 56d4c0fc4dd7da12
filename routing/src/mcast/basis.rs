//! The properties of a fabric on which all multicast trees depend: the up*/down* orientation, and
//! the multicast table entries of each switch.

use std::sync::OnceLock;

use rsm_ids::Lid;

use super::delta::{BasisDelta, Side, shortened};
use super::reach::{Reach, Slots};
use super::{Orientation, delta};
use crate::topology::{SwitchIdx, Topology};

/// All properties of a fabric on which trees of any group depend. Costly parts are computed when
/// first needed, and kept.
#[derive(Debug)]
pub struct MulticastBasis {
    pub(super) orientation: Orientation,
    pub(super) unicast_follows: bool,
    /// The number of multicast LIDs for which each switch has table entries.
    capacities: Vec<u16>,
    slots: Slots,
    /// Ranges of multicast LIDs for which the same switches have table entries, lowest first.
    classes: Vec<Class>,
}

/// A range of multicast LIDs for which the same switches have table entries.
#[derive(Debug)]
struct Class {
    /// One past the last multicast LID of the class, counted from 0xC000.
    end: u16,
    reach: OnceLock<Reach>,
}

impl MulticastBasis {
    /// Creates the basis of `topology`. `capacities` holds the MulticastFDBCap of each switch by
    /// number: the number of multicast LIDs from 0xC000 on for which it has entries, 0 for a switch
    /// without multicast (IBA 14.2.5.4). A missing value is 0. `unicast_follows` says that every
    /// turn of the unicast routes is legal in the up*/down* order.
    pub fn new(
        topology: &Topology,
        capacities: &[u16],
        orientation: Orientation,
        unicast_follows: bool,
    ) -> MulticastBasis {
        let capacities = padded(topology, capacities);
        let class = |end| Class {
            end,
            reach: OnceLock::new(),
        };
        MulticastBasis {
            orientation,
            unicast_follows,
            slots: Slots::new(topology.switch_count()),
            classes: ends(&capacities).map(class).collect(),
            capacities,
        }
    }

    /// Computes the result of [`MulticastBasis::new`] for `topology` from this basis, which belongs
    /// to `before`; and the difference between the two fabrics, as far as trees can depend on it.
    ///
    /// # Errors
    /// The reason, in a few words, why this basis cannot be updated: call [`MulticastBasis::new`].
    pub fn follow(
        &self,
        before: &Topology,
        topology: &Topology,
        capacities: &[u16],
        orientation: Orientation,
        unicast_follows: bool,
    ) -> Result<(MulticastBasis, BasisDelta), &'static str> {
        if !self.unicast_follows || !unicast_follows {
            return Err("the routes follow no order");
        }
        let capacities = padded(topology, capacities);
        let sides = (
            &Side::new(before, &self.orientation),
            &Side::new(topology, &orientation),
        );
        let mut delta = delta::between(sides.0, sides.1);
        let mut kept = topology.indices().zip(&capacities);
        let is_same = |(switch, &capacity)| {
            let old = delta.earlier(switch);
            old.is_none_or(|old| self.capacities[old.index()] == capacity)
        };
        if !kept.all(is_same) {
            return Err("a switch has entries for other multicast LIDs than before");
        }
        let slots = self.slots.follow(&delta);
        let mut classes = Vec::new();
        for end in ends(&capacities) {
            let is_capable = capable(&capacities, end);
            let was_capable = capable(&self.capacities, end);
            let shortened = shortened((sides.0, &was_capable), (sides.1, &is_capable), &delta);
            delta.shortened.push(shortened);
            let known = self.classes.iter().find(|class| class.end == end);
            let reach = known.and_then(|class| class.reach.get());
            let reach =
                reach.map(|reach| reach.follow(topology, &orientation, is_capable, &slots, &delta));
            classes.push(Class {
                end,
                reach: reach.map_or_else(OnceLock::new, OnceLock::from),
            });
        }
        let basis = MulticastBasis {
            orientation,
            unicast_follows,
            capacities,
            slots,
            classes,
        };
        Ok((basis, delta))
    }

    /// The orientation, which says for each link which end is above.
    pub fn orientation(&self) -> &Orientation {
        &self.orientation
    }

    /// Whether every turn of the unicast routes is legal in the up*/down* order.
    pub fn unicast_follows(&self) -> bool {
        self.unicast_follows
    }

    /// The number of the class that contains a multicast LID; `None` if no switch has an entry for
    /// it.
    pub(super) fn class_of(&self, mlid: Lid) -> Option<usize> {
        let offset = offset(mlid);
        let class = self.classes.partition_point(|class| class.end <= offset);
        (class < self.classes.len()).then_some(class)
    }

    /// The reachability over the switches of a class, computed when first needed.
    pub(super) fn reach(&self, topology: &Topology, class: usize) -> &Reach {
        let Class { end, reach } = &self.classes[class];
        reach.get_or_init(|| {
            let is_capable = capable(&self.capacities, *end);
            Reach::new(topology, &self.orientation, is_capable, &self.slots)
        })
    }

    /// The number that represents a switch in the sets of [`Reach`].
    pub(super) fn slot(&self, switch: SwitchIdx) -> usize {
        self.slots.of(switch)
    }
}

/// The capacity of each switch of `topology`; 0 if `capacities` has no value for the switch.
fn padded(topology: &Topology, capacities: &[u16]) -> Vec<u16> {
    let capacity = |switch: SwitchIdx| capacities.get(switch.index()).copied().unwrap_or(0);
    topology.indices().map(capacity).collect()
}

/// The ends of the ranges of multicast LIDs for which some switch has entries, lowest first.
fn ends(capacities: &[u16]) -> impl Iterator<Item = u16> + use<> {
    let mut ends = capacities.to_vec();
    ends.sort_unstable();
    ends.dedup();
    ends.into_iter().filter(|&end| end > 0)
}

/// For each switch, whether it has entries for the multicast LIDs below `end`, counted from 0xC000.
fn capable(capacities: &[u16], end: u16) -> Vec<bool> {
    capacities.iter().map(|&capacity| capacity >= end).collect()
}

/// A multicast LID counted from 0xC000.
pub(super) fn offset(mlid: Lid) -> u16 {
    mlid.0 - Lid::MULTICAST_FIRST.0
}
