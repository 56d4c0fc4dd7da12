//! Multicast beside routes that need several lanes: each member gets each packet once, and no
//! cycle of (link, lane) closes, by a search independent of the library's.

use crate::common;
use crate::multicast::{flood, group, hosts, member};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use common::{grid, without_switches};
use proptest::prelude::*;
use rsm_ids::{Lid, PortNum};
use rsm_routing::engine::{EngineKind, Options, Routing, route};
use rsm_routing::lanes::{Lanes, Mapping};
use rsm_routing::mcast::{
    self, Group, Job, Member, MulticastBasis, Orientation, PortMask, Tree, Trees,
};
use rsm_routing::topology::{PortUse, SwitchIdx, Topology};
use rsm_routing::verify::{Dependencies, MulticastReport, MulticastWitness, verify_multicast};

/// MulticastFDBCap of a switch that has room for every multicast LID.
const ROOM: u16 = 0x3FFF;

/// The switch and port that send into a link, and the lane.
type Channel = (SwitchIdx, PortNum, u8);

type Waits = BTreeMap<Channel, BTreeSet<Channel>>;

/// A routed fabric.
struct Bed {
    topology: Topology,
    routing: Routing,
    orientation: Orientation,
    follows: bool,
}

impl Bed {
    fn new(topology: Topology, kind: EngineKind, before: Option<&Routing>) -> Bed {
        let options = Options {
            previous_coordinates: before.and_then(|before| before.coordinates.clone()),
            ..Options::default()
        };
        let routing = route(kind, &topology, &options, None).unwrap();
        let ranking = routing.ranking.as_ref();
        let orientation = ranking
            .and_then(|ranking| Orientation::of(&topology, ranking))
            .unwrap_or_else(|| Orientation::guessed(&topology));
        let links = Dependencies::of(&topology, &routing.tables);
        Bed {
            follows: links.follows(|high, low| orientation.is_above(high, low)),
            orientation,
            routing,
            topology,
        }
    }

    fn torus(sizes: &[usize]) -> Bed {
        Bed::new(torus(sizes), EngineKind::Torus, None)
    }

    fn plan(&self, groups: &[Arc<Group>]) -> Trees {
        let capacities = vec![ROOM; self.topology.switch_count()];
        let order = self.orientation.clone();
        mcast::plan(&Job {
            topology: &self.topology,
            routing: &self.routing,
            basis: &MulticastBasis::new(&self.topology, &capacities, order, self.follows),
            groups,
            held: &|_, _| PortMask::EMPTY,
        })
    }

    fn verify(&self, trees: &Trees) -> MulticastReport {
        let routes = (&self.routing.tables, &self.routing.lanes);
        let order = self.follows.then_some(&self.orientation);
        verify_multicast(&self.topology, routes, order, trees, None)
    }

    fn lane(&self, switch: SwitchIdx, input: PortNum, output: PortNum, level: u8) -> u8 {
        let row = self.routing.lanes.row(switch, input, output);
        row.map_or(0, |row| row[usize::from(level)])
    }

    /// Walks all unicast packets, and lets each channel wait for the next.
    fn unicast_waits(&self, waits: &mut Waits) {
        let ends = self.topology.destinations();
        for from in ends {
            for to in ends.iter().filter(|to| to.switch != from.switch) {
                let lanes = &self.routing.lanes;
                let levels = [(from.switch, to.switch), (to.switch, from.switch)];
                let levels: BTreeSet<u8> = match levels.map(|(a, b)| lanes.level(a, b)) {
                    [Some(there), Some(back)] => [there, back].into(),
                    _ => (0..16).collect(),
                };
                for level in levels {
                    self.walk((from.switch, from.port), to.lid, level, waits);
                }
            }
        }
    }

    fn walk(&self, from: (SwitchIdx, PortNum), to: Lid, level: u8, waits: &mut Waits) {
        let ((mut at, mut input), mut held) = (from, None);
        for _ in 0..self.topology.switch_count() {
            let Some(output) = self.routing.tables.lft(at).port(to) else {
                return;
            };
            let Some((next, entry)) = self.topology.peer(at, output) else {
                return;
            };
            let channel = (at, output, self.lane(at, input, output, level));
            waits.entry(channel).or_default();
            if let Some(held) = held.replace(channel) {
                waits.entry(held).or_default().insert(channel);
            }
            (at, input) = (next, entry);
        }
        panic!("packets to {to:?} loop");
    }

