//! Phases and passes against packets that are followed one at a time.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rsm_ids::{Lid, PortNum};

use super::patterns::{bandwidths, permutation};
use super::permutations::{Load, Permutations};
use super::*;
use crate::engine::{EngineKind, Options, route};
use crate::generate::generate;
use crate::generate::rng::Rng;
use crate::tables::NO_PATH;
use crate::topology::PortUse;

const FABRICS: [&str; 6] = [
    "pgft:3;3,3,4;1,3,2;1,1,2",
    "pgft:3;3,3,4;1,3,2;1,1,2,faults=links:10%,seed=5",
    "torus:3x4",
    "dragonfly+:groups=3,leaves=2,spines=2,hosts=3,links=2",
    "random:switches=12,degree=4,hosts=5,seed=2",
    // More leaves than a word has bits.
    "ring:70,hosts=2",
];

/// A fabric, and tables of which `wrong` entries are at random.
fn fabric(spec: &str, wrong: usize, seed: u64) -> (Topology, Tables) {
    let topology = Topology::from_netlist(&generate(spec).unwrap()).unwrap();
    let routing = route(EngineKind::MinHop, &topology, &Options::default(), None);
    let mut tables = routing.unwrap().tables;
    let mut rng = Rng::new(seed);
    for _ in 0..wrong {
        let lid = Lid(rng.below(topology.top_lid().index() + 1) as u16);
        let byte = if rng.below(4) == 0 {
            NO_PATH
        } else {
            rng.below(9) as u8
        };
        tables.lfts[rng.below(topology.switch_count())].set_entry(lid, byte);
    }
    (topology, tables)
}

/// The links that packets pass, or `None` where they do not arrive.
fn way(
    topology: &Topology,
    tables: &Tables,
    from: &Destination,
    to: &Destination,
) -> Option<Vec<(SwitchIdx, PortNum)>> {
    let (mut at, mut links) = (from.switch, Vec::new());
    while at != to.switch {
        let port = PortNum(tables.lft(at).entry(to.lid));
        links.push((at, port));
        match topology.port_use(at, port) {
            PortUse::Link { peer, .. } if links.len() <= topology.switch_count() => at = peer,
            _ => return None,
        }
    }
    (tables.lft(at).entry(to.lid) == to.port.0).then_some(links)
}

