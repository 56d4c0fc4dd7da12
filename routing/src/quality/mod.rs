//! Measures how well forwarding tables spread traffic, from a topology and tables alone.
//!
//! The tables may come from any engine, or from another subnet manager. Links are directions of
//! cables between switches. Cables to hosts do not count: every path to or from a host meets there,
//! under any routes. Traffic to a host goes to its base LID. Hosts are channel adapters and
//! routers.
//!
//! - [`Quality::paths`], the edge forwarding index: the paths of all pairs of hosts, link by link;
//! - [`Quality::balance`]: whether each link has its share of the paths that it could share;
//! - [`Quality::all_to_all`]: the maximum over all links of min(hosts that send over the link,
//!   hosts that receive over it), which bounds the load of a link under any pattern in which each
//!   host sends and receives once;
//! - patterns, each measured phase by phase at its fullest link: shifts, random permutations,
//!   rings, recursive doubling, double binary trees, all-to-all within rails. The best value is 1
//!   on a full fat tree, and the taper on a tapered one;
//! - [`Quality::bisection`], the effective bisection bandwidth: the bandwidth of pairs across two
//!   random halves.
//!
//! Loads of patterns, [`Quality::all_to_all`] and the bisection are *by rate*: a flow on a slower
//! link counts once for each time that the fastest link between two switches is faster, because
//! flows share the rate of their link. If all links have one rate, these loads are numbers of
//! flows.
//!
//! Results are functions of the arguments; the number of threads does not affect them.

mod adaptive;
mod balance;
mod carry;
mod crossing;
mod flow_shares;
mod forest;
mod leaf_set;
mod order;
mod patterns;
mod permutations;
mod uses;

pub use adaptive::{ADAPTIVE_SHIFTS, AdaptiveQuality, ByChoice, measure_adaptive};
pub use balance::{Balance, Share, TOLERANCE, TOLERANCE_WITHOUT_RANKS, shares};
pub use crossing::{CrossingHost, crossing, crossing_from};
pub use flow_shares::{FlowShares, flow_shares};
pub use patterns::{ALL_SHIFTS_HOSTS, BISECTIONS, PERMUTATIONS, SHIFTS};

use rsm_ids::{Guid, PortNum};

use crate::generate::rng::Rng;
use crate::tables::Tables;
use crate::topology::{Destination, SwitchIdx, Topology};
use crate::verify::fabric::Fabric;

use carry::Carrier;
use order::Hosts;
use uses::Uses;

/// The number of the fullest links that a report lists: enough to see whether they have a switch in
/// common.
pub const WORST_LINKS: usize = 10;

/// The inputs of a measurement in addition to topology and tables.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The seed of random permutations, bisections and samples.
    pub seed: u64,
    /// The rail of each destination, by its index in [`Topology::destinations`]; `None` for ports
    /// without a rail. A rail is the set of ports at the same adapter slot of their hosts. Empty if
    /// rails are unknown; collective patterns then run among all hosts.
    pub rails: Vec<Option<u16>>,
    /// The number of each destination's host, by the index of `rails`. Patterns within rails then
    /// take hosts in one order on all rails, as the ranks of a job do. Empty if hosts are unknown.
    pub hosts: Vec<Option<u32>>,
    /// The rank of each switch, 0 for roots; `None` if the engine does not rank switches.
    pub ranks: Option<Vec<u8>>,
}

/// How well tables spread traffic.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Quality {
    /// The number of hosts: ports of channel adapters and routers.
    pub hosts: usize,
    /// The number of directions of cables between two switches.
    pub links: usize,
    /// The number of ordered pairs of hosts whose packets do not arrive; no other measure counts
    /// them.
    pub lost_pairs: u64,
    /// The paths of all pairs of hosts on the links.
    pub paths: PathLoad,
    /// The balance: whether paths are spread evenly over the links that could share them.
    pub balance: Balance,
    /// The all-to-all congestion risk, in flows relative to rate, rounded up.
    pub all_to_all: u32,
    /// The pattern in which every host sends to the host a fixed number of places further on in
    /// topological order: all distances, or [`SHIFTS`] of them if there are more than
    /// [`ALL_SHIFTS_HOSTS`] hosts.
    pub shift: Contention,
    /// Random permutations.
    pub random: Contention,
    /// Exchanges between random halves.
    pub bisection: Bisection,
    /// Rings in topological order, of all hosts or of each rail; all rings run at the same time.
    pub ring: Contention,
    /// Recursive doubling or halving, among all hosts or within all rails at the same time.
    pub recursive_doubling: Contention,
    /// Double binary trees, over all hosts or over all rails at the same time.
    pub double_tree: Contention,
    /// All-to-all within all rails at the same time, shift by shift. `None` if rails are unknown.
    pub rail_all_to_all: Option<Contention>,
    /// The links that take longest for all paths on them, measured in paths over rate; at most
    /// [`WORST_LINKS`].
    pub worst: Vec<LinkUse>,
}

