//! The promises of `dor` and `torus`, on meshes and tori, whole and broken.

use crate::common;

use std::sync::Arc;

use common::{Fabric, assert_sound_on_lanes, generated, grid, pgft, without_switches};
use proptest::prelude::*;
use rsm_ids::Guid;
use rsm_routing::engine::{
    Coordinates, EngineError, EngineKind, Options, Routing, RowCables, UnknownEngine, route,
};
use rsm_routing::lanes::{Lanes, ServiceLevels};
use rsm_routing::tables::NO_PATH;
use rsm_routing::topology::Topology;
use rsm_routing::verify::{Report, mixture_is_sound};

fn routed(kind: EngineKind, topology: &Topology) -> Routing {
    route(kind, topology, &Options::default(), None).unwrap()
}

/// Routes what remains of a torus that was routed before.
fn rerouted(topology: &Topology, before: &Routing) -> Routing {
    let options = Options {
        previous_coordinates: before.coordinates.clone(),
        ..Options::default()
    };
    route(EngineKind::Torus, topology, &options, None).unwrap()
}

fn assert_sound(topology: &Topology, routing: &Routing) -> Report {
    let report = assert_sound_on_lanes(topology, routing);
    assert_eq!(report.switch_pairs.unreachable, 0);
    report
}

fn torus(sizes: &[usize], missing: &[usize]) -> Topology {
    let dimensions: Vec<(usize, bool)> = sizes.iter().map(|&size| (size, true)).collect();
    grid(&dimensions, 1, missing)
}

/// The longest of the shortest paths.
fn diameter(sizes: &[usize]) -> u32 {
    sizes.iter().map(|&size| size as u32 / 2).sum()
}

/// The service level of every pair of switches that both topologies have.
fn levels(topology: &Topology, routing: &Routing, common: &Topology) -> Vec<Option<u8>> {
    let index = |guid: Guid| topology.switch_by_guid(guid).unwrap();
    let guids: Vec<Guid> = common.switches().iter().map(|switch| switch.guid).collect();
    guids
        .iter()
        .flat_map(|&from| guids.iter().map(move |&to| (from, to)))
        .map(|(from, to)| routing.lanes.level(index(from), index(to)))
        .collect()
}

#[test]
fn tori_are_recognised_and_routed_on_shortest_paths() {
    for sizes in [
        &[5][..],
        &[3, 3],
        &[5, 6],
        &[4, 4],
        &[3, 4, 5],
        &[6, 6, 6],
        &[7, 2, 5],
    ] {
        let topology = torus(sizes, &[]);
        let routing = routed(EngineKind::Torus, &topology);
        let report = assert_sound(&topology, &routing);
        assert_eq!(report.max_hops, diameter(sizes), "{}", routing.reason);
        // Rings of four are squares, and pairs are no rings.
        let rings = sizes.iter().filter(|&&size| size > 2 && size != 4).count();
        let rows = &routing.coordinates.as_ref().unwrap().rows;
        assert_eq!(
            rows.iter().filter(|&&row| row == RowCables::Ring).count(),
            rings
        );
        // Datelines need a further lane, and turns back from another dimension one more.
        let lanes = 1 + u8::from(rings > 0) + u8::from(rows.len() > 1);
        assert_eq!(routing.lanes.vls(), lanes, "{sizes:?}");
        assert_eq!(routing.lanes.needs_levels(), rings > 0);
    }
}

#[test]
fn load_is_even_on_all_links_of_a_torus() {
    let topology = torus(&[6, 6], &[]);
    let report = assert_sound(&topology, &routed(EngineKind::Torus, &topology));
    assert!(
        (report.load.max as f64) < report.load.mean * 1.2,
        "{:?}",
        report.load
    );
}

#[test]
fn meshes_and_hypercubes_are_routed_by_dor_on_one_lane() {
    for sizes in [&[7][..], &[4, 5], &[3, 3, 3], &[2, 2, 2, 2, 2], &[2, 9]] {
        let dimensions: Vec<(usize, bool)> = sizes.iter().map(|&size| (size, false)).collect();
        let topology = grid(&dimensions, 2, &[]);
        let routing = routed(EngineKind::Dor, &topology);
        let report = assert_sound(&topology, &routing);
        assert!(routing.lanes.is_single());
        let longest: usize = sizes.iter().map(|size| size - 1).sum();
        assert_eq!(report.max_hops as usize, longest, "{}", routing.reason);
        assert_sound(&topology, &routed(EngineKind::Torus, &topology));
    }
    let error = route(
        EngineKind::Dor,
        &torus(&[5, 5], &[]),
        &Options::default(),
        None,
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "dor does not fit this fabric: it has rings of 5, which need the lanes of torus; auto, \
         fabric-tree, updn and nue route any"
    );
}

