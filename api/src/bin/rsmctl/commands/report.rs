use clap::Args;
use rsm_proto::v1;
use rsm_proto::v1::Verdict;

use crate::failure::Failure;
use crate::output::{Output, Tint};
use crate::session::Session;
use crate::text::{count, label, plain_names, printable, timestamp, wrapped};

/// One page about the subnet and its manager: named checks that pass, warn or fail
#[derive(Debug, Args)]
#[command(
    after_help = "The first line is the verdict. Checks that fail come first, then those that warn, those that cannot be\nmade, and those that pass. Each check names its three worst parts and the command that shows more. A check that cannot be made\nsays why, and never passes.\n\nExit codes:\n  0  no check warns or fails; checks that are not known do not count\n  4  a check warns, none fails\n  5  a check fails\n\nExamples:\n  rsmctl report\n  rsmctl report || mail -s 'fabric' boss@example.org\n  rsmctl report --format json | jq '.checks[] | select(.verdict == \"fail\")'"
)]
pub(crate) struct ReportArguments {}

/// The number of columns before the text of a check.
const INDENT: usize = 11;

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
    let lines = lines(report, output.width());
    for line in verdict(report, output.width()) {
        output.line(&line)?;
    }
    output.line(&format!(
        "{}, rsm {}, {}",
        printable(&report.fabric),
        printable(&report.version),
        timestamp(report.at_unix_ms)
    ))?;
    for (tint, line) in lines {
        let line = output.tinted(tint, &line);
        output.line(&line)?;
    }
    Ok(())
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

/// The checks, each with the colour of its verdict on its first line.
fn lines(report: &v1::Report, width: usize) -> Vec<(Tint, String)> {
    let mut lines = Vec::new();
    let mut checks: Vec<&v1::Check> = report.checks.iter().collect();
    checks.sort_by_key(|check| rank(check.verdict()));
    for check in checks {
        let (word, tint) = match check.verdict() {
            Verdict::Pass => ("pass".to_owned(), Tint::Good),
            Verdict::Warn => ("WARN".to_owned(), Tint::Warning),
            Verdict::Fail => ("FAIL".to_owned(), Tint::Error),
            Verdict::NotKnown => ("not known".to_owned(), Tint::None),
            Verdict::Unspecified => (label::<Verdict>(check.verdict), Tint::None),
        };
        let text = format!("{word:<INDENT$}{}: {}", check.name, check.summary);
        let mut add = |tint, text: &str, indent| {
            for (at, line) in wrapped(&plain_names(&printable(text)), width, indent)
                .into_iter()
                .enumerate()
            {
                lines.push((if at == 0 { tint } else { Tint::None }, line));
            }
        };
        add(tint, &text, INDENT);
        for part in &check.worst {
            let part = without_advice(part);
            add(Tint::None, &format!("{:INDENT$}- {part}", ""), INDENT + 2);
        }
        let is_good = matches!(check.verdict(), Verdict::Pass | Verdict::NotKnown);
        if !is_good && !check.command.is_empty() {
            let more = match check.more {
                0 => String::new(),
                more => format!("{more} more; "),
            };
            let command = &check.command;
            add(
                Tint::None,
                &format!("{:INDENT$}{more}see: {command}", ""),
                INDENT,
            );
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
        let lines = lines(&report, 60);
        assert!(lines.iter().all(|(_, line)| line.chars().count() <= 60));
        assert_eq!(lines[0].0, Tint::Error);
        assert!(
            lines[0].1.starts_with("FAIL       nodes: word"),
            "{lines:?}"
        );
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
        let lines = lines(&report, 80);
        let at = |name: &str| lines.iter().position(|line| line.1.contains(name)).unwrap();
        let order = ["routes:", "nodes:", "multicast:", "clock:"].map(at);
        assert!(order.is_sorted(), "{lines:?}");
        assert!(
            lines.iter().all(|line| !line.1.contains("put it back")),
            "{lines:?}"
        );
    }
}
