use super::slab::NONE;
use crate::Time;

/// The time of a timer, and a sequence number that orders timers with equal times.
#[derive(Debug, Clone, Copy)]
struct Timer {
    at: Time,
    order: u64,
    /// The owner's index of the timer.
    index: u32,
}

impl Timer {
    fn before(&self, other: &Timer) -> bool {
        (self.at, self.order) < (other.at, other.order)
    }
}

/// Timers, at most one for each index, in a binary heap that knows the position of each timer, so
/// that a timer can be cancelled. Nearly all timers are cancelled, because nearly every request is
/// answered before its deadline.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: Vec<Timer>,
    /// For each index, the heap position of its timer; [`NONE`] if the index has no timer.
    position: Vec<u32>,
    next_order: u64,
}

impl Timers {
    /// The time of the earliest timer; `None` if there is no timer.
    pub(super) fn next(&self) -> Option<Time> {
        self.heap.first().map(|timer| timer.at)
    }

    /// Sets the timer of `index`, which must not have a timer.
    pub(super) fn set(&mut self, index: u32, at: Time) {
        if self.position.len() <= index as usize {
            self.position.resize(index as usize + 1, NONE);
        }
        debug_assert_eq!(
            self.position[index as usize], NONE,
            "one timer for each index"
        );
        let order = self.next_order;
        self.next_order += 1;
        let position_in_heap = self.heap.len();
        self.heap.push(Timer { at, order, index });
        self.position[index as usize] = position_in_heap as u32;
        self.rise(position_in_heap);
    }

    /// Cancels the timer of `index`, if it has one.
    pub(super) fn cancel(&mut self, index: u32) {
        let Some(&position_in_heap) = self.position.get(index as usize) else {
            return;
        };
        if position_in_heap != NONE {
            self.remove_at(position_in_heap as usize);
        }
    }

    /// Sets the timer of `index`, if it has one, to `at` unless it is due earlier.
    pub(super) fn bring_forward(&mut self, index: u32, at: Time) {
        let position_in_heap = self.position.get(index as usize).copied();
        if position_in_heap.is_some_and(|position_in_heap| {
            position_in_heap != NONE && self.heap[position_in_heap as usize].at > at
        }) {
            self.cancel(index);
            self.set(index, at);
        }
    }

    /// Removes and returns the earliest timer that is due at `now`; `None` if no timer is due.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<u32> {
        let first = self.heap.first()?;
        if first.at > now {
            return None;
        }
        let index = first.index;
        self.remove_at(0);
        Some(index)
    }

    /// Removes the timer at a position in the heap.
    fn remove_at(&mut self, position_in_heap: usize) {
        let removed = self.heap.swap_remove(position_in_heap);
        self.position[removed.index as usize] = NONE;
        if let Some(moved) = self.heap.get(position_in_heap) {
            self.position[moved.index as usize] = position_in_heap as u32;
            // The last timer may belong above or below the gap that it fills.
            self.rise(position_in_heap);
            self.sink(position_in_heap);
        }
    }

    /// Moves the timer at `position_in_heap` up to its place in the heap.
    fn rise(&mut self, mut position_in_heap: usize) {
        while position_in_heap > 0 {
            let parent = (position_in_heap - 1) / 2;
            if !self.heap[position_in_heap].before(&self.heap[parent]) {
                break;
            }
            self.swap(position_in_heap, parent);
            position_in_heap = parent;
        }
    }

    /// Moves the timer at `position_in_heap` down to its place in the heap.
    fn sink(&mut self, mut position_in_heap: usize) {
        loop {
            let left = 2 * position_in_heap + 1;
            let Some(left_timer) = self.heap.get(left) else {
                break;
            };
            let child = match self.heap.get(left + 1) {
                Some(right_timer) if right_timer.before(left_timer) => left + 1,
                _ => left,
            };
            if !self.heap[child].before(&self.heap[position_in_heap]) {
                break;
            }
            self.swap(position_in_heap, child);
            position_in_heap = child;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.position[self.heap[a].index as usize] = a as u32;
        self.position[self.heap[b].index as usize] = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The heap behaves as an ordered map from (time, order of setting) to index.
        #[test]
        fn timers_become_due_in_the_order_of_their_times(steps in prop::collection::vec((0_u8..3, 0_u32..20, 0_u64..50), 0..300)) {
            let mut timers = Timers::default();
            let mut model: BTreeMap<(u64, usize), u32> = BTreeMap::new();
            for (order, (action, index, at)) in steps.into_iter().enumerate() {
                match action {
                    0 if !model.values().any(|&other| other == index) => {
                        timers.set(index, Time::from_nanos(at));
                        model.insert((at, order), index);
                    }
                    1 => {
                        timers.cancel(index);
                        model.retain(|_, &mut other| other != index);
                    }
                    _ => {
                        let due = model.first_key_value().filter(|((due, _), _)| *due <= at);
                        let expected = due.map(|(&key, &index)| (key, index));
                        if let Some((key, _)) = expected {
                            model.remove(&key);
                        }
                        prop_assert_eq!(timers.pop_due(Time::from_nanos(at)), expected.map(|(_, index)| index));
                    }
                }
                let next = model.first_key_value().map(|((at, _), _)| Time::from_nanos(*at));
                prop_assert_eq!(timers.next(), next);
            }
        }
    }
}
