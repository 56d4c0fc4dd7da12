//! Figures: hand-computed ones of small fabrics, an oracle that follows one packet at a time,
//! and published figures of fat trees.

use crate::common;
use crate::random;

use std::collections::{BTreeMap, BTreeSet};

use common::{Fabric, pgft};
use proptest::prelude::*;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::engine::{EngineKind, Options, route};
use rsm_routing::quality::{
    LinkUse, Quality, SHIFTS, Settings, link_uses, measure, topological_order,
};
use rsm_routing::tables::{NO_PATH, Tables};
use rsm_routing::topology::{Destination, PortUse, Topology};
use rsm_routing::verify::verify;

fn routed(kind: EngineKind, topology: &Topology) -> Tables {
    route(kind, topology, &Options::default(), None)
        .unwrap()
        .tables
}

fn measured(topology: &Topology, tables: &Tables) -> Quality {
    measure(topology, tables, &Settings::default())
}

/// The path of a packet, as (switch, port) of each link, or `None` if it does not arrive.
fn path(
    topology: &Topology,
    tables: &Tables,
    from: &Destination,
    to: &Destination,
) -> Option<Vec<(Guid, PortNum)>> {
    let mut at = from.switch;
    let mut path = Vec::new();
    loop {
        let byte = tables
            .lfts
            .get(at.index())
            .map_or(NO_PATH, |lft| lft.entry(to.lid));
        if at == to.switch {
            return (byte == to.port.0).then_some(path);
        }
        match topology.port_use(at, PortNum(byte)) {
            PortUse::Link { peer, .. } if path.len() <= topology.switch_count() => {
                path.push((topology.switch(at).guid, PortNum(byte)));
                at = peer;
            }
            _ => return None,
        }
    }
}

/// Two leaves with two hosts each below two spines, and tables in which packets to host `n` pass
/// the spine with the number `spine[n]`.
fn two_by_two(spine: [usize; 4]) -> (Topology, Tables) {
    let mut fabric = Fabric::new();
    let switches = fabric.switches(4);
    for leaf in [0, 1] {
        fabric.hosts(switches[leaf], 2);
        fabric.link(switches[leaf], switches[2]);
        fabric.link(switches[leaf], switches[3]);
    }
    let topology = fabric.build();
    let mut tables = routed(EngineKind::MinHop, &topology);
    for (host, &spine) in spine.iter().enumerate() {
        let lid = Lid(5 + host as u16);
        let own_leaf = host / 2;
        // Ports 1 and 2 of a leaf lead to its hosts, 3 and 4 to the spines.
        tables.lfts[1 - own_leaf].set_entry(lid, 3 + spine as u8);
    }
    (topology, tables)
}

#[test]
fn two_leaves_spread_over_two_spines_have_no_contention() {
    let (topology, tables) = two_by_two([0, 1, 0, 1]);
    let quality = measured(&topology, &tables);
    assert_eq!(
        (quality.hosts, quality.links, quality.lost_pairs),
        (4, 8, 0)
    );
    // Two hosts send to each host of the other leaf: 8 pairs, 2 hops each, on 8 links.
    assert_eq!((quality.paths.max, quality.paths.mean), (2, 2.0));
    assert_eq!(quality.paths.max_over_mean(), 1.0);
    assert_eq!(quality.paths.rate_max_over_mean, 1.0);
    assert_eq!(quality.all_to_all, 1);
    assert_eq!((quality.shift.max, quality.shift.mean), (1, 1.0));
    assert_eq!((quality.shift.phases, quality.shift.of), (3, 3));
    assert_eq!(quality.random.max, 1);
    assert_eq!((quality.bisection.mean, quality.bisection.min), (1.0, 1.0));
    assert_eq!(quality.ring.max, 1);
    assert_eq!(
        quality.recursive_doubling.mean, 0.5,
        "the first phase stays within leaves"
    );
    assert_eq!(quality.rail_all_to_all, None);
    assert_eq!(quality.worst.len(), 8);
}

