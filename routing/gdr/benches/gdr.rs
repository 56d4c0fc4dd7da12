//! Measures the time of hints, pairs and plans of jobs on SuperPODs.
//!
//! `cargo bench -p rsm-gdr --bench gdr` prints the lowest processor time of several runs, summed
//! over all threads: other work on the machine disturbs it less than it disturbs wall-clock time.

#![expect(clippy::print_stdout, reason = "a bench prints")]

#[path = "../../benches/stopwatch/mod.rs"]
mod stopwatch;

use std::sync::Arc;

use rsm_gdr::fabric::GpuFabric;
use rsm_gdr::generate::{FleetFaults, fleet};
use rsm_gdr::job::{JobRequest, Pattern};
use rsm_gdr::{Analysis, AnalysisConfig};
use rsm_routing::engine::{EngineKind, Options, route};
use rsm_routing::generate::generate;
use rsm_routing::topology::Topology;

use stopwatch::{best, cpu_ms};

/// The number of runs, of which the fastest counts.
const RUNS: usize = 5;
/// The number of pairs of GPUs in one run.
const PAIRS: usize = 10_000;

/// The processor time of the fastest run in milliseconds.
fn best_ms<T>(work: impl FnMut() -> T) -> f64 {
    best(RUNS, work).0.cpu_ms
}

fn main() {
    // 512 hosts, and 2,048 hosts: 64 units are the largest published SuperPOD.
    for units in [16usize, 64] {
        let netlist = generate(&format!("superpod:su={units}")).expect("a published fabric");
        let faults = FleetFaults {
            gpu_order: units,
            swapped_cables: 2,
            nvlinks: 3,
            ..FleetFaults::default()
        };
        let fleet = fleet(netlist, faults).expect("hosts with plain names");
        let topology = Arc::new(Topology::from_netlist(&fleet.netlist).expect("LIDs suffice"));
        let routing = route(EngineKind::UpDn, &topology, &Options::default(), None)
            .expect("a tree can be routed");
        let tables = Arc::new(routing.tables);
        let fabric = || {
            GpuFabric::from_netlist(
                &fleet.netlist,
                Arc::clone(&topology),
                Some(Arc::clone(&tables)),
                4096,
            )
        };
        let hosts = units * 32;

        let build = best_ms(fabric);
        println!("{hosts:>5} hosts  fabric view            {build:>9.2} ms");
        let mut analysis = None;
        let hints = (0..RUNS).fold(f64::INFINITY, |best, _| {
            let fabric = fabric();
            let start = cpu_ms();
            analysis = Some(Analysis::new(
                &fleet.inventory,
                Some(fabric),
                AnalysisConfig::default(),
            ));
            best.min(cpu_ms() - start)
        });
        println!("{hosts:>5} hosts  join, rails, hints     {hints:>9.2} ms");
        let analysis = analysis.expect("the benchmark has at least one run");
        println!(
            "{hosts:>5} hosts  findings               {:>9}",
            analysis.findings.len()
        );

        let names: Vec<&str> = analysis
            .hosts
            .iter()
            .map(|host| host.name.as_str())
            .collect();
        let pairs = best_ms(|| {
            (0..PAIRS).fold(0usize, |sum, at| {
                let (from, to) = (names[at * 7 % hosts], names[at * 13 % hosts]);
                let gpu = |at: usize| (at % 8) as u16;
                let hint = analysis.pair((from, gpu(at)), (to, gpu(at / 8)));
                sum + hint.map_or(0, |hint| hint.paths.len())
            })
        });
        println!(
            "{hosts:>5} hosts  one pair               {:>9.2} µs",
            pairs * 1e3 / PAIRS as f64
        );
        for pattern in Pattern::ALL {
            let request = JobRequest {
                hosts: names
                    .iter()
                    .take(512)
                    .map(|&name| name.to_owned())
                    .collect(),
                gpus_per_host: 8,
                left_out: 0,
                pattern,
            };
            let plan = best_ms(|| analysis.plan(&request));
            let load = analysis.plan(&request).ok().and_then(|plan| plan.load);
            let worst = load.map_or(0, |load| load.worst_link);
            let share = load.map_or(0.0, |load| load.leaf_local_share());
            println!(
                "{hosts:>5} hosts  job of 512, {pattern:<19} {plan:>7.2} ms  worst link {worst}, leaf-local {share:.3}"
            );
        }
    }
}
