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

use rsm_hardware::sweep::Sweep;
use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_state::Role;

use crate::Core;
use crate::stage::Stage;

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
    fn is_fresh(&self, now: Time) -> bool {
        now.since(self.began) < FRESH
    }
}

impl Core {
    /// Queues a reading ahead, if the master does not answer and the subnet was read as the master
    /// left it. Only one is valid at a time.
    pub(crate) fn start_reading_ahead(&mut self, now: Time) {
        let reading_ahead = self.standby.follower.reading_ahead.as_ref();
        // A takeover marks ARInfo as unverified, and reads it again.
        let routes_adaptively =
            self.config.policy.adaptive.is_on() || self.inventory.adaptive().next().is_some();
        if reading_ahead.is_some_and(|reading_ahead| reading_ahead.is_fresh(now))
            || !self.standby.follower.has_caught_up()
            || routes_adaptively
        {
            return;
        }
        match &self.stage {
            Stage::Idle => {}
            // The slower usual poll waits for the same silent manager, for seconds.
            Stage::Sweeping(sweep) if sweep.asks_managers_only() => self.drop_stage(),
            _ => return,
        }
        self.standby.follower.reading_ahead = None;
        self.work.read_ahead();
    }

    /// Starts the sweep of the reading ahead; `None` if there is none to start.
    pub(crate) fn begin_reading_ahead(&mut self, now: Time) -> Option<Sweep> {
        let Role::Standby { master } = &self.election.role else {
            return None;
        };
        let master = master.port;
        let blocks = self.managers_blocks(Some(master));
        let (sweep, blocks) = Sweep::start_ahead(&mut self.inventory, self.config.sweep(), &blocks);
        self.standby.follower.reading_ahead = Some(ReadingAhead {
            began: now,
            sweep: self.inventory.epoch,
            blocks,
            reported: BTreeSet::new(),
            is_complete: false,
        });
        Some(sweep)
    }

    /// Whether the sweep under way is a reading ahead.
    fn is_reading_ahead(&self) -> bool {
        let number = self.inventory.epoch;
        let reading_ahead = self.standby.follower.reading_ahead.as_ref();
        let is_open = reading_ahead.is_some_and(|reading_ahead| {
            !reading_ahead.is_complete && reading_ahead.sweep == number
        });
        is_open && matches!(self.stage, Stage::Sweeping(_))
    }

    /// Ends the reading ahead, if the sweep that has ended was one. Returns whether it was.
    pub(crate) fn end_reading_ahead(&mut self, sweep: &mut Sweep, now: Time) -> bool {
        let number = self.inventory.epoch;
        let reading_ahead = self.standby.follower.reading_ahead.as_mut();
        let Some(reading_ahead) =
            reading_ahead.filter(|reading_ahead| reading_ahead.sweep == number)
        else {
            return false;
        };
        if !matches!(self.election.role, Role::Standby { .. }) {
            self.standby.follower.reading_ahead = None;
            return false;
        }
        (reading_ahead.reported, reading_ahead.is_complete) = (sweep.take_reported(), true);
        self.meter.discard();
        if sweep.found_stale() || sweep.owes_more(&self.inventory) {
            self.standby.follower.reading_ahead = None;
            // The subnet is not as it was read. This manager reads it again, as the standby or as
            // the master.
            self.standby.follower.lose_reading(now);
        }
        true
    }

    /// Takes a reading ahead that has ended and is valid; `None` if there is none.
    pub(crate) fn take_reading_ahead(&mut self, now: Time) -> Option<ReadingAhead> {
        let reading_ahead = self.standby.follower.reading_ahead.take()?;
        (reading_ahead.is_complete && reading_ahead.is_fresh(now)).then_some(reading_ahead)
    }

    /// Whether the reading ahead under way can continue as the first reading of a takeover.
    pub(crate) fn goes_on_reading_ahead(&self, now: Time) -> bool {
        let reading_ahead = self.standby.follower.reading_ahead.as_ref();
        self.standby.follower.is_current
            && self.is_reading_ahead()
            && reading_ahead.is_some_and(|reading_ahead| reading_ahead.is_fresh(now))
    }
}
