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

mod checksum;
mod codec;
mod database;
mod error;
mod export;
mod guard;
pub mod io;
pub mod journal;
mod layout;
mod lock;
mod memory;
mod records;
mod report;
mod sidecar;
mod sled_store;
#[cfg(test)]
mod tests;

pub use checksum::Checksum;
pub use error::StoreError;
pub use memory::MemoryStore;
pub use records::{
    ChangeError, ChangeSet, LidClaim, NAMESPACE_MAX, Namespace, NamespaceError, Persisted,
    RECORD_KEY_MAX, RECORD_VALUE_MAX,
};
pub use report::{LoadReport, Origin, Quarantined};
pub use sled_store::SledStore;

/// Keeps the state that must survive a restart. One task owns it and is the only one to write.
pub trait Store: Send {
    /// Everything that was committed, and the report of the opening.
    fn load(&mut self) -> Result<(Persisted, LoadReport), StoreError>;

    /// Makes all changes or none; they are durable when it returns.
    ///
    /// # Errors
    ///
    /// After an error the disk holds the state before or the state after, never a mixture, and the
    /// same changes may be committed again once the cause is gone.
    fn commit(&mut self, changes: &ChangeSet) -> Result<(), StoreError>;

    /// Ends it in good order; afterwards nothing can be committed. Closing twice is fine.
    fn close(&mut self) -> Result<(), StoreError>;
}
