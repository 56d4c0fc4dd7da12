//! How long tables and proofs take, on fat trees of three sizes.
//!
//! `cargo bench -p rsm-routing --bench engines [-- SUBSTRING|FILE]` prints, for these or for a
//! fabric in ibnetdiscover's format, the best of a few runs: wall-clock time on all cores, and
//! processor time, which other work on the machine blurs less. Milliseconds.

#![expect(clippy::print_stdout, reason = "a bench prints")]

#[path = "../tests/routing/common.rs"]
mod common;
mod stopwatch;
mod trees;

use rsm_routing::engine::{EngineKind, Options, route};
use rsm_routing::topology::Topology;
use rsm_routing::verify::{Dependencies, mixture_is_acyclic, verify};

use stopwatch::best;

const RUNS: usize = 5;

fn peak_memory_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| {
            rest.trim()
                .trim_end_matches("kB")
                .trim()
                .parse::<f64>()
                .ok()
        })
        .map_or(f64::NAN, |kb| kb / 1024.0)
}

fn bench(name: &str, topology: &Topology) {
    let options = Options::default();
    let (tree, tree_routing) = best(RUNS, || {
        route(EngineKind::FabricTree, topology, &options, None)
    });
    let tree_routing = tree_routing.expect("a tree can be routed");
    println!(
        "{name} hosts, {} switches: fabric-tree {tree}",
        topology.switch_count()
    );
    println!("  {}", tree_routing.reason);
    drop(tree_routing);
    let (minhop, _) = best(RUNS, || route(EngineKind::MinHop, topology, &options, None));
    let (updn, routing) = best(RUNS, || route(EngineKind::UpDn, topology, &options, None));
    let routing = routing.expect("a tree can be routed");
    let (checked, report) = best(RUNS, || verify(topology, &routing.tables));
    let cable = topology.cables()[0];
    let (rebuilt, broken) = best(RUNS, || topology.without_cables(&[cable.a]));
    let kept = Options {
        previous_ranking: routing.ranking.clone(),
        ..Options::default()
    };
    let (again, repaired) = best(RUNS, || {
        route(EngineKind::UpDn, &broken, &kept, Some(&routing.tables))
    });
    let repaired = repaired.expect("a tree can be routed");
    let (mixed, safe) = best(RUNS, || {
        mixture_is_acyclic(&broken, &routing.tables, &repaired.tables)
    });
    let dependencies = Dependencies::of(&broken, &routing.tables);
    let (known, _) = best(RUNS, || {
        let mut dependencies = dependencies.clone();
        dependencies.add_mixture(&routing.tables, &repaired.tables);
        dependencies.is_acyclic()
    });
    println!("{name} hosts, {} switches", topology.switch_count());
    println!("  updn {updn}, minhop {minhop}, verify {checked}");
    println!(
        "  one cable less: rebuild {rebuilt}, updn {again}, mixture {mixed}, {known} on known dependencies; \
         {} blocks differ, safe in any order: {safe}",
        repaired.tables.blocks_changed(&routing.tables),
    );
    println!(
        "  unreachable {} of {}, credit-loop-free {}, hops max {} mean {:.2}, load max/mean {:.2}, peak memory {:.0} MB",
        report.unreachable_pairs,
        report.reachable_pairs,
        report.credit_loop_free,
        report.max_hops,
        report.average_hops,
        report.load.max as f64 / report.load.mean,
        peak_memory_mb(),
    );
    println!("  {}", routing.reason);
}

fn main() {
    let wanted = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    if let Some(file) = &wanted
        && let Ok(text) = std::fs::read(file)
    {
        let parsed = rsm_routing::ibnetdiscover::parse(&text, file).expect("a fabric");
        let topology = Topology::from_netlist(&parsed.netlist).expect("a fabric that can be");
        let name = topology.destinations().len().to_string();
        return bench(&name, &topology);
    }
    for (name, topology) in trees::named(wanted.as_deref()) {
        bench(name, &topology);
    }
}
