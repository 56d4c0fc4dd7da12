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

use std::hint::black_box;
use std::time::Instant;

use rsm_routing::engine::{EngineKind, Options, route};
use rsm_routing::topology::Topology;

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
    let (taken, _) = median(|| route(EngineKind::FabricTree, topology, &kept, None));
    println!("  full, nothing new {taken}");
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
