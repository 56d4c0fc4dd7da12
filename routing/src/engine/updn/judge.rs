//! How good a ranking is: which pairs it reaches, over how many hops, and how evenly.

use rayon::prelude::*;

use super::super::order::Order;
use super::super::paths::{TILE, Tile, UNREACHED};
use crate::topology::{EndpointKind, SwitchIdx, Topology};

/// How much work judging balance may be, in port groups looked at. Where a fabric is so large that
/// it would be more, only every so many-th destination is looked at: rankings that differ in balance
/// differ on every destination. 2^22 is some 10 ms.
const BALANCE_WORK: usize = 1 << 22;

/// Which pairs a ranking reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    /// Connected pairs without a path, of those that count (see [`crate::verify::Report`]).
    pub(super) unreached: u64,
    /// The same for pairs of two switches.
    pub(super) switches_unreached: u64,
    /// Hops of all pairs of hosts together.
    pub(super) hops: u64,
}

/// What a ranking is worth.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Score {
    pub(super) reach: Reach,
    /// The fullest link, in paths over rate, when each switch shares traffic evenly over its choices.
    pub(super) peak_load: f64,
    /// What the fullest link carries under any routing: somebody's own links are that few.
    pub(super) least_load: f64,
}

/// How far above the least that is possible the fullest link may be for a ranking to be taken
/// without trying others.
const GOOD_LOAD: f64 = 1.25;

impl Score {
    /// Whether there is no point in trying other rankings: it reaches everything, switches too, and
    /// its fullest link is nearly one that is as full whatever one does.
    pub(super) fn is_good(&self) -> bool {
        self.reach.unreached == 0
            && self.reach.switches_unreached == 0
            && self.peak_load <= self.least_load * GOOD_LOAD
    }

    /// Whether this ranking is to be preferred to `other`, which comes earlier in the list and
    /// wins where they are alike. Differences of balance below 2 % and of hops below 0.5 % are none.
    pub(super) fn beats(&self, other: &Score) -> bool {
        if self.reach.unreached != other.reach.unreached {
            return self.reach.unreached < other.reach.unreached;
        }
        let (mine, theirs) = (self.peak_load, other.peak_load);
        if mine < theirs * 0.98 || theirs < mine * 0.98 {
            return mine < theirs;
        }
        let (mine, theirs) = (self.reach.hops as f64, other.reach.hops as f64);
        if mine < theirs * 0.995 || theirs < mine * 0.995 {
            return mine < theirs;
        }
        self.reach.switches_unreached < other.reach.switches_unreached
    }
}

/// What hangs off each switch.
pub(super) struct Population {
    /// Hosts.
    hosts: Vec<u64>,
    /// Ports of any kind but port 0.
    ports: Vec<u64>,
    /// LIDs of these.
    port_lids: Vec<u64>,
    /// LIDs of port 0.
    switch_lids: Vec<u64>,
}

impl Population {
    pub(super) fn new(topology: &Topology) -> Population {
        let count = topology.switch_count();
        let mut population = Population {
            hosts: vec![0; count],
            ports: vec![0; count],
            port_lids: vec![0; count],
            switch_lids: vec![0; count],
        };
        for destination in topology.destinations() {
            let switch = destination.switch.index();
            let lids = u64::from(destination.lmc.lids());
            if destination.kind == EndpointKind::Switch0 {
                population.switch_lids[switch] += lids;
            } else {
                population.ports[switch] += 1;
                population.port_lids[switch] += lids;
                population.hosts[switch] += u64::from(destination.kind.is_host());
            }
        }
        population
    }
}

/// Counts the pairs that the ranking behind these costs reaches.
pub(super) fn reach(topology: &Topology, tiles: &[Tile], population: &Population) -> Reach {
    let counts: Vec<(u64, u64, u64)> = tiles
        .par_iter()
        .map(|tile| pairs(topology, tile, population))
        .collect();
    let mut reach = Reach {
        unreached: 0,
        switches_unreached: 0,
        hops: 0,
    };
    for (unreached, switches_unreached, hops) in counts {
        reach.unreached += unreached;
        reach.switches_unreached += switches_unreached;
        reach.hops += hops;
    }
    reach
}

/// Judges the ranking that gave these costs.
pub(super) fn judge(
    topology: &Topology,
    order: &Order,
    tiles: &[Tile],
    population: &Population,
) -> Score {
    let sampled = sample(topology, population);
    Score {
        reach: reach(topology, tiles, population),
        peak_load: peak_load(topology, order, tiles, population, &sampled),
        least_load: least_load(topology, population, &sampled),
    }
}

/// (unreached pairs that count, unreached pairs of switches, hops between hosts) of a tile.
fn pairs(topology: &Topology, tile: &Tile, population: &Population) -> (u64, u64, u64) {
    let (mut unreached, mut switches_unreached, mut hops) = (0, 0, 0);
    let width = tile.width();
    let mut hosts = [0u32; TILE];
    for (column, hosts) in hosts.iter_mut().enumerate().take(width) {
        // At most 254 ports to a switch.
        *hosts = population.hosts[tile.first + column] as u32;
    }
    for switch in topology.indices() {
        let row = tile.cost(switch);
        let part = topology.component_of(switch);
        if row[..width].contains(&UNREACHED) {
            for (column, _) in row[..width]
                .iter()
                .enumerate()
                .filter(|(_, cost)| **cost == UNREACHED)
            {
                let to = tile.first + column;
                if topology.component_of(SwitchIdx(to as u32)) == part {
                    let (ports, switches) = (population.port_lids[to], population.switch_lids[to]);
                    unreached += population.ports[switch.index()] * (ports + switches) + ports;
                    switches_unreached += switches;
                }
            }
        }
        let from = population.hosts[switch.index()];
        if from > 0 {
            let row_hops: u32 = row
                .iter()
                .zip(&hosts)
                .map(|(&cost, &hosts)| {
                    if cost == UNREACHED {
                        0
                    } else {
                        u32::from(cost) * hosts
                    }
                })
                .sum();
            hops += u64::from(row_hops) * from;
        }
    }
    (unreached, switches_unreached, hops)
}

