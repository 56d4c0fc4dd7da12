//! Measures load under adaptive routing, for the best and the worst choices of the switches.
//!
//! A switch may choose any port of a set, so that the load of a link depends on the choices:
//!
//! - *fixed*: every packet takes the port of the forwarding table, as without adaptive routing;
//! - *chosen well*: each flow stays on one path, and paths are moved off the fullest links until no
//!   move helps any more. This is an upper bound of the best load, and never above *fixed*;
//! - *spread evenly*: each switch sends an equal share to each port. Packets of flows that may
//!   arrive out of order come near to this load;
//! - *chosen badly*: every packet that may pass a link passes it. This bound is exact for each
//!   link: some choices of the switches produce it.
//!
//! Loads are relative to the rates of links, as without adaptive routing.

use fixedbitset::FixedBitSet;
use rayon::prelude::*;
use rsm_ids::Lid;

use super::carry;
use super::order::Hosts;
use super::patterns;
use crate::generate::rng::Rng;
use crate::tables::PortMask;
use crate::topology::{SwitchIdx, Topology};
use crate::verify::Held;
use crate::verify::fabric::Fabric;

/// The number of shifts in a sample. The sample is small because each shift follows every sequence
/// of choices of every flow.
pub const ADAPTIVE_SHIFTS: usize = 16;

/// The maximum number of passes over the paths of a shift; each pass moves paths off the fullest
/// links.
const PASSES: usize = 12;

/// The maximum link load relative to rate, for different choices of the switches.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct ByChoice {
    /// The load under the forwarding tables, without groups.
    pub fixed: f64,
    /// The load with the best choices that were found; `None` if no search was made.
    pub well: Option<f64>,
    /// The load if each port of a set gets an equal share.
    pub evenly: f64,
    /// The load with the worst choices.
    pub badly: f64,
}

impl ByChoice {
    /// The higher load of each kind.
    fn max(self, other: ByChoice) -> ByChoice {
        ByChoice {
            fixed: self.fixed.max(other.fixed),
            well: self.well.zip(other.well).map(|(one, other)| one.max(other)),
            evenly: self.evenly.max(other.evenly),
            badly: self.badly.max(other.badly),
        }
    }
}

/// The measures of how well groups spread traffic.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct AdaptiveQuality {
    /// The number of flows on the fullest link, relative to its rate, in the worst of the measured
    /// shifts.
    pub shift: ByChoice,
    /// The number of shifts that were measured.
    pub shifts: usize,
    /// The number of possible shifts.
    pub of: usize,
    /// The number of pairs of hosts on the fullest link, relative to its rate, while all pairs
    /// send.
    pub all_to_all: ByChoice,
}

/// Measures the load of the tables that switches hold, over all of their choices. `None` if a
/// packet may return to a switch, so that no number describes the load:
/// [`verify_sets`](crate::verify::verify_sets) reports that.
pub fn measure_adaptive(topology: &Topology, held: Held<'_>, seed: u64) -> Option<AdaptiveQuality> {
    let fabric = Fabric::new(topology);
    let hosts = Hosts::of(topology);
    let choices = Choices {
        fabric: &fabric,
        held,
        hosts: &hosts,
        slowness: carry::slowness(&fabric),
    };
    let distance_count = hosts.all.len().saturating_sub(1);
    let distances: Vec<usize> = Rng::new(seed)
        .sample(ADAPTIVE_SHIFTS, distance_count)
        .into_iter()
        .map(|distance| distance + 1)
        .collect();
    let shifts: Option<Vec<ByChoice>> = distances
        .par_iter()
        .map(|&distance| choices.shift(distance))
        .collect();
    let shift = shifts?.into_iter().reduce(ByChoice::max);
    Some(AdaptiveQuality {
        shift: shift.unwrap_or_default(),
        shifts: distances.len(),
        of: distance_count,
        all_to_all: choices.all_to_all()?,
    })
}

/// The adaptive routes whose quality is measured.
struct Choices<'a> {
    fabric: &'a Fabric<'a>,
    held: Held<'a>,
    hosts: &'a Hosts,
    /// The factors of [`carry::slowness`].
    slowness: Option<Vec<f64>>,
}

/// The switches that packets to a LID may pass before its destination switch, each with the ports
/// that it may choose.
struct ReachableSwitches {
    /// The switches with their ports; a switch comes after all switches to which it sends.
    switches: Vec<(usize, PortMask)>,
}

/// Memory that searches reuse.
struct Search {
    /// The switches that were reached.
    seen: FixedBitSet,
    /// The switches on `stack`.
    on_stack: FixedBitSet,
    /// The path of the depth-first search: switches, all their ports, and the ports not yet tried.
    stack: Vec<(usize, PortMask, PortMask)>,
}

