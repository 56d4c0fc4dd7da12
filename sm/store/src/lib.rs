//! The store: state that survives a restart.
//!
//! The store is a *cache of claims*: the LIDs that each port holds, the registrations of hosts, and
//! the last generations. Losing the store costs a sweep, never correctness, because the LIDs that
//! ports hold take precedence over those on the disk. However damaged the files are,
//! [`SledStore::open`] ends in one of three ways:
//! * with everything that was committed;
//! * with the last export, and a report of the reason;
//! * with an error that says what the operator must do, and unchanged files.
//!
//! The steps of a commit are:
//! 1. The sidecar, and the export if it is written as a whole, are written under temporary names.
//! 2. The database writes the batch and is flushed.
//! 3. The files get their final names, or the commit is appended to the export.
//!
//! If the process dies or the disk is full between any two steps, the state is that before or after
//! the commit.
//!
//! A commit that is too large for one batch of the database is written to the export first, under a
//! marker with its generation. If a start finds the marker, there are two cases. If the export
//! contains the whole commit, a new database is made from the export. Otherwise neither the export
//! nor the database contains any part of the commit.
//!
//! Input: LID claims and batches of rows, as bytes under the names of tables. Output: the state of
//! the last commit with a report, or an error; for a store shared by several managers, also the
//! epoch. Claims are the only rows that the store interprets.

mod checksum;
mod codec;
mod database;
mod deadline;
mod epoch;
mod error;
pub mod etcd;
mod export;
mod fabric_kind;
#[cfg(test)]
mod fault_tests;
mod file_operation;
mod guard;
pub mod io;
pub mod journal;
mod layout;
mod lock;
mod memory;
mod records;
pub mod replica;
mod report;
mod shared_tables;
mod sidecar;
mod sled_store;
#[cfg(test)]
mod tests;
mod traits;
mod unwritable;

pub use checksum::Checksum;
pub use deadline::Deadline;
pub use epoch::{ClaimCondition, Epoch, SeenEpoch};
pub use error::StoreError;
pub use fabric_kind::StoreFabric;
pub use memory::MemoryStore;
pub use records::{
    Bytes, ChangeError, ChangeSet, NAMESPACE_MAX, Namespace, NamespaceError, Persisted,
    RECORD_KEY_MAX, RECORD_VALUE_MAX,
};
pub use report::{LoadReport, Origin, Quarantined};
pub use shared_tables::{
    CABLING, CLAIMS, FOLLOWED_TABLES, LOCAL_TABLES, last_commit, number_commit,
};
pub use sled_store::SledStore;
pub use traits::{SharedStore, Store};
pub use unwritable::FolderStore;
