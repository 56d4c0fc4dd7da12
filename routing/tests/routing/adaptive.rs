//! Groups for adaptive routing, and the proof over sets of ports.

use std::collections::{BTreeMap, BTreeSet};

use crate::common;
use crate::random;

use common::{generated, pgft};
use proptest::prelude::*;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::adaptive::{
    AdaptivePlan, AdaptiveTables, GroupIds, NO_GROUP, Request, blocks_changed, plan, write_text,
};
use rsm_routing::engine::{EngineKind, Options, Ranking, Routing, route};
use rsm_routing::mcast::PortMask;
use rsm_routing::tables::Tables;
use rsm_routing::topology::{EndpointKind, PortUse, SwitchIdx, Topology};
use rsm_routing::verify::{Held, SetReport, Witness, verify, verify_sets};

/// The number of groups that a switch of these tests holds: more than there are leaves.
pub(crate) const MANY: u16 = 1000;

pub(crate) fn routed(kind: EngineKind, topology: &Topology, earlier: Option<&Ranking>) -> Routing {
    let options = Options {
        previous_ranking: earlier.cloned(),
        ..Options::default()
    };
    route(kind, topology, &options, None).unwrap()
}

pub(crate) fn planned(
    topology: &Topology,
    routing: &Routing,
    capacities: &[u16],
    ids: &GroupIds,
) -> AdaptivePlan {
    plan(&Request {
        topology,
        tables: &routing.tables,
        order: &routing.ranking.as_ref().unwrap().shortest(),
        capacities,
        ids,
        in_order: &std::collections::BTreeSet::new(),
        before: None,
    })
    .unwrap()
}

pub(crate) fn with_groups(topology: &Topology, routing: &Routing) -> AdaptivePlan {
    let capacities = vec![MANY; topology.switch_count()];
    planned(topology, routing, &capacities, &GroupIds::default())
}

pub(crate) fn checked(topology: &Topology, tables: &Tables, groups: &AdaptiveTables) -> SetReport {
    verify_sets(
        topology,
        Held {
            tables,
            adaptive: groups,
        },
    )
}

/// The report that [`verify_sets`] should make, by following every choice.
#[derive(Debug, PartialEq, Eq)]
struct Expected {
    pairs: [u64; 3],
    switch_pairs: [u64; 3],
    absent_groups: u64,
    loop_free: bool,
    credit_loop_free: bool,
    max_hops: u32,
}

impl From<&SetReport> for Expected {
    fn from(report: &SetReport) -> Expected {
        let counts = |pairs: rsm_routing::verify::PairCounts| {
            [pairs.reachable, pairs.unreachable, pairs.disconnected]
        };
        Expected {
            pairs: counts(report.pairs),
            switch_pairs: counts(report.switch_pairs),
            absent_groups: report.absent_groups,
            loop_free: report.loop_free,
            credit_loop_free: report.credit_loop_free,
            max_hops: report.max_hops,
        }
    }
}

/// The choices of one switch for a LID: `Some(switch)` leads on, `None` discards.
type Steps = BTreeMap<(usize, u8), Option<usize>>;

