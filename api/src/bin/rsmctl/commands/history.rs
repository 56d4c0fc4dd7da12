use clap::Args;
use rsm_proto::v1;

use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::table::Rows;
use crate::text::{milliseconds, timestamp};
use crate::time;

/// The latest convergences: cause, time of each stage, packets
#[derive(Debug, Args)]
#[command(
    after_help = "The newest is last. Times are in milliseconds; LFT and MFT are blocks of\nforwarding tables that were written.\n\nExample: rsmctl history --newest 1 --format json"
)]
pub(crate) struct HistoryArguments {
    /// Only the newest N, at most 1000; all kept convergences if not given
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    newest: Option<u32>,
    /// Only convergences since this time: 22:00, yesterday, 2h, 2026-11-24, '2026-11-24 22:00', RFC
    /// 3339
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only convergences before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only convergences with this node's description or GUID, or a part of it, in their cause
    #[arg(long, value_name = "NODE", add = of_nodes())]
    node: Option<String>,
    /// Only convergences with this text in their cause
    #[arg(long, value_name = "TEXT")]
    cause: Option<String>,
}

pub(crate) async fn run(arguments: HistoryArguments, session: &mut Session) -> Result<(), Failure> {
    let convergences = all_pages(
        v1::ListConvergencesRequest {
            newest: arguments.newest.unwrap_or_default(),
            since_unix_ms: time::parse_optional(arguments.since.as_deref())?,
            until_unix_ms: time::parse_optional(arguments.until.as_deref())?,
            cause: arguments.cause.unwrap_or_default(),
            node: arguments.node.unwrap_or_default(),
            ..Default::default()
        },
        async |request| session.convergence().list_convergences(request).await,
    )
    .await?;
    if session.output.is_json() {
        return session.output.json_list(convergences);
    }
    session.output.only_table(rows(convergences))
}

/// A table of convergences.
pub(super) fn rows(convergences: Vec<v1::Convergence>) -> Rows {
    let mut rows = Rows::new(&[
        "FINISHED",
        "+>GENERATION",
        "CAUSE",
        "+>DISCOVER",
        "+>PLAN",
        "+>PUSH",
        ">TOTAL",
        ">GETS",
        ">SETS",
        "+>RETRIES",
        "+>LFT",
        "+>MFT",
        "COMPLETE",
    ]);
    for convergence in convergences {
        let timing = convergence.timing_ms.unwrap_or_default();
        let smps = convergence.smps.unwrap_or_default();
        rows.add([
            timestamp(convergence.finished_unix_ms),
            convergence.generation.to_string(),
            convergence.cause,
            milliseconds(timing.discover),
            milliseconds(timing.plan),
            milliseconds(timing.push),
            milliseconds(timing.total),
            smps.get.to_string(),
            smps.set.to_string(),
            smps.retries.to_string(),
            convergence.lft_blocks.to_string(),
            convergence.mft_blocks.to_string(),
            if convergence.complete { "yes" } else { "NO" }.to_owned(),
        ]);
    }
    rows
}
