//! Hosts with several LIDs (LMC): the LIDs of a host have paths of their own, and links are
//! relieved for each of them.

use std::collections::BTreeSet;

use crate::common;
use crate::rebalance::rebalanced;

use common::pgft;
use proptest::prelude::*;
use rsm_ids::{Lid, Lmc};
use rsm_routing::engine::{EngineKind, Options, Ranking, Routing, route};
use rsm_routing::generate::{fail, generate};
use rsm_routing::tables::Tables;
use rsm_routing::topology::{Destination, SwitchIdx, Topology};
use rsm_routing::verify::verify;

fn routed(kind: EngineKind, topology: &Topology, earlier: Option<&Ranking>) -> Routing {
    let options = Options {
        previous_ranking: earlier.cloned(),
        ..Options::default()
    };
    route(kind, topology, &options, None).unwrap()
}

fn hosts(topology: &Topology) -> impl Iterator<Item = &Destination> {
    let all = topology.destinations().iter();
    all.filter(|found| found.kind.is_host())
}

fn leaves(topology: &Topology) -> impl Iterator<Item = SwitchIdx> {
    topology.indices().filter(|&leaf| topology.hosts(leaf) > 0)
}

/// The switches and output ports of packets from a switch to a LID.
fn path(topology: &Topology, tables: &Tables, from: SwitchIdx, to: &Destination, lid: Lid) -> Path {
    let mut path = Path::new();
    let mut at = from;
    while at != to.switch {
        let port = tables.lft(at).port(lid).expect("every LID is reached");
        path.push((at, port.0));
        at = topology.peer(at, port).expect("a switch is there").0;
    }
    path
}

type Path = Vec<(SwitchIdx, u8)>;

/// The number of different paths from a switch to the LIDs of a host.
fn distinct(topology: &Topology, tables: &Tables, from: SwitchIdx, to: &Destination) -> usize {
    let paths = to
        .own_lids()
        .map(|lid| path(topology, tables, from, to, lid));
    paths.collect::<BTreeSet<Path>>().len()
}

/// The paths of all pairs of hosts on the fullest link, if packets go to the LIDs at `offset` from
/// the base LIDs.
fn fullest(topology: &Topology, tables: &Tables, offset: u16) -> u64 {
    let mut load = std::collections::BTreeMap::<(SwitchIdx, u8), u64>::new();
    for to in hosts(topology) {
        for from in leaves(topology) {
            for step in path(topology, tables, from, to, Lid(to.lid.0 + offset)) {
                *load.entry(step).or_default() += topology.hosts(from) as u64;
            }
        }
    }
    load.into_values().max().unwrap_or(0)
}

/// A generated fabric with faults, whose hosts have 2^`lmc` LIDs, without and with the faults.
fn damaged(spec: &str, faults: &str, lmc: u8) -> (Topology, Topology) {
    let netlist = generate(spec).unwrap();
    let broken = fail(netlist.clone(), faults).unwrap();
    let topology_of = |netlist| {
        let topology = Topology::from_netlist(netlist).unwrap();
        with_lmc(&topology, lmc)
    };
    (topology_of(&netlist), topology_of(&broken))
}

/// A topology whose hosts have 2^`lmc` LIDs, in the order of their LIDs.
fn with_lmc(topology: &Topology, lmc: u8) -> Topology {
    let lmc = Lmc::new(lmc).unwrap();
    let lids = |end: &Destination| {
        let end_lmc = if end.kind.is_host() { lmc } else { Lmc::ZERO };
        (Lid(end.lid.0 * lmc.lids()), end_lmc)
    };
    common::rebuilt_with(topology, |_| true, lids)
}

/// The number of paths from a leaf to another one of a tree without parallel cables, whose switches
/// of level `i` have `up[i]` cables up, where the two meet `levels` above the leaves.
fn path_count(up: &[usize], levels: usize) -> usize {
    up[..levels].iter().product()
}

