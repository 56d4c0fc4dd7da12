//! The promises of `fabric-tree` beside soundness: balance in closed form, least change, and no
//! memory of repaired faults.

use crate::common;
use crate::random;

use std::collections::BTreeMap;

use common::{Fabric, carries_nothing, followed, pgft, without_switches};
use proptest::prelude::*;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::engine::{Category, EngineKind, Options, Ranking, Routing, route};
use rsm_routing::generate::generate;
use rsm_routing::mcast::Orientation;
use rsm_routing::quality::{Settings, measure};
use rsm_routing::tables::{NO_PATH, Tables};
use rsm_routing::topology::{EndpointKind, SwitchIdx, Topology};
use rsm_routing::verify::{Dependencies, verify};

fn routed(topology: &Topology, earlier: Option<&Ranking>) -> Routing {
    routed_as(topology, earlier, &Options::default())
}

/// Routes with the categories and numbers of `base`.
fn routed_as(topology: &Topology, earlier: Option<&Ranking>, base: &Options) -> Routing {
    let with = |ranking: Option<Ranking>| {
        let options = Options {
            previous_ranking: ranking,
            ..base.clone()
        };
        route(EngineKind::FabricTree, topology, &options, None).unwrap()
    };
    let routing = with(earlier.cloned());
    // From the results of the earlier routing, or from nothing: the same, byte for byte.
    let anew = with(earlier.cloned().map(Ranking::unprepared));
    assert_eq!(routing.tables, anew.tables);
    assert_eq!(routing.ranks, anew.ranks);
    assert_eq!(routing.ranking, anew.ranking);
    routing
}

fn assert_sound(topology: &Topology, tables: &Tables) {
    let report = verify(topology, tables);
    assert!(report.loop_free, "{:?}", report.witnesses);
    assert!(report.credit_loop_free, "{:?}", report.witnesses);
    assert_eq!(report.unreachable_pairs, 0, "{:?}", report.witnesses);
}

/// The switches and ports that a packet leaves by; `None` when it does not arrive.
fn path(
    topology: &Topology,
    tables: &Tables,
    from: SwitchIdx,
    lid: Lid,
) -> Option<Vec<(SwitchIdx, PortNum)>> {
    let destination = topology.destination_of(lid)?;
    let mut switch = from;
    let mut path = Vec::new();
    for _ in 0..=topology.switch_count() {
        let port = tables.lft(switch).port(lid)?;
        if switch == destination.switch {
            return (port == destination.port).then_some(path);
        }
        path.push((switch, port));
        switch = topology.peer(switch, port)?.0;
    }
    None
}

/// The maximum number of packets on one link between switches over all shift permutations of the
/// hosts in LID order.
fn worst_shift(topology: &Topology, tables: &Tables) -> usize {
    let mut hosts: Vec<(Lid, SwitchIdx)> = topology
        .destinations()
        .iter()
        .filter(|destination| destination.kind.is_host())
        .map(|destination| (destination.lid, destination.switch))
        .collect();
    hosts.sort_unstable();
    worst_shift_of(topology, tables, &hosts)
}

/// The load of the fullest link in the worst shift of some hosts, in the given order.
fn worst_shift_of(topology: &Topology, tables: &Tables, hosts: &[(Lid, SwitchIdx)]) -> usize {
    let mut worst = 0;
    for step in 1..hosts.len() {
        let mut load = std::collections::BTreeMap::new();
        for (place, &(_, from)) in hosts.iter().enumerate() {
            let to = hosts[(place + step) % hosts.len()].0;
            for hop in path(topology, tables, from, to).unwrap() {
                *load.entry(hop).or_insert(0) += 1;
            }
        }
        worst = worst.max(load.into_values().max().unwrap_or(0));
    }
    worst
}

fn full_trees() -> Vec<Topology> {
    vec![
        pgft(&[4, 6], &[1, 4], &[1, 1], 0),
        pgft(&[6, 4], &[1, 3], &[1, 2], 0),
        pgft(&[4, 4, 4], &[1, 4, 4], &[1, 1, 1], 0),
        pgft(&[4, 4, 4], &[1, 4, 2], &[1, 1, 2], 0),
        pgft(&[4, 2, 6], &[1, 2, 4], &[1, 2, 1], 0),
        pgft(&[3, 3, 3, 3], &[1, 3, 3, 3], &[1, 1, 1, 1], 0),
        Topology::from_netlist(&generate("fat-tree:k=8,levels=3").unwrap()).unwrap(),
    ]
}

