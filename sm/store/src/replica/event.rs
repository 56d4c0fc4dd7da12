//! Reports of the thread that keeps a shared store up to date.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_ids::Guid;

use super::super::{Epoch, Persisted};

/// A report from the thread of the shared store.
#[derive(Debug)]
pub enum ReplicaEvent {
    /// The claim succeeded.
    Granted {
        /// Number of the claim.
        number: u64,
        /// The new epoch.
        epoch: Epoch,
        /// The state to continue with; `None` if this manager was the last one to write the store.
        state: Option<Box<Persisted>>,
        /// Whether `state` combines the shared state with the state of this machine, because this
        /// manager is already master. Otherwise, `state` replaces the state of this machine.
        is_combined: bool,
        /// Time since the last sign of life of the former holder; zero if there was none, or if it
        /// released the epoch.
        unseen: Duration,
    },
    /// The claim failed: the manager that holds the epoch is alive. The claim is not repeated.
    Refused(Epoch),
    /// The store does not answer, or cannot be used. The claim is repeated.
    Unreachable {
        /// Number of the claim; 0 for a check.
        number: u64,
        /// The last state read from the store, with which this manager continues; `None` if this
        /// manager was the last one to write it.
        state: Option<Box<Persisted>>,
    },
    /// A check found that this manager still holds the epoch.
    Held,
    /// The epoch `ended` of this manager has ended: the store has the epoch `by`, of another
    /// manager or from an older copy of the store.
    Deposed {
        /// The epoch that this manager held.
        ended: Epoch,
        /// The epoch in the store.
        by: Epoch,
    },
    /// The epoch in the store, reported when another manager has changed it; `None` if there is no
    /// epoch.
    Seen(Option<Epoch>),
    /// Number of the last plan stored by the holder, another manager. Reported when it changes,
    /// after the rows that belong to the plan.
    Planned(u64),
    /// The rows of [`FOLLOWED_TABLES`](crate::FOLLOWED_TABLES) stored by the holder, another
    /// manager. Reported when they change; the rows of [`CABLING`](crate::CABLING) are omitted if
    /// they have not changed.
    Followed(Box<Persisted>),
    /// State of the shared store, reported when it changes.
    Health(Health),
    /// Checksums of the settings of all managers by GUID, reported when they change.
    Configurations(BTreeMap<Guid, String>),
    /// More than `ROWS_MAX` changes waited, and were dropped. The next claim, as the master, writes
    /// the whole state.
    Overflowed,
}

/// State of the shared store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Health {
    /// The shared store is up to date.
    Good,
    /// The shared store answers, but changes wait for longer than `BEHIND`.
    Behind,
    /// The shared store cannot be used, for the given reason.
    Failing(String),
}

/// Rows that wait to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lag {
    /// Number of rows.
    pub rows: usize,
    /// Time for which the oldest row has waited.
    pub oldest: Duration,
}
