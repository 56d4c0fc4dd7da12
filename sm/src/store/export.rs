//! The last good copy in a form that needs no database to read: JSON lines.
//!
//! A header line, one line for each record, and a last line with the checksum of all bytes
//! before it. Table fingerprints are left out: they can be read back from the switches, and
//! losing them costs nothing but that.

use std::borrow::Cow;

use rsm_ids::{Guid, Lid, Lmc};
use serde::{Deserialize, Serialize};

use super::codec::SCHEMA;
use super::records::{LidClaim, Namespace, RECORD_KEY_MAX, RECORD_VALUE_MAX};
use super::{Checksum, Persisted};

/// What an export holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Export {
    /// The store's generation it was taken at.
    pub(super) generation: u64,
    /// The contents, without fingerprints.
    pub(super) state: Persisted,
}

/// Why a file is not an export that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExportError {
    #[error("does not end in a checksum line: it is cut short")]
    Truncated,
    #[error("does not match its checksum")]
    Checksum,
    #[error("has schema {0}, this version reads {SCHEMA}")]
    Schema(u16),
    #[error("line {0} is not a record")]
    Line(usize),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line<'a> {
    RsmStoreExport {
        schema: u16,
        generation: u64,
        plan_generation: u64,
    },
    Claim {
        guid: String,
        lid: u16,
        lmc: u8,
        last_seen: u64,
    },
    Record {
        namespace: Cow<'a, str>,
        key: Cow<'a, str>,
        value: Cow<'a, str>,
    },
    Checksum(String),
}

impl Export {
    pub(super) fn to_bytes(generation: u64, state: &Persisted) -> Vec<u8> {
        let mut out = Vec::new();
        push(
            &mut out,
            &Line::RsmStoreExport {
                schema: SCHEMA,
                generation,
                plan_generation: state.plan_generation,
            },
        );
        for (guid, claim) in &state.claims {
            push(
                &mut out,
                &Line::Claim {
                    guid: guid.to_string(),
                    lid: claim.lid.0,
                    lmc: claim.lmc.get(),
                    last_seen: claim.last_seen,
                },
            );
        }
        // Hundreds of thousands of records: their digits are written into the same memory one after the other.
        let mut digits = (Vec::new(), Vec::new());
        for (namespace, table) in &state.records {
            for (key, value) in table {
                push(
                    &mut out,
                    &Line::Record {
                        namespace: namespace.as_str().into(),
                        key: to_hex(key, &mut digits.0),
                        value: to_hex(value, &mut digits.1),
                    },
                );
            }
        }
        let sum = Checksum::of(&out);
        push(&mut out, &Line::Checksum(hex::encode(sum.to_be_bytes())));
        out
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Export, ExportError> {
        let body = bytes.strip_suffix(b"\n").ok_or(ExportError::Truncated)?;
        let split = body
            .iter()
            .rposition(|&b| b == b'\n')
            .map_or(0, |at| at + 1);
        let (records, last) = body.split_at(split);
        let Ok(Line::Checksum(sum)) = serde_json::from_slice(last) else {
            return Err(ExportError::Truncated);
        };
        if hex::decode(&sum).ok().as_deref() != Some(&Checksum::of(records).to_be_bytes()[..]) {
            return Err(ExportError::Checksum);
        }
        let mut lines = records.split(|&b| b == b'\n').enumerate();
        let mut export = match lines.next() {
            Some((_, first)) => header(first)?,
            None => return Err(ExportError::Line(1)),
        };
        for (index, line) in lines.filter(|(_, line)| !line.is_empty()) {
            take(line, &mut export.state).ok_or(ExportError::Line(index + 1))?;
        }
        Ok(export)
    }
}

/// The hexadecimal digits of `bytes`, in `digits`.
fn to_hex<'d>(bytes: &[u8], digits: &'d mut Vec<u8>) -> Cow<'d, str> {
    digits.resize(2 * bytes.len(), b'0');
    // There is room for exactly as many, and digits are ASCII.
    hex::encode_to_slice(bytes, digits).ok();
    String::from_utf8_lossy(digits)
}

fn push(out: &mut Vec<u8>, line: &Line<'_>) {
    // Strings and numbers always serialise, and a Vec always takes them.
    if serde_json::to_writer(&mut *out, line).is_ok() {
        out.push(b'\n');
    }
}

fn header(line: &[u8]) -> Result<Export, ExportError> {
    match serde_json::from_slice(line) {
        Ok(Line::RsmStoreExport {
            schema: SCHEMA,
            generation,
            plan_generation,
        }) => Ok(Export {
            generation,
            state: Persisted {
                plan_generation,
                ..Persisted::default()
            },
        }),
        Ok(Line::RsmStoreExport { schema, .. }) => Err(ExportError::Schema(schema)),
        _ => Err(ExportError::Line(1)),
    }
}

fn take(line: &[u8], state: &mut Persisted) -> Option<()> {
    match serde_json::from_slice(line).ok()? {
        Line::Claim {
            guid,
            lid,
            lmc,
            last_seen,
        } => {
            let guid: Guid = guid.parse().ok()?;
            let claim = LidClaim {
                lid: Lid(lid),
                lmc: Lmc::new(lmc).ok()?,
                last_seen,
            };
            if guid.is_zero() || !claim.is_valid() {
                return None;
            }
            state.claims.insert(guid, claim);
        }
        Line::Record {
            namespace,
            key,
            value,
        } => {
            let namespace = Namespace::new(&namespace).ok()?;
            let (key, value) = (
                hex::decode(key.as_bytes()).ok()?,
                hex::decode(value.as_bytes()).ok()?,
            );
            if key.len() > RECORD_KEY_MAX || value.len() > RECORD_VALUE_MAX {
                return None;
            }
            state
                .records
                .entry(namespace)
                .or_default()
                .insert(key, value);
        }
        Line::RsmStoreExport { .. } | Line::Checksum(_) => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::ChangeSet;
    use super::*;

    fn state() -> Persisted {
        let mut changes = ChangeSet::new();
        for n in 1..4u16 {
            let claim = LidClaim {
                lid: Lid(n * 2),
                lmc: Lmc::new(1).unwrap(),
                last_seen: 8,
            };
            changes.set_claim(Guid(u64::from(n) << 40), claim).unwrap();
        }
        let table = Namespace::new("gpu").unwrap();
        changes.set_record(&table, b"\x00\xffkey", b"").unwrap();
        changes.set_plan_generation(8);
        let mut state = Persisted::default();
        state.apply(&changes);
        state
    }

    #[test]
    fn it_reads_what_it_wrote() {
        let bytes = Export::to_bytes(5, &state());
        let expected = Export {
            generation: 5,
            state: state(),
        };
        assert_eq!(Export::from_bytes(&bytes), Ok(expected));
        let empty = Export::to_bytes(0, &Persisted::default());
        assert!(Export::from_bytes(&empty).unwrap().state.is_empty());
    }

    #[test]
    fn a_cut_or_changed_file_is_refused() {
        let bytes = Export::to_bytes(5, &state());
        for cut in 0..bytes.len() {
            assert!(Export::from_bytes(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(Export::from_bytes(&changed).is_err(), "changed at {at}");
        }
    }
}
