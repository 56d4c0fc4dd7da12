use clap::Args;
use rsm_proto::v1;
use rsm_proto::v1::Verdict;

use crate::failure::Failure;
use crate::output::{Output, Tint};
use crate::session::Session;
use crate::text::{count, plain_names, printable, timestamp, wrapped};

/// One page about the subnet and its manager: named checks that pass, warn or fail
#[derive(Debug, Args)]
#[command(
    after_help = "The first line is the verdict. Checks that fail come first, then those that warn, each with up to three\nworst parts and the command that shows more; texts end with `...` where they would fill more than a page (--wide: all). A line\neach has what cannot be made (`?`), with the reason, and what passes.\n\nExit codes:\n  0  no check warns or fails; checks that are not known do not count\n  4  a check warns, none fails\n  5  a check fails\n\nExamples:\n  rsmctl report\n  rsmctl report || mail -s 'fabric' boss@example.org\n  rsmctl report --format json | jq '.checks[] | select(.verdict == \"fail\")'"
)]
pub(crate) struct ReportArguments {}

/// The number of columns before the text of a check.
const INDENT: usize = 6;

/// The number of lines of a page, with the verdict.
const PAGE: usize = 45;

/// How much of each check that warns or fails is shown.
#[derive(Clone, Copy)]
struct Detail {
    /// The maximum number of parts.
    parts: usize,
    /// The maximum number of lines of a part.
    lines: usize,
}

/// From the most to the least detail: the first one that fits a page is shown.
const DETAILS: [Detail; 4] = [
    Detail { parts: 3, lines: 2 },
    Detail { parts: 2, lines: 2 },
    Detail { parts: 1, lines: 2 },
    Detail { parts: 1, lines: 1 },
];

pub(crate) async fn run(_: ReportArguments, session: &mut Session) -> Result<(), Failure> {
    let answer = session.fabric().get_report(v1::GetReportRequest {}).await?;
    let report = answer.into_inner().report.unwrap_or_default();
    if session.output.is_json() {
        session.output.json(&report)?;
    } else {
        print(&report, &mut session.output)?;
    }
    match report.verdict() {
        Verdict::Warn => Err(Failure::Checked { fails: false }),
        Verdict::Fail => Err(Failure::Checked { fails: true }),
        Verdict::Pass | Verdict::NotKnown | Verdict::Unspecified => Ok(()),
    }
}

fn print(report: &v1::Report, output: &mut Output) -> Result<(), Failure> {
    for (tint, line) in page(report, output.width()) {
        let line = output.tinted(tint, &line);
        output.line(&line)?;
    }
    Ok(())
}

/// The report in lines of `width` columns: with as much detail as fits a page, or with all of it if
/// lines have any width.
fn page(report: &v1::Report, width: usize) -> Vec<(Tint, String)> {
    let head = verdict(report, width).into_iter().chain([format!(
        "{}, rsm {}, {}",
        printable(&report.fabric),
        printable(&report.version),
        timestamp(report.at_unix_ms)
    )]);
    let head: Vec<(Tint, String)> = head.map(|line| (Tint::None, line)).collect();
    let mut checks = Vec::new();
    for detail in DETAILS {
        checks = lines(report, width, detail);
        if width == usize::MAX || head.len() + checks.len() <= PAGE {
            break;
        }
    }
    head.into_iter().chain(checks).collect()
}

/// The report in a sentence: `1 check fails: routes; 2 warn: nodes, clock; 11 pass, 3 are not
/// known`.
fn verdict(report: &v1::Report, width: usize) -> Vec<String> {
    let of = |verdict| -> Vec<&str> {
        let checks = report.checks.iter();
        let own = checks.filter(|check| check.verdict() == verdict);
        own.map(|check| check.name.as_str()).collect()
    };
    let (fail, warn) = (of(Verdict::Fail), of(Verdict::Warn));
    let named = |number: String, names: &[&str]| match names {
        [] => number,
        names => format!("{number}: {}", names.join(", ")),
    };
    let fails = match fail.len() as u64 {
        0 => "nothing fails".to_owned(),
        number => named(count(number, "check fails", "checks fail"), &fail),
    };
    let warns = match warn.len() as u64 {
        0 => "nothing warns".to_owned(),
        number => named(count(number, "check warns", "checks warn"), &warn),
    };
    let rest = format!(
        "{} pass, {} not known",
        of(Verdict::Pass).len(),
        of(Verdict::NotKnown).len()
    );
    wrapped(&format!("{fails}; {warns}; {rest}"), width, 0)
}

/// The order of checks by their verdict.
fn rank(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Fail => 0,
        Verdict::Warn => 1,
        Verdict::NotKnown | Verdict::Unspecified => 2,
        Verdict::Pass => 3,
    }
}

/// The part of a text before its advice, which the command of the check shows.
fn without_advice(part: &str) -> &str {
    part.split("; ").next().unwrap_or(part)
}

/// The first lines of a text that is broken at `width`. The last one ends with `...` if the text
/// goes on.
fn begin(text: &str, width: usize, indent: usize, lines: usize) -> Vec<String> {
    let mut all = wrapped(text, width, indent);
    if all.len() > lines {
        all.truncate(lines);
        let room = width.saturating_sub(" ...".len());
        if let Some(last) = all.last_mut() {
            let whole = wrapped(last, room, indent).into_iter().next();
            *last = whole.unwrap_or_default() + " ...";
        }
    }
    all
}