#[test]
fn everything_over_one_spine_shows_in_every_figure() {
    let (topology, tables) = two_by_two([0, 0, 0, 0]);
    let quality = measured(&topology, &tables);
    assert_eq!((quality.paths.max, quality.paths.mean), (4, 2.0));
    assert_eq!(quality.paths.max_over_mean(), 2.0);
    assert_eq!(quality.all_to_all, 2);
    // By 1 and by 3 one host of each leaf sends to the other leaf, by 2 both do.
    assert_eq!(quality.shift.max, 2);
    assert_eq!(quality.shift.mean, 4.0 / 3.0);
    assert_eq!(quality.ring.max, 1);
    assert_eq!(
        (
            quality.recursive_doubling.max,
            quality.recursive_doubling.mean
        ),
        (2, 1.0)
    );
    assert_eq!(quality.bisection.min, 0.5);
    let worst = quality.worst[0];
    let expected = LinkUse {
        switch: Guid(0x1000),
        port: PortNum(3),
        peer: Guid(0x1002),
        peer_port: PortNum(1),
        rate: 100,
        paths: 4,
        sources: 2,
        destinations: 2,
    };
    assert_eq!(worst, expected);
    assert_eq!(quality.worst[4].paths, 0);
}

#[test]
fn patterns_run_in_each_rail_separately() {
    let (topology, tables) = two_by_two([0, 0, 1, 1]);
    // The first host of each leaf is rail 0, the second rail 1; switches have none.
    let mut rails = vec![None; topology.destinations().len()];
    for (index, destination) in topology.destinations().iter().enumerate() {
        rails[index] = destination
            .kind
            .is_host()
            .then(|| u16::from(destination.port.0) - 1);
    }
    let settings = Settings {
        seed: 1,
        rails,
        ..Settings::default()
    };
    let quality = measure(&topology, &tables, &settings);
    let rail = quality.rail_all_to_all.unwrap();
    assert_eq!((rail.max, rail.mean, rail.phases), (2, 2.0, 1));
    assert_eq!(quality.ring.max, 2, "both rails cross at the same time");
    assert_eq!(quality.recursive_doubling.phases, 1);
}

#[test]
fn a_slow_link_is_the_worst_though_others_carry_more() {
    let mut fabric = Fabric::new();
    let switches = fabric.switches(3);
    fabric.hosts(switches[0], 2);
    fabric.hosts(switches[1], 1);
    fabric.hosts(switches[2], 1);
    fabric.link_of_rate(switches[0], switches[1], 100);
    fabric.link_of_rate(switches[1], switches[2], 50);
    let topology = fabric.build();
    let quality = measured(&topology, &routed(EngineKind::MinHop, &topology));
    // 2 hosts to 2 over the fast link, 3 hosts to 1 over the slow one.
    assert_eq!(quality.paths.max, 4);
    assert_eq!((quality.worst[0].rate, quality.worst[0].paths), (50, 3));
    let slow = 3.0 / 50.0;
    assert_eq!(quality.paths.rate_max_over_mean, slow / (14.0 / 300.0));
    assert_eq!(quality.paths.rate_max, 6.0);
    // A single host is behind the slow link.
    assert_eq!(quality.all_to_all, 2);
}

#[test]
fn patterns_count_flows_by_the_rate_of_links() {
    let mut fabric = Fabric::new();
    let switches = fabric.switches(2);
    for &switch in &switches {
        fabric.hosts(switch, 3);
    }
    fabric.link_of_rate(switches[0], switches[1], 200);
    fabric.link_of_rate(switches[0], switches[1], 80);
    let topology = fabric.build();
    let mut tables = routed(EngineKind::MinHop, &topology);
    // Ports 1 to 3 lead to hosts, 4 over the fast cable and 5 over the one 2.5 times slower, which
    // the first host of each switch gets.
    for lid in 3..=8u16 {
        let other = usize::from(lid < 6);
        tables.lfts[other].set_entry(Lid(lid), if lid % 3 == 0 { 5 } else { 4 });
    }
    let quality = measured(&topology, &tables);
    // By 1, 2 and 3 a flow passes the slow cable, by 4 two share the fast one, by 5 one has it.
    assert_eq!(quality.shift.max, 3, "2.5, rounded up");
    assert_eq!(quality.shift.mean, (3.0 * 2.5 + 2.0 + 1.0) / 5.0);
    assert_eq!(quality.ring.mean, 2.5);
    assert_eq!(quality.all_to_all, 3);
    assert_eq!((quality.paths.max, quality.paths.rate_max), (6, 7.5));
}

