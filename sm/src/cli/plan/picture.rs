//! `--svg`: a drawing of the fabric.

use std::path::Path;

use anyhow::Context as _;
use rsm_ids::Guid;
use rsm_routing::engine::levels_from_hosts;
use rsm_routing::picture::{Scene, draw};
use rsm_routing::quality::link_uses;

use super::{Bench, Measured, PlanArgs};

/// Draws the fabric with its routes into `file`.
pub(super) fn write(
    file: &Path,
    args: &PlanArgs,
    bench: &Bench,
    measured: &Measured,
) -> anyhow::Result<()> {
    let title = match &args.fail {
        Some(faults) => format!("{} without {faults}", args.fabric),
        None => args.fabric.clone(),
    };
    let levels = measured.ranks.clone();
    let picture = draw(&Scene {
        topology: &bench.topology,
        links: &link_uses(&bench.topology, &measured.tables),
        levels: &levels.unwrap_or_else(|| levels_from_hosts(&bench.topology)),
        missing: &bench.missing,
        title: &title,
        notes: &notes(measured),
        name: &|guid: Guid| {
            let node = bench.fabric.find(guid);
            node.map_or_else(|| guid.to_string(), |node| bench.fabric.node(node).name())
        },
    });
    std::fs::write(file, picture).with_context(|| format!("cannot write {}", file.display()))
}

/// Notes in the drawing: the reason for the routes, and their quality if it was measured.
fn notes(measured: &Measured) -> Vec<String> {
    let mut notes = vec![measured.reason.clone()];
    if let Some(quality) = &measured.quality {
        notes.push(format!(
            "paths on the fullest link {} ({:.2} times the mean), all-to-all risk {}, flows by rate on the fullest link: shift {} at most and {:.2} on average, random permutation {:.2}",
            quality.paths.max,
            quality.paths.max_over_mean(),
            quality.all_to_all,
            quality.shift.max,
            quality.shift.mean,
            quality.random.mean
        ));
    }
    notes
}
