//! Scores a ranking: the number of pairs that it connects, their hops, and the balance of the load.

use rayon::prelude::*;

use super::super::fabric_tree::Apexes;
use super::super::paths::{Costs, Neighbours, TILE, Tile, UNREACHED, nearer};
use super::super::slots;
use crate::topology::{EndpointKind, SwitchIdx, Topology};

/// The maximum work to score balance, in port groups examined; 2^22 takes about 10 ms. In a fabric
/// that would take more, scoring samples every n-th destination: rankings that differ in balance
/// differ on every destination.
const BALANCE_WORK: usize = 1 << 22;

/// The number of pairs that a ranking leaves without a path, and the hops of the other pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    /// The number of pairs with an end port, connected by cables, that have no path (see
    /// [`crate::verify::Report`]).
    pub(super) unreached: u64,
    /// The number of pairs of two switches without a path.
    pub(super) switches_unreached: u64,
    /// The number of pairs of two hosts without a path.
    pub(super) hosts_unreached: u64,
    /// The sum of the hops of all pairs of hosts that have a path.
    pub(super) hops: u64,
}

/// The score of a ranking.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Score {
    /// The pairs that the ranking itself reaches, without detours.
    pub(super) reach: Reach,
    /// Whether detours connect the pairs that the ranking leaves without a path.
    pub(super) is_mended: bool,
    /// Whether every link connects two levels.
    pub(super) is_tree: bool,
    /// The maximum link load, in paths over rate, if each switch shares its traffic among its
    /// choices in proportion to their rates.
    pub(super) peak_load: f64,
    /// The root mean square of the load that two leaves put on a link if each host of one leaf
    /// sends to one host of the other, in flows over rate; the flows of a pair without a path share
    /// one link as a detour.
    pub(super) pair_load: f64,
    /// The lower bound of the maximum link load under any routing: the load if each switch's own
    /// links share the traffic of its hosts.
    pub(super) least_load: f64,
}

/// A ranking is good enough to end the search if its maximum link load exceeds the lower bound by
/// at most this factor.
const GOOD_LOAD: f64 = 1.25;

/// The factor by which the maximum link load of a ranking whose links all connect two levels may
/// exceed that of another ranking. Tables in closed form come close to the score, but less so if
/// links connect switches of one level.
const TREE_LOAD: f64 = 1.2;

/// Pair loads that differ by less than this factor count as equal.
const EQUAL_PAIR_LOADS: f64 = 1.25;

impl Score {
    /// Whether trying other rankings is pointless: this ranking connects all pairs, pairs of
    /// switches included, every link connects two levels, and the maximum link load is close to the
    /// lower bound.
    pub(super) fn is_good(&self) -> bool {
        self.unreached() == 0
            && self.switches_unreached() == 0
            && self.is_tree
            && self.peak_load <= self.least_load * GOOD_LOAD
    }

    /// The number of pairs with an end port that have no path; 0 if detours complete the ranking.
    pub(super) fn unreached(&self) -> u64 {
        if self.is_mended {
            0
        } else {
            self.reach.unreached
        }
    }

    /// The number of pairs of two switches without a path; 0 if detours complete the ranking.
    fn switches_unreached(&self) -> u64 {
        if self.is_mended {
            0
        } else {
            self.reach.switches_unreached
        }
    }

    /// The loads of this and another ranking by which they compare: the maximum link loads, each
    /// multiplied by the pair load if the pair loads differ much. A ranking that evens out all
    /// traffic by putting the traffic between two leaves on one link is no better.
    fn loads(&self, other: &Score) -> (f64, f64) {
        let is_equal = self.pair_load <= other.pair_load * EQUAL_PAIR_LOADS
            && other.pair_load <= self.pair_load * EQUAL_PAIR_LOADS;
        if is_equal {
            (self.peak_load, other.peak_load)
        } else {
            (
                self.peak_load * self.pair_load,
                other.peak_load * other.pair_load,
            )
        }
    }

