use clap::Args;
use rsm_proto::v1;
use rsm_proto::v1::event::Change;

use super::drain::{drained_parts, safe_to_unplug};
use crate::failure::Failure;
use crate::session::Session;
use crate::text::{label, or_none, plain_names, printable, timestamp};
use crate::time;

/// Lists drained parts: time, operator, note, and whether each may be unplugged; and the last undrains
#[derive(Debug, Args)]
#[command(
    after_help = "Below the list are the last five parts in seven days that operators use again, by `rsmctl undrain` or\n`rsmctl port enable`; not with --format json: `rsmctl events --kind operator` has them.\n\nExit codes:\n  0  each part may be unplugged, or is not there\n  4  tables are still being written\n  5  packets of others pass a part"
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
    if !session.output.is_json() {
        for line in undrains(session).await {
            session.output.line(&line)?;
        }
    }
    safe
}

/// The number of orders of operators that are searched, the newest first.
const SEARCHED: u32 = 500;

/// The number of undrains that are shown.
const SHOWN: usize = 5;

/// A line for each of the last undrains; none if the server keeps no events.
async fn undrains(session: &Session) -> Vec<String> {
    let request = v1::ListEventsRequest {
        page_size: SEARCHED,
        since_unix_ms: time::parse("7d").unwrap_or_default(),
        kind: v1::EventKind::Operator.into(),
        newest_first: true,
        ..v1::ListEventsRequest::default()
    };
    let answer = session.watch().list_events(request).await;
    let events = answer.map(|answer| answer.into_inner().events);
    let events = events.unwrap_or_default();
    let lines = events.iter().filter_map(undrain);
    lines.take(SHOWN).collect()
}

/// The line `no longer drained: spine-02, undrained by uid:0 (alice) at 2026-12-01T02:22Z`; `None`
/// for another event, and for a request that was refused.
fn undrain(event: &v1::Event) -> Option<String> {
    let Some(Change::OperatorActed(act)) = &event.change else {
        return None;
    };
    let done = match act.action.as_str() {
        "undrain" => "undrained",
        "port enable" => "enabled",
        _ => return None,
    };
    let at = time::minute(event.at_unix_ms);
    let parts = &act.detail;
    let by = act.operator.rsplit_once(" at ");
    let by = by.map_or(act.operator.as_str(), |(by, _)| by);
    let line = format!("no longer drained: {parts}, {done} by {by} at {at}");
    act.refusal
        .is_empty()
        .then(|| plain_names(&printable(&line)))
}

/// The state of a part. A part with a disabled port is shown as disabled rather than as away: its
/// cable is present, although no node answers.
fn state(part: &v1::DrainedPart) -> String {
    match part.state() {
        v1::DrainState::Away if part.disabled => "disabled".to_owned(),
        _ => label::<v1::DrainState>(part.state),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undrains_are_named_with_operator_and_time_unless_refused() {
        let event = |action: &str, refusal: &str| v1::Event {
            at_unix_ms: 1_700_000_000_000,
            change: Some(Change::OperatorActed(v1::OperatorActed {
                action: action.to_owned(),
                detail: "MF0;spine-02:MQM9700/U1".to_owned(),
                operator: "uid:0 (alice) at unix uid 0 pid 17".to_owned(),
                refusal: refusal.to_owned(),
            })),
            ..v1::Event::default()
        };
        assert_eq!(
            undrain(&event("undrain", "")).as_deref(),
            Some("no longer drained: spine-02, undrained by uid:0 (alice) at 2023-11-14T22:13Z")
        );
        assert!(undrain(&event("port enable", "")).is_some_and(|line| line.contains("enabled by")));
        assert_eq!(undrain(&event("undrain", "it is not drained")), None);
        assert_eq!(undrain(&event("drain", "")), None);
    }
}
