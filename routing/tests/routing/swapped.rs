//! Cables and hosts at ports that had none before: the routes follow the change, and equal routes
//! computed from the topology alone.

use crate::common;
use crate::random;

use common::{Fabric, pgft, swapped};
use proptest::prelude::*;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::engine::{EngineKind, Options, Ranking, Routing, route};
use rsm_routing::topology::{EndpointKind, PortUse, SwitchIdx, Topology};
use rsm_routing::verify::verify;

type Port = (Guid, PortNum);

/// The routes of a topology after `earlier`. Checks that the routes pass the proof and equal the
/// routes computed from the topology with the same known fabric and order.
fn routed(topology: &Topology, earlier: Option<&Routing>) -> Routing {
    let with = |ranking: Option<Ranking>| {
        let options = Options {
            previous_ranking: ranking,
            ..Options::default()
        };
        route(EngineKind::FabricTree, topology, &options, None).unwrap()
    };
    let ranking = earlier.and_then(|earlier| earlier.ranking.clone());
    let routing = with(ranking.clone());
    let anew = with(ranking.map(Ranking::unprepared));
    assert_eq!(routing.tables, anew.tables);
    assert_eq!(routing.ranks, anew.ranks);
    assert_eq!(routing.ranking, anew.ranking);
    let report = verify(topology, &routing.tables);
    assert!(report.loop_free, "{:?}", report.witnesses);
    assert!(report.credit_loop_free, "{:?}", report.witnesses);
    assert_eq!(report.unreachable_pairs, 0, "{:?}", report.witnesses);
    routing
}

/// Every port of a switch that leads to another switch, or to a host.
fn ports_to(topology: &Topology, switch: SwitchIdx, host: bool) -> Vec<Port> {
    let guid = topology.switch(switch).guid;
    let uses = (0..=u8::MAX).zip(topology.port_uses(switch)).skip(1);
    let leads = uses.filter(|(_, used)| match used {
        PortUse::Unused => false,
        PortUse::Link { .. } => !host,
        PortUse::Destination(_) => host,
    });
    leads.map(|(port, _)| (guid, PortNum(port))).collect()
}

fn leaves(topology: &Topology) -> Vec<SwitchIdx> {
    let is_leaf = |&switch: &SwitchIdx| topology.hosts(switch) > 0;
    topology.indices().filter(is_leaf).collect()
}

/// A tree of three levels, and one with two cables between neighbours of its upper levels.
fn trees() -> [Topology; 2] {
    [
        pgft(&[4, 4, 4], &[1, 4, 4], &[1, 1, 1], 0),
        pgft(&[4, 4, 3], &[1, 4, 2], &[1, 1, 2], 0),
    ]
}

/// Swaps two cables, and swaps them back: the routes follow both changes.
fn assert_follows(topology: &Topology, one: Port, other: Port) -> Routing {
    let first = routed(topology, None);
    let next = swapped(topology, one, other);
    let during = routed(&next, Some(&first));
    assert_eq!(during.whole(), None, "{one:?} {other:?}");
    let back = routed(topology, Some(&during));
    assert_eq!(back.whole(), None, "{one:?} {other:?}");
    assert_eq!(back.tables, first.tables);
    during
}

#[test]
fn two_hosts_swapped_at_a_leaf_change_only_their_leaf_and_their_entries() {
    for topology in trees() {
        let ports = ports_to(&topology, leaves(&topology)[1], true);
        let during = assert_follows(&topology, ports[0], ports[2]);
        let before = routed(&topology, None);
        let moved: Vec<_> = [ports[0], ports[2]].into();
        for (was, is) in before.tables.lfts.iter().zip(&during.tables.lfts) {
            for lid in was.differing(is) {
                let to = topology.destination_of(lid).unwrap();
                assert!(moved.contains(&(topology.switch(to.switch).guid, to.port)));
            }
        }
    }
}

#[test]
fn hosts_of_two_leaves_are_swapped() {
    for topology in trees() {
        let leaves = leaves(&topology);
        let port = |leaf: usize| ports_to(&topology, leaves[leaf], true)[1];
        assert_follows(&topology, port(0), port(1));
        assert_follows(&topology, port(0), port(leaves.len() - 1));
    }
}

#[test]
fn a_host_moves_to_the_port_of_a_missing_one() {
    // A leaf that lacks a few hosts is numbered as if it had them.
    let topology = pgft(&[12, 6], &[1, 4], &[1, 1], 0);
    let leaves = leaves(&topology);
    let port = |leaf: usize| ports_to(&topology, leaves[leaf], true)[1];
    assert_follows(&topology.without_cables(&[port(3)]), port(0), port(3));
}

#[test]
fn cables_of_a_switch_change_ports() {
    for topology in trees() {
        for switch in topology.indices().step_by(3) {
            let ports = ports_to(&topology, switch, false);
            assert_follows(&topology, ports[0], ports[ports.len() - 1]);
        }
    }
}

#[test]
fn cables_of_two_leaves_under_the_same_spines_are_swapped() {
    for topology in trees() {
        let leaves = leaves(&topology);
        let port = |leaf: usize, number: usize| ports_to(&topology, leaves[leaf], false)[number];
        // Each leaf has two cables to one spine and none to another.
        assert_follows(&topology, port(0, 0), port(1, 1));
        assert_follows(&topology, port(5, 3), port(6, 2));
    }
}

