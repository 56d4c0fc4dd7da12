//! A start of `fabric-tree` while cables of a regular tree are missing: the tables are those of a
//! repair.

use std::collections::BTreeMap;

use crate::common;
use crate::rebalance::rebalanced;

use common::{Fabric, assert_sound_on_lanes, generated, pgft, swapped};
use proptest::prelude::*;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::engine::{
    EngineKind, Options, Ranking, Routing, adopt_moves, misses_parts, rebalance, route,
};
use rsm_routing::generate::{fail, generate};
use rsm_routing::quality::{Settings, measure};
use rsm_routing::topology::{Cable, Topology};
use rsm_routing::verify::verify_whole;

fn options(earlier: Option<&Ranking>) -> Options {
    Options {
        previous_ranking: earlier.cloned(),
        ..Options::default()
    }
}

fn routed(topology: &Topology, earlier: Option<&Ranking>) -> Routing {
    route(EngineKind::FabricTree, topology, &options(earlier), None).unwrap()
}

/// Checks that a start on `broken`, which is `whole` without some cables, gives the tables of a
/// repair, and that the return of the cables gives the tables of the whole fabric.
fn assert_starts_as_repaired(whole: &Topology, broken: &Topology, case: &str) {
    let before = routed(whole, None);
    let repaired = routed(broken, before.ranking.as_ref());
    let started = routed(broken, None);
    assert_sound_on_lanes(broken, &started);
    let blocks = started.tables.blocks_changed(&repaired.tables);
    assert_eq!(blocks, 0, "{case}: {}", started.reason);
    let back = routed(whole, started.ranking.as_ref());
    assert_eq!(back.tables, before.tables, "{case}");
    assert!(!misses_parts(back.ranking.as_ref().unwrap()), "{case}");
}

#[test]
fn a_start_without_some_cables_has_the_tables_of_a_repair() {
    for (spec, faults) in [
        ("superpod:su=1", "links=1,seed=3"),
        ("superpod:su=4", "links=1,seed=1"),
        ("superpod:su=4", "links=1%,seed=1"),
        ("fat-tree:k=8,levels=3", "links=1,seed=1"),
        ("fat-tree:k=12,levels=3", "links=1%,seed=2"),
        ("pgft:2;18,24;1,6;1,2", "links=2%,seed=1"),
        ("pgft:3;6,6,6;1,6,3;1,1,2", "links=1%,seed=5"),
        ("pgft:2;18,24;1,12;1,1", "links=5%,seed=1"),
    ] {
        let broken = fail(generate(spec).unwrap(), faults).unwrap();
        let broken = Topology::from_netlist(&broken).unwrap();
        assert_starts_as_repaired(&generated(spec), &broken, &format!("{spec} {faults}"));
    }
}

#[test]
fn at_a_start_of_a_superpod_without_one_cable_at_most_two_flows_meet_in_shifts() {
    let broken = fail(generate("superpod:su=4").unwrap(), "links=1,seed=1").unwrap();
    let broken = Topology::from_netlist(&broken).unwrap();
    let started = routed(&broken, None);
    let (after, _) = rebalanced(&broken, started.clone(), usize::MAX);
    for routing in [&started, &after] {
        let quality = measure(&broken, &routing.tables, &Settings::default());
        assert!(quality.shift.max <= 2, "{}", quality.shift.max);
    }
    let fullest = |routing: &Routing| {
        measure(&broken, &routing.tables, &Settings::default())
            .paths
            .max
    };
    // A cable whose twin is missing has the load of both until rebalancing.
    assert!(fullest(&after) * 3 < fullest(&started) * 2);
}

#[test]
fn a_start_on_rebalanced_tables_keeps_them_until_the_cables_are_back() {
    for (spec, faults) in [
        ("superpod:su=4", "links=1,seed=1"),
        ("fat-tree:k=8,levels=3", "links=8%,seed=1"),
        ("pgft:2;18,24;1,6;1,2", "links=1%,seed=1"),
        ("pgft:3;6,6,6;1,6,3;1,1,2", "links=3%,seed=5"),
    ] {
        let broken = fail(generate(spec).unwrap(), faults).unwrap();
        let broken = Topology::from_netlist(&broken).unwrap();
        let started = routed(&broken, None);
        let (after, steps) = rebalanced(&broken, started.clone(), 64);
        assert!(steps > 0, "{spec}");
        let again = adopt_moves(&broken, started.clone(), &after.tables);
        assert_sound_on_lanes(&broken, &again);
        let blocks = again.tables.blocks_changed(&after.tables);
        assert_eq!(blocks, 0, "{spec}: {}", again.reason);
        let tally = verify_whole(&broken, &again.tables).tally;
        let options = options(again.ranking.as_ref());
        rebalance(&broken, &options, &tally, usize::MAX).unwrap_err();
        let whole = generated(spec);
        let back = routed(&whole, again.ranking.as_ref());
        assert_eq!(back.tables, routed(&whole, None).tables, "{spec}");
    }
}

