//! Paths of pairs that the ranks of a tree leave without one.

use crate::common;

use common::{Fabric, carries_nothing, followed, pgft};
use rsm_ids::Guid;
use rsm_routing::engine::{EngineKind, Options, Ranking, Routing, route};
use rsm_routing::generate::generate;
use rsm_routing::mcast::Orientation;
use rsm_routing::quality::{Settings, measure};
use rsm_routing::topology::{EndpointKind, Topology};
use rsm_routing::verify::{Dependencies, Report, verify};

fn routed(topology: &Topology, earlier: Option<&Ranking>, connect_roots: bool) -> Routing {
    let options = Options {
        previous_ranking: earlier.cloned(),
        connect_roots,
        ..Options::default()
    };
    route(EngineKind::FabricTree, topology, &options, None).unwrap()
}

/// Checks that every pair with an end port is reached, without a loop, in the order of the routes.
fn assert_sound(topology: &Topology, routing: &Routing) -> Report {
    let report = verify(topology, &routing.tables);
    assert!(report.loop_free && report.credit_loop_free);
    assert_eq!(report.unreachable_pairs, 0, "{:?}", report.witnesses);
    let order = Orientation::of(topology, routing.ranking.as_ref().unwrap()).unwrap();
    let dependencies = Dependencies::of(topology, &routing.tables);
    assert!(dependencies.follows(|high, low| order.is_above(high, low)));
    report
}

fn three_levels() -> Topology {
    pgft(&[4, 4, 4], &[1, 4, 4], &[1, 1, 1], 0)
}

/// A tree of two levels: `leaves` with three hosts each under `spines`, `extra` ports on switches.
fn two_levels(leaves: usize, spines: usize, extra: &[(usize, EndpointKind)]) -> Topology {
    let mut fabric = Fabric::new();
    let switches = fabric.switches(leaves + spines);
    for &leaf in &switches[..leaves] {
        fabric.hosts(leaf, 3);
        for &spine in &switches[leaves..] {
            fabric.link(leaf, spine);
        }
    }
    for &(switch, kind) in extra {
        fabric.endport(switches[switch], kind);
    }
    fabric.build()
}

#[test]
fn switches_that_carry_nothing_have_paths_on_request() {
    let topology = three_levels();
    let without = routed(&topology, None, false);
    let report = assert_sound(&topology, &without);
    assert!(report.switch_pairs.unreachable > 0);
    let with = routed(&topology, None, true);
    let report = assert_sound(&topology, &with);
    assert_eq!(report.switch_pairs.unreachable, 0);
    // No earlier entry changes.
    for switch in topology.indices() {
        for to in topology.destinations() {
            let [before, after] = [&without, &with].map(|routing| routing.tables.lft(switch));
            let is_same = before.entry(to.lid) == after.entry(to.lid);
            assert!(is_same || carries_nothing(&topology, switch, to));
        }
    }
}

#[test]
fn whichever_cable_a_tree_loses_the_routes_follow_the_change() {
    for connect_roots in [false, true] {
        let whole = three_levels();
        let first = routed(&whole, None, connect_roots);
        let mut reordered = 0;
        for cable in whole.cables() {
            let broken = whole.without_cables(&[cable.a]);
            let during = routed(&broken, first.ranking.as_ref(), connect_roots);
            let report = assert_sound(&broken, &during);
            assert!(!connect_roots || report.switch_pairs.unreachable == 0);
            assert_eq!(during.whole(), None, "{cable:?}");
            reordered += usize::from(followed(&during) != followed(&first));
            let unprepared = during.ranking.clone().map(Ranking::unprepared);
            let anew = routed(&broken, unprepared.as_ref(), connect_roots);
            assert_eq!(anew.tables, during.tables, "{cable:?}");
            let back = routed(&whole, during.ranking.as_ref(), connect_roots);
            assert_eq!(back.whole(), None);
            assert_eq!(back.tables, first.tables);
            assert_eq!(followed(&back), followed(&first));
        }
        // Only the loss of a cable above the apex requires another order.
        assert!(
            reordered > 0 && reordered < whole.link_count() / 4,
            "{reordered}"
        );
    }
}

