//! Hosts on switches above the leaves: all other switches keep their ranks.

use std::collections::BTreeMap;

use crate::common;

use common::{assert_sound_on_lanes, pgft, with_host};
use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::engine::{EngineKind, Options, Routing, route};
use rsm_routing::quality::{Settings, measure};
use rsm_routing::topology::Topology;

const ENGINES: [EngineKind; 2] = [EngineKind::FabricTree, EngineKind::UpDn];

/// Pods of seven leaves with 20 hosts each under ten middle switches, with two cables each; every
/// middle switch is under `tops` switches of its own, with `cables` to each.
fn pods(count: usize, tops: usize, cables: usize) -> Topology {
    pgft(&[20, 7, count], &[1, 10, tops], &[1, 2, cables], 0)
}

fn routed(engine: EngineKind, topology: &Topology) -> Routing {
    route(engine, topology, &Options::default(), None).unwrap()
}

fn ranks(topology: &Topology, routing: &Routing) -> BTreeMap<Guid, u8> {
    let ranks = routing.ranks.as_ref().unwrap();
    let guids = topology.switches().iter().map(|switch| switch.guid);
    guids.zip(ranks.iter().copied()).collect()
}

/// The topology with hosts at one of its switches.
fn with_hosts(topology: &Topology, switch: Guid, hosts: u8) -> Topology {
    (0..hosts).fold(topology.clone(), |grown, number| {
        let at = (switch, PortNum(200 + number));
        let guid = Guid(0x2_0000_0000 + u64::from(number));
        with_host(&grown, at, guid, Lid(grown.top_lid().0 + 1))
    })
}

/// The GUID of a switch of a rank of a tree of three.
fn of_rank(topology: &Topology, routing: &Routing, rank: u8) -> Guid {
    let mut ranks = ranks(topology, routing).into_iter();
    ranks.find(|(_, found)| *found == rank).unwrap().0
}

/// Checks that hosts on a switch of `rank` leave the ranks of all other switches.
fn assert_others_keep_ranks(engine: EngineKind, whole: &Topology, rank: u8, hosts: u8) {
    let plain = routed(engine, whole);
    let switch = of_rank(whole, &plain, rank);
    let topology = with_hosts(whole, switch, hosts);
    let mut found = ranks(&topology, &routed(engine, &topology));
    let mut expected = ranks(whole, &plain);
    found.remove(&switch);
    expected.remove(&switch);
    assert!(
        found == expected,
        "{engine}: {hosts} hosts on a switch of rank {rank} of {} switches",
        whole.switch_count()
    );
}

#[test]
fn five_hosts_on_a_middle_switch_of_eight_pods_turn_no_pod_upside_down() {
    let whole = pods(8, 2, 1);
    assert_others_keep_ranks(EngineKind::FabricTree, &whole, 1, 5);
}

/// Planes with a single top are not among these: hosts on a middle switch there give its top a rank
/// of its own, below a switch that joins all planes.
#[test]
fn hosts_on_middle_switches_and_tops_keep_the_ranks_of_other_switches() {
    for pod_count in [4, 5, 6, 8, 9, 12] {
        let whole = pods(pod_count, 2 + pod_count % 3, 1 + pod_count % 2);
        for hosts in 1..=6 {
            for rank in [0, 1] {
                let engine = ENGINES[usize::from(hosts + rank) % ENGINES.len()];
                assert_others_keep_ranks(engine, &whole, rank, hosts);
            }
        }
    }
}

#[test]
fn five_hosts_on_a_middle_switch_cost_shifts_no_more_than_their_own_links() {
    let whole = pods(8, 2, 1);
    let plain = routed(EngineKind::FabricTree, &whole);
    let topology = with_hosts(&whole, of_rank(&whole, &plain, 1), 5);
    let routing = routed(EngineKind::FabricTree, &topology);
    assert_sound_on_lanes(&topology, &routing);
    let quality = measure(&topology, &routing.tables, &Settings::default());
    // 6.2 without these hosts, 12.1 with their pod upside down.
    let mean = quality.shift.mean;
    assert!(mean <= 10.5, "{mean}: {}", routing.reason);
}
