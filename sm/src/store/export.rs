//! The last good copy in a form that needs no database to read: JSON lines.
//!
//! ```text
//! {"rsm_store_export":{"schema":…,"generation":…,"plan_generation":…}}
//! one line for each record
//! {"checksum":"…"}                 of all bytes before it
//! {"commit":{"generation":…,"plan_generation":…}}
//! one line for each record that a later commit wrote or removed
//! {"checksum":"…"}                 of all bytes before it
//! …
//! ```
//!
//! A commit is appended, so that it costs what it changes; see [`StoreExporter`]. A file that was
//! cut in the middle of a commit holds the commits before.

use std::borrow::Cow;

use rsm_ids::{Guid, Lid, Lmc};
use serde::{Deserialize, Serialize};

use super::codec::{SCHEMA, Sentinel};
use super::io::{Disk, PreparedFile};
use super::layout::Layout;
use super::records::{LidClaim, Namespace, RECORD_KEY_MAX, RECORD_VALUE_MAX};
use super::{ChangeSet, Checksum, Persisted, StoreError};

/// The contents of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Export {
    /// The store's generation it was taken at.
    pub(super) generation: u64,
    /// The contents.
    pub(super) state: Persisted,
    /// Bytes behind the last whole commit: of one that was interrupted, or damaged since.
    pub(super) cut_off: usize,
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
    ClaimGone {
        guid: String,
    },
    Record {
        namespace: Cow<'a, str>,
        key: Cow<'a, str>,
        value: Cow<'a, str>,
    },
    RecordGone {
        namespace: Cow<'a, str>,
        key: Cow<'a, str>,
    },
    /// The lines up to the next checksum are of this commit.
    Commit {
        generation: u64,
        plan_generation: u64,
    },
    Checksum(String),
}

impl Export {
    /// All of `state`.
    pub(super) fn to_bytes(generation: u64, state: &Persisted) -> Vec<u8> {
        let mut lines = Lines::default();
        lines.push(&Line::RsmStoreExport {
            schema: SCHEMA,
            generation,
            plan_generation: state.plan_generation,
        });
        for (&guid, claim) in &state.claims {
            lines.push_claim(guid, claim);
        }
        for (namespace, table) in &state.records {
            for (key, value) in table {
                lines.push_record(namespace, key, value);
            }
        }
        lines.close(Checksum::new())
    }

    /// The lines that `changes` add to a file whose bytes have the checksum `before`.
    fn commit_to_bytes(sentinel: &Sentinel, changes: &ChangeSet, before: Checksum) -> Vec<u8> {
        let mut lines = Lines::default();
        lines.push(&Line::Commit {
            generation: sentinel.generation,
            plan_generation: sentinel.plan_generation,
        });
        for (&guid, claim) in &changes.claims {
            match claim {
                Some(claim) => lines.push_claim(guid, claim),
                None => lines.push(&Line::ClaimGone {
                    guid: guid.to_string(),
                }),
            }
        }
        for ((namespace, key), value) in &changes.records {
            match value {
                Some(value) => lines.push_record(namespace, key, value),
                None => lines.push_record_gone(namespace, key),
            }
        }
        lines.close(before)
    }

    /// Reads a file as far as its commits are whole.
    ///
    /// # Errors
    /// Not even the first part is, or a line of a whole commit is not a record.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Export, ExportError> {
        let whole = whole_commits(bytes)?;
        let mut lines = bytes[..whole].split(|&b| b == b'\n').enumerate();
        let mut export = match lines.next() {
            Some((_, first)) => header(first)?,
            None => return Err(ExportError::Line(1)),
        };
        export.cut_off = bytes.len() - whole;
        for (index, line) in lines.filter(|(_, line)| !line.is_empty()) {
            take(line, &mut export).ok_or(ExportError::Line(index + 1))?;
        }
        Ok(export)
    }
}

