//! Trees planned from changes equal trees planned as a whole, under any changes of fabric and
//! groups.

use crate::common;
use crate::random;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use common::{pgft, without_switches};
use proptest::prelude::*;
use proptest::sample::Index;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::engine::{EngineKind, Options, Ranking, Routing, route};
use rsm_routing::mcast::{
    Earlier, Followed, Group, Job, Member, Mft, MulticastBasis, Orientation, PortMask, Trees,
    follow, plan,
};
use rsm_routing::topology::{SwitchIdx, Topology};
use rsm_routing::verify::{Dependencies, verify_multicast};

/// The member ports by GUID, each with whether it receives.
type Members = BTreeMap<Guid, bool>;

/// A subnet whose fabric and groups change.
struct Subnet {
    kind: EngineKind,
    whole: Topology,
    /// MulticastFDBCap of switches, by their GUID modulo the number of capacities.
    capacities: Vec<u16>,
    dead_cables: BTreeSet<(Guid, PortNum)>,
    dead_switches: BTreeSet<Guid>,
    groups: BTreeMap<Lid, Members>,
    held: BTreeMap<Guid, Mft>,
    ranking: Option<Ranking>,
    planned: Option<Planned>,
}

/// The last plan, and its inputs.
struct Planned {
    topology: Topology,
    basis: MulticastBasis,
    trees: Trees,
    tables: Vec<Arc<Mft>>,
}

impl Subnet {
    fn new(kind: EngineKind, whole: Topology, capacities: Vec<u16>) -> Subnet {
        Subnet {
            kind,
            whole,
            capacities,
            dead_cables: BTreeSet::new(),
            dead_switches: BTreeSet::new(),
            groups: BTreeMap::new(),
            held: BTreeMap::new(),
            ranking: None,
            planned: None,
        }
    }

    fn topology(&self) -> Topology {
        let dead: Vec<_> = self.dead_cables.iter().copied().collect();
        let topology = self.whole.without_cables(&dead);
        let gone: Vec<_> = self
            .dead_switches
            .iter()
            .filter_map(|&guid| topology.switch_by_guid(guid))
            .collect();
        without_switches(&topology, &gone)
    }

    fn route(&self, topology: &Topology) -> (Routing, Orientation) {
        let options = Options {
            previous_ranking: self.ranking.clone(),
            ..Options::default()
        };
        let routing = route(self.kind, topology, &options, None).unwrap();
        let ranking = routing.ranking.as_ref();
        let ranked = ranking.and_then(|ranking| Orientation::of(topology, ranking));
        (
            routing,
            ranked.unwrap_or_else(|| Orientation::guessed(topology)),
        )
    }

    fn capacity(&self, guid: Guid) -> u16 {
        self.capacities[guid.0 as usize % self.capacities.len()]
    }

    fn groups_on(&self, topology: &Topology) -> Vec<Arc<Group>> {
        let ends = topology.destinations().iter();
        let ports: BTreeMap<Guid, _> = ends.map(|end| (end.guid, (end.switch, end.port))).collect();
        let group = |(&mlid, members): (&Lid, &Members)| {
            let mut members: Vec<Member> = members
                .iter()
                .filter_map(|(guid, &receives)| {
                    let &(switch, port) = ports.get(guid)?;
                    Some(Member {
                        switch,
                        port,
                        receives,
                    })
                })
                .collect();
            members.sort_unstable();
            Arc::new(Group {
                mlid,
                members,
                levels: 1,
            })
        };
        self.groups.iter().map(group).collect()
    }

