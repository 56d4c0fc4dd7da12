//! Guesses the levels of a tree from the positions of the hosts, or from its top switches.

use super::{Component, SwitchIdx, Topology};

/// The deepest level. Switches even further from the top have this level too.
const DEEPEST: u8 = 254;

/// For each switch, the number of hops to the nearest of the switches `from`; `None` if no path of
/// cables leads to one.
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

/// The edge switches: switches with at least `1 / share` of the hosts of the switch with the most
/// hosts. Aggregation nodes do not count as hosts: otherwise every spine would be an edge.
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

/// The share for [`edges`] that leaves out spines with a few storage or management nodes.
pub(crate) const FEW_HOSTS: usize = 4;

/// The share for [`edges`] that leaves out a top switch of a three-level tree with some hosts,
/// which is next to no leaf.
pub(crate) const HALF: usize = 2;

/// Candidate sets of leaves: the switches with hosts, without switches that may be spines with a
/// few hosts. In a tree, no leaf is next to another leaf. The first set leaves out switches whose
/// neighbours are mostly leaves. Each further set leaves out, for one number of hosts, the switches
/// next to a leaf that have at most that number. A candidate is valid only if the switches left out
/// are fewer than the leaves and each is next to a leaf. Otherwise a set could leave out all leaves
/// of a pod together with its spine, and turn the pod upside down.
pub(crate) fn leaf_candidates(topology: &Topology) -> Vec<Vec<SwitchIdx>> {
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

/// The share for [`edges`] with which every switch with a host is an edge.
pub(crate) const ANY_HOST: usize = usize::MAX;

/// The level of each switch by its distance from the edge switches; level 0, the farthest, is the
/// top.
pub(crate) fn from_edges(topology: &Topology, share: usize) -> Vec<u8> {
    from_leaves(topology, &edges(topology, share))
}

/// The level of each switch by its distance from the given leaves; level 0, the farthest, is the
/// top.
pub(crate) fn from_leaves(topology: &Topology, leaves: &[SwitchIdx]) -> Vec<u8> {
    let distances = distances(topology, leaves);
    let farthest = distances.iter().copied().flatten().max().unwrap_or(0);
    distances
        .into_iter()
        .map(|hops| level(farthest - hops.unwrap_or(0)))
        .collect()
}

/// The level of each switch: its distance from the nearest of `roots`, at most [`DEEPEST`]. In a
/// component without a root, all switches have level 0.
pub(crate) fn from_roots(topology: &Topology, roots: &[SwitchIdx]) -> Vec<u8> {
    distances(topology, roots)
        .into_iter()
        .map(|hops| level(hops.unwrap_or(0)))
        .collect()
}

/// For each component, the switches at its top level, concatenated. `None` if they are half of all
/// switches or more, so that distances from them say little.
pub(crate) fn farthest_from_leaves(topology: &Topology, levels: &[u8]) -> Option<Vec<SwitchIdx>> {
    let level = |switch: &SwitchIdx| levels[switch.index()];
    let of_component = |component: &Component| {
        let top = component.switches.iter().map(level).min();
        let tops = component.switches.iter().copied();
        tops.filter(move |switch| Some(level(switch)) == top)
            .collect()
    };
    let tops = topology
        .components()
        .iter()
        .map(of_component)
        .collect::<Vec<Vec<SwitchIdx>>>()
        .concat();
    (tops.len() * 2 < topology.switch_count()).then_some(tops)
}

/// A number of hops as a level, at most [`DEEPEST`].
fn level(hops: u32) -> u8 {
    u8::try_from(hops).unwrap_or(DEEPEST).min(DEEPEST)
}

/// For each component, a central switch: half-way between two switches that are as far apart as two
/// breadth-first searches can find.
pub(crate) fn centres(topology: &Topology) -> Vec<SwitchIdx> {
    topology
        .components()
        .iter()
        .filter_map(|component| {
            let start = *component.switches.first()?;
            let one_end = farthest(topology, &component.switches, start);
            let other_end = farthest(topology, &component.switches, one_end);
            let [from_one, from_other] =
                [one_end, other_end].map(|end| distances(topology, &[end]));
            // For a central switch, the farther of the two ends is as near as possible.
            component.switches.iter().copied().min_by_key(|switch| {
                let [one, other] = [&from_one, &from_other].map(|from| from[switch.index()]);
                (one.max(other), one.min(other), *switch)
            })
        })
        .collect()
}

/// The switch of a component that is farthest from one of its switches; the lowest number breaks
/// ties.
fn farthest(topology: &Topology, component: &[SwitchIdx], from: SwitchIdx) -> SwitchIdx {
    let distances = distances(topology, &[from]);
    component
        .iter()
        .copied()
        .max_by_key(|switch| (distances[switch.index()], std::cmp::Reverse(*switch)))
        .unwrap_or(from)
}