    /// Whether this ranking is better than `other`, which comes earlier in the list and wins ties.
    /// Differences of less than 2 % in balance and 0.5 % in hops do not count.
    pub(super) fn beats(&self, other: &Score) -> bool {
        if self.unreached() != other.unreached() {
            return self.unreached() < other.unreached();
        }
        let (mine, theirs) = self.loads(other);
        if self.is_tree != other.is_tree {
            let (tree, other_ranking) = if self.is_tree {
                (mine, theirs)
            } else {
                (theirs, mine)
            };
            return self.is_tree == (tree <= other_ranking * TREE_LOAD);
        }
        if mine < theirs * 0.98 || theirs < mine * 0.98 {
            return mine < theirs;
        }
        let (mine, theirs) = (self.reach.hops as f64, other.reach.hops as f64);
        if mine < theirs * 0.995 || theirs < mine * 0.995 {
            return mine < theirs;
        }
        self.switches_unreached() < other.switches_unreached()
    }
}

/// The ports and LIDs at each switch.
pub(super) struct Population {
    /// The number of hosts at each switch.
    hosts: Vec<u64>,
    /// The number of ports of any kind except port 0.
    ports: Vec<u64>,
    /// The number of LIDs of these ports.
    port_lids: Vec<u64>,
    /// The number of LIDs of port 0.
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

    /// The number of ordered pairs of hosts.
    pub(super) fn host_pairs(&self) -> u64 {
        let hosts: u64 = self.hosts.iter().sum();
        hosts * hosts.saturating_sub(1)
    }
}

/// Counts the pairs that a ranking with these costs reaches.
pub(super) fn reach(topology: &Topology, costs: &Costs, population: &Population) -> Reach {
    let counts: Vec<Reach> = costs
        .tiles
        .par_iter()
        .map(|tile| pairs(topology, tile, costs.columns_of(tile), population))
        .collect();
    let mut reach = Reach::default();
    for counted in counts {
        reach.unreached += counted.unreached;
        reach.switches_unreached += counted.switches_unreached;
        reach.hosts_unreached += counted.hosts_unreached;
        reach.hops += counted.hops;
    }
    reach
}

/// Scores the ranking with these costs. Detours through the apexes of `mending`, if given, complete
/// the ranking.
pub(super) fn score_of(
    topology: &Topology,
    costs: &Costs,
    population: &Population,
    levels: &[u8],
    mending: Option<&Apexes>,
) -> Score {
    let sampled = sample(topology, population);
    let reach = reach(topology, costs, population);
    let (peak_load, pair_load) = loads(topology, costs, population, &sampled);
    let apexes = mending.map_or(&[][..], Apexes::joining);
    let detours = apexes.iter().map(|&apex| {
        let links = topology.groups(apex).flat_map(|group| group.links);
        let rate: f64 = links.map(|link| f64::from(link.weight)).sum();
        // All detours of a component go through its apex; the other loads cover the sampled leaves
        // only.
        let hosts: u64 = population.hosts.iter().sum();
        let in_sample: u64 = sampled.iter().map(|&leaf| population.hosts[leaf]).sum();
        reach.hosts_unreached as f64 * in_sample as f64 / hosts.max(1) as f64 / rate
    });
    Score {
        reach,
        is_mended: mending.is_some(),
        is_tree: topology.indices().all(|switch| {
            let mut groups = topology.groups(switch);
            groups.all(|group| levels[group.neighbour.index()] != levels[switch.index()])
        }),
        peak_load: detours.fold(peak_load, f64::max),
        pair_load,
        least_load: least_load(topology, population, &sampled),
    }
}