impl Search {
    fn new(fabric: &Fabric<'_>) -> Search {
        Search {
            seen: FixedBitSet::with_capacity(fabric.switches + 1),
            on_stack: FixedBitSet::with_capacity(fabric.switches + 1),
            stack: Vec::new(),
        }
    }
}

impl Choices<'_> {
    /// A load on a channel, relative to rate.
    fn by_rate(&self, channel: usize, load: f64) -> f64 {
        carry::by_rate(self.slowness.as_deref(), channel, load)
    }

    /// The maximum channel load, relative to rate.
    fn fullest<T: Copy + Into<f64>>(&self, loads: &[T]) -> f64 {
        let loads = loads.iter().enumerate();
        let by_rate = loads.map(|(channel, &load)| self.by_rate(channel, load.into()));
        by_rate.fold(0.0, f64::max)
    }

    /// Finds the switches and ports by which packets from the switches `starts` may reach a LID at
    /// the switch `root`. `None` if packets may return to a switch.
    fn reachable(
        &self,
        starts: impl IntoIterator<Item = usize>,
        root: usize,
        lid: Lid,
        search: &mut Search,
    ) -> Option<ReachableSwitches> {
        let mut reachable = ReachableSwitches {
            switches: Vec::new(),
        };
        search.seen.clear();
        search.seen.insert(root);
        // Packets that are discarded load no further link.
        search.seen.insert(self.fabric.nowhere());
        let ports = |switch: usize| {
            // There are fewer switches than LIDs.
            let at = SwitchIdx(switch as u32);
            let ports = self.held.adaptive.ports(self.held.tables, at, lid);
            let links = ports.ports().filter(|port| {
                port.index() < self.fabric.stride
                    && self.fabric.next(self.fabric.channel(switch, port.0))
                        != self.fabric.nowhere()
            });
            links.collect::<PortMask>()
        };
        for start in starts {
            if search.seen.put(start) {
                continue;
            }
            search.on_stack.clear();
            search.on_stack.insert(start);
            let first = ports(start);
            search.stack.push((start, first, first));
            while let Some((switch, _, untried)) = search.stack.last_mut() {
                let Some(port) = untried.ports().next() else {
                    let done = search.stack.pop();
                    if let Some((switch, ports, _)) = done {
                        search.on_stack.remove(switch);
                        reachable.switches.push((switch, ports));
                    }
                    continue;
                };
                *untried = untried.without(port);
                let next = self.fabric.next(self.fabric.channel(*switch, port.0));
                if search.on_stack.contains(next) {
                    search.stack.clear();
                    return None;
                }
                if !search.seen.put(next) {
                    search.on_stack.insert(next);
                    let ports = ports(next);
                    search.stack.push((next, ports, ports));
                }
            }
        }
        Some(reachable)
    }

    /// The flows of a shift by `distance` hosts, except those within a leaf: source switch,
    /// destination switch and LID.
    fn flows(&self, distance: usize) -> Vec<(usize, usize, Lid)> {
        let switch = |host: usize| usize::from(self.hosts.switches[host]);
        patterns::shift(self.hosts.all.len(), distance)
            .map(|(from, to)| (switch(from), switch(to), self.hosts.all[to].lid))
            .filter(|&(from, to, _)| from != to)
            .collect()
    }

    /// The loads in a shift by `distance` hosts. `None` if a packet may return to a switch.
    fn shift(&self, distance: usize) -> Option<ByChoice> {
        let flows = self.flows(distance);
        let channels = self.fabric.channels();
        let (mut badly, mut evenly) = (vec![0u32; channels], vec![0f64; channels]);
        let mut search = Search::new(self.fabric);
        let mut shares = vec![0f64; self.fabric.switches + 1];
        for &(from, root, lid) in &flows {
            let reachable = self.reachable([from], root, lid, &mut search)?;
            shares[from] = 1.0;
            for &(switch, ports) in reachable.switches.iter().rev() {
                let share = std::mem::take(&mut shares[switch]) / ports.len().max(1) as f64;
                for port in ports.ports() {
                    let channel = self.fabric.channel(switch, port.0);
                    badly[channel] += 1;
                    evenly[channel] += share;
                    shares[self.fabric.next(channel)] += share;
                }
            }
            shares[root] = 0.0;
        }
        let (fixed, well) = self.fixed_and_well(&flows, &mut search)?;
        Some(ByChoice {
            fixed,
            well: Some(well),
            evenly: self.fullest(&evenly),
            badly: self.fullest(&badly),
        })
    }

    /// The number of flows on the fullest link, relative to its rate: by the forwarding tables, and
    /// after paths have been moved. `None` if a packet may return to a switch.
    fn fixed_and_well(
        &self,
        flows: &[(usize, usize, Lid)],
        search: &mut Search,
    ) -> Option<(f64, f64)> {
        let mut load = vec![0u32; self.fabric.channels()];
        let mut paths: Vec<Vec<usize>> = Vec::with_capacity(flows.len());
        for &flow in flows {
            let path = self.fixed_path(flow);
            path.iter().for_each(|&channel| load[channel] += 1);
            paths.push(path);
        }
        let fixed = self.fullest(&load);
        let mut least = fixed;
        let mut costs = vec![(0f64, 0usize); self.fabric.switches + 1];
        for _ in 0..PASSES {
            let most = self.fullest(&load);
            least = least.min(most);
            if most <= 1.0 {
                break;
            }
            let mut has_moved = false;
            for (&(from, root, lid), path) in flows.iter().zip(&mut paths) {
                let is_most = |channel| self.by_rate(channel, f64::from(load[channel])) == most;
                if !path.iter().any(|&channel| is_most(channel)) {
                    continue;
                }
                path.iter().for_each(|&channel| load[channel] -= 1);
                let reachable = self.reachable([from], root, lid, search)?;
                let other = self.least_loaded_path(&reachable, (from, root), &load, &mut costs);
                let with_flow = |channel| self.by_rate(channel, f64::from(load[channel] + 1));
                if other.iter().all(|&channel| with_flow(channel) < most) {
                    has_moved = true;
                    *path = other;
                }
                path.iter().for_each(|&channel| load[channel] += 1);
            }
            if !has_moved {
                break;
            }
        }
        Some((fixed, least.min(self.fullest(&load))))
    }

    /// The channels of a flow's path by the forwarding tables, up to the destination or to the
    /// switch that drops the flow.
    fn fixed_path(&self, (from, root, lid): (usize, usize, Lid)) -> Vec<usize> {
        let mut path = Vec::new();
        let mut at = from;
        // The bound ends a path that loops: other paths pass each switch at most once.
        while at != root && at != self.fabric.nowhere() && path.len() < self.fabric.switches {
            let lft = self.held.tables.lfts.get(at);
            let Some(port) = lft.and_then(|lft| lft.port(lid)) else {
                break;
            };
            let channel = self.fabric.channel(at, port.0);
            at = self.fabric.next(channel);
            path.push(channel);
        }
        path
    }

    /// The channels of the path on which the maximum link load, with one more flow, is lowest.
    /// `costs`, indexed by switch, is memory for reuse.
    fn least_loaded_path(
        &self,
        reachable: &ReachableSwitches,
        (from, root): (usize, usize),
        load: &[u32],
        costs: &mut [(f64, usize)],
    ) -> Vec<usize> {
        costs[root] = (0.0, 0);
        for &(switch, ports) in &reachable.switches {
            let by_port = ports.ports().map(|port| {
                let channel = self.fabric.channel(switch, port.0);
                let here = self.by_rate(channel, f64::from(load[channel] + 1));
                (here.max(costs[self.fabric.next(channel)].0), channel)
            });
            let least = by_port.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            costs[switch] = least.unwrap_or((f64::INFINITY, usize::MAX));
        }
        let mut path = Vec::new();
        let mut at = from;
        while at != root && costs[at].1 != usize::MAX {
            path.push(costs[at].1);
            at = self.fabric.next(costs[at].1);
        }
        path
    }

    /// The loads while all pairs of hosts send. `None` if a packet may return to a switch.
    fn all_to_all(&self) -> Option<ByChoice> {
        let populations = Populations::of(self.hosts);
        let share = self
            .hosts
            .leaves
            .len()
            .div_ceil(4 * rayon::current_num_threads());
        let leaves: Vec<usize> = (0..self.hosts.leaves.len()).collect();
        let sums: Option<Vec<Loads>> = leaves
            .par_chunks(share.max(1))
            .map(|leaves| {
                let mut sum = Loads::new(self.fabric.channels());
                let mut search = Search::new(self.fabric);
                for &leaf in leaves {
                    self.add_leaf(leaf, &populations, &mut search, &mut sum)?;
                }
                Some(sum)
            })
            .collect();
        let mut loads = Loads::new(self.fabric.channels());
        for sum in sums? {
            loads.add(&sum);
        }
        Some(ByChoice {
            fixed: self.fullest(&loads.fixed),
            well: None,
            evenly: self.fullest(&loads.evenly),
            badly: self.fullest(&loads.badly),
        })
    }

    /// Adds the load of all paths to the hosts of the leaf numbered `leaf`. Hosts with equal sets
    /// at all other switches are processed together. `None` if a packet may return to a switch.
    fn add_leaf(
        &self,
        leaf: usize,
        populations: &Populations,
        search: &mut Search,
        sum: &mut Loads,
    ) -> Option<()> {
        let root = self.hosts.leaves[leaf].switch.index();
        let of_leaf = self
            .hosts
            .all
            .iter()
            .filter(|host| host.leaf as usize == leaf);
        let starts = || {
            let leaves = self.hosts.leaves.iter();
            leaves
                .map(|leaf| leaf.switch.index())
                .filter(move |&switch| switch != root)
        };
        let mut hosts_by_choices: Vec<(ReachableSwitches, f64)> = Vec::new();
        for host in of_leaf {
            for (number, start) in starts().enumerate() {
                let hosts =
                    f64::from(self.hosts.leaves[number + usize::from(number >= leaf)].hosts);
                let path = self.fixed_path((start, root, host.lid));
                path.into_iter()
                    .for_each(|channel| sum.fixed[channel] += hosts);
            }
            let is_same = |reachable: &ReachableSwitches| {
                let mut switches = reachable.switches.iter();
                switches.all(|&(switch, ports)| {
                    let at = SwitchIdx(switch as u32);
                    self.held.adaptive.ports(self.held.tables, at, host.lid) == ports
                })
            };
            match hosts_by_choices
                .iter_mut()
                .find(|(reachable, _)| is_same(reachable))
            {
                Some((_, count)) => *count += 1.0,
                None => {
                    hosts_by_choices.push((self.reachable(starts(), root, host.lid, search)?, 1.0))
                }
            }
        }
        for (reachable, count) in hosts_by_choices {
            self.add_load(&reachable, root, count, populations, sum);
        }
        Some(())
    }

    /// Adds the load of packets from all other leaves to `count` hosts at the switch `root`.
    fn add_load(
        &self,
        reachable: &ReachableSwitches,
        root: usize,
        count: f64,
        populations: &Populations,
        sum: &mut Loads,
    ) {
        let switches = self.fabric.switches + 1;
        let mut shares = vec![0f64; switches];
        let mut sources = vec![FixedBitSet::new(); switches];
        for (number, leaf) in self.hosts.leaves.iter().enumerate() {
            let switch = leaf.switch.index();
            if switch != root {
                shares[switch] = f64::from(leaf.hosts);
                sources[switch].grow(self.hosts.leaves.len());
                sources[switch].insert(number);
            }
        }
        for &(switch, ports) in reachable.switches.iter().rev() {
            let share = shares[switch] / ports.len().max(1) as f64;
            let from = std::mem::take(&mut sources[switch]);
            let hosts = populations.hosts(&from);
            for port in ports.ports() {
                let channel = self.fabric.channel(switch, port.0);
                sum.evenly[channel] += share * count;
                sum.badly[channel] += hosts * count;
                let next = self.fabric.next(channel);
                shares[next] += share;
                if next != root {
                    sources[next].union_with(&from);
                }
            }
        }
    }
}