#[test]
fn shifts_do_not_meet_on_full_trees() {
    for (number, topology) in full_trees().iter().enumerate() {
        let routing = routed(topology, None);
        assert_sound(topology, &routing.tables);
        assert_eq!(worst_shift(topology, &routing.tables), 1, "tree {number}");
    }
}

#[test]
fn several_paths_down_share_packets_to_a_leaf() {
    // Every core is cabled to every spine of a pod, so that four paths lead down to each leaf.
    let mut fabric = Fabric::new();
    let cores = fabric.switches(4);
    for _ in 0..4 {
        let (leaves, spines) = (fabric.switches(4), fabric.switches(4));
        for &leaf in &leaves {
            fabric.hosts(leaf, 4);
        }
        for &spine in &spines {
            for &other in leaves.iter().chain(&cores) {
                fabric.link(other, spine);
            }
        }
    }
    let topology = fabric.build();
    let routing = routed(&topology, None);
    assert_sound(&topology, &routing.tables);
    assert_eq!(worst_shift(&topology, &routing.tables), 1);
}

#[test]
fn where_the_closed_form_is_uneven_the_fullest_links_are_relieved() {
    let mut fabric = Fabric::new();
    let spines = fabric.switches(5);
    for (number, hosts) in [2, 11, 5, 8, 3, 9, 12, 4, 7, 10].into_iter().enumerate() {
        let leaf = fabric.switches(1)[0];
        fabric.hosts(leaf, hosts);
        for (place, &spine) in spines.iter().enumerate() {
            for _ in 0..1 + (number * place) % 3 {
                fabric.link(leaf, spine);
            }
        }
    }
    let topology = fabric.build();
    let routing = routed(&topology, None);
    assert_sound(&topology, &routing.tables);
    let quality = measure(&topology, &routing.tables, &Settings::default());
    assert!(
        routing.reason.contains("taken off the fullest links"),
        "{}",
        routing.reason
    );
    // The leaf with 12 of all 71 hosts has five links, and these carry no less under any tables.
    let least = 12 * (71 - 12) / 5;
    let fullest = quality.paths.max;
    assert!(
        fullest * 4 <= least * 5,
        "{fullest} paths on a link, at best {least}"
    );
    // Moved entries count like any other: only those that lost their path move again, and return.
    let broken = topology.without_cables(&[topology.cables()[7].a]);
    let during = routed(&broken, routing.ranking.as_ref());
    assert_sound(&broken, &during.tables);
    assert_least_change(&broken, &routing.tables, &during.tables);
    assert_eq!(
        routed(&topology, during.ranking.as_ref()).tables,
        routing.tables
    );
}

#[test]
fn two_meet_at_most_when_one_link_is_gone() {
    for (number, topology) in full_trees().iter().enumerate() {
        let before = routed(topology, None);
        let cables = topology.cables();
        for cable in cables.iter().step_by(cables.len() / 5) {
            let broken = topology.without_cables(&[cable.a]);
            let during = routed(&broken, before.ranking.as_ref());
            assert_sound(&broken, &during.tables);
            let worst = worst_shift(&broken, &during.tables);
            assert!(
                worst <= 2,
                "tree {number}: {worst} on a link; {cable:?} {}",
                during.reason
            );
        }
    }
}

/// Checks that an entry changes only where packets that follow the old tables from there would be
/// lost, and is removed only where none has to arrive.
fn assert_least_change(topology: &Topology, old: &Tables, new: &Tables) {
    for switch in topology.indices() {
        for destination in topology.destinations() {
            for lid in destination.lids() {
                let (was, is) = (old.lft(switch).entry(lid), new.lft(switch).entry(lid));
                let has_gone = is == NO_PATH && carries_nothing(topology, switch, destination);
                if was != is && !has_gone {
                    assert_eq!(path(topology, old, switch, lid), None, "{switch:?} {lid:?}");
                }
            }
        }
    }
}

/// Whether packets to `lid` from `switch` on leave by one of the ports `ends`.
fn passes(
    topology: &Topology,
    tables: &Tables,
    (mut switch, lid): (SwitchIdx, Lid),
    ends: &[(SwitchIdx, PortNum)],
) -> bool {
    for _ in 0..=topology.switch_count() {
        let Some(port) = tables.lft(switch).port(lid) else {
            return false;
        };
        if ends.contains(&(switch, port)) {
            return true;
        }
        let Some(next) = topology.peer(switch, port) else {
            return false;
        };
        switch = next.0;
    }
    false
}