/// How evenly paths are spread over links.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct PathLoad {
    /// The number of paths on the fullest link.
    pub max: u64,
    /// The mean number of paths on a link; links without paths count.
    pub mean: f64,
    /// The longest time that a link takes for its paths at its rate, over the time that all links
    /// together would take for all paths. Equals `max / mean` if all links have one rate.
    pub rate_max_over_mean: f64,
    /// The maximum number of paths on a link, relative to rate: a path on a slower link counts for
    /// more, by the ratio of the fastest rate to the link's rate. Equals `max` if all links have
    /// one rate.
    pub rate_max: f64,
}

impl Quality {
    /// The measures that need no traffic pattern.
    pub fn spread(&self) -> Spread {
        Spread {
            links: self.links,
            lost_pairs: self.lost_pairs,
            balance: self.balance,
        }
    }
}

impl PathLoad {
    /// The number of paths on the fullest link over the mean; 1 if there are no paths.
    pub fn max_over_mean(&self) -> f64 {
        if self.max == 0 {
            1.0
        } else {
            self.max as f64 / self.mean
        }
    }
}

/// The flows on the fullest link, relative to rate, over all phases of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Contention {
    /// The number of flows in the worst phase, rounded up.
    pub max: u32,
    /// The mean over the phases.
    pub mean: f64,
    /// The number of phases that were measured.
    pub phases: usize,
    /// The number of phases that the pattern has.
    pub of: usize,
}

/// The bandwidth of pairs across two halves, as a fraction of the fastest link's bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Bisection {
    /// The mean over the samples: 1 if no two pairs share a link and no pair uses a slower link.
    pub mean: f64,
    /// The lowest bandwidth of a sample.
    pub min: f64,
    /// The number of samples.
    pub samples: usize,
}

/// One direction of a cable between two switches, and its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkUse {
    /// The switch that sends.
    pub switch: Guid,
    /// The port that sends.
    pub port: PortNum,
    /// The switch that receives.
    pub peer: Guid,
    /// The port that receives.
    pub peer_port: PortNum,
    /// The rate of the link, in the unit of the topology.
    pub rate: u32,
    /// The number of ordered pairs of hosts whose path includes the link.
    pub paths: u64,
    /// The number of hosts that send over the link.
    pub sources: u32,
    /// The number of hosts that receive over the link.
    pub destinations: u32,
}

/// The hosts in topological order, in which patterns number them. Hosts of a leaf are in the order
/// of their ports, and leaves that meet low in the tree are next to each other; GUIDs break ties. A
/// scheduler should number the ranks of a job in this order.
pub fn topological_order(topology: &Topology) -> impl Iterator<Item = &Destination> {
    let hosts = Hosts::of(topology).all.into_iter();
    hosts.map(|host| &topology.destinations()[host.destination as usize])
}

/// All links and their use, sorted by (switch, neighbour, port).
pub fn link_uses(topology: &Topology, tables: &Tables) -> Vec<LinkUse> {
    let fabric = Fabric::new(topology);
    let uses = Uses::of(&fabric, tables, &Hosts::of(topology));
    name_links(&fabric, &uses)
}

/// The measures of a [`Quality`] that need no traffic pattern: how evenly the paths of all pairs of
/// hosts are spread over links.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Spread {
    /// The number of directions of cables between two switches.
    pub links: usize,
    /// The number of ordered pairs of hosts whose packets do not arrive.
    pub lost_pairs: u64,
    /// The balance: whether paths are spread evenly over the links that could share them.
    pub balance: Balance,
}

