//! The snapshot from which the SA answers.

use std::sync::Arc;

use rsm_state::{Role, Snapshot};

use super::directory::Directory;

/// A snapshot indexed for queries. The index of a large subnet takes some milliseconds to build, so
/// a thread other than the SA's may build it.
#[derive(Clone, Debug, Default)]
pub struct SaSnapshot {
    /// Directory of ports; `None` until the first plan is in force.
    pub(super) directory: Option<Arc<Directory>>,
    /// Whether this subnet manager is the master.
    pub(super) is_master: bool,
}

impl SaSnapshot {
    /// Builds the index of `snapshot`; keeps parts of `previous` that have not changed.
    pub fn of(snapshot: &Snapshot, previous: Option<&SaSnapshot>) -> SaSnapshot {
        let previous = previous.and_then(|previous| previous.directory.as_ref());
        SaSnapshot {
            directory: Directory::of(snapshot, previous),
            is_master: snapshot.role == Role::Master,
        }
    }

    /// The directory to answer from; `None` if the SA does not answer, because this manager is not
    /// the master or has no plan.
    pub(super) fn in_force(&self) -> Option<&Arc<Directory>> {
        self.directory.as_ref().filter(|_| self.is_master)
    }

    /// The directory of ports; `None` until the first plan is in force.
    pub fn directory(&self) -> Option<&Arc<Directory>> {
        self.directory.as_ref()
    }

    /// Whether this subnet manager is the master, so that the SA answers.
    pub fn is_master(&self) -> bool {
        self.is_master
    }

    /// Whether both snapshots have the same ports, partitions, policy and mastership. False if
    /// either snapshot has no directory.
    pub(super) fn has_ports_of(&self, other: &SaSnapshot) -> bool {
        match (&self.directory, &other.directory) {
            (Some(mine), Some(theirs)) => {
                Arc::ptr_eq(&mine.fabric, &theirs.fabric)
                    && Arc::ptr_eq(&mine.plan.policy, &theirs.plan.policy)
                    && Arc::ptr_eq(&mine.plan.partitions, &theirs.plan.partitions)
                    && self.is_master == other.is_master
            }
            _ => false,
        }
    }

    /// Computes the MTU and rate limits of all paths ahead of time; otherwise, path queries compute
    /// limits when these are first needed. Takes seconds for thousands of switches with links of
    /// several kinds, and no time if all links are alike. Any thread may call this method while the
    /// SA answers.
    pub fn prepare(&self) {
        if let Some(directory) = &self.directory {
            directory.minima.prepare();
        }
    }
}
