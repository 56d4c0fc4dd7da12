use std::collections::HashSet;

use clap::Args;
use rsm_proto::v1;
use rsm_proto::v1::event::Change;

use super::diff::who;
use super::drain::{drained_parts, safe_to_unplug};
use crate::failure::Failure;
use crate::session::Session;
use crate::text::{label, or_none, plain_names, printable, timestamp, wrapped};
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
        for undrain in undrains(session).await.iter().take(SHOWN) {
            for line in wrapped(&undrain.line, session.output.width(), 2) {
                session.output.line(&line)?;
            }
        }
    }
    safe
}

/// The number of orders of operators that are searched, the newest first.
const SEARCHED: u32 = 500;

/// The number of undrains that are shown.
const SHOWN: usize = 5;

/// A part that operators use again.
pub(super) struct Undrain {
    /// The part, as the operator named it.
    part: String,
    /// The line `no longer drained: spine-02, undrained by uid:0 (alice) at 2026-12-01T02:22Z; …`.
    pub(super) line: String,
}

/// The last undrains, the newest first; none if the server keeps no events.
async fn undrains(session: &Session) -> Vec<Undrain> {
    let request = v1::ListEventsRequest {
        page_size: SEARCHED,
        since_unix_ms: time::parse("7d").unwrap_or_default(),
        kind: v1::EventKind::Operator.into(),
        newest_first: true,
        ..v1::ListEventsRequest::default()
    };
    let answer = session.watch().list_events(request).await;
    let events = answer.map(|answer| answer.into_inner().events);
    in_force(&events.unwrap_or_default())
}

/// The last undrain of a part that an operator named; `None` if no undrain of it is in force.
pub(super) async fn undrain_of(part: &str, session: &Session) -> Option<Undrain> {
    let undrains = undrains(session).await.into_iter();
    let mut own = undrains.filter(|one| plain_names(&one.part) == plain_names(part));
    own.next()
}

/// The undrains in `events`, newest first, of parts that no later order drains again.
fn in_force(events: &[v1::Event]) -> Vec<Undrain> {
    let acts: Vec<(u64, &v1::OperatorActed)> = events
        .iter()
        .filter_map(|event| match &event.change {
            Some(Change::OperatorActed(act)) if act.refusal.is_empty() => {
                Some((event.at_unix_ms, act))
            }
            _ => None,
        })
        .collect();
    let mut later = HashSet::new();
    let mut undrains = Vec::new();
    for (at, &(at_unix_ms, act)) in acts.iter().enumerate() {
        let part = part_of(act);
        match act.action.as_str() {
            "undrain" | "port enable" if later.insert(part) => undrains.push(Undrain {
                part: part.to_owned(),
                line: undrain(at_unix_ms, act, &acts[at + 1..]),
            }),
            "drain" | "port disable" => drop(later.insert(part)),
            _ => {}
        }
    }
    undrains
}

/// The part that an order is about, as the operator named it: the detail without options, note and
/// effect.
fn part_of(act: &v1::OperatorActed) -> &str {
    let detail = act.detail.split(": ").next().unwrap_or_default();
    let detail = detail.split(" (").next().unwrap_or_default();
    detail.trim_end_matches(" --force")
}

/// The line about an undrain; `before` are the earlier orders, newest first.
fn undrain(
    at_unix_ms: u64,
    act: &v1::OperatorActed,
    before: &[(u64, &v1::OperatorActed)],
) -> String {
    let (drains, done) = match act.action.as_str() {
        "undrain" => ("drain", "undrained"),
        _ => ("port disable", "enabled"),
    };
    let part = part_of(act);
    let mut orders = before.iter();
    let order = orders.find(|(_, one)| one.action == drains && part_of(one) == part);
    let order = order.map_or_else(String::new, |&(at_unix_ms, order)| {
        let note = match order.detail.split_once(" (") {
            Some((_, note)) => note.rsplit_once(')').map_or(note, |(note, _)| note),
            None => "without a note",
        };
        format!(
            "; the order before was of {}, {}: {note}",
            who(&order.operator),
            time::timestamp(at_unix_ms)
        )
    });
    let (by, at) = (who(&act.operator), time::timestamp(at_unix_ms));
    let line = format!("no longer drained: {part}, {done} by {by} at {at}{order}");
    plain_names(&printable(&line))
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
    fn undrains_are_named_with_operator_time_and_the_note_of_the_order_before() {
        let event = |action: &str, detail: &str, operator: &str, refusal: &str| v1::Event {
            at_unix_ms: 1_700_000_000_000,
            change: Some(Change::OperatorActed(v1::OperatorActed {
                action: action.to_owned(),
                detail: detail.to_owned(),
                operator: format!("uid:0 at unix uid 0 pid 17 ({operator})"),
                refusal: refusal.to_owned(),
            })),
            ..v1::Event::default()
        };
        let spine = "MF0;spine-02:MQM9700/U1";
        let events = [
            event("undrain", "spine-03", "eve", "it is not drained"),
            event("drain", "spine-04 --force (again)", "eve", ""),
            event("undrain", "spine-04: spine-04", "eve", ""),
            event("undrain", &format!("{spine}: spine-02"), "nightshift", ""),
            event("port enable", "leaf-1:5", "eve", ""),
            event(
                "drain",
                &format!("{spine} (fan CHG-1041): spine-02"),
                "dayshift",
                "",
            ),
        ];
        let lines: Vec<String> = in_force(&events).into_iter().map(|one| one.line).collect();
        let at = time::timestamp(1_700_000_000_000);
        assert_eq!(
            lines,
            [
                format!(
                    "no longer drained: spine-02, undrained by uid:0 (nightshift) at {at}; the \
                     order before was of uid:0 (dayshift), {at}: fan CHG-1041"
                ),
                format!("no longer drained: leaf-1:5, enabled by uid:0 (eve) at {at}"),
            ]
        );
    }
}
