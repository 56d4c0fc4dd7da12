//! The switches that paths down reach, over switches that can multicast.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::{BasisDelta, Orientation};
use crate::topology::{SwitchIdx, Topology};

/// The mark of an unreachable switch, in place of a number of hops.
pub(super) const FAR: u16 = u16::MAX;

/// Slots: numbers that represent switches in sets. A switch keeps its slot when other switches come
/// and go.
#[derive(Debug)]
pub(super) struct Slots {
    /// The slot of each switch, by switch number.
    by_switch: Vec<u32>,
    /// Slots of switches that have gone, free for reuse.
    free: Vec<u32>,
    /// The number of slots, free ones included.
    count: usize,
}

impl Slots {
    pub(super) fn new(switches: usize) -> Slots {
        Slots {
            by_switch: (0..switches as u32).collect(),
            free: Vec::new(),
            count: switches,
        }
    }

    /// The slots of the fabric after `delta`; remaining switches keep their slots.
    pub(super) fn follow(&self, delta: &BasisDelta) -> Slots {
        let mut slots = Slots {
            by_switch: self.by_switch.clone(),
            free: self.free.clone(),
            count: self.count,
        };
        if delta.is_renumbered() {
            let freed_slots = delta.gone.iter().map(|old| self.by_switch[old.index()]);
            slots.free.extend(freed_slots);
            let switches = self.by_switch.len() - delta.gone.len() + delta.added.len();
            // There are fewer switches than LIDs.
            let switches = (0..switches as u32).map(SwitchIdx);
            slots.by_switch = switches
                .map(|switch| match delta.earlier(switch) {
                    Some(old) => self.by_switch[old.index()],
                    None => slots.free.pop().unwrap_or_else(|| {
                        slots.count += 1;
                        slots.count as u32 - 1
                    }),
                })
                .collect();
        }
        slots
    }

    /// The slot of a switch.
    pub(super) fn of(&self, switch: SwitchIdx) -> usize {
        self.by_switch[switch.index()] as usize
    }
}

/// For each switch, the switches that it reaches by paths that only go down, over capable switches:
/// switches that can multicast.
#[derive(Debug)]
pub(super) struct Reach {
    is_capable: Vec<bool>,
    /// For each switch, the slots of the switch and of every switch to which paths down lead; empty
    /// if the switch cannot multicast.
    below: Vec<Arc<FixedBitSet>>,
    /// For each switch, the number of hops of the longest path down.
    height: Vec<u32>,
    /// For each switch, the number of its island: a set of multicast-capable switches that links
    /// among them connect. `None` if all switches are capable; islands then equal the topology's
    /// components.
    island: Option<Vec<u32>>,
}

impl Reach {
    pub(super) fn new(
        topology: &Topology,
        orientation: &Orientation,
        is_capable: Vec<bool>,
        slots: &Slots,
    ) -> Reach {
        let count = topology.switch_count();
        let mut reach = Reach {
            island: islands(topology, &is_capable),
            below: vec![Arc::default(); count],
            height: vec![0; count],
            is_capable,
        };
        for &switch in orientation.highest_first().iter().rev() {
            if reach.is_capable(switch) {
                let (below, height) = reach.find_below(topology, orientation, switch, slots);
                reach.below[switch.index()] = Arc::new(below);
                reach.height[switch.index()] = height;
            }
        }
        reach
    }

    /// Computes the result of [`Reach::new`] for the fabric after `delta`; examines only switches
    /// at or above a difference.
    pub(super) fn follow(
        &self,
        topology: &Topology,
        orientation: &Orientation,
        is_capable: Vec<bool>,
        slots: &Slots,
        delta: &BasisDelta,
    ) -> Reach {
        let earlier = || topology.indices().map(|switch| delta.earlier(switch));
        let mut reach = Reach {
            island: islands(topology, &is_capable),
            below: earlier()
                .map(|old| old.map_or_else(Arc::default, |old| self.below[old.index()].clone()))
                .collect(),
            height: earlier()
                .map(|old| old.map_or(0, |old| self.height[old.index()]))
                .collect(),
            is_capable,
        };
        // Take the lowest switch first, so that all switches below it are complete.
        let place = |switch: SwitchIdx| (Reverse(orientation.place(switch)), switch);
        let mut waiting: BTreeSet<_> = delta
            .changed_below
            .iter()
            .map(|&switch| place(switch))
            .collect();
        while let Some((_, switch)) = waiting.pop_first() {
            if !reach.is_capable(switch) {
                continue;
            }
            let (below, height) = reach.find_below(topology, orientation, switch, slots);
            let known = (&*reach.below[switch.index()], reach.height[switch.index()]);
            if known == (&below, height) {
                continue;
            }
            reach.below[switch.index()] = Arc::new(below);
            reach.height[switch.index()] = height;
            let neighbours = topology.groups(switch).map(|group| group.neighbour);
            let above = neighbours.filter(|&high| orientation.is_above(high, switch));
            waiting.extend(above.map(place));
        }
        reach
    }

