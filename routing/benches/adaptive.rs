//! Groups for adaptive routing and their proof: time, and the writes and the load after faults.
//!
//! `cargo bench -p rsm-routing --bench adaptive [-- SUBSTRING]` takes the best of a few runs: in
//! milliseconds, wall-clock time on all cores and processor time. Load is measured up to
//! [`LOAD_HOSTS`] hosts. Fabrics from `../shared` are left
//! out where that folder is missing.

#![expect(clippy::print_stdout, reason = "a bench prints")]

#[path = "../tests/routing/common.rs"]
mod common;
mod stopwatch;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::adaptive::{
    AdaptivePlan, AdaptiveTables, GroupIds, Request, blocks_changed, plan,
};
use rsm_routing::engine::{EngineKind, Options, Ranking, Routing, route};
use rsm_routing::ibnetdiscover::parse;
use rsm_routing::quality::{ByChoice, measure_adaptive};
use rsm_routing::tables::Tables;
use rsm_routing::topology::{SwitchIdx, Topology};
use rsm_routing::verify::{Held, verify, verify_sets};

use stopwatch::best;

const RUNS: usize = 2;

/// The number of groups that a switch holds (ARInfo GroupCap has 12 bits).
const CAPACITY: u16 = 4095;

/// The maximum number of hosts for which the load over all choices is measured: more take minutes.
const LOAD_HOSTS: usize = 10_000;

const SELENE: &str = "../../shared/data/topologies/nvidia-selene-compute.txt";

fn main() {
    let wanted = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let is_wanted = |name: &str| wanted.as_ref().is_none_or(|wanted| name.contains(wanted));
    for spec in ["fat-tree:k=24,levels=3", "pgft:3;32,32,44;1,32,16;1,1,2"] {
        if is_wanted(spec) {
            measure(spec, &by_index(&common::generated(spec)));
        }
    }
    if is_wanted("selene") {
        match std::fs::read_to_string(SELENE) {
            Ok(text) => {
                let parsed = parse(text.as_bytes(), SELENE).expect("the file can be read");
                let topology = Topology::from_netlist(&parsed.netlist);
                measure("selene compute", &topology.expect("a fabric"));
            }
            Err(error) => println!("selene compute: left out: {error}"),
        }
    }
}

/// The topology with the LIDs that rsm assigns on a fresh fabric: switches first, then the first
/// host of each leaf, then the second host of each leaf, and so on.
fn by_index(topology: &Topology) -> Topology {
    let mut order: Vec<(usize, Lid)> = Vec::new();
    for switch in topology.indices() {
        let ends = topology.destinations_of(switch).iter();
        let numbered = ends.filter(|end| end.kind.is_host()).enumerate();
        order.extend(numbered.map(|(index, host)| (index + 1, host.lid)));
        let port0 = topology
            .destinations_of(switch)
            .iter()
            .find(|end| !end.kind.is_host());
        order.extend(port0.map(|port0| (0, port0.lid)));
    }
    order.sort_unstable();
    let mut lids = vec![Lid::NONE; topology.top_lid().index() + 1];
    for (number, (_, lid)) in order.into_iter().enumerate() {
        lids[lid.index()] = Lid(number as u16 + 1);
    }
    common::rebuilt(topology, |_| true, |end| lids[end.lid.index()])
}

struct Planned {
    routing: Routing,
    groups: AdaptivePlan,
}

fn routed(topology: &Topology, earlier: Option<&Ranking>) -> Routing {
    let options = Options {
        previous_ranking: earlier.cloned(),
        ..Options::default()
    };
    route(EngineKind::FabricTree, topology, &options, None).expect("a tree can be routed")
}

/// Plans and proves, and prints how long that took.
fn planned(topology: &Topology, earlier: Option<&Planned>) -> Planned {
    let ranking = earlier.and_then(|earlier| earlier.routing.ranking.as_ref());
    let (engine, routing) = best(1, || routed(topology, ranking));
    let order = routing.ranking.as_ref().expect("a ranking").shortest();
    let none = GroupIds::default();
    let request = Request {
        topology,
        tables: &routing.tables,
        order: &order,
        capacities: &vec![CAPACITY; topology.switch_count()],
        ids: earlier.map_or(&none, |earlier| &earlier.groups.ids),
        in_order: &std::collections::BTreeSet::new(),
        before: None,
    };
    let (planning, groups) = best(RUNS, || plan(&request).expect("groups can be planned"));
    let held = Held {
        tables: &routing.tables,
        adaptive: &groups.tables,
    };
    let (proving, report) = best(RUNS, || verify_sets(topology, held));
    let (alone, _) = best(RUNS, || verify(topology, &routing.tables));
    assert!(report.is_sound(), "{:?}", report.witnesses);
    let (held_groups, ports) = groups.tables.sizes();
    println!(
        "    {} groups for {} leaves; switches hold {held_groups} with {:.1} ports; {} entries with a group, {} with one port",
        groups.groups,
        groups.leaves,
        ports as f64 / held_groups.max(1) as f64,
        groups.free_entries,
        groups.fixed_entries
    );
    println!(
        "    sound for any choice, {} hops at most; engine {engine}, groups {planning}, proof over sets {proving}, of the tables alone {alone}",
        report.max_hops
    );
    Planned { routing, groups }
}

