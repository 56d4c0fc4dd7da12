//! A manager's claim to a new epoch, and the conditions under which the claim succeeds.

use std::time::Duration;

use rsm_ids::Guid;

use super::{Epoch, Persisted, SILENT, STALE, SeenEpoch, last_commit};

/// A claim to a new epoch.
#[derive(Clone, Debug)]
pub struct Claim {
    /// GUID of this manager.
    pub own: Guid,
    /// The master that no longer answers in the fabric, if any. The claim ends its epoch once this
    /// master has shown no sign of life in the store for [`SILENT`]. The claim ends an epoch of
    /// another holder only after [`STALE`] without a sign of life.
    pub over: Option<Guid>,
    /// Whether the claim ends the epoch of `over` even if `over` shows signs of life.
    pub insists: bool,
    /// State of this machine's own store.
    pub state: Persisted,
    /// Number of the last epoch that this machine held; 0 if it held none. If no other epoch has
    /// followed, `state` is newer than the shared store, unless the shared store has a later
    /// commit.
    pub held_before: u64,
    /// Whether this manager is already master without holding an epoch. Its state then replaces the
    /// content of the shared store.
    pub is_master: bool,
    /// Number of the claim, which [`ReplicaEvent::Granted`](super::ReplicaEvent::Granted) repeats.
    /// A later claim supersedes earlier claims.
    pub number: u64,
}

impl Claim {
    /// Whether the state of this machine is at least as new as `shared`, the state of the shared
    /// store in `epoch`: this manager held the epoch, and its machine has all commits of the epoch.
    /// An `epoch` before the last one of this machine is from an older copy of the shared store.
    pub(super) fn is_ahead_of(&self, epoch: Epoch, shared: &Persisted) -> bool {
        let is_own = epoch.number < self.held_before
            || epoch.holder == self.own && epoch.number == self.held_before;
        is_own && last_commit(&self.state) >= last_commit(shared)
    }

    /// The epoch to succeed, as the store numbers the next one: after `seen`, and after all epochs
    /// of this machine, also if `seen` is from an older copy of the store.
    pub(super) fn over_epoch(&self, seen: SeenEpoch) -> SeenEpoch {
        let number = seen.epoch.number.max(self.held_before);
        let epoch = Epoch {
            number,
            ..seen.epoch
        };
        SeenEpoch { epoch, ..seen }
    }

    /// Time for which the holder of the epoch must have shown no sign of life before the claim
    /// succeeds. `None` if the claim succeeds at once: the epoch is this manager's own, was
    /// released, or is the epoch of `over` and the claim insists.
    pub(super) fn silence(&self, seen: &SeenEpoch) -> Option<Duration> {
        let holder = seen.epoch.holder;
        let is_over = Some(holder) == self.over;
        if holder == self.own || seen.is_released || is_over && self.insists {
            return None;
        }
        Some(if is_over { SILENT } else { STALE })
    }
}
