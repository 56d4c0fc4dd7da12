//! The reading ahead of a standby: while the master is silent, though perhaps only busy, the
//! standby already reads the parts that a takeover needs first.
//!
//! ```text
//!  a poll unanswered ──▶ SwitchInfo, and the blocks with the managers' LIDs ──▶ known
//!        │                                                                       │
//!        └── silent for long enough here and in the store ──▶ epoch ──▶ takeover ┘
//! ```
//!
//! Only a standby that has read the result of the master's last plan reads ahead, and it sends only
//! Gets. The result is valid for [`FRESH`], and only if the store shows no later plan when the
//! epoch is granted: a master that wrote hardware during the reading has announced that in the
//! store. A reading that is still under way at the grant continues as the first reading of the
//! takeover. Changed ports are read only in the takeover, so that the standby keeps its path to a
//! master that may answer again.

use std::collections::BTreeSet;
use std::time::Duration;

use rsm_ids::Guid;
use rsm_mad::Time;

/// Time for which a reading ahead is valid after its start: longer than a standby waits for a
/// silent master.
const FRESH: Duration = Duration::from_secs(1);

/// State of a reading ahead.
#[derive(Debug)]
pub(crate) struct ReadingAhead {
    /// Time at which the reading began.
    began: Time,
    /// Number of its sweep: the epoch of the inventory.
    sweep: u32,
    /// Blocks of forwarding tables that the reading covers.
    pub(crate) blocks: BTreeSet<(Guid, u16)>,
    /// Switches that showed PortStateChange.
    pub(crate) reported: BTreeSet<Guid>,
    /// Whether the sweep of the reading has ended.
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

    /// Whether the sweep with this number belongs to the reading.
    pub(crate) fn is_of(&self, sweep: u32) -> bool {
        self.sweep == sweep
    }

    /// Whether the sweep of the reading has ended.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Records the end of the sweep, which found these switches with PortStateChange.
    pub(crate) fn end(&mut self, reported: BTreeSet<Guid>) {
        (self.reported, self.is_complete) = (reported, true);
    }
}
