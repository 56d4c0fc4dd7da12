//! What `fabric-tree` takes at 45,056 hosts and less, full and after faults.
//!
//! `cargo bench -p rsm-routing --bench fabric_tree [-- SUBSTRING]` prints medians of a few runs: wall-clock time on all
//! cores, and processor time, which other work on the machine blurs less. Milliseconds.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench reads the clock and prints"
)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::Instant;

use rsm_ids::Lid;
use rsm_routing::engine::{EngineKind, Options, Ranking, replan, route};
use rsm_routing::mcast::Orientation;
use rsm_routing::tables::Tables;
use rsm_routing::topology::{SwitchIdx, Topology};
use rsm_routing::verify::{carried, changes, ends, fault_in_changes};

const RUNS: usize = 5;

/// Time on a processor of all threads together, as Linux counts it; 0 elsewhere.
fn cpu_ms() -> f64 {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else {
        return 0.0;
    };
    threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("schedstat")).ok())
        .filter_map(|line| line.split_whitespace().next()?.parse::<f64>().ok())
        .sum::<f64>()
        / 1e6
}

/// "median wall (median cpu)", and the last result.
fn median<T>(mut work: impl FnMut() -> T) -> (String, T) {
    let (mut walls, mut cpus, mut made) = (Vec::new(), Vec::new(), None);
    for _ in 0..RUNS {
        drop(made.take());
        let (start, cpu) = (Instant::now(), cpu_ms());
        made = Some(black_box(work()));
        walls.push(start.elapsed().as_secs_f64() * 1e3);
        cpus.push(cpu_ms() - cpu);
    }
    walls.sort_by(f64::total_cmp);
    cpus.sort_by(f64::total_cmp);
    let text = format!("{:.2} ({:.2} cpu)", walls[RUNS / 2], cpus[RUNS / 2]);
    (text, made.expect("at least one run"))
}

/// In which order ports get LIDs, behind the switches and from a whole block on.
#[derive(Clone, Copy)]
enum Layout {
    /// Leaf by leaf.
    ByLeaf,
    /// The first port of every leaf, then the second of every leaf, and so on.
    ByIndex,
    /// In any order.
    Scattered,
}

