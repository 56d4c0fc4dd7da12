//! What questions are answered from.

use std::sync::Arc;

use super::directory::Directory;
use crate::core::role::Role;
use crate::core::snapshot::Snapshot;

/// What is answered from: a snapshot, arranged. Making it takes some milliseconds for a large
/// subnet, which is why it can be made elsewhere than where questions are answered.
#[derive(Clone, Debug, Default)]
pub struct SaSnapshot {
    /// `None` until the first plan is in force.
    pub(super) directory: Option<Arc<Directory>>,
    pub(super) is_master: bool,
}

impl SaSnapshot {
    /// What `snapshot` says; parts of `previous` are kept where nothing has changed.
    pub fn of(snapshot: &Snapshot, previous: Option<&SaSnapshot>) -> SaSnapshot {
        let previous = previous.and_then(|previous| previous.directory.as_ref());
        SaSnapshot {
            directory: Directory::of(snapshot, previous),
            is_master: snapshot.role == Role::Master,
        }
    }

    /// What questions are answered from; `None` while they are not.
    pub(super) fn in_force(&self) -> Option<&Arc<Directory>> {
        self.directory.as_ref().filter(|_| self.is_master)
    }

    /// Who is where; `None` until the first plan is in force.
    pub fn directory(&self) -> Option<&Arc<Directory>> {
        self.directory.as_ref()
    }

    /// Whether this subnet manager is the master, so that hosts are answered.
    pub fn is_master(&self) -> bool {
        self.is_master
    }

    /// Whether ports, partitions and what the operator decides are the same.
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

    /// Computes ahead of time what questions for paths would else compute bit by bit. Takes seconds
    /// for thousands of switches with links of several kinds, and nothing where all are alike; for
    /// any thread, while questions are answered.
    pub fn prepare(&self) {
        if let Some(directory) = &self.directory {
            directory.minima.prepare();
        }
    }
}