    /// Sends a packet from every port at every switch that forwards to a multicast LID, on each of
    /// its levels.
    fn multicast_waits(&self, tree: &Tree, waits: &mut Waits) {
        for &(switch, _) in &tree.masks {
            let starts = (0..=self.topology.switch(switch).num_ports).map(PortNum);
            let is_start = |&port: &PortNum| {
                port == PortNum::ZERO
                    || matches!(
                        self.topology.port_use(switch, port),
                        PortUse::Destination(_)
                    )
            };
            for start in starts.filter(is_start) {
                for level in (0..16).filter(|level| tree.group.levels >> level & 1 == 1) {
                    self.send(tree, (switch, start), level, waits);
                }
            }
        }
    }

    fn send(&self, tree: &Tree, from: (SwitchIdx, PortNum), level: u8, waits: &mut Waits) {
        let mut queue = vec![(from, None::<Channel>)];
        let mut done = 0;
        while let Some(&((at, input), held)) = queue.get(done) {
            done += 1;
            assert!(done <= self.topology.switch_count(), "the packet loops");
            for output in tree.mask(at).ports().filter(|&output| output != input) {
                if let Some(next) = self.topology.peer(at, output) {
                    let channel = (at, output, self.lane(at, input, output, level));
                    waits.entry(channel).or_default();
                    if let Some(held) = held {
                        waits.entry(held).or_default().insert(channel);
                    }
                    queue.push((next, Some(channel)));
                }
            }
        }
    }

    /// Checks everything that trees promise.
    fn assert_sound(&self, trees: &Trees) -> MulticastReport {
        let report = self.verify(trees);
        assert!(report.loop_free, "{:?}", report.witnesses);
        assert_eq!(
            (report.unreached, report.strays),
            (0, 0),
            "{:?}",
            report.witnesses
        );
        assert!(report.credit_loop_free, "{:?}", report.witnesses);
        let mut waits = Waits::new();
        self.unicast_waits(&mut waits);
        for tree in trees.by_mlid.values() {
            self.multicast_waits(tree, &mut waits);
            for part in &tree.parts {
                for sender in part {
                    let got = flood(&self.topology, |at| tree.mask(at), sender);
                    let receivers = part.iter().filter(|one| one.receives && *one != sender);
                    let mut expected: Vec<_> =
                        receivers.map(|one| (one.switch, one.port)).collect();
                    expected.sort();
                    assert_eq!(got, expected, "from {sender:?}");
                }
            }
        }
        let vls = self.routing.lanes.vls();
        assert!(waits.keys().all(|&(_, _, vl)| vl < vls));
        assert!(is_acyclic(&waits), "{}", self.routing.reason);
        report
    }
}

/// Whether the waits have no cycle: removes channels that wait for no other channel until none is
/// left.
fn is_acyclic(waits: &Waits) -> bool {
    let mut remaining = waits.clone();
    loop {
        let idle: BTreeSet<Channel> = remaining
            .iter()
            .filter(|(_, wanted)| wanted.is_empty())
            .map(|(&channel, _)| channel)
            .collect();
        if idle.is_empty() {
            return remaining.is_empty();
        }
        remaining.retain(|channel, _| !idle.contains(channel));
        for wanted in remaining.values_mut() {
            wanted.retain(|channel| !idle.contains(channel));
        }
    }
}

fn torus(sizes: &[usize]) -> Topology {
    let dimensions: Vec<(usize, bool)> = sizes.iter().map(|&size| (size, true)).collect();
    grid(&dimensions, 1, &[])
}

/// One group of these members on each of some service levels.
fn on_levels(levels: &[u8], members: &[Member]) -> Vec<Arc<Group>> {
    let group = |(&level, offset): (&u8, u16)| {
        let group = group(Lid(0xC000 + offset), members.iter().copied());
        Arc::new(Group {
            levels: 1 << level,
            ..Group::clone(&group)
        })
    };
    levels.iter().zip(0..).map(group).collect()
}

#[test]
fn all_hosts_of_a_whole_torus_receive_on_every_service_level() {
    for sizes in [
        &[5][..],
        &[8],
        &[5, 5],
        &[6, 7],
        &[5, 8],
        &[3, 5, 3],
        &[5, 5, 5],
        &[4, 6, 3],
        &[3, 3, 3, 3],
    ] {
        let bed = Bed::torus(sizes);
        assert!(!bed.routing.lanes.is_single());
        let levels: Vec<u8> = (0..16).collect();
        let trees = bed.plan(&on_levels(&levels, &hosts(&bed.topology)));
        let report = bed.assert_sound(&trees);
        assert_eq!(report.unserved, 0, "{sizes:?}");
        assert_eq!(trees.by_mlid.len(), 16);
    }
}

