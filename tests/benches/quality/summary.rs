//! Compares the engine that `auto` chooses with OpenSM's best engine without credit loops.

use std::io::Write;

use crate::AnyError;
use crate::contest::SUBJECT;
use crate::row::{Measured, Row};

/// The name of a measure, and its value in a row.
type Measure = (&'static str, fn(&Measured) -> f64);

/// The measures; a lower value is better.
const MEASURES: [Measure; 9] = [
    ("max EFI by rate", |measured| {
        measured.quality.paths.rate_max
    }),
    ("EFI max/mean by rate", |measured| {
        measured.quality.paths.rate_max_over_mean
    }),
    ("shift max", |measured| {
        f64::from(measured.quality.shift.max)
    }),
    ("shift mean", |measured| measured.quality.shift.mean),
    ("1 / share in shifts", |measured| {
        1.0 / measured.shares.shift
    }),
    ("1 / share of leaf pairs", |measured| {
        1.0 / measured.shares.leaf_pairs
    }),
    ("random mean", |measured| measured.quality.random.mean),
    ("1 / bisection", |measured| {
        1.0 / measured.quality.bisection.mean
    }),
    ("all-to-all", |measured| {
        f64::from(measured.quality.all_to_all)
    }),
];

/// The difference up to which two values count as equal, because they print alike.
const TOLERANCE: f64 = 0.005;

/// The relative difference up to which two means over 200 random permutations count as equal: they
/// vary by as much with the seed.
const NOISE: f64 = 0.02;

/// The relative difference above which an operator may notice the effect.
const VISIBLE: f64 = 0.02;

/// Writes a table of all cases, and the cases in which rsm is worse.
pub(crate) fn write(out: &mut impl Write, cases: &[(String, Vec<Row>)]) -> Result<(), AnyError> {
    writeln!(
        out,
        "\n## {SUBJECT} / the best of OpenSM's engines that close no cycle between hosts on one lane\n"
    )?;
    writeln!(
        out,
        "For each measure, the lowest value of all its engines; \
         \"repaired\" is for tables with which rsm repairs a fault of a running fabric, \
         \"rebalanced\" for the tables after rebalancing, if the fault lasts. \
         Loads are by rate: a flow on a slower link counts more, \
         by the factor by which the fastest link is faster. \
         Random means that differ by less than {:.0} % count as equal: \
         they vary by as much with the seed.\n",
        NOISE * 100.0
    )?;
    let heads: Vec<&str> = MEASURES.iter().map(|(name, _)| *name).collect();
    writeln!(out, "| case | {} |", heads.join(" | "))?;
    writeln!(out, "|{}", "---|".repeat(heads.len() + 1))?;
    let subject = format!("rsm {SUBJECT}");
    let mut behind = Vec::new();
    let (mut compared_count, mut visible_count) = (0, 0);
    for (case, rows) in cases {
        for own in rows.iter().filter(|row| row.engine.starts_with(&subject)) {
            let Ok(own_measured) = &own.outcome else {
                behind.push(format!("{case}: {} has no tables", own.engine));
                continue;
            };
            let suffix = own.engine.strip_prefix(&subject).unwrap_or_default();
            write!(out, "| {case}{suffix} |")?;
            for (name, measure) in MEASURES {
                let own_value = measure(own_measured);
                let Some((best_value, best_engine)) = best(rows, own_measured, measure) else {
                    write!(out, " {} / none |", format_short(own_value))?;
                    continue;
                };
                compared_count += 1;
                let noise = if name == "random mean" { NOISE } else { 0.0 };
                let is_behind = own_value > best_value * (1.0 + noise) + TOLERANCE;
                let mark = if is_behind { "**" } else { "" };
                write!(
                    out,
                    " {mark}{}{mark} / {} |",
                    format_short(own_value),
                    format_short(best_value)
                )?;
                if is_behind {
                    let excess = own_value / best_value - 1.0;
                    visible_count += usize::from(excess > VISIBLE);
                    let line = format!(
                        "{case}{suffix}: {name} {} where {best_engine} has {} ({:.1} % more)",
                        format_short(own_value),
                        format_short(best_value),
                        100.0 * excess
                    );
                    behind.push(line);
                }
            }
            writeln!(out)?;
        }
    }
    writeln!(
        out,
        "\nBehind in {} of {compared_count} comparisons, \
         by more than {:.0} % in {visible_count}.\n",
        behind.len(),
        VISIBLE * 100.0
    )?;
    for line in behind {
        writeln!(out, "- {line}")?;
    }
    Ok(())
}

/// The lowest value of a measure among OpenSM's engines without credit loops, and its engine;
/// `None` if no engine qualifies.
fn best<'r>(
    rows: &'r [Row],
    own: &Measured,
    measure: fn(&Measured) -> f64,
) -> Option<(f64, &'r str)> {
    rows.iter()
        .filter(|row| row.engine.starts_with("OpenSM") && row.is_free())
        .filter_map(|row| Some((row.outcome.as_ref().ok()?, row.engine.as_str())))
        // An engine that loses more pairs has fewer paths to spread, so its values do not compare.
        .filter(|(measured, _)| measured.quality.lost_pairs <= own.quality.lost_pairs)
        .map(|(measured, engine)| (measure(measured), engine))
        .min_by(|one, other| one.0.total_cmp(&other.0))
}

/// The value as text: without decimals if it is whole, else with two decimals.
fn format_short(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value}")
    } else {
        format!("{value:.2}")
    }
}
