//! The engine that `auto` chooses next to OpenSM's best engine without credit loops.

use std::io::Write;

use crate::AnyError;
use crate::contest::SUBJECT;
use crate::row::{Measured, Row};

/// The name of a measure, and its value in a row.
type Measure = (&'static str, fn(&Measured) -> f64);

/// The measures; less is better.
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

/// Two values that print alike are alike.
const TOLERANCE: f64 = 0.005;

/// Two means over 200 random permutations that differ by less than this part are alike, too: they
/// vary by as much with the seed.
const NOISE: f64 = 0.02;

/// A larger part than this is what an operator may see.
const VISIBLE: f64 = 0.02;

/// Writes a table of all cases, and the cases where rsm is behind.
pub(crate) fn write(out: &mut impl Write, cases: &[(String, Vec<Row>)]) -> Result<(), AnyError> {
    writeln!(
        out,
        "\n## {SUBJECT} / the best of OpenSM's engines that close no cycle between hosts on one lane\n"
    )?;
    writeln!(
        out,
        "Measure by measure, the least of all its engines; \"repaired\" is for tables of a fabric that was seen to break, \
         \"rebalanced\" for what becomes of them when the fault stays. \
         Loads are by rate: a flow on a slower link counts as often as the fastest link is faster. \
         Random means that differ by less than {:.0} % are alike: they vary by as much with the seed.\n",
        NOISE * 100.0
    )?;
    let heads: Vec<&str> = MEASURES.iter().map(|(name, _)| *name).collect();
    writeln!(out, "| case | {} |", heads.join(" | "))?;
    writeln!(out, "|{}", "---|".repeat(heads.len() + 1))?;
    let subject = format!("rsm {SUBJECT}");
    let mut behind = Vec::new();
    let (mut compared, mut visible) = (0, 0);
    for (case, rows) in cases {
        for own in rows.iter().filter(|row| row.engine.starts_with(&subject)) {
            let Ok(own_judged) = &own.outcome else {
                behind.push(format!("{case}: {} has no tables", own.engine));
                continue;
            };
            let suffix = own.engine.strip_prefix(&subject).unwrap_or_default();
            write!(out, "| {case}{suffix} |")?;
            for (name, measure) in MEASURES {
                let mine = measure(own_judged);
                let Some((theirs, who)) = best(rows, own_judged, measure) else {
                    write!(out, " {} / none |", short(mine))?;
                    continue;
                };
                compared += 1;
                let noise = if name == "random mean" { NOISE } else { 0.0 };
                let is_behind = mine > theirs * (1.0 + noise) + TOLERANCE;
                let mark = if is_behind { "**" } else { "" };
                write!(out, " {mark}{}{mark} / {} |", short(mine), short(theirs))?;
                if is_behind {
                    let part = mine / theirs - 1.0;
                    visible += usize::from(part > VISIBLE);
                    let line = format!(
                        "{case}{suffix}: {name} {} where {who} has {} ({:.1} % more)",
                        short(mine),
                        short(theirs),
                        100.0 * part
                    );
                    behind.push(line);
                }
            }
            writeln!(out)?;
        }
    }
    writeln!(
        out,
        "\nBehind in {} of {compared} comparisons, by more than {:.0} % in {visible}.\n",
        behind.len(),
        VISIBLE * 100.0
    )?;
    for line in behind {
        writeln!(out, "- {line}")?;
    }
    Ok(())
}

/// The least of a measure among OpenSM's eligible engines, and its engine.
fn best<'r>(
    rows: &'r [Row],
    own: &Measured,
    measure: fn(&Measured) -> f64,
) -> Option<(f64, &'r str)> {
    rows.iter()
        .filter(|row| row.engine.starts_with("OpenSM") && row.is_free())
        .filter_map(|row| Some((row.outcome.as_ref().ok()?, row.engine.as_str())))
        // An engine that loses pairs has fewer paths to spread.
        .filter(|(measured, _)| measured.quality.lost_pairs <= own.quality.lost_pairs)
        .map(|(measured, engine)| (measure(measured), engine))
        .min_by(|one, other| one.0.total_cmp(&other.0))
}

/// Two decimals where they are significant.
fn short(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value}")
    } else {
        format!("{value:.2}")
    }
}