#[test]
fn a_lost_link_moves_only_entries_through_it_and_its_return_restores_every_table() {
    for (number, topology) in full_trees().iter().enumerate() {
        let before = routed(topology, None);
        let cables = topology.cables();
        for cable in cables.iter().step_by(cables.len() / 5) {
            let case = format!("tree {number}, {cable:?}");
            let broken = topology.without_cables(&[cable.a]);
            let during = routed(&broken, before.ranking.as_ref());
            assert_ne!(during.tables, before.tables, "{case}");
            let ends = [cable.a, cable.b]
                .map(|(guid, port)| (topology.switch_by_guid(guid).unwrap(), port));
            for switch in topology.indices() {
                let (old, new) = (before.tables.lft(switch), during.tables.lft(switch));
                for lid in topology.destinations().iter().flat_map(|one| one.lids()) {
                    // Only a detour of other switches needs an entry where none was.
                    assert!(
                        old.entry(lid) == new.entry(lid)
                            || old.entry(lid) == NO_PATH
                            || passes(topology, &before.tables, (switch, lid), &ends),
                        "{case}: {switch:?} {lid:?}"
                    );
                }
            }
            let after = routed(topology, during.ranking.as_ref());
            assert_eq!(after.tables, before.tables, "{case}");
        }
    }
}

#[test]
fn a_dead_switch_is_bypassed_and_its_return_restores_every_table() {
    for topology in &full_trees() {
        let before = routed(topology, None);
        for gone in topology.indices().step_by(7) {
            let broken = without_switches(topology, &[gone]);
            let during = routed(&broken, before.ranking.as_ref());
            assert_sound(&broken, &during.tables);
            if topology.hosts(gone) == 0 && !during.reason.contains("while parts are missing") {
                let old = Tables {
                    lfts: topology
                        .indices()
                        .filter(|&switch| switch != gone)
                        .map(|switch| before.tables.lft(switch).clone())
                        .collect(),
                };
                assert_least_change(&broken, &old, &during.tables);
            }
            let after = routed(topology, during.ranking.as_ref());
            assert_eq!(after.tables, before.tables);
        }
    }
}

#[test]
fn a_leaf_that_lacks_hosts_when_first_seen_is_numbered_as_if_it_had_them() {
    let topology = pgft(&[8, 6], &[1, 8], &[1, 1], 0);
    let full = routed(&topology, None);
    let host = topology
        .destinations()
        .iter()
        .find(|destination| destination.kind.is_host())
        .unwrap();
    let guid = topology.switch(host.switch).guid;
    let fewer = topology.without_cables(&[(guid, host.port)]);
    let tables = routed(&fewer, None).tables;
    for switch in fewer.indices() {
        for destination in fewer.destinations() {
            let lid = destination.lid;
            assert_eq!(
                tables.lft(switch).entry(lid),
                full.tables.lft(switch).entry(lid)
            );
        }
    }
}

#[test]
fn categories_are_balanced_each_on_its_own() {
    // On each of 4 leaves every other port is a storage target: by one numbering all of them would
    // go up by every other spine.
    let mut fabric = Fabric::new();
    let leaves = fabric.switches(4);
    let spines = fabric.switches(4);
    for &leaf in &leaves {
        fabric.hosts(leaf, 8);
        for &spine in &spines {
            fabric.link(leaf, spine);
        }
    }
    let topology = fabric.build();
    let hosts = topology.destinations().iter().filter(|d| d.kind.is_host());
    let storage: Vec<_> = hosts.step_by(2).collect();
    let options = Options {
        categories: storage
            .iter()
            .map(|destination| (destination.guid, Category::Storage))
            .collect::<BTreeMap<_, _>>()
            .into(),
        ..Options::default()
    };
    let tables = route(EngineKind::FabricTree, &topology, &options, None)
        .unwrap()
        .tables;
    assert_sound(&topology, &tables);
    let first = topology.switch_by_guid(Guid(0x1000)).unwrap();
    let mut counts = std::collections::BTreeMap::new();
    for destination in storage.iter().filter(|d| d.switch != first) {
        *counts
            .entry(tables.lft(first).entry(destination.lid))
            .or_insert(0) += 1;
    }
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [3, 3, 3, 3]);
}

