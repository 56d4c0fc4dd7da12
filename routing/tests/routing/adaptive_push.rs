//! No loop and no credit loop, at any moment and for any choice, while groups change and while
//! links are missing.

use std::collections::BTreeSet;

use crate::adaptive::{MANY, checked, planned, routed, with_groups};
use crate::common;
use crate::random;

use common::pgft;
use proptest::prelude::*;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::adaptive::{AdaptiveTables, Meanwhile, Phase, PhaseKind, phases, proved_phases};
use rsm_routing::engine::{EngineKind, Routing};
use rsm_routing::mcast::PortMask;
use rsm_routing::tables::Tables;
use rsm_routing::topology::{SwitchIdx, Topology};
use rsm_routing::verify::{
    Held, Recovery, SetReport, recovered, recovery, stages, stages_along, verify_mixture_of_sets,
    verify_sets,
};

/// The state of the switches of a fabric.
#[derive(Clone, PartialEq, Debug)]
struct State {
    tables: Tables,
    groups: AdaptiveTables,
}

impl State {
    fn held(&self) -> Held<'_> {
        Held {
            tables: &self.tables,
            adaptive: &self.groups,
        }
    }
}

/// The phases of the push from one fabric's routes and groups to another's; both have the same
/// switches.
fn push_phases(
    topology: &Topology,
    old: &State,
    new: &Routing,
    groups: &AdaptiveTables,
) -> Vec<Phase> {
    let ranking = new.ranking.as_ref().unwrap();
    let orientation = rsm_routing::mcast::Orientation::of(topology, ranking).unwrap();
    let is_above = |high: SwitchIdx, low: SwitchIdx| orientation.is_above(high, low);
    let stages = stages_along(topology, is_above, &old.tables, &new.tables)
        .unwrap_or_else(|| stages(topology, &old.tables, &new.tables));
    proved_phases(topology, (&old.tables, &old.groups), &stages, groups).unwrap()
}

/// One write of a block.
#[derive(Clone, Copy)]
enum Write {
    /// A block of the LFT: the switch and the block.
    Table(usize, usize),
    /// A block of 16 ARLFT entries: the switch and the block.
    Entries(usize, usize),
    /// A block of two groups: the switch and the block.
    Groups(usize, u16),
}

fn writes(from: &State, to: &State) -> Vec<Write> {
    let mut writes = Vec::new();
    for (switch, (old, new)) in from.tables.lfts.iter().zip(&to.tables.lfts).enumerate() {
        writes.extend(
            old.differing_blocks(new)
                .map(|block| Write::Table(switch, block)),
        );
    }
    for (switch, (old, new)) in from
        .groups
        .switches
        .iter()
        .zip(&to.groups.switches)
        .enumerate()
    {
        let blocks: BTreeSet<u16> = new.differing_groups(old).map(|group| group / 2).collect();
        writes.extend(blocks.into_iter().map(|block| Write::Groups(switch, block)));
        let lids = new.differing_entries(old).into_iter();
        let blocks: BTreeSet<usize> = lids.map(|lid| lid.index() / 16).collect();
        writes.extend(
            blocks
                .into_iter()
                .map(|block| Write::Entries(switch, block)),
        );
    }
    writes
}

fn write_block(current: &mut State, to: &State, write: Write) {
    match write {
        Write::Table(switch, block) => {
            current.tables.lfts[switch].set_block(block, to.tables.lfts[switch].block(block));
        }
        Write::Entries(switch, block) => {
            for lid in (block * 16..block * 16 + 16).map(|lid| Lid(lid as u16)) {
                let group = to.groups.switches[switch].group_of(lid);
                current.groups.switches[switch].set_entry(lid, group);
            }
        }
        Write::Groups(switch, block) => {
            for group in [2 * block, 2 * block + 1] {
                let ports = to.groups.switches[switch].group(group);
                current.groups.switches[switch].set_group(group, ports);
            }
        }
    }
}

/// Writes the blocks of each phase in a random order, and proves each prefix.
fn assert_safe_prefixes(topology: &Topology, old: &State, phases: &[Phase], seed: u64) {
    let mut seed = seed | 1;
    let mut below = |count: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % count as u64) as usize
    };
    let mut current = old.clone();
    for phase in phases {
        let to = State {
            tables: phase.tables.clone(),
            groups: phase.adaptive.clone(),
        };
        let report = verify_mixture_of_sets(topology, current.held(), to.held());
        assert!(
            report.keeps_moving(),
            "{:?}: {:?}",
            phase.kind,
            report.witnesses
        );
        let mut writes = writes(&current, &to);
        for index in (1..writes.len()).rev() {
            writes.swap(index, below(index + 1));
        }
        for write in writes {
            write_block(&mut current, &to, write);
            let report = verify_sets(topology, current.held());
            assert!(
                report.keeps_moving(),
                "{:?}: {:?}",
                phase.kind,
                report.witnesses
            );
        }
        assert_eq!(current, to, "{:?}", phase.kind);
    }
}