#[test]
fn fabrics_without_a_grid_are_refused_with_the_reason() {
    let tree = pgft(&[4, 6], &[1, 4], &[1, 1], 0);
    let mut fabric = Fabric::new();
    let switches = fabric.switches(5);
    for other in &switches[1..] {
        fabric.link(switches[0], *other);
    }
    let star = fabric.build();
    let mut fabric = Fabric::new();
    let switches = fabric.switches(4);
    fabric.link(switches[0], switches[1]);
    fabric.link(switches[2], switches[3]);
    let apart = fabric.build();
    for (topology, what) in [
        (tree, ""),
        (star, "4 neighbours in one row"),
        (apart, "no connection"),
    ] {
        for kind in [EngineKind::Dor, EngineKind::Torus] {
            let error = route(kind, &topology, &Options::default(), None).unwrap_err();
            assert!(matches!(error, EngineError::Shape { .. }), "{error}");
            let text = error.to_string();
            assert!(
                text.contains("it is no mesh, torus or HyperX: ") && text.contains(what),
                "{text}"
            );
        }
    }
}

#[test]
fn a_switch_that_fails_changes_no_service_level() {
    for sizes in [&[5, 6][..], &[5, 5, 5]] {
        let whole = torus(sizes, &[]);
        let before = routed(EngineKind::Torus, &whole);
        for failed in (0..whole.switch_count()).step_by(6) {
            let topology = torus(sizes, &[failed]);
            let after = rerouted(&topology, &before);
            assert_sound(&topology, &after);
            assert_eq!(after.lanes.vls(), before.lanes.vls(), "{}", after.reason);
            assert!(
                after.reason.contains("around what is broken"),
                "{}",
                after.reason
            );
            assert_eq!(
                levels(&topology, &after, &topology),
                levels(&whole, &before, &topology)
            );
            // The repair restores everything.
            let again = rerouted(&whole, &after);
            assert_eq!(
                (&again.tables, &again.lanes),
                (&before.tables, &before.lanes)
            );
        }
    }
}

#[test]
fn a_fault_leaves_levels_and_lanes_as_they_were() {
    let whole = torus(&[5, 6], &[]);
    let before = routed(EngineKind::Torus, &whole);
    for failed in whole.indices() {
        let guid = whole.switch(failed).guid;
        let links = whole.groups(failed).flat_map(|group| group.links);
        let ends: Vec<_> = links.map(|link| (guid, link.port)).collect();
        for ends in [&ends[..], &ends[..1]] {
            let broken = whole.without_cables(ends);
            let after = rerouted(&broken, &before);
            assert_sound(&broken, &after);
            let agrees = |lanes: &Lanes| lanes.agree_with(&broken, &before.lanes, &whole);
            assert!(agrees(&after.lanes), "{}", after.reason);
            assert!(!agrees(&Lanes::layers(&broken, ServiceLevels::Any, 1)));
        }
    }
}

#[test]
fn a_new_lid_may_reach_switches_in_any_order_on_the_lanes_of_a_torus() {
    let topology = torus(&[5, 6], &[]);
    let routing = routed(EngineKind::Torus, &topology);
    let lid = topology.destinations_of(topology.indices().nth(7).unwrap())[1].lid;
    let mut before = routing.tables.clone();
    for lft in &mut before.lfts {
        lft.set_entry(lid, NO_PATH);
    }
    assert!(mixture_is_sound(
        &topology,
        &before,
        &routing.tables,
        &routing.lanes
    ));
    // On one lane it would close a cycle.
    let one = Lanes::layers(&topology, ServiceLevels::Any, 1);
    assert!(!mixture_is_sound(&topology, &before, &routing.tables, &one));
}

