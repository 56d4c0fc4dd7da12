//! `--tables`: reads tables that another subnet manager computed.

use std::path::Path;

use anyhow::Context as _;
use rsm_routing::lanes::Lanes;
use rsm_routing::lfts::{self, Fit};

use super::stopwatch::Stopwatch;
use super::{Bench, Measured};

/// Largest accepted size of a file of tables, in bytes: 4,000 switches with 49,151 LIDs each, and
/// 80 bytes per entry.
const FILE_MAX: u64 = 16 * 1024 * 1024 * 1024;

/// Reads the tables in `file`, fits them to the fabric, and measures them.
pub(super) fn measure(bench: &Bench, file: &Path, quality: bool) -> anyhow::Result<Measured> {
    let mut watch = Stopwatch::start();
    let name = file.display().to_string();
    let size = std::fs::metadata(file)
        .with_context(|| format!("cannot read {name}"))?
        .len();
    anyhow::ensure!(
        size <= FILE_MAX,
        "{name} has {size} bytes: expected tables of at most {FILE_MAX}"
    );
    let text = std::fs::read(file).with_context(|| format!("cannot read {name}"))?;
    let fit = lfts::parse(&text, &name)?.fit(&bench.topology);
    let read = watch.lap();
    let misfits = misfits(&fit);
    for misfit in &misfits {
        tracing::warn!("{name}: {misfit}");
    }
    let reason = match misfits.as_slice() {
        [] => format!("the tables of {name}"),
        misfits => format!(
            "the tables of {name}, as far as they fit: {}",
            misfits.join("; ")
        ),
    };
    Ok(Measured {
        engine: "file",
        reason,
        ..Measured::of(bench, fit.tables, &Lanes::default(), read, quality)
    })
}

/// Describes the mismatches between the file and the fabric.
fn misfits(fit: &Fit) -> Vec<String> {
    let counts = [
        (fit.without_table.len(), "switches have no table in it"),
        (
            fit.unknown_switches.len(),
            "of its switches are not in the fabric",
        ),
        (
            fit.unknown_lids,
            "of its LIDs belong to no port of the fabric",
        ),
        (
            fit.moved_lids,
            "of its LIDs are others in the fabric, and were renumbered",
        ),
        (
            fit.missing_ports,
            "of its entries lead through ports that their switches do not have",
        ),
    ];
    let found = counts.into_iter().filter(|&(count, _)| count > 0);
    found
        .map(|(count, what)| format!("{count} {what}"))
        .collect()
}
