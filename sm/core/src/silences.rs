//! Since when nodes leave questions unanswered, and how much that matters.
//!
//! A switch whose processor is busy, and a manager that got no processor itself, make silences of
//! some hundred milliseconds. So a silence is shown once it lasts, and matters more with its age.
//!
//! A node that does not answer while its link is up stays in the model, with a finding, and the
//! core asks it again after pauses that double from 0.25 s to 30 s (`work`). After four sweeps
//! without an answer routes avoid it.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_hardware::sweep::fault;
use rsm_mad::Time;
use rsm_mad::client::{Completion, RequestFailure};
use rsm_model::findings::{Severity, Subject};

use super::Core;
use super::requests::Context;
use super::stage::Stage;

/// Silence from which on an operator is told of it.
const SHOWN: Duration = Duration::from_secs(1);

/// Silence that no processor of a switch explains.
const SERIOUS: Duration = Duration::from_secs(5);

/// How much a silence of this age matters; `None`: it is not shown.
fn severity(age: Duration) -> Option<Severity> {
    match age {
        _ if age >= SERIOUS => Some(Severity::Error),
        _ if age >= SHOWN => Some(Severity::Warning),
        _ => None,
    }
}

/// The silences of nodes, and of what is behind ports.
#[derive(Default, Debug)]
pub(super) struct Silences {
    since: BTreeMap<Subject, Time>,
    /// When a silence that is open matters more than it did when it was last published.
    due: Option<Time>,
}

impl Silences {
    /// Notes a question that ended without an answer.
    pub(super) fn note(&mut self, completion: &Completion<Context>, now: Time) {
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
            let known = self.since.entry(subject).or_insert(since);
            *known = since.min(*known);
        }
    }

    /// How much the silence of `subject` matters at `now`; `None`: it is not shown.
    pub(super) fn severity(&self, subject: Subject, now: Time) -> Option<Severity> {
        severity(now.since(*self.since.get(&subject)?))
    }

    /// When a silence begins to matter more.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.due
    }
}

impl Core {
    /// Notes the silences that have begun, and ends others. Within a sweep one that is not seen goes
    /// on: the sweep asks anew.
    pub(super) fn follow_silences(&mut self, now: Time) {
        if !matches!(self.stage, Stage::Sweeping(_)) {
            self.end_silences();
        }
        let silent = fault::silent(&self.inventory);
        let silences = &mut self.silence.silences;
        for &subject in &silent {
            silences.since.entry(subject).or_insert(now);
        }
        let steps = silent
            .iter()
            .filter_map(|subject| silences.since.get(subject));
        let steps = steps.flat_map(|&since| [since + SHOWN, since + SERIOUS]);
        silences.due = steps.filter(|&due| due > now).min();
    }

    /// Ends the silences of nodes that have answered by now, at the end of a sweep.
    pub(super) fn end_silences(&mut self) {
        if !self.silence.silences.since.is_empty() {
            let silent = fault::silent(&self.inventory);
            let since = &mut self.silence.silences.since;
            since.retain(|subject, _| silent.contains(subject));
        }
    }

    /// Publishes silences that begin to matter more.
    pub(super) fn mind_silences(&mut self, now: Time) {
        if self.silence.silences.due.is_some_and(|due| due <= now) {
            self.publish(now);
        }
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