/// The length of the part in which every checksum line is that of the bytes before it.
fn whole_commits(bytes: &[u8]) -> Result<usize, ExportError> {
    let mut whole = Err(ExportError::Truncated);
    let mut sum = Checksum::new();
    let mut end = 0;
    for line in bytes.split_inclusive(|&b| b == b'\n') {
        end += line.len();
        if line.starts_with(CHECKSUM) {
            let said = match serde_json::from_slice(line) {
                Ok(Line::Checksum(digits)) if line.ends_with(b"\n") => hex::decode(digits).ok(),
                _ => None,
            };
            match said {
                Some(said) if said == sum.value().to_be_bytes() => whole = Ok(end),
                Some(_) if whole.is_err() => return Err(ExportError::Checksum),
                _ => break,
            }
        }
        sum = sum.with(line);
    }
    whole
}

/// How a checksum line begins.
const CHECKSUM: &[u8] = b"{\"checksum\":";

/// Lines of one part of the file.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    /// Digits of a key and of a value: hundreds of thousands of records write into the same memory.
    digits: (Vec<u8>, Vec<u8>),
}

impl Lines {
    fn push(&mut self, line: &Line<'_>) {
        push(&mut self.bytes, line);
    }

    fn push_claim(&mut self, guid: Guid, claim: &LidClaim) {
        self.push(&Line::Claim {
            guid: guid.to_string(),
            lid: claim.lid.0,
            lmc: claim.lmc.get(),
            last_seen: claim.last_seen,
        });
    }

    fn push_record(&mut self, namespace: &Namespace, key: &[u8], value: &[u8]) {
        let record = Line::Record {
            namespace: namespace.as_str().into(),
            key: to_hex(key, &mut self.digits.0),
            value: to_hex(value, &mut self.digits.1),
        };
        push(&mut self.bytes, &record);
    }

    fn push_record_gone(&mut self, namespace: &Namespace, key: &[u8]) {
        let gone = Line::RecordGone {
            namespace: namespace.as_str().into(),
            key: to_hex(key, &mut self.digits.0),
        };
        push(&mut self.bytes, &gone);
    }

    /// Ends the part with the checksum of all bytes before; `before` is that of the earlier parts.
    fn close(mut self, before: Checksum) -> Vec<u8> {
        let sum = before.with(&self.bytes).value();
        self.push(&Line::Checksum(hex::encode(sum.to_be_bytes())));
        self.bytes
    }
}

/// Keeps the file of a store up to date with its commits.
///
/// ```text
/// prepare ─▶ (the database takes the commit) ─▶ publish
/// ```
///
/// The first commit of a process writes the whole file anew, and so does one that follows a failure
/// or a file that has grown to twice its size. Any other is appended.
#[derive(Default)]
pub(super) struct StoreExporter {
    /// `None` where the contents of the file are not known.
    file: Option<Written>,
}

/// The state of the file.
#[derive(Clone, Copy)]
struct Written {
    sum: Checksum,
    bytes: usize,
    /// Of the part that is the whole of an earlier state.
    base: usize,
}

/// A part to publish when the database has taken a commit.
pub(super) struct PreparedExport {
    part: Part,
    /// The state of the file after it.
    then: Written,
}

enum Part {
    /// In place of the file.
    Whole(PreparedFile),
    /// At its end.
    Commit(Vec<u8>),
}

impl StoreExporter {
    /// Prepares the part for `changes` of `state`; `sentinel` describes the store after them. A
    /// whole file is written under a temporary name.
    pub(super) fn prepare(
        &self,
        (disk, layout): (&Disk, &Layout),
        state: &Persisted,
        changes: &ChangeSet,
        sentinel: &Sentinel,
    ) -> Result<PreparedExport, StoreError> {
        if let Some(file) = self.file.filter(|file| file.bytes < 2 * file.base) {
            let commit = Export::commit_to_bytes(sentinel, changes, file.sum);
            return Ok(PreparedExport {
                then: Written {
                    sum: file.sum.with(&commit),
                    bytes: file.bytes + commit.len(),
                    ..file
                },
                part: Part::Commit(commit),
            });
        }
        let mut state = state.clone();
        state.apply(changes);
        let whole = Export::to_bytes(sentinel.generation, &state);
        Ok(PreparedExport {
            then: Written {
                sum: Checksum::new().with(&whole),
                bytes: whole.len(),
                base: whole.len(),
            },
            part: Part::Whole(disk.prepare(&layout.export(), &whole)?),
        })
    }

