//! A standby follows a master that shares its store, so that it knows the subnet when it takes
//! over.
//!
//! The store has the number of the master's last plan, and the [footprints](rsm_model::footprint)
//! of the last ones. Whenever that number changes, the standby reads the parts in these footprints
//! again, with few Gets at a time; if footprints are missing since its last reading, it reads the
//! whole subnet. A takeover can start from a reading that began after the master had stored the
//! number of a plan, if there was no push since.

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

/// Time between the end of a reading and the start of the next reading of the whole subnet; also
/// the time in which the footprint of a plan follows its number.
const PAUSE: Duration = Duration::from_secs(2);

/// Time to the next reading after one that did not reach all nodes; also to a reading of the whole
/// subnet while the master writes hardware, whose footprint comes at the end.
const LONG_PAUSE: Duration = Duration::from_secs(30);

/// Gets that a standby hands to the client before they are sent: few, so that the master keeps most
/// of the switches' time.
pub(crate) const AHEAD: usize = 64;

/// A reading that is due.
#[derive(Debug)]
enum Due {
    /// A reading of the parts that the master changed up to this plan.
    Parts(u64, Parts),
    Everything,
}

/// State of a standby's readings.
#[derive(Default, Debug)]
pub(crate) struct Follower {
    pub(crate) state: Following,
    /// Footprints in the store.
    pub(crate) footprints: Footprints,
    /// Time at which the store showed the number of the last plan.
    shown_at: Option<Time>,
    /// Whether the master is writing hardware, according to the store.
    pub(crate) is_pushing: bool,
    /// The next reading, and its start.
    due: Option<(Due, Time)>,
    /// Whether the reading waits in the queue of work.
    is_queued: bool,
    /// Number of the plan that the reading under way is of.
    reading: Option<u64>,
    /// End of the last reading, and whether it reached all nodes.
    ended: Option<(Time, bool)>,
    /// Whether the state of the last grant was that of the last reading.
    pub(crate) is_current: bool,
    /// The reading ahead while the master is silent; `None` if there is no valid one.
    pub(crate) reading_ahead: Option<ReadingAhead>,
    /// Whether the master is changing the keys of ports that answer nothing without them.
    pub(crate) keys_change: bool,
}

impl Follower {
    /// Time at which [`Core::follow_master`] has something to do; `None` if never.
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

    /// Whether the subnet was read as of the last plan in the store.
    pub(crate) fn has_caught_up(&self) -> bool {
        self.state.read.is_some() && !self.is_behind() && !self.keys_change
    }

    /// Whether the last reading was of the subnet as the master left it with this state.
    pub(crate) fn has_read(&self, state: &SavedCoreState) -> bool {
        !state.is_pushing && self.state.read == Some(state.generation)
    }

    /// Makes the last reading invalid.
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
    /// How far this manager has followed the master; `None` unless the master shares the store.
    pub fn following(&self) -> Option<Following> {
        let is_standby = matches!(self.election.role, Role::Standby { .. });
        (is_standby && self.config.shares_store).then_some(self.standby.follower.state)
    }

    /// Handles the number of the master's last plan in the store.
    pub(crate) fn on_planned_elsewhere(&mut self, plan: u64, now: Time) {
        // Footprints may be of a later plan, whose number will follow.
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

    /// Time at which a reading is due; `None` if there is none.
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

    /// Records that a sweep of the whole subnet begins: together with earlier readings, it would
    /// not be of one moment.
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

    /// Starts the sweep of what the master has changed; `None` if there is nothing to read.
    pub(crate) fn begin_following(&mut self, now: Time) -> Option<Sweep> {
        self.standby.follower.is_queued = false;
        if !matches!(self.election.role, Role::Standby { .. }) {
            return None;
        }
        let Some((Due::Parts(plan, parts), _)) = &self.standby.follower.due else {
            // The store's state changed in between.
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

    /// Number of the plan that the sweep just ended is of; `None` if it was no reading.
    pub(crate) fn take_reading(&mut self) -> Option<u64> {
        self.standby.follower.reading.take()
    }

    /// Handles the end of a standby's sweep; `read` is the plan that it is of, if it was a reading.
    pub(crate) fn end_reading(&mut self, read: Option<u64>, sweep: &Sweep, now: Time) {
        if read.is_none() {
            return self.standby.follower.schedule(now);
        }
        let is_complete = match sweep.scope() {
            SweepScope::Full { .. } => self.work.is_covered(),
            _ => !sweep.owes_more(&self.inventory),
        };
        if sweep.is_contradicted(&self.inventory) {
            // The answers may be other nodes'; a sweep of everything is waiting.
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
