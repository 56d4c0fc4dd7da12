//! A table of the store, as subnet administration uses it: rows that are written and removed as a whole differs.

use std::collections::BTreeMap;

use crate::store::journal::RowChange;
use crate::store::{ChangeSet, Namespace, Persisted};

/// What a table is to hold: values by key.
pub(super) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A row of the table `name` that is written.
pub(super) fn set(name: &'static str, key: Vec<u8>, value: Vec<u8>) -> Option<RowChange> {
    let table = Namespace::new(name).ok()?;
    Some(RowChange::Set { table, key, value })
}

/// Rows of the table `name` that are removed: those whose keys begin with `prefix`.
pub(super) fn clear(name: &'static str, prefix: Vec<u8>) -> Option<RowChange> {
    let table = Namespace::new(name).ok()?;
    Some(RowChange::Clear { table, prefix })
}

/// The rows of the table `name`, decoded. What cannot be read is left out, and said.
pub(super) fn read<T>(
    persisted: &Persisted,
    name: &'static str,
    mut decode: impl FnMut(&[u8], &[u8]) -> Option<T>,
) -> Vec<T> {
    let mut rows = Vec::new();
    for (key, value) in held(persisted, name) {
        match decode(key, value) {
            Some(row) => rows.push(row),
            None => tracing::warn!(?key, ?value, "a record of {name} is not readable; left out"),
        }
    }
    rows
}

/// Adds what has to be written so that the table `name` holds `wanted`, and nothing else.
pub(super) fn replace(
    persisted: &Persisted,
    name: &'static str,
    wanted: &Rows,
    changes: &mut ChangeSet,
) {
    let Ok(namespace) = Namespace::new(name) else {
        return;
    };
    for (key, _) in held(persisted, name).filter(|(key, _)| !wanted.contains_key(*key)) {
        changes.remove_record(&namespace, key);
    }
    let known = persisted.records.get(&namespace);
    for (key, value) in wanted {
        let same = known.is_some_and(|known| known.get(key) == Some(value));
        if !same && let Err(error) = changes.set_record(&namespace, key, value) {
            tracing::error!(error = &error as &dyn std::error::Error, "cannot remember");
        }
    }
}

fn held<'a>(
    persisted: &'a Persisted,
    name: &str,
) -> impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)> + use<'a> {
    let namespace = Namespace::new(name).ok();
    let table = namespace.and_then(|namespace| persisted.records.get(&namespace));
    table.into_iter().flatten()
}
