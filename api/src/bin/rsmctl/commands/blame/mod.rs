mod hosts;

use std::path::PathBuf;

use clap::Args;
use rsm_api::node_list;
use rsm_proto::v1;
use rsm_proto::v1::{BlameBearing, BlameVerdict};

use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::output::{Output, Tint};
use crate::session::Session;
use crate::text::{count, label, plain_names, printable, timestamp, wrapped};
use crate::time;

/// Is the fabric at fault for a slow job? A verdict with evidence
#[derive(Debug, Args)]
#[command(
    after_help = "Looks at the ports of the job's hosts and at every link of the paths between them: counters, events\nsince T, findings, partitions, rates. Sends nothing to the fabric.\n\nVerdicts and exit codes:\n  no          0  no sign of a fault, or the cause lies outside the fabric\n  unlikely    0  signs of faults, but too few to slow a job\n  cannot-say  4  no fault found, but essential data is missing\n  likely      5  the evidence names the faulty part and the remedy\n\nFILE is a host file of Open MPI, MPICH, Intel MPI or Slurm, as `rsmctl gpu plan --file` writes them, or\nhas node lists as Slurm writes them: gpu-[001-064].\n\nExamples:\n  rsmctl blame host-003 host-017 --since 02:00\n  rsmctl blame 'gpu-[001-064]' --since 2h\n  rsmctl blame --job hosts.txt\n  rsmctl blame $(scontrol show hostnames $SLURM_JOB_NODELIST) || page-the-network-team"
)]
pub(crate) struct BlameArguments {
    /// The hosts of the job, each with all its adapters; the name, GUID or LID of an adapter
    /// selects only that adapter
    #[arg(
        add = of_nodes(),
        value_name = "HOST",
        required_unless_present = "job",
        conflicts_with = "job"
    )]
    hosts: Vec<String>,
    /// A file with the hosts of the job
    #[arg(long, value_name = "FILE")]
    job: Option<PathBuf>,
    /// When the job became slow: 22:00, yesterday, 2h, 2026-11-24, '2026-11-24 22:00', RFC 3339; an
    /// hour ago if left out
    #[arg(long, value_name = "T")]
    since: Option<String>,
}

/// The minimum weight of evidence that makes the fabric likely at fault; see
/// `BlameEvidence.weight`.
const LIKELY: u32 = 60;

/// The number of columns by which continuation lines are indented.
const INDENT: usize = 4;

pub(crate) async fn run(arguments: BlameArguments, session: &mut Session) -> Result<(), Failure> {
    let request = v1::JudgeJobRequest {
        hosts: match &arguments.job {
            Some(file) => hosts::of_file(file)?,
            None => node_list::expand(&arguments.hosts).map_err(Failure::Usage)?,
        },
        since_unix_ms: time::parse_optional(arguments.since.as_deref())?,
    };
    let answer = session.blame().judge_job(request).await?.into_inner();
    let judgement = answer.judgement.unwrap_or_default();
    if session.output.is_json() {
        session.output.json(&judgement)?;
    } else {
        print(&judgement, &mut session.output)?;
    }
    exit(judgement.verdict())
}

/// The exit code of a verdict, as an error for codes other than 0.
fn exit(verdict: BlameVerdict) -> Result<(), Failure> {
    match verdict {
        BlameVerdict::Likely => Err(Failure::Checked { fails: true }),
        // An unknown verdict does not clear the fabric.
        BlameVerdict::CannotSay | BlameVerdict::Unspecified => {
            Err(Failure::Checked { fails: false })
        }
        BlameVerdict::No | BlameVerdict::Unlikely => Ok(()),
    }
}

fn print(judgement: &v1::Judgement, output: &mut Output) -> Result<(), Failure> {
    let lines = lines(judgement, output.width());
    for (tint, line) in lines {
        let line = output.tinted(tint, &line);
        output.line(&line)?;
    }
    Ok(())
}