/// 4 leaves with 4 hosts and 4 spines; the hosts of every other leaf are cabled from the last port
/// on.
fn crosswise() -> (Topology, Vec<Guid>) {
    let mut fabric = Fabric::new();
    let leaves = fabric.switches(4);
    let spines = fabric.switches(4);
    for &leaf in &leaves {
        fabric.hosts(leaf, 4);
        for &spine in &spines {
            fabric.link(leaf, spine);
        }
    }
    let topology = fabric.build();
    let mut order = Vec::new();
    for (number, leaf) in leaves.iter().enumerate() {
        let guid = Guid(0x1000 + *leaf as u64);
        let switch = topology.switch_by_guid(guid).unwrap();
        let mut hosts: Vec<Guid> = topology
            .destinations_of(switch)
            .iter()
            .filter(|d| d.kind.is_host())
            .map(|d| d.guid)
            .collect();
        if number % 2 == 1 {
            hosts.reverse();
        }
        order.extend(hosts);
    }
    (topology, order)
}

#[test]
fn ports_that_are_given_numbers_are_spread_in_their_order() {
    let (topology, order) = crosswise();
    let place = |guid: &Guid| {
        let found = topology.destinations().iter().find(|d| d.guid == *guid);
        found.map(|d| (d.lid, d.switch)).unwrap()
    };
    let hosts: Vec<(Lid, SwitchIdx)> = order.iter().map(place).collect();
    let tables = |numbers: BTreeMap<Guid, u32>| {
        let base = Options {
            numbers: numbers.into(),
            ..Options::default()
        };
        routed_as(&topology, None, &base).tables
    };
    let unordered = tables(BTreeMap::new());
    let ordered = tables(order.iter().copied().zip(0..).collect());
    assert_sound(&topology, &ordered);
    assert_eq!(worst_shift_of(&topology, &ordered, &hosts), 1);
    assert!(worst_shift_of(&topology, &unordered, &hosts) > 1);
    // Ports without a number of their own come after the others, and so disturb none of them.
    let numbers: BTreeMap<Guid, u32> = order.iter().copied().zip(0..).step_by(2).collect();
    let mixed = tables(numbers.clone());
    for switch in topology.indices() {
        for &(lid, _) in hosts.iter().step_by(2) {
            let entry = |tables: &Tables| tables.lft(switch).entry(lid);
            assert_eq!(entry(&mixed), entry(&ordered));
        }
    }
    // The highest number leaves the others room: numbers wrap nowhere.
    let highest = BTreeMap::from([(order[0], u32::MAX)]);
    assert_sound(&topology, &tables(highest));
}

#[test]
fn a_slow_link_up_carries_less() {
    let mut fabric = Fabric::new();
    let leaves = fabric.switches(4);
    let spines = fabric.switches(4);
    for &leaf in &leaves {
        fabric.hosts(leaf, 13);
        for (number, &spine) in spines.iter().enumerate() {
            let rate = if number == 2 { 25 } else { 100 };
            fabric.link_of_rate(leaf, spine, rate);
        }
    }
    let topology = fabric.build();
    let tables = routed(&topology, None).tables;
    assert_sound(&topology, &tables);
    let first = topology.switch_by_guid(Guid(0x1000)).unwrap();
    let carried = |port: u8| {
        let hosts = topology
            .destinations()
            .iter()
            .filter(|d| d.kind.is_host() && d.switch != first);
        hosts
            .filter(|d| tables.lft(first).entry(d.lid) == port)
            .count()
    };
    assert_eq!([14, 15, 16, 17].map(carried), [12, 12, 3, 12]);
}

#[test]
fn a_cable_within_a_rank_and_a_pod_upside_down_do_no_harm() {
    let mut fabric = Fabric::new();
    let leaves = fabric.switches(6);
    let spines = fabric.switches(4);
    for (number, &leaf) in leaves.iter().enumerate() {
        fabric.hosts(leaf, 4);
        for &spine in &spines {
            fabric.link(leaf, spine);
        }
        if number > 0 {
            fabric.link(leaves[number - 1], leaf);
        }
    }
    fabric.link(spines[0], spines[1]);
    // Switches with hosts that hang below two leaves.
    let below = fabric.switches(3);
    for &switch in &below {
        fabric.host(switch);
        fabric.link(switch, leaves[0]);
        fabric.link(switch, leaves[1]);
    }
    for &kind in &[EndpointKind::AggregationNode, EndpointKind::Ca] {
        fabric.endport(spines[3], kind);
    }
    let topology = fabric.build();
    assert_sound(&topology, &routed(&topology, None).tables);
}

