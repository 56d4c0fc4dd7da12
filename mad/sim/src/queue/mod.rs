//! Future events, ordered by their time and then by the order in which they were scheduled.

mod wheel;

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use rsm_mad::Time;
use rsm_mad::wire::header::Class;

use self::wheel::Wheel;

/// A future event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The agent that holds this packet has finished it.
    AgentDone(u32),
    /// The packet leaves the agent that holds it.
    Depart(u32),
    /// The packet reaches its client.
    Deliver(u32),
    /// The link at the port is trained, unless the generation of the link has changed.
    LinkUp { port: u32, generation: u32 },
    /// The port becomes Active by itself, unless the generation of its link has changed.
    SelfActivate { port: u32, generation: u32 },
    /// The node is switched on again, unless its epoch has changed.
    PowerUp { node: u32, epoch: u32 },
    /// A trap is due for repetition, unless it was repressed.
    TrapDue { node: u32, serial: u32 },
    /// A client's request times out, unless it has a response.
    SendTimeout {
        client: u32,
        class: Class,
        tid: u32,
        serial: u64,
    },
    /// The lease of a port's M_Key ends, unless the generation of the lease has changed.
    LeaseEnd { port: u32, generation: u32 },
}

/// The time of an event with its sequence number, by which events of the same time keep the order
/// of scheduling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    pub(crate) time: Time,
    pub(crate) serial: u64,
}

/// An event with its moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<E> {
    pub(crate) moment: Moment,
    pub(crate) event: E,
}

/// The earliest entry is the greatest, as the max-heap requires. Moments are unique, so events need
/// not be compared.
impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.moment.cmp(&self.moment)
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.moment == other.moment
    }
}

impl<E> Eq for Entry<E> {}

/// The next step of a packet.
#[derive(Debug, Clone, Copy)]
enum Step {
    AgentDone,
    Depart,
    Deliver,
}

/// The future events. Packet events, which are frequent and near, are in a calendar; all other
/// events are in a heap.
#[derive(Debug, Clone)]
pub(crate) struct EventQueue {
    packets: Wheel<(Step, u32)>,
    others: BinaryHeap<Entry<Event>>,
    serial: u64,
}

impl EventQueue {
    pub(crate) fn new() -> EventQueue {
        EventQueue {
            packets: Wheel::new(),
            others: BinaryHeap::new(),
            serial: 0,
        }
    }

    /// Schedules an event.
    pub(crate) fn push(&mut self, time: Time, event: Event) {
        self.serial += 1;
        let moment = Moment {
            time,
            serial: self.serial,
        };
        let step = match event {
            Event::AgentDone(packet) => (Step::AgentDone, packet),
            Event::Depart(packet) => (Step::Depart, packet),
            Event::Deliver(packet) => (Step::Deliver, packet),
            event => return self.others.push(Entry { moment, event }),
        };
        let near = Entry {
            moment,
            event: step,
        };
        if self.packets.push(near).is_err() {
            self.others.push(Entry { moment, event });
        }
    }

    /// The time of the first event.
    pub(crate) fn next_time(&self) -> Option<Time> {
        let packet = self.packets.peek().map(|entry| entry.moment);
        let other = self.others.peek().map(|entry| entry.moment);
        let first = match (packet, other) {
            (Some(packet), Some(other)) => packet.min(other),
            (packet, other) => packet.or(other)?,
        };
        Some(first.time)
    }

    /// Removes and returns the first event; `None` if the time of the first event is after `now`.
    pub(crate) fn pop_until(&mut self, now: Time) -> Option<(Time, Event)> {
        let other = self.others.peek().map(|entry| entry.moment);
        if let Some(first) = self.packets.prepare().map(|entry| entry.moment)
            && other.is_none_or(|other| first < other)
        {
            if first.time > now {
                return None;
            }
            let (step, packet) = self.packets.pop()?.event;
            let event = match step {
                Step::AgentDone => Event::AgentDone(packet),
                Step::Depart => Event::Depart(packet),
                Step::Deliver => Event::Deliver(packet),
            };
            return Some((first.time, event));
        }
        if other?.time > now {
            return None;
        }
        let Entry { moment, event } = self.others.pop()?;
        Some((moment.time, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_packets_are_small() {
        assert_eq!(size_of::<Entry<(Step, u32)>>(), 24);
    }

    #[test]
    fn packets_and_other_events_share_one_order() {
        let mut queue = EventQueue::new();
        let at = Time::from_nanos;
        let up = |port| Event::LinkUp {
            port,
            generation: 0,
        };
        queue.push(at(5), up(1));
        queue.push(at(5), Event::Depart(2));
        queue.push(at(5), up(3));
        queue.push(at(4), Event::Depart(4));
        queue.push(at(4), up(5));
        assert_eq!(queue.next_time(), Some(at(4)));
        assert_eq!(queue.pop_until(at(3)), None);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop_until(at(5))).collect();
        assert_eq!(
            order
                .into_iter()
                .map(|(_, event)| event)
                .collect::<Vec<_>>(),
            [Event::Depart(4), up(5), up(1), Event::Depart(2), up(3)]
        );
    }

    #[test]
    fn ties_keep_the_order_of_scheduling() {
        let mut queue = EventQueue::new();
        let at = Time::from_nanos;
        queue.push(at(5), Event::Deliver(9));
        queue.push(at(3), Event::Deliver(2));
        queue.push(at(5), Event::AgentDone(1));
        assert_eq!(queue.next_time(), Some(at(3)));
        assert_eq!(queue.pop_until(at(2)), None);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop_until(at(5))).collect();
        assert_eq!(
            order,
            [
                (at(3), Event::Deliver(2)),
                (at(5), Event::Deliver(9)),
                (at(5), Event::AgentDone(1)),
            ]
        );
    }
}