fn brute_force(topology: &Topology, tables: &Tables, groups: &AdaptiveTables) -> Expected {
    let mut found = Expected {
        pairs: [0; 3],
        switch_pairs: [0; 3],
        absent_groups: 0,
        loop_free: true,
        credit_loop_free: true,
        max_hops: 0,
    };
    let mut waits: BTreeSet<[(usize, u8); 2]> = BTreeSet::new();
    for destination in topology.destinations() {
        for lid in destination.lids() {
            let mut steps = Steps::new();
            for switch in topology.indices() {
                let table = &groups.switches[switch.index()];
                let group = table.group_of(lid);
                let mut ports: BTreeSet<u8> = table.group(group).ports().map(|p| p.0).collect();
                found.absent_groups += u64::from(group != NO_GROUP && ports.is_empty());
                ports.extend(tables.lft(switch).port(lid).map(|port| port.0));
                if ports.is_empty() {
                    steps.insert((switch.index(), 255), None);
                }
                for port in ports {
                    match topology.port_use(switch, PortNum(port)) {
                        PortUse::Link { peer, .. } => {
                            steps.insert((switch.index(), port), Some(peer.index()));
                        }
                        PortUse::Destination(_)
                            if (switch, PortNum(port))
                                == (destination.switch, destination.port) => {}
                        _ => drop(steps.insert((switch.index(), port), None)),
                    }
                }
            }
            for (&(switch, port), next) in &steps {
                let Some(next) = next else { continue };
                for (&(at, turn), leads_to) in steps.range((*next, 0)..=(*next, 255)) {
                    if leads_to.is_some() {
                        waits.insert([(switch, port), (at, turn)]);
                    }
                }
            }
            count_pairs(topology, destination, &steps, &mut found);
        }
    }
    found.credit_loop_free = !has_cycle(&waits);
    found
}

/// Hops of the longest sequence of choices; `None` where some sequence does not arrive. `path` are
/// the switches before.
fn longest(steps: &Steps, at: usize, path: &mut Vec<usize>, loops: &mut bool) -> Option<u32> {
    if path.contains(&at) {
        *loops = true;
        return None;
    }
    path.push(at);
    let mut hops = Some(0);
    for (_, next) in steps.range((at, 0)..=(at, 255)) {
        let further = next.and_then(|next| longest(steps, next, path, loops));
        hops = match (hops, further) {
            (Some(hops), Some(further)) => Some(hops.max(further + 1)),
            _ => None,
        };
    }
    path.pop();
    hops
}

fn count_pairs(
    topology: &Topology,
    destination: &rsm_routing::topology::Destination,
    steps: &Steps,
    found: &mut Expected,
) {
    let outcomes: Vec<Option<u32>> = topology
        .indices()
        .map(|switch| {
            let mut loops = false;
            let hops = longest(steps, switch.index(), &mut Vec::new(), &mut loops);
            found.loop_free &= !loops;
            found.max_hops = found.max_hops.max(hops.unwrap_or(0));
            hops
        })
        .collect();
    let component = topology.component_of(destination.switch);
    for source in topology.destinations() {
        if source.guid == destination.guid {
            continue;
        }
        let outcome = if topology.component_of(source.switch) != component {
            2
        } else {
            usize::from(outcomes[source.switch.index()].is_none())
        };
        let both_are_switches =
            source.kind == EndpointKind::Switch0 && destination.kind == EndpointKind::Switch0;
        if both_are_switches {
            found.switch_pairs[outcome] += 1;
        } else {
            found.pairs[outcome] += 1;
        }
    }
}

fn has_cycle(waits: &BTreeSet<[(usize, u8); 2]>) -> bool {
    let mut remaining = waits.clone();
    loop {
        let waited_for: BTreeSet<_> = remaining.iter().map(|&[_, to]| to).collect();
        let before = remaining.len();
        remaining.retain(|[from, _]| waited_for.contains(from));
        if remaining.is_empty() || remaining.len() == before {
            return !remaining.is_empty();
        }
    }
}

/// Groups of an engine's routes are sound, reach what the routes reach, and take no more hops.
fn assert_sound(topology: &Topology, routing: &Routing, groups: &AdaptivePlan) {
    let report = checked(topology, &routing.tables, &groups.tables);
    let alone = verify(topology, &routing.tables);
    assert!(report.keeps_moving(), "{:?}", report.witnesses);
    assert_eq!(
        report.pairs.reachable, alone.reachable_pairs,
        "{:?}",
        report.witnesses
    );
    assert_eq!(report.pairs.unreachable, alone.unreachable_pairs);
    assert_eq!(report.pairs.disconnected, alone.disconnected_pairs);
    assert_eq!(report.switch_pairs, alone.switch_pairs);
    assert!(report.max_hops <= alone.max_hops, "{report:?}");
}