    /// Computes the height of a capable switch, and the set of switches below it, from its
    /// neighbours.
    fn find_below(
        &self,
        topology: &Topology,
        orientation: &Orientation,
        switch: SwitchIdx,
        slots: &Slots,
    ) -> (FixedBitSet, u32) {
        let mut below = FixedBitSet::with_capacity(slots.count);
        below.insert(slots.of(switch));
        let mut height = 0;
        for group in topology.groups(switch) {
            let low = group.neighbour;
            if self.is_capable(low) && orientation.is_above(switch, low) {
                below.union_with(&self.below[low.index()]);
                height = height.max(self.height[low.index()] + 1);
            }
        }
        (below, height)
    }

    pub(super) fn is_capable(&self, switch: SwitchIdx) -> bool {
        self.is_capable[switch.index()]
    }

    /// The number of a switch's island. The numbers ascend with the islands' lowest switches, and
    /// may have gaps.
    pub(super) fn island(&self, topology: &Topology, switch: SwitchIdx) -> u32 {
        match &self.island {
            Some(island) => island[switch.index()],
            // There are fewer components than switches.
            None => topology.component_of(switch) as u32,
        }
    }

    /// Whether the switch in slot `low` lies below `high`, or is `high`.
    pub(super) fn is_below(&self, low: usize, high: SwitchIdx) -> bool {
        self.below[high.index()].contains(low)
    }

    /// Whether paths down lead from `top` to all of `switches`, a set of slots.
    pub(super) fn covers(&self, top: SwitchIdx, switches: &FixedBitSet) -> bool {
        switches.is_subset(&self.below[top.index()])
    }

    /// The switches of least height from which paths down lead to all of `switches`, a set of
    /// slots; empty if there are none.
    pub(super) fn tops(&self, topology: &Topology, switches: &FixedBitSet) -> Vec<SwitchIdx> {
        let mut tops = Vec::new();
        let mut lowest = u32::MAX;
        for top in topology.indices() {
            let height = self.height[top.index()];
            if height > lowest || !self.is_capable(top) || !self.covers(top, switches) {
                continue;
            }
            if height < lowest {
                lowest = height;
                tops.clear();
            }
            tops.push(top);
        }
        tops
    }

    /// For each switch, the hops of the shortest path down from `top`; [`FAR`] if there is none.
    pub(super) fn depths(
        &self,
        topology: &Topology,
        orientation: &Orientation,
        top: SwitchIdx,
    ) -> Vec<u16> {
        let mut depth = vec![FAR; topology.switch_count()];
        depth[top.index()] = 0;
        let mut queue = vec![top];
        let mut done = 0;
        while let Some(&switch) = queue.get(done) {
            done += 1;
            // There are fewer hops than switches, and fewer switches than LIDs.
            let next = depth[switch.index()] + 1;
            for group in topology.groups(switch) {
                let low = group.neighbour;
                if depth[low.index()] == FAR
                    && self.is_capable(low)
                    && orientation.is_above(switch, low)
                {
                    depth[low.index()] = next;
                    queue.push(low);
                }
            }
        }
        depth
    }
}

/// The island of each switch; `None` if all switches are capable. A switch that is not capable is
/// an island of its own.
fn islands(topology: &Topology, is_capable: &[bool]) -> Option<Vec<u32>> {
    if is_capable.iter().all(|&is_capable| is_capable) {
        return None;
    }
    let mut island = vec![u32::MAX; topology.switch_count()];
    for first in topology.indices() {
        if island[first.index()] != u32::MAX {
            continue;
        }
        island[first.index()] = first.0;
        let mut queue = vec![first];
        while let Some(switch) = queue.pop() {
            for group in topology.groups(switch) {
                let next = group.neighbour;
                let joined = is_capable[switch.index()] && is_capable[next.index()];
                if joined && island[next.index()] == u32::MAX {
                    island[next.index()] = first.0;
                    queue.push(next);
                }
            }
        }
    }
    Some(island)
}