    /// Makes the part durable in the file. After an error the next one is written as a whole.
    pub(super) fn publish(
        &mut self,
        (disk, layout): (&Disk, &Layout),
        prepared: PreparedExport,
    ) -> Result<(), StoreError> {
        let file = self.file.take();
        let path = layout.export();
        match prepared.part {
            Part::Whole(whole) => {
                if disk.exists(&path)? {
                    disk.rename(&path, &layout.export_before())?;
                }
                disk.publish(whole)?;
            }
            Part::Commit(commit) => {
                let end = file.map_or(0, |file| file.bytes);
                disk.append(&path, end as u64, &commit)?;
            }
        }
        self.file = Some(prepared.then);
        Ok(())
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
            cut_off: 0,
        }),
        Ok(Line::RsmStoreExport { schema, .. }) => Err(ExportError::Schema(schema)),
        _ => Err(ExportError::Line(1)),
    }
}

fn take(line: &[u8], export: &mut Export) -> Option<()> {
    let state = &mut export.state;
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
        Line::ClaimGone { guid } => {
            state.claims.remove(&guid.parse().ok()?);
        }
        Line::RecordGone { namespace, key } => {
            let namespace = Namespace::new(&namespace).ok()?;
            let key = hex::decode(key.as_bytes()).ok()?;
            state.remove_record(&namespace, &key);
        }
        Line::Commit {
            generation,
            plan_generation,
        } => {
            export.generation = generation;
            state.plan_generation = plan_generation;
        }
        // `whole_commits` has checked its value.
        Line::Checksum(_) => {}
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
        Line::RsmStoreExport { .. } => return None,
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
    fn an_export_reads_back_what_it_wrote() {
        let bytes = Export::to_bytes(5, &state());
        let expected = Export {
            generation: 5,
            state: state(),
            cut_off: 0,
        };
        assert_eq!(Export::from_bytes(&bytes), Ok(expected));
        let empty = Export::to_bytes(0, &Persisted::default());
        assert!(Export::from_bytes(&empty).unwrap().state.is_empty());
    }

    /// A base, and a commit that takes a claim and the record out and writes others; with the
    /// states after each.
    fn two_commits() -> (Vec<u8>, usize, [Persisted; 2]) {
        let mut bytes = Export::to_bytes(5, &state());
        let base = bytes.len();
        let table = Namespace::new("gpu").unwrap();
        let mut changes = ChangeSet::new();
        changes.remove_claim(Guid(1 << 40));
        changes.remove_record(&table, b"\x00\xffkey");
        changes.set_record(&table, b"other", b"\n").unwrap();
        changes.set_plan_generation(9);
        let mut after = state();
        after.apply(&changes);
        let sentinel = Sentinel {
            generation: 6,
            plan_generation: 9,
            ..Sentinel::default()
        };
        let sum = Checksum::new().with(&bytes);
        bytes.extend(Export::commit_to_bytes(&sentinel, &changes, sum));
        (bytes, base, [state(), after])
    }

    #[test]
    fn commits_are_read_as_far_as_they_are_whole() {
        let (bytes, base, [before, after]) = two_commits();
        let read = Export::from_bytes(&bytes).unwrap();
        assert_eq!((read.generation, read.cut_off), (6, 0));
        assert_eq!(read.state, after);
        for cut in base..bytes.len() {
            let read = Export::from_bytes(&bytes[..cut]).unwrap();
            assert_eq!(
                (read.generation, read.cut_off),
                (5, cut - base),
                "cut at {cut}"
            );
            assert_eq!(read.state, before, "cut at {cut}");
        }
        for at in base..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let read = Export::from_bytes(&changed).unwrap();
            assert_eq!(read.state, before, "changed at {at}");
            assert_eq!(read.cut_off, bytes.len() - base, "changed at {at}");
        }
        for at in 0..base {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(Export::from_bytes(&changed).is_err(), "changed at {at}");
        }
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
