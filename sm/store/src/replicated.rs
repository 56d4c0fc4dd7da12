//! The store of this machine, with a shared store that follows it.
//!
//! No answer to a host waits for the shared store. After an outage, the shared store gets the last
//! value of each changed row.

use super::replica::ReplicaHandle;
use super::shared_tables::LOCAL_TABLES;
use super::{ChangeSet, LoadReport, Persisted, Store, StoreError};

/// Commits on this machine, then passes the batch to the thread that writes the shared store. A
/// commit never waits for the shared store.
pub struct Replicated {
    local: Box<dyn Store>,
    replica: ReplicaHandle,
}

impl Replicated {
    /// Combines `local` with the shared store behind `replica`.
    pub fn new(local: Box<dyn Store>, replica: ReplicaHandle) -> Replicated {
        Replicated { local, replica }
    }
}

impl Store for Replicated {
    fn load(&mut self) -> Result<(Persisted, LoadReport), StoreError> {
        self.local.load()
    }

    fn commit(&mut self, changes: &ChangeSet) -> Result<(), StoreError> {
        // The batch is passed on even if this disk is full: the shared store may have room.
        self.replica.put(changes.clone().without(LOCAL_TABLES));
        self.local.commit(changes)
    }

    fn close(&mut self) -> Result<(), StoreError> {
        let closed = self.local.close();
        self.replica.close();
        closed
    }
}
