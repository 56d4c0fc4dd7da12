//! Multicast trees: every member gets each packet once, no other port does, and no tree deadlocks.

use crate::common;
use crate::random;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use common::{Fabric, pgft, ring};
use proptest::prelude::*;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::engine::{EngineKind, Options, Routing, route};
use rsm_routing::mcast::{
    self, Group, Job, Member, MulticastBasis, Orientation, PortMask, Tree, Trees,
};
use rsm_routing::topology::{EndpointKind, SwitchIdx, Topology};
use rsm_routing::verify::{
    Dependencies, LaneDependencies, MulticastReport, MulticastWitness, verify_lanes,
    verify_multicast,
};

/// MulticastFDBCap of a switch that has room for every multicast LID.
const ROOM: u16 = 0x3FFF;

const MLID: Lid = Lid(0xC001);

/// A routed fabric for trees.
struct Bed {
    topology: Topology,
    routing: Routing,
    basis: MulticastBasis,
    unicast_follows: bool,
    unicast_is_free: bool,
}

impl Bed {
    fn new(topology: Topology, kind: EngineKind, capacities: &[u16]) -> Bed {
        let routing = route(kind, &topology, &Options::default(), None).unwrap();
        let orientation = match &routing.ranking {
            Some(ranking) => Orientation::of(&topology, ranking).unwrap(),
            None => Orientation::guessed(&topology),
        };
        let dependencies = Dependencies::of(&topology, &routing.tables);
        let unicast_follows = dependencies.follows(|high, low| orientation.is_above(high, low));
        let unicast_is_free = if routing.lanes.is_single() {
            dependencies.is_acyclic()
        } else {
            verify_lanes(&topology, &routing.tables, &routing.lanes).is_sound()
        };
        assert!(unicast_is_free || !unicast_follows, "an order is a proof");
        Bed {
            basis: MulticastBasis::new(&topology, capacities, orientation, unicast_follows),
            unicast_follows,
            unicast_is_free,
            routing,
            topology,
        }
    }

    fn ranked(topology: Topology) -> Bed {
        let capacities = vec![ROOM; topology.switch_count()];
        let bed = Bed::new(topology, EngineKind::UpDn, &capacities);
        assert!(bed.unicast_follows);
        bed
    }

    fn plan(&self, groups: &[Arc<Group>], held: &Trees) -> Trees {
        let held = |switch: SwitchIdx, mlid: Lid| {
            let tree = held.by_mlid.get(&mlid);
            tree.map_or(PortMask::EMPTY, |tree| tree.mask(switch))
        };
        mcast::plan(&Job {
            topology: &self.topology,
            routing: &self.routing,
            basis: &self.basis,
            groups,
            held: &held,
        })
    }

    fn verify(&self, trees: &Trees) -> MulticastReport {
        let orientation = self.unicast_follows.then(|| self.basis.orientation());
        verify_multicast(
            &self.topology,
            (&self.routing.tables, &self.routing.lanes),
            orientation,
            trees,
            None,
        )
    }

    fn is_free_together(&self, trees: &Trees) -> bool {
        let Routing { tables, lanes, .. } = &self.routing;
        if lanes.is_single() {
            let mut all = Dependencies::of(&self.topology, tables);
            for tree in trees.by_mlid.values() {
                all.add_multicast(&tree.masks);
            }
            return all.is_acyclic();
        }
        let mut all = LaneDependencies::of(&self.topology, &[tables], lanes);
        for tree in trees.by_mlid.values() {
            all.add_multicast(&tree.masks, tree.group.levels);
        }
        all.is_sound()
    }

