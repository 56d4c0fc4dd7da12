//! Events on their way from the daemon to the thread of a receiver.

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

/// Queue that never makes the daemon wait: beyond [`MEMORY_MAX`] events, the oldest are dropped.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

/// Events and state of an inbox.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    /// Events in the order of their arrival.
    pub(crate) events: VecDeque<Arc<v1::Event>>,
    /// Number of events that were dropped since the last call.
    pub(crate) lost: u64,
    /// Whether the daemon is ending.
    pub(crate) is_closed: bool,
}

impl Inbox {
    /// Adds events.
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

    /// Takes all events.
    pub(crate) fn take(&self) -> Arrived {
        let mut waiting = self.waiting.lock();
        Arrived {
            events: std::mem::take(&mut waiting.events),
            lost: std::mem::take(&mut waiting.lost),
            is_closed: waiting.is_closed,
        }
    }

    /// Waits for a change of the inbox since the last call.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}
