//! Proofs over several virtual lanes.

use crate::common;
use crate::random;

use std::collections::BTreeSet;

use common::ring;
use proptest::prelude::*;
use rsm_ids::{Guid, PortNum};
use rsm_routing::engine::{EngineKind, Options, route};
use rsm_routing::lanes::{Lanes, Mapping, PairLevels, Row, ServiceLevels};
use rsm_routing::tables::Tables;
use rsm_routing::topology::{PortUse, SwitchIdx, Topology};
use rsm_routing::verify::{
    LaneChannel, Witness, mixture_is_acyclic, mixture_is_sound, verify, verify_lanes,
    verify_on_lanes,
};

fn minhop(topology: &Topology) -> Tables {
    route(EngineKind::MinHop, topology, &Options::default(), None)
        .unwrap()
        .tables
}

/// Whether the path from one switch to another crosses the link between the last and the first.
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
    // Each is followed by the next channel of the packets.
    for (index, channel) in channels.iter().enumerate() {
        let switch = topology.switch_by_guid(channel.switch).unwrap();
        let (next, _) = topology.peer(switch, channel.port).unwrap();
        let after = &channels[(index + 1) % channels.len()];
        assert_eq!(topology.switch(next).guid, after.switch);
    }
}

#[test]
fn lanes_mapped_by_ports_alone_leave_the_cycle_of_a_ring() {
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
    // One hop after the dateline, packets are on the first lane again, and the cycle is closed.
    let report = verify_lanes(&topology, &tables, &lanes);
    assert!(!report.cycle.is_empty());
    assert!(!lanes.needs_levels());
}

#[test]
fn a_lane_beyond_the_declared_ones_is_found() {
    let topology = ring(3);
    let tables = minhop(&topology);
    let mut row: Row = [0; 16];
    row[9] = 15;
    let mapping = Mapping::new(&topology, 1, |_, _| 0, |_, _| row);
    let lanes = Lanes::new(ServiceLevels::Any, mapping.clone(), 1);
    let report = verify_on_lanes(&topology, &tables, &lanes).report;
    assert!(!report.credit_loop_free);
    let is_off_lanes = report
        .witnesses
        .iter()
        .any(|witness| matches!(witness, Witness::OffLanes { channel } if channel.vl == 15));
    assert!(is_off_lanes, "{:?}", report.witnesses);
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
        // The paths to one switch are a tree, and on a lane of their own they close no cycle.
        let topology = plan.build();
        prop_assume!(topology.switch_count() <= 15);
        let tables = minhop(&topology);
        let levels = (0..topology.switch_count() as u8).collect();
        let lanes = Lanes::layers(&topology, ServiceLevels::ByDestination(levels), 15);
        prop_assert!(verify_lanes(&topology, &tables, &lanes).is_sound());
    }
}

/// A channel and its lane: switch, port, lane.
type OnLane = (SwitchIdx, PortNum, u8);

/// Packets that are followed one at a time, from each port by each of some tables with each service
/// level: which (channel, lane) waits for which, and whether a packet leaves the lanes.
fn followed(
    topology: &Topology,
    tables: &[&Tables],
    lanes: &Lanes,
) -> (BTreeSet<(OnLane, OnLane)>, bool) {
    let (mut waits, mut astray) = (BTreeSet::new(), false);
    for (destination, lid) in topology
        .destinations()
        .iter()
        .flat_map(|destination| destination.lids().map(move |lid| (destination, lid)))
    {
        // The links that a switch sends to, and the lane of a packet there.
        let sends = |at: SwitchIdx, input: PortNum, level: u8| -> Vec<(OnLane, _)> {
            let tables = tables.iter().filter(|_| at != destination.switch);
            let ports = tables.filter_map(|tables| tables.lfts.get(at.index())?.port(lid));
            let links = ports.filter_map(|port| Some((port, topology.peer(at, port)?)));
            links
                .map(|(port, peer)| {
                    let row = lanes.row(at, input, port);
                    let vl = row.map_or(0, |row| row[usize::from(level)]);
                    ((at, port, vl), peer)
                })
                .collect()
        };
        let mut open = Vec::new();
        for from in topology.indices() {
            let levels = |level: Option<u8>| level.map_or(0..16, |level| level..level + 1);
            let requests = levels(lanes.level(from, destination.switch));
            let answers = match lanes.levels() {
                ServiceLevels::ByPair(_) => levels(lanes.level(destination.switch, from)),
                _ => 0..0,
            };
            for (port, leads_to) in topology.port_uses(from).iter().enumerate() {
                if matches!(leads_to, PortUse::Destination(_)) {
                    let levels = requests.clone().chain(answers.clone());
                    open.extend(levels.map(|level| (from, PortNum(port as u8), level)));
                }
            }
        }
        let mut seen: BTreeSet<(SwitchIdx, PortNum, u8)> = open.iter().copied().collect();
        while let Some((at, input, level)) = open.pop() {
            for (held, (next, entry)) in sends(at, input, level) {
                astray |= held.2 >= lanes.vls();
                let wanted = sends(next, entry, level)
                    .into_iter()
                    .map(|(wanted, _)| wanted);
                let edges = wanted.map(|wanted| (held, wanted));
                waits.extend(edges.filter(|(a, b)| a.2.max(b.2) < lanes.vls()));
                if seen.insert((next, entry, level)) {
                    open.push((next, entry, level));
                }
            }
        }
    }
    (waits, astray)
}

