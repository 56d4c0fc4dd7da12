//! The promises of engines, on fabrics of every kind.

use crate::common;
use crate::random;

use common::{Fabric, pgft, ring};
use petgraph::graph::NodeIndex;
use proptest::prelude::*;
use rsm_ids::{Guid, Lid, Lmc, PortNum};
use rsm_routing::engine::{EngineError, EngineKind, Options, Routing, route};
use rsm_routing::tables::{NO_PATH, Tables};
use rsm_routing::topology::{EndpointKind, PortUse, Topology, TopologyBuilder};
use rsm_routing::verify::{Report, mixture_is_acyclic, stages, verify};

/// Engines that use shortest or up*/down* paths, with or without ranks.
const ON_ANY_TREE: [EngineKind; 3] = [EngineKind::Auto, EngineKind::MinHop, EngineKind::UpDn];

fn routed(kind: EngineKind, topology: &Topology) -> Routing {
    route(kind, topology, &Options::default(), None).unwrap()
}

/// Checks that tables of updn are sound, and returns the report.
fn assert_sound(topology: &Topology, tables: &Tables) -> Report {
    let report = verify(topology, tables);
    assert!(report.loop_free, "{:?}", report.witnesses);
    assert!(report.credit_loop_free, "{:?}", report.witnesses);
    assert_eq!(report.unreachable_pairs, 0, "{:?}", report.witnesses);
    assert_entries_exist(topology, tables);
    report
}

/// Checks that every entry names port 0, the destination's own port, or a link to another switch.
fn assert_entries_exist(topology: &Topology, tables: &Tables) {
    for switch in topology.indices() {
        let lft = tables.lft(switch);
        for (lid, byte) in lft.iter().enumerate() {
            let lid = Lid(lid as u16);
            let Some(destination) = topology.destination_of(lid) else {
                assert_eq!(byte, NO_PATH, "{lid:?} belongs to nobody");
                continue;
            };
            if destination.switch == switch {
                assert_eq!(byte, destination.port.0);
            } else if byte != NO_PATH {
                let leads_to = topology.port_use(switch, PortNum(byte));
                assert!(
                    matches!(leads_to, PortUse::Link { peer, .. } if peer != switch),
                    "{leads_to:?}"
                );
            }
        }
    }
}

#[test]
fn two_leaves_and_two_spines_get_the_expected_entries() {
    // Leaves 0 and 1 with two hosts each, spines 2 and 3. LIDs 1..=4 are the switches', 5..=8 the
    // hosts'.
    let mut fabric = Fabric::new();
    let switches = fabric.switches(4);
    for leaf in [0, 1] {
        fabric.hosts(switches[leaf], 2);
    }
    for leaf in [0, 1] {
        for spine in [2, 3] {
            fabric.link(switches[leaf], switches[spine]);
        }
    }
    let topology = fabric.build();
    for kind in [EngineKind::MinHop, EngineKind::UpDn, EngineKind::FabricTree] {
        let tables = routed(kind, &topology).tables;
        let rows: Vec<&[u8]> = tables.lfts.iter().map(|lft| &lft.block(0)[1..9]).collect();
        // Ports of leaves: 1 and 2 hosts, 3 and 4 spines. Ports of spines: 1 and 2 leaves.
        // Hosts in turn take spine 2 and spine 3; a spine reaches the other over leaf 0.
        assert_eq!(rows[0][4..], [1, 2, 3, 4], "{kind}");
        assert_eq!(rows[1][4..], [3, 4, 1, 2], "{kind}");
        assert_eq!(rows[2][4..], [1, 1, 2, 2], "{kind}");
        assert_eq!(rows[3][4..], [1, 1, 2, 2], "{kind}");
        for (switch, row) in rows.iter().enumerate() {
            assert_eq!(row[switch], 0, "{kind}");
        }
        assert_eq!(verify(&topology, &tables).load.max, 2, "{kind}");
    }
}

#[test]
fn a_full_tree_is_perfectly_balanced() {
    let topology = pgft(&[4, 4, 8], &[1, 4, 4], &[1, 1, 1], 0);
    let routing = routed(EngineKind::UpDn, &topology);
    let report = assert_sound(&topology, &routing.tables);
    // 4 hosts on each leaf, 124 elsewhere, 4 links up: each carries 124 paths; one level higher 112.
    assert_eq!(report.load.max, 124);
    assert_eq!(report.switch_pairs.unreachable, 0);
    assert_eq!(routing.ranks.unwrap().iter().max(), Some(&2));
}

#[test]
fn parallel_links_share_the_load() {
    let topology = pgft(&[6, 4], &[1, 3], &[1, 2], 0);
    let report = assert_sound(&topology, &routed(EngineKind::UpDn, &topology).tables);
    // 6 hosts on each leaf, 18 elsewhere, 6 links up: 18 on each.
    assert_eq!(report.load.max, 18);
    assert!((report.load.mean - 18.0).abs() < 1e-9);
}

