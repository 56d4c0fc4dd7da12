//! The choice of `auto`, and how long it stays.

use crate::common;
use crate::random;

use common::{Fabric, assert_sound_on_lanes};
use proptest::prelude::*;
use rsm_ids::Guid;
use rsm_routing::engine::{EngineKind, Options, Routing, route};
use rsm_routing::generate::generate;
use rsm_routing::quality::link_uses;
use rsm_routing::topology::Topology;

const OFFERS: [EngineKind; 2] = [EngineKind::FabricTree, EngineKind::Nue];

fn generated(spec: &str) -> Topology {
    Topology::from_netlist(&generate(spec).unwrap()).unwrap()
}

fn chosen(topology: &Topology, earlier: Option<&Routing>) -> Routing {
    let options = Options {
        previous_ranking: earlier.and_then(|routing| routing.ranking.clone()),
        previous_choice: earlier.and_then(|routing| routing.choice.clone()),
        ..Options::default()
    };
    route(EngineKind::Auto, topology, &options, None).unwrap()
}

/// The paths on the fullest link, by rate.
fn fullest(topology: &Topology, routing: &Routing) -> f64 {
    let uses = link_uses(topology, &routing.tables);
    let loads = uses
        .iter()
        .map(|link| link.paths as f64 / f64::from(link.rate));
    loads.fold(0.0, f64::max)
}

/// Checks that `auto` offers the engines whose fullest link is lighter by more than a tenth, and
/// those alone; gives how many.
fn assert_offers(topology: &Topology, auto: &Routing) -> usize {
    let own = fullest(topology, auto);
    let mut offered = 0;
    for engine in OFFERS {
        let other = route(engine, topology, &Options::default(), None).unwrap();
        let is_lighter = fullest(topology, &other) * 1.1 < own;
        let is_offered = auto.reason.contains(&format!(" with {engine}"));
        assert_eq!(is_offered, is_lighter, "{engine}: {}", auto.reason);
        offered += usize::from(is_offered);
    }
    offered
}

#[test]
fn a_fabric_without_ranks_gets_updn_and_lighter_engines_are_offered() {
    let mut offered = Vec::new();
    for spec in [
        "torus:4x4x4",
        "torus:9x5,hosts=2",
        "random:switches=60,degree=5,hosts=4",
        "ring:6",
    ] {
        let topology = generated(spec);
        let auto = chosen(&topology, None);
        assert_sound_on_lanes(&topology, &auto);
        assert_eq!(auto.engine, "updn", "{spec}");
        offered.push(assert_offers(&topology, &auto));
    }
    assert!(offered.contains(&1) && offered.contains(&2), "{offered:?}");
}

#[test]
fn a_fabric_with_ranks_gets_the_tree_engine_without_a_comparison() {
    let auto = chosen(&generated("fat-tree:k=4,levels=3"), None);
    let expected = "auto chose fabric-tree because the switches stand in ranks; fabric-tree: ";
    assert!(auto.reason.starts_with(expected), "{}", auto.reason);
}

/// Leaves and spines, with two cables between the spines: as many links within a rank as make it a
/// fabric without ranks. One less, and it has ranks.
fn at_the_border() -> Topology {
    let mut fabric = Fabric::new();
    let switches = fabric.switches(4);
    for &leaf in &switches[..2] {
        fabric.hosts(leaf, 2);
        for &spine in &switches[2..] {
            fabric.link(leaf, spine);
        }
    }
    fabric.link(switches[2], switches[3]);
    fabric.link(switches[2], switches[3]);
    fabric.build()
}

/// The same without a cable between the spines.
fn with_ranks() -> Topology {
    let whole = at_the_border();
    let spine = whole.switches()[2].guid;
    let cables = whole.cables();
    let between = cables.iter().find(|cable| cable.a.0 == spine);
    whole.without_cables(&[between.expect("there are two").a])
}

#[test]
fn no_fault_changes_the_engine() {
    let whole = at_the_border();
    let first = chosen(&whole, None);
    assert_eq!(first.engine, "updn");
    let broken = with_ranks();
    // Without the earlier choice it would be another one.
    assert_eq!(chosen(&broken, None).engine, "fabric-tree");
    let during = chosen(&broken, Some(&first));
    assert_eq!(during.engine, "updn");
    assert_sound_on_lanes(&broken, &during);
    assert_eq!(chosen(&whole, Some(&during)).engine, "updn");
}

#[test]
fn a_fabric_that_grows_is_judged_anew() {
    let small = chosen(&with_ranks(), None);
    assert_eq!(small.engine, "fabric-tree");
    assert_eq!(chosen(&at_the_border(), Some(&small)).engine, "updn");
}

#[test]
fn other_roots_are_judged_anew() {
    let topology = generated("torus:9x5,hosts=2");
    let first = chosen(&topology, None);
    let with_root = |roots: Vec<Guid>, earlier: &Routing| {
        let options = Options {
            root_guids: roots,
            previous_choice: earlier.choice.clone(),
            ..Options::default()
        };
        route(EngineKind::Auto, &topology, &options, None).unwrap()
    };
    let root = topology.switches()[0].guid;
    let rooted = with_root(vec![root], &first);
    assert_ne!(rooted.choice, first.choice);
    assert_eq!(with_root(vec![root], &rooted).choice, rooted.choice);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_graph_gets_sound_tables_on_one_lane(plan in random::any_graph()) {
        let topology = plan.build();
        let auto = chosen(&topology, None);
        assert_sound_on_lanes(&topology, &auto);
        prop_assert!(auto.lanes.is_single());
        if auto.engine == "updn" {
            assert_offers(&topology, &auto);
        }
        // The choice alone gives the same tables, whatever the number of threads.
        let options = Options {
            previous_choice: auto.choice.clone(),
            threads: 1,
            ..Options::default()
        };
        let again = route(EngineKind::Auto, &topology, &options, None).unwrap();
        prop_assert_eq!(again.tables, auto.tables);
    }
}