#[test]
fn the_tree_of_a_torus_is_as_deep_as_its_longest_path() {
    let bed = Bed::torus(&[5, 5, 5]);
    let groups = on_levels(&[0], &hosts(&bed.topology));
    let trees = bed.plan(&groups);
    let tree = &trees.by_mlid[&Lid(0xC000)];
    assert_eq!(tree.masks.len(), 125);
    // Two hops to the middle of each line, and two from there, in each of three dimensions.
    let all: Vec<SwitchIdx> = bed.topology.indices().collect();
    let farthest = all.iter().map(|&from| depth(&bed.topology, tree, from));
    assert_eq!(farthest.max(), Some(12));
}

/// Hops of a packet from a switch to the last member that gets it.
fn depth(topology: &Topology, tree: &Tree, from: SwitchIdx) -> usize {
    let mut level = vec![(from, PortNum::ZERO)];
    let mut hops = 0;
    loop {
        let next: Vec<_> = level
            .iter()
            .flat_map(|&(at, input)| {
                let ports = tree.mask(at).ports();
                ports
                    .filter(move |&port| port != input)
                    .map(move |port| (at, port))
            })
            .filter_map(|(at, port)| topology.peer(at, port))
            .collect();
        if next.is_empty() {
            return hops;
        }
        hops += 1;
        level = next;
    }
}

#[test]
fn levels_with_equal_mappings_share_one_tree() {
    let bed = Bed::torus(&[5, 5]);
    // Two rings: bits 0 and 1 of a service level.
    let trees = bed.plan(&on_levels(&[1, 5, 13, 2], &hosts(&bed.topology)));
    bed.assert_sound(&trees);
    let masks: Vec<_> = trees.by_mlid.values().map(|tree| &tree.masks).collect();
    assert_eq!(masks[0], masks[1]);
    assert_eq!(masks[0], masks[2]);
    assert_ne!(masks[0], masks[3], "the dateline is elsewhere");
}

#[test]
fn a_join_changes_the_tree_of_its_own_group_only() {
    let bed = Bed::torus(&[5, 5]);
    let all = hosts(&bed.topology);
    let groups_of = |members: [&[Member]; 2]| {
        let groups = members.iter().zip(0u16..);
        let groups =
            groups.map(|(members, offset)| group(Lid(0xC000 + offset), members.iter().copied()));
        bed.plan(&groups.collect::<Vec<_>>()).by_mlid
    };
    let before = groups_of([&all[..3], &all[..7]]);
    let after = groups_of([&all[..20], &all[..7]]);
    assert_ne!(before[&Lid(0xC000)].masks, after[&Lid(0xC000)].masks);
    assert_eq!(before[&Lid(0xC001)], after[&Lid(0xC001)]);
}

#[test]
fn a_tree_across_the_dateline_is_refused_with_the_cycle() {
    // All links of the ring but one far from the dateline, on the lane of packets that cross none.
    let bed = Bed::torus(&[8]);
    let places = &bed.routing.coordinates.as_ref().unwrap().places;
    let coordinate = |switch: SwitchIdx| places[&bed.topology.switch(switch).guid][0];
    let all = group(Lid(0xC000), hosts(&bed.topology));
    let masks: Vec<(SwitchIdx, PortMask)> = bed
        .topology
        .indices()
        .map(|switch| {
            let links = bed.topology.groups(switch).flat_map(|group| {
                let ends = [coordinate(switch), coordinate(group.neighbour)];
                let is_cut = ends == [3, 4] || ends == [4, 3];
                group.links.iter().filter(move |_| !is_cut)
            });
            let local = all
                .members
                .iter()
                .filter(|member| member.switch == switch)
                .map(|member| member.port);
            (switch, links.map(|link| link.port).chain(local).collect())
        })
        .collect();
    let tree = |levels| Tree {
        group: Arc::new(Group {
            levels,
            ..Group::clone(&all)
        }),
        masks: masks.clone(),
        parts: vec![all.members.clone()],
        is_oriented: false,
    };
    let verified = |levels| {
        let by_mlid = BTreeMap::from([(Lid(0xC000), Arc::new(tree(levels)))]);
        bed.verify(&Trees { by_mlid })
    };
    let report = verified(0b01);
    assert!(report.loop_free && !report.credit_loop_free);
    let [MulticastWitness::CreditLoopOnLanes { channels }] = &report.witnesses[..] else {
        panic!("{:?}", report.witnesses);
    };
    assert_eq!(channels.len(), 8);
    assert!(channels.iter().all(|channel| channel.vl == 0));
    // Packets that cross the dateline do not pass the cut.
    assert!(verified(0b10).credit_loop_free);
    assert!(!verified(0b11).credit_loop_free);
}

