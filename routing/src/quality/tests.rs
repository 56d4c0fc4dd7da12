//! Compares the measures with the results of following one packet at a time.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rsm_ids::{Lid, PortNum};

use super::carry::with_carrier;
use super::patterns::{bandwidths, permutation};
use super::permutations::{Load, Permutations};
use super::*;
use crate::engine::{EngineKind, Options, route};
use crate::generate::generate;
use crate::generate::rng::Rng;
use crate::tables::NO_PATH;
use crate::topology::PortUse;

/// The fabrics of the tests, fabrics with one cable rate first.
const FABRICS: [&str; 8] = [
    "pgft:3;3,3,4;1,3,2;1,1,2",
    "pgft:3;3,3,4;1,3,2;1,1,2,faults=links:10%,seed=5",
    "torus:3x4",
    "dragonfly+:groups=3,leaves=2,spines=2,hosts=3,links=2",
    "random:switches=12,degree=4,hosts=5,seed=2",
    // This fabric has more leaves than a word has bits.
    "ring:70,hosts=2",
    // This fabric has cables of several rates.
    "pgft:2;4,6;1,4;1,1,slow=50",
    "pgft:2;4,6;1,4;1,2,narrow=3",
];

/// Fabrics in which all cables have one rate.
fn fabrics_of_one_rate() -> &'static [&'static str] {
    &FABRICS[..6]
}

/// A fabric, and its tables with `wrong` entries replaced by random ports.
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

/// The links of the path between two destinations, each as its sending switch and port; `None` if
/// packets do not arrive.
fn path(
    topology: &Topology,
    tables: &Tables,
    from: &Destination,
    to: &Destination,
) -> Option<Vec<(SwitchIdx, PortNum)>> {
    let (mut current, mut links) = (from.switch, Vec::new());
    while current != to.switch {
        let port = PortNum(tables.lft(current).entry(to.lid));
        links.push((current, port));
        match topology.port_use(current, port) {
            PortUse::Link { peer, .. } if links.len() <= topology.switch_count() => current = peer,
            _ => return None,
        }
    }
    (tables.lft(current).entry(to.lid) == to.port.0).then_some(links)
}

/// The load of the fullest link in a phase, and for each flow the load of the fullest link on its
/// path. Loads are relative to the link's rate; the load is 1 for a flow without links, and `None`
/// for a flow that does not arrive.
fn phase_loads(
    topology: &Topology,
    tables: &Tables,
    pairs: &[(usize, usize)],
) -> (f64, Vec<Option<f64>>) {
    let hosts: Vec<&Destination> = topological_order(topology).collect();
    let paths: Vec<_> = pairs
        .iter()
        .map(|&(from, to)| path(topology, tables, hosts[from], hosts[to]))
        .collect();
    let rates: BTreeMap<(Guid, PortNum), u32> = link_uses(topology, tables)
        .iter()
        .map(|link| ((link.switch, link.port), link.rate))
        .collect();
    let fastest = rates.values().copied().max().unwrap_or(1);
    let mut load = BTreeMap::<(SwitchIdx, PortNum), f64>::new();
    for &(switch, port) in paths.iter().flatten().flatten() {
        let rate = rates[&(topology.switch(switch).guid, port)];
        *load.entry((switch, port)).or_default() += f64::from(fastest) / f64::from(rate);
    }
    let fullest = |links: &Vec<(SwitchIdx, PortNum)>| {
        let loads = links.iter().map(|link| load[link]);
        loads.reduce(f64::max).unwrap_or(1.0)
    };
    let flow_loads = paths
        .iter()
        .map(|path| path.as_ref().map(fullest))
        .collect();
    (load.values().copied().fold(0.0, f64::max), flow_loads)
}

