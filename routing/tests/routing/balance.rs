//! How evenly links are loaded where leaves, rates or LMCs differ.

use crate::common;
use crate::random;

use common::Fabric;
use proptest::prelude::*;
use rsm_ids::{Guid, Lid, LinkSpeed, LinkWidth};
use rsm_routing::engine::{EngineKind, Options, Ranking, Routing, route};
use rsm_routing::generate::generate;
use rsm_routing::netlist::{Cable, Netlist, NodeKind};
use rsm_routing::quality::{Quality, Settings, measure};
use rsm_routing::tables::Tables;
use rsm_routing::topology::{Destination, Topology};
use rsm_routing::verify::verify;

fn routed(kind: EngineKind, topology: &Topology, earlier: Option<&Ranking>) -> Routing {
    let options = Options {
        previous_ranking: earlier.cloned(),
        ..Options::default()
    };
    route(kind, topology, &options, None).unwrap()
}

fn quality(topology: &Topology, routing: &Routing) -> Quality {
    measure(topology, &routing.tables, &Settings::default())
}

fn assert_sound(topology: &Topology, tables: &Tables) {
    let report = verify(topology, tables);
    assert!(report.loop_free, "{:?}", report.witnesses);
    assert!(report.credit_loop_free, "{:?}", report.witnesses);
    assert_eq!(report.unreachable_pairs, 0, "{:?}", report.witnesses);
}

/// Cables between switches of a generated fabric, changed by `change`, given their number.
fn with_cables(spec: &str, change: impl Fn(usize, &mut Cable)) -> Topology {
    let (nodes, mut cables) = generate(spec).unwrap().into_parts();
    let is_switch = |end: usize| nodes[end].kind == NodeKind::Switch;
    let between = cables
        .iter_mut()
        .filter(|cable| is_switch(cable.a.0) && is_switch(cable.b.0));
    for (number, cable) in between.enumerate() {
        change(number, cable);
    }
    Topology::from_netlist(&Netlist::new(nodes, cables).unwrap()).unwrap()
}

#[test]
fn an_uneven_tree_whose_fullest_leaf_cannot_be_relieved_keeps_the_closed_form() {
    let netlist = generate("fat-tree:k=12,levels=3,uneven=40").unwrap();
    let topology = Topology::from_netlist(&netlist).unwrap();
    let routing = routed(EngineKind::FabricTree, &topology, None);
    assert!(!routing.reason.contains("taken off"), "{}", routing.reason);
    let quality = quality(&topology, &routing);
    assert!(quality.shift.max <= 2, "{:?}", quality.shift);
    // A full leaf has as many links up as hosts, which send to nearly all hosts.
    let hosts = quality.hosts as u64;
    assert!(quality.paths.max * 20 <= hosts * 21, "{:?}", quality.paths);
}

#[test]
fn an_uneven_leaf_is_relieved_to_what_its_links_up_allow() {
    let netlist = generate("pgft:2;18,12;1,18;1,1,uneven=40").unwrap();
    let topology = Topology::from_netlist(&netlist).unwrap();
    let routing = routed(EngineKind::FabricTree, &topology, None);
    let quality = quality(&topology, &routing);
    // Few moves, which leave shifts as they are.
    assert!(quality.paths.max <= 168, "{:?}", quality.paths);
    assert!(quality.shift.mean < 1.9, "{:?}", quality.shift);
}

/// Moves that look at loads only take the mean shift to 4.1 flows.
#[test]
fn moves_off_full_links_keep_neighbouring_destinations_on_different_links() {
    let netlist = generate("pgft:2;18,24;1,6;1,2,narrow=3").unwrap();
    let topology = Topology::from_netlist(&netlist).unwrap();
    let routing = routed(EngineKind::FabricTree, &topology, None);
    assert!(routing.reason.contains("taken off"), "{}", routing.reason);
    let by_rate = quality(&topology, &routing);
    assert!(by_rate.paths.max <= 738, "{:?}", by_rate.paths);
    assert!(by_rate.shift.mean < 5.0, "{:?}", by_rate.shift);
    // The same cables, all of one rate: numbers of flows.
    let netlist = generate("pgft:2;18,24;1,6;1,2").unwrap();
    let wide = Topology::from_netlist(&netlist).unwrap();
    let shift = quality(&wide, &routing).shift;
    assert!(shift.mean < 3.7, "{shift:?}");
}