/// Counts the pairs whose destination is at a switch of a tile.
fn pairs(
    topology: &Topology,
    tile: &Tile,
    columns: &[SwitchIdx],
    population: &Population,
) -> Reach {
    let mut reach = Reach::default();
    let width = columns.len();
    let mut hosts = [0u32; TILE];
    for (hosts, switch) in hosts.iter_mut().zip(columns) {
        // A switch has at most 254 ports.
        *hosts = population.hosts[switch.index()] as u32;
    }
    for switch in topology.indices() {
        let row = tile.cost(switch);
        let component = topology.component_of(switch);
        if row[..width].contains(&UNREACHED) {
            let unreached_here = row
                .iter()
                .zip(columns)
                .filter(|(cost, _)| **cost == UNREACHED);
            for (_, &to) in unreached_here {
                if topology.component_of(to) == component {
                    let to = to.index();
                    let (ports, switches) = (population.port_lids[to], population.switch_lids[to]);
                    reach.unreached +=
                        population.ports[switch.index()] * (ports + switches) + ports;
                    reach.switches_unreached += switches;
                    reach.hosts_unreached +=
                        population.hosts[switch.index()] * population.hosts[to];
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
            reach.hops += u64::from(row_hops) * from;
        }
    }
    reach
}

/// The leaves, as switch indices, towards which the load is computed.
fn sample(topology: &Topology, population: &Population) -> Vec<usize> {
    let is_leaf = |switch: &usize| population.hosts[*switch] > 0;
    let leaves = (0..topology.switch_count()).filter(is_leaf).count();
    let step = topology.group_count().saturating_mul(leaves) / BALANCE_WORK + 1;
    (0..topology.switch_count())
        .filter(is_leaf)
        .step_by(step)
        .collect()
}

/// A lower bound of the maximum link load: the traffic of each switch's hosts, shared by the
/// switch's links in proportion to their rates.
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
            let component = topology.component_of(switch);
            let hosts = population.hosts[switch.index()];
            let is_sampled = sampled.binary_search(&switch.index()).is_ok();
            let own = if is_sampled { hosts } else { 0 };
            let outward = hosts * (to_sampled[component] - own);
            let inward = own * (from_all[component] - hosts);
            least = least.max(outward.max(inward) as f64 / rate);
        }
    }
    least
}

/// The number of leaves that one task examines. The number is constant, so that the loads are
/// summed in the same order with any number of threads.
const LEAVES_PER_TASK: usize = 8;

/// The maximum link load and the pair load; see [`Score`].
fn loads(
    topology: &Topology,
    costs: &Costs,
    population: &Population,
    sampled: &[usize],
) -> (f64, f64) {
    let network = Network::new(topology, &costs.neighbours, population);
    let mut leaves: Vec<(&Tile, usize, usize)> = Vec::with_capacity(sampled.len());
    for tile in &costs.tiles {
        for (column, leaf) in costs.columns_of(tile).iter().enumerate() {
            if sampled.binary_search(&leaf.index()).is_ok() {
                leaves.push((tile, column, leaf.index()));
            }
        }
    }
    let loads: Vec<(Vec<f64>, Pairs)> = leaves
        .par_chunks(LEAVES_PER_TASK)
        .map(|leaves| {
            let mut flows = Flows::new(&network);
            for &(tile, column, leaf) in leaves {
                flows.add(tile, column, leaf);
                flows.add_pairs(topology, leaf);
            }
            (flows.load, flows.pairs)
        })
        .collect();
    let counts = counts_by_group(topology, &network.fastest);
    let peak = (0..topology.group_count())
        .filter(|&group| counts[group])
        .map(|group| loads.iter().map(|(load, _)| load[group]).sum())
        .fold(0.0, f64::max);
    let count: usize = loads.iter().map(|(_, pairs)| pairs.count).sum();
    let squares: f64 = loads.iter().map(|(_, pairs)| pairs.squares).sum();
    (peak, (squares / count.max(1) as f64).sqrt())
}