    /// Plans both ways, and compares. Returns the concerned groups, or why changes were not
    /// followed.
    fn step(&mut self) -> Result<BTreeSet<Lid>, &'static str> {
        let topology = self.topology();
        let (routing, orientation) = self.route(&topology);
        let dependencies = Dependencies::of(&topology, &routing.tables);
        let unicast_follows = dependencies.follows(|high, low| orientation.is_above(high, low));
        let capacities: Vec<u16> = topology
            .switches()
            .iter()
            .map(|s| self.capacity(s.guid))
            .collect();
        let groups = self.groups_on(&topology);
        let empty = Mft::default();
        let held: Vec<&Mft> = topology
            .switches()
            .iter()
            .map(|switch| self.held.get(&switch.guid).unwrap_or(&empty))
            .collect();
        let basis =
            MulticastBasis::new(&topology, &capacities, orientation.clone(), unicast_follows);
        let plan_anew = |basis: &MulticastBasis| {
            let job = Job {
                topology: &topology,
                routing: &routing,
                basis,
                groups: &groups,
                held: &|switch: SwitchIdx, mlid| held[switch.index()].mask(mlid),
            };
            plan(&job)
        };
        let trees = plan_anew(&basis);
        let tables = trees.tables(topology.switch_count());
        let verify = |trees: &Trees, examined: Option<&BTreeSet<Lid>>| {
            let order = unicast_follows.then_some(&orientation);
            let routes = (&routing.tables, &routing.lanes);
            verify_multicast(&topology, routes, order, trees, examined)
        };
        let report = verify(&trees, None);
        assert!(report.loop_free && report.unreached == 0 && report.strays == 0);
        let followed = self
            .planned
            .as_ref()
            .ok_or("nothing was planned")
            .and_then(|planned| {
                let (basis, delta) = planned.basis.follow(
                    &planned.topology,
                    &topology,
                    &capacities,
                    orientation.clone(),
                    unicast_follows,
                )?;
                // The followed basis gives the same trees as one made as a whole.
                assert_eq!(plan_anew(&basis), trees);
                let earlier = Earlier::new(&planned.trees, &planned.tables, &delta);
                let before = earlier.clone();
                let held_otherwise = held_otherwise(&held, &earlier.tables);
                let job = Job {
                    topology: &topology,
                    routing: &routing,
                    basis: &basis,
                    groups: &groups,
                    held: &|switch, mlid| held[switch.index()].mask(mlid),
                };
                let followed = follow(&job, &delta, earlier, &held_otherwise)?;
                assert_eq!(followed.trees, trees);
                assert_eq!(followed.tables, tables);
                assert_eq!(verify(&followed.trees, Some(&followed.concerned)), report);
                assert_shared(&before, &followed);
                Ok((basis, followed))
            });
        self.held.extend(
            topology
                .switches()
                .iter()
                .zip(&tables)
                .map(|(s, t)| (s.guid, Mft::clone(t))),
        );
        self.ranking = routing.ranking;
        let (concerned, basis, trees, tables) = match followed {
            Ok((basis, followed)) => (
                Ok(followed.concerned),
                basis,
                followed.trees,
                followed.tables,
            ),
            Err(why) => (Err(why), basis, trees, tables),
        };
        self.planned = Some(Planned {
            topology,
            basis,
            trees,
            tables,
        });
        concerned
    }

    /// The ports of hosts and switches that can be members.
    fn ends(&self) -> Vec<Guid> {
        self.whole
            .destinations()
            .iter()
            .map(|end| end.guid)
            .collect()
    }

    fn toggle_cable(&mut self, end: (Guid, PortNum)) {
        if !self.dead_cables.remove(&end) {
            self.dead_cables.insert(end);
        }
    }

    fn toggle_switch(&mut self, guid: Guid) {
        if !self.dead_switches.remove(&guid) {
            self.dead_switches.insert(guid);
        }
    }

    fn join(&mut self, offset: u16, guid: Guid, receives: bool) {
        let mlid = Lid(Lid::MULTICAST_FIRST.0 + offset);
        self.groups.entry(mlid).or_default().insert(guid, receives);
    }
}

/// The multicast LIDs that some switch does not hold as planned.
fn held_otherwise(held: &[&Mft], planned: &[Arc<Mft>]) -> BTreeSet<Lid> {
    let tables = held.iter().zip(planned);
    let differing = tables.flat_map(|(held, planned)| {
        let entries = held.entries().chain(planned.entries());
        let differing = entries.filter(|&(mlid, _)| held.mask(mlid) != planned.mask(mlid));
        differing.map(|(mlid, _)| mlid)
    });
    differing.collect()
}

/// Unchanged trees and tables are shared with `before`.
fn assert_shared(before: &Earlier, after: &Followed) {
    for (mlid, tree) in &after.trees.by_mlid {
        if let Some(old) = before.trees.by_mlid.get(mlid) {
            assert_eq!(Arc::ptr_eq(old, tree), old == tree);
        }
    }
    for (old, table) in before.tables.iter().zip(&after.tables) {
        assert_eq!(Arc::ptr_eq(old, table), old == table);
    }
}

