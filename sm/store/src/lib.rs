//! State that survives a restart.
//!
//! The store is a *cache of claims*: which port holds which LIDs, what hosts have registered, how
//! far the generations have counted. Losing it costs a sweep, never correctness, because the LIDs
//! that ports hold win over those on disk. However damaged the files are, [`SledStore::open`] ends
//! in one of three ways: with everything that was committed; with the last export and a report of
//! the reason; or with an error that tells the operator what to do, and nothing touched. It never
//! ends in silence with less than was there.
//!
//! Order of a commit: a whole export and the sidecar are written under temporary names, then the
//! database takes the batch and is flushed, then the names are made final, or the commit is
//! appended to the export. A process that dies, or a disk that is full, between any two steps
//! leaves the state before or the state after.
//!
//! A commit that is too large for one batch of the database goes into the export first, under a
//! marker with its generation. Where the marker is found at a start, the export has either all of
//! the commit, and a new database is made from it, or nothing of it, and neither has the database.
//!
//! In: LID claims and batches of rows, as bytes under the names of tables. Out: what the last
//! commit held, with a report of its state, or an error; of a store that managers share also the
//! epoch. Claims are the only rows whose meaning the store knows.

mod checksum;
mod codec;
mod database;
mod deadline;
mod epoch;
mod error;
pub mod etcd;
mod export;
mod fabric;
#[cfg(test)]
mod fault_tests;
mod folder;
mod guard;
pub mod io;
pub mod journal;
mod layout;
mod lock;
mod memory;
mod records;
pub mod replica;
mod replicated;
mod report;
mod sidecar;
mod sled_store;
#[cfg(test)]
mod tests;

pub use checksum::Checksum;
pub use deadline::Deadline;
pub use epoch::{Epoch, Life, SeenEpoch, SharedStore};
pub use error::StoreError;
pub use fabric::StoreFabric;
pub use folder::FolderStore;
pub use memory::MemoryStore;
pub use records::{
    Bytes, ChangeError, ChangeSet, NAMESPACE_MAX, Namespace, NamespaceError, Persisted,
    RECORD_KEY_MAX, RECORD_VALUE_MAX,
};
pub use replicated::{
    CABLING, CLAIMS, FOLLOWED_TABLES, LOCAL_TABLES, Replicated, last_commit, number_commit,
};
pub use report::{LoadReport, Origin, Quarantined};
pub use sled_store::SledStore;

/// Keeps the state that must survive a restart. One task owns it and is the only one to write.
///
/// A batch is a [`ChangeSet`]: rows of tables, each with its new value, and the plan's generation.
/// *Stored* means that it survives what the back end survives when [`Store::commit`] returns: for
/// [`SledStore`] the death of the process and of the machine's power, for
/// [`EtcdStore`](etcd::EtcdStore) the loss of fewer than half of etcd's members, for
/// [`MemoryStore`] nothing. [`Replicated`] stores on this machine, and lets a shared store follow.
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
