//! A standby's knowledge of the subnet of a master that shares its store, and how it keeps up.
//!
//! The store has the number of the master's last plan, and the [footprints](rsm_model::footprint) of the
//! last ones. Whenever that number changes, the standby reads again what they name, Gets only and
//! few at a time; where they do not lead back to what it has read, the whole subnet. A reading that
//! began after the master had stored the number of a plan, and no push since, is what a takeover can
//! start from.

use std::time::Duration;

use rsm_hardware::sweep::{Sweep, SweepScope};
use rsm_mad::Time;
use rsm_model::Parts;
use rsm_model::footprint::Footprints;
use rsm_state::{Following, Role};

use super::reading_ahead::ReadingAhead;
use crate::{Core, SavedCoreState};

/// Why the standby reads.
pub(crate) const MASTER_CHANGED: &str = "the master has changed the subnet";

/// Time between the end of a reading and the begin of the next one of the whole subnet; and that in
/// which the footprint of a plan follows its number.
const PAUSE: Duration = Duration::from_secs(2);

/// Time to the next reading after one that did not reach all nodes; and to one of the whole subnet
/// while the master writes hardware, whose footprint comes at the end.
const LONG_PAUSE: Duration = Duration::from_secs(30);

/// Gets that a standby hands to the client ahead of their sending, so that it takes little of the
/// switches' time from the master.
pub(crate) const AHEAD: usize = 64;

/// A reading that is due.
#[derive(Debug)]
enum Due {
    /// The parts that the master changed up to this plan.
    Parts(u64, Parts),
    Everything,
}

/// The readings of a standby.
#[derive(Default, Debug)]
pub(crate) struct Follower {
    pub(crate) state: Following,
    /// The footprints that the store has.
    pub(crate) footprints: Footprints,
    /// When the store showed the number of the last plan.
    shown_at: Option<Time>,
    /// The master is writing hardware, as the store shows it.
    pub(crate) is_pushing: bool,
    /// The next reading, and when it begins.
    due: Option<(Due, Time)>,
    /// It waits in the queue of work.
    is_queued: bool,
    /// The number of the plan that the reading under way is of.
    reading: Option<u64>,
    /// When the last reading ended, and whether it reached all nodes.
    ended: Option<(Time, bool)>,
    /// The state of the last grant was that of the last reading.
    pub(crate) is_current: bool,
    /// The reading ahead while the master is silent; `None` without one that counts.
    pub(crate) reading_ahead: Option<ReadingAhead>,
    /// The master is giving ports that answer nothing without a key other keys.
    pub(crate) keys_change: bool,
}

impl Follower {
    /// When [`Core::follow_master`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let (_, begins) = self.due.as_ref()?;
        let is_free = !self.is_queued && self.reading.is_none() && !self.keys_change;
        is_free.then_some(*begins)
    }

    /// Whether a reading is under way.
    pub(crate) fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    fn is_behind(&self) -> bool {
        self.state.planned.is_some() && self.state.planned != self.state.read
    }

    /// Whether the subnet was read as of the last plan that the store has shown.
    pub(crate) fn has_caught_up(&self) -> bool {
        self.state.read.is_some() && !self.is_behind() && !self.keys_change
    }

    /// Whether the last reading was of the subnet that the master left with this state.
    pub(crate) fn has_read(&self, state: &SavedCoreState) -> bool {
        !state.is_pushing && self.state.read == Some(state.generation)
    }

    /// The standby's last reading no longer counts.
    pub(crate) fn lose_reading(&mut self, now: Time) {
        self.state.read = None;
        self.schedule(now);
    }

    /// Decides what to read next, and when.
    fn schedule(&mut self, now: Time) {
        self.due = None;
        if !self.is_behind() {
            return;
        }
        let parts = self.state.read.and_then(|read| self.footprints.since(read));
        let (due, pause) = match parts {
            Some((plan, parts)) => (Due::Parts(plan, parts), Duration::ZERO),
            None => (Due::Everything, PAUSE),
        };
        let rested = self.ended.map(|(ended, is_complete)| match is_complete {
            true => ended + pause,
            false => ended + LONG_PAUSE,
        });
        // The footprint comes later than the number of a plan that is being made or written.
        let patience = match (&due, self.is_pushing, self.state.read) {
            (Due::Parts(..), ..) | (Due::Everything, false, None) => Duration::ZERO,
            (Due::Everything, false, Some(_)) => PAUSE,
            (Due::Everything, true, _) => LONG_PAUSE,
        };
        let told = self.shown_at.map(|at| at + patience);
        let begins = [rested, told].into_iter().flatten().fold(now, Time::max);
        self.due = Some((due, begins));
    }
}

