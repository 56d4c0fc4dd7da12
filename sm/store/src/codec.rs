//! The encoding of records in the database.
//!
//! A key consists of one byte that names the table, followed by the key of the record. Numbers in
//! it are big-endian, so that the database sorts by number. A value is
//!
//! ```text
//! ┌─────────┬──────────────┬─────────────────────────────────┐
//! │ version │ payload …    │ checksum of key, version, payload│
//! │ 1 byte  │              │ 8 bytes, big-endian              │
//! └─────────┴──────────────┴─────────────────────────────────┘
//! ```
//!
//! Decoding never panics and never guesses: bytes that are not a record are reported as
//! [`Damaged`].

use rsm_ids::{Guid, Lid, Lmc};
use rsm_model::LidClaim;

use super::records::{Bytes, NAMESPACE_MAX, Namespace, RECORD_KEY_MAX};
use super::{Checksum, Persisted};

/// Version of the layout of the whole database. A store with another version is refused.
pub(super) const SCHEMA: u16 = 1;

/// First byte of the key of the sentinel.
const TAG_SENTINEL: u8 = 0x00;
/// First byte of the key of a LID claim, which the GUID follows.
const TAG_CLAIM: u8 = 0x01;
/// First byte of the key of a generic record. The length of the namespace, the namespace and the
/// record's key follow.
const TAG_RECORD: u8 = 0x80;

/// Version of the payload of each value.
const VALUE_VERSION: u8 = 1;

/// Length of a checksum in bytes.
const SUM_LEN: usize = 8;

/// Key of the sentinel.
pub(super) const SENTINEL_KEY: [u8; 1] = [TAG_SENTINEL];

/// A decoded record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoredRecord {
    /// The claim of a port, by its GUID.
    Claim(Guid, LidClaim),
    /// Table, key and value of a generic record.
    Generic(Namespace, Bytes, Bytes),
}

/// Error of bytes that are no record of this version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the record with key {key} {reason}")]
pub(super) struct Damaged {
    /// The key in hexadecimal.
    pub(super) key: String,
    /// Kind of the damage.
    pub(super) reason: &'static str,
}

/// The description of the database's contents. Each batch of records also writes the sentinel that
/// describes the database after the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Sentinel {
    /// Version of the layout of the database; see [`SCHEMA`].
    pub(super) schema: u16,
    /// Number of the last commit.
    pub(super) generation: u64,
    /// Number of records, excluding the sentinel.
    pub(super) count: u64,
    /// Sum of the checksums of all records, modulo 2^64, which reveals a mixture of old and new
    /// pages.
    pub(super) digest: u64,
    /// Generation of the last stored plan.
    pub(super) plan_generation: u64,
}

/// The key of the claim of the port `guid`.
pub(super) fn claim_key(guid: Guid) -> Vec<u8> {
    guid_key(TAG_CLAIM, guid)
}

/// The key of the generic record `key` in the table `namespace`.
pub(super) fn record_key(namespace: &Namespace, key: &[u8]) -> Vec<u8> {
    let name = namespace.as_str().as_bytes();
    // A namespace has at most NAMESPACE_MAX bytes, so that its length fits one byte.
    let mut bytes = vec![TAG_RECORD, name.len() as u8];
    bytes.extend_from_slice(name);
    bytes.extend_from_slice(key);
    bytes
}

/// The key of a GUID in the table with tag `tag`.
fn guid_key(tag: u8, guid: Guid) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend_from_slice(&guid.0.to_be_bytes());
    bytes
}

/// The value of the claim whose key is `key`.
pub(super) fn claim_value(key: &[u8], claim: &LidClaim) -> Vec<u8> {
    let mut payload = Vec::with_capacity(11);
    payload.extend_from_slice(&claim.lid.0.to_be_bytes());
    payload.push(claim.lmc.get());
    payload.extend_from_slice(&claim.last_seen.to_be_bytes());
    seal(key, &payload)
}

/// The value of the generic record whose key is `key`, with the payload `value`.
pub(super) fn record_value(key: &[u8], value: &[u8]) -> Vec<u8> {
    seal(key, value)
}

