//! The proof of changes gives the result of the whole proof, number for number, or that it is
//! inconclusive.

use crate::common;
use crate::random;

use common::{followed, pgft, rebuilt, without_switches};
use proptest::prelude::*;
use rsm_ids::Lid;
use rsm_routing::engine::{EngineKind, Options, Ranking, Routing, route};
use rsm_routing::mcast::Orientation;
use rsm_routing::tables::{Lft, Tables};
use rsm_routing::topology::{SwitchIdx, Topology};
use rsm_routing::verify::{
    Candidate, Changed, Inconclusive, ProvedTables, Verified, verify_changes, verify_whole,
};

fn routed(kind: EngineKind, topology: &Topology, earlier: Option<&Ranking>) -> Routing {
    let options = Options {
        previous_ranking: earlier.cloned(),
        ..Options::default()
    };
    route(kind, topology, &options, None).unwrap()
}

fn orientation(topology: &Topology, routing: &Routing) -> Orientation {
    Orientation::of(topology, routing.ranking.as_ref().unwrap()).unwrap()
}

fn follows(whole: &Verified<'_>, orientation: &Orientation) -> bool {
    whole
        .dependencies
        .follows(|high, low| orientation.is_above(high, low))
}

/// Compares both proofs of `tables`. `None` if the tables before do not follow their order.
fn prove(
    (before, old): (&Topology, &Routing),
    (after, tables): (&Topology, &Tables),
    order: &Orientation,
) -> Option<Result<Changed, Inconclusive>> {
    let proved_before = verify_whole(before, &old.tables);
    let old_order = orientation(before, old);
    if !(proved_before.report.loop_free && follows(&proved_before, &old_order)) {
        return None;
    }
    let outcome = verify_changes(
        &ProvedTables {
            topology: before,
            tables: &old.tables,
            orientation: &old_order,
            tally: &proved_before.tally,
        },
        &Candidate {
            topology: after,
            tables,
            orientation: order,
        },
    );
    let whole = verify_whole(after, tables);
    match &outcome {
        Ok(changed) => {
            assert!(whole.report.loop_free, "{:?}", whole.report.witnesses);
            assert!(whole.report.credit_loop_free);
            assert!(follows(&whole, order));
            assert_eq!(changed.tally, whole.tally);
            let report = changed.tally.report(after);
            if whole.report.unreachable_pairs == 0 {
                assert_eq!(report, whole.report);
            }
            assert_eq!(report.unreachable_pairs, whole.report.unreachable_pairs);
        }
        Err(Inconclusive::Turn { .. }) => assert!(!follows(&whole, order)),
        Err(Inconclusive::Loop { .. }) => assert!(!whole.report.loop_free),
        Err(Inconclusive::Order) => {
            let guids = |topology: &Topology, order: &Orientation, other: &Topology| {
                let highest_first = order.highest_first().iter();
                let guids = highest_first.map(|&switch| topology.switch(switch).guid);
                guids
                    .filter(|&guid| other.switch_by_guid(guid).is_some())
                    .collect::<Vec<_>>()
            };
            assert_ne!(
                guids(before, &old_order, after),
                guids(after, order, before)
            );
        }
        Err(Inconclusive::Parts) => {
            assert!(before.components().len() > 1 || after.components().len() > 1);
        }
        Err(Inconclusive::TooMuch | Inconclusive::Tally) => panic!("{outcome:?}"),
    }
    Some(outcome)
}

/// The tables that the switches of `after` hold before its first Set.
fn held(before: &Topology, tables: &Tables, after: &Topology) -> Tables {
    let held = |guid| {
        let index = before.switch_by_guid(guid);
        index.map_or_else(Lft::default, |index| tables.lft(index).clone())
    };
    Tables {
        lfts: after.switches().iter().map(|s| held(s.guid)).collect(),
    }
}

#[test]
fn links_and_switches_of_a_tree_that_fail_or_return_are_proved_from_changes() {
    for (m, w, p) in [
        ([4, 4, 4], [1, 4, 4], [1, 1, 1]),
        ([4, 4, 3], [1, 4, 2], [1, 1, 2]),
    ] {
        let whole = pgft(&m, &w, &p, 0);
        let first = routed(EngineKind::FabricTree, &whole, None);
        let all = whole.destinations().len() * whole.switch_count();
        let mut proved = 0;
        let cables = whole.cables().into_iter().step_by(7);
        let cut = cables.map(|cable| whole.without_cables(&[cable.a]));
        let gone = whole.indices().step_by(5);
        let dead = gone.map(|switch| without_switches(&whole, &[switch]));
        let mut tried = 0;
        for broken in cut.chain(dead) {
            let during = routed(EngineKind::FabricTree, &broken, first.ranking.as_ref());
            let order = orientation(&broken, &during);
            let there = prove((&whole, &first), (&broken, &during.tables), &order);
            let back = routed(EngineKind::FabricTree, &whole, during.ranking.as_ref());
            let order = orientation(&whole, &back);
            let and_back = prove((&broken, &during), (&whole, &back.tables), &order);
            tried += 1;
            for changed in [there, and_back].into_iter().flatten().flatten() {
                assert_eq!(changed.tally.unreachable_pairs(), 0);
                assert!(changed.pairs < all as u64, "{}", changed.pairs);
                proved += 1;
            }
        }
        assert_eq!(proved, 2 * tried);
    }
}