/// The engine weighs relief of the fullest link against shifts: this leaf of 18 hosts has 464
/// paths on its fullest link and 3.15 flows in shifts where only the link counts.
#[test]
fn relief_that_costs_shifts_more_than_it_gains_is_skipped() {
    let netlist = generate("pgft:2;18,24;1,12;1,1,uneven=60").unwrap();
    let topology = Topology::from_netlist(&netlist).unwrap();
    let routing = routed(EngineKind::FabricTree, &topology, None);
    let quality = quality(&topology, &routing);
    assert!(quality.paths.max <= 602, "{:?}", quality.paths);
    assert!(quality.shift.mean < 2.3, "{:?}", quality.shift);
}

#[test]
fn one_cable_at_a_hundredth_of_the_rate_carries_next_to_nothing_and_ranks_stay() {
    let whole = with_cables("fat-tree:k=8,levels=3,speed=NDR", |_, _| ());
    let intact = routed(EngineKind::FabricTree, &whole, None);
    for slow in [0, 17, 100, 200, 255] {
        let topology = with_cables("fat-tree:k=8,levels=3,speed=NDR", |number, cable| {
            if number == slow {
                (cable.width, cable.speed) = (LinkWidth::X1, LinkSpeed::Sdr);
            }
        });
        // Two destinations meet on one of three links instead of four; one engine relieves it.
        for (kind, most) in [(EngineKind::FabricTree, 1.7), (EngineKind::UpDn, 2.5)] {
            let routing = routed(kind, &topology, None);
            assert_sound(&topology, &routing.tables);
            assert_eq!(routing.ranks, intact.ranks);
            let paths = quality(&topology, &routing).paths;
            assert!(
                paths.rate_max_over_mean < most,
                "{kind:?}, cable {slow}: {paths:?}"
            );
        }
    }
}

#[test]
fn links_of_two_rates_carry_load_by_rate_in_both_directions() {
    let mut fabric = Fabric::new();
    let leaves = fabric.switches(6);
    let spines = fabric.switches(4);
    for (index, &leaf) in leaves.iter().enumerate() {
        fabric.hosts(leaf, 12);
        for (number, &spine) in spines.iter().enumerate() {
            let is_slow = index == 0 && number % 2 == 0;
            fabric.link_of_rate(leaf, spine, if is_slow { 100 } else { 200 });
        }
    }
    let topology = fabric.build();
    let routing = routed(EngineKind::FabricTree, &topology, None);
    assert_sound(&topology, &routing.tables);
    // The links of the slow leaf have a total rate of 600, for packets of 12 hosts from and to 60.
    let least = 12 * 60 * 200 / 600;
    let worst = &quality(&topology, &routing).worst[0];
    let load = worst.paths * 200 / u64::from(worst.rate);
    assert!(load * 10 <= least * 11, "{load} for {least}: {worst:?}");
}

#[test]
fn a_slow_cable_takes_over_when_the_fast_ones_beside_it_are_gone() {
    for kind in [EngineKind::FabricTree, EngineKind::UpDn] {
        let mut fabric = Fabric::new();
        let leaves = fabric.switches(3);
        let spine = fabric.switches(1)[0];
        for &leaf in &leaves {
            fabric.hosts(leaf, 4);
            for rate in [400, 400, 2] {
                fabric.link_of_rate(leaf, spine, rate);
            }
        }
        let topology = fabric.build();
        let first = routed(kind, &topology, None);
        assert_sound(&topology, &first.tables);
        let slow: u64 = rsm_routing::quality::link_uses(&topology, &first.tables)
            .iter()
            .filter(|link| link.rate == 2)
            .map(|link| link.paths)
            .sum();
        assert_eq!(slow, 0);
        // The first two cables of the first leaf, by port.
        let gone: Vec<_> = topology.cables()[..2].iter().map(|cable| cable.a).collect();
        let broken = topology.without_cables(&gone);
        let during = routed(kind, &broken, first.ranking.as_ref());
        assert_sound(&broken, &during.tables);
        let after = routed(kind, &topology, during.ranking.as_ref());
        assert_eq!(after.tables, first.tables);
    }
}

