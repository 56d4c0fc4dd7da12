//! Whether paths are spread evenly over the links that could share them.
//!
//! The load of a link says little by itself: links of a switch with many hosts, or below a taper,
//! carry more under any routes. So each link is compared with those that could take its paths: the
//! links of one switch to the tier above, and those of that tier into it. Where routing ranks no
//! switches, all links are compared.

use std::collections::BTreeMap;

use crate::topology::Topology;

use super::LinkUse;

/// A link may have so many times its share.
pub const TOLERANCE: f64 = 1.25;

/// The same where switches have no ranks: shortest paths of a torus or a ring are longer in the
/// middle, and no routes spread them better.
pub const TOLERANCE_WITHOUT_RANKS: f64 = 2.0;

/// How evenly paths lie on the links that could share them.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Balance {
    /// The link with the most times its share; `None` where no path leads from switch to switch.
    pub most: Option<Share>,
    /// Links with more than [`TOLERANCE`] times their share, and more than one destination beyond
    /// it: fewer cannot be divided.
    pub beyond: usize,
}

/// The paths of a link, and its share by its rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The link.
    pub link: LinkUse,
    /// Its part of all paths on the links that could share them, by its rate; 0 where these have
    /// none.
    pub paths: f64,
    /// The paths to one destination on these links, or on this one: a smaller excess cannot be
    /// divided.
    one: f64,
    /// How many times its share it may have.
    tolerance: f64,
}

impl Share {
    /// How many times its share the link has; 1 where there is nothing to share.
    pub fn times(&self) -> f64 {
        if self.paths == 0.0 {
            return 1.0;
        }
        self.link.paths as f64 / self.paths
    }

    /// Whether the link has more than its share by the tolerance, and by one destination.
    pub fn is_beyond(&self) -> bool {
        self.times() > self.tolerance && self.link.paths as f64 > self.paths + self.one
    }
}

/// The links that could share paths: those between a switch and one tier above, in one direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Siblings {
    /// From the switch with this index to a tier, and the other way.
    Up(usize, u8),
    Down(usize, u8),
    /// All others.
    Others,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    paths: u64,
    rate: u64,
    destinations: u64,
}

/// The paths to one of some destinations.
fn mean(paths: u64, destinations: u64) -> f64 {
    paths as f64 / destinations.max(1) as f64
}

/// The share of each link, in the order of `links`, where switches have `ranks`, 0 for roots.
pub fn shares(topology: &Topology, links: &[LinkUse], ranks: Option<&[u8]>) -> Vec<Share> {
    let siblings = |link: &LinkUse| {
        let end = |guid| {
            let switch = topology.switch_by_guid(guid)?.index();
            Some((switch, *ranks?.get(switch)?))
        };
        match (end(link.switch), end(link.peer)) {
            (Some((from, below)), Some((_, above))) if above < below => Siblings::Up(from, above),
            (Some((_, above)), Some((to, below))) if above < below => Siblings::Down(to, above),
            _ => Siblings::Others,
        }
    };
    let mut sums: BTreeMap<Siblings, Sum> = BTreeMap::new();
    for link in links {
        let sum = sums.entry(siblings(link)).or_default();
        sum.paths += link.paths;
        sum.rate += u64::from(link.rate);
        sum.destinations += u64::from(link.destinations);
    }
    let share = |&link: &LinkUse| {
        let of = siblings(&link);
        let sum = sums[&of];
        Share {
            link,
            // A rate is at least 1.
            paths: sum.paths as f64 * f64::from(link.rate) / sum.rate as f64,
            one: mean(sum.paths, sum.destinations).max(mean(link.paths, link.destinations.into())),
            tolerance: match of {
                Siblings::Others => TOLERANCE_WITHOUT_RANKS,
                Siblings::Up(..) | Siblings::Down(..) => TOLERANCE,
            },
        }
    };
    links.iter().map(share).collect()
}

pub(super) fn balance(topology: &Topology, links: &[LinkUse], ranks: Option<&[u8]>) -> Balance {
    let mut balance = Balance::default();
    // Links beyond go before others.
    let mut worst = (false, 0.0);
    for share in shares(topology, links, ranks) {
        if share.link.paths == 0 {
            continue;
        }
        balance.beyond += usize::from(share.is_beyond());
        let rank = (share.is_beyond(), share.times());
        if rank > worst {
            worst = rank;
            balance.most = Some(share);
        }
    }
    balance
}

#[cfg(test)]
mod tests {
    use crate::engine::{EngineKind, Options, route};
    use crate::generate::generate;
    use crate::quality::{Settings, measure};
    use crate::topology::{PortUse, Topology};

    fn routed(spec: &str) -> (Topology, crate::engine::Routing) {
        let topology = Topology::from_netlist(&generate(spec).unwrap()).unwrap();
        let routing = route(EngineKind::FabricTree, &topology, &Options::default(), None);
        (topology, routing.unwrap())
    }

    fn settings(routing: &crate::engine::Routing) -> Settings {
        Settings {
            seed: 1,
            ranks: routing.ranks.clone(),
            ..Settings::default()
        }
    }

    #[test]
    fn trees_are_balanced_also_tapered_ones_and_those_whose_hosts_cannot_be_divided() {
        for spec in [
            "pgft:2;4,4;1,2;1,1",
            "pgft:3;4,4,4;1,2,2;1,1,1",
            "fat-tree:k=6,levels=3",
            // Four hosts of a leaf over three spines.
            "pgft:2;4,5;1,3;1,1",
        ] {
            let (topology, routing) = routed(spec);
            let quality = measure(&topology, &routing.tables, &settings(&routing));
            assert_eq!(quality.balance.beyond, 0, "{spec}: {:?}", quality.balance);
            assert!(quality.balance.most.is_some(), "{spec}");
        }
    }

    #[test]
    fn a_leaf_that_sends_everything_over_one_link_is_not_balanced_and_the_link_is_named() {
        let (topology, mut routing) = routed("pgft:2;4,4;1,2;1,1");
        let leaf = topology
            .indices()
            .find(|&switch| topology.hosts(switch) > 0);
        let leaf = leaf.unwrap();
        let is_up = |port: u8| {
            let port_use = topology.port_use(leaf, rsm_ids::PortNum(port));
            matches!(port_use, PortUse::Link { .. })
        };
        let port = (1..=topology.switch(leaf).num_ports).find(|&port| is_up(port));
        let port = port.unwrap();
        for destination in topology.destinations() {
            if destination.switch != leaf && destination.kind.is_host() {
                routing.tables.lfts[leaf.index()].set_entry(destination.lid, port);
            }
        }
        let quality = measure(&topology, &routing.tables, &settings(&routing));
        assert!(quality.balance.beyond > 0);
        let most = quality.balance.most.unwrap();
        assert_eq!(most.link.switch, topology.switch(leaf).guid);
        assert_eq!(most.link.port.0, port);
        assert_eq!(most.times(), 2.0);
    }
}