#[test]
fn fabric_with_equally_slow_cables_has_the_same_measures() {
    let even = Topology::from_netlist(&generate("pgft:2;4,4;1,2;1,1").unwrap()).unwrap();
    let slow = Topology::from_netlist(&generate("pgft:2;4,4;1,2;1,1,slow=100").unwrap()).unwrap();
    let routing = route(EngineKind::FabricTree, &even, &Options::default(), None).unwrap();
    let settings = Settings::default();
    let [on_even, on_slow] =
        [&even, &slow].map(|topology| measure(topology, &routing.tables, &settings));
    // All cables of a fabric have one rate, so no cable is slower than the fastest.
    assert_eq!(on_even.shift, on_slow.shift);
    assert_eq!(on_even.bisection, on_slow.bisection);
    assert_eq!(on_even.paths, on_slow.paths);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn loads_on_links_of_one_rate_are_numbers_of_flows(
        spec in prop::sample::select(fabrics_of_one_rate()),
        wrong in 0usize..40,
        seed in any::<u64>(),
    ) {
        let (topology, tables) = fabric(spec, wrong, seed);
        prop_assert!(carry::slowness(&Fabric::new(&topology)).is_none());
        let quality = measure(&topology, &tables, &Settings { seed, ..Settings::default() });
        let hosts: Vec<&Destination> = topological_order(&topology).collect();
        let fullest = |distance: usize| {
            let mut load = BTreeMap::<_, u32>::new();
            for (from, to) in patterns::shift(hosts.len(), distance) {
                let links = path(&topology, &tables, hosts[from], hosts[to]);
                links.iter().flatten().for_each(|link| *load.entry(*link).or_default() += 1);
            }
            load.values().copied().max().unwrap_or(0)
        };
        let shifts: Vec<u32> = (1..hosts.len()).map(fullest).collect();
        prop_assert_eq!(quality.shift.max, shifts.iter().copied().max().unwrap_or(0));
        let sum: u64 = shifts.iter().copied().map(u64::from).sum();
        prop_assert_eq!(quality.shift.mean, sum as f64 / shifts.len() as f64);
        prop_assert_eq!(quality.paths.rate_max, quality.paths.max as f64);
        let uses = link_uses(&topology, &tables);
        let risk = uses.iter().map(|link| link.sources.min(link.destinations));
        prop_assert_eq!(quality.all_to_all, risk.max().unwrap_or(0));
    }

    #[test]
    fn phases_measured_together_equal_flows_one_at_a_time(
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
                let expected = phase_loads(&topology, &tables, &pairs).0;
                assert_eq!(load.fullest(), expected, "phase of seed {seed}");
                let mut alone = carry::Phase::new(carrier);
                alone.add(pairs);
                assert_eq!(alone.fullest(), expected, "pair by pair, seed {seed}");
            }
        });
    }

    #[test]
    fn bisection_bandwidth_equals_mean_share_of_flows_one_at_a_time(
        spec in prop::sample::select(&FABRICS[..]),
        wrong in 0usize..40,
        seed in any::<u64>(),
    ) {
        let (topology, tables) = fabric(spec, wrong, seed);
        let count = topological_order(&topology).count();
        let order = permutation(count, seed);
        let (first_half, second_half) = (&order[..count / 2], &order[count / 2..]);
        let forward: Vec<_> =
            first_half.iter().copied().zip(second_half.iter().copied()).collect();
        let backward = forward.iter().map(|&(from, to)| (to, from));
        let pairs: Vec<_> = forward.iter().copied().chain(backward).collect();
        let flow_loads = phase_loads(&topology, &tables, &pairs).1;
        let sum: f64 = flow_loads.iter().map(|load| load.map_or(0.0, |load| 1.0 / load)).sum();
        with_carrier(&topology, &tables, |carrier| {
            let bandwidths = bandwidths(carrier, &[seed, seed.wrapping_add(1)]);
            assert_eq!(bandwidths[0], sum / pairs.len() as f64);
        });
    }

    #[test]
    fn flow_shares_equal_mean_shares_of_flows_one_at_a_time(
        spec in prop::sample::select(&FABRICS[..]),
        wrong in 0usize..40,
        seed in any::<u64>(),
    ) {
        // A ring of 70 leaves has 4,830 pairs of leaves, which would take too long.
        prop_assume!(!spec.starts_with("ring"));
        let (topology, tables) = fabric(spec, wrong, seed);
        let hosts: Vec<&Destination> = topological_order(&topology).collect();
        let mean = |phases: &[Vec<(usize, usize)>]| {
            let loads = |pairs: &Vec<(usize, usize)>| phase_loads(&topology, &tables, pairs).1;
            let flows: Vec<Option<f64>> = phases.iter().flat_map(loads).collect();
            let share = |load: &Option<f64>| load.map_or(0.0, |load| 1.0 / load);
            flows.iter().map(share).sum::<f64>() / flows.len() as f64
        };
        let distances = 1..hosts.len();
        let shift = |distance: usize| patterns::shift(hosts.len(), distance).collect::<Vec<_>>();
        let shifts: Vec<Vec<(usize, usize)>> = distances.map(shift).collect();
        let mut leaves: Vec<Vec<usize>> = Vec::new();
        for (index, host) in hosts.iter().enumerate() {
            match leaves.last_mut() {
                Some(leaf) if hosts[leaf[0]].switch == host.switch => leaf.push(index),
                _ => leaves.push(vec![index]),
            }
        }
        let pairs = leaves
            .iter()
            .flat_map(|from| leaves.iter().map(move |to| (from, to)))
            .filter(|(from, to)| from != to);
        let host_pairs = |(from, to): (&Vec<usize>, &Vec<usize>)| {
            from.iter().copied().zip(to.iter().copied()).collect::<Vec<_>>()
        };
        let pairs: Vec<Vec<(usize, usize)>> = pairs.map(host_pairs).collect();
        let shares = flow_shares(&topology, &tables, seed);
        let is_near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        prop_assert!(is_near(shares.shift, mean(&shifts)), "{:?}", shares);
        prop_assert!(is_near(shares.leaf_pairs, mean(&pairs)), "{:?}", shares);
    }

    #[test]
    fn uses_in_several_passes_equal_uses_in_one_pass(
        spec in prop::sample::select(&FABRICS[..]),
        wrong in 0usize..40,
        seed in any::<u64>(),
        bytes in 1usize..3000,
    ) {
        let (topology, tables) = fabric(spec, wrong, seed);
        let (fabric, hosts) = (Fabric::new(&topology), Hosts::of(&topology));
        let in_one_pass = Uses::of(&fabric, &tables, &hosts);
        let in_passes = Uses::in_passes(&fabric, &tables, &hosts, bytes);
        prop_assert_eq!(name_links(&fabric, &in_one_pass), name_links(&fabric, &in_passes));
        prop_assert_eq!(in_one_pass.lost_pairs, in_passes.lost_pairs);
        prop_assert_eq!(in_one_pass.lost, in_passes.lost);
    }

    #[test]
    fn counts_of_crossing_hosts_add_up_to_the_use_of_a_link(
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
    fn crossing_counts_all_paths_at_the_cable_of_a_host(
        spec in prop::sample::select(&FABRICS[..]),
        wrong in 0usize..40,
        seed in any::<u64>(),
    ) {
        let (topology, tables) = fabric(spec, wrong, seed);
        let all: Vec<&Destination> = topology.destinations().iter().collect();
        let hosts = || (0..all.len()).filter(|&index| all[index].kind.is_host());
        let arrives = |from: usize, to: usize| {
            from != to && path(&topology, &tables, all[from], all[to]).is_some()
        };
        for host in hosts() {
            let to_host = crossing(&topology, &tables, all[host].switch, all[host].port);
            let from_host = crossing_from(&topology, &tables, host);
            for other in hosts() {
                let counts = |crossing: &[CrossingHost]| {
                    let share = crossing.iter().find(|it| it.destination == other);
                    share.map_or((0, 0), |it| (it.sends, it.receives))
                };
                if other == host {
                    let (to, from) = (
                        hosts().filter(|&other| arrives(other, host)).count() as u64,
                        hosts().filter(|&other| arrives(host, other)).count() as u64,
                    );
                    prop_assert_eq!((counts(&to_host), counts(&from_host)), ((0, to), (from, 0)));
                } else {
                    let (to, from) = (arrives(other, host), arrives(host, other));
                    let expected = ((u64::from(to), 0), (0, u64::from(from)));
                    prop_assert_eq!((counts(&to_host), counts(&from_host)), expected);
                }
            }
        }
    }
}
