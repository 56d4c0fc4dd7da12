//! A calendar of near events with operations in constant time. The operations of a heap would take
//! most of a simulation's time.

use super::Entry;

/// The binary logarithm of the length of a slot, 256 ns: with one window of packets in flight, a
/// slot has a few events.
const SHIFT: u32 = 8;
/// The number of slots. The slots cover 262 µs, more than the time to the next step of any packet
/// without an injected delay.
const SLOTS: u64 = 1024;
/// The number of words with a bit for each slot.
const WORDS: usize = (SLOTS / 64) as usize;

/// The events within the next [`SLOTS`] slots, which are removed in order.
#[derive(Debug, Clone)]
pub(crate) struct Wheel<E> {
    /// The events of each slot, by the slot's number modulo [`SLOTS`]. If `is_sorted` is set, the
    /// events of the slot `first` are sorted, the earliest last.
    slots: Vec<Vec<Entry<E>>>,
    /// One bit for each slot, which is set if the slot has events.
    occupied: [u64; WORDS],
    /// The number of the earliest slot that can have events.
    first: u64,
    /// Whether the events of the slot `first` are sorted.
    is_sorted: bool,
    /// The number of events.
    len: usize,
}

impl<E: Copy> Wheel<E> {
    pub(crate) fn new() -> Wheel<E> {
        Wheel {
            slots: (0..SLOTS).map(|_| Vec::new()).collect(),
            occupied: [0; WORDS],
            first: 0,
            is_sorted: false,
            len: 0,
        }
    }

    /// Adds an event; returns the event as an error if its time is beyond the last slot.
    pub(crate) fn push(&mut self, entry: Entry<E>) -> Result<(), Entry<E>> {
        let mut slot = entry.moment.time.as_nanos() >> SHIFT;
        if self.len == 0 {
            self.first = slot;
            self.is_sorted = false;
        }
        // An event earlier than the first slot also goes into the first slot: that slot is sorted,
        // and the events of all other slots are later.
        slot = slot.max(self.first);
        if slot - self.first >= SLOTS {
            return Err(entry);
        }
        let index = (slot % SLOTS) as usize;
        let events = &mut self.slots[index];
        if slot == self.first && self.is_sorted {
            let position = events.partition_point(|other| other.moment > entry.moment);
            events.insert(position, entry);
        } else {
            events.push(entry);
        }
        self.occupied[index / 64] |= 1 << (index % 64);
        self.len += 1;
        Ok(())
    }

    /// The earliest event.
    pub(crate) fn peek(&self) -> Option<&Entry<E>> {
        let slot = self.earliest()?;
        let events = &self.slots[(slot % SLOTS) as usize];
        if slot == self.first && self.is_sorted {
            events.last()
        } else {
            events.iter().min_by_key(|entry| entry.moment)
        }
    }

    /// The earliest event. Sorts the slot of the event for [`Wheel::pop`].
    pub(crate) fn prepare(&mut self) -> Option<&Entry<E>> {
        let slot = self.earliest()?;
        let events = &mut self.slots[(slot % SLOTS) as usize];
        if slot != self.first || !self.is_sorted {
            events.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.moment));
            self.first = slot;
            self.is_sorted = true;
        }
        events.last()
    }

    /// Removes and returns the earliest event.
    pub(crate) fn pop(&mut self) -> Option<Entry<E>> {
        self.prepare()?;
        let index = (self.first % SLOTS) as usize;
        let entry = self.slots[index].pop()?;
        if self.slots[index].is_empty() {
            self.occupied[index / 64] &= !(1 << (index % 64));
        }
        self.len -= 1;
        Some(entry)
    }

    /// The number of the first slot that is not empty.
    fn earliest(&self) -> Option<u64> {
        if self.len == 0 {
            return None;
        }
        let start = (self.first % SLOTS) as usize;
        let (word, bit) = (start / 64, start % 64);
        let above = self.occupied[word] >> bit;
        if above != 0 {
            return Some(self.first + u64::from(above.trailing_zeros()));
        }
        // The other words follow in the order of time. The first word comes last again, for its
        // lower bits.
        (1..=WORDS).find_map(|step| {
            let bits = self.occupied[(word + step) % WORDS];
            let ahead = (step * 64 - bit) as u64 + u64::from(bits.trailing_zeros());
            (bits != 0).then(|| self.first + ahead)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Moment;
    use proptest::prelude::*;
    use rsm_mad::Time;

    fn entry(time: u64, serial: u64) -> Entry<u64> {
        Entry {
            moment: Moment {
                time: Time::from_nanos(time),
                serial,
            },
            event: serial,
        }
    }

    #[test]
    fn an_event_too_far_ahead_is_returned() {
        let mut wheel = Wheel::new();
        assert!(wheel.push(entry(1 << 40, 0)).is_ok());
        assert!(wheel.push(entry((1 << 40) + (SLOTS << SHIFT), 1)).is_err());
        assert!(
            wheel
                .push(entry((1 << 40) + ((SLOTS - 1) << SHIFT), 2))
                .is_ok()
        );
        assert_eq!(wheel.pop().map(|entry| entry.event), Some(0));
        assert_eq!(wheel.pop().map(|entry| entry.event), Some(2));
        assert!(wheel.pop().is_none());
    }

    proptest! {
        #[test]
        fn events_leave_in_order(
            steps in prop::collection::vec((any::<bool>(), any::<bool>(), 0u64..300_000), 1..200),
        ) {
            let mut wheel = Wheel::new();
            let mut kept = std::collections::BTreeSet::new();
            let mut now = 0;
            for (serial, (push, peek, ahead)) in (0u64..).zip(steps) {
                if push {
                    if wheel.push(entry(now + ahead, serial)).is_ok() {
                        kept.insert((now + ahead, serial));
                    }
                } else {
                    let expected = kept.pop_first();
                    if peek {
                        wheel.prepare();
                    }
                    prop_assert_eq!(
                        wheel.peek().map(|entry| entry.event),
                        expected.map(|(_, serial)| serial)
                    );
                    let popped = wheel.pop().map(|entry| (entry.moment.time.as_nanos(), entry.event));
                    prop_assert_eq!(popped, expected);
                    now = popped.map_or(now, |(time, _)| time);
                }
            }
        }
    }
}