/// The entry of each host's base LID at each switch, as (switch GUID, port GUID, port).
fn base_entries(topology: &Topology, tables: &Tables) -> Vec<(Guid, Guid, u8)> {
    let hosts = || topology.destinations().iter().filter(|d| d.kind.is_host());
    let of_switch = |switch| {
        let guid = topology.switch(switch).guid;
        let entry = move |host: &Destination| tables.lft(switch).entry(host.lid);
        hosts().map(move |host| (guid, host.guid, entry(host)))
    };
    let mut entries: Vec<_> = topology.indices().flat_map(of_switch).collect();
    entries.sort_unstable();
    entries
}

/// A tree whose leaves have different numbers of hosts and cables.
fn irregular(lmc: u8) -> Topology {
    let mut fabric = Fabric::with_lmc(lmc);
    let spines = fabric.switches(5);
    for (number, hosts) in [2, 11, 5, 8, 3, 9, 12, 4, 7, 10].into_iter().enumerate() {
        let leaf = fabric.switches(1)[0];
        fabric.hosts(leaf, hosts);
        for (index, &spine) in spines.iter().enumerate() {
            for _ in 0..1 + (number * index) % 3 {
                fabric.link(leaf, spine);
            }
        }
    }
    fabric.build()
}

#[test]
fn base_lids_are_levelled_as_with_lmc_0_and_further_lids_use_other_links() {
    let first = irregular(0);
    let plain = routed(EngineKind::FabricTree, &first, None);
    assert!(plain.reason.contains("taken off"), "{}", plain.reason);
    for lmc in [1, 2] {
        let topology = irregular(lmc);
        let tables = routed(EngineKind::FabricTree, &topology, None).tables;
        assert_sound(&topology, &tables);
        assert_eq!(
            base_entries(&topology, &tables),
            base_entries(&first, &plain.tables)
        );
        for host in topology.destinations().iter().filter(|d| d.kind.is_host()) {
            let leaves = topology
                .indices()
                .filter(|&leaf| topology.hosts(leaf) > 0 && leaf != host.switch);
            for leaf in leaves {
                let entry = |lid: u16| tables.lft(leaf).entry(Lid(lid));
                assert_ne!(entry(host.lid.0), entry(host.lid.0 + 1));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn base_lids_have_the_same_entries_with_any_lmc(plan in random::any_fabric()) {
        for kind in [EngineKind::FabricTree, EngineKind::UpDn, EngineKind::MinHop] {
            let of_lmc = |lmc: u8| {
                let plan = random::Plan { lmc, ..plan.clone() };
                let topology = plan.build();
                let tables = routed(kind, &topology, None).tables;
                base_entries(&topology, &tables)
            };
            let plain = of_lmc(0);
            for lmc in [1, 2] {
                prop_assert_eq!(&of_lmc(lmc), &plain, "{:?}", kind);
            }
        }
    }

    #[test]
    fn links_of_very_different_rates_lose_no_pair(
        plan in random::broken_tree(),
        rates in proptest::collection::vec(prop::sample::select(vec![400u32, 100, 3]), 8),
        gone in proptest::collection::vec(any::<prop::sample::Index>(), 1..5),
    ) {
        let mut plan = plan;
        for (number, link) in plan.links.iter_mut().enumerate() {
            link.3 = rates[number % rates.len()];
        }
        let topology = plan.build();
        let cables = topology.cables();
        for kind in [EngineKind::FabricTree, EngineKind::UpDn, EngineKind::MinHop] {
            let first = routed(kind, &topology, None);
            if kind != EngineKind::MinHop {
                assert_sound(&topology, &first.tables);
            }
            if cables.is_empty() || kind == EngineKind::MinHop {
                continue;
            }
            let gone: Vec<_> = gone.iter().map(|at| cables[at.index(cables.len())].a).collect();
            let broken = topology.without_cables(&gone);
            let during = routed(kind, &broken, first.ranking.as_ref());
            assert_sound(&broken, &during.tables);
            if kind == EngineKind::FabricTree {
                let after = routed(kind, &topology, during.ranking.as_ref());
                prop_assert_eq!(&after.tables, &first.tables);
            }
        }
    }
}