    /// Checks all promises of trees, by the report and by sending a packet from every member.
    fn assert_sound(&self, trees: &Trees) -> MulticastReport {
        let report = self.verify(trees);
        assert!(report.loop_free, "{:?}", report.witnesses);
        assert_eq!(report.unreached, 0, "{:?}", report.witnesses);
        assert_eq!(report.strays, 0, "{:?}", report.witnesses);
        if self.unicast_is_free {
            assert!(report.credit_loop_free, "{:?}", report.witnesses);
            assert!(
                self.is_free_together(trees),
                "the report accepts a cycle of waiting channels"
            );
        }
        let tables = trees.tables(self.topology.switch_count());
        for (&mlid, tree) in &trees.by_mlid {
            for part in &tree.parts {
                for sender in part {
                    let got = flood(&self.topology, |at| tables[at.index()].mask(mlid), sender);
                    let mut expected: Vec<_> = part
                        .iter()
                        .filter(|member| member.receives)
                        .map(|member| (member.switch, member.port))
                        .filter(|&at| at != (sender.switch, sender.port))
                        .collect();
                    expected.sort();
                    assert_eq!(got, expected, "from {sender:?} to {mlid:?}");
                }
            }
        }
        report
    }
}

/// The ports that a packet of `sender` comes out of, sorted, one entry for each time it does.
pub(crate) fn flood(
    topology: &Topology,
    mask: impl Fn(SwitchIdx) -> PortMask,
    sender: &Member,
) -> Vec<(SwitchIdx, PortNum)> {
    let mut exits = Vec::new();
    let mut queue = vec![(sender.switch, sender.port)];
    let mut done = 0;
    while let Some(&(switch, entry)) = queue.get(done) {
        done += 1;
        assert!(done <= topology.switch_count(), "the packet loops");
        for port in mask(switch).ports().filter(|&port| port != entry) {
            match topology.peer(switch, port) {
                Some(next) => queue.push(next),
                None => exits.push((switch, port)),
            }
        }
    }
    exits.sort();
    exits
}

pub(crate) fn group(mlid: Lid, members: impl IntoIterator<Item = Member>) -> Arc<Group> {
    let mut members: Vec<Member> = members.into_iter().collect();
    members.sort_unstable();
    members.dedup_by_key(|member| (member.switch, member.port));
    Arc::new(Group {
        mlid,
        members,
        levels: 1,
    })
}

pub(crate) fn member(topology: &Topology, destination: usize, receives: bool) -> Member {
    let destination = &topology.destinations()[destination];
    Member {
        switch: destination.switch,
        port: destination.port,
        receives,
    }
}

pub(crate) fn hosts(topology: &Topology) -> Vec<Member> {
    let all = topology.destinations().iter().enumerate();
    all.filter(|(_, destination)| destination.kind == EndpointKind::Ca)
        .map(|(index, _)| member(topology, index, true))
        .collect()
}

/// The switches whose mask differs.
fn changed(before: &Tree, after: &Tree) -> BTreeSet<SwitchIdx> {
    let switches = before.masks.iter().chain(&after.masks).map(|&(at, _)| at);
    switches
        .filter(|&switch| before.mask(switch) != after.mask(switch))
        .collect()
}

fn tree() -> Topology {
    pgft(&[3, 4, 3], &[1, 3, 2], &[1, 1, 2], 0)
}

#[test]
fn all_hosts_of_a_tree_receive_from_each_other() {
    let bed = Bed::ranked(tree());
    let all = group(MLID, hosts(&bed.topology));
    let trees = bed.plan(&[all], &Trees::default());
    let report = bed.assert_sound(&trees);
    assert_eq!(report.unserved, 0);
    let tree = &trees.by_mlid[&MLID];
    assert_eq!(tree.parts.len(), 1);
    // Twelve leaves, a switch above the leaves of each of three pods, one on top.
    assert_eq!(tree.masks.len(), 12 + 3 + 1);
}

#[test]
fn members_of_one_switch_need_no_other() {
    let bed = Bed::ranked(tree());
    let hosts = hosts(&bed.topology);
    let leaf = hosts[0].switch;
    let local = hosts.into_iter().filter(|host| host.switch == leaf);
    let trees = bed.plan(&[group(MLID, local)], &Trees::default());
    bed.assert_sound(&trees);
    let masks = &trees.by_mlid[&MLID].masks;
    assert!(
        matches!(masks[..], [(only, _)] if only == leaf),
        "{masks:?}"
    );
}

