//! The proofs find faults planted in sound tables.

use crate::common;
use crate::random;

use common::{Fabric, pgft, ring};
use proptest::prelude::*;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::engine::{EngineKind, Options, route};
use rsm_routing::tables::{Lft, NO_PATH, Tables};
use rsm_routing::topology::{EndpointKind, SwitchIdx, Topology};
use rsm_routing::verify::{MAX_WITNESSES, PairCounts, Witness, mixture_is_acyclic, stages, verify};

fn updn(topology: &Topology) -> Tables {
    route(EngineKind::UpDn, topology, &Options::default(), None)
        .unwrap()
        .tables
}

fn tree() -> Topology {
    pgft(&[3, 4], &[1, 3], &[1, 2], 0)
}

/// A leaf, a LID on another leaf, and the port of the leaf that leads to a spine for it.
fn leaf_and_remote_lid(topology: &Topology, tables: &Tables) -> (SwitchIdx, Lid, u8) {
    let mut leaves = topology.indices().filter(|&leaf| topology.hosts(leaf) > 0);
    let (first, last) = (leaves.next().unwrap(), leaves.last().unwrap());
    let lid = topology.destinations_of(last).last().unwrap().lid;
    (first, lid, tables.lft(first).entry(lid))
}

#[test]
fn pairs_are_counted_by_kind_and_component() {
    let mut fabric = Fabric::new();
    let switches = fabric.switches(3);
    fabric.link(switches[0], switches[1]);
    fabric.hosts(switches[0], 2);
    fabric.hosts(switches[2], 1);
    let topology = fabric.build();
    let report = verify(&topology, &updn(&topology));
    // In the first component two hosts and two switches: 2 + 4 + 4 pairs; in the other 1 + 1.
    assert_eq!(report.reachable_pairs, 12);
    assert_eq!(report.unreachable_pairs, 0);
    // All: 3 hosts to 5 other LIDs each, and 3 switches to 3 hosts.
    assert_eq!(report.disconnected_pairs, 15 + 9 - 12);
    let switch_pairs = PairCounts {
        reachable: 2,
        unreachable: 0,
        disconnected: 4,
    };
    assert_eq!(report.switch_pairs, switch_pairs);
    assert_eq!(report.max_hops, 1);
    // Nothing but switches is between the hosts of the two components.
    assert_eq!(report.load.max, 0);
    assert_eq!(report.average_hops, 0.0);
}

#[test]
fn load_counts_every_hop_where_two_paths_are_equally_short() {
    // A ring of four: two hosts on one switch, one on that across, sent to over different
    // neighbours.
    let plan = random::Plan {
        switches: 4,
        links: vec![
            (3, 1, 1, 100),
            (3, 2, 1, 100),
            (0, 2, 1, 100),
            (1, 0, 1, 100),
        ],
        ports: vec![
            (2, EndpointKind::Ca),
            (1, EndpointKind::Ca),
            (1, EndpointKind::Ca),
        ],
        lmc: 0,
    };
    let topology = plan.build();
    let report = verify(&topology, &updn(&topology));
    // Four pairs with two hops each and two with none, on eight directions of cables.
    assert_eq!(report.load.mean, 1.0);
    assert_eq!(report.average_hops, 8.0 / 6.0);
}

#[test]
fn an_entry_without_a_path_is_found() {
    let topology = tree();
    for planted in [NO_PATH, 0, 250] {
        let mut tables = updn(&topology);
        let (leaf, lid, _) = leaf_and_remote_lid(&topology, &tables);
        tables.lfts[leaf.index()].set_entry(lid, planted);
        let report = verify(&topology, &tables);
        // Three hosts and the leaf itself.
        assert_eq!(report.unreachable_pairs, 4);
        let dropped = Witness::Dropped {
            switch: topology.switch(leaf).guid,
            lid,
            port: (planted != NO_PATH).then_some(PortNum(planted)),
        };
        assert_eq!(report.witnesses, [dropped]);
        assert!(report.loop_free && report.credit_loop_free);
    }
}

