//! Measures whether paths are spread evenly over the links that could share them.
//!
//! The load of a link alone says little: links of a switch with many hosts, or with few uplinks,
//! carry more under any routes. Each link is therefore compared with the links that could take its
//! paths: the links from one switch to the tiers above, or the links from those tiers to the
//! switch. A miswired cable that skips a tier is one of these links: shortest paths crowd on it. If
//! routing does not rank switches, all links are compared.

use std::collections::BTreeMap;

use crate::topology::Topology;

use super::LinkUse;

/// The highest acceptable load of a link, as a multiple of its share.
pub const TOLERANCE: f64 = 1.25;

/// The highest acceptable load of a link between switches without different ranks, as a multiple of
/// its share: shortest paths meet on some links of a torus or a ring, and no routes spread them
/// better.
pub const TOLERANCE_WITHOUT_RANKS: f64 = 2.0;

/// How evenly paths are spread over the links that could share them.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Balance {
    /// The fullest of the links beyond their share (see [`Share::is_beyond`]); if there are none,
    /// the link with the highest [`Share::times`]. `None` if no path leads from one switch to
    /// another.
    pub most: Option<Share>,
    /// The number of links with more than [`TOLERANCE`] times their share, and with an excess of
    /// more than one destination: a smaller excess cannot be divided.
    pub beyond: usize,
}

/// The paths of a link, and its share in proportion to its rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The link.
    pub link: LinkUse,
    /// The link's share, in proportion to its rate, of all paths on the links that could share
    /// them; 0 if no path uses these links.
    pub paths: f64,
    /// The mean number of paths to one destination, on all of these links or on this one, whichever
    /// is higher: a smaller excess cannot be divided.
    per_destination: f64,
    /// The highest acceptable load, as a multiple of the share.
    tolerance: f64,
}

impl Share {
    /// The load as a multiple of the share; 1 if there is nothing to share.
    pub fn times(&self) -> f64 {
        if self.paths == 0.0 {
            return 1.0;
        }
        self.link.paths as f64 / self.paths
    }

    /// Whether the load exceeds the share by more than the tolerance, and by more than one
    /// destination.
    pub fn is_beyond(&self) -> bool {
        self.times() > self.tolerance && self.link.paths as f64 > self.paths + self.per_destination
    }
}

/// A set of links that could share paths: the links between a switch and the tiers above, in one
/// direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Siblings {
    /// The links from the switch with this index to switches closer to the roots.
    Up(usize),
    /// The links to the switch with this index from switches closer to the roots.
    Down(usize),
    /// All remaining links.
    Others,
}

/// Sums over the links of one set of siblings.
#[derive(Clone, Copy, Default)]
struct Sum {
    paths: u64,
    rate: u64,
    destinations: u64,
}

/// The mean number of paths to one destination.
fn mean(paths: u64, destinations: u64) -> f64 {
    paths as f64 / destinations.max(1) as f64
}

