//! Proofs over several virtual lanes.

use crate::common;
use crate::random;

use common::ring;
use proptest::prelude::*;
use rsm_ids::{Guid, PortNum};
use rsm_routing::engine::{EngineKind, Options, route};
use rsm_routing::lanes::{Lanes, Mapping, PairLevels, Row, ServiceLevels};
use rsm_routing::tables::Tables;
use rsm_routing::topology::{SwitchIdx, Topology};
use rsm_routing::verify::{
    Witness, mixture_is_acyclic, mixture_is_sound, verify, verify_lanes, verify_on_lanes,
};

fn minhop(topology: &Topology) -> Tables {
    route(EngineKind::MinHop, topology, &Options::default(), None)
        .unwrap()
        .tables
}

/// Whether the way from one switch to another crosses the link between the last and the first.
fn crosses(topology: &Topology, tables: &Tables, from: SwitchIdx, to: SwitchIdx) -> bool {
    let last = SwitchIdx(topology.switch_count() as u32 - 1);
    let lid = topology.destinations_of(to)[0].lid;
    let mut at = from;
    while at != to {
        let port = tables.lft(at).port(lid).unwrap();
        let (next, _) = topology.peer(at, port).unwrap();
        if [(at, next), (next, at)].contains(&(last, SwitchIdx(0))) {
            return true;
        }
        at = next;
    }
    false
}

/// Packets that cross the dateline of a ring have SL 1, and with it VL 1, all the way.
fn dateline(topology: &Topology, tables: &Tables) -> Lanes {
    let level = |from, to| u8::from(crosses(topology, tables, from, to));
    let levels = PairLevels::new(topology.switch_count(), level);
    Lanes::layers(topology, ServiceLevels::ByPair(levels), 2)
}

#[test]
fn a_dateline_makes_a_ring_safe() {
    let topology = ring(7);
    let tables = minhop(&topology);
    assert!(!verify(&topology, &tables).credit_loop_free);
    let report = verify_on_lanes(&topology, &tables, &dateline(&topology, &tables)).report;
    assert!(report.credit_loop_free, "{:?}", report.witnesses);
    assert_eq!(report.witnesses, []);
}

#[test]
fn one_lane_too_few_is_found_and_named() {
    let topology = ring(7);
    let tables = minhop(&topology);
    // The same service levels, and all of them on one lane.
    let all: Row = [0; 16];
    let levels = dateline(&topology, &tables).levels().clone();
    let mapping = Mapping::new(&topology, 1, |_, _| 0, |_, _| all);
    let report = verify_on_lanes(&topology, &tables, &Lanes::new(levels, mapping, 2)).report;
    assert!(!report.credit_loop_free);
    let [Witness::CreditLoopOnLanes { channels }] = &report.witnesses[..] else {
        panic!("{:?}", report.witnesses)
    };
    assert_eq!(channels.len(), 7);
    assert!(channels.iter().all(|channel| channel.vl == 0));
    assert_eq!(channels[0].switch, Guid(0x1000));
    // Each is followed by the one that packets take next.
    for (place, channel) in channels.iter().enumerate() {
        let switch = topology.switch_by_guid(channel.switch).unwrap();
        let (next, _) = topology.peer(switch, channel.port).unwrap();
        let after = &channels[(place + 1) % channels.len()];
        assert_eq!(topology.switch(next).guid, after.switch);
    }
}

#[test]
fn a_lane_by_the_ports_of_a_switch_counts() {
    // VL 1 from the link between the last and the first on: kind 1 are the two ports of the first.
    let topology = ring(6);
    let tables = minhop(&topology);
    let lane = |vl: u8| -> Row { [vl; 16] };
    let kind = |switch: SwitchIdx, port: PortNum| {
        let leads_across = topology
            .peer(switch, port)
            .is_some_and(|(peer, _)| [(switch.0, peer.0), (peer.0, switch.0)].contains(&(5, 0)));
        u8::from(leads_across)
    };
    let row = |input, _| lane(input);
    let mapping = Mapping::new(&topology, 2, kind, row);
    let lanes = Lanes::new(ServiceLevels::Any, mapping, 2);
    // One hop after the dateline the lane is forgotten, and the cycle closed again.
    let report = verify_lanes(&topology, &tables, &lanes);
    assert!(!report.cycle.is_empty());
    assert!(!lanes.needs_levels());
}

#[test]
fn a_lane_that_is_not_claimed_is_found() {
    let topology = ring(3);
    let tables = minhop(&topology);
    let mut row: Row = [0; 16];
    row[9] = 15;
    let mapping = Mapping::new(&topology, 1, |_, _| 0, |_, _| row);
    let lanes = Lanes::new(ServiceLevels::Any, mapping.clone(), 1);
    let report = verify_on_lanes(&topology, &tables, &lanes).report;
    assert!(!report.credit_loop_free);
    let off = report
        .witnesses
        .iter()
        .any(|witness| matches!(witness, Witness::OffLanes { channel } if channel.vl == 15));
    assert!(off, "{:?}", report.witnesses);
    // No packet uses SL 9.
    let levels = ServiceLevels::ByDestination(vec![0; 3]);
    assert!(verify_lanes(&topology, &tables, &Lanes::new(levels, mapping, 1)).is_sound());
}

proptest! {
    #[test]
    fn one_lane_gives_the_proof_of_links(plan in random::any_fabric(), levels: u16) {
        let topology = plan.build();
        let tables = minhop(&topology);
        let alone = verify(&topology, &tables).credit_loop_free;
        let mapping = Mapping::new(&topology, 1, |_, _| 0, |_, _| [0; 16]);
        let level = |switch: SwitchIdx| (u32::from(levels) >> (switch.0 % 13)) as u8 % 16;
        let updn = route(EngineKind::UpDn, &topology, &Options::default(), None).unwrap().tables;
        let together = mixture_is_acyclic(&topology, &updn, &tables);
        for levels in [
            ServiceLevels::Any,
            ServiceLevels::ByDestination(topology.indices().map(level).collect()),
            ServiceLevels::ByPair(PairLevels::new(topology.switch_count(), |from, to| {
                level(from) ^ level(to)
            })),
        ] {
            let lanes = Lanes::new(levels, mapping.clone(), 1);
            prop_assert_eq!(verify_lanes(&topology, &tables, &lanes).cycle.is_empty(), alone);
            prop_assert_eq!(mixture_is_sound(&topology, &updn, &tables, &lanes), together);
        }
    }

    #[test]
    fn a_lane_for_each_destination_needs_no_other_proof(plan in random::any_fabric()) {
        // Up to 14 switches: the paths to one are a tree, for any other paths.
        let topology = plan.build();
        prop_assume!(topology.switch_count() <= 15);
        let tables = minhop(&topology);
        let levels = (0..topology.switch_count() as u8).collect();
        let lanes = Lanes::layers(&topology, ServiceLevels::ByDestination(levels), 15);
        prop_assert!(verify_lanes(&topology, &tables, &lanes).is_sound());
    }
}
