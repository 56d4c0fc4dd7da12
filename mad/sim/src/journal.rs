//! A recording of the Sets that took effect.

use std::collections::VecDeque;

use rsm_ids::{Guid, PortNum};
use rsm_mad::Time;
use rsm_mad::wire::header::AttrId;
use rsm_mad::wire::smp::SMP_DATA_LEN;

/// A Set that took effect.
///
/// Applying the entries in order to the state at the start of the recording gives every state that
/// the fabric had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetJournalEntry {
    /// The time when the Set took effect.
    pub time: Time,
    /// The time when the Set was sent. A Set that a slow device delayed can take effect after Sets
    /// that were sent later.
    pub sent: Time,
    /// The node and port of the client that sent the Set; `None` if no client sent it.
    pub sender: Option<(Guid, PortNum)>,
    /// The node whose agent executed the Set.
    pub node: Guid,
    /// The port through which the Set entered the node; 0 at a switch.
    pub port: PortNum,
    /// The attribute that the Set changed.
    pub attribute: AttrId,
    /// The attribute modifier: the number of a port or a block.
    pub modifier: u32,
    /// The attribute after the Set, which is also the data of the answer.
    pub data: [u8; SMP_DATA_LEN],
}

/// The Sets that took effect since recording began, oldest first.
#[derive(Debug, Clone, Default)]
pub struct SetJournal {
    entries: VecDeque<SetJournalEntry>,
    /// The maximum number of entries.
    capacity: usize,
    /// The number of entries that were dropped for lack of capacity. The oldest entries are dropped
    /// first.
    pub overwritten: u64,
}

impl SetJournal {
    pub(crate) fn with_capacity(capacity: usize) -> SetJournal {
        SetJournal {
            entries: VecDeque::new(),
            capacity,
            overwritten: 0,
        }
    }

    /// Adds an entry. A full journal drops its oldest entry.
    pub(crate) fn push(&mut self, entry: SetJournalEntry) {
        if self.entries.len() >= self.capacity {
            self.overwritten += 1;
            if self.entries.pop_front().is_none() {
                return;
            }
        }
        self.entries.push_back(entry);
    }

    /// Returns the entries, and leaves an empty journal with the same capacity.
    pub(crate) fn take(&mut self) -> SetJournal {
        let empty = SetJournal::with_capacity(self.capacity);
        std::mem::replace(self, empty)
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &SetJournalEntry> {
        self.entries.iter()
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the journal has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
