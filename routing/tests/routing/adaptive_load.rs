//! Load under adaptive routing, for the best and the worst choices of switches.

use std::collections::{BTreeMap, BTreeSet};

use crate::adaptive::{routed, with_groups};
use crate::common::pgft;
use crate::random;

use proptest::prelude::*;
use rsm_ids::{Lid, PortNum};
use rsm_routing::adaptive::AdaptiveTables;
use rsm_routing::engine::EngineKind;
use rsm_routing::generate::generate;
use rsm_routing::quality::{
    ADAPTIVE_SHIFTS, AdaptiveQuality, Settings, measure, measure_adaptive, topological_order,
};
use rsm_routing::tables::Tables;
use rsm_routing::topology::{Destination, SwitchIdx, Topology};
use rsm_routing::verify::Held;

type Link = (SwitchIdx, PortNum);

/// A fabric with what its switches hold.
struct Fabric<'a> {
    topology: &'a Topology,
    tables: &'a Tables,
    groups: &'a AdaptiveTables,
}

impl Fabric<'_> {
    fn measured(&self) -> AdaptiveQuality {
        let held = Held {
            tables: self.tables,
            adaptive: self.groups,
        };
        measure_adaptive(self.topology, held, 1).unwrap()
    }

    fn links(&self, at: SwitchIdx, lid: Lid) -> Vec<(Link, SwitchIdx)> {
        let ports = self.groups.ports(self.tables, at, lid);
        let links = ports.ports().filter_map(|port| {
            let (peer, _) = self.topology.peer(at, port)?;
            Some(((at, port), peer))
        });
        links.collect()
    }

    /// Every link that a packet may pass.
    fn may_pass(&self, at: SwitchIdx, to: &Destination, passed: &mut BTreeSet<Link>) {
        if at == to.switch {
            return;
        }
        for (link, next) in self.links(at, to.lid) {
            passed.insert(link);
            self.may_pass(next, to, passed);
        }
    }

    /// Adds `amount` to `loads`, in equal shares of the links at each switch.
    fn spread(
        &self,
        at: SwitchIdx,
        to: &Destination,
        amount: f64,
        loads: &mut BTreeMap<Link, f64>,
    ) {
        if at == to.switch {
            return;
        }
        let links = self.links(at, to.lid);
        let share = amount / links.len() as f64;
        for (link, next) in links {
            *loads.entry(link).or_default() += share;
            self.spread(next, to, share, loads);
        }
    }

    /// The load of the fullest link if switches choose badly, and if they spread evenly.
    fn fullest(&self, pairs: &[(&Destination, &Destination)]) -> (f64, f64) {
        let (mut badly, mut evenly) = (BTreeMap::<Link, f64>::new(), BTreeMap::new());
        for (from, to) in pairs {
            let mut passed = BTreeSet::new();
            self.may_pass(from.switch, to, &mut passed);
            for link in passed {
                *badly.entry(link).or_default() += 1.0;
            }
            self.spread(from.switch, to, 1.0, &mut evenly);
        }
        let most = |loads: &BTreeMap<Link, f64>| loads.values().copied().fold(0.0, f64::max);
        (most(&badly), most(&evenly))
    }
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-6
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn load_is_that_of_following_every_choice(plan in random::broken_tree()) {
        let topology = plan.build();
        let hosts: Vec<&Destination> = topological_order(&topology).collect();
        prop_assume!((2..=ADAPTIVE_SHIFTS + 1).contains(&hosts.len()));
        let routing = routed(EngineKind::FabricTree, &topology, None);
        let groups = with_groups(&topology, &routing).tables;
        let fabric = Fabric { topology: &topology, tables: &routing.tables, groups: &groups };
        let measured = fabric.measured();
        prop_assert_eq!((measured.shifts, measured.of), (hosts.len() - 1, hosts.len() - 1));

        let (mut badly, mut evenly) = (0f64, 0f64);
        for distance in 1..hosts.len() {
            let to = |index: usize| hosts[(index + distance) % hosts.len()];
            let pairs: Vec<_> = (0..hosts.len()).map(|index| (hosts[index], to(index))).collect();
            let fullest = fabric.fullest(&pairs);
            (badly, evenly) = (badly.max(fullest.0), evenly.max(fullest.1));
        }
        let shift = measured.shift;
        prop_assert!(is_near(shift.badly, badly), "{} {}", shift.badly, badly);
        prop_assert!(is_near(shift.evenly, evenly), "{} {}", shift.evenly, evenly);
        let well = shift.well.unwrap();
        prop_assert!(well <= shift.fixed && shift.fixed <= shift.badly, "{:?}", shift);
        prop_assert!(shift.evenly <= shift.badly, "{:?}", shift);
        prop_assert!(well >= 1.0 || shift.badly == 0.0, "{:?}", shift);

        let all = hosts.iter().flat_map(|from| hosts.iter().map(move |to| (*from, *to)));
        let pairs: Vec<_> = all.filter(|(from, to)| from.guid != to.guid).collect();
        let (badly, evenly) = fabric.fullest(&pairs);
        let all_to_all = measured.all_to_all;
        prop_assert!(is_near(all_to_all.badly, badly), "{} {}", all_to_all.badly, badly);
        prop_assert!(is_near(all_to_all.evenly, evenly), "{} {}", all_to_all.evenly, evenly);
        let uses = rsm_routing::quality::link_uses(&topology, &routing.tables);
        let fixed = uses.iter().map(|link| link.paths).max().unwrap_or(0);
        prop_assert!(is_near(all_to_all.fixed, fixed as f64), "{} {}", all_to_all.fixed, fixed);
    }
}