#[test]
fn empty_tables_measure_as_nothing() {
    let empty = Fabric::new().build();
    let quality = measured(&empty, &Tables::default());
    assert_eq!((quality.hosts, quality.links, quality.paths.max), (0, 0, 0));
    assert_eq!(quality.paths.max_over_mean(), 1.0);
    let mut one = Fabric::new();
    let switch = one.switch();
    one.host(switch);
    let quality = measured(&one.build(), &Tables::default());
    assert_eq!((quality.hosts, quality.lost_pairs), (1, 0));
    assert_eq!(quality.shift.phases, 0);
}

#[test]
fn a_loop_and_a_hole_lose_their_pairs_and_nothing_else() {
    let (topology, mut tables) = two_by_two([0, 1, 0, 1]);
    // LID 8 is sent back by its spine; LID 5 is discarded by its own leaf.
    tables.lfts[3].set_entry(Lid(8), 1);
    tables.lfts[0].set_entry(Lid(5), NO_PATH);
    let quality = measured(&topology, &tables);
    assert_eq!(quality.lost_pairs, 2 + 3);
    let uses = link_uses(&topology, &tables);
    assert_eq!(uses.iter().map(|link| link.paths).sum::<u64>(), 2 * 4);
    assert!(quality.shift.max <= 1);
}

#[test]
fn hosts_of_a_subtree_are_consecutive() {
    // GUIDs alternate between two pods of two leaves each.
    let mut fabric = Fabric::new();
    let leaves = fabric.switches(4);
    let spines = fabric.switches(2);
    let core = fabric.switch();
    for (number, &leaf) in leaves.iter().enumerate() {
        fabric.link(leaf, spines[number % 2]);
        fabric.hosts(leaf, 2);
    }
    for &spine in &spines {
        fabric.link(spine, core);
    }
    let topology = fabric.build();
    let order: Vec<_> = topological_order(&topology)
        .map(|host| (host.switch.0, host.port.0))
        .collect();
    assert_eq!(
        order,
        [
            (0, 2),
            (0, 3),
            (2, 2),
            (2, 3),
            (1, 2),
            (1, 3),
            (3, 2),
            (3, 3)
        ]
    );
}

#[test]
fn a_sampled_shift_reports_its_sample() {
    let mut fabric = Fabric::new();
    let switches = fabric.switches(20);
    for &switch in &switches[1..] {
        fabric.link(switches[0], switch);
        fabric.hosts(switch, 220);
    }
    let topology = fabric.build();
    let quality = measured(&topology, &routed(EngineKind::MinHop, &topology));
    assert_eq!(
        (quality.hosts, quality.shift.phases, quality.shift.of),
        (4180, SHIFTS, 4179)
    );
    assert_eq!(quality.shift.max, 220);
}

#[test]
fn the_number_of_threads_does_not_change_figures() {
    let topology = pgft(&[4, 4, 6], &[1, 4, 4], &[1, 1, 1], 0);
    let tables = routed(EngineKind::UpDn, &topology);
    let measured_with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.unwrap().install(|| measured(&topology, &tables))
    };
    let one = measured_with(1);
    assert_eq!(one, measured_with(2));
    assert_eq!(one, measured_with(5));
}

