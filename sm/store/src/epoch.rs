//! The reign of one master over a store that several managers share.
//!
//! Each transaction compares the revision of the epoch's key, so that the first write of a deposed
//! master fails as a whole. A manager claims the epoch over a master that it finds silent, once the
//! holder has shown no sign of life for three seconds, or after the holder has given it up. Signs
//! of life are changes of a key: no clock of another machine counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rsm_ids::Guid;

use super::{Deadline, Persisted, Store, StoreError};

/// One master's reign. Only its holder may write the shared store, and each of its writes is made
/// on the condition that the reign has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Epoch {
    /// Counts reigns over the store's whole life, from 1.
    pub number: u64,
    /// The GUID that the holder shows in its SMInfo.
    pub holder: Guid,
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {} of {}", self.number, self.holder)
    }
}

/// An epoch as it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeenEpoch {
    /// The epoch.
    pub epoch: Epoch,
    /// Changes with each epoch: a claim is made on the condition that it is still this.
    pub revision: i64,
    /// Changes with each sign of life of the holder.
    pub beat: i64,
    /// The holder has given it up.
    pub is_released: bool,
    /// The number of the last plan that the holder has stored; 0: none.
    pub plan: u64,
}

/// Whether a claim depends on the life of the holder that it deposes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// It does not: the epoch is the claimant's own, was given up, or ends in any case.
    Ignored,
    /// The claim fails if the holder has shown a sign of life since the epoch was seen.
    Counts,
}

/// A store that several managers share; at most one of them, the holder of the epoch, writes.
///
/// [`Store::commit`] fails with [`StoreError::Deposed`] once another manager holds the epoch, and
/// nothing of the batch that failed is in the store.
pub trait SharedStore: Store {
    /// The deadline that calls keep, whichever thread sets it.
    fn deadline(&self) -> Deadline;

    /// The epoch now; `None` if no manager has ever held one.
    ///
    /// # Errors
    /// The store is unreachable, or damaged.
    fn observe(&mut self) -> Result<Option<SeenEpoch>, StoreError>;

    /// Takes the epoch for `holder`, provided that the present one is still `seen`, and, where its
    /// life counts, that its holder has shown no sign of life since. `None` if it is not.
    ///
    /// # Errors
    /// The store is unreachable, or holds data that this version did not write.
    fn claim(
        &mut self,
        holder: Guid,
        seen: Option<SeenEpoch>,
        life: Life,
    ) -> Result<Option<Epoch>, StoreError>;

    /// Shows that the holder lives, and checks that it still holds the epoch.
    ///
    /// # Errors
    /// As [`Store::commit`].
    fn beat(&mut self) -> Result<(), StoreError>;

    /// Shows the checksums of the settings of `own`, which every manager may, and returns those of
    /// all managers.
    ///
    /// # Errors
    /// The store is unreachable, or holds data that rsm did not write.
    fn announce(
        &mut self,
        own: Guid,
        checksums: &str,
    ) -> Result<BTreeMap<Guid, String>, StoreError>;

    /// Gives the epoch up, if this manager holds it, and tells others so if the store answers;
    /// writes no more until the next claim.
    fn release(&mut self);

    /// Reads what another manager has written since the last time, so that a claim has little to
    /// read. Returns the tables with rows that may have changed since the last time.
    ///
    /// # Errors
    /// The store is unreachable, or holds data that this version did not write.
    fn follow(&mut self) -> Result<BTreeSet<String>, StoreError>;

    /// The rows of these tables in the state that the next commit changes.
    fn tables(&self, names: &[&str]) -> Persisted;

    /// The state that the next commit changes.
    fn state(&self) -> Persisted;
}