#[test]
fn auto_chooses_fabric_tree_where_switches_have_ranks() {
    let tree = pgft(&[4, 4, 4], &[1, 4, 2], &[1, 1, 2], 0);
    let auto =
        |topology: &Topology| route(EngineKind::Auto, topology, &Options::default(), None).unwrap();
    let routing = auto(&tree);
    assert_eq!(routing.engine, "fabric-tree");
    assert!(
        routing
            .reason
            .starts_with("auto chose fabric-tree because the switches stand in ranks"),
        "{}",
        routing.reason
    );
    assert!(!auto(&common::ring(8)).reason.contains("stand in ranks"));
}

/// Categories and numbers for some destinations, chosen by the bits of `seed`; no options if `seed`
/// is even.
fn random_options(topology: &Topology, seed: u64) -> Options {
    if seed.is_multiple_of(2) {
        return Options::default();
    }
    let drawn = |guid: Guid| (guid.0 ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let kinds = [Category::Compute, Category::Storage, Category::Management];
    let guids = || topology.destinations().iter().map(|d| d.guid);
    let categories: BTreeMap<Guid, Category> = guids()
        .filter(|&guid| drawn(guid) % 3 == 0)
        .map(|guid| (guid, kinds[drawn(guid) as usize / 3 % 3]))
        .collect();
    let numbers: BTreeMap<Guid, u32> = guids()
        .filter(|&guid| drawn(guid) % 5 < 3)
        .map(|guid| (guid, drawn(guid) as u32 / 5 % 100))
        .collect();
    Options {
        categories: categories.into(),
        numbers: numbers.into(),
        connect_roots: seed % 4 == 1,
        ..Options::default()
    }
}

/// No packet turns up after going down, by the order that the routes name.
fn assert_follows(topology: &Topology, routing: &Routing) {
    let order = Orientation::of(topology, routing.ranking.as_ref().unwrap()).unwrap();
    let dependencies = Dependencies::of(topology, &routing.tables);
    assert!(dependencies.follows(|high, low| order.is_above(high, low)));
}

proptest! {
    #[test]
    fn tables_are_sound_on_any_fabric(plan in random::any_fabric(), seed in any::<u64>()) {
        let topology = plan.build();
        let base = random_options(&topology, seed);
        assert_sound(&topology, &routed_as(&topology, None, &base).tables);
    }

    /// Faults and repairs in any order: tables are sound at each step and depend only on what is
    /// missing.
    #[test]
    fn faults_and_repairs_restore_the_first_tables(
        plan in random::any_fabric(),
        seed in any::<u64>(),
        steps in prop::collection::vec(
            (prop::collection::vec(any::<prop::sample::Index>(), 0..4), any::<bool>(), any::<prop::sample::Index>()),
            1..6,
        ),
    ) {
        let whole = plan.build();
        let cables = whole.cables();
        prop_assume!(!cables.is_empty());
        let base = random_options(&whole, seed);
        let routed =
            |topology: &Topology, earlier: Option<&Ranking>| routed_as(topology, earlier, &base);
        let first = routed(&whole, None);
        let mut now = (whole.clone(), first.clone());
        for (dead, kill, switch) in steps {
            let ends: Vec<_> = dead.iter().map(|dead| cables[dead.index(cables.len())].a).collect();
            let mut broken = whole.without_cables(&ends);
            if kill {
                broken = without_switches(&broken, &[SwitchIdx(switch.index(whole.switch_count()) as u32)]);
            }
            let next = routed(&broken, now.1.ranking.as_ref());
            assert_sound(&broken, &next.tables);
            assert_follows(&broken, &next);
            // As if nothing had happened before.
            prop_assert_eq!(&next.tables, &routed(&broken, first.ranking.as_ref()).tables);
            now = (broken, next);
        }
        let last = routed(&whole, now.1.ranking.as_ref());
        prop_assert_eq!(&last.tables, &first.tables);
        prop_assert_eq!(last.ranking, first.ranking);
    }

    #[test]
    fn one_fault_moves_only_entries_through_it(
        plan in random::any_fabric(),
        dead in any::<prop::sample::Index>(),
    ) {
        let whole = plan.build();
        let cables = whole.cables();
        prop_assume!(!cables.is_empty());
        let before = routed(&whole, None);
        let broken = whole.without_cables(&[cables[dead.index(cables.len())].a]);
        let during = routed(&broken, before.ranking.as_ref());
        // Another order has other detours.
        if followed(&during) == followed(&before) {
            assert_least_change(&broken, &before.tables, &during.tables);
        }
    }
}
