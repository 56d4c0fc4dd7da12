//! The deadline of a claim to the epoch, which limits all calls to the shared store that the claim
//! waits for.
//!
//! A store that hangs therefore delays a takeover at most until this deadline.

use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::sleep_until;

/// Minimum time that a call has for the answer, even if the call begins after the deadline. A store
/// that works again answers within that time.
const CALL_MIN: Duration = Duration::from_millis(100);

/// The time by which a claim must have an answer. All clones have the same deadline: the thread
/// that makes a claim sets it, and the call under way ends at that time.
#[derive(Clone, Debug, Default)]
pub struct Deadline(watch::Sender<Option<Instant>>);

impl Deadline {
    /// Sets the deadline of all calls, including calls under way; `None` removes the deadline, so
    /// that calls end at their own limits.
    pub fn set(&self, at: Option<Instant>) {
        self.0.send_replace(at);
    }

    /// The deadline of all calls; `None` if there is none.
    pub(crate) fn get(&self) -> Option<Instant> {
        *self.0.borrow()
    }

    /// Waits until the end of a call that began at `begun`: the deadline, but at least [`CALL_MIN`]
    /// after `begun` and at most `limit`, which is the call's own limit.
    pub(crate) async fn end_of_call(&self, begun: Instant, limit: Instant) {
        let mut changes = self.0.subscribe();
        loop {
            let set = *changes.borrow_and_update();
            let end = set.map_or(limit, |at| limit.min(at.max(begun + CALL_MIN)));
            tokio::select! {
                () = sleep_until(end.into()) => return,
                // `self` holds a sender, so that the channel stays open.
                _ = changes.changed() => {}
            }
        }
    }
}
