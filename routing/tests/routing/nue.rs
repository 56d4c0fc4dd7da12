//! The promises of `nue`, on fabrics of every kind.

use crate::common;
use crate::random;

use common::{Fabric, assert_sound_on_lanes, generated, pgft, ring};
use proptest::prelude::*;
use rsm_routing::engine::{
    EngineError, EngineKind, EngineOptions, Nue, Options, Ranking, Routing, route,
};
use rsm_routing::mcast::Orientation;
use rsm_routing::quality::{LinkUse, link_uses};
use rsm_routing::topology::Topology;
use rsm_routing::verify::{Dependencies, Report};

fn routed(topology: &Topology, vls: u8) -> Routing {
    let options = Options {
        engine_options: EngineOptions::default().with(&Nue::VLS, vls),
        ..Options::default()
    };
    route(EngineKind::Nue, topology, &options, None).unwrap()
}

fn assert_sound(topology: &Topology, routing: &Routing) -> Report {
    let report = assert_sound_on_lanes(topology, routing);
    assert_eq!(report.switch_pairs.unreachable, 0);
    report
}

#[test]
fn rings_are_cut_once_on_one_lane() {
    for count in 3..20 {
        let topology = ring(count);
        let routing = routed(&topology, 1);
        let report = assert_sound(&topology, &routing);
        assert!(routing.lanes.is_single());
        assert!((report.max_hops as usize) < count);
    }
}

#[test]
fn more_lanes_give_shorter_paths() {
    let torus = |sizes: [usize; 2]| {
        let mut fabric = Fabric::new();
        let switches = fabric.switches(sizes[0] * sizes[1]);
        for (number, &switch) in switches.iter().enumerate() {
            let (x, y) = (number / sizes[1], number % sizes[1]);
            fabric.hosts(switch, 2);
            fabric.link(switch, switches[(x + 1) % sizes[0] * sizes[1] + y]);
            fabric.link(switch, switches[x * sizes[1] + (y + 1) % sizes[1]]);
        }
        fabric.build()
    };
    let topology = torus([6, 6]);
    let [one, four] = [1, 4].map(|vls| assert_sound(&topology, &routed(&topology, vls)));
    assert!(four.average_hops <= one.average_hops);
    // The mean distance of two hosts of a 6x6 torus is 3 hops, less pairs at one switch.
    assert!(four.average_hops < 3.2, "{}", four.average_hops);
    assert!(one.average_hops < 4.0, "{}", one.average_hops);
}

#[test]
fn lanes_that_links_do_not_have_are_refused() {
    let options = Options {
        engine_options: EngineOptions::default().with(&Nue::VLS, 4),
        max_vls: Some(2),
        ..Options::default()
    };
    let error = route(EngineKind::Nue, &ring(5), &options, None).unwrap_err();
    let expected = EngineError::TooFewLanes {
        engine: "nue",
        needed: 4,
        available: 2,
    };
    assert_eq!(error, expected);
}

#[test]
fn a_fault_changes_no_service_level() {
    let mut fabric = Fabric::new();
    let switches = fabric.switches(12);
    for (number, &switch) in switches.iter().enumerate() {
        fabric.host(switch);
        for step in [1, 3, 4] {
            fabric.link(switch, switches[(number + step) % 12]);
        }
    }
    let topology = fabric.build();
    let cable = topology.cables()[7];
    let broken = topology.without_cables(&[cable.a]);
    let [before, after] = [&topology, &broken].map(|topology| routed(topology, 3));
    assert_eq!(before.lanes.levels(), after.lanes.levels());
    assert_sound(&broken, &after);
}

/// Routes of a fabric after a fault.
fn rerouted(topology: &Topology, before: &Routing) -> Routing {
    let options = Options {
        previous_ranking: before.ranking.clone(),
        ..Options::default()
    };
    route(EngineKind::Nue, topology, &options, None).unwrap()
}

fn assert_follows(topology: &Topology, routing: &Routing, order: &Ranking) {
    let order = Orientation::of(topology, order).unwrap();
    let dependencies = Dependencies::of(topology, &routing.tables);
    assert!(dependencies.follows(|high, low| order.is_above(high, low)));
}

#[test]
fn the_order_of_the_switches_outlives_faults_and_repairs() {
    let topology = generated("random:switches=60,degree=5,hosts=2");
    let whole = routed(&topology, 1);
    let order = whole.ranking.clone().unwrap();
    let mut kept = 0;
    let cables = topology.cables();
    for cable in cables.iter().step_by(3) {
        let broken = topology.without_cables(&[cable.a]);
        let next = rerouted(&broken, &whole);
        assert_sound(&broken, &next);
        let followed = next.ranking.clone().unwrap();
        assert_follows(&broken, &next, &followed);
        if followed.switches == order.switches {
            kept += 1;
            // During the change both old and new tables are in use.
            assert_follows(&topology, &whole, &followed);
            assert_eq!(rerouted(&topology, &next), whole);
        }
    }
    assert!(kept * 10 >= 9 * cables.len().div_ceil(3), "{kept} faults");
}

#[test]
fn hosts_that_go_and_return_change_no_other_entry() {
    let whole = generated("random:switches=40,degree=5,hosts=4,seed=2");
    let before = routed(&whole, 1);
    assert!(before.ranking.is_some(), "{}", before.reason);
    let hosts: Vec<_> = whole
        .destinations()
        .iter()
        .filter(|end| end.kind.is_host())
        .collect();
    for gone in hosts.chunks(3).step_by(5) {
        let ports: Vec<_> = gone
            .iter()
            .map(|end| (whole.switch(end.switch).guid, end.port))
            .collect();
        let without = whole.without_cables(&ports);
        assert_eq!(without.destinations().len() + 3, whole.destinations().len());
        let after = rerouted(&without, &before);
        assert_sound(&without, &after);
        for end in without.destinations() {
            for (was, is) in before.tables.lfts.iter().zip(&after.tables.lfts) {
                assert_eq!(was.entry(end.lid), is.entry(end.lid), "{}", end.lid);
            }
        }
        let back = rerouted(&whole, &after);
        assert_eq!(back.tables, before.tables);
    }
}