#[test]
fn aggregation_nodes_on_every_switch_cost_no_balance() {
    let build = |nodes: bool| {
        let mut fabric = Fabric::new();
        let leaves = fabric.switches(6);
        let spines = fabric.switches(4);
        for &leaf in &leaves {
            fabric.hosts(leaf, 4);
            for &spine in &spines {
                fabric.link(leaf, spine);
            }
        }
        if nodes {
            for &switch in leaves.iter().chain(&spines) {
                fabric.endport(switch, EndpointKind::AggregationNode);
            }
        }
        fabric.build()
    };
    let (plain, with_nodes) = (build(false), build(true));
    let plain = assert_sound(&plain, &routed(EngineKind::UpDn, &plain).tables);
    let routing = routed(EngineKind::UpDn, &with_nodes);
    let report = assert_sound(&with_nodes, &routing.tables);
    assert_eq!(report.load, plain.load);
    assert_eq!(report.switch_pairs.unreachable, 0);
    assert_eq!(report.disconnected_pairs, 0);
}

#[test]
fn a_host_on_a_spine_does_not_turn_the_tree_upside_down() {
    let mut fabric = Fabric::new();
    let leaves = fabric.switches(8);
    let spines = fabric.switches(4);
    for &leaf in &leaves {
        fabric.hosts(leaf, 8);
        for &spine in &spines {
            fabric.link(leaf, spine);
        }
    }
    fabric.host(spines[1]);
    let topology = fabric.build();
    let report = assert_sound(&topology, &routed(EngineKind::UpDn, &topology).tables);
    // 8 hosts of a leaf to 56 others over 4 spines: 112 on each link, and the storage host's on
    // one.
    assert!(report.load.max <= 112 + 8, "{:?}", report.load);
}

#[test]
fn a_slow_link_carries_less() {
    let mut fabric = Fabric::new();
    let [a, b] = fabric.switches(2)[..] else {
        unreachable!()
    };
    fabric.hosts(a, 1);
    fabric.hosts(b, 50);
    let (slow, _) = fabric.link_of_rate(a, b, 25);
    let (fast, _) = fabric.link_of_rate(a, b, 100);
    let topology = fabric.build();
    let tables = routed(EngineKind::UpDn, &topology).tables;
    let lft = tables.lft(topology.switch_by_guid(Guid(0x1000)).unwrap());
    let count = |port: PortNum| lft.iter().filter(|&byte| byte == port.0).count();
    assert!((9..=12).contains(&count(slow)), "{}", count(slow));
    assert!((39..=42).contains(&count(fast)), "{}", count(fast));
}

#[test]
fn lids_of_one_port_use_different_links() {
    let topology = pgft(&[2, 4], &[1, 4], &[1, 1], 2);
    for kind in [EngineKind::MinHop, EngineKind::UpDn, EngineKind::FabricTree] {
        let tables = routed(kind, &topology).tables;
        verify(&topology, &tables);
        for switch in topology
            .indices()
            .filter(|&switch| topology.hosts(switch) > 0)
        {
            for destination in topology
                .destinations()
                .iter()
                .filter(|destination| destination.kind.is_host() && destination.switch != switch)
            {
                let mut ports: Vec<u8> = destination
                    .lids()
                    .map(|lid| tables.lft(switch).entry(lid))
                    .collect();
                ports.sort_unstable();
                ports.dedup();
                assert_eq!(ports.len(), 4, "{kind}");
            }
        }
    }
}

#[test]
fn the_smallest_fabrics_are_routed() {
    let none = TopologyBuilder::new().build().unwrap();
    let mut fabric = Fabric::new();
    let only = fabric.switch();
    fabric.hosts(only, 2);
    fabric.link(only, only);
    let one = fabric.build();
    for kind in ON_ANY_TREE {
        assert!(routed(kind, &none).tables.lfts.is_empty());
        let report = assert_sound(&one, &routed(kind, &one).tables);
        assert_eq!((report.reachable_pairs, report.disconnected_pairs), (6, 0));
    }
}

#[test]
fn rings_are_routed_without_a_credit_loop_by_updn_only() {
    for count in 3..12 {
        let topology = ring(count);
        assert_sound(&topology, &routed(EngineKind::UpDn, &topology).tables);
        let report = verify(&topology, &routed(EngineKind::MinHop, &topology).tables);
        assert!(report.loop_free);
        assert_eq!(report.unreachable_pairs, 0);
        // Shortest paths of one hop never wait; with four switches it depends on the ties.
        if count != 4 {
            assert_eq!(report.credit_loop_free, count == 3, "{count}");
        }
    }
}

