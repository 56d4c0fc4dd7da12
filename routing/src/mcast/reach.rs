//! Who can be reached going down only, over switches that can multicast.

use fixedbitset::FixedBitSet;

use super::Orientation;
use crate::topology::{SwitchIdx, Topology};

/// No number of hops.
pub(super) const FAR: u16 = u16::MAX;

/// Reachability downwards.
#[derive(Debug)]
pub(super) struct Reach {
    is_capable: Vec<bool>,
    /// By switch: itself and every switch that paths down lead to; empty where it cannot multicast.
    below: Vec<FixedBitSet>,
    /// By switch: hops of the longest way down.
    height: Vec<u32>,
    /// By switch: the number of its island, the switches that links between capable ones join.
    island: Vec<u32>,
}

impl Reach {
    pub(super) fn new(
        topology: &Topology,
        orientation: &Orientation,
        is_capable: &[bool],
    ) -> Reach {
        let count = topology.switch_count();
        let mut below = vec![FixedBitSet::new(); count];
        let mut height = vec![0; count];
        for &switch in orientation.highest_first().iter().rev() {
            if !is_capable[switch.index()] {
                continue;
            }
            let mut own = FixedBitSet::with_capacity(count);
            own.insert(switch.index());
            for group in topology.groups(switch) {
                let low = group.neighbour;
                if is_capable[low.index()] && orientation.is_above(switch, low) {
                    own.union_with(&below[low.index()]);
                    height[switch.index()] = height[switch.index()].max(height[low.index()] + 1);
                }
            }
            below[switch.index()] = own;
        }
        Reach {
            island: islands(topology, is_capable),
            is_capable: is_capable.to_vec(),
            below,
            height,
        }
    }

    pub(super) fn is_capable(&self, switch: SwitchIdx) -> bool {
        self.is_capable[switch.index()]
    }

    pub(super) fn island(&self, switch: SwitchIdx) -> u32 {
        self.island[switch.index()]
    }

    /// Whether paths down lead from `top` to all of `switches`.
    pub(super) fn covers(&self, top: SwitchIdx, switches: &FixedBitSet) -> bool {
        switches.is_subset(&self.below[top.index()])
    }

    /// The switches that all of `switches` can hang from, those from which they hang least deep.
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

    /// Hops of the shortest way down from `top`; [`FAR`] where there is none.
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
            // Fewer hops than switches, which are fewer than LIDs.
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

fn islands(topology: &Topology, is_capable: &[bool]) -> Vec<u32> {
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
    island
}