#[test]
fn multicast_lids_use_the_top_switches_in_turn() {
    let bed = Bed::ranked(tree());
    let all = hosts(&bed.topology);
    let groups: Vec<_> = (0..24)
        .map(|offset| group(Lid(MLID.0 + offset), all.clone()))
        .collect();
    let trees = bed.plan(&groups, &Trees::default());
    bed.assert_sound(&trees);
    let is_leaf = |switch: SwitchIdx| bed.topology.hosts(switch) > 0;
    let mut uses: BTreeMap<SwitchIdx, usize> = BTreeMap::new();
    for tree in trees.by_mlid.values() {
        for &(switch, _) in tree.masks.iter().filter(|(switch, _)| !is_leaf(*switch)) {
            *uses.entry(switch).or_default() += 1;
        }
    }
    // Six switches on top with 24 trees, nine below them with 3 times 24.
    let mut uses: Vec<usize> = uses.into_values().collect();
    uses.sort_unstable();
    assert_eq!(uses, [4, 4, 4, 4, 4, 4, 8, 8, 8, 8, 8, 8, 8, 8, 8]);
}

#[test]
fn send_only_members_receive_nothing() {
    let bed = Bed::ranked(tree());
    let mut members = hosts(&bed.topology);
    let count = members.len();
    for sender in &mut members[..count - 1] {
        sender.receives = false;
    }
    let trees = bed.plan(&[group(MLID, members)], &Trees::default());
    bed.assert_sound(&trees);
    // The remaining links lead to the only member that receives.
    let tree = &trees.by_mlid[&MLID];
    assert!(tree.masks.iter().all(|(_, mask)| mask.ports().count() == 1));
}

#[test]
fn a_join_adds_a_branch_and_a_leave_removes_it() {
    let bed = Bed::ranked(tree());
    let hosts = hosts(&bed.topology);
    let pod = hosts.len() / 3;
    // Two in the first pod, one in the second; then one more switch of the second, and a new pod.
    let few = [hosts[0], hosts[4], hosts[pod]];
    let before = bed.plan(&[group(MLID, few)], &Trees::default());
    bed.assert_sound(&before);
    for newcomer in [hosts[pod + 4], hosts[2 * pod], hosts[1]] {
        let more = group(MLID, few.into_iter().chain([newcomer]));
        let after = bed.plan(&[more], &before);
        bed.assert_sound(&after);
        let (old, new) = (&before.by_mlid[&MLID], &after.by_mlid[&MLID]);
        let touched = changed(old, new);
        assert!(touched.len() <= 3, "{touched:?}");
        for &(switch, mask) in &old.masks {
            assert!(mask.ports().all(|port| new.mask(switch).contains(port)));
        }
        let back = bed.plan(&[group(MLID, few)], &after);
        assert_eq!(back, before);
    }
}

#[test]
fn a_broken_link_moves_only_trees_that_use_it() {
    let bed = Bed::ranked(tree());
    let all = hosts(&bed.topology);
    let groups: Vec<_> = (0..12)
        .map(|offset| group(Lid(MLID.0 + offset), all.clone()))
        .collect();
    let before = bed.plan(&groups, &Trees::default());
    let leaf = all[0].switch;
    let broken = bed.topology.groups(leaf).next().unwrap().links[0].port;
    let guid = bed.topology.switch(leaf).guid;
    let degraded = bed.topology.without_cables(&[(guid, broken)]);
    let options = Options {
        previous_ranking: bed.routing.ranking.clone(),
        ..Options::default()
    };
    let routing = route(EngineKind::UpDn, &degraded, &options, None).unwrap();
    let orientation = Orientation::of(&degraded, routing.ranking.as_ref().unwrap()).unwrap();
    let capacities = vec![ROOM; degraded.switch_count()];
    let after = Bed {
        basis: MulticastBasis::new(&degraded, &capacities, orientation, true),
        topology: degraded,
        routing,
        unicast_follows: true,
        unicast_is_free: true,
    };
    let trees = after.plan(&groups, &before);
    after.assert_sound(&trees);
    let mut moved = 0;
    for (mlid, old) in &before.by_mlid {
        let new = &trees.by_mlid[mlid];
        if old.mask(leaf).contains(broken) {
            moved += 1;
            // The leaf, its old and its new switch above, and the switches above that one.
            assert!((2..=5).contains(&changed(old, new).len()));
        } else {
            assert_eq!(old, new, "{mlid:?} does not use the link");
        }
    }
    assert!((1..12).contains(&moved), "{moved}");
}

