//! Silences of nodes: when each began, and how severe it is.
//!
//! A switch with a busy processor, or a manager that got no processor time itself, causes silences
//! of some hundred milliseconds. Operators therefore see a silence only after 1 s, as a warning;
//! after 5 s, the silence becomes an error.
//!
//! A node that does not answer while its link is up stays in the model, with a finding. The core
//! repeats its requests to the node after pauses that double from 0.25 s to 30 s (`work`). After
//! four sweeps without an answer, routes avoid the node.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_hardware::sweep::fault;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_mad::Time;
use rsm_mad::client::{Completion, RequestFailure};
use rsm_model::findings::{Severity, Subject};

use super::requests::Context;

/// Age from which operators see a silence, as a warning.
const SHOWN: Duration = Duration::from_secs(1);

/// Age from which a silence is an error: a busy processor of a switch no longer explains it.
const SERIOUS: Duration = Duration::from_secs(5);

/// Severity of a silence of this age; `None` if it is not shown.
fn severity(age: Duration) -> Option<Severity> {
    match age {
        _ if age >= SERIOUS => Some(Severity::Error),
        _ if age >= SHOWN => Some(Severity::Warning),
        _ => None,
    }
}

/// Silences of nodes, and of unknown nodes behind ports.
#[derive(Default, Debug)]
pub(super) struct Silences {
    /// Silent node or port → beginning of the silence.
    since: BTreeMap<Subject, Time>,
    /// Time at which a silence next becomes more severe than last published; `None` if none does.
    due: Option<Time>,
}

impl Silences {
    /// Handles the end of a request. If a query of a sweep has timed out, records that the silence
    /// began no later than the query was sent.
    pub(super) fn record_completion(&mut self, completion: &Completion<Context>, now: Time) {
        let Context::Sweep(query) = completion.context else {
            return;
        };
        if !query.is_optional()
            && matches!(completion.outcome, Err(RequestFailure::TimedOut))
            && let Some(subject) = fault::subject_of(query)
        {
            let since = Time::from_nanos(
                now.as_nanos()
                    .saturating_sub(completion.waited.as_nanos() as u64),
            );
            let earliest = self.since.entry(subject).or_insert(since);
            *earliest = since.min(*earliest);
        }
    }

    /// Severity of the silence of `subject` at `now`; `None` if it is not shown.
    pub(super) fn severity(&self, subject: Subject, now: Time) -> Option<Severity> {
        severity(now.since(*self.since.get(&subject)?))
    }

    /// Time at which a silence becomes more severe; `None` if none does.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.due
    }
}

impl Silences {
    /// Records new silences of `inventory`. Ends the silences of nodes that have answered, unless
    /// `is_sweeping`: a sweep asks silent nodes again, and their silence continues until its end.
    pub(super) fn follow(&mut self, inventory: &Inventory, is_sweeping: bool, now: Time) {
        if !is_sweeping {
            self.end(inventory);
        }
        let silent = fault::silent(inventory);
        for &subject in &silent {
            self.since.entry(subject).or_insert(now);
        }
        let begun = silent.iter().filter_map(|subject| self.since.get(subject));
        let changes = begun.flat_map(|&since| [since + SHOWN, since + SERIOUS]);
        self.due = changes.filter(|&due| due > now).min();
    }

    /// Ends the silences of nodes that have answered. Called at the end of a sweep.
    pub(super) fn end(&mut self, inventory: &Inventory) {
        if !self.since.is_empty() {
            let silent = fault::silent(inventory);
            self.since.retain(|subject, _| silent.contains(subject));
        }
    }

    /// Whether a silence is more severe at `now` than when it was last published; true only once.
    pub(super) fn take_change_due(&mut self, now: Time) -> bool {
        self.due.take_if(|due| *due <= now).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_hidden_then_a_warning_then_an_error() {
        let after = |ms| severity(Duration::from_millis(ms));
        assert_eq!(after(999), None);
        assert_eq!(after(1000), Some(Severity::Warning));
        assert_eq!(after(4999), Some(Severity::Warning));
        assert_eq!(after(5000), Some(Severity::Error));
    }
}