/// The leaves that balance is judged on.
fn sample(topology: &Topology, population: &Population) -> Vec<usize> {
    let is_leaf = |switch: &usize| population.hosts[*switch] > 0;
    let leaves = (0..topology.switch_count()).filter(is_leaf).count();
    let step = topology.group_count().saturating_mul(leaves) / BALANCE_WORK + 1;
    (0..topology.switch_count())
        .filter(is_leaf)
        .step_by(step)
        .collect()
}

/// What has to go through the links of one leaf, shared evenly over all of them, at the fullest.
fn least_load(topology: &Topology, population: &Population, sampled: &[usize]) -> f64 {
    let mut from_all = vec![0; topology.components().len()];
    let mut to_sampled = vec![0; topology.components().len()];
    for switch in topology.indices() {
        from_all[topology.component_of(switch)] += population.hosts[switch.index()];
    }
    for &leaf in sampled {
        to_sampled[topology.component_of(SwitchIdx(leaf as u32))] += population.hosts[leaf];
    }
    let mut least: f64 = 0.0;
    for switch in topology.indices() {
        let links = topology.groups(switch).flat_map(|group| group.links);
        let rate: f64 = links.map(|link| f64::from(link.weight)).sum();
        if rate > 0.0 {
            let part = topology.component_of(switch);
            let hosts = population.hosts[switch.index()];
            let is_sampled = sampled.binary_search(&switch.index()).is_ok();
            let own = if is_sampled { hosts } else { 0 };
            let outward = hosts * (to_sampled[part] - own);
            let inward = own * (from_all[part] - hosts);
            least = least.max(outward.max(inward) as f64 / rate);
        }
    }
    least
}

fn peak_load(
    topology: &Topology,
    order: &Order,
    tiles: &[Tile],
    population: &Population,
    sampled: &[usize],
) -> f64 {
    let groups = topology.group_count();
    let loads: Vec<Vec<f64>> = tiles
        .par_iter()
        .map(|tile| {
            let first = sampled.partition_point(|&leaf| leaf < tile.first);
            let end = sampled.partition_point(|&leaf| leaf < tile.first + TILE);
            let mut flows = Flows::new(topology, order, population, groups);
            for &leaf in &sampled[first..end] {
                flows.add(tile, leaf);
            }
            flows.load
        })
        .collect();
    // Added up in the order of tiles, so that the sum is the same on any number of threads.
    (0..groups)
        .map(|group| loads.iter().map(|load| load[group]).sum())
        .fold(0.0, f64::max)
}

/// Traffic from all hosts, as it flows towards one leaf after another.
struct Flows<'a> {
    topology: &'a Topology,
    order: &'a Order,
    population: &'a Population,
    /// By port group of the topology: paths over rate.
    load: Vec<f64>,
    /// By port group: the rate of its links together.
    rate: Vec<f64>,
    flow: Vec<f64>,
    by_cost: Vec<Vec<SwitchIdx>>,
}

impl<'a> Flows<'a> {
    fn new(
        topology: &'a Topology,
        order: &'a Order,
        population: &'a Population,
        groups: usize,
    ) -> Flows<'a> {
        let rate = |group| {
            let links = topology.group(group).links;
            links.iter().map(|link| f64::from(link.weight)).sum()
        };
        Flows {
            topology,
            order,
            population,
            load: vec![0.0; groups],
            rate: (0..groups).map(rate).collect(),
            flow: vec![0.0; topology.switch_count()],
            by_cost: vec![Vec::new(); usize::from(UNREACHED)],
        }
    }

    fn add(&mut self, tile: &Tile, leaf: usize) {
        let column = leaf - tile.first;
        for switches in &mut self.by_cost {
            switches.clear();
        }
        for switch in self.topology.indices() {
            let cost = tile.cost(switch)[column];
            if cost != UNREACHED {
                self.by_cost[usize::from(cost)].push(switch);
            }
            self.flow[switch.index()] = self.population.hosts[switch.index()] as f64;
        }
        let hosts = self.population.hosts[leaf] as f64;
        for cost in (1..self.by_cost.len()).rev() {
            for place in 0..self.by_cost[cost].len() {
                self.pass_on(tile, self.by_cost[cost][place], column, hosts);
            }
        }
    }

    /// Passes what a switch has for the leaf on to its choices, each by its rate.
    fn pass_on(&mut self, tile: &Tile, switch: SwitchIdx, column: usize, hosts: f64) {
        let flow = self.flow[switch.index()];
        if flow == 0.0 {
            return;
        }
        let goes_down = tile.down[switch.index()][column] != UNREACHED;
        let rows = if goes_down { &tile.down } else { &tile.taken };
        let next = tile.cost(switch)[column] - 1;
        let topology = self.topology;
        let order = self.order;
        let choices = topology.group_range(switch).filter(|&group| {
            let neighbour = topology.group(group).neighbour;
            rows[neighbour.index()][column] == next
                && order.is_above(switch, neighbour) == goes_down
        });
        let rate: f64 = choices.clone().map(|group| self.rate[group]).sum();
        for group in choices {
            self.load[group] += flow * hosts / rate;
            let neighbour = topology.group(group).neighbour.index();
            self.flow[neighbour] += flow * self.rate[group] / rate;
        }
    }
}