/// Sums over pairs of leaves.
#[derive(Default)]
struct Pairs {
    /// The number of pairs.
    count: usize,
    /// The sum of the squares of the loads of the pairs.
    squares: f64,
}

/// For each port group, whether its load counts. A group does not count if both ends have far
/// faster links: tables keep traffic off such a group, but the estimate does not, and one slow
/// cable would decide between rankings.
fn counts_by_group(topology: &Topology, fastest: &[u32]) -> Vec<bool> {
    let at = |switch: SwitchIdx| {
        let groups = topology.group_range(switch);
        groups.map(|group| fastest[group]).max().unwrap_or(0)
    };
    let best: Vec<u32> = topology.indices().map(at).collect();
    let counts = |switch: SwitchIdx, group: usize| {
        let least = best[switch.index()].min(best[topology.group(group).neighbour.index()]);
        !slots::is_negligible(fastest[group], least)
    };
    topology
        .indices()
        .flat_map(|switch| {
            topology
                .group_range(switch)
                .map(move |group| (switch, group))
        })
        .map(|(switch, group)| counts(switch, group))
        .collect()
}

/// The network that traffic flows over.
struct Network<'a> {
    neighbours: &'a Neighbours,
    population: &'a Population,
    /// The total rate of the links of each port group.
    rate: Vec<f64>,
    /// The rate of the fastest link of each port group.
    fastest: Vec<u32>,
    /// The rate of the fastest link of the fabric.
    top_rate: f64,
}

impl<'a> Network<'a> {
    fn new(
        topology: &Topology,
        neighbours: &'a Neighbours,
        population: &'a Population,
    ) -> Network<'a> {
        let rates = |group: usize| topology.group(group).links.iter().map(|link| link.weight);
        let groups = 0..topology.group_count();
        let fastest: Vec<u32> = groups
            .clone()
            .map(|group| rates(group).max().unwrap_or(0))
            .collect();
        Network {
            neighbours,
            population,
            top_rate: f64::from(fastest.iter().copied().max().unwrap_or(1)),
            rate: groups
                .map(|group| rates(group).map(f64::from).sum())
                .collect(),
            fastest,
        }
    }
}

/// Traffic from all hosts, as it flows towards one leaf after another.
struct Flows<'a> {
    network: &'a Network<'a>,
    /// The load of each port group of the topology, in paths over rate.
    load: Vec<f64>,
    /// The flow at each switch: the number of hosts whose packets pass, on average.
    flow: Vec<f64>,
    /// For each switch, the cost of the cheapest path to the current leaf that only goes down.
    down: Vec<u8>,
    /// For each switch, the cost of the path to the current leaf that is taken.
    taken: Vec<u8>,
    /// The switches with each cost in `taken`.
    by_cost: Vec<Vec<SwitchIdx>>,
    /// The choices of the current switch, as pairs of neighbour and port group.
    choices: Vec<(u32, u32)>,
    /// For each switch, the total rate of its choices towards the current leaf; 0 if it has no
    /// path.
    first_rate: Vec<f64>,
    pairs: Pairs,
}

