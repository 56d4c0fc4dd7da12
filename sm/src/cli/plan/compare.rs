//! `--compare`: routes the same fabric with several engines.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use rsm_routing::engine::EngineKind;
use serde::Serialize;

use super::quality::QualityPart;
use super::report::{self, FabricPart, VerifyPart};
use super::stopwatch::milliseconds;
use super::{Bench, Measured, exit_code};
use crate::cli::Format;
use crate::cli::output::{print, print_json};

/// Comparison, as JSON.
#[derive(Serialize)]
struct Comparison {
    fabric: FabricPart,
    engines: Vec<Contender>,
}

/// Result of one engine, or of tables from a file.
#[derive(Serialize)]
struct Contender {
    /// Requested engine.
    asked: &'static str,
    /// Engine that routed, for `auto` the engine that it chose; null if no tables were made.
    name: Option<&'static str>,
    /// Why the engine was chosen, or why it made no tables.
    reason: String,
    route_ms: Option<f64>,
    verify: Option<VerifyPart>,
    quality: Option<QualityPart>,
}

/// Requested engine, and its result.
type Outcome = (&'static str, anyhow::Result<Measured>);

/// Prints the comparison. The exit code reports success if every engine made sound tables.
pub(super) fn run(
    bench: &Bench,
    kinds: &[EngineKind],
    tables: Option<&Path>,
    format: Format,
) -> anyhow::Result<ExitCode> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    if let Some(file) = tables {
        outcomes.push(("file", Ok(super::tables::measure(bench, file, true)?)));
    }
    let routed = kinds
        .iter()
        .map(|&kind| (kind.name(), super::route(bench, kind, true)));
    outcomes.extend(routed);
    let is_sound = outcomes
        .iter()
        .all(|(_, outcome)| outcome.as_ref().is_ok_and(Measured::is_sound));
    match format {
        Format::Json => print_json(&Comparison {
            fabric: report::fabric(bench),
            engines: outcomes
                .iter()
                .map(|(kind, outcome)| contender(bench, kind, outcome))
                .collect(),
        })?,
        Format::Text => print(|out| {
            report::write_fabric(out, bench)?;
            write_table(out, &outcomes)
        })?,
    }
    Ok(exit_code(is_sound))
}

/// Converts the result of an engine for JSON.
fn contender(bench: &Bench, asked: &'static str, outcome: &anyhow::Result<Measured>) -> Contender {
    match outcome {
        Ok(measured) => Contender {
            asked,
            name: Some(measured.engine),
            reason: measured.reason.clone(),
            route_ms: Some(milliseconds(measured.route)),
            verify: Some(report::verification(measured)),
            quality: measured
                .quality
                .as_ref()
                .map(|quality| QualityPart::new(quality, &bench.fabric)),
        },
        Err(error) => Contender {
            asked,
            name: None,
            reason: format!("{error:#}"),
            route_ms: None,
            verify: None,
            quality: None,
        },
    }
}

/// Writes a table with a line for each engine, and then why each engine was chosen.
fn write_table(out: &mut dyn Write, outcomes: &[Outcome]) -> io::Result<()> {
    writeln!(
        out,
        "{:<16} {:>9} {:>9} {:>8} {:>6} {:>6} {:>7} {:>7} {:>6} {:>6} {:>5}  proof",
        "engine",
        "route ms",
        "paths max",
        "max/mean",
        "a2a",
        "shift",
        "mean",
        "random",
        "bisect",
        "rails",
        "hops"
    )?;
    for (asked, outcome) in outcomes {
        let measured = match outcome {
            Ok(measured) => measured,
            Err(error) => {
                writeln!(out, "{asked:<16} no tables: {error:#}")?;
                continue;
            }
        };
        let Some(quality) = &measured.quality else {
            continue;
        };
        let rails = quality
            .rail_all_to_all
            .map_or("-".to_owned(), |rails| rails.max.to_string());
        let name = match measured.engine {
            used if used == *asked => used.to_owned(),
            used => format!("{asked}: {used}"),
        };
        writeln!(
            out,
            "{name:<16} {:>9.1} {:>9} {:>8.2} {:>6} {:>6} {:>7.2} {:>7.2} {:>5.0}% {rails:>6} {:>5}  {}",
            milliseconds(measured.route),
            quality.paths.max,
            quality.paths.max_over_mean(),
            quality.all_to_all,
            quality.shift.max,
            quality.shift.mean,
            quality.random.mean,
            quality.bisection.mean * 100.0,
            measured.report.max_hops,
            verdict(measured)
        )?;
    }
    writeln!(
        out,
        "paths: of all pairs of hosts on a link; a2a: all-to-all risk; shift, random, rails: flows by rate on the fullest link"
    )?;
    for (asked, outcome) in outcomes {
        if let Ok(measured) = outcome {
            writeln!(out, "{asked}: {}", measured.reason)?;
        }
    }
    Ok(())
}

/// The faults that the proof has found in the tables, or `sound`.
fn verdict(measured: &Measured) -> String {
    let report = &measured.report;
    let mut faults = Vec::new();
    if !report.loop_free {
        faults.push("LOOPS".to_owned());
    }
    if !report.credit_loop_free {
        faults.push("CREDIT LOOPS".to_owned());
    }
    if report.unreachable_pairs > 0 {
        faults.push(format!("{} pairs LOST", report.unreachable_pairs));
    }
    if faults.is_empty() {
        "sound".to_owned()
    } else {
        faults.join(", ")
    }
}
