//! The pace at which findings are listed. The pace is limited, because each new finding is a line
//! of the log and an event.

use std::time::Duration;

use rsm_mad::Time;

/// Minimum time between two lists of findings.
const PAUSE: Duration = Duration::from_secs(1);

/// Decides when a list of findings is due: once it may differ from the last list, and the last list
/// is old enough.
#[derive(Default, Debug)]
pub(crate) struct Pace {
    /// Whether the list may differ from the last list.
    has_changed: bool,
    /// Time of the last list; `None` before the first list.
    listed: Option<Time>,
}

impl Pace {
    /// Records a change, with whether it makes the list differ from the last list.
    pub(crate) fn record_change(&mut self, differs: bool) {
        self.has_changed |= differs;
    }

    /// Time of the next list; `None` if the next list would not differ from the last list.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let next = self.listed.map_or(Time::ZERO, |listed| listed + PAUSE);
        self.has_changed.then_some(next)
    }

    /// Whether a list is due at `now`. If so, the caller must list the findings, which count as
    /// listed from then on.
    pub(crate) fn is_due(&mut self, now: Time) -> bool {
        let is_due = self.deadline().is_some_and(|at| at <= now);
        if is_due {
            (self.has_changed, self.listed) = (false, Some(now));
        }
        is_due
    }
}
