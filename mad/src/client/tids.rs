use std::collections::VecDeque;

use super::slab::NONE;

/// The number of transaction slots at the start.
///
/// Slots are used in turn, and each has 2^16 generations, so that a transaction identifier repeats
/// after 2^28 requests at the earliest: three quarters of an hour at 100 000 a second, while
/// packets exist for seconds.
const INITIAL_SLOTS: u16 = 4096;

/// The number of slots kept free, so that a slot is reused late even if most slots are held by
/// requests that wait for a retry.
const SPARE_SLOTS: usize = 1024;

/// The transaction of an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// The incomplete transaction at this index of the slab; `age` attempts were sent after the
    /// attempt with the identifier.
    Live { index: u32, age: u8 },
    /// A transaction that was already answered.
    Answered,
    /// The transaction has failed, or is too old to be known.
    Unknown,
}

/// The present or last transaction of a slot.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// The last generation sent.
    generation: u16,
    /// The number of generations, up to and including `generation`, that belong to the slot's
    /// present or last transaction.
    attempts: u8,
    /// Whether the slot's last transaction was answered.
    is_answered: bool,
    /// The slab index of the present transaction, or [`NONE`].
    index: u32,
}

/// Allocates transaction identifiers and finds the transaction of an answer.
///
/// An identifier has 32 bits, because the kernel uses the other 32 bits. The low 16 bits are a
/// slot, and the high 16 bits are the slot's generation, one for each datagram sent. Every attempt
/// therefore has a different identifier: the kernel never takes a retry for a duplicate, an answer
/// identifies its attempt, and a late answer is recognised because the slot has a newer generation.
#[derive(Debug)]
pub(super) struct Tids {
    slots: Vec<Slot>,
    /// The slots without a present transaction, in the order in which they will be used.
    free: VecDeque<u16>,
    /// The generation before the first generation of every slot.
    first_generation: u16,
}

impl Tids {
    pub(super) fn new(first_generation: u16) -> Tids {
        let mut tids = Tids {
            slots: Vec::new(),
            free: VecDeque::new(),
            first_generation,
        };
        // Slot 0 is never used, because some agents take the identifier 0 for "none".
        tids.add_slot();
        tids.free.clear();
        tids.grow(INITIAL_SLOTS);
        tids
    }

    fn add_slot(&mut self) {
        self.free.push_back(self.slots.len() as u16);
        self.slots.push(Slot {
            generation: self.first_generation,
            attempts: 0,
            is_answered: false,
            index: NONE,
        });
    }

    /// Adds `count` slots, but at most as many as can still exist.
    fn grow(&mut self, count: u16) {
        let available = usize::from(u16::MAX) + 1 - self.slots.len();
        for _ in 0..usize::from(count).min(available) {
            self.add_slot();
        }
    }

    /// Opens a slot for the transaction at `index` of the slab. The client holds at most half as
    /// many transactions as slots can exist.
    pub(super) fn open(&mut self, index: u32) -> u16 {
        if self.free.len() <= SPARE_SLOTS {
            self.grow(INITIAL_SLOTS);
        }
        let slot = self
            .free
            .pop_front()
            .expect("the table has twice as many slots as transactions");
        let state = &mut self.slots[usize::from(slot)];
        state.index = index;
        state.attempts = 0;
        slot
    }

    /// The identifier of the next attempt.
    pub(super) fn next(&mut self, slot: u16) -> u32 {
        let state = &mut self.slots[usize::from(slot)];
        state.generation = state.generation.wrapping_add(1);
        state.attempts += 1;
        u32::from(state.generation) << 16 | u32::from(slot)
    }

    /// Closes the slot of a complete transaction, which was answered or has failed.
    pub(super) fn close(&mut self, slot: u16, is_answered: bool) {
        let state = &mut self.slots[usize::from(slot)];
        state.index = NONE;
        state.is_answered = is_answered;
        self.free.push_back(slot);
    }

    /// The transaction to which the identifier belongs.
    pub(super) fn owner(&self, tid: u32) -> Owner {
        let Some(slot) = self.slots.get((tid & 0xFFFF) as usize) else {
            return Owner::Unknown;
        };
        let age = slot.generation.wrapping_sub((tid >> 16) as u16);
        if age >= u16::from(slot.attempts) {
            return Owner::Unknown;
        }
        match slot.index {
            NONE if slot.is_answered => Owner::Answered,
            NONE => Owner::Unknown,
            index => Owner::Live {
                index,
                age: age as u8,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_to_any_attempt_finds_its_transaction() {
        let mut tids = Tids::new(0xFFFE);
        let slot = tids.open(7);
        let attempts = [(); 4].map(|()| tids.next(slot));
        for (tid, age) in attempts.into_iter().zip([3, 2, 1, 0]) {
            assert_eq!(tids.owner(tid), Owner::Live { index: 7, age });
        }
        tids.close(slot, true);
        assert_eq!(tids.owner(attempts[0]), Owner::Answered);
        assert_eq!(
            tids.owner(attempts[3].wrapping_add(1 << 16)),
            Owner::Unknown,
            "never sent"
        );
    }

    #[test]
    fn earlier_identifiers_of_a_slot_never_find_its_newer_transaction() {
        let mut tids = Tids::new(1);
        let slot = tids.open(1);
        let old = [(); 3].map(|()| tids.next(slot));
        tids.close(slot, false);
        assert_eq!(tids.owner(old[2]), Owner::Unknown);
        while tids.open(2) != slot {}
        assert_eq!(
            tids.owner(old[2]),
            Owner::Unknown,
            "before the newer one is sent"
        );
        let new = tids.next(slot);
        assert_eq!(tids.owner(new), Owner::Live { index: 2, age: 0 });
        assert!(old.iter().all(|&tid| tids.owner(tid) == Owner::Unknown));
    }

    #[test]
    fn slots_are_added_and_no_slot_is_opened_twice() {
        let mut tids = Tids::new(1);
        let mut seen: Vec<u16> = (0..32_768).map(|index| tids.open(index)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 32_768);
        assert!(!seen.contains(&0));
    }
}
