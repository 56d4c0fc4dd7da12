//! Finds cables that are slower than most of their siblings.

use std::collections::{BTreeMap, BTreeSet};

use super::{Cable, HalfLink, SwitchIdx, Topology};

/// A slower rate between two kinds of switches is the fabric's design if this many fourths of the
/// switches of each kind have cables of that rate: dragonflies with slower global cables, for
/// instance.
const DESIGN_FOURTHS: usize = 3;

/// A cable between two switches that is slower than most of its siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowCable {
    /// The cable.
    pub cable: Cable,
    /// The rate of the cable, in the unit of the topology.
    pub rate: u32,
    /// The most common rate of its faster siblings. If the siblings are at both ends, the lower of
    /// the two rates.
    pub beside: u32,
}

/// The rates of a switch's cables, with the kind of the switch at the other end, ascending.
type Rates<K> = Vec<(K, u32)>;

impl Topology {
    /// Finds the cables that are slower than most of their siblings. The siblings of a cable are
    /// the other cables between its two switches; or, at each end, all cables to switches of the
    /// kind at the other end. `kind` returns the same value for switches that should have the same
    /// cables: switches of one model at one level.
    ///
    /// A slower rate is no fault if most switches of both kinds have such cables between them. If
    /// all cables of each switch have one rate, the search examines each cable once.
    pub fn slow_cables<K: Ord + Copy>(&self, kind: impl Fn(SwitchIdx) -> K) -> Vec<SlowCable> {
        let is_mixed: Vec<bool> = self.indices().map(|at| self.is_mixed(at)).collect();
        if !is_mixed.contains(&true) {
            return Vec::new();
        }
        let kinds: Vec<K> = self.indices().map(kind).collect();
        let rates: Vec<Rates<K>> = self
            .indices()
            .map(|at| match is_mixed[at.index()] {
                true => self.rates(at, &kinds),
                false => Vec::new(),
            })
            .collect();
        let mut parallel = Vec::new();
        let mut by_kind = Vec::new();
        for switch in self.indices().filter(|at| is_mixed[at.index()]) {
            for group in self.groups(switch).filter(|group| group.neighbour > switch) {
                let neighbour = group.neighbour;
                let mut beside: Vec<u32> = group.links.iter().map(|link| link.weight).collect();
                beside.sort_unstable();
                for link in group.links {
                    let slow = |beside| self.slow_cable(switch, neighbour, link, beside);
                    if let Some(usual) = usual_above(&beside, link.weight) {
                        parallel.push(slow(usual));
                        continue;
                    }
                    let here = usual_above_of_kind(
                        &rates[switch.index()],
                        kinds[neighbour.index()],
                        link.weight,
                    );
                    let there = usual_above_of_kind(
                        &rates[neighbour.index()],
                        kinds[switch.index()],
                        link.weight,
                    );
                    if let (Some(here), Some(there)) = (here, there) {
                        by_kind.push((switch, neighbour, slow(here.min(there))));
                    }
                }
            }
        }
        let mut slow = without_design(by_kind, &kinds);
        slow.extend(parallel);
        slow.sort_unstable_by_key(|slow| slow.cable);
        slow
    }

    /// Describes a slow cable whose siblings have the rate `beside`.
    fn slow_cable(
        &self,
        switch: SwitchIdx,
        neighbour: SwitchIdx,
        link: &HalfLink,
        beside: u32,
    ) -> SlowCable {
        SlowCable {
            cable: Cable {
                a: (self.switch(switch).guid, link.port),
                b: (self.switch(neighbour).guid, link.peer_port),
            },
            rate: link.weight,
            beside,
        }
    }

    /// Whether a switch has cables of different rates.
    fn is_mixed(&self, switch: SwitchIdx) -> bool {
        let mut links = self.groups(switch).flat_map(|group| group.links);
        let first = links.next().map(|link| link.weight);
        links.any(|link| Some(link.weight) != first)
    }

    /// The rates of a switch's cables.
    fn rates<K: Ord + Copy>(&self, switch: SwitchIdx, kinds: &[K]) -> Rates<K> {
        let groups = self.groups(switch);
        let mut rates: Rates<K> = groups
            .flat_map(|group| {
                let kind = kinds[group.neighbour.index()];
                group.links.iter().map(move |link| (kind, link.weight))
            })
            .collect();
        rates.sort_unstable();
        rates
    }
}

/// The most common rate above `rate` among the cables of a switch to switches of a kind; `None` if
/// faster cables are not the majority.
fn usual_above_of_kind<K: Ord + Copy>(rates: &Rates<K>, kind: K, rate: u32) -> Option<u32> {
    let start = rates.partition_point(|&(of, _)| of < kind);
    let end = rates.partition_point(|&(of, _)| of <= kind);
    let siblings = &rates[start..end];
    let faster = siblings.len() - siblings.partition_point(|&(_, of)| of <= rate);
    if !is_most(faster, siblings.len()) {
        return None;
    }
    let siblings: Vec<u32> = siblings.iter().map(|&(_, rate)| rate).collect();
    usual_above(&siblings, rate)
}

/// The most common rate above `rate` among `siblings`, which are ascending and contain `rate`;
/// `None` if faster rates are not the majority.
fn usual_above(siblings: &[u32], rate: u32) -> Option<u32> {
    let faster = &siblings[siblings.partition_point(|&of| of <= rate)..];
    if !is_most(faster.len(), siblings.len()) {
        return None;
    }
    let same = faster.chunk_by(|a, b| a == b);
    same.max_by_key(|same| same.len())?.first().copied()
}

/// Whether `count` of `all` are the majority; one of two counts as a majority.
fn is_most(count: usize, all: usize) -> bool {
    count * 2 > all || (all == 2 && count == 1)
}

/// Removes the cables whose rate is the fabric's design: [`DESIGN_FOURTHS`] of the switches of both
/// kinds have a slow cable of that rate to the other kind.
fn without_design<K: Ord + Copy>(
    slow: Vec<(SwitchIdx, SwitchIdx, SlowCable)>,
    kinds: &[K],
) -> Vec<SlowCable> {
    if slow.is_empty() {
        return Vec::new();
    }
    let mut sizes: BTreeMap<K, usize> = BTreeMap::new();
    for &kind in kinds {
        *sizes.entry(kind).or_default() += 1;
    }
    // For each two kinds and rate, the switches of the first kind that have a slow cable of that
    // rate to a switch of the second kind.
    let mut having: BTreeMap<(K, K, u32), BTreeSet<SwitchIdx>> = BTreeMap::new();
    for (a, b, slow) in &slow {
        let (of_a, of_b) = (kinds[a.index()], kinds[b.index()]);
        having
            .entry((of_a, of_b, slow.rate))
            .or_default()
            .insert(*a);
        having
            .entry((of_b, of_a, slow.rate))
            .or_default()
            .insert(*b);
    }
    let most_have = |of: K, to: K, rate: u32| {
        let count = having.get(&(of, to, rate)).map_or(0, BTreeSet::len);
        let switches_of_kind = sizes.get(&of).copied().unwrap_or(0);
        count * 4 >= switches_of_kind * DESIGN_FOURTHS
    };
    let is_fault = |(a, b, slow): &(SwitchIdx, SwitchIdx, SlowCable)| {
        let (of_a, of_b) = (kinds[a.index()], kinds[b.index()]);
        !(most_have(of_a, of_b, slow.rate) && most_have(of_b, of_a, slow.rate))
    };
    let faults = slow.into_iter().filter(is_fault);
    faults.map(|(_, _, slow)| slow).collect()
}