#[test]
fn members_of_a_level_that_switches_drop_are_unserved() {
    let mut bed = Bed::torus(&[5]);
    let kind = |switch, port| u8::from(bed.topology.peer(switch, port).is_some());
    // As the torus, but level 9 is dropped between switches.
    let lanes = bed.routing.lanes.clone();
    let links = |switch: SwitchIdx| bed.topology.groups(switch).flat_map(|group| group.links);
    let row = |input, output| {
        let link = links(SwitchIdx(0)).next().unwrap().port;
        let port = |kind| if kind == 1 { link } else { PortNum::ZERO };
        let mut row = *lanes.row(SwitchIdx(0), port(input), port(output)).unwrap();
        if output == 1 {
            row[9] = 15;
        }
        row
    };
    let mapping = Mapping::new(&bed.topology, 2, kind, row);
    bed.routing.lanes = Lanes::new(lanes.levels().clone(), mapping, lanes.vls());
    let trees = bed.plan(&on_levels(&[8, 9], &hosts(&bed.topology)));
    assert_eq!(trees.by_mlid[&Lid(0xC000)].unserved(), 0);
    assert_eq!(trees.by_mlid[&Lid(0xC001)].unserved(), 4);
    bed.assert_sound(&trees);
}

/// A torus of two or three dimensions, with cables and switches that failed.
fn tori() -> impl Strategy<
    Value = (
        Vec<usize>,
        Vec<prop::sample::Index>,
        Vec<prop::sample::Index>,
    ),
> {
    let sizes = prop_oneof![
        proptest::collection::vec(3usize..9, 1),
        proptest::collection::vec(3usize..8, 2),
        proptest::collection::vec(3usize..5, 3),
        Just(vec![5, 5, 3]),
    ];
    let cables = proptest::collection::vec(any::<prop::sample::Index>(), 0..5);
    let switches = proptest::collection::vec(any::<prop::sample::Index>(), 0..3);
    (sizes, cables, switches)
}

/// The torus without what failed, routed as the rest of the whole; `None` if it is not connected.
fn broken(
    (sizes, cables, switches): (
        Vec<usize>,
        Vec<prop::sample::Index>,
        Vec<prop::sample::Index>,
    ),
) -> Option<Bed> {
    let whole = Bed::torus(&sizes);
    let count = whole.topology.switch_count();
    let gone: Vec<SwitchIdx> = switches
        .iter()
        .map(|switch| SwitchIdx(switch.index(count) as u32))
        .collect();
    let all = whole.topology.cables();
    let ends: Vec<_> = cables
        .iter()
        .map(|cable| all[cable.index(all.len())].a)
        .collect();
    let remaining = without_switches(&whole.topology.without_cables(&ends), &gone);
    (remaining.components().len() == 1)
        .then(|| Bed::new(remaining, EngineKind::Torus, Some(&whole.routing)))
}

/// Groups, each with its members as indices of destinations, each with whether it receives; and the
/// service level.
type Choice = (Vec<(prop::sample::Index, bool)>, u8);

fn choices() -> impl Strategy<Value = Vec<Choice>> {
    let member = (any::<prop::sample::Index>(), prop::bool::weighted(0.8));
    let members = proptest::collection::vec(member, 1..12);
    proptest::collection::vec((members, 0u8..16), 1..5)
}

fn chosen(topology: &Topology, choices: &[Choice]) -> Vec<Arc<Group>> {
    let count = topology.destinations().len();
    let group = |((members, level), offset): (&Choice, u16)| {
        let members = members.iter();
        let members =
            members.map(|(drawn, receives)| member(topology, drawn.index(count), *receives));
        let group = group(Lid(0xC000 + offset), members);
        Arc::new(Group {
            levels: 1 << level,
            ..Group::clone(&group)
        })
    };
    choices.iter().zip(0..).map(group).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn groups_on_a_broken_torus_are_free_of_credit_loops(
        torus in tori(),
        choices in choices(),
    ) {
        let faults = torus.1.len() + torus.2.len();
        let Some(bed) = broken(torus) else { return Ok(()) };
        let report = bed.assert_sound(&bed.plan(&chosen(&bed.topology, &choices)));
        if faults <= 1 {
            prop_assert_eq!(report.unserved, 0, "{}", bed.routing.reason);
        }
    }

    #[test]
    fn all_hosts_of_a_broken_torus_receive(torus in tori()) {
        let Some(bed) = broken(torus) else { return Ok(()) };
        let trees = bed.plan(&on_levels(&[0], &hosts(&bed.topology)));
        let report = bed.assert_sound(&trees);
        prop_assert_eq!(report.unserved, 0, "{}", bed.routing.reason);
    }

    #[test]
    fn groups_beside_layers_are_free_of_credit_loops(
        sizes in proptest::collection::vec(3usize..7, 1..3),
        level in 0u8..16,
    ) {
        let bed = Bed::new(torus(&sizes), EngineKind::Dfsssp, None);
        let trees = bed.plan(&on_levels(&[level], &hosts(&bed.topology)));
        bed.assert_sound(&trees);
    }
}
