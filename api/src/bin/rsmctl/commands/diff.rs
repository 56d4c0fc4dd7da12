use clap::Args;
use rsm_proto::v1;

use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::text::{label, or_none};
use crate::time;

/// The differences of the subnet now from an earlier time
#[derive(Debug, Args)]
#[command(
    after_help = "Nodes, LIDs, cables, widths and speeds, findings, engine and role, from the history on the\ndisk. BEFORE is the value at that time, NOW the present one.\n\nExamples:\n  rsmctl diff 22:00\n  rsmctl diff yesterday"
)]
pub(crate) struct DiffArguments {
    /// The time to compare with: 22:00, yesterday, 2h, 2026-11-24, '2026-11-24 22:00', RFC 3339
    #[arg(value_name = "TIME")]
    time: String,
}

pub(crate) async fn run(arguments: DiffArguments, session: &mut Session) -> Result<(), Failure> {
    let differences = all_pages(
        v1::ListDifferencesRequest {
            at_unix_ms: time::parse(&arguments.time).map_err(Failure::Usage)?,
            ..Default::default()
        },
        async |request| session.difference().list_differences(request).await,
    )
    .await?;
    session.output.list(
        differences,
        ["WHAT", "PART", "BEFORE", "NOW"],
        |difference| {
            [
                label::<v1::DifferenceKind>(difference.kind),
                or_none(&difference.subject),
                or_none(&difference.before),
                or_none(&difference.now),
            ]
        },
    )
}