/// Whether no channel waits for itself, directly or not.
fn is_acyclic(waits: &BTreeSet<(OnLane, OnLane)>) -> bool {
    let mut remaining = waits.clone();
    loop {
        let waiting: BTreeSet<OnLane> = remaining.iter().map(|&(held, _)| held).collect();
        let before = remaining.len();
        remaining.retain(|(_, wanted)| waiting.contains(wanted));
        if remaining.len() == before {
            return remaining.is_empty();
        }
    }
}

/// Lanes by numbers at random; `spread` is how many lanes rows name, which may be too many.
fn any_lanes(topology: &Topology, vls: u8, spread: u8, kind: u8, seed: u64) -> Lanes {
    let mix = move |one: u64, other: u64| -> u8 {
        let mixed = (one * 131 + other * 31 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as u8
    };
    let levels = match kind {
        0 => ServiceLevels::Any,
        1 => {
            let levels = topology.indices().map(|to| mix(to.0.into(), 5) % 4);
            ServiceLevels::ByDestination(levels.collect())
        }
        _ => ServiceLevels::ByPair(PairLevels::new(topology.switch_count(), |from, to| {
            mix(from.0.into(), to.0.into()) % 4
        })),
    };
    let kind = |switch: SwitchIdx, port: PortNum| mix(switch.0.into(), port.0.into()) % 3;
    let row = |input: u8, output: u8| -> Row {
        std::array::from_fn(|level| mix(u64::from(input * 3 + output), level as u64) % spread)
    };
    Lanes::new(levels, Mapping::new(topology, 3, kind, row), vls)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    // The SLs and SLtoVLMappingTables of operators.
    #[test]
    fn any_levels_and_lanes_close_no_loop_where_links_close_none(
        plan in random::any_fabric(),
        (vls, kind) in (1u8..9, 0u8..3),
        seed in any::<u64>(),
    ) {
        let topology = plan.build();
        let options = Options::default();
        let tables = route(EngineKind::UpDn, &topology, &options, None).unwrap().tables;
        prop_assert!(verify(&topology, &tables).credit_loop_free);
        let lanes = any_lanes(&topology, vls, vls, kind, seed >> 16);
        prop_assert!(verify_lanes(&topology, &tables, &lanes).is_sound());
    }

    #[test]
    fn lane_reports_are_those_of_packets_followed_one_at_a_time(
        plan in random::any_graph(),
        bytes in proptest::collection::vec(any::<u8>(), 0..48),
        (vls, more) in (1u8..4, 0u8..2),
        kind in 0u8..3,
        seed in any::<u64>(),
    ) {
        let topology = plan.build();
        let old = minhop(&topology);
        let mut new = old.clone();
        let lids = usize::from(topology.top_lid().0) + 1;
        for (index, &byte) in bytes.iter().enumerate() {
            let switch = index * 7 % topology.switch_count();
            new.lfts[switch].set_entry(rsm_ids::Lid((index * 13 % lids) as u16), byte % 9);
        }
        let lanes = any_lanes(&topology, vls, vls + more, kind, seed >> 16);
        let report = verify_lanes(&topology, &new, &lanes);
        let (waits, astray) = followed(&topology, &[&new], &lanes);
        prop_assert_eq!(report.outside_vls.is_some(), astray);
        prop_assert_eq!(report.cycle.is_empty(), is_acyclic(&waits));
        let on_lane = |channel: &LaneChannel| {
            let switch = topology.switch_by_guid(channel.switch).unwrap();
            (switch, channel.port, channel.vl)
        };
        for (index, held) in report.cycle.iter().enumerate() {
            let wanted = &report.cycle[(index + 1) % report.cycle.len()];
            prop_assert!(waits.contains(&(on_lane(held), on_lane(wanted))));
        }
        let (mixed, astray) = followed(&topology, &[&old, &new], &lanes);
        let is_sound = !astray && is_acyclic(&mixed);
        prop_assert_eq!(mixture_is_sound(&topology, &old, &new, &lanes), is_sound);
    }
}