#[test]
fn a_torus_is_recognised_without_one_of_its_switches() {
    for failed in 0..30 {
        let topology = torus(&[5, 6], &[failed]);
        let routing = routed(EngineKind::Torus, &topology);
        assert_eq!(
            routing.coordinates.as_ref().unwrap().sizes,
            [6, 5],
            "{failed}"
        );
        assert_sound(&topology, &routing);
    }
}

#[test]
fn a_new_switch_gets_the_coordinates_that_its_links_fit() {
    let whole = torus(&[5, 6], &[]);
    let before = routed(EngineKind::Torus, &whole);
    let mut earlier = Coordinates::clone(before.coordinates.as_ref().unwrap());
    let coordinates = earlier.places.remove(&whole.switches()[11].guid).unwrap();
    let options = Options {
        previous_coordinates: Some(Arc::new(earlier)),
        ..Options::default()
    };
    let after = route(EngineKind::Torus, &whole, &options, None).unwrap();
    assert_eq!(
        after.coordinates.unwrap().places[&whole.switches()[11].guid],
        coordinates
    );
    assert_eq!(after.tables, before.tables);
}

#[test]
fn faults_without_a_detour_are_routed_by_nue() {
    // A corner of a mesh that hangs on one link in its second dimension.
    let topology = grid(&[(4, false), (4, false)], 1, &[]);
    let before = routed(EngineKind::Torus, &topology);
    let broken = grid(&[(4, false), (4, false)], 1, &[4, 9]);
    let after = rerouted(&broken, &before);
    assert_sound(&broken, &after);
    assert!(
        after.reason.contains("routed by nue, on one lane"),
        "{}",
        after.reason
    );
    assert!(after.lanes.is_single());
}

#[test]
fn a_torus_uses_only_the_lanes_that_links_have() {
    let whole = torus(&[5, 5], &[]);
    let with_vls = |topology: &Topology, vls, before: Option<&Routing>| {
        let options = Options {
            max_vls: Some(vls),
            previous_coordinates: before.and_then(|before| before.coordinates.clone()),
            ..Options::default()
        };
        route(EngineKind::Torus, topology, &options, None)
    };
    let error = with_vls(&whole, 1, None).unwrap_err();
    let text = "torus needs 2 virtual lanes on this fabric, and its links have 1; auto, fabric-tree, \
                updn and nue need one";
    assert_eq!(error.to_string(), text);
    let before = with_vls(&whole, 2, None).unwrap();
    assert_sound(&whole, &before);
    assert_eq!(before.lanes.vls(), 2);
    // Paths on a cut ring go round the other way; turns around a switch have no lane.
    let cut = whole.without_cables(&[whole.cables()[0].a]);
    let after = with_vls(&cut, 2, Some(&before)).unwrap();
    assert_sound(&cut, &after);
    assert_eq!(after.lanes.vls(), 2);
    let broken = torus(&[5, 5], &[12]);
    let after = with_vls(&broken, 2, Some(&before)).unwrap();
    assert_sound(&broken, &after);
    // A mesh needs no more than one lane.
    let mesh = grid(&[(4, false), (5, false)], 1, &[]);
    let on_one = with_vls(&mesh, 1, None).unwrap();
    assert_sound(&mesh, &on_one);
    assert!(on_one.lanes.is_single());
}