/// Runs `check` with what all phases have in common.
fn with_carrier(topology: &Topology, tables: &Tables, check: impl FnOnce(&Carrier<'_>)) {
    let fabric = Fabric::new(topology);
    let rows = carry::rows(&fabric, tables);
    let hosts = Hosts::of(topology);
    let uses = Uses::of(&fabric, tables, &hosts);
    check(&Carrier {
        fabric: &fabric,
        tables,
        rows: &rows,
        hosts: &hosts,
        uses: &uses,
    });
}

/// The fullest link of a phase, and by flow the fullest one on its way; 1 for a flow without links,
/// `None` for one that does not arrive.
fn followed(
    topology: &Topology,
    tables: &Tables,
    pairs: &[(usize, usize)],
) -> (u32, Vec<Option<u32>>) {
    let hosts: Vec<&Destination> = topological_order(topology).collect();
    let ways: Vec<_> = pairs
        .iter()
        .map(|&(from, to)| way(topology, tables, hosts[from], hosts[to]))
        .collect();
    let mut load = BTreeMap::<_, u32>::new();
    for link in ways.iter().flatten().flatten() {
        *load.entry(*link).or_default() += 1;
    }
    let fullest = |links: &Vec<_>| links.iter().map(|link| load[link]).max().unwrap_or(1);
    let of_flows = ways.iter().map(|way| way.as_ref().map(fullest)).collect();
    (load.values().copied().max().unwrap_or(0), of_flows)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn phases_together_load_links_as_flows_one_at_a_time(
        spec in prop::sample::select(&FABRICS[..]),
        wrong in 0usize..40,
        seed in any::<u64>(),
        phases in 1u64..70,
    ) {
        let (topology, tables) = fabric(spec, wrong, seed);
        let count = topological_order(&topology).count();
        let seeds: Vec<u64> = (0..phases).map(|phase| seed.wrapping_add(phase)).collect();
        with_carrier(&topology, &tables, |carrier| {
            let mut permutations = Permutations::new(carrier, seeds.len());
            for (phase, &seed) in seeds.iter().enumerate() {
                permutations.add(phase, permutation(count, seed).into_iter().enumerate());
            }
            let mut load = Load::new(carrier);
            for (&seed, flows) in seeds.iter().zip(permutations.follow()) {
                load.set(&flows);
                let pairs: Vec<_> = permutation(count, seed).into_iter().enumerate().collect();
                let expected = followed(&topology, &tables, &pairs).0;
                assert_eq!(load.fullest(), expected, "phase of seed {seed}");
                let mut alone = carry::Phase::new(carrier);
                alone.add(pairs);
                assert_eq!(alone.fullest(), expected, "pair by pair, seed {seed}");
            }
        });
    }

    #[test]
    fn bandwidth_of_a_bisection_is_that_of_flows_one_at_a_time(
        spec in prop::sample::select(&FABRICS[..]),
        wrong in 0usize..40,
        seed in any::<u64>(),
    ) {
        let (topology, tables) = fabric(spec, wrong, seed);
        let count = topological_order(&topology).count();
        let order = permutation(count, seed);
        let (first, second) = (&order[..count / 2], &order[count / 2..]);
        let there: Vec<_> = first.iter().copied().zip(second.iter().copied()).collect();
        let back = there.iter().map(|&(from, to)| (to, from));
        let pairs: Vec<_> = there.iter().copied().chain(back).collect();
        let shares = followed(&topology, &tables, &pairs).1;
        let sum: f64 = shares.iter().map(|flows| flows.map_or(0.0, |n| 1.0 / f64::from(n))).sum();
        with_carrier(&topology, &tables, |carrier| {
            let bandwidths = bandwidths(carrier, &[seed, seed.wrapping_add(1)]);
            assert_eq!(bandwidths[0], sum / pairs.len() as f64);
        });
    }

    #[test]
    fn the_number_of_passes_does_not_change_uses(
        spec in prop::sample::select(&FABRICS[..]),
        wrong in 0usize..40,
        seed in any::<u64>(),
        bytes in 1usize..3000,
    ) {
        let (topology, tables) = fabric(spec, wrong, seed);
        let (fabric, hosts) = (Fabric::new(&topology), Hosts::of(&topology));
        let one = Uses::of(&fabric, &tables, &hosts);
        let several = Uses::in_passes(&fabric, &tables, &hosts, bytes);
        prop_assert_eq!(name_links(&fabric, &one), name_links(&fabric, &several));
        prop_assert_eq!(one.lost_pairs, several.lost_pairs);
        prop_assert_eq!(one.lost, several.lost);
    }

    #[test]
    fn hosts_that_cross_a_link_are_those_that_its_use_counts(
        spec in prop::sample::select(&FABRICS[..]),
        wrong in 0usize..40,
        seed in any::<u64>(),
    ) {
        let (topology, tables) = fabric(spec, wrong, seed);
        for link in link_uses(&topology, &tables) {
            let switch = topology.switch_by_guid(link.switch).unwrap();
            let hosts = crossing(&topology, &tables, switch, link.port);
            let sum: u64 = hosts.iter().map(|host| host.sends).sum();
            prop_assert_eq!(sum, link.paths);
            prop_assert_eq!(sum, hosts.iter().map(|host| host.receives).sum::<u64>());
            let count = |share: fn(&CrossingHost) -> u64| {
                hosts.iter().filter(|host| share(host) > 0).count()
            };
            prop_assert_eq!(count(|host| host.sends), link.sources as usize);
            prop_assert_eq!(count(|host| host.receives), link.destinations as usize);
        }
    }

    #[test]
    fn the_cable_of_a_host_has_all_of_its_paths(
        spec in prop::sample::select(&FABRICS[..]),
        wrong in 0usize..40,
        seed in any::<u64>(),
    ) {
        let (topology, tables) = fabric(spec, wrong, seed);
        let all: Vec<&Destination> = topology.destinations().iter().collect();
        let hosts = || (0..all.len()).filter(|&at| all[at].kind.is_host());
        let arrives = |from: usize, to: usize| {
            from != to && way(&topology, &tables, all[from], all[to]).is_some()
        };
        for own in hosts() {
            let there = crossing(&topology, &tables, all[own].switch, all[own].port);
            let back = crossing_from(&topology, &tables, own);
            for other in hosts() {
                let of = |found: &[CrossingHost]| {
                    let share = found.iter().find(|host| host.destination == other);
                    share.map_or((0, 0), |host| (host.sends, host.receives))
                };
                if other == own {
                    let (to, from) = (
                        hosts().filter(|&other| arrives(other, own)).count() as u64,
                        hosts().filter(|&other| arrives(own, other)).count() as u64,
                    );
                    prop_assert_eq!((of(&there), of(&back)), ((0, to), (from, 0)));
                } else {
                    let (to, from) = (arrives(other, own), arrives(own, other));
                    let expected = ((u64::from(to), 0), (0, u64::from(from)));
                    prop_assert_eq!((of(&there), of(&back)), expected);
                }
            }
        }
    }
}