/// The checks, each with the colour of its verdict on its first line.
fn lines(report: &v1::Report, width: usize, detail: Detail) -> Vec<(Tint, String)> {
    let mut lines = Vec::new();
    let mut checks: Vec<&v1::Check> = report.checks.iter().collect();
    checks.sort_by_key(|check| rank(check.verdict()));
    for check in checks {
        let (name, summary) = (&check.name, &check.summary);
        let (word, tint, text) = match check.verdict() {
            Verdict::Warn => ("WARN", Tint::Warning, format!("{name}: {summary}")),
            Verdict::Fail => ("FAIL", Tint::Error, format!("{name}: {summary}")),
            Verdict::Pass => ("pass", Tint::Good, format!("{name}: {summary}")),
            Verdict::NotKnown | Verdict::Unspecified => {
                ("?", Tint::None, format!("{name}: not known: {summary}"))
            }
        };
        let is_good = !matches!(check.verdict(), Verdict::Warn | Verdict::Fail);
        let mut add = |tint, text: &str, indent, most| {
            for (at, line) in begin(&plain_names(&printable(text)), width, indent, most)
                .into_iter()
                .enumerate()
            {
                lines.push((if at == 0 { tint } else { Tint::None }, line));
            }
        };
        let text = format!("{word:<INDENT$}{text}");
        if is_good {
            add(tint, &text, INDENT, 1);
            continue;
        }
        add(tint, &text, INDENT, usize::MAX);
        for part in check.worst.iter().take(detail.parts) {
            let part = format!("{:INDENT$}- {}", "", without_advice(part));
            add(Tint::None, &part, INDENT + 2, detail.lines);
        }
        let left_out = check.worst.len().saturating_sub(detail.parts) as u64;
        let more = match check.more + left_out {
            0 => String::new(),
            more => format!("{more} more; "),
        };
        if !check.command.is_empty() {
            let command = format!("{:INDENT$}{more}see: {}", "", check.command);
            add(Tint::None, &command, INDENT, usize::MAX);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_keep_to_the_width_of_the_terminal() {
        let check = v1::Check {
            name: "nodes".to_owned(),
            verdict: Verdict::Fail.into(),
            summary: "word ".repeat(30),
            worst: vec!["MF0;leaf-03:MQM8790/U1 does not answer ".repeat(4)],
            more: 2,
            command: "rsmctl expect".to_owned(),
        };
        let report = v1::Report {
            checks: vec![check],
            ..v1::Report::default()
        };
        let lines = lines(&report, 60, DETAILS[0]);
        assert!(lines.iter().all(|(_, line)| line.chars().count() <= 60));
        assert_eq!(lines[0].0, Tint::Error);
        assert!(lines[0].1.starts_with("FAIL  nodes: word"), "{lines:?}");
        let text: String = lines.iter().map(|(_, line)| line.as_str()).collect();
        assert!(text.contains("leaf-03 does not"), "{text}");
        assert!(text.ends_with("2 more; see: rsmctl expect"), "{text}");
    }

    #[test]
    fn the_first_line_is_the_verdict_and_the_worst_come_first() {
        let check = |name: &str, verdict: Verdict| v1::Check {
            name: name.to_owned(),
            verdict: verdict.into(),
            worst: vec!["a cable is gone: routes lead around it; put it back".to_owned()],
            ..v1::Check::default()
        };
        let report = v1::Report {
            checks: vec![
                check("clock", Verdict::Pass),
                check("nodes", Verdict::Warn),
                check("multicast", Verdict::NotKnown),
                check("routes", Verdict::Fail),
            ],
            ..v1::Report::default()
        };
        let first = "1 check fails: routes; 1 check warns: nodes; 1 pass, 1 not known";
        assert_eq!(verdict(&report, 80), [first]);
        let lines = lines(&report, 80, DETAILS[0]);
        let at = |name: &str| lines.iter().position(|line| line.1.contains(name)).unwrap();
        let order = ["routes:", "nodes:", "multicast:", "clock:"].map(at);
        assert!(order.is_sorted(), "{lines:?}");
        assert!(
            lines.iter().all(|line| !line.1.contains("put it back")),
            "{lines:?}"
        );
    }
    #[test]
    fn many_faults_fit_a_page_of_80_columns_and_passes_a_line_each() {
        let check = |at: usize, verdict: Verdict| v1::Check {
            name: format!("check-{at}"),
            verdict: verdict.into(),
            summary: "47 of 48 switches and 127 of 128 hosts with 1013 adapters answer ".repeat(2),
            worst: vec![
                "the cable between leaf-03 port 42 and spine-05 carries less ".repeat(4);
                3
            ],
            more: 1,
            command: "rsmctl expect".to_owned(),
        };
        let faults = (0..11).map(|at| check(at, Verdict::Warn));
        let passes = (11..21).map(|at| check(at, Verdict::Pass));
        let report = v1::Report {
            checks: passes.chain(faults).collect(),
            ..v1::Report::default()
        };
        let lines = page(&report, 80);
        assert!(lines.len() <= 58, "{} lines", lines.len());
        assert!(lines.iter().all(|(_, line)| line.chars().count() <= 80));
        let passes = lines.iter().filter(|(_, line)| line.starts_with("pass  "));
        let passes: Vec<&str> = passes.map(|(_, line)| line.as_str()).collect();
        assert_eq!(passes.len(), 10);
        assert!(passes[0].ends_with(" ..."), "{passes:?}");
        // The last lines are the passes, without parts or a command.
        let last = &lines[lines.len() - passes.len()..];
        assert!(last.iter().all(|(_, line)| line.starts_with("pass  ")));
        let see = lines.iter().find(|(_, line)| line.contains("see:"));
        assert_eq!(see.unwrap().1, "      3 more; see: rsmctl expect");
        // With room, nothing is left out.
        let wide = page(&report, usize::MAX);
        assert!(wide.iter().all(|(_, line)| !line.ends_with("...")));
        assert_eq!(wide.len(), 2 + 11 * 5 + 10);
    }
}
