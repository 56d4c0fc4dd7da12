use clap::Args;
use rsm_proto::v1;

use super::drain::{drained_parts, safe_to_unplug};
use crate::failure::Failure;
use crate::session::Session;
use crate::text::{label, or_none, timestamp};

/// Lists drained parts: time, operator, note, and whether each may be unplugged
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes:\n  0  each part may be unplugged, or is not there\n  4  tables are still being written\n  5  packets of others pass a part"
)]
pub(crate) struct DrainedArguments {}

pub(crate) async fn run(_: DrainedArguments, session: &mut Session) -> Result<(), Failure> {
    let drained = drained_parts(session).await?;
    let safe = safe_to_unplug(&drained);
    session.output.list(
        drained,
        [
            "DRAINED SINCE",
            "NAME",
            "+AT",
            "STATE",
            ">LIDS OVER",
            "BY",
            "NOTE",
        ],
        |part| {
            let state = state(&part);
            let at = match part.port {
                Some(port) => format!("{}:{port}", part.node_guid),
                None => part.node_guid,
            };
            [
                timestamp(part.since_unix_ms),
                part.name,
                at,
                state,
                part.lids_over.to_string(),
                or_none(&part.by),
                or_none(&part.note),
            ]
        },
    )?;
    safe
}

/// The state of a part. A part with a disabled port is shown as disabled rather than as away: its
/// cable is present, although no node answers.
fn state(part: &v1::DrainedPart) -> String {
    match part.state() {
        v1::DrainState::Away if part.disabled => "disabled".to_owned(),
        _ => label::<v1::DrainState>(part.state),
    }
}