/// The load of each channel, for three of the kinds of choices in [`ByChoice`].
struct Loads {
    fixed: Vec<f64>,
    evenly: Vec<f64>,
    badly: Vec<f64>,
}

impl Loads {
    fn new(channels: usize) -> Loads {
        Loads {
            fixed: vec![0.0; channels],
            evenly: vec![0.0; channels],
            badly: vec![0.0; channels],
        }
    }

    fn add(&mut self, other: &Loads) {
        let add = |to: &mut [f64], from: &[f64]| {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        };
        add(&mut self.fixed, &other.fixed);
        add(&mut self.evenly, &other.evenly);
        add(&mut self.badly, &other.badly);
    }
}

/// The leaves grouped by their number of hosts, to count the hosts of many leaves at once. Each
/// entry has a number of hosts, and the indices of the leaves with that number.
struct Populations(Vec<(f64, FixedBitSet)>);

impl Populations {
    fn of(hosts: &Hosts) -> Populations {
        let mut by_count = std::collections::BTreeMap::<u32, FixedBitSet>::new();
        for (number, leaf) in hosts.leaves.iter().enumerate() {
            let leaves = by_count.entry(leaf.hosts).or_default();
            leaves.grow_and_insert(number);
        }
        let counts = by_count.into_iter();
        Populations(
            counts
                .map(|(count, leaves)| (f64::from(count), leaves))
                .collect(),
        )
    }

    /// The number of hosts at the leaves with these numbers.
    fn hosts(&self, leaves: &FixedBitSet) -> f64 {
        let counts = self.0.iter();
        counts
            .map(|(count, with)| count * with.intersection_count(leaves) as f64)
            .sum()
    }
}