/// Pushes from the fabric without the cables `cut` to the whole fabric, and back, and checks every
/// state in between.
fn assert_safe_push(whole: &Topology, cut: &[usize], kind: EngineKind, seed: u64) -> usize {
    let cables = whole.cables();
    if cables.is_empty() {
        return 0;
    }
    let ends: Vec<_> = cut
        .iter()
        .map(|&cut| cables[cut % cables.len()].a)
        .collect();
    let broken = whole.without_cables(&ends);
    let before = routed(kind, whole, None);
    let groups = with_groups(whole, &before);
    let during = routed(kind, &broken, before.ranking.as_ref());
    let capacities = vec![MANY; whole.switch_count()];
    let fewer = planned(&broken, &during, &capacities, &groups.ids);
    let old = State {
        tables: before.tables.clone(),
        groups: groups.tables.clone(),
    };
    let there = push_phases(&broken, &old, &during, &fewer.tables);
    assert_safe_prefixes(&broken, &old, &there, seed);
    let current = State {
        tables: during.tables.clone(),
        groups: fewer.tables.clone(),
    };
    let after = routed(kind, whole, during.ranking.as_ref());
    let mended = planned(whole, &after, &capacities, &fewer.ids);
    let back = push_phases(whole, &current, &after, &mended.tables);
    assert_safe_prefixes(whole, &current, &back, seed);
    there.len() + back.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_prefix_of_a_push_of_groups_is_sound(
        plan in prop_oneof![random::broken_tree(), random::any_graph()],
        cut in proptest::collection::vec(any::<usize>(), 1..4),
        is_tree in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let topology = plan.build();
        let kind = if is_tree { EngineKind::FabricTree } else { EngineKind::UpDn };
        assert_safe_push(&topology, &cut, kind, seed);
    }
}

#[test]
fn groups_leave_and_shrink_before_tables_change_and_grow_after() {
    let topology = pgft(&[2, 2, 2], &[1, 2, 2], &[1, 1, 1], 0);
    let routing = routed(EngineKind::FabricTree, &topology, None);
    let groups = with_groups(&topology, &routing);
    let none = AdaptiveTables::default();
    let kinds = |phases: &[Phase]| phases.iter().map(|phase| phase.kind).collect::<Vec<_>>();
    let tables = [routing.tables.clone()];
    let common = Meanwhile::Common;
    let on = phases((&Tables::default(), &none), &tables, &groups.tables, common);
    assert_eq!(
        kinds(&on),
        [PhaseKind::Tables, PhaseKind::Grow, PhaseKind::Join]
    );
    let off = phases((&routing.tables, &groups.tables), &tables, &none, common);
    assert_eq!(kinds(&off), [PhaseKind::Leave, PhaseKind::Shrink]);
    let held = (&routing.tables, &groups.tables);
    let unchanged = phases(held, &tables, &groups.tables, common);
    assert_eq!(kinds(&unchanged), []);
    assert!(assert_safe_push(&topology, &[0, 5], EngineKind::FabricTree, 7) >= 4);
}

#[test]
fn groups_that_change_at_once_may_close_a_loop_and_the_proof_says_so() {
    // A square: 0 and 1 send to the host at 3 by 1 and 2 in the one state, the other way round in
    // the other.
    let topology = common::ring(4);
    let routing = routed(EngineKind::UpDn, &topology, None);
    let host = topology
        .destinations()
        .iter()
        .find(|end| end.kind.is_host() && end.switch.0 == 3);
    let lid = host.unwrap().lid;
    let to = |from: u32, to: u32| {
        let mut groups = topology.groups(SwitchIdx(from));
        let link = groups
            .find(|group| group.neighbour == SwitchIdx(to))
            .unwrap()
            .links[0];
        [link.port].into_iter().collect::<PortMask>()
    };
    let state = |members: &[(u32, u32)]| {
        let mut tables = Tables::default();
        tables.lfts.resize(4, Default::default());
        tables.lfts[3] = routing.tables.lft(SwitchIdx(3)).clone();
        let mut groups = AdaptiveTables::default();
        groups.switches.resize(4, Default::default());
        for &(from, next) in members {
            groups.switches[from as usize].set_entry(lid, 1);
            groups.switches[from as usize].set_group(1, to(from, next));
        }
        State { tables, groups }
    };
    let clockwise = state(&[(0, 1), (1, 2), (2, 3)]);
    let other = state(&[(1, 0), (0, 3), (2, 3)]);
    for state in [&clockwise, &other] {
        assert!(verify_sets(&topology, state.held()).keeps_moving());
    }
    let report = verify_mixture_of_sets(&topology, clockwise.held(), other.held());
    assert!(!report.loop_free, "{report:?}");
    // The phases take the entries out of their groups first.
    let tables = [other.tables.clone()];
    let held = (&clockwise.tables, &clockwise.groups);
    let push_phases = proved_phases(&topology, held, &tables, &other.groups).unwrap();
    assert_safe_prefixes(&topology, &clockwise, &push_phases, 3);
}

