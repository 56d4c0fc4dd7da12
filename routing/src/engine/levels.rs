//! Levels of a tree, guessed from where the hosts are, or from where the top is.

use crate::topology::{SwitchIdx, Topology};

/// The deepest level: farther switches share it.
const DEEPEST: u8 = 254;

/// Hops to the nearest of some switches; `None` where no cable leads to one.
pub(super) fn distances(topology: &Topology, from: &[SwitchIdx]) -> Vec<Option<u32>> {
    let mut distances = vec![None; topology.switch_count()];
    let mut queue = Vec::with_capacity(topology.switch_count());
    for &switch in from {
        if distances[switch.index()].is_none() {
            distances[switch.index()] = Some(0);
            queue.push(switch);
        }
    }
    let mut done = 0;
    while let Some(&switch) = queue.get(done) {
        done += 1;
        let next = distances[switch.index()].map(|hops| hops + 1);
        for group in topology.groups(switch) {
            let distance = &mut distances[group.neighbour.index()];
            if distance.is_none() {
                *distance = next;
                queue.push(group.neighbour);
            }
        }
    }
    distances
}

/// Switches that hosts hang off: at least one in `share` of as many as the fullest switch has.
/// Aggregation nodes are no hosts, or every spine would be an edge.
pub(super) fn edges(topology: &Topology, share: usize) -> Vec<SwitchIdx> {
    let hosts: Vec<usize> = topology
        .indices()
        .map(|switch| topology.hosts(switch))
        .collect();
    let most = hosts.iter().copied().max().unwrap_or(0);
    topology
        .indices()
        .filter(|switch| {
            let hosts = hosts[switch.index()];
            hosts > 0 && hosts.saturating_mul(share) >= most
        })
        .collect()
}

/// A switch with a smaller share of hosts may be a spine with a storage or management node on it.
pub(super) const FEW_HOSTS: usize = 4;

/// The share that makes every switch with a host an edge.
pub(super) const ANY_HOST: usize = usize::MAX;

/// Levels by distance from the edge: the farther, the higher; 0 at the top.
pub(super) fn from_edges(topology: &Topology, share: usize) -> Vec<u8> {
    let distances = distances(topology, &edges(topology, share));
    let farthest = distances.iter().copied().flatten().max().unwrap_or(0);
    distances
        .into_iter()
        .map(|hops| level(farthest - hops.unwrap_or(0)))
        .collect()
}

/// Levels by distance from the top; parts without a top of their own rank by GUID alone.
pub(super) fn from_roots(topology: &Topology, roots: &[SwitchIdx]) -> Vec<u8> {
    distances(topology, roots)
        .into_iter()
        .map(|hops| level(hops.unwrap_or(0)))
        .collect()
}

fn level(hops: u32) -> u8 {
    u8::try_from(hops).unwrap_or(DEEPEST).min(DEEPEST)
}

/// For each part, a switch in the middle: half-way along a path between two switches that are as
/// far from each other as two breadth-first searches find.
pub(super) fn centres(topology: &Topology) -> Vec<SwitchIdx> {
    topology
        .components()
        .iter()
        .filter_map(|part| {
            let start = *part.switches.first()?;
            let one_end = farthest(topology, &part.switches, start);
            let other_end = farthest(topology, &part.switches, one_end);
            let [from_one, from_other] =
                [one_end, other_end].map(|end| distances(topology, &[end]));
            // The farther of the two ends is nearest for a switch in the middle.
            part.switches.iter().copied().min_by_key(|switch| {
                let [one, other] = [&from_one, &from_other].map(|from| from[switch.index()]);
                (one.max(other), one.min(other), *switch)
            })
        })
        .collect()
}

fn farthest(topology: &Topology, part: &[SwitchIdx], from: SwitchIdx) -> SwitchIdx {
    let distances = distances(topology, &[from]);
    part.iter()
        .copied()
        .max_by_key(|switch| (distances[switch.index()], std::cmp::Reverse(*switch)))
        .unwrap_or(from)
}