#[test]
fn switches_without_multicast_are_avoided() {
    let topology = tree();
    let tops: Vec<SwitchIdx> = topology
        .indices()
        .filter(|&switch| {
            topology.hosts(switch) == 0
                && topology
                    .groups(switch)
                    .all(|group| topology.hosts(group.neighbour) == 0)
        })
        .collect();
    let mut capacities = vec![ROOM; topology.switch_count()];
    // Of six top switches all but the last cannot, or not for this multicast LID.
    for (index, top) in tops[..5].iter().enumerate() {
        capacities[top.index()] = [0, 1][index % 2];
    }
    let bed = Bed::new(topology, EngineKind::UpDn, &capacities);
    let trees = bed.plan(
        &[
            group(Lid(0xC000), hosts(&bed.topology)),
            group(MLID, hosts(&bed.topology)),
        ],
        &Trees::default(),
    );
    let report = bed.assert_sound(&trees);
    assert_eq!(report.unserved, 0);
    let tree = &trees.by_mlid[&MLID];
    assert!(tops[..5].iter().all(|&top| tree.mask(top).is_empty()));
    assert!(!tree.mask(tops[5]).is_empty());
}

#[test]
fn members_at_a_switch_without_multicast_are_unserved() {
    let topology = tree();
    let leaf = hosts(&topology)[0].switch;
    let mut capacities = vec![ROOM; topology.switch_count()];
    capacities[leaf.index()] = 0;
    let bed = Bed::new(topology, EngineKind::UpDn, &capacities);
    let all = hosts(&bed.topology);
    let trees = bed.plan(&[group(MLID, all)], &Trees::default());
    let report = bed.assert_sound(&trees);
    assert_eq!(report.unserved, 3);
    assert_eq!(trees.by_mlid[&MLID].unserved(), 3);
}

#[test]
fn lids_that_are_not_multicast_have_no_tree() {
    let bed = Bed::ranked(ring(4));
    let all = hosts(&bed.topology);
    for lid in [Lid(0), Lid(0xBFFF), Lid(0xFFFF)] {
        let trees = bed.plan(&[group(lid, all.clone())], &Trees::default());
        assert_eq!(trees.by_mlid[&lid].unserved(), 4);
        bed.assert_sound(&trees);
    }
}

#[test]
fn a_ring_by_minhop_gets_a_tree_where_it_has_no_order() {
    // The shortest paths round a ring of five form a credit loop, also without the tree.
    let topology = ring(5);
    let capacities = vec![ROOM; topology.switch_count()];
    let bed = Bed::new(topology, EngineKind::MinHop, &capacities);
    assert!(!bed.unicast_is_free);
    let trees = bed.plan(&[group(MLID, hosts(&bed.topology))], &Trees::default());
    let report = bed.assert_sound(&trees);
    assert_eq!(report.unserved, 0);
    assert!(!report.credit_loop_free);
}

/// Shortest paths that close no cycle, and go down and up again by the guessed order.
#[test]
fn a_tree_is_searched_for_where_routes_have_another_order() {
    // Three switches in a line, the lowest in the middle: no switch is above both ends.
    let mut fabric = Fabric::new();
    let line = [0x1000, 0x3000, 0x2000].map(|guid| fabric.switch_with_guid(Guid(guid)));
    fabric.link(line[0], line[1]);
    fabric.link(line[1], line[2]);
    for switch in line {
        fabric.hosts(switch, 2);
    }
    let topology = fabric.build();
    let capacities = vec![ROOM; topology.switch_count()];
    let bed = Bed::new(topology, EngineKind::MinHop, &capacities);
    assert!(bed.unicast_is_free && !bed.unicast_follows);
    let trees = bed.plan(&[group(MLID, hosts(&bed.topology))], &Trees::default());
    assert_eq!(bed.assert_sound(&trees).unserved, 0);
    assert!(!trees.by_mlid[&MLID].is_oriented);
}

