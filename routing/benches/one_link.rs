//! The time of planning after one cable, step by step: the topology, routes by difference, the
//! tables, the order of switches, the proof of the difference, and the stages from the tables
//! before to those after.
//!
//! `cargo bench -p rsm-routing --bench one_link [-- SUBSTRING [RUNS]]` prints medians in
//! milliseconds, for a cable of a leaf switch, one further up and one of a host, each without it
//! and when it is back.

#![expect(clippy::print_stdout, reason = "a bench prints")]

#[path = "../tests/routing/common.rs"]
mod common;
mod stopwatch;
mod trees;

use std::hint::black_box;

use rsm_ids::{Guid, PortNum};
use rsm_routing::engine::{EngineKind, Options, Routing, replan, route};
use rsm_routing::mcast::Orientation;
use rsm_routing::tables::{Difference, Tables};
use rsm_routing::topology::{PortUse, SwitchIdx, Topology};
use rsm_routing::verify::{
    Candidate, IdleLinks, ProvedTables, Tally, Unwritten, stages_along_opening, verify_changes,
    verify_whole,
};

const RUNS: usize = 25;

/// The median of `runs` runs in milliseconds, and the last result.
fn median<T>(runs: usize, work: impl FnMut() -> T) -> (f64, T) {
    let (taken, result) = stopwatch::time(runs, work);
    let mut times: Vec<f64> = taken.iter().map(|taken| taken.wall_ms).collect();
    times.sort_by(f64::total_cmp);
    (times[runs / 2], result)
}

/// Proved routes.
#[derive(Clone)]
struct Proved {
    topology: Topology,
    routing: Routing,
    tally: Tally,
}

impl Proved {
    fn orientation(&self) -> Orientation {
        let ranking = self.routing.ranking.as_ref();
        let found = ranking.and_then(|ranking| Orientation::of(&self.topology, ranking));
        found.expect("routes of a tree have a ranking")
    }
}

/// Plans `topology` after `before`, each step `runs` times, and prints the time of each.
fn follow(name: &str, before: &Proved, topology: Topology, runs: usize) -> Proved {
    let options = Options {
        previous_ranking: before.routing.ranking.clone(),
        ..Options::default()
    };
    let held = held(before, &topology);
    let (replanned, found) = median(runs, || replan(&topology, &options));
    let entries = found.expect("all of it is known").changes().len();
    let (routed, routing) = median(runs, || {
        replan(&topology, &options).map(|found| found.into_routing(Some(&held)))
    });
    let routing = routing.expect("all of it is known");
    let then = before.orientation();
    let ranking = routing
        .ranking
        .as_ref()
        .expect("fabric-tree ranks every tree");
    let (ordered, now) = median(runs, || Orientation::of(&topology, ranking));
    let now = now.expect("the ranking has every switch");
    let proved_before = ProvedTables {
        topology: &before.topology,
        tables: &before.routing.tables,
        orientation: &then,
        tally: &before.tally,
    };
    let candidate = Candidate {
        topology: &topology,
        tables: &routing.tables,
        orientation: &now,
    };
    let (proved, changed) = median(runs, || verify_changes(&proved_before, &candidate));
    let changed = changed.expect("the order is the same");
    let idle = IdleLinks::default();
    let is_above = |high: SwitchIdx, low: SwitchIdx| now.is_above(high, low);
    let (staged, stages) = median(runs, || {
        let difference = Difference::between(&held, &routing.tables);
        stages_along_opening(
            &topology,
            is_above,
            &idle,
            &Unwritten::default(),
            &difference,
        )
    });
    let stages = stages.expect("both follow the order");
    println!(
        "  {name}: replan {replanned:.2}, with tables {routed:.2}, order {ordered:.2}, proof {proved:.2}, stages {staged:.2}; \
         {entries} entries, {} pairs, {} stages",
        changed.pairs,
        stages.tables.len(),
    );
    Proved {
        topology,
        routing,
        tally: changed.tally,
    }
}

/// The tables before, by the switches as they are numbered now.
fn held(before: &Proved, topology: &Topology) -> Tables {
    let lft = |guid: Guid| {
        let then = before.topology.switch_by_guid(guid);
        then.map_or_else(Default::default, |then| {
            before.routing.tables.lft(then).clone()
        })
    };
    let switches = topology.switches().iter();
    Tables {
        lfts: switches.map(|switch| lft(switch.guid)).collect(),
    }
}

/// A port of a leaf switch that leads up, a port of a switch above one that leads further up, and a
/// host's.
fn faults(topology: &Topology) -> [(&'static str, (Guid, PortNum)); 3] {
    let is_leaf = |switch: SwitchIdx| topology.hosts(switch) > 0;
    let middle = |wanted: &dyn Fn(SwitchIdx, PortUse) -> bool| {
        let found: Vec<(Guid, PortNum)> = topology
            .indices()
            .flat_map(|switch| {
                let guid = topology.switch(switch).guid;
                let ports = (0..=u8::MAX).zip(topology.port_uses(switch));
                let found = ports.filter(move |&(port, &used)| port > 0 && wanted(switch, used));
                found.map(move |(port, _)| (guid, PortNum(port)))
            })
            .collect();
        // Not the cable whose index is that of the leaf: it also carries packets to the leaf
        // itself.
        found[found.len() / 2 + 5]
    };
    let links = |leaf: bool| {
        move |switch: SwitchIdx, used: PortUse| match used {
            PortUse::Link { peer, .. } => (is_leaf(switch) || is_leaf(peer)) == leaf,
            PortUse::Unused | PortUse::Destination(_) => false,
        }
    };
    let host = |_: SwitchIdx, used: PortUse| matches!(used, PortUse::Destination(_));
    [
        ("leaf link", middle(&links(true))),
        ("core link", middle(&links(false))),
        ("host link", middle(&host)),
    ]
}

fn bench(name: &str, topology: &Topology, runs: usize) {
    let routing = route(EngineKind::FabricTree, topology, &Options::default(), None)
        .expect("a tree can be routed");
    let tally = verify_whole(topology, &routing.tables).tally;
    println!("{name} hosts, {} switches", topology.switch_count());
    let first = Proved {
        topology: topology.clone(),
        routing,
        tally,
    };
    for (name, cable) in faults(topology) {
        let (taken, broken) = median(runs, || topology.without_cables(&[cable]));
        println!("  {name} less: topology anew {taken:.2}");
        let during = follow(&format!("{name} less"), &first, broken, runs);
        let after = follow(&format!("{name} back"), &during, topology.clone(), runs);
        assert!(
            after.routing.tables == first.routing.tables,
            "the tables are what they were"
        );
        assert!(after.tally == first.tally, "and so are the sums");
        black_box(after);
    }
}

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'));
    let wanted = arguments.next();
    let runs = arguments.next().and_then(|runs| runs.parse().ok());
    for (name, topology) in trees::named(wanted.as_deref()) {
        bench(name, &topology, runs.unwrap_or(RUNS));
    }
}