#[test]
fn two_cables_lost_anywhere_leave_every_end_port_reached() {
    let whole = three_levels();
    let first = routed(&whole, None, false);
    let cables = whole.cables();
    for (number, one) in cables.iter().enumerate().step_by(3) {
        let broken = whole.without_cables(&[one.a]);
        let during = routed(&broken, first.ranking.as_ref(), false);
        for other in cables.iter().skip(number % 7).step_by(11) {
            let both = broken.without_cables(&[other.a]);
            let next = routed(&both, during.ranking.as_ref(), false);
            assert_sound(&both, &next);
            let unprepared = next.ranking.clone().map(Ranking::unprepared);
            let anew = routed(&both, unprepared.as_ref(), false);
            assert_eq!(anew.tables, next.tables);
        }
    }
}

/// No candidate for the order of a cube needs detours while nothing is missing.
#[test]
fn an_order_chosen_without_detours_has_the_same_ones_when_it_is_kept() {
    let mut fabric = Fabric::new();
    for corner in 0..8u64 {
        // Neighbours are not next to each other in the order of GUIDs.
        let switch = fabric.switch_with_guid(Guid(0x9000 + (corner * 7919) % 1009));
        fabric.host(switch);
    }
    for corner in 0..8usize {
        for other in [1, 2, 4].map(|side| corner ^ side) {
            fabric.link(corner, other);
        }
    }
    let whole = fabric.build();
    let first = routed(&whole, None, false);
    for cable in whole.cables() {
        let broken = whole.without_cables(&[cable.a]);
        let during = routed(&broken, first.ranking.as_ref(), false);
        let unprepared = first.ranking.clone().map(Ranking::unprepared);
        let anew = routed(&broken, unprepared.as_ref(), false);
        assert_eq!(anew.tables, during.tables, "{cable:?}");
        assert_eq!(followed(&anew), followed(&during), "{cable:?}");
    }
}

#[test]
fn aggregation_nodes_at_every_switch_reach_each_other() {
    let nodes: Vec<(usize, EndpointKind)> = (0..14)
        .map(|switch| (switch, EndpointKind::AggregationNode))
        .collect();
    let whole = two_levels(8, 6, &nodes);
    let first = routed(&whole, None, false);
    assert_sound(&whole, &first);
    for cable in whole.cables() {
        let broken = whole.without_cables(&[cable.a]);
        let during = routed(&broken, first.ranking.as_ref(), false);
        assert_sound(&broken, &during);
        assert_eq!(during.whole(), None, "{cable:?}");
        let back = routed(&whole, during.ranking.as_ref(), false);
        assert_eq!(back.tables, first.tables);
    }
}

/// The fullest link of a site: the most paths between pairs of hosts.
fn fullest(spec: &str) -> u64 {
    let topology = Topology::from_netlist(&generate(spec).unwrap()).unwrap();
    let routing = routed(&topology, None, false);
    assert_sound(&topology, &routing);
    measure(&topology, &routing.tables, &Settings::default())
        .paths
        .max
}

/// Only packets between two spines with hosts pass a leaf. `more` is a lower bound, under any
/// tables, of the paths to hosts on one spine that are added to some link.
#[test]
fn hosts_on_spines_cost_the_other_links_little() {
    for (regular, irregular, more) in [
        ("superpod:su=2", "management=1", 32),
        ("superpod:su=4", "management=1", 32),
        ("superpod:su=4", "management=3", 32),
        ("pgft:2;12,9;1,6;1,1", "management=2", 12),
        ("pgft:2;20,12;1,10;1,1", "hosts-on-spines=5x2", 100),
        ("fat-tree:k=8,levels=3", "management=3", 32),
    ] {
        let whole = fullest(regular);
        let found = fullest(&format!("{regular},{irregular}"));
        assert!(
            found <= whole + more + whole / 10,
            "{regular},{irregular}: {whole} -> {found}"
        );
    }
}
