//! The promises of `nue`, on fabrics of every kind.

use crate::common;
use crate::random;

use common::{Fabric, assert_sound_on_lanes, ring};
use proptest::prelude::*;
use rsm_routing::engine::{EngineError, EngineKind, EngineOptions, Nue, Options, Routing, route};
use rsm_routing::topology::Topology;
use rsm_routing::verify::Report;

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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn nue_routes_any_fabric(plan in random::any_fabric(), vls in 1u8..9) {
        let topology = plan.build();
        let routing = routed(&topology, vls);
        assert_sound(&topology, &routing);
        let options = Options { engine_options: EngineOptions::default().with(&Nue::VLS, vls), threads: 3, ..Options::default() };
        prop_assert_eq!(route(EngineKind::Nue, &topology, &options, None).unwrap(), routing);
    }
}
