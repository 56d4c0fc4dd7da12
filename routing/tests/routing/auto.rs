//! The choice of `auto`, and how long it stays.

use crate::common;
use crate::random;

use common::{assert_sound_on_lanes, grid};
use proptest::prelude::*;
use rsm_ids::Guid;
use rsm_routing::engine::{EngineKind, Options, Routing, route};
use rsm_routing::generate::generate;
use rsm_routing::mcast::Orientation;
use rsm_routing::quality::{Settings, link_uses, measure};
use rsm_routing::topology::Topology;
use rsm_routing::verify::Dependencies;

const CANDIDATES: [EngineKind; 2] = [EngineKind::FabricTree, EngineKind::UpDn];

fn generated(spec: &str) -> Topology {
    Topology::from_netlist(&generate(spec).unwrap()).unwrap()
}

fn random_graph(seed: u64) -> Topology {
    generated(&format!("random:switches=24,degree=4,hosts=3,seed={seed}"))
}

fn chosen(topology: &Topology, earlier: Option<&Routing>) -> Routing {
    let options = Options {
        previous_ranking: earlier.and_then(|routing| routing.ranking.clone()),
        previous_choice: earlier.and_then(|routing| routing.choice.clone()),
        previous_coordinates: earlier.and_then(|routing| routing.coordinates.clone()),
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

/// Checks that no candidate's fullest link is lighter by more than a tenth.
fn assert_lightest(topology: &Topology, auto: &Routing) {
    let load = fullest(topology, auto);
    for engine in CANDIDATES {
        if let Ok(other) = route(engine, topology, &Options::default(), None) {
            let other_load = fullest(topology, &other);
            assert!(
                load <= other_load * 1.1 + 1e-9,
                "{} against {engine}",
                auto.reason
            );
        }
    }
}

#[test]
fn the_engine_with_the_lightest_fullest_link_is_chosen() {
    let mut offered = Vec::new();
    for spec in [
        "torus:4x4x4",
        "torus:6x6x6",
        "torus:9x5,hosts=2",
        "random:switches=60,degree=5,hosts=4",
        "random:switches=24,degree=3,hosts=6,seed=3",
    ] {
        let topology = generated(spec);
        let auto = chosen(&topology, None);
        assert_sound_on_lanes(&topology, &auto);
        assert!(auto.lanes.is_single(), "{spec}");
        assert_lightest(&topology, &auto);
        // It offers nue where that is lighter by more than a tenth, and there alone.
        let nue = route(EngineKind::Nue, &topology, &Options::default(), None).unwrap();
        let is_lighter = fullest(&topology, &nue) * 1.1 < fullest(&topology, &auto);
        let is_offered = auto.reason.contains("routing.engine = \"nue\" would have");
        assert_eq!(is_offered, is_lighter, "{spec}: {}", auto.reason);
        offered.push(is_offered);
    }
    assert!(offered.contains(&true) && offered.contains(&false));
}

#[test]
fn random_graphs_get_routes_of_nue_that_follow_an_order_of_the_switches() {
    // The most paths on a link with any engine of OpenSM that needs one lane are 6,660 and 1,848,
    // the shift means 13.4 and 11.2, the random means 10.8 and 9.4, the bisections .317 and .310.
    for (spec, fullest_link, shift, random, bisection) in [
        (
            "random:switches=200,degree=8,hosts=4",
            2_300.0,
            11.5,
            7.5,
            0.325,
        ),
        (
            "random:switches=60,degree=6,hosts=4",
            900.0,
            9.6,
            7.0,
            0.325,
        ),
    ] {
        let topology = generated(spec);
        let auto = chosen(&topology, None);
        assert_sound_on_lanes(&topology, &auto);
        assert_eq!(auto.engine, "nue", "{}", auto.reason);
        let order = Orientation::of(&topology, auto.ranking.as_ref().unwrap()).unwrap();
        let dependencies = Dependencies::of(&topology, &auto.tables);
        assert!(dependencies.follows(|high, low| order.is_above(high, low)));
        let settings = Settings {
            seed: 1,
            ..Settings::default()
        };
        let quality = measure(&topology, &auto.tables, &settings);
        assert!(quality.paths.max as f64 <= fullest_link, "{quality:?}");
        assert!(quality.shift.mean <= shift, "{quality:?}");
        assert!(quality.random.mean <= random, "{quality:?}");
        assert!(quality.bisection.mean >= bisection, "{quality:?}");
    }
}

#[test]
fn meshes_and_hypercubes_get_dimension_order_on_one_lane() {
    // The fullest link of a grid whose paths are evenly spread.
    for (topology, most) in [
        (grid(&[(4, false); 3], 1, &[]), 256),
        (grid(&[(2, false); 6], 2, &[]), 128),
        (generated("torus:4x4x4"), 32),
    ] {
        let auto = chosen(&topology, None);
        assert_eq!(auto.engine, "dor", "{}", auto.reason);
        assert!(auto.lanes.is_single());
        assert_sound_on_lanes(&topology, &auto);
        let uses = link_uses(&topology, &auto.tables);
        let fullest = uses.iter().map(|link| link.paths).max();
        assert!(fullest <= Some(most), "{fullest:?}");
        // A fault keeps the engine, and a repair brings the routes back.
        let cut = topology.without_cables(&[topology.cables()[5].a]);
        let broken = chosen(&cut, Some(&auto));
        assert_eq!(broken.engine, "dor", "{}", broken.reason);
        assert_sound_on_lanes(&cut, &broken);
        let again = chosen(&topology, Some(&broken));
        assert_eq!(again.tables, auto.tables);
    }
}

#[test]
fn with_adaptive_routing_dimension_order_is_not_chosen() {
    let options = Options {
        shortest_only: true,
        ..Options::default()
    };
    let topology = generated("torus:4x4x4");
    let auto = route(EngineKind::Auto, &topology, &options, None).unwrap();
    assert!(auto.ranking.is_some(), "{}", auto.reason);
}

#[test]
fn a_torus_with_rings_names_what_service_levels_would_gain() {
    let auto = chosen(&generated("torus:5x5x5"), None);
    assert!(auto.lanes.is_single());
    let expected = "; routing.engine = \"torus\" would have 75, on 3 VLs, for programs that ask";
    assert!(auto.reason.contains(expected), "{}", auto.reason);
}

#[test]
fn a_large_fabric_gets_nue_where_its_fullest_link_is_far_lighter() {
    let topology = generated("random:switches=1500,degree=12,hosts=3,seed=1");
    let auto = chosen(&topology, None);
    assert_eq!(auto.engine, "nue", "{}", auto.reason);
    assert!(auto.reason.contains(" with updn, "), "{}", auto.reason);
    let updn = route(EngineKind::UpDn, &topology, &Options::default(), None).unwrap();
    assert!(fullest(&topology, &auto) * 4.0 < fullest(&topology, &updn));
    let cut = topology.without_cables(&[topology.cables()[0].a]);
    assert_eq!(chosen(&cut, Some(&auto)).engine, "nue");
}

#[test]
fn a_torus_gets_the_engine_of_small_repairs() {
    let auto = chosen(&generated("torus:6x6x6"), None);
    assert_eq!(auto.engine, "fabric-tree", "{}", auto.reason);
}

#[test]
fn with_adaptive_routing_nue_is_not_chosen_and_an_earlier_choice_of_it_is_dropped() {
    let topology = generated("random:switches=60,degree=6,hosts=4");
    let first = chosen(&topology, None);
    assert_eq!(first.engine, "nue");
    let options = Options {
        previous_choice: first.choice,
        shortest_only: true,
        ..Options::default()
    };
    let adaptive = route(EngineKind::Auto, &topology, &options, None).unwrap();
    assert_ne!(adaptive.engine, "nue");
    // It is still offered.
    assert!(
        adaptive
            .reason
            .contains("routing.engine = \"nue\" would have")
    );
}

#[test]
fn a_fabric_with_ranks_gets_the_tree_engine_without_a_comparison() {
    let auto = chosen(&generated("fat-tree:k=4,levels=3"), None);
    let expected = "auto chose fabric-tree because the switches stand in ranks; fabric-tree: ";
    assert!(auto.reason.starts_with(expected), "{}", auto.reason);
}

#[test]
fn no_fault_changes_the_engine() {
    let mut would_change = 0;
    for seed in 0..12 {
        let whole = random_graph(seed);
        let mut routing = chosen(&whole, None);
        let engine = routing.engine;
        for cable in whole.cables().iter().step_by(7) {
            let broken = whole.without_cables(&[cable.a]);
            routing = chosen(&broken, Some(&routing));
            assert_eq!(routing.engine, engine, "seed {seed} without {cable:?}");
            assert_sound_on_lanes(&broken, &routing);
            would_change += usize::from(chosen(&broken, None).engine != engine);
        }
        assert_eq!(chosen(&whole, Some(&routing)).engine, engine);
    }
    assert!(
        would_change > 0,
        "none of these faults would change the engine"
    );
}

#[test]
fn a_fabric_that_grows_causes_a_new_choice() {
    let mut changed = 0;
    for seed in 0..12 {
        let whole = random_graph(seed);
        let cables = whole.cables();
        let later: Vec<_> = cables.iter().step_by(2).map(|cable| cable.a).collect();
        let small = chosen(&whole.without_cables(&later), None);
        let grown = chosen(&whole, Some(&small));
        let expected = route(
            EngineKind::Auto,
            &whole,
            &Options {
                previous_ranking: small.ranking.clone(),
                ..Options::default()
            },
            None,
        );
        assert_eq!(grown.engine, expected.unwrap().engine, "seed {seed}");
        changed += usize::from(grown.engine != small.engine);
    }
    assert!(changed > 0, "no growth of these changes the choice");
}

#[test]
fn other_roots_cause_a_new_choice() {
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
        if !auto.reason.contains("stand in ranks") {
            assert_lightest(&topology, &auto);
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