#[test]
fn given_roots_are_used_and_unknown_ones_named() {
    let topology = pgft(&[4, 4], &[1, 4], &[1, 1], 0);
    let spines: Vec<Guid> = topology
        .indices()
        .filter(|&switch| topology.hosts(switch) == 0)
        .map(|switch| topology.switch(switch).guid)
        .collect();
    let options = Options {
        root_guids: spines.clone(),
        ..Options::default()
    };
    let routing = route(EngineKind::UpDn, &topology, &options, None).unwrap();
    assert_sound(&topology, &routing.tables);
    assert!(
        routing.reason.contains("4 given root"),
        "{}",
        routing.reason
    );
    let ranks = routing.ranks.unwrap();
    for switch in topology.indices() {
        let is_root = spines.contains(&topology.switch(switch).guid);
        assert_eq!(ranks[switch.index()] == 0, is_root);
    }
    let options = Options {
        root_guids: vec![spines[0], Guid(7), Guid(5)],
        ..Options::default()
    };
    let error = route(EngineKind::UpDn, &topology, &options, None).unwrap_err();
    assert_eq!(
        error,
        EngineError::UnknownRoots {
            guids: vec![Guid(5), Guid(7)]
        }
    );
    assert_eq!(
        error.to_string(),
        "no switch has the root GUID 0x0000000000000005, 0x0000000000000007"
    );
}

#[test]
fn a_table_that_cannot_hold_the_lids_is_an_error() {
    let mut builder = TopologyBuilder::new();
    let switch = builder
        .add_switch(Guid(1), 4, Lid(1), Lmc::ZERO, 100)
        .unwrap();
    builder
        .add_endport(
            switch,
            PortNum(1),
            Guid(2),
            Lid(100),
            Lmc::ZERO,
            EndpointKind::Ca,
        )
        .unwrap();
    let topology = builder.build().unwrap();
    for kind in ON_ANY_TREE {
        let error = route(kind, &topology, &Options::default(), None).unwrap_err();
        assert!(matches!(
            error,
            EngineError::TableTooSmall {
                capacity: 100,
                top: 100,
                ..
            }
        ));
    }
}

#[test]
fn a_path_that_is_too_long_is_an_error_not_a_hole() {
    let topology = ring(600);
    for kind in ON_ANY_TREE {
        let error = route(kind, &topology, &Options::default(), None).unwrap_err();
        assert!(
            matches!(error, EngineError::PathTooLong { limit: 253, .. }),
            "{error}"
        );
    }
}

#[test]
fn one_dead_cable_changes_little_and_its_return_restores_all() {
    let topology = pgft(&[6, 6, 6], &[1, 6, 6], &[1, 1, 1], 0);
    let before = routed(EngineKind::UpDn, &topology);
    let cable = topology.cables()[3];
    let broken = topology.without_cables(&[cable.a]);
    let options = Options {
        previous_ranking: before.ranking.clone(),
        ..Options::default()
    };
    let during = route(EngineKind::UpDn, &broken, &options, Some(&before.tables)).unwrap();
    let report = assert_sound(&broken, &during.tables);
    assert!(
        report.load.max as f64 <= 2.5 * report.load.mean,
        "{:?}",
        report.load
    );
    let changed = |a: &Tables, b: &Tables| {
        a.lfts
            .iter()
            .zip(&b.lfts)
            .map(|(a, b)| a.differing(b).count())
            .sum::<usize>()
    };
    let all = topology.switch_count() * topology.destinations().len();
    assert!(changed(&before.tables, &during.tables) * 50 < all);

    let options = Options {
        previous_ranking: during.ranking.clone(),
        ..Options::default()
    };
    let after = route(EngineKind::UpDn, &topology, &options, Some(&during.tables)).unwrap();
    assert_sound(&topology, &after.tables);
    assert!(changed(&during.tables, &after.tables) * 50 < all);
    // The link that came back has the same load as before.
    let end = topology.switch_by_guid(cable.a.0).unwrap();
    let carried = |tables: &Tables| {
        let bytes = tables.lft(end).iter();
        bytes.filter(|&byte| byte == cable.a.1.0).count()
    };
    assert_eq!(carried(&after.tables), carried(&before.tables));
}

#[test]
fn absent_switches_stay_in_the_ranking() {
    let topology = pgft(&[4, 4], &[1, 4], &[1, 1], 0);
    let before = routed(EngineKind::UpDn, &topology);
    let ranking = before.ranking.clone().unwrap();
    let mut without = Fabric::new();
    // Another fabric that has none of the switches but two.
    without.switches(2);
    let small = without.build();
    let options = Options {
        previous_ranking: Some(ranking.clone()),
        ..Options::default()
    };
    let away = route(EngineKind::UpDn, &small, &options, None).unwrap();
    assert_eq!(away.ranking.unwrap().switches, ranking.switches);
}