fn measure(name: &str, topology: &Topology) {
    println!(
        "{name}: {} switches, {} LIDs",
        topology.switch_count(),
        topology.top_lid()
    );
    println!("  intact");
    let intact = planned(topology, None);
    let empty = (Tables::default(), AdaptiveTables::default());
    print_writes((&empty.0, &empty.1), &intact);
    print_load(topology, &intact);
    let cables = topology.cables();
    let is_leaf = |guid: Guid| {
        let switch = topology.switch_by_guid(guid);
        switch.is_some_and(|switch| topology.hosts(switch) > 0)
    };
    let at_leaf: Vec<_> = cables
        .iter()
        .filter(|cable| is_leaf(cable.a.0) || is_leaf(cable.b.0))
        .collect();
    let above: Vec<_> = cables
        .iter()
        .filter(|cable| !is_leaf(cable.a.0) && !is_leaf(cable.b.0))
        .collect();
    for (what, of) in [("one link at a leaf", &at_leaf), ("one link above", &above)] {
        if let Some(cable) = of.get(of.len() / 2) {
            after(
                what,
                topology,
                &intact,
                &topology.without_cables(&[cable.a]),
                true,
            );
        }
    }
    let next_to_leaf = |switch: &SwitchIdx| {
        let mut groups = topology.groups(*switch);
        topology.hosts(*switch) == 0 && groups.any(|group| topology.hosts(group.neighbour) > 0)
    };
    let middle: Vec<SwitchIdx> = topology.indices().filter(next_to_leaf).collect();
    if let Some(&gone) = middle.get(middle.len() / 2) {
        let rest = common::without_switches(topology, &[gone]);
        after("one switch above leaves", topology, &intact, &rest, false);
    }
    let ends: Vec<(Guid, PortNum)> = cables
        .iter()
        .skip(50)
        .step_by(100)
        .map(|cable| cable.a)
        .collect();
    let what = format!("every hundredth link, {} of them", ends.len());
    after(
        &what,
        topology,
        &intact,
        &topology.without_cables(&ends),
        true,
    );
}

fn after(what: &str, before: &Topology, intact: &Planned, topology: &Topology, loads: bool) {
    println!("  {what}");
    let now = planned(topology, Some(intact));
    let (mut tables, mut groups) = (Tables::default(), AdaptiveTables::default());
    for switch in topology.switches() {
        let at = before
            .switch_by_guid(switch.guid)
            .expect("a switch of the intact fabric");
        tables.lfts.push(intact.routing.tables.lft(at).clone());
        groups
            .switches
            .push(intact.groups.tables.switches[at.index()].clone());
    }
    print_writes((&tables, &groups), &now);
    if loads {
        print_load(topology, &now);
    }
}

fn print_writes(old: (&Tables, &AdaptiveTables), now: &Planned) {
    let blocks = blocks_changed(old, (&now.routing.tables, &now.groups.tables));
    println!(
        "    writes {} groups in {} blocks, {} blocks of entries, {} of forwarding tables, on {} switches",
        blocks.groups,
        blocks.group_blocks,
        blocks.entry_blocks,
        blocks.table_blocks,
        blocks.switches
    );
}

fn print_load(topology: &Topology, now: &Planned) {
    let hosts: usize = topology
        .indices()
        .map(|switch| topology.hosts(switch))
        .sum();
    if hosts > LOAD_HOSTS {
        return;
    }
    let held = Held {
        tables: &now.routing.tables,
        adaptive: &now.groups.tables,
    };
    let (taken, quality) = best(1, || measure_adaptive(topology, held, 1));
    let Some(quality) = quality else {
        println!("    no load: choices loop");
        return;
    };
    let text = |load: ByChoice| {
        let well = load
            .well
            .map_or("-".to_owned(), |well| format!("{well:.0}"));
        format!(
            "tables {:.0}, well {well}, evenly {:.2}, badly {:.0}",
            load.fixed, load.evenly, load.badly
        )
    };
    println!(
        "    fullest link, {} of {} shifts: {}; all-to-all: {} (measured in {taken})",
        quality.shifts,
        quality.of,
        text(quality.shift),
        text(quality.all_to_all)
    );
}