/// Measures how evenly paths are spread over links. `ranks` holds the rank of each switch, 0 for
/// roots.
pub fn spread(topology: &Topology, tables: &Tables, ranks: Option<&[u8]>) -> Spread {
    let fabric = Fabric::new(topology);
    let uses = Uses::of(&fabric, tables, &Hosts::of(topology));
    let links = name_links(&fabric, &uses);
    Spread {
        links: links.len(),
        lost_pairs: uses.lost_pairs,
        balance: balance::balance(topology, &links, ranks),
    }
}

/// Measures how well tables spread traffic.
///
/// `tables` may hold anything, including tables for more or fewer switches: a missing entry has no
/// path.
pub fn measure(topology: &Topology, tables: &Tables, settings: &Settings) -> Quality {
    carry::with_carrier(topology, tables, |carrier| {
        let links = name_links(carrier.fabric, carrier.uses);
        let mut quality = Quality {
            hosts: carrier.hosts.all.len(),
            links: links.len(),
            lost_pairs: carrier.uses.lost_pairs,
            paths: path_load(&links),
            balance: balance::balance(topology, &links, settings.ranks.as_deref()),
            all_to_all: all_to_all(&links),
            bisection: patterns::bisections(carrier, settings.seed),
            worst: worst(links),
            ..Quality::default()
        };
        measure_permutations(&mut quality, carrier, settings.seed);
        measure_collectives(&mut quality, carrier, settings);
        quality
    })
}

/// Measures shifts and random permutations.
fn measure_permutations(quality: &mut Quality, carrier: &Carrier<'_>, seed: u64) {
    let count = quality.hosts;
    let distances = patterns::distances(count, &mut Rng::new(seed));
    let distance_count = count.saturating_sub(1);
    let shift = |&distance: &usize| patterns::shift(count, distance);
    quality.shift =
        patterns::contention_of_permutations(carrier, &distances, distance_count, shift);
    let seeds: Vec<u64> = (0..patterns::PERMUTATIONS as u64)
        .map(|sample| seed.wrapping_add(sample))
        .collect();
    let permutation = |&seed: &u64| patterns::permutation(count, seed).into_iter().enumerate();
    quality.random =
        patterns::contention_of_permutations(carrier, &seeds, seeds.len(), permutation);
}

/// Measures the patterns of collective operations, within rails if these are known.
fn measure_collectives(quality: &mut Quality, carrier: &Carrier<'_>, settings: &Settings) {
    let rails = rails(carrier.hosts, settings);
    let all_hosts = vec![(0..quality.hosts).collect()];
    let groups: &[Vec<usize>] = rails.as_deref().unwrap_or(&all_hosts);
    let largest = groups.iter().map(Vec::len).max().unwrap_or(0);
    let shift_all = |&distance: &usize| {
        let groups = groups.iter().filter(move |group| distance < group.len());
        groups.flat_map(move |group| {
            let pairs = patterns::shift(group.len(), distance);
            pairs.map(|(from, to)| (group[from], group[to]))
        })
    };
    quality.ring = patterns::contention_of_permutations(carrier, &[1], 1, shift_all);
    let bits: Vec<u32> = (0..patterns::doubling_phases(largest)).collect();
    quality.recursive_doubling = patterns::contention(carrier, &bits, bits.len(), |phase, &bit| {
        groups
            .iter()
            .for_each(|group| phase.add(patterns::doubling(group, bit)));
    });
    quality.double_tree = patterns::contention(carrier, &[()], 1, |phase, ()| {
        groups
            .iter()
            .for_each(|group| phase.add(patterns::double_tree(group)));
    });
    quality.rail_all_to_all = rails.is_some().then(|| {
        let distances = patterns::distances(largest, &mut Rng::new(settings.seed));
        let distance_count = largest.saturating_sub(1);
        patterns::contention_of_permutations(carrier, &distances, distance_count, shift_all)
    });
}

