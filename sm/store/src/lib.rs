//! The store: state that survives a restart.
//!
//! The store is a *cache of claims*: the LIDs that each port holds, the registrations of hosts, and
//! the last generations. Losing it costs a sweep, never correctness, because the LIDs that ports
//! hold win over those on disk. However damaged the files are, [`SledStore::open`] ends in one of
//! three ways: with everything that was committed; with the last export and a report of the reason;
//! or with an error that tells the operator what to do, and unchanged files. It never returns less
//! than was committed without a report.
//!
//! A commit has this order: a whole export and the sidecar are written under temporary names, then
//! the database takes the batch and is flushed, then the files get their final names, or the commit
//! is appended to the export. If the process dies or the disk fills up between any two steps, the
//! state is that before or after the commit.
//!
//! A commit that is too large for one batch of the database first goes into the export, under a
//! marker with its generation. If a start finds the marker, either the export has the whole commit,
//! and a new database is made from it; or the export has nothing of it, and neither has the
//! database.
//!
//! Input: LID claims and batches of rows, as bytes under the names of tables. Output: the state of
//! the last commit with a report, or an error; for a store shared by several managers, also the
//! epoch. Claims are the only rows that the store interprets.

mod checksum;
mod codec;
mod database;
mod deadline;
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
mod operation;
mod records;
mod reign;
pub mod replica;
mod replicated;
mod report;
mod shared_tables;
mod sidecar;
mod sled_store;
#[cfg(test)]
mod tests;
mod traits;

pub use checksum::Checksum;
pub use deadline::Deadline;
pub use error::StoreError;
pub use fabric::StoreFabric;
pub use folder::FolderStore;
pub use memory::MemoryStore;
pub use records::{
    Bytes, ChangeError, ChangeSet, NAMESPACE_MAX, Namespace, NamespaceError, Persisted,
    RECORD_KEY_MAX, RECORD_VALUE_MAX,
};
pub use reign::{Epoch, Life, SeenEpoch};
pub use replicated::Replicated;
pub use report::{LoadReport, Origin, Quarantined};
pub use shared_tables::{
    CABLING, CLAIMS, FOLLOWED_TABLES, LOCAL_TABLES, last_commit, number_commit,
};
pub use sled_store::SledStore;
pub use traits::{SharedStore, Store};