/// The value of the sentinel.
pub(super) fn sentinel_value(sentinel: &Sentinel) -> Vec<u8> {
    let mut payload = Vec::with_capacity(34);
    payload.extend_from_slice(&sentinel.schema.to_be_bytes());
    payload.extend_from_slice(&sentinel.generation.to_be_bytes());
    payload.extend_from_slice(&sentinel.count.to_be_bytes());
    payload.extend_from_slice(&sentinel.digest.to_be_bytes());
    payload.extend_from_slice(&sentinel.plan_generation.to_be_bytes());
    seal(&SENTINEL_KEY, &payload)
}

/// Decodes the sentinel. Of a sentinel with another schema, only the schema is valid.
///
/// # Errors
/// Fails if the bytes are no valid sentinel.
pub(super) fn decode_sentinel(value: &[u8]) -> Result<Sentinel, Damaged> {
    let payload = unseal(&SENTINEL_KEY, value)?;
    let mut fields = Fields(payload);
    let sentinel = (|| {
        Some(Sentinel {
            schema: fields.u16()?,
            generation: fields.u64()?,
            count: fields.u64()?,
            digest: fields.u64()?,
            plan_generation: fields.u64()?,
        })
    })();
    match sentinel {
        // A later schema may have more fields; only its number is read.
        Some(s) if fields.0.is_empty() || s.schema != SCHEMA => Ok(s),
        _ => Err(damaged(&SENTINEL_KEY, "has the wrong length")),
    }
}

/// Decodes one record.
///
/// # Errors
/// Fails if the bytes are no valid record, or are the sentinel.
pub(super) fn decode(key: &[u8], value: &[u8]) -> Result<StoredRecord, Damaged> {
    let payload = unseal(key, value)?;
    let wrong = |reason| damaged(key, reason);
    match key.split_first() {
        Some((&TAG_CLAIM, rest)) => {
            let guid = guid(rest).ok_or_else(|| wrong("is not named by a GUID"))?;
            let claim = decode_claim(payload).ok_or_else(|| wrong("is not a LID claim"))?;
            Ok(StoredRecord::Claim(guid, claim))
        }
        Some((&TAG_RECORD, rest)) => {
            let (namespace, name) =
                decode_name(rest).ok_or_else(|| wrong("has no valid namespace"))?;
            Ok(StoredRecord::Generic(
                namespace,
                name.into(),
                payload.into(),
            ))
        }
        _ => Err(wrong("belongs to no known table")),
    }
}

/// The checksum at the end of `value`; 0 if the value is too short to have one.
pub(super) fn sum_of(value: &[u8]) -> u64 {
    value.last_chunk().map_or(0, |sum| u64::from_be_bytes(*sum))
}

/// Encodes every record of `state` as (key, value), in the order of keys.
pub(super) fn encode_all(state: &Persisted) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::with_capacity(state.len());
    for (&guid, claim) in &state.claims {
        let key = claim_key(guid);
        let value = claim_value(&key, claim);
        all.push((key, value));
    }
    for (namespace, table) in &state.records {
        for (name, payload) in table {
            let key = record_key(namespace, name);
            let value = record_value(&key, payload);
            all.push((key, value));
        }
    }
    all.sort_unstable();
    all
}

/// The value with this payload: the version, the payload and the checksum.
fn seal(key: &[u8], payload: &[u8]) -> Vec<u8> {
    let sum = Checksum::new()
        .with(key)
        .with(&[VALUE_VERSION])
        .with(payload)
        .value();
    let mut value = Vec::with_capacity(1 + payload.len() + SUM_LEN);
    value.push(VALUE_VERSION);
    value.extend_from_slice(payload);
    value.extend_from_slice(&sum.to_be_bytes());
    value
}

/// The payload of a value, whose checksum and version are checked.
fn unseal<'a>(key: &[u8], value: &'a [u8]) -> Result<&'a [u8], Damaged> {
    let Some((body, sum)) = value.split_last_chunk::<SUM_LEN>() else {
        return Err(damaged(key, "is too short"));
    };
    if Checksum::new().with(key).with(body).value() != u64::from_be_bytes(*sum) {
        return Err(damaged(key, "does not match its checksum"));
    }
    match body.split_first() {
        Some((&VALUE_VERSION, payload)) => Ok(payload),
        _ => Err(damaged(key, "has an unknown version")),
    }
}