/// Puts any ports into some groups, and gives some LIDs any group.
fn spoil(topology: &Topology, groups: &mut AdaptiveTables, edits: &[(usize, u16, u8, bool)]) {
    for &(switch, number, port, is_group) in edits {
        let switch = SwitchIdx((switch % topology.switch_count()) as u32);
        let table = &mut groups.switches[switch.index()];
        let ports = topology.port_uses(switch).len().max(1);
        if is_group {
            let mut mask = table.group(1 + number % 6);
            // Mostly ports with a cable, now and then one past the last.
            mask.insert(PortNum((usize::from(port) % (ports.min(16) + 1)) as u8));
            table.set_group(1 + number % 6, mask);
        } else {
            let top = topology.top_lid().0.max(1);
            table.set_entry(Lid(1 + u16::from(port) * 7 % top), number % 7);
        }
    }
}

/// Groups beside the routes of one of two engines are sound, and a search of every choice agrees.
fn assert_proved_as_by_brute_force(topology: &Topology, is_tree: bool) {
    let kind = if is_tree {
        EngineKind::FabricTree
    } else {
        EngineKind::UpDn
    };
    let routing = routed(kind, topology, None);
    let groups = with_groups(topology, &routing);
    assert_sound(topology, &routing, &groups);
    let report = checked(topology, &routing.tables, &groups.tables);
    let expected = brute_force(topology, &routing.tables, &groups.tables);
    assert_eq!(Expected::from(&report), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn groups_of_random_trees_are_sound_and_proved_as_by_brute_force(
        plan in random::broken_tree(), is_tree in any::<bool>()
    ) {
        assert_proved_as_by_brute_force(&plan.build(), is_tree);
    }

    #[test]
    fn groups_of_random_graphs_are_sound_and_proved_as_by_brute_force(
        plan in random::any_graph(), is_tree in any::<bool>()
    ) {
        assert_proved_as_by_brute_force(&plan.build(), is_tree);
    }

    #[test]
    fn wrong_groups_are_found_as_by_brute_force(
        plan in prop_oneof![random::broken_tree(), random::any_graph()],
        edits in proptest::collection::vec((any::<usize>(), any::<u16>(), any::<u8>(), any::<bool>()), 1..8)
    ) {
        let topology = plan.build();
        prop_assume!(topology.switch_count() <= 12);
        let routing = routed(EngineKind::UpDn, &topology, None);
        let mut groups = with_groups(&topology, &routing).tables;
        spoil(&topology, &mut groups, &edits);
        let report = checked(&topology, &routing.tables, &groups);
        let expected = brute_force(&topology, &routing.tables, &groups);
        prop_assert_eq!(Expected::from(&report), expected);
    }

    #[test]
    fn few_groups_are_shared_and_stay_sound(
        plan in random::broken_tree(), capacities in proptest::collection::vec(0u16..5, 1..20)
    ) {
        let topology = plan.build();
        let routing = routed(EngineKind::FabricTree, &topology, None);
        let groups = planned(&topology, &routing, &capacities, &GroupIds::default());
        assert_sound(&topology, &routing, &groups);
        for (switch, table) in groups.tables.switches.iter().enumerate() {
            let capacity = capacities.get(switch).copied().unwrap_or(0);
            prop_assert!(table.groups().all(|(group, _)| group < capacity));
            prop_assert!(capacity > 0 || table.is_empty());
        }
    }

    #[test]
    fn few_groups_of_random_graphs_stay_sound(
        plan in random::any_graph(), is_tree in any::<bool>(),
        capacities in proptest::collection::vec(0u16..5, 1..20)
    ) {
        let topology = plan.build();
        let kind = if is_tree { EngineKind::FabricTree } else { EngineKind::UpDn };
        let routing = routed(kind, &topology, None);
        let groups = planned(&topology, &routing, &capacities, &GroupIds::default());
        assert_sound(&topology, &routing, &groups);
    }
}

#[test]
fn a_detour_to_one_of_two_leaves_that_share_a_group_keeps_its_port() {
    // A tree of two pods, each of a leaf and two spines, with broken cables. Core 7 has no cable to
    // the pod of leaf 3: it reaches that leaf through spine 2 and core 6. Spines 1 and 2 lead down
    // to leaf 0, the other leaf of the group. Spine 1 has no path to leaf 3 but back.
    let mut fabric = common::Fabric::new();
    fabric.switches(8);
    let pods = [(0, 1), (0, 2), (3, 4), (3, 5)];
    let cores = [(1, 7), (2, 7), (2, 6), (4, 6), (5, 6)];
    for (below, above) in [&pods[..], &cores].concat() {
        fabric.link(below, above);
    }
    let [near, far] = [0, 3].map(|leaf| fabric.host(leaf));
    let topology = fabric.build();
    let routing = routed(EngineKind::FabricTree, &topology, None);
    let one_group_besides_the_empty = [2; 8];
    let none = GroupIds::default();
    let groups = planned(&topology, &routing, &one_group_besides_the_empty, &none);
    assert_eq!((groups.leaves, groups.groups), (2, 1));
    assert_sound(&topology, &routing, &groups);
    let core = &groups.tables.switches[7];
    assert_eq!(core.ports(near).len(), 2);
    assert_eq!(core.group_of(far), NO_GROUP);
}

#[test]
fn at_leaves_of_a_tree_every_port_up_is_in_the_group() {
    let topology = pgft(&[3, 3, 2], &[1, 3, 2], &[1, 1, 2], 0);
    let routing = routed(EngineKind::FabricTree, &topology, None);
    let groups = with_groups(&topology, &routing);
    assert_eq!((groups.leaves, groups.groups), (6, 6));
    assert_eq!(groups.fixed_entries, 0);
    let ids: Vec<u16> = groups.ids.pairs().map(|(_, group)| group).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 6);
    for leaf in topology.indices().filter(|&leaf| topology.hosts(leaf) > 0) {
        let up: PortMask = topology
            .groups(leaf)
            .flat_map(|group| group.links)
            .map(|link| link.port)
            .collect();
        let table = &groups.tables.switches[leaf.index()];
        for host in topology.destinations() {
            let expected = match host.kind {
                EndpointKind::Ca if host.switch != leaf => up,
                _ => PortMask::EMPTY,
            };
            assert_eq!(table.ports(host.lid), expected);
        }
    }
    let report = checked(&topology, &routing.tables, &groups.tables);
    assert_eq!(report.max_hops, 4);
}

