//! The deadline of a claim, for the calls of the shared store that it waits for.
//!
//! A store that hangs delays a takeover by no more than this. Calls ask further endpoints beside
//! one that is slow, and the first answer counts.

use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::sleep_until;

/// The shortest time that a call has for its answer, however late it begins: a store that is back
/// answers within it.
const CALL_MIN: Duration = Duration::from_millis(100);

/// The time by which a claim has an answer. Clones share it: the thread that makes a claim sets it,
/// and the call that is under way ends by then.
#[derive(Clone, Debug, Default)]
pub struct Deadline(watch::Sender<Option<Instant>>);

impl Deadline {
    /// Lets calls end at `at`, those under way included; `None`: at their own limits.
    pub fn set(&self, at: Option<Instant>) {
        self.0.send_replace(at);
    }

    /// Waits for the end of a call that began at `begun` and has until `limit` by itself.
    pub(crate) async fn end_of_call(&self, begun: Instant, limit: Instant) {
        let mut changes = self.0.subscribe();
        loop {
            let set = *changes.borrow_and_update();
            let end = set.map_or(limit, |at| limit.min(at.max(begun + CALL_MIN)));
            tokio::select! {
                () = sleep_until(end.into()) => return,
                // This value is a sender itself: the channel stays open.
                _ = changes.changed() => {}
            }
        }
    }
}