#[test]
fn an_unknown_engine_is_refused_with_all_names() {
    let error: UnknownEngine = "toru".parse::<EngineKind>().unwrap_err();
    let text = error.to_string();
    for kind in EngineKind::ALL {
        assert!(text.contains(kind.name()), "{text}");
        assert_eq!(kind.name().parse::<EngineKind>(), Ok(kind));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn broken_links_change_no_service_level(
        sizes in proptest::collection::vec(3usize..7, 1..4),
        holes in proptest::collection::vec(any::<prop::sample::Index>(), 1..5),
    ) {
        let whole = torus(&sizes, &[]);
        let before = routed(EngineKind::Torus, &whole);
        assert_sound(&whole, &before);
        let cables = whole.cables();
        let ends: Vec<_> = holes.iter().map(|hole| cables[hole.index(cables.len())].a).collect();
        let broken = whole.without_cables(&ends);
        prop_assume!(broken.components().len() == 1);
        let after = rerouted(&broken, &before);
        assert_sound(&broken, &after);
        if !after.lanes.is_single() {
            prop_assert_eq!(after.lanes.levels(), before.lanes.levels());
        }
        if ends.len() == 1 && !matches!(before.lanes.levels(), ServiceLevels::Any) && !sizes.contains(&4) {
            prop_assert!(!after.lanes.is_single(), "{}", after.reason);
        }
    }
}

/// Routes what is left of a HyperX by `dor`, and checks that no other engine is used instead.
fn dor_around(topology: &Topology, before: &Routing) -> Routing {
    let options = Options {
        previous_coordinates: before.coordinates.clone(),
        ..Options::default()
    };
    let routing = route(EngineKind::Dor, topology, &options, None).unwrap();
    assert!(routing.ranking.is_none(), "{}", routing.reason);
    assert!(routing.lanes.is_single());
    routing
}

#[test]
fn a_hyperx_is_routed_by_dor_with_one_hop_in_each_dimension() {
    for (spec, dimensions) in [
        ("hyperx:8,hosts=2", 1),
        ("hyperx:4x4,hosts=4", 2),
        ("hyperx:3x5", 2),
        ("hyperx:12x8", 2),
        ("hyperx:2x4x6", 3),
        ("torus:3x3x3", 3),
    ] {
        let topology = generated(spec);
        let routing = routed(EngineKind::Dor, &topology);
        let report = assert_sound(&topology, &routing);
        assert!(routing.lanes.is_single());
        assert_eq!(report.max_hops, dimensions, "{spec}: {}", routing.reason);
        assert_sound(&topology, &routed(EngineKind::Torus, &topology));
    }
}

#[test]
fn auto_chooses_dor_on_a_hyperx_where_all_links_have_the_same_load() {
    let topology = generated("hyperx:4x4x4,hosts=4");
    let routing = routed(EngineKind::Auto, &topology);
    assert!(
        routing.reason.starts_with("auto chose dor "),
        "{}",
        routing.reason
    );
    let load = assert_sound(&topology, &routing).load;
    // Each link has the packets between 16 hosts and 16 others, or from 4 to 64, or back.
    assert_eq!((load.max, load.mean), (256, 256.0));
}

#[test]
fn dor_goes_around_any_single_cable_or_switch_of_a_hyperx() {
    let whole = generated("hyperx:4x3x4");
    let before = routed(EngineKind::Dor, &whole);
    for cable in whole.cables() {
        let broken = whole.without_cables(&[cable.a]);
        assert_sound(&broken, &dor_around(&broken, &before));
    }
    for switch in whole.indices() {
        let broken = without_switches(&whole, &[switch]);
        assert_sound(&broken, &dor_around(&broken, &before));
    }
}

#[test]
fn a_hyperx_is_recognised_at_a_start_without_some_cables() {
    let whole = generated("hyperx:4x4x4");
    let cables = whole.cables();
    for first in 0..cables.len() {
        let gone = [first, (first + 7) % cables.len()].map(|number| cables[number].a);
        let broken = whole.without_cables(&gone);
        let routing = routed(EngineKind::Dor, &broken);
        assert_eq!(routing.coordinates.as_ref().unwrap().sizes, [4, 4, 4]);
        assert_sound(&broken, &routing);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_broken_hyperx_is_sound(
        sizes in proptest::collection::vec(2u16..6, 1..4),
        faults in proptest::collection::vec(any::<proptest::sample::Index>(), 1..6),
    ) {
        let sizes: Vec<String> = sizes.iter().map(u16::to_string).collect();
        let whole = generated(&format!("hyperx:{}", sizes.join("x")));
        let cables = whole.cables();
        let gone: Vec<_> = faults.iter().map(|fault| fault.get(&cables).a).collect();
        let broken = whole.without_cables(&gone);
        let before = routed(EngineKind::Dor, &whole);
        let options = Options {
            previous_coordinates: before.coordinates.clone(),
            ..Options::default()
        };
        let during = route(EngineKind::Dor, &broken, &options, None).unwrap();
        let report = assert_sound_on_lanes(&broken, &during);
        prop_assert_eq!(report.unreachable_pairs, 0);
        let options = Options {
            previous_coordinates: during.coordinates.clone(),
            ..Options::default()
        };
        let after = route(EngineKind::Dor, &whole, &options, None).unwrap();
        prop_assert_eq!(after.tables, before.tables);
    }
}
