//! The reading ahead of a standby: while the master is silent, and may only be busy, it reads what
//! a takeover needs first.
//!
//! ```text
//!  a question unanswered ──▶ SwitchInfo, and the blocks with the managers' LIDs ──▶ known
//!        │                                                                           │
//!        └── silent for long enough here and in the store ──▶ the epoch ──▶ takeover ┘
//! ```
//!
//! Only a standby that has read the subnet as of the master's last plan reads ahead, and it sends
//! only Gets. The result is valid for [`FRESH`], and only for a grant whose state is that of the
//! last reading: a master that was writing meanwhile has announced that in the store. A reading
//! still under way at the grant continues as the first one of the takeover. Ports that changed are
//! read only then: the standby keeps its path to a master that may come back.

use std::collections::BTreeSet;
use std::time::Duration;

use rsm_ids::Guid;
use rsm_mad::Time;

/// Time for which a reading ahead is valid after its start: longer than a takeover waits for a
/// silent master.
const FRESH: Duration = Duration::from_secs(1);

/// State of a reading ahead.
#[derive(Debug)]
pub(crate) struct ReadingAhead {
    began: Time,
    /// Number of its sweep.
    sweep: u32,
    /// Blocks of forwarding tables that it reads.
    pub(crate) blocks: BTreeSet<(Guid, u16)>,
    /// Switches that showed PortStateChange.
    pub(crate) reported: BTreeSet<Guid>,
    /// Whether it has ended, and nothing contradicts the last reading of the subnet.
    is_complete: bool,
}

impl ReadingAhead {
    /// A reading of these blocks by the sweep with the number `sweep`, which begins at `now`.
    pub(crate) fn new(blocks: BTreeSet<(Guid, u16)>, sweep: u32, now: Time) -> ReadingAhead {
        ReadingAhead {
            began: now,
            sweep,
            blocks,
            reported: BTreeSet::new(),
            is_complete: false,
        }
    }

    /// Whether the reading is valid at `now`.
    pub(crate) fn is_fresh(&self, now: Time) -> bool {
        now.since(self.began) < FRESH
    }

    /// Whether the sweep with this number is the one of the reading.
    pub(crate) fn is_of(&self, sweep: u32) -> bool {
        self.sweep == sweep
    }

    /// Whether the reading has ended.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Ends the reading, which found these switches with PortStateChange.
    pub(crate) fn end(&mut self, reported: BTreeSet<Guid>) {
        (self.reported, self.is_complete) = (reported, true);
    }
}