#[test]
fn eight_lids_have_eight_paths_where_sixteen_exist() {
    // Eight pods with four leaves and four switches above them each: fat-tree:k=8,levels=3.
    let topology = pgft(&[4, 4, 8], &[1, 4, 4], &[1, 1, 1], 3);
    for kind in [EngineKind::FabricTree, EngineKind::UpDn, EngineKind::MinHop] {
        let tables = routed(kind, &topology, None).tables;
        assert!(verify(&topology, &tables).loop_free);
        for host in hosts(&topology) {
            for leaf in leaves(&topology).filter(|&leaf| leaf != host.switch) {
                // Leaves are numbered pod by pod.
                let is_same_pod = leaf.0 / 4 == host.switch.0 / 4;
                let expected = if is_same_pod { 4 } else { 8 };
                let found = distinct(&topology, &tables, leaf, host);
                assert_eq!(found, expected, "{kind:?}: {leaf:?} to {host:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn lids_use_as_many_paths_as_exist(
        below in proptest::collection::vec(2usize..4, 2..4),
        above in proptest::collection::vec(1usize..6, 3),
        lmc in 0u8..6,
    ) {
        let levels = below.len();
        let up = &above[1..levels];
        let above = [&[1], up].concat();
        let topology = pgft(&below, &above, &vec![1; levels], lmc);
        for kind in [EngineKind::FabricTree, EngineKind::UpDn] {
            let tables = routed(kind, &topology, None).tables;
            for host in hosts(&topology) {
                for leaf in leaves(&topology).filter(|&leaf| leaf != host.switch) {
                    let meets = path(&topology, &tables, leaf, host, host.lid).len() / 2;
                    let expected = path_count(up, meets).min(1 << lmc);
                    let found = distinct(&topology, &tables, leaf, host);
                    prop_assert_eq!(found, expected, "{:?}: {:?} to {:?}", kind, leaf, host);
                }
            }
        }
    }
}

/// For each offset from the base LID, the paths on the fullest link.
fn loads(topology: &Topology, tables: &Tables) -> Vec<u64> {
    let lids = hosts(topology).map(|host| host.lmc.lids()).max();
    let offsets = 0..lids.unwrap_or(0);
    offsets
        .map(|offset| fullest(topology, tables, offset))
        .collect()
}

/// The number of different paths of a pair of a switch and a host, on average.
fn mean_distinct(topology: &Topology, tables: &Tables) -> f64 {
    let (mut paths, mut pairs) = (0, 0);
    for host in hosts(topology) {
        for leaf in leaves(topology).filter(|&leaf| leaf != host.switch) {
            paths += distinct(topology, tables, leaf, host);
            pairs += 1;
        }
    }
    paths as f64 / f64::from(pairs)
}

/// Checks that no LID has a fullest link with more than a tenth above that of the base LIDs.
fn assert_level(loads: &[u64]) {
    let most = loads.iter().max().unwrap();
    assert!(most * 10 <= loads[0] * 11, "{loads:?}");
}

#[test]
fn a_start_without_some_cables_relieves_links_for_each_lid() {
    for (spec, faults, least) in [
        ("fat-tree:k=8,levels=3", "links=5%,seed=1", 6.5),
        ("fat-tree:k=8,levels=3", "links=2%,seed=1", 7.0),
        ("pgft:2;18,24;1,6;1,2", "links=5%,seed=1", 6.5),
        ("pgft:2;18,24;1,12;1,1,uneven=60", "links=3%,seed=1", 7.0),
    ] {
        let (_, topology) = damaged(spec, faults, 3);
        let started = routed(EngineKind::FabricTree, &topology, None);
        let tables = rebalanced(&topology, started, usize::MAX).0.tables;
        let (found, paths) = (loads(&topology, &tables), mean_distinct(&topology, &tables));
        assert_level(&found);
        assert!(paths >= least, "{spec}: {paths} different paths");
    }
}

#[test]
fn rebalancing_relieves_links_for_each_lid_and_a_repair_restores_all_entries() {
    for (spec, faults) in [
        ("fat-tree:k=8,levels=3", "links=5%,seed=1"),
        ("fat-tree:k=8,levels=3", "links=2%,seed=1"),
        ("pgft:2;18,24;1,6;1,2", "links=5%,seed=1"),
    ] {
        let (whole, broken) = damaged(spec, faults, 3);
        let first = routed(EngineKind::FabricTree, &whole, None);
        let repaired = routed(EngineKind::FabricTree, &broken, first.ranking.as_ref());
        let before = loads(&broken, &repaired.tables);
        let paths_before = mean_distinct(&broken, &repaired.tables);
        let (after, _) = rebalanced(&broken, repaired, 64);
        let found = loads(&broken, &after.tables);
        let paths = mean_distinct(&broken, &after.tables);
        assert_level(&found);
        assert!(found.iter().sum::<u64>() < before.iter().sum());
        assert!(paths > paths_before * 0.95, "{paths} of {paths_before}");
        let back = routed(EngineKind::FabricTree, &whole, after.ranking.as_ref());
        assert_eq!(back.tables, first.tables);
    }
}
