//! Rebalancing takes load off the fullest links while parts are missing, in small steps, each of
//! them sound. All entries go back when nothing is missing.

use crate::common;
use crate::random;

use common::pgft;
use proptest::prelude::*;
use rsm_ids::{Guid, PortNum};
use rsm_routing::engine::{
    EngineKind, Options, Ranking, Routing, Unmoved, misses_parts, rebalance, route,
};
use rsm_routing::generate::{fail, generate};
use rsm_routing::mcast::Orientation;
use rsm_routing::quality::{Settings, link_uses, measure};
use rsm_routing::topology::{EndpointKind, Topology};
use rsm_routing::verify::{Verified, mixture_is_acyclic, verify_whole};

fn options(earlier: Option<&Ranking>) -> Options {
    Options {
        previous_ranking: earlier.cloned(),
        ..Options::default()
    }
}

fn routed(topology: &Topology, earlier: Option<&Ranking>) -> Routing {
    route(EngineKind::FabricTree, topology, &options(earlier), None).unwrap()
}

/// The proof of tables, which must succeed.
fn proved<'a>(topology: &'a Topology, routing: &Routing) -> Verified<'a> {
    let proof = verify_whole(topology, &routing.tables);
    assert!(proof.report.loop_free, "{:?}", proof.report.witnesses);
    assert!(proof.report.credit_loop_free);
    proof
}

/// Whether no packet turns up after going down, by the ranking. Fabrics without ranks may not.
fn follows(topology: &Topology, routing: &Routing, proof: &Verified<'_>) -> bool {
    let order = Orientation::of(topology, routing.ranking.as_ref().unwrap()).unwrap();
    let is_above = |high, low| order.is_above(high, low);
    proof.dependencies.follows(is_above)
}

/// The load of the fullest link between switches: paths to base LIDs, over its rate.
fn fullest(topology: &Topology, routing: &Routing) -> f64 {
    let links = link_uses(topology, &routing.tables).into_iter();
    let loads = links.map(|link| link.paths as f64 / f64::from(link.rate));
    loads.fold(0.0, f64::max)
}

/// Rebalances until no step helps; returns the last routing, and the number of steps.
pub(crate) fn rebalanced(topology: &Topology, broken: Routing, blocks: usize) -> (Routing, usize) {
    let mut routing = broken;
    for step in 0.. {
        let proof = proved(topology, &routing);
        let options = options(routing.ranking.as_ref());
        let Ok(next) = rebalance(topology, &options, &proof.tally, blocks) else {
            return (routing, step);
        };
        let ranking = routing.ranking.as_ref().unwrap();
        assert!(misses_parts(ranking));
        assert!(next.moved > 0);
        let changed = next.routing.tables.blocks_changed(&routing.tables);
        assert!((1..=blocks).contains(&changed), "{changed} blocks");
        assert!(mixture_is_acyclic(
            topology,
            &routing.tables,
            &next.routing.tables
        ));
        let sound = proved(topology, &next.routing);
        assert_eq!(
            follows(topology, &next.routing, &sound),
            follows(topology, &routing, &proof)
        );
        let after = sound.report;
        assert_eq!(after.unreachable_pairs, proof.report.unreachable_pairs);
        assert_eq!(after.average_hops, proof.report.average_hops);
        assert!(fullest(topology, &next.routing) <= fullest(topology, &routing));
        routing = next.routing;
        assert!(step < 1000, "rebalancing does not end");
    }
    unreachable!()
}

/// A tree with two cables between a leaf and each spine, and the same with one of them gone.
fn doubled() -> (Topology, Topology) {
    let intact = pgft(&[16, 8], &[1, 4], &[1, 2], 0);
    let broken = intact.without_cables(&[intact.cables()[17].a]);
    (intact, broken)
}

#[test]
fn a_cable_whose_twin_has_failed_is_relieved() {
    let (intact, broken) = doubled();
    let whole = routed(&intact, None);
    let usual = proved(&intact, &whole).report.load.max;
    let repaired = routed(&broken, whole.ranking.as_ref());
    let before = proved(&broken, &repaired).report.load.max;
    assert!(before > usual * 3 / 2, "{before} after {usual}");
    let (after, steps) = rebalanced(&broken, repaired, 1);
    let fullest = proved(&broken, &after).report.load.max;
    assert!(steps > 1, "{steps} steps");
    // Seven cables of the leaf carry the load of eight.
    let fair = usual * 8 / 7;
    assert!(
        fullest <= fair * 9 / 8 + 16,
        "{fullest} of {before} after {usual}"
    );
    assert!(
        after.reason.contains("while parts are missing"),
        "{}",
        after.reason
    );
}

#[test]
fn rebalanced_entries_go_back_when_all_parts_are_back() {
    let (intact, broken) = doubled();
    let whole = routed(&intact, None);
    let (after, _) = rebalanced(&broken, routed(&broken, whole.ranking.as_ref()), 1000);
    let back = routed(&intact, after.ranking.as_ref());
    assert_eq!(back.tables, whole.tables);
    assert!(!back.reason.contains("while parts"), "{}", back.reason);
    proved(&intact, &back);
    assert!(!misses_parts(back.ranking.as_ref().unwrap()));
}

#[test]
fn moved_entries_stay_through_another_fault() {
    let (intact, broken) = doubled();
    let whole = routed(&intact, None);
    let (after, _) = rebalanced(&broken, routed(&broken, whole.ranking.as_ref()), 1000);
    let other = broken.cables()[40].a;
    let worse = broken.without_cables(&[other]);
    let again = routed(&worse, after.ranking.as_ref());
    proved(&worse, &again);
    let end = worse.switch_by_guid(other.0).unwrap();
    for switch in worse.indices().filter(|&switch| switch != end) {
        let (was, is) = (after.tables.lft(switch), again.tables.lft(switch));
        for lid in was.differing(is) {
            // Only entries that led over the cable, at its other end.
            let port = was.port(lid).unwrap();
            assert!(worse.peer(switch, port).is_none(), "{switch:?} {lid}");
        }
    }
}