/// A fault next to the apex needs detours around another one, which changes the order of some
/// switches. The next fault finds the routes in that order.
#[test]
fn a_fault_that_changes_the_order_and_the_next_one_are_proved_from_changes() {
    let whole = pgft(&[4, 4, 4], &[1, 4, 4], &[1, 1, 1], 0);
    let first = routed(EngineKind::FabricTree, &whole, None);
    let cables = whole.cables();
    let aside = cables[cables.len() / 2].a;
    let mut reordered = 0;
    for cable in &cables {
        let broken = whole.without_cables(&[cable.a]);
        let during = routed(EngineKind::FabricTree, &broken, first.ranking.as_ref());
        let order = orientation(&broken, &during);
        if followed(&during) == followed(&first) {
            continue;
        }
        reordered += 1;
        let outcome = prove((&whole, &first), (&broken, &during.tables), &order).unwrap();
        assert_eq!(outcome.unwrap().tally.unreachable_pairs(), 0);
        let more = broken.without_cables(&[aside]);
        let next = routed(EngineKind::FabricTree, &more, during.ranking.as_ref());
        let outcome = prove(
            (&broken, &during),
            (&more, &next.tables),
            &orientation(&more, &next),
        );
        outcome
            .expect("the routes follow the order they name")
            .unwrap();
        let back = routed(EngineKind::FabricTree, &whole, next.ranking.as_ref());
        assert_eq!(back.tables, first.tables);
        assert_eq!(followed(&back), followed(&first));
    }
    assert!(reordered > 0, "no cable is above the apex");
}

#[test]
fn tables_not_adapted_to_a_change_leave_unreachable_pairs() {
    let whole = pgft(&[4, 4, 4], &[1, 4, 4], &[1, 1, 1], 0);
    let first = routed(EngineKind::FabricTree, &whole, None);
    let order = orientation(&whole, &first);
    for cable in whole.cables().into_iter().step_by(5) {
        let broken = whole.without_cables(&[cable.a]);
        let outcome = prove((&whole, &first), (&broken, &first.tables), &order).unwrap();
        assert!(outcome.unwrap().tally.unreachable_pairs() > 0);
    }
    // Two hosts change LIDs, and no entry follows.
    let mut hosts = whole.destinations().iter().filter(|d| d.kind.is_host());
    let (one, other) = (hosts.next().unwrap().lid, hosts.next_back().unwrap().lid);
    let swapped = rebuilt(
        &whole,
        |_| true,
        |d| match d.lid {
            lid if lid == one => other,
            lid if lid == other => one,
            lid => lid,
        },
    );
    let outcome = prove((&whole, &first), (&swapped, &first.tables), &order).unwrap();
    assert!(outcome.unwrap().tally.unreachable_pairs() > 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn the_proof_of_changes_equals_the_whole_proof(
        plan in random::any_fabric(),
        dead in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        switch in any::<Option<prop::sample::Index>>(),
        swap in any::<Option<(prop::sample::Index, prop::sample::Index)>>(),
        spoiled in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0u8..14), 0..6),
        (tree, adapted, back) in any::<(bool, bool, bool)>(),
    ) {
        let kind = if tree { EngineKind::FabricTree } else { EngineKind::UpDn };
        let whole = plan.build();
        let cables = whole.cables();
        let mut broken = whole.clone();
        if !cables.is_empty() {
            let ends: Vec<_> = dead.iter().map(|dead| cables[dead.index(cables.len())].a).collect();
            broken = whole.without_cables(&ends);
        }
        if let Some(switch) = switch {
            let gone = SwitchIdx(switch.index(whole.switch_count()) as u32);
            broken = without_switches(&broken, &[gone]);
        }
        if let (Some((one, other)), false) = (swap, broken.destinations().is_empty()) {
            let lid = |at: &prop::sample::Index| broken.destinations()[at.index(broken.destinations().len())].lid;
            let (one, other) = (lid(&one), lid(&other));
            if plan.lmc == 0 {
                broken = rebuilt(&broken, |_| true, |d| match d.lid {
                    lid if lid == one => other,
                    lid if lid == other => one,
                    lid => lid,
                });
            }
        }
        prop_assume!(broken.switch_count() > 0);
        let (before, after) = if back { (&broken, &whole) } else { (&whole, &broken) };
        let first = routed(kind, before, None);
        let next = routed(kind, after, first.ranking.as_ref());
        let mut tables = if adapted { next.tables.clone() } else { held(before, &first.tables, after) };
        for (switch, lid, byte) in spoiled {
            let lid = Lid(lid.index(after.top_lid().index() + 1) as u16);
            let byte = if byte == 0 { 255 } else { byte };
            tables.lfts[switch.index(after.switch_count())].set_entry(lid, byte);
        }
        prove((before, &first), (after, &tables), &orientation(after, &next));
    }
}
