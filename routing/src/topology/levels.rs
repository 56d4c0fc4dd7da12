//! Guesses the levels of a tree from the positions of the hosts, or from the top.

use super::{Component, SwitchIdx, Topology};

/// The deepest level, which switches further away share.
const DEEPEST: u8 = 254;

/// The hops from each switch to the nearest of some switches; `None` where no cable leads to one.
pub(crate) fn distances(topology: &Topology, from: &[SwitchIdx]) -> Vec<Option<u32>> {
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

/// The switches with at least one in `share` of the number of hosts of the fullest switch.
/// Aggregation nodes do not count as hosts: otherwise every spine would be an edge.
pub(crate) fn edges(topology: &Topology, share: usize) -> Vec<SwitchIdx> {
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

/// A switch whose hosts are fewer than one in this many of the fullest switch's may be a spine with
/// a storage or management node on it.
pub(crate) const FEW_HOSTS: usize = 4;

/// The share of a switch at the top of a tree of three levels with some hosts, next to no leaf.
pub(crate) const HALF: usize = 2;

/// Candidate sets of the switches with hosts, without switches that may be spines with a few hosts:
/// in a tree, no leaf is next to another leaf. The first set leaves out switches whose neighbours
/// are mostly leaves. Each further set leaves out, for one number of hosts, switches next to a leaf
/// that have at most as many hosts as it has. Spines are fewer than leaves, and each is next to a
/// leaf: a set that leaves out all leaves of a pod together with its spine would turn the pod
/// upside down.
pub(crate) fn edges_apart(topology: &Topology) -> Vec<Vec<SwitchIdx>> {
    let edges = edges(topology, ANY_HOST);
    let hosts = |switch: SwitchIdx| topology.hosts(switch);
    let neighbours = |switch: SwitchIdx| topology.groups(switch).map(|group| group.neighbour);
    let next_to = |switch: SwitchIdx| neighbours(switch).filter(|&other| hosts(other) > 0).count();
    let is_mostly_next = |switch: SwitchIdx| 2 * next_to(switch) > neighbours(switch).count();
    let next: Vec<SwitchIdx> = edges
        .iter()
        .copied()
        .filter(|&edge| next_to(edge) > 0)
        .collect();
    let without = |is_spine: &dyn Fn(SwitchIdx) -> bool| -> Vec<SwitchIdx> {
        let leaves = edges.iter().copied();
        leaves
            .filter(|&edge| next_to(edge) == 0 || !is_spine(edge))
            .collect()
    };
    let mut numbers: Vec<usize> = next.iter().map(|&edge| hosts(edge)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let by_number = numbers
        .into_iter()
        .map(|few| without(&|edge| hosts(edge) <= few));
    let mut found: Vec<Vec<SwitchIdx>> = vec![without(&is_mostly_next)];
    found.extend(by_number);
    found.dedup();
    let is_leaf = |leaves: &[SwitchIdx], switch| leaves.binary_search(&switch).is_ok();
    let are_spines_next = |leaves: &[SwitchIdx]| {
        let mut spines = edges.iter().filter(|&&edge| !is_leaf(leaves, edge));
        spines.all(|&spine| neighbours(spine).any(|other| is_leaf(leaves, other)))
    };
    found.retain(|leaves| {
        leaves.len() < edges.len() && leaves.len() * 2 > edges.len() && are_spines_next(leaves)
    });
    found
}

/// The share with which every switch with a host is an edge.
pub(crate) const ANY_HOST: usize = usize::MAX;

/// Levels by distance from the edge: the further away, the higher; level 0 is the top.
pub(crate) fn from_edges(topology: &Topology, share: usize) -> Vec<u8> {
    from_leaves(topology, &edges(topology, share))
}

/// Levels by distance from the given leaves; level 0 is the top.
pub(crate) fn from_leaves(topology: &Topology, leaves: &[SwitchIdx]) -> Vec<u8> {
    let distances = distances(topology, leaves);
    let farthest = distances.iter().copied().flatten().max().unwrap_or(0);
    distances
        .into_iter()
        .map(|hops| level(farthest - hops.unwrap_or(0)))
        .collect()
}

/// Levels by distance from the top; in a connected part without a top, all switches rank only by
/// GUID.
pub(crate) fn from_roots(topology: &Topology, roots: &[SwitchIdx]) -> Vec<u8> {
    distances(topology, roots)
        .into_iter()
        .map(|hops| level(hops.unwrap_or(0)))
        .collect()
}

/// For each connected part, the switches that are farthest from the leaves by these levels. `None`
/// if they are most of all switches, so that distances from them say little.
pub(crate) fn farthest_from_leaves(topology: &Topology, levels: &[u8]) -> Option<Vec<SwitchIdx>> {
    let level = |switch: &SwitchIdx| levels[switch.index()];
    let of_part = |part: &Component| {
        let top = part.switches.iter().map(level).min();
        let tops = part.switches.iter().copied();
        tops.filter(move |switch| Some(level(switch)) == top)
            .collect()
    };
    let tops: Vec<Vec<SwitchIdx>> = topology.components().iter().map(of_part).collect();
    let tops = tops.concat();
    (tops.len() * 2 < topology.switch_count()).then_some(tops)
}

fn level(hops: u32) -> u8 {
    u8::try_from(hops).unwrap_or(DEEPEST).min(DEEPEST)
}

/// For each connected part, a central switch: half-way along a path between two switches whose
/// distance is the largest that two breadth-first searches find.
pub(crate) fn centres(topology: &Topology) -> Vec<SwitchIdx> {
    topology
        .components()
        .iter()
        .filter_map(|part| {
            let start = *part.switches.first()?;
            let one_end = farthest(topology, &part.switches, start);
            let other_end = farthest(topology, &part.switches, one_end);
            let [from_one, from_other] =
                [one_end, other_end].map(|end| distances(topology, &[end]));
            // For a central switch, the farther of the two ends is as near as possible.
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