#[test]
fn tables_that_differ_in_most_entries_are_not_kept() {
    let broken = fail(generate("superpod:su=1").unwrap(), "links=1,seed=3").unwrap();
    let broken = Topology::from_netlist(&broken).unwrap();
    let started = routed(&broken, None);
    // Each host has the entries of the next one.
    let mut other = started.tables.clone();
    for (other, started) in other.lfts.iter_mut().zip(&started.tables.lfts) {
        for lid in 1..broken.top_lid().0 {
            other.set_entry(Lid(lid), started.entry(Lid(lid + 1)));
        }
    }
    let kept = adopt_moves(&broken, started.clone(), &other);
    assert_eq!(kept.tables.blocks_changed(&started.tables), 0);
    // Nothing is moved while nothing is missing.
    let whole = generated("superpod:su=1");
    let routing = routed(&whole, None);
    let kept = adopt_moves(&whole, routing.clone(), &started.tables);
    assert_eq!(kept.tables.blocks_changed(&routing.tables), 0);
}

/// An entry that leads packets away from their host is no move of rebalancing.
#[test]
fn entries_that_lead_elsewhere_are_not_kept() {
    let broken = fail(generate("superpod:su=1").unwrap(), "links=1,seed=3").unwrap();
    let broken = Topology::from_netlist(&broken).unwrap();
    let started = routed(&broken, None);
    let mut held = started.tables.clone();
    let host = broken
        .destinations()
        .iter()
        .find(|end| end.kind.is_host())
        .unwrap();
    let away = broken.groups(host.switch).next().unwrap().links[0].port;
    held.lfts[host.switch.index()].set_entry(host.lid, away.0);
    let kept = adopt_moves(&broken, started.clone(), &held);
    assert_eq!(kept.tables.blocks_changed(&started.tables), 0);
}

#[test]
fn a_tree_that_is_built_with_fewer_cables_lacks_none() {
    // Two cables to each of three spines, one to the fourth.
    let mut fabric = Fabric::new();
    let (leaves, spines) = (fabric.switches(6), fabric.switches(4));
    for &leaf in &leaves {
        fabric.hosts(leaf, 7);
        for (index, &spine) in spines.iter().enumerate() {
            for _ in 0..if index < 3 { 2 } else { 1 } {
                fabric.link(leaf, spine);
            }
        }
    }
    let topology = fabric.build();
    let ranking = routed(&topology, None).ranking.unwrap();
    assert!(!misses_parts(&ranking));
    // A leaf with cables to one spine alone.
    let mut fabric = Fabric::new();
    let (leaves, spines) = (fabric.switches(9), fabric.switches(4));
    for (number, &leaf) in leaves.iter().enumerate() {
        fabric.hosts(leaf, 4);
        for &spine in &spines[..if number == 0 { 1 } else { 4 }] {
            fabric.link(leaf, spine);
        }
    }
    let topology = fabric.build();
    let ranking = routed(&topology, None).ranking.unwrap();
    assert!(!misses_parts(&ranking));
}

#[test]
fn a_cable_that_appears_in_another_port_replaces_the_inferred_one() {
    let whole = pgft(&[8, 6], &[1, 8], &[1, 1], 0);
    let cable = whole.cables()[11];
    let broken = whole.without_cables(&[cable.a]);
    let started = routed(&broken, None);
    assert!(misses_parts(started.ranking.as_ref().unwrap()));
    let other = swapped(&whole, cable.a, (cable.a.0, PortNum(200)));
    let moved = routed(&other, started.ranking.as_ref());
    assert_sound_on_lanes(&other, &moved);
    assert!(!misses_parts(moved.ranking.as_ref().unwrap()));
    let quality = measure(&other, &moved.tables, &Settings::default());
    assert_eq!(quality.shift.max, 1);
}

/// Some cables, such that no switch loses as many as a third of its neighbours on either side.
fn lost(whole: &Topology, drawn: &[prop::sample::Index]) -> Vec<(Guid, PortNum)> {
    let cables = whole.cables();
    let mut left: BTreeMap<Guid, usize> = BTreeMap::new();
    for switch in whole.indices() {
        let groups: Vec<_> = whole.groups(switch).collect();
        let leaves = groups
            .iter()
            .filter(|group| group.neighbour < switch)
            .count();
        let side = leaves.min(groups.len() - leaves);
        let least = if side == 0 { groups.len() } else { side };
        left.insert(whole.switch(switch).guid, least / 3);
    }
    let mut lost: Vec<Cable> = Vec::new();
    for drawn in drawn {
        let cable = *drawn.get(&cables);
        let ends = [cable.a.0, cable.b.0];
        if ends.iter().all(|end| left[end] > 0) && !lost.contains(&cable) {
            for end in ends {
                *left.get_mut(&end).unwrap() -= 1;
            }
            lost.push(cable);
        }
    }
    lost.iter().map(|cable| cable.a).collect()
}

proptest! {
    #[test]
    fn a_start_of_any_regular_tree_without_some_cables_has_the_tables_of_a_repair(
        (m, w, p, lmc) in (3usize..7, 3usize..6, 1usize..4, 0u8..2),
        upper in prop::option::of((3usize..5, 3usize..5, 1usize..3)),
        hosts in 1usize..6,
        drawn in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
    ) {
        let whole = match upper {
            None => pgft(&[hosts, m], &[1, w], &[1, p], lmc),
            Some((m2, w2, p2)) => pgft(&[hosts, m, m2], &[1, w, w2], &[1, p, p2], lmc),
        };
        let lost = lost(&whole, &drawn);
        // A quarter of all cables between two levels is no fault.
        prop_assume!(lost.len() * 4 < m * w * p);
        assert_starts_as_repaired(&whole, &whole.without_cables(&lost), &format!("{lost:?}"));
    }
}