#[test]
fn an_intact_fabric_is_left_alone() {
    let (intact, _) = doubled();
    let whole = routed(&intact, None);
    let proof = proved(&intact, &whole);
    let options = options(whole.ranking.as_ref());
    let unmoved = rebalance(&intact, &options, &proof.tally, 1000).unwrap_err();
    assert_eq!(unmoved.to_string(), "no part of the fabric is missing");
}

#[test]
fn rebalancing_that_moves_nothing_gives_the_reason() {
    let (intact, broken) = doubled();
    let whole = routed(&intact, None);
    let (after, _) = rebalanced(&broken, routed(&broken, whole.ranking.as_ref()), 1000);
    let proof = proved(&broken, &after);
    let why = |ranking: Option<&Ranking>| {
        let options = options(ranking);
        let unmoved = rebalance(&broken, &options, &proof.tally, 1000);
        unmoved.unwrap_err()
    };
    // The fullest link is no more than an eighth above the least, or no move relieves it.
    let done = why(after.ranking.as_ref());
    assert!(
        matches!(done, Unmoved::Level { .. } | Unmoved::NoGain { .. }),
        "{done}"
    );
    assert!(
        done.to_string()
            .contains("% of the load that some link has")
    );
    assert_eq!(why(None), Unmoved::OtherRoutes);
}

/// A generated fabric, whole and with faults, and its tables before and after the repair.
fn damaged(spec: &str, faults: &str) -> (Topology, Topology, Routing, Routing) {
    let netlist = generate(spec).unwrap();
    let intact = Topology::from_netlist(&netlist).unwrap();
    let broken = Topology::from_netlist(&fail(netlist, faults).unwrap()).unwrap();
    let whole = routed(&intact, None);
    let repaired = routed(&broken, whole.ranking.as_ref());
    (intact, broken, whole, repaired)
}

/// The mean load of the fullest link in shifts of a fabric with faults, after the repair and after
/// rebalancing.
fn shifts(spec: &str, faults: &str) -> (f64, f64) {
    let (_, broken, _, repaired) = damaged(spec, faults);
    let shift = |routing: &Routing| measure(&broken, &routing.tables, &Settings::default()).shift;
    let before = shift(&repaired).mean;
    let (after, _) = rebalanced(&broken, repaired, 64);
    (before, shift(&after).mean)
}

#[test]
fn links_are_relieved_while_packets_follow_another_order() {
    let (intact, broken, whole, repaired) = damaged("fat-tree:k=8,levels=3", "links=8%,seed=1");
    let ranking = repaired.ranking.as_ref().unwrap();
    assert!(ranking.is_interim, "{}", repaired.reason);
    let before = proved(&broken, &repaired).report.load.max;
    let (after, _) = rebalanced(&broken, repaired, 64);
    let fullest = proved(&broken, &after).report.load.max;
    assert!(fullest * 5 < before * 4, "{fullest} of {before}");
    // Another fault, then the repair of both.
    let worse = broken.without_cables(&[broken.cables()[40].a]);
    let again = routed(&worse, after.ranking.as_ref());
    proved(&worse, &again);
    let back = routed(&intact, again.ranking.as_ref());
    assert_eq!(back.tables, whole.tables);
}

/// The leaf with the fewest links up determines the load of the fullest link; packets on other
/// links avoid each other even so.
#[test]
fn rebalancing_spreads_packets_below_the_fullest_links() {
    let (before, after) = shifts("pgft:2;18,24;1,6;1,2,narrow=3", "links=5%,seed=1");
    assert!(after * 8.0 < before * 7.0, "{after} of {before}");
}

/// The fullest link could carry less, but packets of a shift would meet more often.
#[test]
fn relief_that_slows_shifts_more_than_it_gains_is_skipped() {
    let (before, after) = shifts("pgft:2;18,24;1,12;1,1,uneven=60", "switches=1,seed=2");
    assert!(after <= before, "{after} of {before}");
}

/// Rebalances a fabric without some cables in steps of at most `blocks` blocks, each of which must
/// be sound, until the cables are back.
fn assert_steps_are_sound(intact: &Topology, gone: &[(Guid, PortNum)], blocks: usize) {
    let whole = routed(intact, None);
    let broken = intact.without_cables(gone);
    let (after, _) = rebalanced(&broken, routed(&broken, whole.ranking.as_ref()), blocks);
    let back = routed(intact, after.ranking.as_ref());
    assert_eq!(back.tables, whole.tables);
}

/// Once relief has brought the fullest link below the load of a full one, spreading must not bring
/// another link up to that load.
#[test]
fn spreading_after_relief_fills_no_link_further() {
    let mut plan = random::tree(4, 2, 3, 2);
    plan.ports
        .extend([6, 10, 7].map(|switch| (switch, EndpointKind::Ca)));
    let intact = plan.build();
    let gone = [14, 6].map(|cable| intact.cables()[cable].a);
    assert_steps_are_sound(&intact, &gone, 5);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn steps_are_sound_on_any_fabric(
        plan in random::any_fabric(),
        faults in proptest::collection::vec(any::<proptest::sample::Index>(), 1..4),
        blocks in 1usize..20,
    ) {
        let intact = plan.build();
        let cables = intact.cables();
        prop_assume!(!cables.is_empty());
        let gone: Vec<_> = faults.iter().map(|fault| fault.get(&cables).a).collect();
        assert_steps_are_sound(&intact, &gone, blocks);
    }
}
