//! Names of the tables that the shared store handles specially, and the number of the last commit.

use super::records::{ChangeSet, Persisted};

/// Tables that are valid only with the journal and the database of this machine.
pub const LOCAL_TABLES: &[&str] = &["journal", "shared-epoch", "local-port", "history-local"];

/// Tables that a manager without the epoch reads while the holder writes them.
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

/// Name of the table of cables, the largest of the [`FOLLOWED_TABLES`] and the one that changes
/// most rarely.
pub const CABLING: &str = "cabling";

/// Name of the table of LID claims among [`FOLLOWED_TABLES`].
pub const CLAIMS: &str = "claims";

/// Name of the table with the number of the last commit that was passed to the shared store.
const COMMITS: &str = "shared-commits";

/// Key of the only row of [`COMMITS`], whose value is a big-endian number.
const LAST: &[u8] = b"last";

/// Number of the last commit in `state`; 0 if there is none. The store of a machine and the shared
/// store both contain this number, so that a machine whose disk lost commits finds that the shared
/// store is ahead.
pub fn last_commit(state: &Persisted) -> u64 {
    state.number(COMMITS, LAST)
}

/// Numbers the commit of `changes`: writes the number after that of the last commit to `state` and
/// to `changes`.
pub fn number_commit(state: &mut Persisted, changes: &mut ChangeSet) {
    let mut numbered = ChangeSet::new();
    numbered.set_number(COMMITS, LAST, last_commit(state) + 1);
    state.apply(&numbered);
    changes.merge(numbered);
}