#[test]
fn an_entry_to_the_wrong_host_is_found() {
    let topology = tree();
    let mut tables = updn(&topology);
    let (leaf, lid, _) = leaf_and_remote_lid(&topology, &tables);
    let host = topology.destinations_of(leaf).last().unwrap().port;
    tables.lfts[leaf.index()].set_entry(lid, host.0);
    assert_eq!(verify(&topology, &tables).unreachable_pairs, 4);

    let mut tables = updn(&topology);
    let destination = topology.destination_of(lid).unwrap();
    let other = topology.destinations_of(destination.switch)[1].port;
    assert_ne!(other, destination.port);
    tables.lfts[destination.switch.index()].set_entry(lid, other.0);
    let all = topology.destinations().len() as u64 - 1;
    assert_eq!(verify(&topology, &tables).unreachable_pairs, all);
}

#[test]
fn a_planted_loop_is_found_and_named() {
    let topology = tree();
    let mut tables = updn(&topology);
    let (leaf, lid, port) = leaf_and_remote_lid(&topology, &tables);
    let (spine, back) = topology.peer(leaf, PortNum(port)).unwrap();
    tables.lfts[spine.index()].set_entry(lid, back.0);
    let report = verify(&topology, &tables);
    assert!(!report.loop_free);
    assert!(!report.credit_loop_free);
    assert!(report.unreachable_pairs >= 4);
    let hops = vec![
        (topology.switch(leaf).guid, PortNum(port)),
        (topology.switch(spine).guid, back),
    ];
    assert!(
        report.witnesses.contains(&Witness::Loop { lid, hops }),
        "{:?}",
        report.witnesses
    );
}

#[test]
fn an_entry_into_a_loop_back_cable_is_a_loop() {
    let mut fabric = Fabric::new();
    let switches = fabric.switches(2);
    fabric.link(switches[0], switches[1]);
    let (out, _) = fabric.link(switches[0], switches[0]);
    let lid = fabric.host(switches[1]);
    let topology = fabric.build();
    let mut tables = updn(&topology);
    tables.lfts[0].set_entry(lid, out.0);
    let report = verify(&topology, &tables);
    assert!(!report.loop_free && !report.credit_loop_free);
    assert_eq!(report.unreachable_pairs, 1);
    let hops = vec![(Guid(0x1000), out)];
    assert_eq!(report.witnesses[0], Witness::Loop { lid, hops });
}

#[test]
fn a_credit_loop_without_a_loop_is_found_and_named() {
    let topology = ring(6);
    let tables = route(EngineKind::MinHop, &topology, &Options::default(), None)
        .unwrap()
        .tables;
    let report = verify(&topology, &tables);
    assert!(report.loop_free && !report.credit_loop_free);
    let [Witness::CreditLoop { channels }] = &report.witnesses[..] else {
        panic!("{:?}", report.witnesses);
    };
    assert_eq!(channels.len(), 6);
    for (index, &(guid, port)) in channels.iter().enumerate() {
        let switch = topology.switch_by_guid(guid).unwrap();
        let (next, _) = topology.peer(switch, port).unwrap();
        assert_eq!(topology.switch(next).guid, channels[(index + 1) % 6].0);
    }
}

#[test]
fn witnesses_are_few_and_counts_exact() {
    let topology = tree();
    let none = Tables {
        lfts: vec![Lft::default(); topology.switch_count()],
    };
    let report = verify(&topology, &none);
    assert_eq!(report.reachable_pairs, 0);
    assert_eq!(report.witnesses.len(), MAX_WITNESSES);
    let full = verify(&topology, &updn(&topology));
    assert_eq!(report.unreachable_pairs, full.reachable_pairs);
    assert_eq!(verify(&topology, &Tables::default()), report);
}

