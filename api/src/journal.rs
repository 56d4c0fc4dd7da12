//! The latest events, kept for those who ask and sent to those who watch.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::broadcast;

use crate::model::{Change, Event};

/// A bounded journal of events.
///
/// Publishing never waits for a reader: watchers that lag lose the oldest events and are told how
/// many.
#[derive(Debug)]
pub struct Journal {
    kept: Mutex<Kept>,
    sender: broadcast::Sender<Arc<Event>>,
}

#[derive(Debug)]
struct Kept {
    events: VecDeque<Arc<Event>>,
    capacity: usize,
    last_sequence: u64,
}

impl Journal {
    /// A journal that keeps the latest `capacity` events, at least one.
    pub fn new(capacity: usize) -> Journal {
        let capacity = capacity.max(1);
        Journal {
            kept: Mutex::new(Kept {
                events: VecDeque::with_capacity(capacity),
                capacity,
                last_sequence: 0,
            }),
            sender: broadcast::Sender::new(capacity),
        }
    }

    /// Gives the change its sequence number, keeps it and sends it to every watcher.
    pub fn publish(&self, generation: u64, at_unix_ms: u64, change: Change) -> Arc<Event> {
        let mut kept = self.kept.lock();
        kept.last_sequence += 1;
        let event = Arc::new(Event {
            sequence: kept.last_sequence,
            generation,
            at_unix_ms,
            change,
        });
        if kept.events.len() == kept.capacity {
            kept.events.pop_front();
        }
        kept.events.push_back(Arc::clone(&event));
        // Sent under the lock, so that watchers see the order of the sequence numbers. Without
        // watchers there is nobody to miss it.
        let _watchers = self.sender.send(Arc::clone(&event));
        event
    }

    /// Kept events with a sequence number above `after`, oldest first, at most `limit`.
    pub fn events(&self, after: u64, limit: usize) -> Vec<Arc<Event>> {
        let kept = self.kept.lock();
        let begin = kept.events.partition_point(|event| event.sequence <= after);
        kept.events.range(begin..).take(limit).cloned().collect()
    }

    /// Events from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Event>> {
        self.sender.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::RoutesChanged;

    fn publish(journal: &Journal) -> u64 {
        journal
            .publish(1, 0, Change::RoutesChanged(RoutesChanged::default()))
            .sequence
    }

    #[test]
    fn the_oldest_give_way_and_numbers_go_on() {
        let journal = Journal::new(3);
        for expected in 1..=5 {
            assert_eq!(publish(&journal), expected);
        }
        let sequences = |after, limit| -> Vec<u64> {
            journal
                .events(after, limit)
                .iter()
                .map(|e| e.sequence)
                .collect()
        };
        assert_eq!(sequences(0, 10), [3, 4, 5]);
        assert_eq!(sequences(3, 1), [4]);
        assert_eq!(sequences(5, 10), [0; 0]);
    }

    #[test]
    fn a_watcher_that_lags_is_told_how_much_it_lost() {
        let journal = Journal::new(2);
        let mut receiver = journal.subscribe();
        for _ in 0..5 {
            publish(&journal);
        }
        assert_eq!(
            receiver.try_recv().unwrap_err(),
            broadcast::error::TryRecvError::Lagged(3)
        );
        assert_eq!(receiver.try_recv().unwrap().sequence, 4);
    }
}
