//! A standby's knowledge of the subnet of a master that shares its store, and how it keeps up.
//!
//! The store has the number of the master's last plan. Whenever that changes, the standby reads the
//! whole subnet again, Gets only and few at a time. A reading that began after the master had
//! stored the number of a plan, and no push since, is what a takeover can start from.

use std::time::Duration;

use rsm_mad::Time;

use super::role::Role;
use super::scouting::Scouting;
use super::{Core, SavedCoreState};

/// Time between the end of a reading and the begin of the next one.
const PAUSE: Duration = Duration::from_secs(2);

/// The same after a reading that did not reach all nodes.
const LONG_PAUSE: Duration = Duration::from_secs(30);

/// Gets that a standby hands to the client ahead of their sending, so that it takes little of the
/// switches' time from the master.
pub(super) const AHEAD: usize = 64;

/// How far a standby has followed the master.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Following {
    /// The number of the last plan that the store has; `None`: the store has not shown it yet.
    pub planned: Option<u64>,
    /// That number when the last complete reading of the subnet began; `None`: there is none.
    pub read: Option<u64>,
}

/// The readings of a standby.
#[derive(Default, Debug)]
pub(super) struct Follower {
    pub(super) state: Following,
    /// The number of the plan when the reading under way began.
    reading: Option<u64>,
    /// A reading waits to begin.
    is_due: bool,
    /// No reading begins before.
    not_before: Option<Time>,
    /// The state of the last grant was that of the last reading.
    pub(super) is_current: bool,
    /// The reading ahead while the master is silent; `None` without one that counts.
    pub(super) scouting: Option<Scouting>,
    /// The master is giving ports that answer nothing without a key other keys.
    pub(super) keys_change: bool,
}

impl Follower {
    /// When [`Core::follow_master`] has something to do.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.not_before
            .filter(|_| !self.is_due && self.reading.is_none() && self.is_behind())
            .filter(|_| !self.keys_change)
    }

    /// Whether a reading is under way.
    pub(super) fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    fn is_behind(&self) -> bool {
        self.state.planned.is_some() && self.state.planned != self.state.read
    }

    /// Whether the subnet was read as of the last plan that the store has shown.
    pub(super) fn has_caught_up(&self) -> bool {
        self.state.read.is_some() && !self.is_behind() && !self.keys_change
    }

    /// Whether the last reading was of the subnet that the master left with this state.
    pub(super) fn has_read(&self, state: &SavedCoreState) -> bool {
        !state.is_pushing && self.state.read == Some(state.generation)
    }
}

impl Core {
    /// How far this manager has followed the master, if that shares its store.
    pub fn following(&self) -> Option<Following> {
        let is_standby = matches!(self.role, Role::Standby { .. });
        (is_standby && self.config.shares_store).then_some(self.follower.state)
    }

    /// The store shows the number of the master's last plan.
    pub(super) fn on_planned_elsewhere(&mut self, plan: u64, now: Time) {
        if self.follower.state.planned == Some(plan) {
            return;
        }
        self.follower.state.planned = Some(plan);
        self.follower.not_before.get_or_insert(now);
        self.follow_master(now);
        if self.following().is_some() {
            self.publish(now);
        }
    }

    /// When a reading is due.
    pub(super) fn following_due(&self) -> Option<Time> {
        let is_standby = matches!(self.role, Role::Standby { .. });
        self.follower.deadline().filter(|_| is_standby)
    }

    /// Begins to read the subnet again, if the master has changed it since the last reading.
    pub(super) fn follow_master(&mut self, now: Time) {
        if self.following_due().is_some_and(|due| due <= now) {
            self.follower.is_due = true;
            self.work
                .sweep_everything(true, "the master has changed the subnet");
        }
    }

    /// A sweep of the whole subnet begins: what was read before no longer is of one moment.
    pub(super) fn begin_reading(&mut self, audit: bool) {
        let is_standby = matches!(self.role, Role::Standby { .. });
        self.follower.state.read = None;
        self.follower.is_due = false;
        self.follower.reading = self.follower.state.planned.filter(|_| is_standby && audit);
    }

    /// A sweep has ended: the number of the plan that it is of, if it was a reading.
    pub(super) fn take_reading(&mut self) -> Option<u64> {
        self.follower.reading.take()
    }

    /// A reading has ended, and this manager stands by.
    pub(super) fn end_reading(&mut self, read: Option<u64>, now: Time) {
        if read.is_none() {
            return;
        }
        if self.uncovered.is_some() {
            self.follower.not_before = Some(now + LONG_PAUSE);
            return;
        }
        self.follower.not_before = Some(now + PAUSE);
        self.follower.state.read = read;
        self.prepare();
        self.publish(now);
    }
}