#[test]
fn a_change_of_direction_is_unsafe_in_some_order() {
    // Around a ring of five in one direction, then in the other: each is free of loops towards one
    // host, and half of each is not.
    let topology = ring(5);
    let host = topology.destinations_of(SwitchIdx(0))[1].clone();
    let around = |clockwise: bool| {
        let mut tables = Tables {
            lfts: vec![Lft::default(); 5],
        };
        tables.lfts[0].set_entry(host.lid, host.port.0);
        for switch in 1..5u32 {
            let to = if clockwise {
                (switch + 1) % 5
            } else {
                switch - 1
            };
            let port = port_to(&topology, switch, to);
            tables.lfts[switch as usize].set_entry(host.lid, port);
        }
        tables
    };
    let (old, new) = (around(true), around(false));
    assert!(verify(&topology, &old).credit_loop_free);
    assert!(verify(&topology, &new).credit_loop_free);
    assert!(!mixture_is_acyclic(&topology, &old, &new));
    assert!(mixture_is_acyclic(&topology, &new, &new));
    let stages = stages(&topology, &old, &new);
    assert_eq!(stages.len(), 2);
    assert!(mixture_is_acyclic(&topology, &old, &stages[0]));
    assert!(mixture_is_acyclic(&topology, &stages[0], &new));
}

/// The port of `switch` that leads to `to`.
fn port_to(topology: &Topology, switch: u32, to: u32) -> u8 {
    let mut groups = topology.groups(SwitchIdx(switch));
    let group = groups.find(|group| group.neighbour == SwitchIdx(to));
    group.expect("they are neighbours").links[0].port.0
}

/// Hosts go on sending to a host that is gone. Over the ring one way, its entries lead from switch 3
/// past 0 to 2, and those of a host that is there from 1 past 3 to 0: together all the way around.
#[test]
fn entries_to_a_lid_without_a_destination_are_proved_too() {
    let topology = ring(5);
    let present = topology.destinations_of(SwitchIdx(0))[1].clone();
    let gone = Lid(topology.top_lid().0 + 100);
    let along = |lid: Lid, switches: &[u32]| {
        let mut tables = Tables {
            lfts: vec![Lft::default(); 5],
        };
        for &switch in switches {
            let port = port_to(&topology, switch, (switch + 1) % 5);
            tables.lfts[switch as usize].set_entry(lid, port);
        }
        tables
    };
    let old = along(gone, &[3, 4, 0, 1]);
    let mut new = along(present.lid, &[1, 2, 3, 4]);
    new.lfts[0].set_entry(present.lid, present.port.0);
    assert!(!mixture_is_acyclic(&topology, &old, &new));
    let stages = stages(&topology, &old, &new);
    assert_eq!(stages.len(), 2);
    assert!(mixture_is_acyclic(&topology, &old, &stages[0]));
    assert!(mixture_is_acyclic(&topology, &stages[0], &new));
}

/// The number of pairs that reach each other, counted by walking every path.
fn pairs_by_hand(topology: &Topology, tables: &Tables) -> u64 {
    let mut arrived = 0;
    for destination in topology.destinations() {
        for lid in destination.lids() {
            for from in topology.indices() {
                let sources = topology.destinations_of(from).iter().filter(|source| {
                    *source != destination && (source.port.0 != 0 || destination.port.0 != 0)
                });
                let mut switch = from;
                for _ in 0..=topology.switch_count() {
                    let byte = tables.lft(switch).entry(lid);
                    if switch == destination.switch && byte == destination.port.0 {
                        arrived += sources.count() as u64;
                        break;
                    }
                    match topology.peer(switch, PortNum(byte)) {
                        Some((next, _)) => switch = next,
                        None => break,
                    }
                }
            }
        }
    }
    arrived
}

