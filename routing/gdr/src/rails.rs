//! Finds scalable units and rails from the leaves to which the ports of GPUs are cabled.
//!
//! Leaves that the same hosts reach form one unit; a host with one port is in the unit of its leaf.
//! The slot of a port follows from its PCIe place, by the order that most hosts of its machine type
//! have. The rail of a slot is, in each unit, the leaf that most hosts' ports in that slot reach. A
//! host that lacks a port leaves its slot empty. A port at a PCIe place that no other host uses
//! gets the slot of its leaf. In a unit with several machine types, the type with the most hosts
//! determines the rails, and slots of other types get the numbers of the rails that most of their
//! ports reach. Names of devices and switches do not matter.

use std::collections::{BTreeMap, BTreeSet};

use super::fabric::GpuFabric;
use super::host::Host;
use super::peers::{Peers, leaf};
use rsm_routing::topology::SwitchIdx;

/// A scalable unit: hosts whose GPUs share leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unit {
    /// The leaves, sorted by GUID.
    pub leaves: Vec<SwitchIdx>,
    /// The hosts by position, ascending.
    pub hosts: Vec<usize>,
    /// The rail of each slot; `None` for a slot without a joined port.
    pub rails: Vec<Option<Rail>>,
}

/// The leaf that a unit's hosts reach by one slot, with the votes for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rail {
    /// The leaf that most hosts reach by the slot; the lowest GUID on a tie.
    pub leaf: SwitchIdx,
    /// The number of hosts that reach this leaf.
    pub votes: u32,
    /// The number of hosts that reach the next most frequent leaf. On a tie, the leaf is a guess.
    pub runner_up: u32,
}

impl Rail {
    /// Whether more hosts reach this leaf than any other leaf.
    pub const fn is_sure(&self) -> bool {
        self.votes > self.runner_up
    }
}

/// The units of a fabric.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rails {
    /// The units, sorted by their lowest leaf.
    pub units: Vec<Unit>,
    /// The unit of each host, by position; `None` if none of the host's compute ports is joined.
    pub unit_of: Vec<Option<u32>>,
}

impl Rails {
    /// Finds the units and rails of `hosts`, and puts the hosts' ports into the slots of their
    /// rails.
    pub(super) fn find(hosts: &mut [Host], peers: &Peers, fabric: &GpuFabric) -> Rails {
        let mut rails = Rails::units(hosts, fabric);
        for unit in &mut rails.units {
            let numbering = Numbering::of(unit, hosts, peers);
            numbering.clear_slots_of_unlike(hosts);
            unit.rails = vote(unit, hosts, |host, slot| {
                if numbering.translated.contains(&host) {
                    return None;
                }
                leaf(&hosts[host], (*hosts[host].slots.get(slot)?)?, fabric)
            });
            numbering.translate(&unit.rails, hosts, peers, fabric);
            for &host in &unit.hosts {
                place_by_leaf(&mut hosts[host], &unit.rails, fabric);
            }
        }
        hosts.iter_mut().for_each(Host::append_unplaced);
        rails
    }

    /// Finds the units, without their rails.
    fn units(hosts: &[Host], fabric: &GpuFabric) -> Rails {
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
            // Join leaves that share more than half of the hosts of the leaf with fewer hosts: a
            // cable in a wrong unit joins none.
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
            // There are fewer units than switches.
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
        out.units.retain(|unit| !unit.hosts.is_empty());
        for (number, unit) in (0u32..).zip(&out.units) {
            for &host in &unit.hosts {
                out.unit_of[host] = Some(number);
            }
        }
        out
    }

    /// The unit of a host; `None` for a host without a unit.
    pub fn unit(&self, host: usize) -> Option<&Unit> {
        let unit = self.unit_of.get(host).copied().flatten()?;
        self.units.get(unit as usize)
    }

    /// The rail of a host's slot: the leaf that the slot should reach.
    pub fn rail(&self, host: usize, slot: usize) -> Option<Rail> {
        self.unit(host)?.rails.get(slot).copied().flatten()
    }

    /// The rails of a host's unit whose leaf is `leaf`, ascending.
    pub fn rails_at(&self, host: usize, leaf: SwitchIdx) -> impl Iterator<Item = u16> + '_ {
        let rails = self.unit(host).map_or(&[][..], |unit| &unit.rails);
        let is_at_leaf = move |rail: &Option<Rail>| rail.is_some_and(|rail| rail.leaf == leaf);
        (0u16..)
            .zip(rails)
            .filter(move |(_, rail)| is_at_leaf(rail))
            .map(|(number, _)| number)
    }
}

/// The rail of each slot by the votes of a unit's hosts: `leaf` returns the leaf of one host, given
/// by position, at a slot.
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

/// The leaves of a host's joined compute ports, one for each port.
fn leaves(host: &Host, fabric: &GpuFabric) -> Vec<SwitchIdx> {
    let ports = host.compute_slots().chain(host.unplaced.iter().copied());
    ports.filter_map(|port| leaf(host, port, fabric)).collect()
}

/// The hosts of a unit whose slots need new numbers, so that a number means the same rail in all
/// hosts.
struct Numbering {
    /// The hosts of machine types with fewer hosts in the unit, by family.
    other_families: BTreeMap<usize, Vec<usize>>,
    /// The hosts without a family whose number of ports differs from the main type's.
    unlike: Vec<usize>,
    /// The hosts of `other_families` and `unlike`: they have no vote.
    translated: BTreeSet<usize>,
}

