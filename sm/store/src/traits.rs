//! The interfaces of a store of one machine ([`Store`]), and of a store that several managers share
//! ([`SharedStore`]).

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::Guid;

use super::deadline::Deadline;
use super::epoch::{ClaimCondition, Epoch, SeenEpoch};
use super::error::StoreError;
use super::records::{ChangeSet, Persisted};
use super::report::LoadReport;

/// Keeps the state that must survive a restart. One task owns the store, and only that task writes.
///
/// A batch is a [`ChangeSet`]: rows of tables, each with its new value, and the plan's generation.
/// The back end decides what a batch survives after [`Store::commit`] has returned:
/// * [`SledStore`](crate::SledStore): the end of the process, and a power failure of the machine.
/// * [`EtcdStore`](crate::etcd::EtcdStore): the loss of fewer than half of etcd's members.
/// * [`MemoryStore`](crate::MemoryStore): nothing.
pub trait Store: Send {
    /// Returns everything that was committed, and the report of the opening.
    fn load(&mut self) -> Result<(Persisted, LoadReport), StoreError>;

    /// Makes all changes or none. The changes are durable when the method returns.
    ///
    /// # Errors
    /// After an error, the store has the state before or after the commit, and the caller may
    /// commit the same changes again once the cause is gone. Only if a batch is larger than a
    /// transaction of etcd can the store have some of its rows and not others.
    fn commit(&mut self, changes: &ChangeSet) -> Result<(), StoreError>;

    /// Closes the store properly; later commits fail. A second call is no error.
    fn close(&mut self) -> Result<(), StoreError>;
}

/// A store shared by several managers. At most one of them, the holder of the epoch, writes.
///
/// [`Store::commit`] fails with [`StoreError::Deposed`] once another manager holds the epoch, and
/// writes nothing of the batch.
pub trait SharedStore: Store {
    /// The deadline of this store's calls, which any thread may set.
    fn deadline(&self) -> Deadline;

    /// Reads the present epoch; `None` if no manager has ever held one.
    ///
    /// # Errors
    /// Fails if the store is unreachable or damaged.
    fn observe(&mut self) -> Result<Option<SeenEpoch>, StoreError>;

    /// Claims the epoch for `holder`, provided that the present epoch is still `seen` and, if
    /// `condition` is [`ClaimCondition::HolderSilent`], that its holder has shown no sign of life
    /// since `seen`. Returns the new epoch; `None` if one of these conditions is not met.
    ///
    /// # Errors
    /// Fails if the store is unreachable, or holds data that this version did not write.
    fn claim(
        &mut self,
        holder: Guid,
        seen: Option<SeenEpoch>,
        condition: ClaimCondition,
    ) -> Result<Option<Epoch>, StoreError>;

    /// Shows a sign of life of the holder, and checks that this manager still holds the epoch.
    ///
    /// # Errors
    /// Fails as [`Store::commit`] does.
    fn beat(&mut self) -> Result<(), StoreError>;

    /// Writes the checksums of the settings of `own`, which requires no epoch, and returns the
    /// checksums of all managers.
    ///
    /// # Errors
    /// Fails if the store is unreachable, or holds data that rsm did not write.
    fn announce(
        &mut self,
        own: Guid,
        checksums: &str,
    ) -> Result<BTreeMap<Guid, String>, StoreError>;

    /// Releases the epoch, if this manager holds it, and records the release in the store if the
    /// store answers. No write follows until the next claim.
    fn release(&mut self);

    /// Reads the rows that another manager has written since the last call, so that a claim has
    /// little left to read. Returns the tables whose rows may have changed.
    ///
    /// # Errors
    /// Fails if the store is unreachable, or holds data that this version did not write.
    fn follow(&mut self) -> Result<BTreeSet<String>, StoreError>;

    /// The rows of these tables in the last state read or written, which the next commit changes.
    fn tables(&self, names: &[&str]) -> Persisted;

    /// The last state read or written, which the next commit changes.
    fn state(&self) -> Persisted;
}