#[test]
fn faults_planted_in_masks_are_found() {
    let bed = Bed::ranked(tree());
    let few = hosts(&bed.topology).into_iter().step_by(2);
    let sound = bed.plan(&[group(MLID, few)], &Trees::default());
    bed.assert_sound(&sound);
    let tree = &sound.by_mlid[&MLID];
    let planted = |change: &dyn Fn(&mut Tree)| {
        let mut tree = Tree::clone(tree);
        change(&mut tree);
        let by_mlid = BTreeMap::from([(MLID, Arc::new(tree))]);
        bed.verify(&Trees { by_mlid })
    };
    let leaf = tree
        .masks
        .iter()
        .position(|&(at, _)| bed.topology.hosts(at) > 0)
        .unwrap();
    let at = tree.masks[leaf].0;

    // A link into the tree is cut.
    let report = planted(&|tree| tree.masks[leaf].1 = PortMask::EMPTY);
    assert!(report.unreached > 0);
    assert!(matches!(
        report.witnesses[0],
        MulticastWitness::Missing { .. }
    ));

    // A leaf hangs from two switches.
    let second = bed
        .topology
        .groups(at)
        .flat_map(|group| group.links)
        .map(|link| link.port)
        .filter(|&port| !tree.mask(at).contains(port))
        .last()
        .unwrap();
    let (other, _) = bed.topology.peer(at, second).unwrap();
    let report = planted(&|tree| {
        tree.masks[leaf].1.insert(second);
        for (switch, mask) in &mut tree.masks {
            for group in bed.topology.groups(other) {
                if group.neighbour == *switch && *switch != at {
                    mask.insert(group.links[0].peer_port);
                }
            }
        }
    });
    assert!(!report.loop_free);

    // A port that is no member receives.
    let outsider = hosts(&bed.topology)
        .into_iter()
        .find(|host| host.switch == at && !tree.mask(at).contains(host.port))
        .unwrap();
    let report = planted(&|tree| tree.masks[leaf].1.insert(outsider.port));
    assert_eq!((report.strays, report.unreached), (1, 0));
}

#[test]
fn a_tree_against_the_order_closes_a_credit_loop_with_unicast() {
    // A ring whose tree turns at the bottom, where unicast never turns: together a credit loop.
    let bed = Bed::ranked(ring(6));
    let trees = bed.plan(&[group(MLID, hosts(&bed.topology))], &Trees::default());
    bed.assert_sound(&trees);
    let bottom = *bed.basis.orientation().highest_first().last().unwrap();
    let top = bed.basis.orientation().highest_first()[0];
    let mut tree = Tree::clone(&trees.by_mlid[&MLID]);
    tree.masks = bed
        .topology
        .indices()
        .map(|switch| {
            let links = bed.topology.groups(switch).flat_map(|group| group.links);
            let local = hosts(&bed.topology)
                .into_iter()
                .filter(|host| host.switch == switch)
                .map(|host| host.port);
            // All links but those of the top, but one: a line that passes the bottom.
            let ports = links.map(|link| link.port).filter(|&port| {
                let (peer, _) = bed.topology.peer(switch, port).unwrap();
                let cut = bed.topology.groups(top).next().unwrap().neighbour;
                (switch, peer) != (top, cut) && (switch, peer) != (cut, top)
            });
            (switch, ports.chain(local).collect())
        })
        .collect();
    assert!(tree.mask(bottom).ports().count() == 3);
    let trees = Trees {
        by_mlid: BTreeMap::from([(MLID, Arc::new(tree))]),
    };
    let report = bed.verify(&trees);
    assert!(report.loop_free);
    assert_eq!((report.unreached, report.strays), (0, 0));
    assert!(!report.credit_loop_free);
}