/// Whether mixtures of `tables` have no credit loop of packets to `lids`, by dependencies in a
/// petgraph graph.
fn is_acyclic_by_hand(
    topology: &Topology,
    tables: &[&Tables],
    lids: impl IntoIterator<Item = Lid>,
) -> bool {
    let mut graph = petgraph::graphmap::DiGraphMap::<(u32, u8), ()>::new();
    for lid in lids {
        for (from, table) in topology
            .indices()
            .flat_map(|from| tables.iter().map(move |table| (from, table)))
        {
            let byte = table.lft(from).entry(lid);
            let Some((next, _)) = topology.peer(from, PortNum(byte)) else {
                continue;
            };
            for after in tables {
                let onward = after.lft(next).entry(lid);
                if topology.peer(next, PortNum(onward)).is_some() {
                    graph.add_edge((from.0, byte), (next.0, onward), ());
                }
            }
        }
    }
    !petgraph::algo::is_cyclic_directed(&graph)
}

/// Tables with entries changed at random: most lead somewhere, some nowhere.
fn mutated(topology: &Topology, tables: &Tables, changes: &[(u16, u16, u8)]) -> Tables {
    let mut tables = tables.clone();
    let lids = usize::from(topology.top_lid().0) + 1;
    for &(switch, lid, byte) in changes {
        let switch = usize::from(switch) % topology.switch_count();
        let mut used = topology.port_uses(SwitchIdx(switch as u32)).iter();
        let ports = 2 + used
            .rposition(|leads_to| *leads_to != rsm_routing::topology::PortUse::Unused)
            .unwrap_or(0);
        let byte = if byte == NO_PATH {
            byte
        } else {
            (usize::from(byte) % ports) as u8
        };
        tables.lfts[switch].set_entry(Lid((usize::from(lid) % lids) as u16), byte);
    }
    tables
}

proptest! {
    #[test]
    fn any_bytes_are_proved_as_by_hand(
        plan in random::any_fabric(),
        changes in proptest::collection::vec(any::<(u16, u16, u8)>(), 0..12),
        more in proptest::collection::vec(any::<(u16, u16, u8)>(), 0..3),
        shortest in any::<bool>(),
    ) {
        let topology = plan.build();
        let kind = if shortest { EngineKind::MinHop } else { EngineKind::UpDn };
        let routed = route(kind, &topology, &Options::default(), None).unwrap().tables;
        let tables = mutated(&topology, &routed, &changes);
        let report = verify(&topology, &tables);
        prop_assert_eq!(report.reachable_pairs, pairs_by_hand(&topology, &tables));
        let present = topology.destinations().iter().flat_map(|destination| destination.lids());
        prop_assert_eq!(
            report.credit_loop_free,
            is_acyclic_by_hand(&topology, &[&tables], present)
        );
        prop_assert!(report.loop_free || !report.credit_loop_free);
        let ports = topology.destinations().iter().filter(|port| port.port.0 != 0).count() as u64;
        let lids = |of_switches: bool| {
            let these = topology.destinations().iter().filter(|to| (to.port.0 == 0) == of_switches);
            these.map(|to| u64::from(to.lmc.lids())).sum::<u64>()
        };
        let own_pairs: u64 = topology
            .destinations()
            .iter()
            .filter(|to| to.port.0 != 0)
            .map(|to| u64::from(to.lmc.lids()))
            .sum();
        let pairs = ports * (lids(true) + lids(false))
            + topology.switch_count() as u64 * lids(false)
            - own_pairs;
        prop_assert_eq!(
            report.reachable_pairs + report.unreachable_pairs + report.disconnected_pairs,
            pairs
        );
        let other = mutated(&topology, &tables, &more);
        // Entries in force may be of LIDs that are gone.
        let all = (1..=topology.top_lid().0).map(Lid);
        prop_assert_eq!(
            mixture_is_acyclic(&topology, &tables, &other),
            is_acyclic_by_hand(&topology, &[&tables, &other], all)
        );
    }

    #[test]
    fn tables_of_another_fabric_do_not_panic(
        plan in random::any_fabric(),
        other in random::any_fabric(),
    ) {
        let (topology, other) = (plan.build(), other.build());
        let tables = updn(&other);
        verify(&topology, &tables);
        mixture_is_acyclic(&topology, &tables, &updn(&topology));
    }
}