impl Numbering {
    /// The numbering of a unit: the machine type with the most hosts keeps its slots.
    fn of(unit: &Unit, hosts: &[Host], peers: &Peers) -> Numbering {
        let mut groups: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
        for &host in &unit.hosts {
            groups.entry(peers.of_host[host]).or_default().push(host);
        }
        let slots = |group: Option<usize>, members: &[usize]| match group {
            Some(family) => peers.families[family].slots.len(),
            None => usual_count(members, hosts),
        };
        let main = groups
            .iter()
            .map(|(&group, members)| (members.len(), slots(group, members), group))
            .max_by_key(|&(members, slots, group)| (members, slots, std::cmp::Reverse(group)));
        let (width, main) = main.map_or((0, None), |(_, slots, group)| (slots, group));
        let mut numbering = Numbering {
            other_families: BTreeMap::new(),
            unlike: Vec::new(),
            translated: BTreeSet::new(),
        };
        for (group, members) in groups {
            match group {
                Some(family) if group != main => {
                    numbering.translated.extend(&members);
                    numbering.other_families.insert(family, members);
                }
                None => {
                    let unlike = members
                        .into_iter()
                        .filter(|&host| hosts[host].slots.len() != width);
                    numbering.unlike.extend(unlike);
                }
                Some(_) => {}
            }
        }
        numbering.translated.extend(&numbering.unlike);
        numbering
    }

    /// Empties the slots of unlike hosts: only their leaves can number them.
    fn clear_slots_of_unlike(&self, hosts: &mut [Host]) {
        for &host in &self.unlike {
            let host = &mut hosts[host];
            let slots = std::mem::take(&mut host.slots);
            host.unplaced.extend(slots.into_iter().flatten());
        }
    }

    /// Gives the slots of other machine types the numbers of the rails that most of their ports in
    /// this unit reach.
    fn translate(
        &self,
        rails: &[Option<Rail>],
        hosts: &mut [Host],
        peers: &Peers,
        fabric: &GpuFabric,
    ) {
        for (&family, members) in &self.other_families {
            let width = peers.families[family].slots.len();
            let mut number: Vec<Option<usize>> = Vec::with_capacity(width);
            for slot in 0..width {
                let mut count: BTreeMap<SwitchIdx, usize> = BTreeMap::new();
                for &member in members {
                    let host = &hosts[member];
                    let port = host.slots.get(slot).copied().flatten();
                    if let Some(leaf) = port.and_then(|port| leaf(host, port, fabric)) {
                        *count.entry(leaf).or_default() += 1;
                    }
                }
                let most = count.iter().max_by_key(|&(_, &count)| count);
                let total: usize = count.values().sum();
                let usual = most.filter(|&(_, &most)| 2 * most > total);
                let free = |(rail, of_rail): (usize, &Option<Rail>)| {
                    let here = of_rail.is_some_and(|rail| usual.is_some_and(|u| *u.0 == rail.leaf));
                    (here && !number.contains(&Some(rail))).then_some(rail)
                };
                let found = rails.iter().enumerate().find_map(free);
                number.push(found);
            }
            for &member in members {
                let host = &mut hosts[member];
                let old = std::mem::replace(&mut host.slots, vec![None; rails.len()]);
                for (slot, port) in old.into_iter().enumerate() {
                    match (port, number.get(slot).copied().flatten()) {
                        (Some(port), Some(rail)) => host.slots[rail] = Some(port),
                        (Some(port), None) => host.unplaced.push(port),
                        (None, _) => {}
                    }
                }
            }
        }
    }
}

/// The most frequent number of compute ports of these hosts.
fn usual_count(members: &[usize], hosts: &[Host]) -> usize {
    let mut count: BTreeMap<usize, usize> = BTreeMap::new();
    for &host in members {
        *count.entry(hosts[host].slots.len()).or_default() += 1;
    }
    let most = count
        .into_iter()
        .max_by_key(|&(slots, hosts)| (hosts, slots));
    most.map_or(0, |(slots, _)| slots)
}

/// Puts a host's unplaced ports into the empty slots of the rails whose leaves they reach.
fn place_by_leaf(host: &mut Host, rails: &[Option<Rail>], fabric: &GpuFabric) {
    let unplaced = std::mem::take(&mut host.unplaced);
    for port in unplaced {
        let at = leaf(host, port, fabric);
        let free = (0..rails.len()).find(|&slot| {
            let of_rail = rails[slot].is_some_and(|rail| Some(rail.leaf) == at);
            of_rail && host.slots.get(slot).copied().flatten().is_none()
        });
        match free {
            Some(slot) => {
                if host.slots.len() <= slot {
                    host.slots.resize(slot + 1, None);
                }
                host.slots[slot] = Some(port);
            }
            None => host.unplaced.push(port),
        }
    }
    // Ports that stay unplaced come behind the rails of the unit.
    if !host.unplaced.is_empty() && host.slots.len() < rails.len() {
        host.slots.resize(rails.len(), None);
    }
}

/// Disjoint sets of switches.
pub(crate) struct Sets(Vec<usize>);

impl Sets {
    /// `count` sets of one switch each.
    pub(crate) fn new(count: usize) -> Sets {
        Sets((0..count).collect())
    }

    /// The lowest switch in the set of a switch.
    pub(crate) fn lowest(&mut self, of: usize) -> usize {
        let mut at = of;
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    /// Unites the sets of two switches.
    pub(crate) fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.lowest(one), self.lowest(other));
        self.0[one.max(other)] = one.min(other);
    }
}
