//! The queue between the parts that report and the thread that writes.
//!
//! The loop waits for no disk and compares nothing for the history: the thread finds changes of the
//! state by itself, and appends ten times a second at most.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rsm_api::{is_act, v1};
use rsm_state::Snapshot;

/// The most events that wait for the disk: at about 500 bytes each 8 MB, four times what one
/// snapshot can report. Those beyond are counted and not kept, but for `ACTS`.
pub const QUEUE: usize = 16_384;

/// Acts of operators that have room beside them.
pub(crate) const ACTS: usize = 1024;

/// The state of the subnet, to be recorded.
#[derive(Clone, Debug)]
pub struct Scene {
    /// When, in milliseconds since the Unix epoch.
    pub at_unix_ms: u64,
    /// The subnet.
    pub snapshot: Arc<Snapshot>,
}

/// Entries that wait for the disk.
#[derive(Debug, Default)]
pub struct Batch {
    /// In their order.
    pub events: Vec<Arc<v1::Event>>,
    /// The latest state; earlier ones that had not been taken are left out.
    pub scene: Option<Scene>,
    /// How many events found the queue full.
    pub lost: u64,
    /// Events of other managers that share the store: at most what their ring holds.
    pub others: Vec<v1::Event>,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.scene.is_none() && self.lost == 0 && self.others.is_empty()
    }
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Batch,
    /// Counts calls that put something in.
    put: u64,
    /// The calls whose events have been taken, and those that are on the disk.
    taken: u64,
    written: u64,
    closed: bool,
}

/// Takes events and states for the history. Never waits for the disk. Clones share the queue.
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
    /// Queues events and perhaps a state.
    pub fn put(&self, events: Vec<Arc<v1::Event>>, scene: Option<Scene>) {
        let mut queue = self.shared.queue.lock();
        let waiting = &mut queue.waiting;
        for event in events {
            let room = if is_act(&event) { QUEUE + ACTS } else { QUEUE };
            match waiting.events.len() < room {
                true => waiting.events.push(event),
                false => waiting.lost += 1,
            }
        }
        if scene.is_some() {
            waiting.scene = scene;
        }
        queue.put += 1;
        drop(queue);
        self.shared.changed.notify_all();
    }

    /// Queues events of other managers.
    pub fn put_others(&self, events: Vec<v1::Event>) {
        let mut queue = self.shared.queue.lock();
        queue.waiting.others.extend(events);
        queue.put += 1;
        drop(queue);
        self.shared.changed.notify_all();
    }

    /// No more comes: the thread ends once it has written what waits.
    pub fn close(&self) {
        self.shared.queue.lock().closed = true;
        self.shared.changed.notify_all();
    }

    /// For the thread that writes: waits until something is there, at most for `limit` if there is
    /// one, and takes it. `None`: the queue is closed and empty.
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

    /// For the thread that writes: all that was taken is on the disk.
    pub fn wrote(&self) {
        let mut queue = self.shared.queue.lock();
        queue.written = queue.taken;
        drop(queue);
        self.shared.changed.notify_all();
    }

    /// For the thread that writes: waits for `time`, no longer than until the queue is closed.
    /// Returns whether it is closed.
    pub fn pause(&self, time: Duration) -> bool {
        let mut queue = self.shared.queue.lock();
        let condition = |queue: &mut Queue| !queue.closed;
        let _elapsed = self
            .shared
            .changed
            .wait_while_for(&mut queue, condition, time);
        queue.closed
    }

    /// Waits until everything put in so far is on the disk, at most for `limit`. Returns whether it
    /// is.
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