proptest! {
    #[test]
    fn updn_is_sound_on_any_fabric(plan in random::any_fabric()) {
        let topology = plan.build();
        let routing = routed(EngineKind::UpDn, &topology);
        assert_sound(&topology, &routing.tables);
        prop_assert!(routing.reason.starts_with("updn: "));
    }

    #[test]
    fn updn_is_sound_under_any_roots(
        plan in random::any_fabric(),
        roots in proptest::collection::vec(any::<prop::sample::Index>(), 1..4),
    ) {
        let topology = plan.build();
        let root_guids = roots
            .iter()
            .map(|root| topology.switches()[root.index(topology.switch_count())].guid)
            .collect();
        let options = Options { root_guids, ..Options::default() };
        assert_sound(&topology, &route(EngineKind::UpDn, &topology, &options, None).unwrap().tables);
    }

    #[test]
    fn minhop_is_shortest_on_any_fabric(plan in random::any_fabric()) {
        let topology = plan.build();
        let tables = routed(EngineKind::MinHop, &topology).tables;
        let report = verify(&topology, &tables);
        prop_assert!(report.loop_free);
        prop_assert_eq!(report.unreachable_pairs, 0);
        prop_assert_eq!(report.switch_pairs.unreachable, 0);
        assert_entries_exist(&topology, &tables);
        let graph = topology.to_petgraph();
        for from in topology.indices() {
            let hops = petgraph::algo::dijkstra(&graph, NodeIndex::new(from.index()), None, |_| 1u32);
            for destination in topology.destinations() {
                let walked = walk(&topology, &tables, from, destination.lid);
                let expected = hops.get(&NodeIndex::new(destination.switch.index())).copied();
                prop_assert_eq!(walked, expected);
            }
        }
    }

    #[test]
    fn the_number_of_threads_does_not_change_tables(plan in random::any_fabric()) {
        let topology = plan.build();
        for kind in ON_ANY_TREE {
            let with = |threads| {
                let options = Options { threads, ..Options::default() };
                route(kind, &topology, &options, None).unwrap()
            };
            let (one, three) = (with(1), with(3));
            prop_assert_eq!(&one, &three);
            prop_assert_eq!(&one, &routed(kind, &topology));
        }
    }

    #[test]
    fn rerouting_a_repair_changes_nothing(plan in random::any_fabric(), dead in any::<prop::sample::Index>()) {
        let topology = plan.build();
        let cables = topology.cables();
        prop_assume!(!cables.is_empty());
        let before = routed(EngineKind::UpDn, &topology);
        let broken = topology.without_cables(&[cables[dead.index(cables.len())].a]);
        let options = Options { previous_ranking: before.ranking.clone(), ..Options::default() };
        let fresh = route(EngineKind::UpDn, &broken, &options, None).unwrap();
        let sticky = route(EngineKind::UpDn, &broken, &options, Some(&before.tables)).unwrap();
        let report = assert_sound(&broken, &sticky.tables);
        prop_assert_eq!(report.max_hops, verify(&broken, &fresh.tables).max_hops);
        // Nothing left to do: the same tables again.
        let again = route(EngineKind::UpDn, &broken, &options, Some(&sticky.tables)).unwrap();
        prop_assert_eq!(&again.tables, &sticky.tables);
        let unchanged = route(EngineKind::UpDn, &topology, &options, Some(&before.tables)).unwrap();
        prop_assert_eq!(&unchanged.tables, &before.tables);
    }

    #[test]
    fn every_stage_of_a_change_is_safe(plan in random::any_fabric(), dead in any::<prop::sample::Index>()) {
        let topology = plan.build();
        let cables = topology.cables();
        prop_assume!(!cables.is_empty());
        let before = routed(EngineKind::UpDn, &topology);
        let broken = topology.without_cables(&[cables[dead.index(cables.len())].a]);
        let after = routed(EngineKind::UpDn, &broken);
        let stages = stages(&broken, &before.tables, &after.tables);
        prop_assert!(stages.len() <= 2);
        prop_assert_eq!(stages.last(), Some(&after.tables));
        let mut now = &before.tables;
        for stage in &stages {
            prop_assert!(mixture_is_acyclic(&broken, now, stage));
            now = stage;
        }
    }
}

/// Hops between switches on the way to a LID; `None` when packets do not arrive.
fn walk(
    topology: &Topology,
    tables: &Tables,
    from: rsm_routing::topology::SwitchIdx,
    lid: Lid,
) -> Option<u32> {
    let destination = topology.destination_of(lid)?;
    let mut switch = from;
    for hops in 0..=topology.switch_count() as u32 {
        let port = tables.lft(switch).port(lid)?;
        if switch == destination.switch {
            return (port == destination.port).then_some(hops);
        }
        switch = topology.peer(switch, port)?.0;
    }
    None
}