impl<'a> Flows<'a> {
    fn new(network: &'a Network<'a>) -> Flows<'a> {
        let switches = network.population.hosts.len();
        Flows {
            network,
            load: vec![0.0; network.rate.len()],
            flow: vec![0.0; switches],
            down: Vec::with_capacity(switches),
            taken: Vec::with_capacity(switches),
            by_cost: vec![Vec::new(); usize::from(UNREACHED)],
            choices: Vec::new(),
            first_rate: vec![0.0; switches],
            pairs: Pairs::default(),
        }
    }

    /// Adds the load of the packets from all hosts to the hosts of a leaf.
    fn add(&mut self, tile: &Tile, column: usize, leaf: usize) {
        for (row, costs) in [(&tile.down, &mut self.down), (&tile.taken, &mut self.taken)] {
            costs.clear();
            costs.extend(row.iter().map(|row| row[column]));
        }
        for switches in &mut self.by_cost {
            switches.clear();
        }
        for (switch, &cost) in self.taken.iter().enumerate() {
            if cost != UNREACHED {
                // There are fewer switches than LIDs.
                self.by_cost[usize::from(cost)].push(SwitchIdx(switch as u32));
            }
        }
        let all_hosts = &self.network.population.hosts;
        for (flow, &hosts) in self.flow.iter_mut().zip(all_hosts) {
            *flow = hosts as f64;
        }
        self.first_rate.fill(0.0);
        let hosts = all_hosts[leaf] as f64;
        for cost in (1..self.by_cost.len()).rev() {
            for place in 0..self.by_cost[cost].len() {
                self.pass_on(self.by_cost[cost][place], hosts);
            }
        }
    }

    /// Adds the pairs of the current leaf with all other leaves.
    fn add_pairs(&mut self, topology: &Topology, leaf: usize) {
        let all_hosts = &self.network.population.hosts;
        // Switches are numbered by 32 bits.
        let component = topology.component_of(SwitchIdx(leaf as u32));
        for &switch in &topology.components()[component].switches {
            let hosts = all_hosts[switch.index()];
            if hosts == 0 || switch.index() == leaf {
                continue;
            }
            let rate = match self.first_rate[switch.index()] {
                0.0 => self.network.top_rate,
                rate => rate,
            };
            self.pairs.count += 1;
            self.pairs.squares += (hosts.min(all_hosts[leaf]) as f64 / rate).powi(2);
        }
    }

    /// Divides the flow of a switch towards the leaf among its choices, in proportion to their
    /// rates; `hosts` is the number of hosts of the leaf.
    fn pass_on(&mut self, switch: SwitchIdx, hosts: f64) {
        let flow = self.flow[switch.index()];
        if flow == 0.0 {
            return;
        }
        let Network {
            neighbours,
            rate,
            fastest,
            ..
        } = self.network;
        let goes_down = self.down[switch.index()] != UNREACHED;
        let (all, costs) = if goes_down {
            (neighbours.below(switch), &self.down)
        } else {
            (neighbours.above(switch), &self.taken)
        };
        let own = self.taken[switch.index()];
        let leads_on = |&&(neighbour, group): &&(u32, u32)| {
            costs[neighbour as usize] == nearer(own, neighbours.hops(group))
        };
        self.choices.clear();
        self.choices.extend(all.iter().filter(leads_on));
        let fastest_of = |&(_, group): &(u32, u32)| fastest[group as usize];
        let best = self.choices.iter().map(fastest_of).max().unwrap_or(0);
        self.choices
            .retain(|choice| !slots::is_negligible(fastest_of(choice), best));
        let rate_of = |&(_, group): &(u32, u32)| rate[group as usize];
        let total_rate: f64 = self.choices.iter().map(rate_of).sum();
        self.first_rate[switch.index()] = total_rate;
        for choice in &self.choices {
            let &(neighbour, group) = choice;
            self.load[group as usize] += flow * hosts / total_rate;
            self.flow[neighbour as usize] += flow * rate_of(choice) / total_rate;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(peak_load: f64, pair_load: f64) -> Score {
        Score {
            reach: Reach::default(),
            is_mended: false,
            is_tree: true,
            peak_load,
            pair_load,
            least_load: 1.0,
        }
    }

    #[test]
    fn ranking_with_far_higher_pair_load_loses_despite_lower_peak_load() {
        assert!(score(90.0, 1.0).beats(&score(100.0, 1.1)));
        assert!(score(90.0, 1.1).beats(&score(100.0, 1.0)));
        // Such a ranking puts the leaves of a pod at the top of the tree.
        assert!(!score(90.0, 2.3).beats(&score(100.0, 1.0)));
        assert!(score(100.0, 1.0).beats(&score(90.0, 2.3)));
    }
}
