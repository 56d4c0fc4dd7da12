//! A manager's claim to the epoch.

use std::time::Duration;

use rsm_ids::Guid;

use super::{Epoch, Persisted, SILENT, STALE, SeenEpoch, last_commit};

/// A claim to the epoch, with its conditions.
#[derive(Clone, Debug)]
pub struct Claim {
    /// GUID of this manager.
    pub own: Guid,
    /// The master that no longer answers in the fabric. The claim ends this master's epoch if the
    /// master has also shown no sign of life in the store for [`SILENT`]. If `None`, the claim ends
    /// an epoch only if the holder has shown no sign of life for [`STALE`].
    pub over: Option<Guid>,
    /// Whether the epoch of `over` ends even if `over` shows signs of life.
    pub insists: bool,
    /// State in the store of this machine.
    pub state: Persisted,
    /// Number of the last epoch that this machine held; 0 if it held none. If no other epoch
    /// followed, `state` is newer than the shared store unless that store has a later commit.
    pub held_before: u64,
    /// Whether this manager is already master, without the epoch. Its state then replaces the
    /// content of the shared store.
    pub is_master: bool,
    /// Number of the claim, which [`ReplicaEvent::Granted`](super::ReplicaEvent::Granted) returns.
    /// A later claim supersedes earlier ones.
    pub number: u64,
}

impl Claim {
    /// Whether the state of this machine is newer than `shared`, the state of the shared store in
    /// `epoch`: this manager held that epoch, and its machine has all commits of the epoch.
    pub(super) fn is_ahead_of(&self, epoch: Epoch, shared: &Persisted) -> bool {
        let is_own = epoch.holder == self.own && epoch.number == self.held_before;
        is_own && last_commit(&self.state) >= last_commit(shared)
    }

    /// Time for which the holder of the epoch must have shown no sign of life. `None` if the claim
    /// succeeds even if the holder is alive: the epoch is this manager's own, was released, or is
    /// ended by a claim that insists.
    pub(super) fn silence(&self, seen: &SeenEpoch) -> Option<Duration> {
        let holder = seen.epoch.holder;
        let is_over = Some(holder) == self.over;
        if holder == self.own || seen.is_released || is_over && self.insists {
            return None;
        }
        Some(if is_over { SILENT } else { STALE })
    }
}
