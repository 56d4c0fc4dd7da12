//! Trees whose cables have two rates, and leaves behind other leaves.

use std::collections::BTreeSet;

use crate::common;

use common::{Fabric, assert_sound_on_lanes, generated};
use rsm_ids::Guid;
use rsm_routing::engine::{EngineKind, Options, Routing, route};
use rsm_routing::quality::{Settings, flow_shares, measure};
use rsm_routing::topology::Topology;

fn routed(topology: &Topology) -> Routing {
    let routing = route(EngineKind::FabricTree, topology, &Options::default(), None).unwrap();
    assert_sound_on_lanes(topology, &routing);
    routing
}

/// A packet alone on a cable of half the rate counts as two.
#[test]
fn on_a_full_tree_of_two_rates_packets_of_a_shift_have_cables_to_themselves() {
    let topology = generated("pgft:2;18,18;1,18;1,1,slow=40");
    let routing = routed(&topology);
    let quality = measure(&topology, &routing.tables, &Settings::default());
    assert_eq!((quality.shift.max, quality.shift.mean), (2, 2.0));
    // By the rates of cables a flow would get .63 of the fastest.
    let shares = flow_shares(&topology, &routing.tables, 1);
    assert!(shares.shift > 0.69, "{shares:?}");
}

/// Four leaves under two spines; a switch with hosts behind one of them, and one behind another
/// switch that is behind two of them.
#[test]
fn leaves_behind_leaves_rank_below_them_and_need_no_detours() {
    let mut fabric = Fabric::new();
    let (spines, leaves) = (fabric.switches(2), fabric.switches(4));
    for &leaf in &leaves {
        fabric.hosts(leaf, 16);
        for &spine in &spines {
            for _ in 0..8 {
                fabric.link(leaf, spine);
            }
        }
    }
    let [alone, near, far] = [27, 6, 26].map(|hosts| {
        let switch = fabric.switch();
        fabric.hosts(switch, hosts);
        switch
    });
    fabric.link(leaves[0], alone);
    for &leaf in &leaves[2..] {
        fabric.link(leaf, near);
    }
    for _ in 0..2 {
        fabric.link(near, far);
    }
    let topology = fabric.build();
    let routing = routed(&topology);
    let ranks = routing.ranks.as_ref().unwrap();
    let rank = |switch: usize| {
        let guid = Guid(0x1000 + switch as u64);
        ranks[topology.switch_by_guid(guid).unwrap().index()]
    };
    assert_eq!(
        spines.iter().map(|&spine| rank(spine)).collect::<Vec<_>>(),
        [0, 0]
    );
    assert_eq!(
        leaves.iter().map(|&leaf| rank(leaf)).collect::<Vec<_>>(),
        [1; 4]
    );
    assert_eq!([alone, near, far].map(rank), [2, 2, 3]);
    // Hosts of one leaf send to those of another over cables of their own.
    let host = |switch: usize, number: usize| {
        let guid = Guid(0x1000 + switch as u64);
        let destinations = topology.destinations_of(topology.switch_by_guid(guid).unwrap());
        destinations
            .iter()
            .filter(|end| end.kind.is_host())
            .nth(number)
            .unwrap()
            .lid
    };
    let from = topology
        .switch_by_guid(Guid(0x1000 + leaves[2] as u64))
        .unwrap();
    let ports: BTreeSet<u8> = (0..16)
        .map(|number| routing.tables.lft(from).entry(host(leaves[1], number)))
        .collect();
    assert!(ports.len() >= 12, "{ports:?}");
}