/// The report that the record with this key is damaged.
fn damaged(key: &[u8], reason: &'static str) -> Damaged {
    // Keys have at most 2 + 32 + 256 bytes; a longer key is itself part of the damage.
    let shown = &key[..key.len().min(2 + NAMESPACE_MAX + RECORD_KEY_MAX)];
    Damaged {
        key: hex::encode(shown),
        reason,
    }
}

/// Decodes a GUID; `None` unless there are 8 bytes.
fn guid(bytes: &[u8]) -> Option<Guid> {
    bytes.try_into().ok().map(|b| Guid(u64::from_be_bytes(b)))
}

/// Decodes a claim; `None` if its length or a value is invalid.
fn decode_claim(payload: &[u8]) -> Option<LidClaim> {
    let mut fields = Fields(payload);
    let claim = LidClaim {
        lid: Lid(fields.u16()?),
        lmc: Lmc::new(fields.u8()?).ok()?,
        last_seen: fields.u64()?,
    };
    (fields.0.is_empty() && claim.is_valid()).then_some(claim)
}

/// Splits the key of a generic record, without its first byte, into namespace and record key.
fn decode_name(rest: &[u8]) -> Option<(Namespace, Vec<u8>)> {
    let (&length, rest) = rest.split_first()?;
    let (name, key) = rest.split_at_checked(usize::from(length))?;
    let namespace = Namespace::new(std::str::from_utf8(name).ok()?).ok()?;
    (key.len() <= RECORD_KEY_MAX).then(|| (namespace, key.to_vec()))
}

/// Reads big-endian numbers from the front of a slice.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    /// Splits off `N` bytes; `None` if there are fewer.
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[b]| b)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claim(lid: u16) -> LidClaim {
        LidClaim {
            lid: Lid(lid),
            lmc: Lmc::ZERO,
            last_seen: 9,
        }
    }

    #[test]
    fn record_under_another_key_is_damaged() {
        let key = claim_key(Guid(1));
        let value = claim_value(&key, &claim(5));
        assert_eq!(
            decode(&key, &value),
            Ok(StoredRecord::Claim(Guid(1), claim(5)))
        );
        assert!(decode(&claim_key(Guid(2)), &value).is_err());
    }

    #[test]
    fn every_changed_bit_of_a_record_is_detected() {
        let key = claim_key(Guid(0x0002_c903_0000_0001));
        let value = claim_value(&key, &claim(77));
        for bit in 0..value.len() * 8 {
            let mut changed = value.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&key, &changed).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn keys_sort_by_table_then_number() {
        let mut keys = vec![
            record_key(&Namespace::new("a").unwrap(), b""),
            claim_key(Guid(256)),
            claim_key(Guid(255)),
            SENTINEL_KEY.to_vec(),
        ];
        keys.sort();
        let expected = [
            SENTINEL_KEY.to_vec(),
            claim_key(Guid(255)),
            claim_key(Guid(256)),
            record_key(&Namespace::new("a").unwrap(), b""),
        ];
        assert_eq!(keys, expected);
    }

    #[test]
    fn sentinel_of_a_later_schema_shows_the_number_of_the_schema() {
        let sentinel = Sentinel {
            schema: SCHEMA,
            generation: 7,
            count: 3,
            digest: u64::MAX,
            plan_generation: 12,
        };
        assert_eq!(decode_sentinel(&sentinel_value(&sentinel)), Ok(sentinel));
        let mut payload = 2u16.to_be_bytes().to_vec();
        payload.extend_from_slice(&[0; 60]);
        let later = decode_sentinel(&seal(&SENTINEL_KEY, &payload)).unwrap();
        assert_eq!(later.schema, 2);
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused_without_panic(key: Vec<u8>, value: Vec<u8>) {
            let _ = decode(&key, &value);
            let _ = decode_sentinel(&value);
            // The checksum is valid here, so that decoding reaches the payload.
            let _ = decode(&key, &seal(&key, &value));
            let _ = decode_sentinel(&seal(&SENTINEL_KEY, &value));
        }

        #[test]
        fn records_round_trip(
            name in "[a-z0-9_-]{1,32}", record: Vec<u8>, payload: Vec<u8>,
        ) {
            let namespace = Namespace::new(&name).unwrap();
            let key = record_key(&namespace, &record);
            let value = record_value(&key, &payload);
            prop_assert_eq!(
                decode(&key, &value),
                Ok(StoredRecord::Generic(namespace, record.into(), payload.into()))
            );
        }
    }
}