#[test]
fn on_an_intact_tree_good_choices_share_no_link_and_bad_ones_fill_one() {
    let topology = pgft(&[4, 4], &[1, 4], &[1, 1], 0);
    let routing = routed(EngineKind::FabricTree, &topology, None);
    let groups = with_groups(&topology, &routing).tables;
    let fabric = Fabric {
        topology: &topology,
        tables: &routing.tables,
        groups: &groups,
    };
    let measured = fabric.measured();
    assert_eq!(measured.shift.fixed, 1.0);
    assert_eq!(measured.shift.well, Some(1.0));
    assert!(is_near(measured.shift.evenly, 1.0));
    // All four hosts of a leaf choose the same port.
    assert_eq!(measured.shift.badly, 4.0);
    // 4 hosts to 12 elsewhere, over 4 ports or all over one.
    assert!(is_near(measured.all_to_all.evenly, 12.0));
    assert_eq!(measured.all_to_all.badly, 48.0);
}

#[test]
fn loads_are_relative_to_link_rates() {
    let netlist = generate("pgft:2;3,5;1,3;1,1,slow=50").unwrap();
    let topology = Topology::from_netlist(&netlist).unwrap();
    let routing = routed(EngineKind::FabricTree, &topology, None);
    let groups = with_groups(&topology, &routing).tables;
    let fabric = Fabric {
        topology: &topology,
        tables: &routing.tables,
        groups: &groups,
    };
    let measured = fabric.measured();
    let quality = measure(&topology, &routing.tables, &Settings::default());
    assert_eq!(measured.all_to_all.fixed, quality.paths.rate_max);
    assert_eq!((measured.shifts, quality.shift.phases), (14, 14));
    assert_eq!(measured.shift.fixed.ceil(), f64::from(quality.shift.max));
    assert!(measured.shift.well.unwrap() <= measured.shift.fixed);
}

#[test]
fn good_choices_avoid_links_that_routes_share_after_a_fault() {
    let topology = pgft(&[4, 4], &[1, 4], &[1, 1], 0);
    let whole = routed(EngineKind::FabricTree, &topology, None);
    let leaf = topology
        .indices()
        .find(|&leaf| topology.hosts(leaf) > 0)
        .unwrap();
    let port = topology.groups(leaf).next().unwrap().links[0].port;
    let broken = topology.without_cables(&[(topology.switch(leaf).guid, port)]);
    let routing = routed(EngineKind::FabricTree, &broken, whole.ranking.as_ref());
    let groups = with_groups(&broken, &routing).tables;
    let fabric = Fabric {
        topology: &broken,
        tables: &routing.tables,
        groups: &groups,
    };
    let shift = fabric.measured().shift;
    // Three links for four hosts.
    assert_eq!(shift.well, Some(2.0));
    assert!(is_near(shift.evenly, 4.0 / 3.0), "{}", shift.evenly);
    assert_eq!(shift.badly, 4.0);
}

#[test]
fn load_of_looping_choices_is_not_measured() {
    let topology = crate::common::ring(4);
    let routing = routed(EngineKind::UpDn, &topology, None);
    let mut groups = with_groups(&topology, &routing).tables;
    for switch in topology.indices() {
        let links = topology.groups(switch).flat_map(|group| group.links);
        let ports = links.map(|link| link.port).collect();
        groups.switches[switch.index()].set_group(9, ports);
        for host in topology
            .destinations()
            .iter()
            .filter(|host| host.switch != switch)
        {
            groups.switches[switch.index()].set_entry(host.lid, 9);
        }
    }
    let held = Held {
        tables: &routing.tables,
        adaptive: &groups,
    };
    assert_eq!(measure_adaptive(&topology, held, 1), None);
}