impl Core {
    /// How far this manager has followed the master, if that shares its store.
    pub fn following(&self) -> Option<Following> {
        let is_standby = matches!(self.election.role, Role::Standby { .. });
        (is_standby && self.config.shares_store).then_some(self.standby.follower.state)
    }

    /// The store shows the number of the master's last plan.
    pub(crate) fn on_planned_elsewhere(&mut self, plan: u64, now: Time) {
        // Footprints may be of a later plan, whose number is on its way.
        let plan = self.standby.follower.footprints.last().max(Some(plan));
        if self.standby.follower.state.planned == plan {
            return;
        }
        self.standby.follower.state.planned = plan;
        self.standby.follower.shown_at = Some(now);
        self.standby.follower.schedule(now);
        self.follow_master(now);
        if self.following().is_some() {
            self.publish(now);
        }
    }

    /// When a reading is due.
    pub(crate) fn following_due(&self) -> Option<Time> {
        let is_standby = matches!(self.election.role, Role::Standby { .. });
        self.standby.follower.deadline().filter(|_| is_standby)
    }

    /// Begins to read what the master has changed since the last reading, if that is due.
    pub(crate) fn follow_master(&mut self, now: Time) {
        if self.following_due().is_none_or(|due| due > now) {
            return;
        }
        self.standby.follower.is_queued = true;
        match &self.standby.follower.due {
            Some((Due::Parts(..), _)) => self.work.follow(),
            _ => self.work.sweep_everything(true, MASTER_CHANGED),
        }
    }

    /// A sweep of the whole subnet begins: what was read before no longer is of one moment.
    pub(crate) fn begin_reading(&mut self, audit: bool) {
        let is_standby = matches!(self.election.role, Role::Standby { .. });
        self.standby.follower.state.read = None;
        self.standby.follower.is_queued = false;
        self.standby.follower.reading = self
            .standby
            .follower
            .state
            .planned
            .filter(|_| is_standby && audit);
    }

    /// The sweep of what the master has changed.
    pub(crate) fn begin_following(&mut self, now: Time) -> Option<Sweep> {
        self.standby.follower.is_queued = false;
        if !matches!(self.election.role, Role::Standby { .. }) {
            return None;
        }
        let Some((Due::Parts(plan, parts), _)) = &self.standby.follower.due else {
            // News of the store came between.
            self.standby.follower.schedule(now);
            return None;
        };
        self.standby.follower.reading = Some(*plan);
        Some(Sweep::start_following(
            &mut self.inventory,
            self.config.sweep(),
            parts,
        ))
    }

    /// A sweep has ended: the number of the plan that it is of, if it was a reading.
    pub(crate) fn take_reading(&mut self) -> Option<u64> {
        self.standby.follower.reading.take()
    }

    /// A sweep of a standby has ended; `read` is the plan that it is of, if it was a reading.
    pub(crate) fn end_reading(&mut self, read: Option<u64>, sweep: &Sweep, now: Time) {
        if read.is_none() {
            return self.standby.follower.schedule(now);
        }
        let is_complete = match sweep.scope() {
            SweepScope::Full { .. } => self.work.is_covered(),
            _ => !sweep.owes_more(&self.inventory),
        };
        if sweep.is_contradicted(&self.inventory) {
            // Its answers may be other nodes'; a sweep of everything waits.
            return self.standby.follower.lose_reading(now);
        }
        self.standby.follower.ended = Some((now, is_complete));
        if is_complete {
            self.standby.follower.state.read = read;
        }
        self.standby.follower.schedule(now);
        if is_complete {
            self.prepare();
            self.publish(now);
        }
    }
}
