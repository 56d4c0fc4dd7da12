//! The reading ahead of a standby: what a takeover asks first is asked while the master is silent
//! and may only be busy.
//!
//! ```text
//!  a question unanswered ──▶ SwitchInfo, and the blocks with the managers' LIDs ──▶ known
//!        │                                                                           │
//!        └── silent for long enough here and in the store ──▶ the epoch ──▶ takeover ┘
//! ```
//!
//! Only a standby that has read the subnet as of the master's last plan reads ahead, Gets only. The
//! result counts for [`FRESH`], and only for a grant whose state is that of the last reading: a
//! master that was writing meanwhile has told the store. A reading that is still under way at the
//! grant goes on as the first one of the takeover. Ports that changed are read only then: the standby
//! keeps its way to a master that may come back.

use std::collections::BTreeSet;
use std::time::Duration;

use rsm_hardware::sweep::Sweep;
use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_state::Role;

use crate::Core;
use crate::stage::Stage;

/// How long after its begin a reading ahead counts: longer than a takeover waits for a silent
/// master.
const FRESH: Duration = Duration::from_secs(1);

/// A reading ahead.
#[derive(Debug)]
pub(crate) struct ReadingAhead {
    began: Time,
    /// The number of its sweep.
    sweep: u32,
    /// Blocks of forwarding tables that it reads.
    pub(crate) blocks: BTreeSet<(Guid, u16)>,
    /// Switches that showed PortStateChange.
    pub(crate) reported: BTreeSet<Guid>,
    /// It has ended, and nothing contradicts the last reading of the subnet.
    is_complete: bool,
}

impl ReadingAhead {
    fn is_fresh(&self, now: Time) -> bool {
        now.since(self.began) < FRESH
    }
}

impl Core {
    /// Lets the reading ahead begin, if the master does not answer and the subnet was read as it
    /// left it. At most one counts at a time.
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
            // The question of the usual pace waits for the same silent manager, for seconds.
            Stage::Sweeping(sweep) if sweep.asks_managers_only() => self.drop_stage(),
            _ => return,
        }
        self.standby.follower.reading_ahead = None;
        self.work.read_ahead();
    }

    /// The sweep of the reading ahead.
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
            // The subnet is not as it was read: it is read again, by this manager as the standby or
            // as the master.
            self.standby.follower.lose_reading(now);
        }
        true
    }

    /// Takes a reading ahead that has ended and counts.
    pub(crate) fn take_reading_ahead(&mut self, now: Time) -> Option<ReadingAhead> {
        let reading_ahead = self.standby.follower.reading_ahead.take()?;
        (reading_ahead.is_complete && reading_ahead.is_fresh(now)).then_some(reading_ahead)
    }

    /// Whether the reading ahead under way can go on as the first one of a takeover.
    pub(crate) fn goes_on_reading_ahead(&self, now: Time) -> bool {
        let reading_ahead = self.standby.follower.reading_ahead.as_ref();
        self.standby.follower.is_current
            && self.is_reading_ahead()
            && reading_ahead.is_some_and(|reading_ahead| reading_ahead.is_fresh(now))
    }
}
