//! A store on this machine that a shared store follows.

use super::replica::ReplicaHandle;
use super::{ChangeSet, LoadReport, Persisted, Store, StoreError};

/// Tables that mean something only beside the journal and the database of this machine.
pub const LOCAL_TABLES: &[&str] = &["journal", "shared-epoch", "local-port", "history-local"];

/// Tables that a manager without the epoch takes over as the holder writes them.
pub const FOLLOWED_TABLES: &[&str] = &[
    CLAIMS,
    "gpu-hosts",
    "gpu-seen",
    "history",
    CABLING,
    "footprints",
    "m-keys",
    "positions",
    "pushing",
];

/// The name of the table of cables among [`FOLLOWED_TABLES`]: the largest one, which changes least.
pub const CABLING: &str = "cabling";

/// The name of the table of LID claims among [`FOLLOWED_TABLES`].
pub const CLAIMS: &str = "claims";

/// Stores on this machine, then hands the batch to the thread that writes the shared store. A
/// commit never waits for the shared store.
pub struct Replicated {
    local: Box<dyn Store>,
    replica: ReplicaHandle,
}

impl Replicated {
    /// `local`, followed by `replica`.
    pub fn new(local: Box<dyn Store>, replica: ReplicaHandle) -> Replicated {
        Replicated { local, replica }
    }
}

impl Store for Replicated {
    fn load(&mut self) -> Result<(Persisted, LoadReport), StoreError> {
        self.local.load()
    }

    fn commit(&mut self, changes: &ChangeSet) -> Result<(), StoreError> {
        // Also while this disk is full: the shared store may have room.
        self.replica.put(changes.clone().without(LOCAL_TABLES));
        self.local.commit(changes)
    }

    fn close(&mut self) -> Result<(), StoreError> {
        let closed = self.local.close();
        self.replica.close();
        closed
    }
}
