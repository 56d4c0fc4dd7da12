//! A standby follows a master that shares its store, so that it knows the subnet when it takes
//! over.
//!
//! The store has the number of the master's last plan, and the [footprints](rsm_model::footprint)
//! of its last few plans: the parts that each plan changed. Whenever the number changes, the
//! standby reads the parts again that have changed since its last reading, with few Gets at a time.
//! If a footprint is missing, the standby reads the whole subnet. A takeover can start from a
//! reading that began after the master stored the number of its last plan, if the master has pushed
//! nothing since.

use std::time::Duration;

use rsm_mad::Time;
use rsm_model::Parts;
use rsm_model::footprint::Footprints;
use rsm_state::Following;

use crate::reading_ahead::ReadingAhead;

/// Cause of a standby's readings, for the record of a pass.
pub const MASTER_CHANGED: &str = "the master has changed the subnet";

/// Pause between a reading and the next reading of the whole subnet. Also the time for which a
/// standby waits for the footprint of a plan after the number of the plan.
const PAUSE: Duration = Duration::from_secs(2);

/// Pause after a reading that did not reach all nodes. Also the pause before a reading of the whole
/// subnet while the master writes hardware, because the footprint comes at the end of the push.
const LONG_PAUSE: Duration = Duration::from_secs(30);

/// Maximum number of Gets of a standby that wait in the client to be sent. It is low, to leave most
/// of the switches' time for the master.
pub const STANDBY_QUEUE_LIMIT: usize = 64;

/// A reading that is due.
#[derive(Debug)]
enum DueReading {
    /// A reading of the parts that the master changed up to the plan with this number.
    Parts(u64, Parts),
    /// A reading of the whole subnet.
    Everything,
}

/// State of a standby's readings.
#[derive(Default, Debug)]
pub(crate) struct Follower {
    pub(crate) state: Following,
    /// The footprints in the store.
    pub(crate) footprints: Footprints,
    /// Time at which the store first showed the number of the last plan.
    shown_at: Option<Time>,
    /// Whether the master is writing hardware, according to the store.
    pub(crate) is_pushing: bool,
    /// The next reading, and its start.
    due: Option<(DueReading, Time)>,
    /// Whether the reading waits in the queue of work.
    is_queued: bool,
    /// Number of the last plan when the reading under way began; `None` if none is under way.
    reading: Option<u64>,
    /// Time at which the last reading ended, and whether it reached all nodes.
    last_reading: Option<(Time, bool)>,
    /// Whether this standby has read the result of the master's last plan, as the grant of the
    /// epoch shows it.
    pub(crate) is_current: bool,
    /// The reading ahead while the master is silent; `None` without a valid reading ahead.
    pub(crate) reading_ahead: Option<ReadingAhead>,
    /// Whether the master is changing the keys of ports that answer nothing without them.
    pub(crate) keys_are_changing: bool,
}

impl Follower {
    /// Time at which the next reading begins; `None` if none is due, or a reading is under way.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let (_, begins) = self.due.as_ref()?;
        let is_free = !self.is_queued && self.reading.is_none() && !self.keys_are_changing;
        is_free.then_some(*begins)
    }

    /// Whether a reading is under way.
    pub(crate) fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// Whether the result of the last plan in the store was not read yet.
    fn is_behind(&self) -> bool {
        self.state.planned.is_some() && self.state.planned != self.state.read
    }

    /// Whether the result of the last plan in the store was read.
    pub(crate) fn has_caught_up(&self) -> bool {
        self.state.read.is_some() && !self.is_behind() && !self.keys_are_changing
    }

    /// Makes the last reading invalid.
    pub(crate) fn lose_reading(&mut self, now: Time) {
        self.state.read = None;
        self.schedule(now);
    }

    /// Decides which parts to read next, and when.
    pub(crate) fn schedule(&mut self, now: Time) {
        self.due = None;
        if !self.is_behind() {
            return;
        }
        let parts = self.state.read.and_then(|read| self.footprints.since(read));
        let (due, pause) = match parts {
            Some((plan, parts)) => (DueReading::Parts(plan, parts), Duration::ZERO),
            None => (DueReading::Everything, PAUSE),
        };
        let end_of_pause = self
            .last_reading
            .map(|(ended, is_complete)| match is_complete {
                true => ended + pause,
                false => ended + LONG_PAUSE,
            });
        // The store shows the footprint of a plan later than its number.
        let patience = match (&due, self.is_pushing, self.state.read) {
            (DueReading::Parts(..), ..) | (DueReading::Everything, false, None) => Duration::ZERO,
            (DueReading::Everything, false, Some(_)) => PAUSE,
            (DueReading::Everything, true, _) => LONG_PAUSE,
        };
        let end_of_patience = self.shown_at.map(|at| at + patience);
        let ends = [end_of_pause, end_of_patience].into_iter().flatten();
        let begins = ends.fold(now, Time::max);
        self.due = Some((due, begins));
    }

    /// Records the number of the master's last plan in the store. Returns whether the number is
    /// new.
    pub(crate) fn record_plan(&mut self, plan: u64, now: Time) -> bool {
        // The footprints may already include a later plan, whose number will follow.
        let plan = self.footprints.last().max(Some(plan));
        let is_news = self.state.planned != plan;
        if is_news {
            self.state.planned = plan;
            self.shown_at = Some(now);
            self.schedule(now);
        }
        is_news
    }

    /// Queues the reading that is due. Returns whether the reading covers only parts of the subnet.
    pub(crate) fn queue(&mut self) -> bool {
        self.is_queued = true;
        matches!(self.due, Some((DueReading::Parts(..), _)))
    }

    /// Records that a full sweep begins, which makes earlier readings invalid. If `counts` is true,
    /// the sweep is a reading of the last plan's result.
    pub(crate) fn begin_whole(&mut self, counts: bool) {
        self.state.read = None;
        self.is_queued = false;
        self.reading = self.state.planned.filter(|_| counts);
    }

    /// Begins a reading of parts, and returns the parts; `None` if no parts are due.
    pub(crate) fn begin_parts(&mut self, now: Time) -> Option<&Parts> {
        if !matches!(self.due, Some((DueReading::Parts(..), _))) {
            // The store's state changed in between.
            self.schedule(now);
            return None;
        }
        let Some((DueReading::Parts(plan, parts), _)) = &self.due else {
            return None;
        };
        self.reading = Some(*plan);
        Some(parts)
    }

    /// Records that no reading waits in the queue of work.
    pub(crate) fn unqueue(&mut self) {
        self.is_queued = false;
    }

    /// Ends the reading under way. Returns the number of the plan whose result it read; `None` if
    /// no reading was under way.
    pub(crate) fn end_reading(&mut self) -> Option<u64> {
        self.reading.take()
    }

    /// Records the end of a reading of the result of plan `read`. `is_complete` says whether the
    /// reading reached all nodes.
    pub(crate) fn record_reading(&mut self, read: u64, is_complete: bool, now: Time) {
        self.last_reading = Some((now, is_complete));
        if is_complete {
            self.state.read = Some(read);
        }
        self.schedule(now);
    }
}