/// The share of each link, in the order of `links`. `ranks` holds the rank of each switch, 0 for
/// roots, if switches are ranked.
pub fn shares(topology: &Topology, links: &[LinkUse], ranks: Option<&[u8]>) -> Vec<Share> {
    let siblings = |link: &LinkUse| {
        let end = |guid| {
            let switch = topology.switch_by_guid(guid)?.index();
            Some((switch, *ranks?.get(switch)?))
        };
        match (end(link.switch), end(link.peer)) {
            (Some((from, below)), Some((_, above))) if above < below => Siblings::Up(from),
            (Some((_, above)), Some((to, below))) if above < below => Siblings::Down(to),
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
        let group = siblings(&link);
        let sum = sums[&group];
        Share {
            link,
            // A rate is at least 1.
            paths: sum.paths as f64 * f64::from(link.rate) / sum.rate as f64,
            per_destination: mean(sum.paths, sum.destinations)
                .max(mean(link.paths, link.destinations.into())),
            tolerance: match group {
                Siblings::Others => TOLERANCE_WITHOUT_RANKS,
                Siblings::Up(..) | Siblings::Down(..) => TOLERANCE,
            },
        }
    };
    links.iter().map(share).collect()
}

/// Measures the balance; see [`shares`] for `ranks`.
pub(super) fn balance(topology: &Topology, links: &[LinkUse], ranks: Option<&[u8]>) -> Balance {
    let mut balance = Balance::default();
    // Links beyond their share rank before all others, by their paths.
    let mut worst = (false, 0, 0.0);
    for share in shares(topology, links, ranks) {
        if share.link.paths == 0 {
            continue;
        }
        balance.beyond += usize::from(share.is_beyond());
        let rank = match share.is_beyond() {
            true => (true, share.link.paths, share.times()),
            false => (false, 0, share.times()),
        };
        if rank > worst {
            worst = rank;
            balance.most = Some(share);
        }
    }
    balance
}

#[cfg(test)]
mod tests {
    use rsm_ids::Guid;

    use crate::engine::{EngineKind, Options, route};
    use crate::generate::generate;
    use crate::netlist::{Cable, Netlist, NodeKind};
    use crate::quality::balance::balance;
    use crate::quality::{Fabric, Hosts, LinkUse, Settings, Uses, measure, name_links};
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
    fn trees_have_no_link_beyond_its_share() {
        for spec in [
            "pgft:2;4,4;1,2;1,1",
            "pgft:3;4,4,4;1,2,2;1,1,1",
            "fat-tree:k=6,levels=3",
            // Four hosts of a leaf use three spines.
            "pgft:2;4,5;1,3;1,1",
        ] {
            let (topology, routing) = routed(spec);
            let quality = measure(&topology, &routing.tables, &settings(&routing));
            assert_eq!(quality.balance.beyond, 0, "{spec}: {:?}", quality.balance);
            assert!(quality.balance.most.is_some(), "{spec}");
        }
    }

    #[test]
    fn leaf_that_sends_everything_over_one_link_is_reported_with_that_link() {
        let (topology, mut routing) = routed("pgft:2;4,4;1,2;1,1");
        let leaf = topology
            .indices()
            .find(|&switch| topology.hosts(switch) > 0)
            .unwrap();
        let is_up = |port: u8| {
            let port_use = topology.port_use(leaf, rsm_ids::PortNum(port));
            matches!(port_use, PortUse::Link { .. })
        };
        let port = (1..=topology.switch(leaf).num_ports)
            .find(|&port| is_up(port))
            .unwrap();
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

    #[test]
    fn fullest_link_beyond_its_share_is_reported_and_not_the_highest_ratio() {
        let (topology, routing) = routed("pgft:2;4,4;1,2;1,1");
        let fabric = Fabric::new(&topology);
        let uses = Uses::of(&fabric, &routing.tables, &Hosts::of(&topology));
        let mut links = name_links(&fabric, &uses);
        let is_up = |link: &LinkUse| {
            let switch = topology.switch_by_guid(link.switch);
            switch.is_some_and(|switch| topology.hosts(switch) > 0)
        };
        let mut up: Vec<usize> = (0..links.len()).filter(|&at| is_up(&links[at])).collect();
        up.sort_by_key(|&at| links[at].switch);
        let [a, b, c, d] = up[..4] else {
            panic!("two leaves with two uplinks each: {up:?}");
        };
        for (at, paths) in [(a, 300), (b, 100), (c, 90), (d, 10)] {
            links[at].paths = paths;
            links[at].destinations = 12;
        }
        let most = balance(&topology, &links, routing.ranks.as_deref())
            .most
            .unwrap();
        assert_eq!(
            most.link.paths, 300,
            "1.5 times its share, and not 90 of 50"
        );
    }

    /// A fabric in which a technician has exchanged the far ends of a leaf's and a spine's uplink,
    /// and the ends of the leaf's cable: the leaf and a core.
    fn miswired(spec: &str) -> (Topology, (Guid, Guid)) {
        let (nodes, mut cables) = generate(spec).unwrap().into_parts();
        let has_hosts = |at: usize, cables: &[Cable]| {
            cables.iter().any(|cable| {
                let ends = [cable.a.0, cable.b.0];
                ends.contains(&at) && ends.iter().any(|&end| nodes[end].kind == NodeKind::Ca)
            })
        };
        let is_switch = |at: usize| nodes[at].kind == NodeKind::Switch;
        let between: Vec<usize> = (0..cables.len())
            .filter(|&at| is_switch(cables[at].a.0) && is_switch(cables[at].b.0))
            .collect();
        let is_of_leaf =
            |at: &usize| has_hosts(cables[*at].a.0, &cables) || has_hosts(cables[*at].b.0, &cables);
        let (of_leaves, of_spines): (Vec<usize>, Vec<usize>) =
            between.into_iter().partition(is_of_leaf);
        let (one, other) = (of_leaves[0], *of_spines.last().unwrap());
        let far = cables[one].b;
        cables[one].b = cables[other].b;
        cables[other].b = far;
        let ends = (cables[one].a.0, cables[one].b.0);
        let ends = (nodes[ends.0].guid, nodes[ends.1].guid);
        let netlist = Netlist::new(nodes, cables).unwrap();
        (Topology::from_netlist(&netlist).unwrap(), ends)
    }

    #[test]
    fn cable_that_skips_a_tier_and_takes_all_paths_of_its_leaf_is_reported() {
        let (topology, (leaf, core)) = miswired("fat-tree:k=8,levels=3");
        let routing = route(EngineKind::FabricTree, &topology, &Options::default(), None).unwrap();
        let quality = measure(&topology, &routing.tables, &settings(&routing));
        let most = quality.balance.most.unwrap();
        assert_eq!((most.link.switch, most.link.peer), (leaf, core));
        assert!(quality.balance.beyond > 0 && most.times() > 3.0, "{most:?}");
    }
}
