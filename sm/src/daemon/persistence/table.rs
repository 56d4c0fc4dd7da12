//! Reads and writes tables of the store. Writing compares the rows in the store with the wanted
//! rows, and changes only those that differ.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeInclusive};

use rsm_store::journal::RowChange;
use rsm_store::{Bytes, ChangeSet, Namespace, Persisted};

/// Rows of a table: key → value.
pub(super) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Change that writes a row of the table `name`; `None` if the name is invalid.
pub(super) fn set(name: &'static str, key: Vec<u8>, value: Vec<u8>) -> Option<RowChange> {
    let table = Namespace::new(name).ok()?;
    Some(RowChange::Set { table, key, value })
}

/// Change that removes the rows of the table `name` whose keys begin with `prefix`; `None` if the
/// name is invalid.
pub(super) fn clear(name: &'static str, prefix: Vec<u8>) -> Option<RowChange> {
    let table = Namespace::new(name).ok()?;
    Some(RowChange::Clear { table, prefix })
}

/// Decoded rows of the table `name`. Logs and skips invalid rows.
pub(super) fn read<T>(
    persisted: &Persisted,
    name: &'static str,
    mut decode: impl FnMut(&[u8], &[u8]) -> Option<T>,
) -> Vec<T> {
    let mut rows = Vec::new();
    for (key, value) in rows_of(persisted, name) {
        match decode(key, value) {
            Some(row) => rows.push(row),
            None => tracing::warn!(
                key = hex::encode(key),
                value = hex::encode(value),
                "a record of {name} is not readable; left out"
            ),
        }
    }
    rows
}

/// Adds the changes after which the table `name` holds exactly the rows of `wanted`, which are in
/// ascending order of their keys.
pub(super) fn replace<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    persisted: &Persisted,
    name: &'static str,
    wanted: impl IntoIterator<Item = (K, V)>,
    changes: &mut ChangeSet,
) {
    replace_readable(persisted, name, wanted, |_, _| true, changes);
}

/// Adds the changes after which the table `name` holds the rows of `wanted`, which are in ascending
/// order of their keys. Other rows are removed if they are readable. Unreadable rows stay, because
/// a later version may have written them.
pub(super) fn replace_readable<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    persisted: &Persisted,
    name: &'static str,
    wanted: impl IntoIterator<Item = (K, V)>,
    is_readable: impl Fn(&[u8], &[u8]) -> bool,
    changes: &mut ChangeSet,
) {
    let Ok(namespace) = Namespace::new(name) else {
        return;
    };
    let known = persisted.records.get(&namespace);
    let mut known = known.into_iter().flatten().peekable();
    let mut last: Option<K> = None;
    for (key, value) in wanted {
        let bytes = key.as_ref();
        debug_assert!(last.is_none_or(|last| last.as_ref() < bytes), "{name}");
        while let Some((unwanted, value)) = known.next_if(|(held, _)| held[..] < *bytes) {
            if is_readable(unwanted, value) {
                changes.remove_record(&namespace, unwanted);
            }
        }
        let held = known.next_if(|(held, _)| held[..] == *bytes);
        let held = held.map(|(_, value)| value);
        write(&namespace, held, bytes, value.as_ref(), changes);
        last = Some(key);
    }
    for (unwanted, value) in known {
        if is_readable(unwanted, value) {
            changes.remove_record(&namespace, unwanted);
        }
    }
}

/// Adds the change after which a row of the table `name` has this value; `None` removes the row.
pub(super) fn put(
    persisted: &Persisted,
    name: &'static str,
    key: &[u8],
    value: Option<&[u8]>,
    changes: &mut ChangeSet,
) {
    let Ok(namespace) = Namespace::new(name) else {
        return;
    };
    let known = persisted.records.get(&namespace);
    let held = known.and_then(|known| known.get(key));
    match value {
        Some(value) => write(&namespace, held, key, value, changes),
        None if held.is_some() => changes.remove_record(&namespace, key),
        None => {}
    }
}

/// Adds the changes that remove the rows of the table `name` with these keys.
pub(super) fn remove_range(
    persisted: &Persisted,
    name: &'static str,
    keys: RangeInclusive<Vec<u8>>,
    changes: &mut ChangeSet,
) {
    let Ok(namespace) = Namespace::new(name) else {
        return;
    };
    let known = persisted.records.get(&namespace).into_iter();
    let (first, last) = (keys.start().as_slice(), keys.end().as_slice());
    let range = (Bound::Included(first), Bound::Included(last));
    for (key, _) in known.flat_map(|known| known.range::<[u8], _>(range)) {
        changes.remove_record(&namespace, key);
    }
}

/// Adds the change after which a row has `value`, unless it already `held` this value.
fn write(
    namespace: &Namespace,
    held: Option<&Bytes>,
    key: &[u8],
    value: &[u8],
    changes: &mut ChangeSet,
) {
    let is_held = held.is_some_and(|held| **held == *value);
    if !is_held && let Err(error) = changes.set_record(namespace, key, value) {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "cannot store a row of {namespace}"
        );
    }
}

/// Appends the length of a text (2 bytes, big-endian) and the text. A text above 65,535 bytes is
/// cut after the last character that fits.
pub(super) fn write_text(text: &str, value: &mut Vec<u8>) {
    let text = cut(text, usize::from(u16::MAX));
    value.extend((text.len() as u16).to_be_bytes());
    value.extend(text.as_bytes());
}

/// The text up to the last character that fits into `most` bytes.
pub(super) fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Reads a text after its length (2 bytes, big-endian). Returns the text and the bytes behind it;
/// `None` if the bytes are too short or not UTF-8.
pub(super) fn read_text(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (text, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    Some((String::from_utf8(text.to_vec()).ok()?, rest))
}

/// Rows of the table `name`.
pub(super) fn rows_of<'a>(
    persisted: &'a Persisted,
    name: &str,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
    let namespace = Namespace::new(name).ok();
    let table = namespace.and_then(|namespace| persisted.records.get(&namespace));
    let rows = table.into_iter().flatten();
    rows.map(|(key, value)| (&key[..], &value[..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_two_characters() {
        let mut value = Vec::new();
        write_text(&format!("a{}", "\u{e9}".repeat(40_000)), &mut value);
        let (text, rest) = read_text(&value).unwrap();
        assert_eq!((text.len(), rest.len()), (65_535, 0));
        value.clear();
        write_text(&"\u{e9}".repeat(40_000), &mut value);
        let (text, _) = read_text(&value).unwrap();
        assert_eq!(text.len(), 65_534);
    }
}