/// A tree of three levels with a group of all hosts, and small ones.
fn tree() -> Subnet {
    let whole = pgft(&[3, 4, 3], &[1, 3, 2], &[1, 1, 2], 0);
    let mut subnet = Subnet::new(EngineKind::UpDn, whole, vec![0x3FFF]);
    let hosts: Vec<Guid> = hosts(&subnet.whole);
    for &host in &hosts {
        subnet.join(0, host, true);
    }
    for number in 1..9 {
        for index in 0..4 {
            let host = hosts[(usize::from(number) * 4 + index) * 7 % hosts.len()];
            subnet.join(number, host, index > 0);
        }
    }
    assert!(subnet.step().is_err());
    subnet
}

fn hosts(topology: &Topology) -> Vec<Guid> {
    let ends = topology.destinations().iter();
    ends.filter(|end| end.kind.is_host())
        .map(|end| end.guid)
        .collect()
}

#[test]
fn no_group_is_planned_without_a_change() {
    let mut subnet = tree();
    assert_eq!(subnet.step(), Ok(BTreeSet::new()));
}

#[test]
fn links_that_fail_and_return_concern_trees_that_use_them() {
    let mut subnet = tree();
    let groups = subnet.groups.len();
    let mut planned = 0;
    let cables = subnet.whole.cables();
    for cable in &cables {
        for _ in 0..2 {
            subnet.toggle_cable(cable.a);
            let trees = subnet.step().expect("a link is followed").len();
            assert!(trees < groups, "{trees} for {cable:?}");
            planned += trees;
        }
    }
    // A tree has far fewer links than the fabric.
    assert!(planned < cables.len() * groups / 2, "{planned}");
}

#[test]
fn switches_and_hosts_that_fail_and_return_are_followed() {
    let mut subnet = tree();
    let switches: Vec<Guid> = subnet
        .whole
        .switches()
        .iter()
        .map(|switch| switch.guid)
        .collect();
    for &switch in &switches {
        for _ in 0..2 {
            subnet.toggle_switch(switch);
            subnet.step().expect("a switch is followed");
        }
    }
    let ends: Vec<_> = subnet
        .whole
        .destinations()
        .iter()
        .filter(|end| end.kind.is_host())
        .cloned()
        .collect();
    for end in ends {
        let at = (subnet.whole.switch(end.switch).guid, end.port);
        let members = subnet.groups.values();
        let group_count = members
            .filter(|members| members.contains_key(&end.guid))
            .count();
        for _ in 0..2 {
            subnet.toggle_cable(at);
            let planned = subnet.step().expect("a host is followed");
            assert_eq!(planned.len(), group_count);
        }
    }
}

#[test]
fn joins_and_leaves_concern_their_groups() {
    let mut subnet = tree();
    let hosts = hosts(&subnet.whole);
    for (offset, &host) in (1..9).zip(&hosts) {
        let mlid = Lid(Lid::MULTICAST_FIRST.0 + offset);
        subnet.join(offset, host, true);
        assert!(
            subnet
                .step()
                .expect("a join is followed")
                .is_subset(&[mlid].into())
        );
        subnet.groups.get_mut(&mlid).unwrap().remove(&host);
        assert!(
            subnet
                .step()
                .expect("a leave is followed")
                .is_subset(&[mlid].into())
        );
        let members = subnet.groups.remove(&mlid).unwrap();
        assert_eq!(subnet.step(), Ok([mlid].into()));
        subnet.groups.insert(mlid, members);
        assert_eq!(subnet.step(), Ok([mlid].into()));
    }
}

/// A change of a subnet.
#[derive(Clone, Debug)]
enum Event {
    /// A cable between switches fails, or returns.
    Cable(Index),
    /// A host's or a switch's own cable fails, or returns; port 0 has none.
    End(Index),
    /// A switch fails, or returns; whether its table is empty then.
    Switch(Index, bool),
    Join(u16, Index, bool),
    Leave(u16, Index),
    /// All members leave.
    Disband(u16),
    /// A switch holds another mask.
    Spoil(Index, u16, u8),
    /// A cable is in other ports.
    Rewire(Index, Index),
}