#[test]
fn cables_are_swapped_while_others_are_missing() {
    for topology in trees() {
        let first = routed(&topology, None);
        let cables = topology.cables();
        let leaves = leaves(&topology);
        for (number, cable) in cables.iter().enumerate().step_by(5) {
            let broken = topology.without_cables(&[cable.a]);
            let during = routed(&broken, Some(&first));
            let ports = ports_to(&broken, leaves[number % leaves.len()], false);
            let next = swapped(&broken, ports[0], ports[1]);
            let both = routed(&next, Some(&during));
            assert_eq!(both.whole(), None, "{cable:?}");
            let again = swapped(&next, ports[0], ports[1]);
            assert_eq!(routed(&again, Some(&both)).tables, during.tables);
        }
    }
}

#[test]
fn another_adapter_replaces_an_earlier_one() {
    let whole = pgft(&[4, 6], &[1, 4], &[1, 1], 0);
    let host = whole
        .destinations()
        .iter()
        .find(|end| end.kind.is_host())
        .unwrap();
    let port = (whole.switch(host.switch).guid, host.port);
    let empty = whole.without_cables(&[port]);
    let other = common::with_host(&empty, port, Guid(0x6000), Lid(777));
    let first = routed(&whole, None);
    let next = routed(&other, Some(&first));
    assert_eq!(next.whole(), None);
    // The LID that has gone leaves no entry behind.
    let mut lfts = next.tables.lfts.iter();
    assert!(lfts.all(|lft| lft.port(host.lid).is_none()));
    let during = routed(&empty, Some(&first));
    assert_eq!(routed(&other, Some(&during)).tables, next.tables);
}

/// Changes that affect entries everywhere say why they are computed whole.
#[test]
fn changes_everywhere_name_their_reason() {
    let topology = pgft(&[4, 4, 4], &[1, 4, 4], &[1, 1, 1], 0);
    let first = routed(&topology, None);
    let leaves = leaves(&topology);
    let other = ports_to(&topology, leaves[9], false)[0];
    let joined = swapped(&topology, ports_to(&topology, leaves[0], false)[0], other);
    let whole = routed(&joined, Some(&first)).whole();
    assert_eq!(whole, Some("a cable connects subtrees that were separate"));
    let free = (topology.switch(leaves[0]).guid, PortNum(200));
    let host = ports_to(&topology, leaves[3], true)[0];
    let whole = routed(&swapped(&topology, host, free), Some(&first)).whole();
    assert_eq!(
        whole,
        Some("a new host shifts the numbers of the hosts after it")
    );
    let mut fabric = Fabric::new();
    let switches = fabric.switches(3);
    fabric.hosts(switches[0], 2);
    fabric.link(switches[0], switches[1]);
    let small = fabric.build();
    let mut fabric = Fabric::new();
    let switches = fabric.switches(4);
    fabric.hosts(switches[0], 2);
    fabric.link(switches[0], switches[1]);
    fabric.link(switches[0], switches[3]);
    let larger = fabric.build();
    let whole = routed(&larger, Some(&routed(&small, None))).whole();
    assert_eq!(whole, Some("a switch was added"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Any two plugs of any fabric are swapped, again and again, while cables are missing.
    #[test]
    fn any_cables_are_swapped_on_any_fabric(
        plan in random::any_fabric(),
        steps in prop::collection::vec(
            (any::<[prop::sample::Index; 2]>(), prop::collection::vec(any::<prop::sample::Index>(), 0..3)),
            1..5,
        ),
    ) {
        let mut wired = plan.build();
        let mut routing = routed(&wired, None);
        for (plugs, dead) in steps {
            let mut ports = Vec::new();
            for switch in wired.indices() {
                let guid = wired.switch(switch).guid;
                let used = (1..wired.port_uses(switch).len()).take(30);
                ports.extend(used.map(|port| (guid, PortNum(port as u8))));
            }
            let [one, other] = plugs.map(|plug| ports[plug.index(ports.len())]);
            wired = swapped(&wired, one, other);
            let cables = wired.cables();
            let dead: Vec<Port> = dead
                .iter()
                .filter(|_| !cables.is_empty())
                .map(|dead| cables[dead.index(cables.len())].a)
                .collect();
            let broken = wired.without_cables(&dead);
            routing = routed(&broken, Some(&routing));
            routing = routed(&wired, Some(&routing));
        }
    }

    /// Switches with an aggregation node or a host at the top have detours, which follow too.
    #[test]
    fn routes_follow_swaps_on_trees_with_end_ports_at_the_top(
        switch in any::<prop::sample::Index>(),
        one in any::<prop::sample::Index>(),
        other in any::<prop::sample::Index>(),
        dead in any::<prop::sample::Index>(),
    ) {
        let mut fabric = Fabric::new();
        let (leaves, spines) = (fabric.switches(6), fabric.switches(4));
        for &leaf in &leaves {
            fabric.hosts(leaf, 3);
            for &spine in &spines {
                fabric.link(leaf, spine);
            }
        }
        for (number, &spine) in spines.iter().enumerate() {
            fabric.endport(spine, EndpointKind::AggregationNode);
            if number % 2 == 0 {
                fabric.host(spine);
            }
        }
        let whole = fabric.build();
        let first = routed(&whole, None);
        let cables = whole.cables();
        let broken = whole.without_cables(&[cables[dead.index(cables.len())].a]);
        let during = routed(&broken, Some(&first));
        let switch = SwitchIdx(switch.index(broken.switch_count()) as u32);
        let ports = ports_to(&broken, switch, false);
        let ports = [one, other].map(|port| ports[port.index(ports.len())]);
        let next = swapped(&broken, ports[0], ports[1]);
        let routing = routed(&next, Some(&during));
        prop_assert_eq!(routing.whole(), None);
    }
}