/// The ports of each rail, as indices in [`Hosts::all`]; `None` if no port has a rail. The ports of
/// a rail are in the order of their hosts. A host's place is that of its port on the lowest rail on
/// which it has a port.
fn rails(hosts: &Hosts, settings: &Settings) -> Option<Vec<Vec<usize>>> {
    let rail_of = |destination: u32| *settings.rails.get(destination as usize)?;
    let mut rails = std::collections::BTreeMap::<u16, Vec<usize>>::new();
    for (place, host) in hosts.all.iter().enumerate() {
        if let Some(rail) = rail_of(host.destination) {
            rails.entry(rail).or_default().push(place);
        }
    }
    let host_of = |place: usize| {
        let destination = hosts.all[place].destination;
        settings.hosts.get(destination as usize).copied().flatten()
    };
    let mut first = std::collections::BTreeMap::<u32, usize>::new();
    for &place in rails.values().flatten() {
        if let Some(host) = host_of(place) {
            first.entry(host).or_insert(place);
        }
    }
    for places in rails.values_mut() {
        let first = |place: usize| host_of(place).and_then(|host| first.get(&host));
        places.sort_by_key(|&place| (first(place).copied().unwrap_or(place), place));
    }
    (!rails.is_empty()).then(|| rails.into_values().collect())
}

/// All links and their use, sorted by (switch, neighbour, port).
fn name_links(fabric: &Fabric<'_>, uses: &Uses) -> Vec<LinkUse> {
    let topology = fabric.topology;
    let guid = |switch: SwitchIdx| topology.switch(switch).guid;
    let mut links = Vec::with_capacity(2 * topology.link_count());
    for switch in topology.indices() {
        for group in topology.groups(switch) {
            links.extend(group.links.iter().map(|link| {
                let channel = fabric.channel(switch.index(), link.port.0);
                LinkUse {
                    switch: guid(switch),
                    port: link.port,
                    peer: guid(group.neighbour),
                    peer_port: link.peer_port,
                    rate: link.weight,
                    paths: uses.paths[channel],
                    sources: uses.sources[channel],
                    destinations: uses.destinations[channel],
                }
            }));
        }
    }
    links
}

/// The rate of the fastest link.
fn fastest(links: &[LinkUse]) -> u32 {
    links.iter().map(|link| link.rate).max().unwrap_or(1)
}

/// The value of [`Quality::all_to_all`].
fn all_to_all(links: &[LinkUse]) -> u32 {
    let fastest = fastest(links);
    let risk = |link: &LinkUse| {
        let flows = link.sources.min(link.destinations);
        f64::from(flows) * carry::times_slower(fastest, link.rate)
    };
    links.iter().map(risk).fold(0.0, f64::max).ceil() as u32
}

/// The value of [`Quality::paths`].
fn path_load(links: &[LinkUse]) -> PathLoad {
    let sum: u64 = links.iter().map(|link| link.paths).sum();
    let rates: u64 = links.iter().map(|link| u64::from(link.rate)).sum();
    if sum == 0 {
        return PathLoad {
            rate_max_over_mean: 1.0,
            ..PathLoad::default()
        };
    }
    let slowest = links.iter().max_by(|a, b| by_time(a, b));
    let longest = slowest.map_or(0.0, |link| link.paths as f64 / f64::from(link.rate));
    PathLoad {
        max: links.iter().map(|link| link.paths).max().unwrap_or(0),
        mean: sum as f64 / links.len() as f64,
        rate_max_over_mean: longest / (sum as f64 / rates as f64),
        rate_max: slowest.map_or(0.0, |link| {
            link.paths as f64 * carry::times_slower(fastest(links), link.rate)
        }),
    }
}

/// Compares links by the time that each takes to carry its paths.
fn by_time(a: &LinkUse, b: &LinkUse) -> std::cmp::Ordering {
    // The products fit: paths of at most 2^32 pairs times rates of 32 bits.
    let [a, b] = [(a, b), (b, a)].map(|(of, other)| u128::from(of.paths) * u128::from(other.rate));
    a.cmp(&b)
}

/// The value of [`Quality::worst`].
fn worst(mut links: Vec<LinkUse>) -> Vec<LinkUse> {
    let order = |a: &LinkUse, b: &LinkUse| {
        by_time(b, a).then_with(|| (a.switch, a.port).cmp(&(b.switch, b.port)))
    };
    if links.len() > WORST_LINKS {
        links.select_nth_unstable_by(WORST_LINKS, order);
        links.truncate(WORST_LINKS);
    }
    links.sort_unstable_by(order);
    links
}

#[cfg(test)]
mod tests;