fn event() -> impl Strategy<Value = Event> {
    let at = any::<Index>;
    prop_oneof![
        4 => at().prop_map(Event::Cable),
        2 => at().prop_map(Event::End),
        2 => (at(), any::<bool>()).prop_map(|(at, empty)| Event::Switch(at, empty)),
        3 => (0u16..5, at(), prop::bool::weighted(0.8)).prop_map(|(of, at, receives)| Event::Join(of, at, receives)),
        2 => (0u16..5, at()).prop_map(|(of, at)| Event::Leave(of, at)),
        1 => (0u16..5).prop_map(Event::Disband),
        1 => (at(), 0u16..5, 0u8..12).prop_map(|(at, of, port)| Event::Spoil(at, of, port)),
        1 => (at(), at()).prop_map(|(link, to)| Event::Rewire(link, to)),
    ]
}

impl Subnet {
    fn perform(&mut self, fabric: &mut random::Plan, event: &Event) {
        let ends = self.ends();
        match *event {
            Event::Cable(at) => {
                let cables = self.whole.cables();
                if !cables.is_empty() {
                    self.toggle_cable(cables[at.index(cables.len())].a);
                }
            }
            Event::End(at) => {
                let end = &self.whole.destinations()[at.index(ends.len())];
                let end = (self.whole.switch(end.switch).guid, end.port);
                self.toggle_cable(end);
            }
            Event::Switch(at, empty) => {
                let switches = self.whole.switches();
                let guid = switches[at.index(switches.len())].guid;
                if empty {
                    self.held.remove(&guid);
                }
                self.toggle_switch(guid);
            }
            Event::Join(of, at, receives) => self.join(of, ends[at.index(ends.len())], receives),
            Event::Leave(of, at) => {
                let members = self.groups.get_mut(&Lid(Lid::MULTICAST_FIRST.0 + of));
                if let Some(members) = members.filter(|members| !members.is_empty()) {
                    let guid = *members.keys().nth(at.index(members.len())).unwrap();
                    members.remove(&guid);
                }
            }
            Event::Disband(of) => {
                self.groups.remove(&Lid(Lid::MULTICAST_FIRST.0 + of));
            }
            Event::Spoil(at, of, port) => {
                let switches = self.whole.switches();
                let guid = switches[at.index(switches.len())].guid;
                let mlid = Lid(Lid::MULTICAST_FIRST.0 + of);
                let table = self.held.entry(guid).or_default();
                let mut mask = table.mask(mlid);
                if mask.contains(PortNum(port)) {
                    mask = PortMask::EMPTY;
                } else {
                    mask.insert(PortNum(port));
                }
                table.set(mlid, mask);
            }
            Event::Rewire(link, to) => {
                if !fabric.links.is_empty() {
                    let link = link.index(fabric.links.len());
                    fabric.links[link].1 = to.index(fabric.switches);
                    self.whole = fabric.build();
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 768, ..ProptestConfig::default() })]

    #[test]
    fn following_changes_gives_the_whole_plan(
        fabric in prop_oneof![2 => random::broken_tree(), 1 => random::any_fabric()],
        capacities in prop::collection::vec(prop_oneof![9 => Just(0x3FFF), 1 => Just(0), 1 => Just(2)], 1..5),
        tree in any::<bool>(),
        members in prop::collection::vec((0u16..5, any::<Index>(), prop::bool::weighted(0.8)), 0..30),
        events in prop::collection::vec(prop::collection::vec(event(), 1..3), 1..12),
    ) {
        let kind = if tree { EngineKind::FabricTree } else { EngineKind::UpDn };
        let mut fabric = fabric;
        let mut subnet = Subnet::new(kind, fabric.build(), capacities);
        for (of, at, receives) in members {
            let ends = subnet.ends();
            subnet.join(of, ends[at.index(ends.len())], receives);
        }
        let _first = subnet.step();
        for together in &events {
            for event in together {
                subnet.perform(&mut fabric, event);
            }
            if let Err(why) = subnet.step() {
                prop_assert!([
                    "the routes follow no order",
                    "a tree follows no order",
                    "members have no common top",
                ].contains(&why), "{}", why);
            }
        }
    }
}
