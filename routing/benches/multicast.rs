//! The time of multicast planning at 45,056 hosts for one link that fails and returns: whole, and
//! from the changes.
//!
//! `cargo bench -p rsm-routing --bench multicast [-- SUBSTRING]` prints the best of a few runs:
//! wall-clock time on all cores, and processor time. Milliseconds. `broadcast`: one group with all
//! hosts. `groups`: 2,000 groups of 16 hosts each.

#![expect(clippy::print_stdout, reason = "a bench prints")]

#[path = "../tests/routing/common.rs"]
mod common;
mod stopwatch;

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::engine::{EngineKind, Options, Ranking, Routing, route};
use rsm_routing::mcast::{
    self, Earlier, Group, Held, Job, Member, Mft, MulticastBasis, Orientation, PortMask, Trees,
};
use rsm_routing::topology::{EndpointKind, SwitchIdx, Topology};
use rsm_routing::verify::verify_multicast;

const RUNS: usize = 5;

/// A fabric with its routes and the orientation that they follow.
struct Bed {
    topology: Topology,
    routing: Routing,
    basis: MulticastBasis,
}

impl Bed {
    fn new(topology: Topology, earlier: Option<&Ranking>) -> Bed {
        let options = Options {
            previous_ranking: earlier.cloned(),
            ..Options::default()
        };
        let routing =
            route(EngineKind::FabricTree, &topology, &options, None).expect("a tree can be routed");
        Bed {
            basis: basis(&topology, &routing),
            topology,
            routing,
        }
    }
}

fn basis(topology: &Topology, routing: &Routing) -> MulticastBasis {
    let ranking = routing.ranking.as_ref().expect("the engine ranks switches");
    let orientation = Orientation::of(topology, ranking).expect("the ranking has all switches");
    let capacities = vec![0x3FFF; topology.switch_count()];
    MulticastBasis::new(topology, &capacities, orientation, true)
}

fn hosts(topology: &Topology) -> Vec<Member> {
    let hosts = topology
        .destinations()
        .iter()
        .filter(|destination| destination.kind == EndpointKind::Ca);
    hosts
        .map(|host| Member {
            switch: host.switch,
            port: host.port,
            receives: true,
        })
        .collect()
}

fn group(offset: u16, mut members: Vec<Member>) -> Arc<Group> {
    members.sort_unstable();
    Arc::new(Group {
        mlid: Lid(Lid::MULTICAST_FIRST.0 + offset),
        members,
        levels: 1,
    })
}

fn broadcast(topology: &Topology) -> Vec<Arc<Group>> {
    vec![group(0, hosts(topology))]
}

/// Hosts of a group lie all over the fabric: at a stride that shares no factor with their number.
fn many(topology: &Topology) -> Vec<Arc<Group>> {
    let hosts = hosts(topology);
    let member = |group: usize, index: usize| hosts[(group * 16 + index) * 997 % hosts.len()];
    (0..2_000u16)
        .map(|number| {
            let members = (0..16).map(|index| member(usize::from(number), index));
            group(number, members.collect())
        })
        .collect()
}

fn job<'a>(
    bed: &'a Bed,
    basis: &'a MulticastBasis,
    groups: &'a [Arc<Group>],
    held: &'a Held<'a>,
) -> Job<'a> {
    Job {
        topology: &bed.topology,
        routing: &bed.routing,
        basis,
        groups,
        held,
    }
}

/// The masks of these tables, as held by switches.
fn held_by(tables: &[Arc<Mft>]) -> impl Fn(SwitchIdx, Lid) -> PortMask + Sync + '_ {
    |switch, mlid| tables[switch.index()].mask(mlid)
}

fn plan(bed: &Bed, groups: &[Arc<Group>], held: &Trees) -> Trees {
    let tables = held.tables(bed.topology.switch_count());
    mcast::plan(&job(bed, &bed.basis, groups, &held_by(&tables)))
}