fn laid_out(topology: &Topology, layout: Layout) -> Topology {
    let mut ports: Vec<(usize, Lid)> = Vec::new();
    let mut lids: Vec<Lid> = (0..=topology.top_lid().0).map(Lid).collect();
    for switch in topology.indices() {
        let (own, hosts): (Vec<_>, Vec<_>) = topology
            .destinations_of(switch)
            .iter()
            .partition(|destination| !destination.kind.is_host());
        for own in own {
            lids[own.lid.index()] = Lid(switch.0 as u16 + 1);
        }
        ports.extend(
            hosts
                .iter()
                .enumerate()
                .map(|(place, host)| (place, host.lid)),
        );
    }
    match layout {
        Layout::ByLeaf => {}
        Layout::ByIndex => ports.sort_by_key(|&(place, _)| place),
        Layout::Scattered => {
            let mixed = |lid: Lid| u64::from(lid.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            ports.sort_unstable_by_key(|&(_, lid)| mixed(lid));
        }
    }
    let first = (topology.switch_count() + 1).next_multiple_of(64);
    for (number, (_, lid)) in ports.into_iter().enumerate() {
        lids[lid.index()] = Lid((first + number) as u16);
    }
    common::rebuilt(
        topology,
        |_| true,
        |destination| lids[destination.lid.index()],
    )
}

/// How many Sets each of some faults costs: those that packets of hosts wait for, and all.
fn faults(topology: &Topology) {
    let leaf = |switch: SwitchIdx| topology.hosts(switch) > 0;
    let next_to_leaf = |switch: SwitchIdx| {
        !leaf(switch) && topology.groups(switch).any(|group| leaf(group.neighbour))
    };
    let at = |guid| {
        topology
            .switch_by_guid(guid)
            .expect("a switch of this fabric")
    };
    let cables = topology.cables();
    let middle = |wanted: &dyn Fn(SwitchIdx) -> bool| {
        let found: Vec<SwitchIdx> = topology.indices().filter(|&s| wanted(s)).collect();
        found[found.len() / 2]
    };
    let cable = |wanted: &dyn Fn(SwitchIdx) -> bool| {
        let found: Vec<_> = cables
            .iter()
            .filter(|cable| wanted(at(cable.a.0)))
            .collect();
        // Not the one whose place among its like is that of the leaf, which carries what leads to the leaf itself too.
        found[found.len() / 2 + 5].a
    };
    let mid = middle(&next_to_leaf);
    let core = middle(&|switch| !leaf(switch) && !next_to_leaf(switch));
    let without = |gone: SwitchIdx| common::without_switches(topology, &[gone]);
    let broken: [(&str, &dyn Fn() -> Topology); 4] = [
        ("leaf link", &|| topology.without_cables(&[cable(&leaf)])),
        ("core link", &|| {
            topology.without_cables(&[cable(&next_to_leaf)])
        }),
        ("middle switch", &|| without(mid)),
        ("core switch", &|| without(core)),
    ];
    let before = route(EngineKind::FabricTree, topology, &Options::default(), None);
    let before = before.expect("a tree can be routed");
    for (name, broken) in broken {
        let broken = broken();
        let options = Options {
            previous_ranking: before.ranking.clone(),
            ..Options::default()
        };
        let after = route(EngineKind::FabricTree, &broken, &options, None);
        let after = after.expect("a broken tree can be routed");
        let held =
            |switch: &rsm_routing::topology::Switch| before.tables.lft(at(switch.guid)).clone();
        let old = Tables {
            lfts: broken.switches().iter().map(held).collect(),
        };
        let changes = changes(&old, &after.tables);
        let is_carried = carried(&broken, &after.tables, &changes);
        let blocks = |of: &dyn Fn(usize) -> bool| {
            let of = (0..changes.len()).filter(|&number| of(number));
            let found: BTreeSet<_> = of
                .map(|number| (changes[number].switch, changes[number].lid.0 / 64))
                .collect();
            found.len()
        };
        println!(
            "    {name:13}: {:6} blocks for hosts, {:6} in all; {} entries{}",
            blocks(&|number| is_carried[number]),
            blocks(&|_| true),
            changes.len(),
            if after.reason.contains("while parts") {
                ", by another order"
            } else {
                ""
            },
        );
    }
}

fn bench(name: &str, topology: &Topology) {
    let options = Options::default();
    let (taken, routing) = median(|| route(EngineKind::FabricTree, topology, &options, None));
    let routing = routing.expect("a tree can be routed");
    println!("{name} hosts, {} switches", topology.switch_count());
    println!("  full {taken}");
    let kept = Options {
        previous_ranking: routing.ranking.clone(),
        ..Options::default()
    };
    let unprepared = Options {
        previous_ranking: routing.ranking.clone().map(Ranking::unprepared),
        ..Options::default()
    };
    let (taken, _) = median(|| route(EngineKind::FabricTree, topology, &unprepared, None));
    println!("  full, by a known order {taken}");
    let one_link = topology.without_cables(&[topology.cables()[topology.link_count() / 3].a]);
    let core = topology.indices().last().expect("it has switches");
    let one_switch = common::without_switches(topology, &[core]);
    for (name, broken) in [("one link", &one_link), ("one core switch", &one_switch)] {
        let (taken, again) = median(|| replan(broken, &kept).expect("only parts of it have gone"));
        println!(
            "  {name} less: replan {taken}, {} entries",
            again.changes().len()
        );
        let (taken, again) = median(|| {
            let again = replan(broken, &kept).expect("only parts of it have gone");
            again.into_routing()
        });
        println!("    with tables {taken}");
        let orientation = again
            .ranking
            .as_ref()
            .and_then(|ranking| Orientation::of(broken, ranking))
            .expect("it is ranked");
        let changes = replan(broken, &kept).expect("only parts of it have gone");
        let (taken, fault) = median(|| {
            fault_in_changes(
                broken,
                |high, low| orientation.is_above(high, low),
                &again.tables,
                changes.changes(),
                &ends(topology, broken),
            )
        });
        println!("    proof of the changes {taken}: {fault:?}");
        let back = Options {
            previous_ranking: again.ranking.clone(),
            ..Options::default()
        };
        let (taken, _) = median(|| replan(topology, &back).expect("all of it is known"));
        println!("    and back {taken}");
    }
    drop(routing);
    for (name, layout) in [
        ("leaf by leaf", Layout::ByLeaf),
        ("by index", Layout::ByIndex),
        ("scattered", Layout::Scattered),
    ] {
        println!("  LIDs {name}");
        faults(&laid_out(topology, layout));
    }
}

fn main() {
    let wanted = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let fabrics: [(&str, [&[usize]; 3]); 3] = [
        ("3456", [&[12, 12, 24], &[1, 12, 12], &[1, 1, 1]]),
        ("10240", [&[32, 32, 10], &[1, 32, 32], &[1, 1, 1]]),
        ("45056", [&[32, 32, 44], &[1, 32, 16], &[1, 1, 2]]),
    ];
    for (name, [m, w, p]) in fabrics {
        if wanted
            .as_ref()
            .is_none_or(|wanted| name.contains(wanted.as_str()))
        {
            bench(name, &common::pgft(m, w, p, 0));
        }
    }
}