#[test]
fn a_far_slower_link_carries_no_adaptive_traffic() {
    let mut fabric = common::Fabric::new();
    let leaves = fabric.switches(2);
    let spines = fabric.switches(2);
    for &leaf in &leaves {
        fabric.hosts(leaf, 2);
    }
    let (fast, _) = fabric.link_of_rate(leaves[0], spines[0], 400);
    let (slow, _) = fabric.link_of_rate(leaves[0], spines[1], 20);
    fabric.link_of_rate(leaves[1], spines[0], 400);
    fabric.link_of_rate(leaves[1], spines[1], 400);
    let topology = fabric.build();
    let routing = routed(EngineKind::FabricTree, &topology, None);
    let groups = with_groups(&topology, &routing);
    let table = &groups.tables.switches[0];
    let masks: Vec<PortMask> = table.groups().map(|(_, ports)| ports).collect();
    assert_eq!(masks, [[fast].into_iter().collect()]);
    assert!(!masks[0].contains(slow));
}

#[test]
fn a_credit_loop_over_sets_is_found_and_named() {
    // Two switches that may both send on and back: each set alone is harmless.
    let topology = common::ring(4);
    let routing = routed(EngineKind::UpDn, &topology, None);
    let mut groups = with_groups(&topology, &routing).tables;
    for switch in topology.indices() {
        let ports: PortMask = topology
            .groups(switch)
            .flat_map(|group| group.links)
            .map(|link| link.port)
            .collect();
        groups.switches[switch.index()].set_group(9, ports);
        for host in topology
            .destinations()
            .iter()
            .filter(|host| host.switch != switch)
        {
            groups.switches[switch.index()].set_entry(host.lid, 9);
        }
    }
    let report = checked(&topology, &routing.tables, &groups);
    assert!(!report.loop_free && !report.credit_loop_free && !report.is_sound());
    let is_loop =
        |witness: &Witness| matches!(witness, Witness::Loop { hops, .. } if hops.len() > 1);
    let is_credit = |witness: &Witness| matches!(witness, Witness::CreditLoop { .. });
    assert!(
        report.witnesses.iter().any(is_loop),
        "{:?}",
        report.witnesses
    );
    assert!(
        report.witnesses.iter().any(is_credit),
        "{:?}",
        report.witnesses
    );
    // Only a switch and its own host reach each other whatever is chosen.
    assert_eq!(report.pairs.reachable, 8);
}