/// The judgement as lines: the verdict, its extent, the evidence, what is missing, what to do next.
fn lines(judgement: &v1::Judgement, width: usize) -> Vec<(Tint, String)> {
    let mut lines = Vec::new();
    let mut add = |tint, text: &str, indent| {
        for line in wrapped(&plain_names(&printable(text)), width, indent) {
            lines.push((tint, line));
        }
    };
    let tint = match judgement.verdict() {
        BlameVerdict::No => Tint::Good,
        BlameVerdict::Likely => Tint::Error,
        BlameVerdict::Unlikely | BlameVerdict::CannotSay | BlameVerdict::Unspecified => {
            Tint::Warning
        }
    };
    let verdict = match judgement.verdict() {
        BlameVerdict::Unspecified => {
            "cannot say: the server returned a verdict that this version of rsmctl does not know"
                .to_owned()
        }
        _ => {
            let verdict = label::<BlameVerdict>(judgement.verdict).replace('-', " ");
            format!("{verdict}: {}", judgement.summary)
        }
    };
    add(tint, &verdict, INDENT);
    let extent = format!(
        "looked at {}, {} and {} since {}",
        count(judgement.hosts, "host", "hosts"),
        count(judgement.ports, "port", "ports"),
        count(judgement.links, "link", "links"),
        timestamp(judgement.since_unix_ms)
    );
    add(Tint::None, &extent, INDENT);
    for one in &judgement.evidence {
        let tint = match one.bearing() {
            BlameBearing::Fabric if one.weight >= LIKELY => Tint::Error,
            BlameBearing::Context | BlameBearing::Unspecified => Tint::None,
            _ => Tint::Warning,
        };
        add(tint, &format!("  - {}", sentence(one)), INDENT);
        if !one.remedy.is_empty() {
            add(Tint::None, &format!("    to do: {}", one.remedy), INDENT);
        }
    }
    if judgement.more > 0 {
        add(
            Tint::None,
            &format!("  and {} more", judgement.more),
            INDENT,
        );
    }
    for text in &judgement.missing {
        add(Tint::None, &format!("not known: {text}"), INDENT);
    }
    if !judgement.next.is_empty() {
        add(Tint::None, "to look at on the hosts:", INDENT);
    }
    for text in &judgement.next {
        add(Tint::None, &format!("  - {text}"), INDENT);
    }
    lines
}

/// A piece of evidence on one line: kind, place, text, start, and the number of the job's ports to
/// which packets pass the place.
fn sentence(evidence: &v1::BlameEvidence) -> String {
    let place = match evidence.place.as_str() {
        "" => String::new(),
        place => format!("{place}: "),
    };
    let since = match evidence.from_unix_ms {
        0 => String::new(),
        from => format!(", since {}", timestamp(from)),
    };
    let behind = match evidence.ports_behind {
        0 => String::new(),
        behind => format!(
            ", on the way to {}",
            count(behind, "port of the job", "ports of the job")
        ),
    };
    format!("{}: {place}{}{since}{behind}", evidence.kind, evidence.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judgement_prints_verdict_extent_evidence_missing_data_and_next_steps() {
        let judgement = v1::Judgement {
            verdict: BlameVerdict::Likely.into(),
            summary: "leaf-07:12 - spine-02:3: 1,300 symbol errors".to_owned(),
            evidence: vec![v1::BlameEvidence {
                kind: "link-errors".to_owned(),
                bearing: BlameBearing::Fabric.into(),
                weight: 85,
                place: "leaf-07:12 - MF0;spine-02:MQM9700/U1:3".to_owned(),
                text: "1,300 symbol errors".to_owned(),
                from_unix_ms: 1_000,
                remedy: "replace that cable".to_owned(),
                ports_behind: 1,
                ..v1::BlameEvidence::default()
            }],
            missing: vec!["2 ports are not read".to_owned()],
            next: vec!["GPUs".to_owned()],
            hosts: 1,
            links: 2,
            ..v1::Judgement::default()
        };
        let lines: Vec<String> = lines(&judgement, 200)
            .into_iter()
            .map(|(_, line)| line)
            .collect();
        assert_eq!(
            lines[0],
            "likely: leaf-07:12 - spine-02:3: 1,300 symbol errors"
        );
        assert!(
            lines[1].starts_with("looked at 1 host, 0 ports and 2 links since"),
            "{lines:?}"
        );
        assert_eq!(
            lines[2],
            "  - link-errors: leaf-07:12 - spine-02:3: 1,300 symbol errors, since \
             1970-01-01T00:00:01.000Z, on the way to 1 port of the job"
        );
        assert_eq!(lines[3], "    to do: replace that cable");
        assert_eq!(
            lines[4..],
            [
                "not known: 2 ports are not read",
                "to look at on the hosts:",
                "  - GPUs"
            ]
        );
    }
    #[test]
    fn an_unknown_verdict_does_not_clear_the_fabric() {
        let unknown = v1::Judgement {
            verdict: 99,
            ..v1::Judgement::default()
        };
        for (judgement, clears) in [(unknown, false), (v1::Judgement::default(), false)] {
            assert_eq!(exit(judgement.verdict()).is_ok(), clears, "{judgement:?}");
            let failure = exit(judgement.verdict()).unwrap_err();
            assert!(matches!(failure, Failure::Checked { fails: false }));
            let (_, first) = lines(&judgement, 200).swap_remove(0);
            assert!(first.contains("does not know"), "{first}");
        }
        assert!(exit(BlameVerdict::Unlikely).is_ok());
    }
}