/// The report for a fabric that has lost some cables, before any table changes.
fn report_without(topology: &Topology, held: Held<'_>, gone: &[(Guid, PortNum)]) -> SetReport {
    let broken = topology.without_cables(gone);
    let (tables, groups) = recovered(&broken, held);
    checked(&broken, &tables, &groups)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn after_any_two_failures_switches_that_use_other_ports_close_no_loop(
        plan in prop_oneof![random::broken_tree(), random::any_graph()],
        cut in proptest::collection::vec(any::<usize>(), 1..3),
        is_tree in any::<bool>(),
    ) {
        let topology = plan.build();
        let cables = topology.cables();
        prop_assume!(!cables.is_empty());
        let kind = if is_tree { EngineKind::FabricTree } else { EngineKind::UpDn };
        let routing = routed(kind, &topology, None);
        let groups = with_groups(&topology, &routing).tables;
        let held = Held { tables: &routing.tables, adaptive: &groups };
        let gone: Vec<_> = cut.iter().map(|&cut| cables[cut % cables.len()].a).collect();
        let report = report_without(&topology, held, &gone);
        prop_assert!(report.keeps_moving(), "{:?}", report.witnesses);
    }

    #[test]
    fn links_that_hosts_need_are_those_whose_loss_costs_pairs(plan in random::broken_tree()) {
        let topology = plan.build();
        let routing = routed(EngineKind::FabricTree, &topology, None);
        let groups = with_groups(&topology, &routing).tables;
        let held = Held { tables: &routing.tables, adaptive: &groups };
        let mut expected = Recovery::default();
        for switch in topology.indices() {
            for link in topology.groups(switch).flat_map(|group| group.links) {
                // The ports that some packet to a host elsewhere may take, without the others.
                let hosts = topology
                    .destinations()
                    .iter()
                    .filter(|end| end.kind.is_host() && end.switch != switch);
                let mut sets = hosts
                    .flat_map(|end| end.lids())
                    .map(|lid| groups.ports(&routing.tables, switch, lid));
                let with: Vec<PortMask> = sets
                    .by_ref()
                    .filter(|ports| ports.contains(link.port))
                    .collect();
                expected.links += usize::from(!with.is_empty());
                expected.sole += usize::from(with.iter().any(|ports| ports.len() == 1));
            }
        }
        prop_assert_eq!(recovery(&topology, held), expected);
    }
}

#[test]
fn a_lost_link_up_costs_no_pair_and_a_lost_link_down_does() {
    let topology = pgft(&[3, 3, 2], &[1, 3, 2], &[1, 1, 2], 0);
    let routing = routed(EngineKind::FabricTree, &topology, None);
    let groups = with_groups(&topology, &routing).tables;
    let held = Held {
        tables: &routing.tables,
        adaptive: &groups,
    };
    // Up from leaf and middle switches there are several links, and the links to cores are double;
    // from a middle switch down to a leaf there is one.
    let down_to_leaves = 18;
    let found = recovery(&topology, held);
    assert_eq!(
        found,
        Recovery {
            links: 2 * topology.link_count(),
            sole: down_to_leaves
        }
    );
    let is_leaf = |guid| topology.hosts(topology.switch_by_guid(guid).unwrap()) > 0;
    let cables = topology.cables();
    let high = cables
        .iter()
        .find(|cable| !is_leaf(cable.a.0) && !is_leaf(cable.b.0))
        .unwrap();
    assert!(!cuts_off_a_host(&topology, held, high.a));
    let low = cables.iter().find(|cable| is_leaf(cable.a.0)).unwrap();
    assert!(cuts_off_a_host(&topology, held, low.a));
    assert!(report_without(&topology, held, &[low.a]).keeps_moving());
}

/// Whether a switch has no port left for some host elsewhere once a cable has gone.
fn cuts_off_a_host(topology: &Topology, held: Held<'_>, gone: (Guid, PortNum)) -> bool {
    let broken = topology.without_cables(&[gone]);
    let (tables, groups) = recovered(&broken, held);
    let hosts = broken
        .destinations()
        .iter()
        .filter(|end| end.kind.is_host());
    let mut pairs = hosts.flat_map(|host| broken.indices().map(move |switch| (switch, host)));
    pairs.any(|(switch, host)| groups.ports(&tables, switch, host.lid).is_empty())
}
