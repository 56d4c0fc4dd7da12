use clap::Args;
use rsm_proto::v1;

use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::text::{NONE, label, label_parser, timestamp};

/// The findings that hold now
#[derive(Debug, Args)]
#[command(after_help = "Example: rsmctl findings --severity error")]
pub(crate) struct FindingsArguments {
    /// Only findings of this severity or a higher one
    #[arg(long, value_parser = label_parser::<v1::Severity>())]
    severity: Option<i32>,
    /// Only findings of this kind, for instance duplicate-guid
    #[arg(long)]
    kind: Option<String>,
    /// Only findings about this node
    #[arg(add = of_nodes(), long)]
    node: Option<String>,
}

pub(crate) async fn run(
    arguments: FindingsArguments,
    session: &mut Session,
) -> Result<(), Failure> {
    let findings = all_pages(
        v1::ListFindingsRequest {
            min_severity: arguments.severity.unwrap_or_default(),
            kind: arguments.kind.clone().unwrap_or_default(),
            node: arguments.node.clone().unwrap_or_default(),
            ..Default::default()
        },
        async |request| session.fabric().list_findings(request).await,
    )
    .await?;
    session.output.list(
        findings,
        ["SINCE", "SEVERITY", "KIND", "+>TIMES", "+AT", "MESSAGE"],
        |finding| {
            [
                timestamp(finding.raised_unix_ms),
                label::<v1::Severity>(finding.severity),
                finding.kind.clone(),
                finding.occurrences.to_string(),
                place(&finding),
                finding.message,
            ]
        },
    )
}

/// The node or port of a finding.
fn place(finding: &v1::Finding) -> String {
    match (finding.node_guid.as_str(), finding.port) {
        ("", _) => NONE.to_owned(),
        (node, None) => node.to_owned(),
        (node, Some(port)) => format!("{node}:{port}"),
    }
}