#[test]
fn an_entry_with_an_absent_group_is_found() {
    let topology = pgft(&[2, 2], &[1, 2], &[1, 1], 0);
    let routing = routed(EngineKind::FabricTree, &topology, None);
    let mut groups = with_groups(&topology, &routing).tables;
    let host = topology
        .destinations()
        .iter()
        .find(|host| host.kind.is_host())
        .unwrap();
    let other = topology
        .indices()
        .find(|&switch| switch != host.switch)
        .unwrap();
    groups.switches[other.index()].set_entry(host.lid, 77);
    let report = checked(&topology, &routing.tables, &groups);
    assert_eq!(report.absent_groups, 1);
    assert!(!report.is_sound());
    let guid = topology.switch(other).guid;
    let witness = Witness::AbsentGroup {
        switch: guid,
        lid: host.lid,
        group: 77,
    };
    assert!(
        report.witnesses.contains(&witness),
        "{:?}",
        report.witnesses
    );
}

#[test]
fn one_lost_link_changes_the_groups_of_its_leaf_alone_and_no_entry() {
    let topology = pgft(&[4, 4, 3], &[1, 4, 2], &[1, 1, 2], 0);
    let first = routed(EngineKind::FabricTree, &topology, None);
    let before = with_groups(&topology, &first);
    let leaf = topology
        .indices()
        .find(|&leaf| topology.hosts(leaf) > 0)
        .unwrap();
    let guid = topology.switch(leaf).guid;
    let port = topology.groups(leaf).next().unwrap().links[0].port;
    let broken = topology.without_cables(&[(guid, port)]);
    let next = routed(EngineKind::FabricTree, &broken, first.ranking.as_ref());
    let capacities = vec![MANY; broken.switch_count()];
    let after = planned(&broken, &next, &capacities, &before.ids);
    assert_sound(&broken, &next, &after);
    assert_eq!(after.ids, before.ids);
    let group = after.ids.group_of(guid).unwrap();
    for switch in broken.indices().filter(|&switch| switch != leaf) {
        let (old, new) = (&before.tables.switches, &after.tables.switches);
        let changed: Vec<u16> = new[switch.index()]
            .differing_groups(&old[switch.index()])
            .collect();
        assert!(
            changed.iter().all(|&changed| changed == group),
            "{changed:?}"
        );
    }
    let blocks = blocks_changed(
        (&first.tables, &before.tables),
        (&next.tables, &after.tables),
    );
    assert!(
        blocks.groups > 0 && blocks.group_blocks <= blocks.groups,
        "{blocks:?}"
    );

    // The repair restores all groups.
    let back = routed(EngineKind::FabricTree, &topology, next.ranking.as_ref());
    let capacities = vec![MANY; topology.switch_count()];
    let mended = planned(&topology, &back, &capacities, &after.ids);
    assert_eq!(mended.tables, before.tables);
}

