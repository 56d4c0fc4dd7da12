//! The check of the orders that take parts out of use: drains and disabled ports of operators, and
//! isolations.

use std::cmp::Reverse;

use rsm_api::{timestamp, v1};
use rsm_model::text::count;
use rsm_plan::avoid::{Drained, ISOLATION, Reason};

use super::super::avoided::name;
use super::super::published::Published;
use super::topic::Measured;

/// The effect of an order, in the order of the report.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Done {
    Disabled,
    Isolated,
    Drained,
}

impl Done {
    const ALL: [Done; 3] = [Done::Disabled, Done::Isolated, Done::Drained];

    fn of(order: &Drained) -> Done {
        match (order.by == ISOLATION, order.disabled) {
            (true, _) => Done::Isolated,
            (false, true) => Done::Disabled,
            (false, false) => Done::Drained,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Done::Disabled => "disabled",
            Done::Isolated => "isolated",
            Done::Drained => "drained",
        }
    }

    /// The number of parts with this effect: `2 ports disabled`.
    fn counted(self, number: usize) -> String {
        let parts = match self {
            Done::Disabled => count(number, "port", "ports"),
            Done::Isolated | Done::Drained => count(number, "part", "parts"),
        };
        format!("{parts} {}", self.word())
    }
}

/// The orders in force, each with its operator, time and reason: by effect, then the latest first.
pub(super) fn orders(published: &Published) -> Measured {
    let snapshot = &published.snapshot;
    let orders = snapshot.avoid.parts().map(|(part, reason)| {
        let name = name(snapshot, part, reason);
        let (done, since, why) = match reason {
            Reason::Drained(order) => {
                let since = minute(order.since_unix_ms);
                let by = format!("by {}, {since}", order.by);
                let note = order.whole_note();
                let why = match note.as_str() {
                    "" => by,
                    note => format!("{by}: {note}"),
                };
                (Done::of(order), order.since_unix_ms, why)
            }
            Reason::Unhealthy(why) => (Done::Isolated, 0, format!("by rsm: {why}")),
        };
        let text = format!("{name} {} {why}", done.word());
        (done, Reverse(since), text)
    });
    let mut orders: Vec<(Done, Reverse<u64>, String)> = orders.collect();
    orders.sort();
    let numbers = Done::ALL.map(|done| (done, orders.iter().filter(|one| one.0 == done).count()));
    let numbers = numbers.into_iter().filter(|&(_, number)| number > 0);
    let numbers: Vec<String> = numbers.map(|(done, number)| done.counted(number)).collect();
    let summary = match numbers.is_empty() {
        true => "no part is drained, disabled or isolated".to_owned(),
        false => numbers.join(", "),
    };
    let worst = orders.into_iter().map(|(_, _, text)| text).collect();
    Measured::unless(worst, v1::Verdict::Warn, summary)
}

/// A time in UTC to the minute: `2026-12-01 02:21Z`.
pub(super) fn minute(unix_ms: u64) -> String {
    let whole = timestamp(unix_ms);
    match whole.get(..16) {
        Some(minute) => minute.replace('T', " ") + "Z",
        None => whole,
    }
}