/// Members as indices of destinations, each with whether it receives.
type Choice = Vec<(prop::sample::Index, bool)>;

fn choices() -> impl Strategy<Value = Vec<Choice>> {
    let member = (any::<prop::sample::Index>(), prop::bool::weighted(0.8));
    proptest::collection::vec(proptest::collection::vec(member, 1..8), 1..6)
}

fn groups(topology: &Topology, choices: &[Choice]) -> Vec<Arc<Group>> {
    let count = topology.destinations().len();
    choices
        .iter()
        .zip(0..)
        .map(|(choice, offset)| {
            let members = choice
                .iter()
                .map(|(drawn, receives)| member(topology, drawn.index(count), *receives));
            group(Lid(0xC000 + offset), members)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Applies to any fabric, however broken, and any engine.
    #[test]
    fn trees_are_sound(
        fabric in random::any_fabric(),
        choices in choices(),
        capacities in proptest::collection::vec(
            prop_oneof![5 => Just(ROOM), 1 => Just(0), 1 => Just(2)], 50),
        by_minhop in any::<bool>(),
    ) {
        let kind = if by_minhop { EngineKind::MinHop } else { EngineKind::UpDn };
        let bed = Bed::new(fabric.build(), kind, &capacities);
        let groups = groups(&bed.topology, &choices);
        let trees = bed.plan(&groups, &Trees::default());
        bed.assert_sound(&trees);
        for (group, tree) in groups.iter().zip(trees.by_mlid.values()) {
            prop_assert_eq!(&tree.group, group);
            let mut served: Vec<Member> = tree.parts.iter().flatten().copied().collect();
            served.sort_unstable();
            prop_assert!(served.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(served.iter().all(|member| group.members.contains(member)));
        }
        // Planning again with these trees held changes nothing.
        prop_assert_eq!(&bed.plan(&groups, &trees), &trees);
    }

    /// Where every switch can multicast, updn serves all hosts, as far as cables join them.
    #[test]
    fn updn_serves_every_host(fabric in random::any_fabric(), choices in choices()) {
        let bed = Bed::ranked(fabric.build());
        let is_host = |member: &Member| {
            bed.topology
                .destinations_of(member.switch)
                .iter()
                .any(|one| one.port == member.port && one.kind.is_host())
        };
        let groups: Vec<_> = groups(&bed.topology, &choices)
            .iter()
            .map(|all| group(all.mlid, all.members.iter().copied().filter(is_host)))
            .collect();
        let trees = bed.plan(&groups, &Trees::default());
        let report = bed.assert_sound(&trees);
        prop_assert_eq!(report.unserved, 0);
        for tree in trees.by_mlid.values() {
            let joined: BTreeSet<usize> = tree
                .group
                .members
                .iter()
                .map(|member| bed.topology.component_of(member.switch))
                .collect();
            prop_assert_eq!(tree.parts.len(), joined.len());
        }
    }

    /// Joins and leaves one after the other: each tree is sound, and members that stay keep their
    /// branches as far as the top allows.
    #[test]
    fn trees_follow_their_members(fabric in random::broken_tree(), choices in choices()) {
        let bed = Bed::ranked(fabric.build());
        let mut held = Trees::default();
        let all = groups(&bed.topology, &choices);
        let mut members: BTreeSet<Member> = BTreeSet::new();
        for step in all.iter().flat_map(|group| group.members.clone()) {
            let other = Member { receives: !step.receives, ..step };
            if !members.remove(&step) && !members.remove(&other) {
                members.insert(step);
            }
            let trees = bed.plan(&[group(MLID, members.iter().copied())], &held);
            bed.assert_sound(&trees);
            prop_assert_eq!(&bed.plan(&[group(MLID, members.iter().copied())], &trees), &trees);
            held = trees;
        }
    }
}
