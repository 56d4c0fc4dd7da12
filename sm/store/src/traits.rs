//! Stores: one of one machine, and one that several managers share.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::Guid;

use super::deadline::Deadline;
use super::error::StoreError;
use super::records::{ChangeSet, Persisted};
use super::reign::{Epoch, Life, SeenEpoch};
use super::report::LoadReport;

/// Keeps the state that must survive a restart. One task owns it and is the only one to write.
///
/// A batch is a [`ChangeSet`]: rows of tables, each with its new value, and the plan's generation.
/// *Stored* means that it survives what the back end survives when [`Store::commit`] returns: for
/// [`SledStore`](crate::SledStore) the death of the process and of the machine's power, for
/// [`EtcdStore`](crate::etcd::EtcdStore) the loss of fewer than half of etcd's members, for
/// [`MemoryStore`](crate::MemoryStore) nothing. [`Replicated`](crate::Replicated) stores on this machine, and lets a shared store follow.
pub trait Store: Send {
    /// Everything that was committed, and the report of the opening.
    fn load(&mut self) -> Result<(Persisted, LoadReport), StoreError>;

    /// Makes all changes or none; they are durable when it returns.
    ///
    /// # Errors
    ///
    /// After an error the store holds the state before or the state after, and the same changes may
    /// be committed again once the cause is gone. Only a batch that is larger than a transaction of
    /// etcd can be there in part, row by row.
    fn commit(&mut self, changes: &ChangeSet) -> Result<(), StoreError>;

    /// Ends it in good order; afterwards nothing can be committed. Closing twice is fine.
    fn close(&mut self) -> Result<(), StoreError>;
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