/// A cable that the trees use, and whose lower end is a leaf, or is none.
fn cable(topology: &Topology, trees: &Trees, at_leaf: bool) -> (Guid, PortNum) {
    let is_leaf = |switch: SwitchIdx| topology.hosts(switch) > 0;
    let masks = trees.by_mlid.values().flat_map(|tree| &tree.masks);
    let mut links = masks
        .flat_map(|&(switch, mask)| mask.ports().map(move |port| (switch, port)))
        .filter(|&(switch, port)| {
            let peer = topology.peer(switch, port);
            peer.is_some_and(|(peer, _)| !is_leaf(peer) && is_leaf(switch) == at_leaf)
        });
    let (switch, port) = links.next().expect("trees have links");
    (topology.switch(switch).guid, port)
}

fn measure(name: &str, bed: &Bed, groups: &[Arc<Group>]) {
    let first = plan(bed, groups, &Trees::default());
    for (what, at_leaf) in [("leaf link", true), ("core link", false)] {
        let end = cable(&bed.topology, &first, at_leaf);
        let ranking = bed.routing.ranking.as_ref();
        let broken = Bed::new(bed.topology.without_cables(&[end]), ranking);
        let gone = plan(&broken, groups, &first);
        let events = [
            ("fails", bed, &broken, &first),
            ("returns", &broken, bed, &gone),
        ];
        for (event, before, after, held) in events {
            let label = format!("{name}: a {what} {event}");
            let trees = measure_whole(&label, after, groups, held);
            measure_by_changes(&label, (before, held), (after, &trees), groups);
        }
    }
}

fn measure_whole(label: &str, bed: &Bed, groups: &[Arc<Group>], held: &Trees) -> Trees {
    let tables = held.tables(bed.topology.switch_count());
    let holds = held_by(&tables);
    let (taken, trees) = stopwatch::best(RUNS, || {
        let fresh = basis(&bed.topology, &bed.routing);
        mcast::plan(&job(bed, &fresh, groups, &holds))
    });
    println!("{label:<32} whole       trees  {taken}");
    let order = Some(bed.basis.orientation());
    let (taken, _) = stopwatch::best(RUNS, || {
        let routes = (&bed.routing.tables, &bed.routing.lanes);
        verify_multicast(&bed.topology, routes, order, &trees, None)
    });
    println!("{label:<32} whole       proof  {taken}");
    let (taken, _) = stopwatch::best(RUNS, || trees.tables(bed.topology.switch_count()));
    println!("{label:<32} whole       tables {taken}");
    trees
}

fn measure_by_changes(
    label: &str,
    (before, held): (&Bed, &Trees),
    (after, whole): (&Bed, &Trees),
    groups: &[Arc<Group>],
) {
    let tables = held.tables(before.topology.switch_count());
    let holds = held_by(&tables);
    let capacities = vec![0x3FFF; after.topology.switch_count()];
    let order = || after.basis.orientation().clone();
    let (taken, (basis, delta)) = stopwatch::best(RUNS, || {
        before
            .basis
            .follow(
                &before.topology,
                &after.topology,
                &capacities,
                order(),
                true,
            )
            .expect("a link is followed")
    });
    println!("{label:<32} by changes  basis {taken}");
    let (taken, followed) = stopwatch::best(RUNS, || {
        let earlier = Earlier::new(held, &tables, &delta);
        let job = job(after, &basis, groups, &holds);
        mcast::follow(&job, &delta, earlier, &BTreeSet::new()).expect("a link is followed")
    });
    assert_eq!(followed.trees, *whole);
    let count = followed.concerned.len();
    println!("{label:<32} by changes  trees  {taken}, {count} of them");
    let (taken, _) = stopwatch::best(RUNS, || {
        let (topology, routing) = (&after.topology, &after.routing);
        let order = Some(basis.orientation());
        verify_multicast(
            topology,
            (&routing.tables, &routing.lanes),
            order,
            &followed.trees,
            Some(&followed.concerned),
        )
    });
    println!("{label:<32} by changes  proof  {taken}");
}

fn main() {
    let wanted = std::env::args().nth(1).filter(|arg| !arg.starts_with('-'));
    let topology = common::pgft(&[32, 32, 44], &[1, 32, 16], &[1, 1, 2], 0);
    let bed = Bed::new(topology, None);
    type Make = fn(&Topology) -> Vec<Arc<Group>>;
    let cases: [(&str, Make); 2] = [("broadcast", broadcast), ("groups", many)];
    for (name, groups) in cases {
        if wanted.as_deref().is_none_or(|wanted| name.contains(wanted)) {
            measure(name, &bed, &groups(&bed.topology));
        }
    }
}
