//! Scalable units and rails, found from where the ports of GPUs are cabled to.
//!
//! Leaves that the same hosts reach are one unit; hosts with one port are in the unit of its leaf.
//! The rail of a slot (the k-th compute port of a host) is, in each unit, the leaf that most hosts'
//! k-th ports reach. Names of devices and switches play no part.

use std::collections::BTreeMap;

use super::fabric::GpuFabric;
use super::host::Host;
use rsm_routing::topology::SwitchIdx;

/// Hosts whose GPUs share leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unit {
    /// Its leaves, in the order of GUIDs.
    pub leaves: Vec<SwitchIdx>,
    /// Its hosts, by their places, ascending.
    pub hosts: Vec<usize>,
    /// The leaf of each slot, and how sure that is.
    ///
    /// A slot of which no port is joined has none.
    pub rails: Vec<Option<Rail>>,
}

/// The leaf of a unit's hosts at one slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rail {
    /// The leaf that most hosts reach there; the lowest GUID of those that are as frequent.
    pub leaf: SwitchIdx,
    /// How many reach it.
    pub votes: u32,
    /// How many reach the next most frequent one. A leaf without more votes is a guess.
    pub runner_up: u32,
}

impl Rail {
    /// Whether more hosts reach this leaf than any other.
    pub const fn is_sure(&self) -> bool {
        self.votes > self.runner_up
    }
}

/// The units of a fabric.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rails {
    /// In the order of their lowest leaf.
    pub units: Vec<Unit>,
    /// The unit of each host, by its place; `None` when no compute port of it is joined.
    pub unit_of: Vec<Option<u32>>,
}

impl Rails {
    /// The units and rails of these hosts.
    pub(super) fn find(hosts: &[Host], fabric: &GpuFabric) -> Rails {
        let leaves_of: Vec<Vec<SwitchIdx>> =
            hosts.iter().map(|host| leaves(host, fabric)).collect();
        let mut sets = Sets::new(fabric.topology.switch_count());
        let mut reach: BTreeMap<SwitchIdx, u32> = BTreeMap::new();
        let mut pairs = Vec::new();
        for leaves in &leaves_of {
            let mut distinct = leaves.clone();
            distinct.sort_unstable();
            distinct.dedup();
            for (at, &one) in distinct.iter().enumerate() {
                *reach.entry(one).or_default() += 1;
                pairs.extend(distinct[at + 1..].iter().map(|&other| (one, other)));
            }
        }
        pairs.sort_unstable();
        for shared in pairs.chunk_by(|one, other| one == other) {
            let (one, other) = shared[0];
            // More than half of the hosts of either: a cable in a wrong unit joins none.
            let fewer = reach[&one].min(reach[&other]);
            if 2 * shared.len() > fewer as usize {
                sets.join(one.index(), other.index());
            }
        }
        let mut units: BTreeMap<usize, Vec<SwitchIdx>> = BTreeMap::new();
        for &leaf in reach.keys() {
            units
                .entry(sets.lowest(leaf.index()))
                .or_default()
                .push(leaf);
        }
        let mut unit_of_leaf: BTreeMap<SwitchIdx, u32> = BTreeMap::new();
        let mut out = Rails::default();
        for leaves in units.into_values() {
            // Fewer units than switches.
            let number = out.units.len() as u32;
            unit_of_leaf.extend(leaves.iter().map(|&leaf| (leaf, number)));
            out.units.push(Unit {
                leaves,
                hosts: Vec::new(),
                rails: Vec::new(),
            });
        }
        for (place, leaves) in leaves_of.iter().enumerate() {
            let mut count: BTreeMap<u32, usize> = BTreeMap::new();
            for leaf in leaves {
                *count.entry(unit_of_leaf[leaf]).or_default() += 1;
            }
            let most = count
                .iter()
                .max_by_key(|&(&unit, &count)| (count, std::cmp::Reverse(unit)));
            let unit = most.map(|(&unit, _)| unit);
            if let Some(unit) = unit {
                out.units[unit as usize].hosts.push(place);
            }
            out.unit_of.push(unit);
        }
        for unit in &mut out.units {
            unit.rails = vote(unit, hosts, |host, slot| {
                let host = &hosts[host];
                let port = *host.slots.get(slot)?;
                Some(fabric.port(host.joined[port].port()?).leaf)
            });
        }
        out.units.retain(|unit| !unit.hosts.is_empty());
        for (number, unit) in (0u32..).zip(&out.units) {
            for &host in &unit.hosts {
                out.unit_of[host] = Some(number);
            }
        }
        out
    }

    /// The unit of a host.
    pub fn unit(&self, host: usize) -> Option<&Unit> {
        let unit = self.unit_of.get(host).copied().flatten()?;
        self.units.get(unit as usize)
    }

    /// The leaf that a host's slot should reach.
    pub fn rail(&self, host: usize, slot: usize) -> Option<Rail> {
        self.unit(host)?.rails.get(slot).copied().flatten()
    }

    /// The rails whose leaf this is, as far as a host's unit is concerned, ascending.
    pub fn rails_at(&self, host: usize, leaf: SwitchIdx) -> impl Iterator<Item = u16> + '_ {
        let rails = self.unit(host).map_or(&[][..], |unit| &unit.rails);
        let has = move |rail: &Option<Rail>| rail.is_some_and(|rail| rail.leaf == leaf);
        (0u16..)
            .zip(rails)
            .filter(move |(_, rail)| has(rail))
            .map(|(number, _)| number)
    }
}

/// For each place in the hosts of a unit, the leaf that most of them have there: `leaf` returns the
/// leaf of one host, by its place among `hosts`.
pub(super) fn vote(
    unit: &Unit,
    hosts: &[Host],
    leaf: impl Fn(usize, usize) -> Option<SwitchIdx>,
) -> Vec<Option<Rail>> {
    let places = unit
        .hosts
        .iter()
        .map(|&host| hosts[host].slots.len())
        .max()
        .unwrap_or(0);
    let mut rails = Vec::with_capacity(places);
    for place in 0..places {
        let mut count: BTreeMap<SwitchIdx, u32> = BTreeMap::new();
        for &host in &unit.hosts {
            if let Some(leaf) = leaf(host, place) {
                *count.entry(leaf).or_default() += 1;
            }
        }
        let mut ranked: Vec<(u32, SwitchIdx)> =
            count.into_iter().map(|(leaf, n)| (n, leaf)).collect();
        ranked.sort_by_key(|&(votes, leaf)| (std::cmp::Reverse(votes), leaf));
        let runner_up = ranked.get(1).map_or(0, |next| next.0);
        rails.push(ranked.first().map(|&(votes, leaf)| Rail {
            leaf,
            votes,
            runner_up,
        }));
    }
    rails
}

fn leaves(host: &Host, fabric: &GpuFabric) -> Vec<SwitchIdx> {
    let joined = host
        .slots
        .iter()
        .filter_map(|&port| host.joined[port].port());
    joined.map(|index| fabric.port(index).leaf).collect()
}

/// Disjoint sets of switches.
pub(super) struct Sets(Vec<usize>);

impl Sets {
    pub(super) fn new(count: usize) -> Sets {
        Sets((0..count).collect())
    }

    pub(super) fn lowest(&mut self, of: usize) -> usize {
        let mut at = of;
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    pub(super) fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.lowest(one), self.lowest(other));
        self.0[one.max(other)] = one.min(other);
    }
}