/// Checks a figure against packets that are followed one at a time.
fn assert_as_followed(topology: &Topology, tables: &Tables) {
    let hosts: Vec<_> = topological_order(topology).collect();
    let mut on_link = BTreeMap::<_, (u64, BTreeSet<Guid>, BTreeSet<Guid>)>::new();
    let (mut lost, mut hops) = (0, 0);
    let routes: Vec<Vec<_>> = hosts
        .iter()
        .map(|from| {
            hosts
                .iter()
                .map(|to| path(topology, tables, from, to))
                .collect()
        })
        .collect();
    for (from, routes) in hosts.iter().zip(&routes) {
        for (to, path) in hosts
            .iter()
            .zip(routes)
            .filter(|(to, _)| to.guid != from.guid)
        {
            let Some(path) = path else {
                lost += 1;
                continue;
            };
            hops += path.len() as u64;
            for link in path {
                let (paths, sources, destinations) = on_link.entry(*link).or_default();
                *paths += 1;
                sources.insert(from.guid);
                destinations.insert(to.guid);
            }
        }
    }
    let uses = link_uses(topology, tables);
    assert_eq!(uses.iter().map(|link| link.paths).sum::<u64>(), hops);
    for link in &uses {
        let (paths, sources, destinations) = on_link
            .remove(&(link.switch, link.port))
            .unwrap_or_default();
        let expected = (paths, sources.len() as u32, destinations.len() as u32);
        assert_eq!(
            (link.paths, link.sources, link.destinations),
            expected,
            "{link:?}"
        );
    }
    assert!(on_link.is_empty(), "paths on what is no link: {on_link:?}");

    let quality = measured(topology, tables);
    assert_eq!(quality.lost_pairs, lost);
    let fastest = uses.iter().map(|link| link.rate).max().unwrap_or(1);
    let times_slower: BTreeMap<_, f64> = uses
        .iter()
        .map(|link| {
            let times = f64::from(fastest) / f64::from(link.rate);
            ((link.switch, link.port), times)
        })
        .collect();
    let count = hosts.len();
    let mut most = Vec::new();
    for distance in 1..count {
        let mut load = BTreeMap::<_, u32>::new();
        for from in 0..count {
            for link in routes[from][(from + distance) % count].iter().flatten() {
                *load.entry(link).or_default() += 1;
            }
        }
        let by_rate = load
            .into_iter()
            .map(|(link, flows)| f64::from(flows) * times_slower[link]);
        most.push(by_rate.fold(0.0, f64::max));
    }
    let fullest = most.iter().copied().fold(0.0, f64::max);
    assert_eq!(f64::from(quality.shift.max), fullest.ceil());
    let mean = most.iter().sum::<f64>() / most.len().max(1) as f64;
    assert_eq!(quality.shift.mean, mean);
    let bound = quality.all_to_all;
    assert!(
        quality.shift.max <= bound && quality.random.max <= bound,
        "{quality:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn figures_equal_those_of_followed_packets(plan in random::any_graph()) {
        let topology = plan.build();
        assert_as_followed(&topology, &routed(EngineKind::MinHop, &topology));
    }

    #[test]
    fn any_bytes_are_measured(plan in random::any_graph(), bytes in proptest::collection::vec(any::<u8>(), 64), small in any::<bool>()) {
        let topology = plan.build();
        let mut tables = routed(EngineKind::UpDn, &topology);
        let lids = usize::from(topology.top_lid().0) + 1;
        for (index, &byte) in bytes.iter().enumerate() {
            let switch = index * 7 % topology.switch_count();
            let lid = Lid((index * 13 % lids) as u16);
            // Small numbers are ports that exist: wrong turns and cycles.
            tables.lfts[switch].set_entry(lid, if small { byte % 8 } else { byte });
        }
        assert_as_followed(&topology, &tables);
    }

    #[test]
    fn without_lmc_paths_equal_the_load_of_the_proof(plan in random::any_graph()) {
        let topology = random::Plan { lmc: 0, ..plan }.build();
        let tables = routed(EngineKind::UpDn, &topology);
        let (quality, report) = (measured(&topology, &tables), verify(&topology, &tables));
        prop_assert_eq!(quality.paths.max, report.load.max);
        prop_assert_eq!(quality.paths.mean, report.load.mean);
    }
}
