//! How long judging tables takes, on fat trees of three sizes.
//!
//! `cargo bench -p rsm-routing --bench quality [-- SUBSTRING]` prints the best of a few runs, in milliseconds on all cores.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench reads the clock and prints"
)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::time::Instant;

use rsm_routing::engine::{EngineKind, Options, levels_from_hosts, route};
use rsm_routing::picture::{Scene, draw};
use rsm_routing::quality::{Settings, judge, link_uses};

const RUNS: usize = 3;

fn best<T>(mut work: impl FnMut() -> T) -> (f64, T) {
    let mut made = None;
    let mut best_ms = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        made = Some(black_box(work()));
        best_ms = best_ms.min(start.elapsed().as_secs_f64() * 1e3);
    }
    (best_ms, made.expect("at least one run"))
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
            .is_some_and(|wanted| !name.contains(wanted.as_str()))
        {
            continue;
        }
        let topology = common::pgft(m, w, p, 0);
        let routing = route(EngineKind::Auto, &topology, &Options::default(), None)
            .expect("a tree can be routed");
        let (uses_ms, uses) = best(|| link_uses(&topology, &routing.tables));
        let (judge_ms, quality) = best(|| judge(&topology, &routing.tables, &Settings::default()));
        let (draw_ms, picture) = best(|| {
            draw(&Scene {
                topology: &topology,
                links: &uses,
                levels: &levels_from_hosts(&topology),
                title: name,
                notes: &[],
                name: &|guid| guid.to_string(),
            })
        });
        println!(
            "{name} hosts, {}: link uses {uses_ms:.0}, judge {judge_ms:.0} in all, picture {draw_ms:.1} ({} bytes)",
            routing.engine,
            picture.len()
        );
        println!(
            "  paths max {} ({:.2} of the mean), all-to-all {}, shift {} (mean {:.2}, {} of {}), random {:.2}, bisection {:.2}, ring {}, doubling {}, trees {}",
            quality.paths.max,
            quality.paths.max_over_mean(),
            quality.all_to_all,
            quality.shift.max,
            quality.shift.mean,
            quality.shift.phases,
            quality.shift.of,
            quality.random.mean,
            quality.bisection.mean,
            quality.ring.max,
            quality.recursive_doubling.max,
            quality.double_tree.max,
        );
    }
}