#[test]
fn an_absent_leaf_gets_its_group_back_when_it_returns() {
    let topology = pgft(&[2, 4], &[1, 2], &[1, 1], 0);
    let first = routed(EngineKind::FabricTree, &topology, None);
    let before = with_groups(&topology, &first);
    let leaf = topology
        .indices()
        .find(|&leaf| topology.hosts(leaf) > 0)
        .unwrap();
    let without = common::without_switches(&topology, &[leaf]);
    let next = routed(EngineKind::FabricTree, &without, first.ranking.as_ref());
    let away = planned(
        &without,
        &next,
        &vec![MANY; without.switch_count()],
        &before.ids,
    );
    assert_eq!((away.leaves, away.groups), (3, 3));
    assert_eq!(away.ids, before.ids, "an absent leaf keeps its number");
    let back = routed(EngineKind::FabricTree, &topology, next.ranking.as_ref());
    let capacities = vec![MANY; topology.switch_count()];
    assert_eq!(
        planned(&topology, &back, &capacities, &away.ids).tables,
        before.tables
    );
}

#[test]
fn an_order_without_a_switch_of_the_fabric_is_refused() {
    let topology = generated("fat-tree:k=4,levels=2");
    let routing = routed(EngineKind::UpDn, &topology, None);
    let mut order: Vec<Guid> = routing.ranking.as_ref().unwrap().shortest();
    let missing = order.remove(1);
    let refused = plan(&Request {
        topology: &topology,
        tables: &routing.tables,
        order: &order,
        capacities: &[],
        ids: &GroupIds::default(),
        in_order: &std::collections::BTreeSet::new(),
        before: None,
    });
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains(&missing.to_string())
    );
}

/// The ports by which packets may leave, by switch and LID, in text of [`write_text`].
fn read_back(text: &str) -> BTreeMap<(Guid, Lid), PortMask> {
    let hex = |number: &str| u64::from_str_radix(number.trim_start_matches("0x"), 16).unwrap();
    let port = |number: &str| PortNum(number.parse().unwrap());
    let mut groups = BTreeMap::new();
    let mut found = BTreeMap::new();
    let mut switch = Guid::ZERO;
    for line in text.lines() {
        let fields: Vec<&str> = line.split(" : ").map(str::trim).collect();
        match fields[..] {
            [header] => switch = Guid(hex(header.strip_prefix("Switch ").unwrap())),
            ["Group" | "LID", ..] => {}
            [group, ports] => {
                let ports: PortMask = ports.split(' ').map(port).collect();
                groups.insert((switch, hex(group)), ports);
            }
            [lid, static_port, group] => {
                let mut ports = match group {
                    "none" => PortMask::EMPTY,
                    group => groups[&(switch, hex(group))],
                };
                ports.insert(port(static_port));
                found.insert((switch, Lid(hex(lid) as u16)), ports);
            }
            _ => panic!("{line}"),
        }
    }
    found
}

#[test]
fn written_groups_and_entries_read_back_as_the_ports_of_each_packet() {
    let topology = generated("pgft:3;4,4,6;1,4,2;1,1,2,hosts-on-spines=1x1");
    let routing = routed(EngineKind::FabricTree, &topology, None);
    let groups = with_groups(&topology, &routing);
    let mut text = Vec::new();
    write_text(&topology, &routing.tables, &groups.tables, &mut text).unwrap();
    let found = read_back(&String::from_utf8(text).unwrap());
    let mut expected = BTreeMap::new();
    for switch in topology.indices() {
        for lid in topology.destinations().iter().flat_map(|end| end.lids()) {
            let ports = groups.tables.ports(&routing.tables, switch, lid);
            if !ports.is_empty() {
                expected.insert((topology.switch(switch).guid, lid), ports);
            }
        }
    }
    assert!(expected.values().any(|ports| ports.len() > 1));
    assert_eq!(found, expected);
}
