//! Stores alias GUIDs, keyed by port GUID and index.

use rsm_ids::Guid;
use rsm_model::alias_guids::AliasGuids;
use rsm_store::journal::RowChange;
use rsm_store::{ChangeSet, Persisted};

use super::table;

/// Table of alias GUIDs.
const GUIDS: &str = "alias-guids";

/// Alias GUIDs in the store. Logs and skips invalid rows.
pub(super) fn restored(persisted: &Persisted) -> AliasGuids {
    let mut guids = AliasGuids::default();
    for (port, index, alias) in table::read(persisted, GUIDS, decode) {
        guids.by_port.entry(port).or_default().insert(index, alias);
    }
    guids
}

/// Adds the changes after which `persisted` holds these alias GUIDs.
pub(super) fn changes(persisted: &Persisted, guids: &AliasGuids, changes: &mut ChangeSet) {
    let rows = guids.by_port.iter().flat_map(|(port, aliases)| {
        aliases
            .iter()
            .map(|(&index, alias)| (key(*port, index), alias.0.to_be_bytes().to_vec()))
    });
    table::replace(persisted, GUIDS, rows, changes);
}

/// Rows of all alias GUIDs of a port.
pub(super) fn rows(guids: &AliasGuids, port: Guid) -> Vec<RowChange> {
    let aliases = guids.by_port.get(&port).into_iter().flatten();
    let rows = aliases
        .map(|(&index, alias)| table::set(GUIDS, key(port, index), alias.0.to_be_bytes().to_vec()));
    let gone = table::clear(GUIDS, port.0.to_be_bytes().to_vec());
    std::iter::once(gone).chain(rows).flatten().collect()
}

/// Key of an alias GUID.
fn key(port: Guid, index: u8) -> Vec<u8> {
    [&port.0.to_be_bytes()[..], &[index]].concat()
}

/// Decodes a row as port GUID, index and alias GUID; `None` if the row is invalid.
fn decode(key: &[u8], value: &[u8]) -> Option<(Guid, u8, Guid)> {
    let (port, index) = key.split_first_chunk()?;
    let &[index] = index else { return None };
    let alias = value.try_into().ok()?;
    let guid = |bytes| Guid(u64::from_be_bytes(bytes));
    Some((guid(*port), index, guid(alias)))
}

#[cfg(test)]
mod tests {
    use rsm_store::Namespace;

    use super::*;

    #[test]
    fn stored_alias_guids_are_restored_without_invalid_records() {
        let mut guids = AliasGuids::default();
        for (port, index, alias) in [(1, 1, 11), (1, 254, 12), (2, 8, 13)] {
            let aliases = guids.by_port.entry(Guid(port)).or_default();
            aliases.insert(index, Guid(alias));
        }
        let mut persisted = Persisted::default();
        let change = |persisted: &Persisted, guids: &AliasGuids| {
            let mut set = ChangeSet::new();
            changes(persisted, guids, &mut set);
            set
        };
        persisted.apply(&change(&persisted, &guids));
        assert_eq!(persisted.len(), 3);
        assert_eq!(restored(&persisted), guids);
        assert!(change(&persisted, &guids).is_empty());
        let mut broken = ChangeSet::new();
        let namespace = Namespace::new(GUIDS).unwrap();
        for length in [0, 8, 10] {
            broken
                .set_record(&namespace, &vec![0; length], &[0; 8])
                .unwrap();
        }
        for (index, length) in [(1, 0), (2, 7), (3, 9)] {
            let key = [0, 0, 0, 0, 0, 0, 0, 9, index];
            broken
                .set_record(&namespace, &key, &vec![0; length])
                .unwrap();
        }
        persisted.apply(&broken);
        assert_eq!(restored(&persisted), guids);
    }
}
