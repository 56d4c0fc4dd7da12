//! Times the quality measures and the drawing of a fabric, on fat trees of three sizes.
//!
//! `cargo bench -p rsm-routing --bench quality [-- SUBSTRING]` prints the shortest time of a few
//! runs, in milliseconds on all cores, for the trees whose names contain SUBSTRING.

#![expect(clippy::print_stdout, reason = "a bench prints")]

#[path = "../tests/routing/common.rs"]
mod common;
mod stopwatch;
mod trees;

use rsm_routing::engine::{EngineKind, Options, levels_from_hosts, route};
use rsm_routing::picture::{Scene, draw};
use rsm_routing::quality::{Settings, link_uses, measure};

use stopwatch::best;

/// The number of runs of which the fastest counts.
const RUNS: usize = 3;

fn main() {
    let name_filter = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    for (name, topology) in trees::named(name_filter.as_deref()) {
        let routing = route(EngineKind::Auto, &topology, &Options::default(), None)
            .expect("a tree can be routed");
        let (uses_time, uses) = best(RUNS, || link_uses(&topology, &routing.tables));
        let (measure_time, quality) = best(RUNS, || {
            measure(&topology, &routing.tables, &Settings::default())
        });
        let (draw_time, picture) = best(RUNS, || {
            draw(&Scene {
                topology: &topology,
                links: &uses,
                levels: &levels_from_hosts(&topology),
                missing: &[],
                title: name,
                notes: &[],
                name: &|guid| guid.to_string(),
            })
        });
        println!(
            "{name} hosts, {}: link uses {:.0}, measure {:.0} in all, picture {:.1} ({} bytes)",
            routing.engine,
            uses_time.wall_ms,
            measure_time.wall_ms,
            draw_time.wall_ms,
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
