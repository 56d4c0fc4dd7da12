use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rsm_ids::{Guid, Lid, Lmc};
use rsm_model::LidClaim;

/// Maximum length of a namespace in bytes. Each key of the table repeats the namespace.
pub const NAMESPACE_MAX: usize = 32;

/// Maximum length of a generic record's key in bytes. An MGID followed by a port GID takes 32.
pub const RECORD_KEY_MAX: usize = 256;

/// Largest size of a generic record's value in bytes. A service record takes 176 bytes; a row of a
/// GPU inventory takes a few kilobytes. Larger values must be split into several records.
pub const RECORD_VALUE_MAX: usize = 64 * 1024;

/// Key or value of a record. A change shares these bytes with the states to which it is applied,
/// because the records of 45,056 hosts are as large as all other contents of the store.
pub type Bytes = Arc<[u8]>;

/// Name of a table of generic records: 1 to 32 characters of `a-z`, `0-9`, `_` and `-`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Namespace(Arc<str>);

/// Error of a text that cannot name a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a namespace: expected 1 to 32 characters of a-z, 0-9, `_` and `-`")]
pub struct NamespaceError(pub String);

impl Namespace {
    /// Creates a namespace with this name.
    ///
    /// # Errors
    /// Fails if the text cannot name a table.
    pub fn new(name: &str) -> Result<Namespace, NamespaceError> {
        let is_plain =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
        if name.is_empty() || name.len() > NAMESPACE_MAX || !name.bytes().all(is_plain) {
            return Err(NamespaceError(name.to_owned()));
        }
        Ok(Namespace(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Everything that survives a restart.
///
/// The state is a cache: a sweep can read the LIDs of ports again, and these take precedence over
/// the stored ones.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Persisted {
    /// Claims to LIDs, by port GUID.
    pub claims: BTreeMap<Guid, LidClaim>,
    /// Generation of the last plan; the next plan has a higher one.
    pub plan_generation: u64,
    /// Tables of generic records by name; each table has values by key, which the store does not
    /// interpret.
    pub records: BTreeMap<Namespace, BTreeMap<Bytes, Bytes>>,
}

impl Persisted {
    /// Applies `changes`.
    pub fn apply(&mut self, changes: &ChangeSet) {
        for (guid, _) in changes.claims.iter().filter(|(_, claim)| claim.is_none()) {
            self.claims.remove(guid);
        }
        let claims = changes.claims.iter();
        let claims = claims.filter_map(|(&guid, claim)| Some((guid, (*claim)?)));
        put_all(&mut self.claims, claims.collect());
        if let Some(generation) = changes.plan_generation {
            self.plan_generation = generation;
        }
        let mut rows = changes.records.iter().peekable();
        while let Some(((namespace, _), _)) = rows.peek().copied() {
            let of_table = std::iter::from_fn(|| rows.next_if(|((name, _), _)| name == namespace));
            let mut set = Vec::new();
            for ((_, key), value) in of_table {
                match value {
                    Some(value) => set.push((key.clone(), value.clone())),
                    None => self.remove_record(namespace, key),
                }
            }
            if !set.is_empty() {
                let table = self.records.entry(namespace.clone()).or_default();
                put_all(table, set.into_iter().collect());
            }
        }
    }

    /// Removes a record, and the table if it has no other record.
    pub(super) fn remove_record(&mut self, namespace: &Namespace, key: &[u8]) {
        if let Some(table) = self.records.get_mut(namespace) {
            table.remove(key);
            if table.is_empty() {
                self.records.remove(namespace);
            }
        }
    }

    /// The number that [`ChangeSet::set_number`] wrote to the row `key` of the table `table`; 0 if
    /// there is no such row, or if it contains no number.
    pub fn number(&self, table: &str, key: &[u8]) -> u64 {
        let namespace = Namespace::new(table).ok();
        let table = namespace.and_then(|namespace| self.records.get(&namespace));
        let value = table.and_then(|table| table.get(key));
        let bytes = value.and_then(|value| value[..].try_into().ok());
        bytes.map_or(0, u64::from_be_bytes)
    }

    /// Number of claims and generic records.
    pub fn len(&self) -> usize {
        let generic: usize = self.records.values().map(BTreeMap::len).sum();
        self.claims.len() + generic
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Puts `rows` into `table`. If there are at least as many rows as the table has, a new map is
/// built, which takes half the memory of a map that grew row by row.
fn put_all<K: Ord, V>(table: &mut BTreeMap<K, V>, mut rows: BTreeMap<K, V>) {
    if rows.len() < table.len() {
        table.extend(rows);
    } else {
        table.append(&mut rows);
    }
}

/// The changes of one commit. A later change of the same record replaces an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ChangeSet {
    /// New claims by port GUID; `None` to remove a claim.
    pub(super) claims: BTreeMap<Guid, Option<LidClaim>>,
    /// New plan generation; `None` if it does not change.
    pub(super) plan_generation: Option<u64>,
    /// New values of generic records by table and key; `None` to remove a record.
    pub(super) records: BTreeMap<(Namespace, Bytes), Option<Bytes>>,
}

/// Reason why the store cannot hold a change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The claim is not a valid range of unicast LIDs.
    #[error("port {guid} cannot claim LID {lid} with LMC {lmc}: expected aligned unicast LIDs")]
    Claim {
        /// The port.
        guid: Guid,
        /// The base LID of the claim.
        lid: Lid,
        /// LMC of the claim.
        lmc: Lmc,
    },
    /// The key of a generic record is too long.
    #[error("a key of {bytes} bytes in `{namespace}`: expected at most {RECORD_KEY_MAX}")]
    KeyTooLong {
        /// The table.
        namespace: Namespace,
        /// Length of the key in bytes.
        bytes: usize,
    },
    /// The value of a generic record is too long.
    #[error("a value of {bytes} bytes in `{namespace}`: expected at most {RECORD_VALUE_MAX}")]
    ValueTooLong {
        /// The table.
        namespace: Namespace,
        /// Length of the value in bytes.
        bytes: usize,
    },
}

impl ChangeSet {
    /// An empty set of changes.
    pub fn new() -> ChangeSet {
        ChangeSet::default()
    }

    /// Adds the changes of `later`, which override the changes of `self`.
    pub fn merge(&mut self, later: ChangeSet) {
        let ChangeSet {
            claims,
            plan_generation,
            records,
        } = later;
        self.claims.extend(claims);
        self.plan_generation = plan_generation.or(self.plan_generation);
        self.records.extend(records);
    }

    /// The changes without those of the generic tables `tables`.
    #[must_use]
    pub fn without(mut self, tables: &[&str]) -> ChangeSet {
        self.records
            .retain(|(namespace, _), _| !tables.contains(&namespace.as_str()));
        self
    }

    /// The changes that make `state` equal to `wanted`, except in the tables `except`.
    pub fn between(state: &Persisted, wanted: &Persisted, except: &[&str]) -> ChangeSet {
        let mut changes = ChangeSet::new();
        for (&guid, claim) in &wanted.claims {
            if state.claims.get(&guid) != Some(claim) {
                changes.claims.insert(guid, Some(*claim));
            }
        }
        let former = state.claims.keys();
        for &guid in former.filter(|guid| !wanted.claims.contains_key(guid)) {
            changes.claims.insert(guid, None);
        }
        let rows = |state: &Persisted| -> BTreeMap<(Namespace, Bytes), Bytes> {
            let tables = state.records.iter();
            let tables = tables.filter(|(name, _)| !except.contains(&name.as_str()));
            tables
                .flat_map(|(name, table)| {
                    let rows = table.iter();
                    rows.map(|(key, value)| ((name.clone(), key.clone()), value.clone()))
                })
                .collect()
        };
        let (mut before, after) = (rows(state), rows(wanted));
        for (key, value) in after {
            if before.remove(&key).as_ref() != Some(&value) {
                changes.records.insert(key, Some(value));
            }
        }
        let removed = before.into_keys().map(|key| (key, None));
        changes.records.extend(removed);
        if wanted.plan_generation != state.plan_generation {
            changes.plan_generation = Some(wanted.plan_generation);
        }
        changes
    }

    /// Number of changed rows.
    pub fn len(&self) -> usize {
        self.claims.len() + self.records.len()
    }

    /// Whether there are no changes to commit.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.records.is_empty() && self.plan_generation.is_none()
    }

    /// Sets the claim of the port `guid`.
    ///
    /// # Errors
    /// Fails if the GUID is zero or the claim is not valid.
    pub fn set_claim(&mut self, guid: Guid, claim: LidClaim) -> Result<(), ChangeError> {
        if guid.is_zero() || !claim.is_valid() {
            let LidClaim { lid, lmc, .. } = claim;
            return Err(ChangeError::Claim { guid, lid, lmc });
        }
        self.claims.insert(guid, Some(claim));
        Ok(())
    }

    /// Removes the claim of the port `guid`.
    pub fn remove_claim(&mut self, guid: Guid) {
        self.claims.insert(guid, None);
    }

    /// Sets the generation of the plan in force.
    pub fn set_plan_generation(&mut self, generation: u64) {
        self.plan_generation = Some(generation);
    }

    /// Sets a generic record.
    ///
    /// # Errors
    /// Fails if the key or the value is too long.
    pub fn set_record(
        &mut self,
        namespace: &Namespace,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), ChangeError> {
        let namespace = namespace.clone();
        if key.len() > RECORD_KEY_MAX {
            let bytes = key.len();
            return Err(ChangeError::KeyTooLong { namespace, bytes });
        }
        if value.len() > RECORD_VALUE_MAX {
            let bytes = value.len();
            return Err(ChangeError::ValueTooLong { namespace, bytes });
        }
        self.records
            .insert((namespace, key.into()), Some(value.into()));
        Ok(())
    }

    /// Sets the row `key` of the table `table` to a number, big-endian. The names of table and row
    /// are constants that fit the store; logs an error if the key is too long.
    pub fn set_number(&mut self, table: &str, key: &[u8], number: u64) {
        if let Ok(table) = Namespace::new(table)
            && let Err(error) = self.set_record(&table, key, &number.to_be_bytes())
        {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "cannot store a number: its key is too long"
            );
        }
    }

    /// Removes one generic record.
    pub fn remove_record(&mut self, namespace: &Namespace, key: &[u8]) {
        self.records.insert((namespace.clone(), key.into()), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_outside_the_unicast_range_are_refused() {
        let claim = |lid, lmc| LidClaim {
            lid: Lid(lid),
            lmc: Lmc::new(lmc).unwrap(),
            last_seen: 0,
        };
        assert!(claim(1, 0).is_valid());
        assert!(claim(0xBFFF, 0).is_valid());
        assert!(claim(0xBF80, 7).is_valid());
        for bad in [claim(0, 0), claim(0xC000, 0), claim(3, 1), claim(0, 3)] {
            assert!(!bad.is_valid(), "{bad:?}");
            assert!(ChangeSet::new().set_claim(Guid(1), bad).is_err());
        }
        assert!(ChangeSet::new().set_claim(Guid::ZERO, claim(1, 0)).is_err());
    }

    #[test]
    fn records_that_are_too_large_and_invalid_namespaces_are_refused() {
        let table = Namespace::new("services").unwrap();
        let mut changes = ChangeSet::new();
        assert!(
            changes
                .set_record(&table, &[0; RECORD_KEY_MAX + 1], b"")
                .is_err()
        );
        assert!(
            changes
                .set_record(&table, b"", &vec![0; RECORD_VALUE_MAX + 1])
                .is_err()
        );
        assert!(changes.is_empty());
        for name in ["", "Services", "a b", &"x".repeat(33)] {
            assert!(Namespace::new(name).is_err(), "{name}");
        }
    }

    #[test]
    fn numbers_are_read_as_written_and_a_missing_or_invalid_row_is_zero() {
        let mut changes = ChangeSet::new();
        changes.set_number("journal", b"covered", 0x0102);
        let table = Namespace::new("journal").unwrap();
        changes.set_record(&table, b"short", &[1; 7]).unwrap();
        let mut state = Persisted::default();
        state.apply(&changes);
        assert_eq!(
            state.records[&table][&b"covered"[..]][..],
            [0, 0, 0, 0, 0, 0, 1, 2]
        );
        assert_eq!(state.number("journal", b"covered"), 0x0102);
        assert_eq!(state.number("journal", b"short"), 0);
        assert_eq!(state.number("other", b"covered"), 0);
    }

    #[test]
    fn merged_changes_have_the_effect_of_both_in_order() {
        let table = Namespace::new("mcast").unwrap();
        let mut first = ChangeSet::new();
        first.set_record(&table, b"a", b"1").unwrap();
        first.set_record(&table, b"b", b"1").unwrap();
        first.set_plan_generation(3);
        let mut second = ChangeSet::new();
        second.remove_record(&table, b"a");
        second.set_record(&table, b"b", b"2").unwrap();
        let mut one_by_one = Persisted::default();
        one_by_one.apply(&first);
        one_by_one.apply(&second);
        let mut at_once = Persisted::default();
        first.merge(second);
        at_once.apply(&first);
        assert_eq!(at_once, one_by_one);
        assert_eq!(at_once.plan_generation, 3);
    }

    #[test]
    fn changes_between_two_states_turn_one_into_the_other_except_in_excepted_tables() {
        let (table, own) = (
            Namespace::new("mcast").unwrap(),
            Namespace::new("journal").unwrap(),
        );
        let claim = |lid| LidClaim {
            lid: Lid(lid),
            lmc: Lmc::ZERO,
            last_seen: 1,
        };
        let state = |rows: &[(&[u8], &[u8])], claims: &[(u64, u16)], journal: &[u8]| {
            let mut changes = ChangeSet::new();
            for (key, value) in rows {
                changes.set_record(&table, key, value).unwrap();
            }
            for &(guid, lid) in claims {
                changes.set_claim(Guid(guid), claim(lid)).unwrap();
            }
            changes.set_record(&own, b"covered", journal).unwrap();
            changes.set_plan_generation(claims.len() as u64);
            let mut state = Persisted::default();
            state.apply(&changes);
            state
        };
        let mut one = state(&[(b"a", b"1"), (b"b", b"1")], &[(1, 1), (2, 2)], b"7");
        let other = state(&[(b"b", b"2"), (b"c", b"1")], &[(2, 3)], b"9");
        let changes = ChangeSet::between(&one, &other, &["journal"]);
        assert_eq!(changes.len(), 5);
        one.apply(&changes);
        assert_eq!(one, state(&[(b"b", b"2"), (b"c", b"1")], &[(2, 3)], b"7"));
        assert!(ChangeSet::between(&one, &other, &["journal"]).is_empty());
        assert_eq!(ChangeSet::between(&one, &other, &[]).len(), 1);
    }

    #[test]
    fn table_without_records_is_removed() {
        let table = Namespace::new("mcast").unwrap();
        let mut state = Persisted::default();
        let mut changes = ChangeSet::new();
        changes.set_record(&table, b"k", b"v").unwrap();
        state.apply(&changes);
        assert_eq!(state.len(), 1);
        let mut changes = ChangeSet::new();
        changes.remove_record(&table, b"k");
        state.apply(&changes);
        assert_eq!(state, Persisted::default());
    }
}
