//! A claim to the epoch.

use std::time::Duration;

use rsm_ids::Guid;

use super::{Epoch, Persisted, SILENT, STALE, SeenEpoch, last_commit};

/// Why a manager claims the epoch.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The GUID of this manager.
    pub own: Guid,
    /// The master that no longer answers, whose epoch ends with this claim if it has shown no sign
    /// of life for [`SILENT`] either. Without one, only an epoch ends whose holder has shown none
    /// for [`STALE`].
    pub over: Option<Guid>,
    /// The epoch of `over` ends whether or not it shows signs of life.
    pub insists: bool,
    /// The state of this machine.
    pub state: Persisted,
    /// The number of the last epoch that this machine held; 0: none. If it is still the last one,
    /// `state` is newer than the shared store, unless that has a later commit.
    pub held_before: u64,
    /// This manager is master already, without the epoch: its state counts, whatever the store has.
    pub is_master: bool,
    /// Comes back with [`ReplicaEvent::Granted`](super::ReplicaEvent::Granted); a later claim
    /// supersedes an earlier one.
    pub number: u64,
}

impl Claim {
    /// Whether the state of this machine is newer than that of the shared store, which `epoch` has
    /// written: this manager held it last, and its machine has all commits of that time.
    pub(super) fn is_ahead_of(&self, epoch: Epoch, shared: &Persisted) -> bool {
        let is_own = epoch.holder == self.own && epoch.number == self.held_before;
        is_own && last_commit(&self.state) >= last_commit(shared)
    }

    /// How long the holder of the epoch must have shown no sign of life; `None`: it may live, as the
    /// epoch is this manager's, was given up, or ends in any case.
    pub(super) fn silence(&self, seen: &SeenEpoch) -> Option<Duration> {
        let holder = seen.epoch.holder;
        let is_over = Some(holder) == self.over;
        if holder == self.own || seen.is_released || is_over && self.insists {
            return None;
        }
        Some(if is_over { SILENT } else { STALE })
    }
}
