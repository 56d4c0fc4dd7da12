//! The tables of a store that another one follows, and the number of its last commit.

use super::records::{ChangeSet, Namespace, Persisted};

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

/// The table with the number of the last commit that was handed to the shared store.
const COMMITS: &str = "shared-commits";

/// The table's only row: a number, big-endian.
const LAST: &[u8] = b"last";

/// The number of the last commit in `state`; 0: none. Both the store of a machine and the shared
/// store have it, so that a machine whose disk failed, or lost what was flushed, finds that the
/// shared store is ahead of it.
pub fn last_commit(state: &Persisted) -> u64 {
    let table = Namespace::new(COMMITS).ok();
    let table = table.and_then(|table| state.records.get(&table));
    let value = table.and_then(|table| table.get(LAST));
    let bytes = value.and_then(|value| value[..].try_into().ok());
    bytes.map_or(0, u64::from_be_bytes)
}

/// Gives the commit of `changes` the number after the last one in `state`, in both.
pub fn number_commit(state: &mut Persisted, changes: &mut ChangeSet) {
    let number = last_commit(state) + 1;
    let mut numbered = ChangeSet::new();
    if let Ok(table) = Namespace::new(COMMITS)
        && let Err(error) = numbered.set_record(&table, LAST, &number.to_be_bytes())
    {
        tracing::error!(error = &error as &dyn std::error::Error, "cannot remember");
    }
    state.apply(&numbered);
    changes.merge(numbered);
}
