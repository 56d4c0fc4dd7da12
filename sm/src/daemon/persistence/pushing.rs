//! Stores whether the master was writing hardware, for managers that share the store.

use rsm_store::{ChangeSet, Persisted};

use super::table::{self, Rows};

/// Table that has one row while hardware is being written, and none otherwise.
const PUSHING: &str = "pushing";

/// Key of the row, whose value is empty.
const KEY: &[u8] = b"now";

/// Whether the master was writing hardware when it stored `persisted`.
pub(super) fn restored(persisted: &Persisted) -> bool {
    !table::read(persisted, PUSHING, |_, _| Some(())).is_empty()
}

/// Adds the changes after which `persisted` holds `is_pushing`.
pub(super) fn changes(persisted: &Persisted, is_pushing: bool, changes: &mut ChangeSet) {
    let mut rows = Rows::new();
    if is_pushing {
        rows.insert(KEY.to_vec(), Vec::new());
    }
    table::replace(persisted, PUSHING, &rows, changes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_is_stored_until_it_ends_and_an_unchanged_state_writes_nothing() {
        let mut persisted = Persisted::default();
        assert!(!restored(&persisted));
        for is_pushing in [true, false] {
            let mut set = ChangeSet::new();
            changes(&persisted, is_pushing, &mut set);
            assert!(!set.is_empty());
            persisted.apply(&set);
            assert_eq!(restored(&persisted), is_pushing);
            let mut again = ChangeSet::new();
            changes(&persisted, is_pushing, &mut again);
            assert!(again.is_empty());
        }
    }
}