#[test]
fn a_tree_does_not_get_the_order_of_nue() {
    let topology = generated("pgft:2;6,6;1,4;1,1,management=2");
    let nue = routed(&topology, 1);
    let random = routed(&generated("random:switches=10,degree=4,hosts=2"), 1);
    let earlier = [nue.ranking, random.ranking];
    assert!(earlier.iter().any(Option::is_some));
    for engine in [EngineKind::FabricTree, EngineKind::UpDn, EngineKind::DnUp] {
        let anew = route(engine, &topology, &Options::default(), None).unwrap();
        for earlier in earlier.iter().flatten() {
            let mut switches = earlier.switches.clone();
            switches.extend(topology.switches().iter().map(|switch| (switch.guid, 0)));
            let options = Options {
                previous_ranking: Some(Ranking {
                    switches,
                    ..earlier.clone()
                }),
                ..Options::default()
            };
            let next = route(engine, &topology, &options, None).unwrap();
            assert_eq!(next.tables, anew.tables, "{engine}: {}", next.reason);
        }
    }
}

/// The paths on the fullest link over the mean of all links.
fn imbalance(topology: &Topology, routing: &Routing) -> f64 {
    let links = link_uses(topology, &routing.tables);
    let paths = |link: &LinkUse| link.paths as f64;
    let fullest = links.iter().map(paths).fold(0.0, f64::max);
    fullest * links.len() as f64 / links.iter().map(paths).sum::<f64>()
}

#[test]
fn hosts_of_one_switch_are_reached_by_different_paths() {
    // With one path to a leaf the fullest link has 4, 8 and 16 times the mean.
    for (spec, most) in [
        ("pgft:2;4,4;1,4;1,1", 2.0),
        ("fat-tree:k=8,levels=3", 2.0),
        ("superpod:su=2", 2.0),
        ("superpod:su=4", 2.0),
    ] {
        let topology = generated(spec);
        let routing = routed(&topology, 1);
        assert_sound(&topology, &routing);
        let imbalance = imbalance(&topology, &routing);
        assert!(imbalance <= most, "{spec}: {imbalance}");
    }
}

#[test]
fn links_of_irregular_graphs_carry_few_times_the_mean_at_most() {
    for seed in 1..5 {
        let spec = format!("random:switches=100,degree=8,hosts=4,seed={seed}");
        let topology = generated(&spec);
        let routing = routed(&topology, 1);
        let report = assert_sound(&topology, &routing);
        let imbalance = imbalance(&topology, &routing);
        assert!(imbalance <= 3.5, "{spec}: {imbalance}");
        // Shortest paths have 2.43 hops on average.
        assert!(
            report.average_hops < 2.75,
            "{spec}: {}",
            report.average_hops
        );
    }
}

#[test]
fn trees_have_shortest_paths_between_hosts() {
    for topology in [
        pgft(&[4, 4, 6], &[1, 4, 2], &[1, 1, 2], 0),
        generated("fat-tree:k=8,levels=3"),
        generated("superpod:su=2"),
    ] {
        let report = assert_sound(&topology, &routed(&topology, 1));
        let options = Options::default();
        let shortest = route(EngineKind::MinHop, &topology, &options, None).unwrap();
        let shortest = rsm_routing::verify::verify(&topology, &shortest.tables);
        assert_eq!(report.average_hops, shortest.average_hops);
    }
}

#[test]
fn parallel_links_carry_the_same_number_of_paths() {
    for (hosts, links) in [(4, 2), (6, 3), (8, 4)] {
        let mut fabric = Fabric::new();
        let switches = fabric.switches(3);
        for &leaf in &switches[1..] {
            fabric.hosts(leaf, hosts);
            for _ in 0..links {
                fabric.link(switches[0], leaf);
            }
        }
        let topology = fabric.build();
        let routing = routed(&topology, 1);
        assert_sound(&topology, &routing);
        let each = (hosts * hosts / links) as u64;
        for link in link_uses(&topology, &routing.tables) {
            assert_eq!(link.paths, each, "{hosts} hosts, {links} links: {link:?}");
        }
    }
}

#[test]
fn parallel_links_of_different_rates_carry_paths_by_rate() {
    let mut fabric = Fabric::new();
    let switches = fabric.switches(2);
    for &switch in &switches {
        fabric.hosts(switch, 10);
    }
    fabric.link_of_rate(switches[0], switches[1], 400);
    fabric.link_of_rate(switches[0], switches[1], 100);
    let topology = fabric.build();
    for link in link_uses(&topology, &routed(&topology, 1).tables) {
        let share = if link.rate == 400 { 80 } else { 20 };
        assert_eq!(link.paths, share, "{link:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn nue_routes_any_fabric(plan in random::any_fabric(), vls in 1u8..9) {
        let topology = plan.build();
        let routing = routed(&topology, vls);
        assert_sound(&topology, &routing);
        if let Some(order) = &routing.ranking {
            assert_follows(&topology, &routing, order);
        }
        let options = Options { engine_options: EngineOptions::default().with(&Nue::VLS, vls), threads: 3, ..Options::default() };
        prop_assert_eq!(route(EngineKind::Nue, &topology, &options, None).unwrap(), routing);
    }
}
