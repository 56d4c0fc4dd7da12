//! Queue between the parts that report events and the thread that writes them.
//!
//! The core's loop never waits for a disk, and compares no states for the history: the writing
//! thread finds the changes of the state, and appends at most ten times per second.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rsm_api::{is_operator_action, v1};
use rsm_state::Snapshot;

/// Maximum number of events that wait for the disk: 8 MB at about 500 bytes each, four times the
/// number that one snapshot can report. Further events are counted and dropped, except for
/// [`MAX_ACTIONS_BEYOND`].
pub const QUEUE: usize = 16_384;

/// Number of operator actions that may wait beyond [`QUEUE`].
pub(crate) const MAX_ACTIONS_BEYOND: usize = 1024;

/// A state of the subnet to be recorded.
#[derive(Clone, Debug)]
pub struct RecordedState {
    /// Time of the state, in milliseconds since the Unix epoch.
    pub at_unix_ms: u64,
    /// Snapshot with the state.
    pub snapshot: Arc<Snapshot>,
}

/// Entries that wait for the disk.
#[derive(Debug, Default)]
pub struct Batch {
    /// Events in the order of their arrival.
    pub events: Vec<Arc<v1::Event>>,
    /// Latest state since the last batch; `None` if there is no new state.
    pub state: Option<RecordedState>,
    /// Number of events that were dropped because the queue was full.
    pub lost: u64,
    /// Events of other managers that share the store: at most [`QUEUE`], or the events of one call.
    pub others: Vec<v1::Event>,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.state.is_none() && self.lost == 0 && self.others.is_empty()
    }
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Batch,
    /// Number of `put` calls so far, [`Recorder::put_others`] included.
    put: u64,
    /// Number of `put` calls whose entries the writing thread has taken.
    taken: u64,
    /// Number of `put` calls whose entries are on the disk.
    written: u64,
    closed: bool,
}

/// Queues events and states for the history. Never waits for the disk. Clones share one queue.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Recorder {
    /// Queues events, and the resulting state, if there is one.
    pub fn put(&self, events: Vec<Arc<v1::Event>>, state: Option<RecordedState>) {
        let mut queue = self.shared.queue.lock();
        let waiting = &mut queue.waiting;
        for event in events {
            let limit = if is_operator_action(&event) {
                QUEUE + MAX_ACTIONS_BEYOND
            } else {
                QUEUE
            };
            match waiting.events.len() < limit {
                true => waiting.events.push(event),
                false => waiting.lost += 1,
            }
        }
        if state.is_some() {
            waiting.state = state;
        }
        queue.put += 1;
        drop(queue);
        self.shared.changed.notify_all();
    }

    /// Queues events of other managers. If more than [`QUEUE`] events would wait, queues none and
    /// returns false; the caller then reads the events from the shared store again later.
    pub fn put_others(&self, events: Vec<v1::Event>) -> bool {
        let mut queue = self.shared.queue.lock();
        let others = &mut queue.waiting.others;
        if !others.is_empty() && others.len() + events.len() > QUEUE {
            return false;
        }
        others.extend(events);
        queue.put += 1;
        drop(queue);
        self.shared.changed.notify_all();
        true
    }

    /// Closes the queue: the writing thread ends once it has written all waiting entries.
    pub fn close(&self) {
        self.shared.queue.lock().closed = true;
        self.shared.changed.notify_all();
    }

    /// Takes all waiting entries, for the writing thread. Blocks until there is an entry. With a
    /// `limit`, returns an empty batch when that time has passed. `None` once the queue is closed
    /// and empty.
    pub fn take(&self, limit: Option<Duration>) -> Option<Batch> {
        let mut queue = self.shared.queue.lock();
        while queue.waiting.is_empty() {
            if queue.closed {
                return None;
            }
            match limit {
                None => self.shared.changed.wait(&mut queue),
                Some(limit) => {
                    if self.shared.changed.wait_for(&mut queue, limit).timed_out() {
                        break;
                    }
                }
            }
        }
        queue.taken = queue.put;
        Some(std::mem::take(&mut queue.waiting))
    }

    /// Marks all entries taken so far as written, for the writing thread.
    pub fn wrote(&self) {
        let mut queue = self.shared.queue.lock();
        queue.written = queue.taken;
        drop(queue);
        self.shared.changed.notify_all();
    }

    /// Waits for `time`, or until the queue is closed, for the writing thread. Returns whether the
    /// queue is closed.
    pub fn pause(&self, time: Duration) -> bool {
        let mut queue = self.shared.queue.lock();
        let condition = |queue: &mut Queue| !queue.closed;
        let _elapsed = self
            .shared
            .changed
            .wait_while_for(&mut queue, condition, time);
        queue.closed
    }

    /// Waits until all entries queued so far are on the disk, at most for `limit`. Returns whether
    /// they are on the disk.
    pub fn settle(&self, limit: Duration) -> bool {
        let mut queue = self.shared.queue.lock();
        let put = queue.put;
        let condition = |queue: &mut Queue| queue.written < put;
        let waited = self
            .shared
            .changed
            .wait_while_for(&mut queue, condition, limit);
        !waited.timed_out()
    }
}
