//! Queue of events between the daemon and the thread of a receiver.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use rsm_proto::v1;
use tokio::sync::Notify;

use crate::queue::MEMORY_MAX;

/// Content of an inbox.
#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<Arc<v1::Event>>,
    /// Number of events dropped since the last [`Inbox::take`].
    lost: u64,
    is_closed: bool,
}

/// Queue in which the daemon puts events without waiting: beyond [`MEMORY_MAX`] events, the oldest
/// events are dropped and counted.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

/// Events that [`Inbox::take`] takes, and the state of the inbox.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    /// Events in the order of their arrival.
    pub(crate) events: VecDeque<Arc<v1::Event>>,
    /// Number of events that were dropped since the previous [`Inbox::take`].
    pub(crate) lost: u64,
    /// Whether the daemon is ending.
    pub(crate) is_closed: bool,
}

impl Inbox {
    /// Adds events, and drops the oldest ones beyond [`MEMORY_MAX`].
    pub(crate) fn put(&self, events: impl Iterator<Item = Arc<v1::Event>>) {
        let mut waiting = self.waiting.lock();
        for event in events {
            if waiting.events.len() == MEMORY_MAX {
                waiting.events.pop_front();
                waiting.lost += 1;
            }
            waiting.events.push_back(event);
        }
        drop(waiting);
        self.changed.notify_one();
    }

    /// Tells the thread to end.
    pub(crate) fn close(&self) {
        self.waiting.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Takes all events, in the order of their arrival.
    pub(crate) fn take(&self) -> Arrived {
        let mut waiting = self.waiting.lock();
        Arrived {
            events: std::mem::take(&mut waiting.events),
            lost: std::mem::take(&mut waiting.lost),
            is_closed: waiting.is_closed,
        }
    }

    /// Waits until the inbox has changed since the previous call.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}
