//! The latest events, kept for queries and sent to watchers.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use rsm_proto::v1::Event;
use rsm_proto::v1::event::Change;
use tokio::sync::broadcast;

/// A bounded journal of events. Acts of operators have a separate limit, so that flapping links do
/// not push them out.
///
/// Publishing never waits for a reader: a watcher that lags loses the oldest events, and learns how
/// many.
#[derive(Debug)]
pub struct EventJournal {
    kept: Mutex<Kept>,
    sender: broadcast::Sender<Arc<Event>>,
}

#[derive(Debug)]
struct Kept {
    events: VecDeque<Arc<Event>>,
    capacity: usize,
    /// The acts of operators older than all of `events`.
    acts: VecDeque<Arc<Event>>,
    acts_capacity: usize,
    last_sequence: u64,
}

impl EventJournal {
    /// Creates a journal that keeps the latest `capacity` events (at least one) and, of the older
    /// events, the latest `acts` acts of operators.
    pub fn new(capacity: usize, acts: usize) -> EventJournal {
        let capacity = capacity.max(1);
        EventJournal {
            kept: Mutex::new(Kept {
                events: VecDeque::with_capacity(capacity),
                capacity,
                acts: VecDeque::new(),
                acts_capacity: acts,
                last_sequence: 0,
            }),
            sender: broadcast::Sender::new(capacity),
        }
    }

    /// Assigns the change a sequence number, keeps it and sends it to every watcher.
    pub fn publish(&self, generation: u64, at_unix_ms: u64, change: Change) -> Arc<Event> {
        let mut kept = self.kept.lock();
        kept.last_sequence += 1;
        let event = Arc::new(Event {
            sequence: kept.last_sequence,
            generation,
            at_unix_ms,
            change: Some(change),
            ..Event::default()
        });
        kept.put(Arc::clone(&event));
        // The event is sent under the lock, so that watchers see events in the order of their
        // sequence numbers. An error means that there are no watchers.
        let _watchers = self.sender.send(Arc::clone(&event));
        event
    }

    /// The kept events with a sequence number above `after`, oldest first, at most `limit`.
    pub fn events(&self, after: u64, limit: usize) -> Vec<Arc<Event>> {
        let kept = self.kept.lock();
        let first =
            |events: &VecDeque<Arc<Event>>| events.partition_point(|event| event.sequence <= after);
        let acts = kept.acts.range(first(&kept.acts)..);
        let events = kept.events.range(first(&kept.events)..);
        acts.chain(events).take(limit).cloned().collect()
    }

    /// The stream of all events from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Event>> {
        self.sender.subscribe()
    }
}

/// Whether an event is an act of an operator.
pub fn is_operator_action(event: &Event) -> bool {
    matches!(event.change, Some(Change::OperatorActed(_)))
}

impl Kept {
    /// Keeps an event. If there is no room, removes the oldest event; an act moves to `acts`.
    fn put(&mut self, event: Arc<Event>) {
        if self.events.len() == self.capacity
            && let Some(oldest) = self.events.pop_front()
            && is_operator_action(&oldest)
        {
            self.acts.push_back(oldest);
            if self.acts.len() > self.acts_capacity {
                self.acts.pop_front();
            }
        }
        self.events.push_back(event);
    }
}

#[cfg(test)]
mod tests {
    use rsm_proto::v1::{OperatorActed, RoutesChanged};

    use super::*;

    fn publish(journal: &EventJournal) -> u64 {
        journal
            .publish(1, 0, Change::RoutesChanged(RoutesChanged::default()))
            .sequence
    }

    #[test]
    fn a_full_journal_drops_the_oldest_events_and_numbers_continue() {
        let journal = EventJournal::new(3, 2);
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
    fn acts_of_operators_outlast_other_events_up_to_their_own_limit() {
        let journal = EventJournal::new(3, 2);
        let act = || {
            let act = OperatorActed::default();
            journal.publish(1, 0, Change::OperatorActed(act)).sequence
        };
        let sequences = |after, limit| -> Vec<u64> {
            let events = journal.events(after, limit);
            events.iter().map(|event| event.sequence).collect()
        };
        let first = act();
        for _ in 0..10 {
            publish(&journal);
        }
        assert_eq!(sequences(0, 10), [first, 9, 10, 11]);
        assert_eq!(sequences(0, 2), [first, 9]);
        assert_eq!(sequences(first, 10), [9, 10, 11]);
        let more = [act(), act(), act()];
        assert_eq!(sequences(0, 10), [[first].as_slice(), &more].concat());
        for _ in 0..10 {
            publish(&journal);
        }
        assert_eq!(sequences(0, 10), [13, 14, 22, 23, 24]);
    }

    #[test]
    fn a_lagging_watcher_gets_the_number_of_lost_events() {
        let journal = EventJournal::new(2, 2);
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
