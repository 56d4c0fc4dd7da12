//! Hosts in topological order: hosts near each other in the tree are adjacent.
//!
//! The contention of shift permutations depends on the order of hosts. Published figures assume an
//! order that numbers the hosts of a leaf consecutively, then the leaves of a subtree, and so on
//! up. This module derives such an order from cables alone: leaves that share a neighbour form a
//! group, groups that share a switch two hops away form a larger group, and so on.

use std::ops::Range;

use rsm_ids::Lid;

use crate::tables::BLOCK_LIDS;
use crate::topology::{EndpointKind, SwitchIdx, Topology};

/// A port of a host that sends and receives traffic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    /// The base LID, to which traffic goes.
    pub(super) lid: Lid,
    /// The index of its leaf in [`Hosts::leaves`].
    pub(super) leaf: u32,
    /// The index in [`Topology::destinations`].
    pub(super) destination: u32,
    /// The port of the leaf to which the host is attached.
    pub(super) port: u8,
}

/// A switch with hosts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf {
    pub(super) switch: SwitchIdx,
    /// The number of hosts.
    pub(super) hosts: u32,
}

/// A block of table entries, and the hosts whose LIDs are in it.
pub(super) struct LidBlock {
    /// The block's number in the tables.
    pub(super) index: usize,
    /// The range of [`Hosts::by_lid`] with the hosts whose LIDs are in the block.
    pub(super) hosts: Range<usize>,
}

/// All hosts, sorted by leaf and then port.
pub(super) struct Hosts {
    pub(super) all: Vec<Host>,
    /// The leaves, in the order of their hosts in `all`.
    pub(super) leaves: Vec<Leaf>,
    /// For each host, the switch number of its leaf: a compact copy of data in `all` and `leaves`.
    pub(super) switches: Vec<u16>,
    /// The blocks that contain LIDs of hosts, the lowest first.
    pub(super) blocks: Vec<LidBlock>,
    /// The indices in `all`, sorted by LID.
    by_lid: Vec<u16>,
    /// For each host, its index in the order of LIDs.
    pub(super) numbers: Vec<u16>,
}

impl Hosts {
    pub(super) fn of(topology: &Topology) -> Hosts {
        let mut all = Vec::new();
        let mut leaves = Vec::new();
        let first = |switch: SwitchIdx| {
            let destinations = topology.destinations();
            destinations.partition_point(|destination| destination.switch < switch)
        };
        for switch in leaves_in_order(topology) {
            let start = all.len();
            let first = first(switch);
            let destinations = topology.destinations_of(switch).iter().enumerate();
            let hosts = destinations.filter(|(_, destination)| destination.kind.is_host());
            all.extend(hosts.map(|(offset, destination)| Host {
                lid: destination.lid,
                // There are fewer leaves and destinations than LIDs.
                leaf: leaves.len() as u32,
                destination: (first + offset) as u32,
                port: destination.port.0,
            }));
            all[start..].sort_unstable_by_key(|host| (host.port, host.lid));
            leaves.push(Leaf {
                switch,
                hosts: (all.len() - start) as u32,
            });
        }
        // There are fewer switches and hosts than LIDs.
        let switch = |host: &Host| leaves[host.leaf as usize].switch.0 as u16;
        let mut by_lid: Vec<u16> = (0..all.len() as u16).collect();
        by_lid.sort_unstable_by_key(|&place| all[usize::from(place)].lid);
        let mut numbers = vec![0; all.len()];
        for (number, &place) in by_lid.iter().enumerate() {
            numbers[usize::from(place)] = number as u16;
        }
        Hosts {
            numbers,
            switches: all.iter().map(switch).collect(),
            blocks: blocks(&all, &by_lid),
            all,
            leaves,
            by_lid,
        }
    }

    /// The indices in [`Hosts::all`] of the hosts whose LIDs are in a block.
    pub(super) fn in_block(&self, block: &LidBlock) -> &[u16] {
        &self.by_lid[block.hosts.clone()]
    }

    pub(super) fn leaf(&self, host: &Host) -> Leaf {
        self.leaves[host.leaf as usize]
    }
}

/// The blocks that contain base LIDs of hosts. `by_lid` holds the hosts' indices in `all`, sorted
/// by LID.
fn blocks(all: &[Host], by_lid: &[u16]) -> Vec<LidBlock> {
    let block = |place: u16| all[usize::from(place)].lid.index() / BLOCK_LIDS;
    let mut start = 0;
    by_lid
        .chunk_by(|&one, &other| block(one) == block(other))
        .map(|hosts| {
            start += hosts.len();
            LidBlock {
                index: block(hosts[0]),
                hosts: start - hosts.len()..start,
            }
        })
        .collect()
}

/// Marks a switch that no group has reached.
const NONE: u32 = u32::MAX;

/// The switches with hosts in topological order: members of a group are adjacent at each round of
/// joins. The order of GUIDs breaks ties.
fn leaves_in_order(topology: &Topology) -> Vec<SwitchIdx> {
    let leaves: Vec<SwitchIdx> = topology
        .indices()
        .filter(|&switch| {
            let destinations = topology.destinations_of(switch);
            let is_host = |kind: EndpointKind| kind.is_host();
            destinations.iter().any(|found| is_host(found.kind))
        })
        .collect();
    let mut groups = DisjointSets((0..leaves.len() as u32).collect());
    // For each switch, a leaf of the group that reached it first.
    let mut reached = vec![NONE; topology.switch_count()];
    for (leaf, switch) in leaves.iter().enumerate() {
        reached[switch.index()] = leaf as u32;
    }
    // For each leaf, its group after each round in which groups were joined.
    let mut path: Vec<Vec<u32>> = vec![Vec::new(); leaves.len()];
    let mut frontier = leaves.clone();
    while !frontier.is_empty() {
        let mut farther = Vec::new();
        let mut joined = false;
        for switch in frontier {
            let here = reached[switch.index()];
            for group in topology.groups(switch) {
                let there = &mut reached[group.neighbour.index()];
                if *there == NONE {
                    *there = here;
                    farther.push(group.neighbour);
                } else {
                    joined |= groups.join(here, *there);
                }
            }
        }
        if joined {
            for (leaf, path) in path.iter_mut().enumerate() {
                path.push(groups.find(leaf as u32));
            }
        }
        frontier = farther;
    }
    let mut order: Vec<usize> = (0..leaves.len()).collect();
    order.sort_by(|&a, &b| {
        let [outer_a, outer_b] = [a, b].map(|leaf| path[leaf].iter().rev());
        outer_a.cmp(outer_b).then(a.cmp(&b))
    });
    order.into_iter().map(|leaf| leaves[leaf]).collect()
}

/// Disjoint sets of leaves, each identified by its lowest member. The element of each leaf is a
/// member of its set, and never higher than the leaf.
struct DisjointSets(Vec<u32>);

impl DisjointSets {
    /// The lowest member of a leaf's set.
    fn find(&mut self, mut leaf: u32) -> u32 {
        while self.0[leaf as usize] != leaf {
            let above = self.0[leaf as usize];
            self.0[leaf as usize] = self.0[above as usize];
            leaf = above;
        }
        leaf
    }

    /// Joins two groups; returns whether they were different.
    fn join(&mut self, a: u32, b: u32) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b) as usize] = a.min(b);
        a != b
    }
}
