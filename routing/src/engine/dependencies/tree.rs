//! The spanning tree whose turns stay legal in every order, so that all switches stay connected;
//! and an up*/down* order in which they are legal.

use super::{ChannelOrder, NEEDED, Wanted};
use crate::engine::channels::{Channels, NONE};
use crate::topology::levels;
use crate::topology::{Component, SwitchIdx, Topology};

/// A spanning tree of each component, rooted at a central switch with hosts.
pub(in super::super) struct Tree {
    /// The root of each component.
    roots: Vec<SwitchIdx>,
    /// The number of hops from each switch to the root of its component.
    distance: Vec<Option<u32>>,
    /// For each switch, the channel to its parent; [`NONE`] for roots.
    up: Vec<u32>,
}

impl Tree {
    pub(in super::super) fn new(topology: &Topology, channels: &Channels) -> Tree {
        let roots = roots(topology);
        let distance = levels::distances(topology, &roots);
        let up = |switch: SwitchIdx| {
            let own = distance[switch.index()];
            let leads_up = |&channel: &u32| {
                let above = distance[channels.to(channel) as usize];
                own.is_some_and(|own| above.is_some_and(|above| above + 1 == own))
            };
            channels.out_of(switch.0).find(leads_up).unwrap_or(NONE)
        };
        let up = topology.indices().map(up).collect();
        Tree {
            roots,
            distance,
            up,
        }
    }

    /// The `wanted` traffic, plus on each turn of the tree more than all traffic together.
    pub(super) fn needed(&self, channels: &Channels, mut wanted: Wanted) -> Wanted {
        for switch in 0..channels.switches() as u32 {
            let in_tree: Vec<u32> = channels
                .out_of(switch)
                .filter(|&out| {
                    self.up[switch as usize] == out
                        || self.up[channels.to(out) as usize] == channels.reverse(out)
                })
                .collect();
            for &out in &in_tree {
                let input = channels.reverse(out);
                for &output in in_tree.iter().filter(|&&output| output != out) {
                    wanted[channels.turn(input, output)] += NEEDED;
                }
            }
        }
        wanted
    }

    /// Computes an order in which the tree's turns are legal. Legal paths go up, away from the
    /// hosts, and then down. In between, they may once go down among the switches of `ancestors`,
    /// and up again.
    pub(in super::super) fn order(&self, topology: &Topology, channels: &Channels) -> ChannelOrder {
        let heights = self.heights(topology);
        let ancestors = self.ancestors(topology, &heights);
        let rank = |switch: u32| heights[switch as usize];
        let key = |channel: u32| {
            let (from, to) = (channels.from(channel), channels.to(channel));
            let is_up = rank(from) < rank(to);
            let at_root = ancestors[(if is_up { from } else { to }) as usize];
            let class = match (is_up, at_root) {
                (true, false) => 0,
                (false, true) => 1,
                (true, true) => 2,
                (false, false) => 3,
            };
            let height = rank(from);
            (
                class,
                if is_up { height } else { u64::MAX - height },
                channel,
            )
        };
        let mut sorted: Vec<u32> = (0..channels.count() as u32).collect();
        sorted.sort_by_cached_key(|&channel| key(channel));
        ChannelOrder::of(sorted)
    }

    /// A distinct rank for each switch, the highest at the top: by distance from the hosts; ties
    /// are broken by distance from the root.
    fn heights(&self, topology: &Topology) -> Vec<u64> {
        let levels = levels::from_edges(topology, levels::ANY_HOST);
        let mut sorted: Vec<SwitchIdx> = topology.indices().collect();
        sorted.sort_by_key(|&switch| {
            let distance = self.distance[switch.index()].unwrap_or(u32::MAX);
            (
                std::cmp::Reverse((levels[switch.index()], distance)),
                switch,
            )
        });
        let mut heights = vec![0; sorted.len()];
        for (height, switch) in sorted.into_iter().enumerate() {
            heights[switch.index()] = height as u64;
        }
        heights
    }

    /// For each switch, whether it is a root or upward links lead to it from a root.
    fn ancestors(&self, topology: &Topology, heights: &[u64]) -> Vec<bool> {
        let mut above = vec![false; heights.len()];
        let mut queue = self.roots.clone();
        while let Some(switch) = queue.pop() {
            if std::mem::replace(&mut above[switch.index()], true) {
                continue;
            }
            let neighbours = topology.groups(switch).map(|group| group.neighbour);
            queue.extend(neighbours.filter(|up| heights[up.index()] > heights[switch.index()]));
        }
        above
    }
}

/// For each component, the switch with hosts that is nearest to its centre; without hosts, the
/// nearest switch. A path of the tree can then go down and up again only at the root.
fn roots(topology: &Topology) -> Vec<SwitchIdx> {
    let centres = levels::centres(topology);
    let distance = levels::distances(topology, &centres);
    let nearest = |component: &Component| {
        let switches = component.switches.iter().copied();
        switches.min_by_key(|&switch| {
            (
                topology.hosts(switch) == 0,
                distance[switch.index()],
                switch,
            )
        })
    };
    topology.components().iter().filter_map(nearest).collect()
}
