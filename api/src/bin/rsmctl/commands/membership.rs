//! The order of an operator that took a host out of a partition: the reason why two hosts cannot
//! reach each other, and the way to undo it.

use rsm_proto::v1;
use rsm_proto::v1::event::Change;

use super::diff::who;
use crate::session::Session;
use crate::text::host_name;
use crate::time;

/// The number of orders of operators that are searched, the newest first.
const SEARCHED: u32 = 500;

/// The last order that took one of two hosts out of a partition, with operator, time and the command
/// that undoes it, as the end of a sentence; empty if there was none in seven days, or if the server
/// keeps no events.
pub(super) async fn last_removal(ends: &[String; 2], session: &Session) -> String {
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
    let ends = ends.each_ref().map(String::as_str);
    let mut texts = events.iter().filter_map(|event| removal(event, ends));
    texts.next().unwrap_or_default()
}

/// The text about an order that took one of two hosts out of a partition; `None` for other events,
/// and for an order that was refused.
fn removal(event: &v1::Event, ends: [&str; 2]) -> Option<String> {
    let Some(Change::OperatorActed(act)) = &event.change else {
        return None;
    };
    if act.action != "remove-members" || !act.refusal.is_empty() {
        return None;
    }
    let order = act.detail.split(": ").next().unwrap_or_default();
    let mut words = order.split_whitespace();
    let p_key = words.next()?;
    let words: Vec<&str> = words.map(|word| word.trim_end_matches(',')).collect();
    let ends = ends.map(host_name);
    let removed = ends.into_iter().find(|end| words.contains(end))?;
    let (by, at) = (who(&act.operator), time::timestamp(event.at_unix_ms));
    Some(format!(
        "; {removed} was taken out of {p_key} by {by} at {at}: `rsmctl partition add {p_key} {removed}` undoes it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_that_removed_a_host_is_named_with_operator_time_and_the_command_that_undoes_it() {
        let event = |action: &str, refusal: &str| v1::Event {
            change: Some(Change::OperatorActed(v1::OperatorActed {
                action: action.to_owned(),
                detail: "0x0010 host-3448: ports cut off: 3452".to_owned(),
                operator: "uid:0 at unix uid 0 pid 17 (nightshift)".to_owned(),
                refusal: refusal.to_owned(),
            })),
            ..v1::Event::default()
        };
        let ends = ["host-0860", "host-3448 mlx5_0"];
        let text = removal(&event("remove-members", ""), ends).unwrap();
        assert!(
            text.starts_with("; host-3448 was taken out of 0x0010 by uid:0 (nightshift) at "),
            "{text}"
        );
        let undo = ": `rsmctl partition add 0x0010 host-3448` undoes it";
        assert!(text.ends_with(undo), "{text}");
        assert_eq!(removal(&event("remove-members", "no"), ends), None);
        assert_eq!(removal(&event("add-members", ""), ends), None);
        let others = ["host-0860", "host-0861"];
        assert_eq!(removal(&event("remove-members", ""), others), None);
    }
}
