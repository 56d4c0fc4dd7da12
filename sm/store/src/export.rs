//! The export: the last committed state as JSON lines, readable without a database.
//!
//! ```text
//! {"rsm_store_export":{"schema":…,"generation":…,"plan_generation":…}}
//! one line for each record
//! {"checksum":"…"}                 checksum of all bytes before it
//! {"commit":{"generation":…,"plan_generation":…}}
//! one line for each record that a later commit wrote or removed
//! {"checksum":"…"}                 checksum of all bytes before it
//! …
//! ```
//!
//! Later commits are appended, so that each one writes only its own changes; see [`StoreExporter`].
//! A file that was cut off within a commit still contains the commits before it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use rsm_ids::{Guid, Lid, Lmc};
use rsm_model::LidClaim;
use serde::{Deserialize, Serialize};

use super::codec::{SCHEMA, Sentinel};
use super::io::{Disk, FileOperation, PreparedFile};
use super::layout::Layout;
use super::records::{Namespace, RECORD_KEY_MAX, RECORD_VALUE_MAX};
use super::{ChangeSet, Checksum, Persisted, StoreError};

/// The contents of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Export {
    /// Generation of the last complete commit in the export.
    pub(super) generation: u64,
    /// The exported state.
    pub(super) state: Persisted,
    /// Number of bytes after the last complete commit: the rest of a commit that was interrupted or
    /// damaged, 0 if there is none.
    pub(super) cut_off: usize,
}

/// Reason why an export cannot be used.
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

/// A line of the file. The names of variants and fields are those in the file.
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
    /// Begins a commit, which extends to the next checksum.
    Commit {
        generation: u64,
        plan_generation: u64,
    },
    Checksum(String),
}

/// All records of a state after some changes.
#[derive(Default)]
struct Whole<'a> {
    plan_generation: u64,
    claims: BTreeMap<Guid, &'a LidClaim>,
    records: BTreeMap<(&'a Namespace, &'a [u8]), &'a [u8]>,
}

impl<'a> Whole<'a> {
    /// All records of `state`.
    fn of(state: &'a Persisted) -> Whole<'a> {
        let claims = state.claims.iter().map(|(&guid, claim)| (guid, claim));
        let tables = state.records.iter();
        let records = tables.flat_map(|(namespace, table)| {
            let rows = table.iter();
            rows.map(move |(key, value)| ((namespace, &key[..]), &value[..]))
        });
        Whole {
            plan_generation: state.plan_generation,
            claims: claims.collect(),
            records: records.collect(),
        }
    }

    /// The records after `changes`.
    fn with(mut self, changes: &'a ChangeSet) -> Whole<'a> {
        self.plan_generation = changes.plan_generation.unwrap_or(self.plan_generation);
        for (guid, claim) in &changes.claims {
            match claim {
                Some(claim) => self.claims.insert(*guid, claim),
                None => self.claims.remove(guid),
            };
        }
        for ((namespace, key), value) in &changes.records {
            match value {
                Some(value) => self.records.insert((namespace, key), value),
                None => self.records.remove(&(namespace, &key[..])),
            };
        }
        self
    }

    /// Writes a whole file of these records.
    fn write(&self, generation: u64, out: impl Write) -> io::Result<Written> {
        let mut lines = Lines::new(out, Checksum::new());
        lines.push(&Line::RsmStoreExport {
            schema: SCHEMA,
            generation,
            plan_generation: self.plan_generation,
        })?;
        for (&guid, claim) in &self.claims {
            lines.push_claim(guid, claim)?;
        }
        for (&(namespace, key), value) in &self.records {
            lines.push_record(namespace, key, value)?;
        }
        let (_, sum, bytes) = lines.close()?;
        Ok(Written {
            sum,
            bytes,
            base: bytes,
        })
    }
}

/// The lines that append `changes` to a file whose bytes have the checksum `before`, and the
/// checksum of the extended file.
fn commit_lines(
    sentinel: &Sentinel,
    changes: &ChangeSet,
    before: Checksum,
) -> io::Result<(Vec<u8>, Checksum)> {
    let mut lines = Lines::new(Vec::new(), before);
    lines.push(&Line::Commit {
        generation: sentinel.generation,
        plan_generation: sentinel.plan_generation,
    })?;
    for (&guid, claim) in &changes.claims {
        match claim {
            Some(claim) => lines.push_claim(guid, claim),
            None => lines.push(&Line::ClaimGone {
                guid: guid.to_string(),
            }),
        }?;
    }
    for ((namespace, key), value) in &changes.records {
        match value {
            Some(value) => lines.push_record(namespace, key, value),
            None => lines.push_record_gone(namespace, key),
        }?;
    }
    let (bytes, sum, _) = lines.close()?;
    Ok((bytes, sum))
}

impl Export {
    /// Reads a file up to its last complete commit.
    ///
    /// # Errors
    /// Fails if the state at the beginning of the file is incomplete, or if a line of a complete
    /// commit is no record.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Export, ExportError> {
        let complete = complete_commits(bytes)?;
        let mut lines = bytes[..complete].split(|&b| b == b'\n').enumerate();
        let mut export = match lines.next() {
            Some((_, first)) => header(first)?,
            None => return Err(ExportError::Line(1)),
        };
        export.cut_off = bytes.len() - complete;
        for (index, line) in lines.filter(|(_, line)| !line.is_empty()) {
            apply_line(line, &mut export).ok_or(ExportError::Line(index + 1))?;
        }
        Ok(export)
    }
}

/// Length of the complete commits in bytes: up to the last checksum line before which every
/// checksum line matches the bytes that precede it.
///
/// # Errors
/// Fails if the first checksum line is missing or does not match.
fn complete_commits(bytes: &[u8]) -> Result<usize, ExportError> {
    let mut complete = Err(ExportError::Truncated);
    let mut sum = Checksum::new();
    let mut end = 0;
    for line in bytes.split_inclusive(|&b| b == b'\n') {
        end += line.len();
        if line.starts_with(CHECKSUM) {
            let stated = match serde_json::from_slice(line) {
                Ok(Line::Checksum(digits)) if line.ends_with(b"\n") => hex::decode(digits).ok(),
                _ => None,
            };
            match stated {
                Some(stated) if stated == sum.value().to_be_bytes() => complete = Ok(end),
                Some(_) if complete.is_err() => return Err(ExportError::Checksum),
                _ => break,
            }
        }
        sum = sum.with(line);
    }
    complete
}

/// Beginning of a checksum line.
const CHECKSUM: &[u8] = b"{\"checksum\":";

/// Writes the lines of one part of the file.
struct Lines<W> {
    out: W,
    /// Checksum of the file up to here.
    sum: Checksum,
    /// Number of bytes written in this part.
    bytes: usize,
    /// Buffers for a line and for the hexadecimal digits of its key and value, reused over hundreds
    /// of thousands of records.
    line: Vec<u8>,
    digits: (Vec<u8>, Vec<u8>),
}

impl<W: Write> Lines<W> {
    /// Starts a part after bytes with the checksum `before`.
    fn new(out: W, before: Checksum) -> Lines<W> {
        Lines {
            out,
            sum: before,
            bytes: 0,
            line: Vec::new(),
            digits: Default::default(),
        }
    }

    /// Writes a line.
    fn push(&mut self, line: &Line<'_>) -> io::Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, line)?;
        self.line.push(b'\n');
        self.out.write_all(&self.line)?;
        self.sum = self.sum.with(&self.line);
        self.bytes += self.line.len();
        Ok(())
    }

    /// Writes the line of a claim.
    fn push_claim(&mut self, guid: Guid, claim: &LidClaim) -> io::Result<()> {
        self.push(&Line::Claim {
            guid: guid.to_string(),
            lid: claim.lid.0,
            lmc: claim.lmc.get(),
            last_seen: claim.last_seen,
        })
    }

    /// Writes the line of a record.
    fn push_record(&mut self, namespace: &Namespace, key: &[u8], value: &[u8]) -> io::Result<()> {
        let mut digits = std::mem::take(&mut self.digits);
        let record = Line::Record {
            namespace: namespace.as_str().into(),
            key: to_hex(key, &mut digits.0),
            value: to_hex(value, &mut digits.1),
        };
        let pushed = self.push(&record);
        self.digits = digits;
        pushed
    }

    /// Writes the line of a removed record.
    fn push_record_gone(&mut self, namespace: &Namespace, key: &[u8]) -> io::Result<()> {
        let gone = Line::RecordGone {
            namespace: namespace.as_str().into(),
            key: hex::encode(key).into(),
        };
        self.push(&gone)
    }

    /// Ends the part with a checksum line. Returns the writer, the checksum of the file, and the
    /// number of bytes in the part.
    fn close(mut self) -> io::Result<(W, Checksum, usize)> {
        let sum = self.sum.value();
        self.push(&Line::Checksum(hex::encode(sum.to_be_bytes())))?;
        self.out.flush()?;
        Ok((self.out, self.sum, self.bytes))
    }
}

/// Number of records up to which a commit is appended regardless of the size of the file. An
/// appended part is built in memory; a whole file is written line by line.
const APPENDED_RECORDS: usize = 10_000;

/// Keeps the export of a store up to date with the commits.
///
/// ```text
/// prepare ─▶ (the database makes the commit) ─▶ publish
/// ```
///
/// These commits write a whole file; any other commit is appended:
/// * the first commit of a process, and a commit after a failure;
/// * a commit that finds the file twice as long as when it was last written whole;
/// * a commit of more than [`APPENDED_RECORDS`] records, and of more records than the store has.
#[derive(Default)]
pub(super) struct StoreExporter {
    /// State of the file; `None` if its contents are unknown.
    file: Option<Written>,
}

/// Checksum and length of the file.
#[derive(Clone, Copy)]
struct Written {
    sum: Checksum,
    bytes: usize,
    /// Number of bytes of the whole state at the beginning of the file.
    base: usize,
}

/// The part of the file for a commit, to be published once the database has made the commit.
pub(super) struct PreparedExport {
    part: ExportPart,
    /// State of the file after publishing.
    after: Written,
}

/// The lines that a commit adds to the file.
enum ExportPart {
    /// A whole file, which replaces the present one.
    Whole(PreparedFile),
    /// Lines to append to the file.
    Commit(Vec<u8>),
}

impl StoreExporter {
    /// Prepares the part for `changes` of `state`; `sentinel` describes the store after the
    /// changes. A whole file is written under a temporary name.
    pub(super) fn prepare(
        &self,
        (disk, layout): (&Disk, &Layout),
        state: &Persisted,
        changes: &ChangeSet,
        sentinel: &Sentinel,
    ) -> Result<PreparedExport, StoreError> {
        let path = layout.export();
        let is_large = changes.len() > state.len().max(APPENDED_RECORDS);
        let grown = |file: &Written| file.bytes >= 2 * file.base;
        if let Some(file) = self.file.filter(|file| !is_large && !grown(file)) {
            let (commit, sum) =
                commit_lines(sentinel, changes, file.sum).map_err(|source| StoreError::Io {
                    operation: FileOperation::Append,
                    path,
                    source,
                })?;
            return Ok(PreparedExport {
                after: Written {
                    sum,
                    bytes: file.bytes + commit.len(),
                    ..file
                },
                part: ExportPart::Commit(commit),
            });
        }
        let whole = Whole::of(state).with(changes);
        let (file, after) =
            disk.prepare_with(&path, |out| whole.write(sentinel.generation, out))?;
        Ok(PreparedExport {
            after,
            part: ExportPart::Whole(file),
        })
    }

    /// Makes the part durable in the file. After an error, the next commit writes a whole file.
    pub(super) fn publish(
        &mut self,
        (disk, layout): (&Disk, &Layout),
        prepared: PreparedExport,
    ) -> Result<(), StoreError> {
        let file = self.file.take();
        let path = layout.export();
        match prepared.part {
            ExportPart::Whole(whole) => {
                if disk.exists(&path)? {
                    disk.rename(&path, &layout.export_before())?;
                }
                disk.publish(whole)?;
            }
            ExportPart::Commit(commit) => {
                let end = file.map_or(0, |file| file.bytes);
                disk.append(&path, end as u64, &commit)?;
            }
        }
        self.file = Some(prepared.after);
        Ok(())
    }
}

/// Writes `bytes` as hexadecimal digits into `digits`, and returns the digits as text.
fn to_hex<'d>(bytes: &[u8], digits: &'d mut Vec<u8>) -> Cow<'d, str> {
    digits.resize(2 * bytes.len(), b'0');
    // `digits` has exactly the required length, and its content is ASCII.
    hex::encode_to_slice(bytes, digits).ok();
    String::from_utf8_lossy(digits)
}

/// The empty export that the first line of a file begins.
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

/// Applies a line to `export`; `None` if the line is not valid.
fn apply_line(line: &[u8], export: &mut Export) -> Option<()> {
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
        // `complete_commits` has checked this value.
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
                .insert(key.into(), value.into());
        }
        Line::RsmStoreExport { .. } => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::ChangeSet;
    use super::*;

    /// A file with the whole state `state`.
    fn whole(generation: u64, state: &Persisted) -> Vec<u8> {
        let mut bytes = Vec::new();
        let written = Whole::of(state).write(generation, &mut bytes).unwrap();
        assert_eq!(written.bytes, bytes.len());
        assert_eq!(written.sum.value(), Checksum::of(&bytes));
        bytes
    }

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

    /// Removes a claim and a record, and adds another record.
    fn changes() -> ChangeSet {
        let table = Namespace::new("gpu").unwrap();
        let mut changes = ChangeSet::new();
        changes.remove_claim(Guid(1 << 40));
        changes.remove_record(&table, b"\x00\xffkey");
        changes.set_record(&table, b"other", b"\n").unwrap();
        changes.set_plan_generation(9);
        changes
    }

    #[test]
    fn export_is_read_as_it_was_written() {
        let bytes = whole(5, &state());
        let expected = Export {
            generation: 5,
            state: state(),
            cut_off: 0,
        };
        assert_eq!(Export::from_bytes(&bytes), Ok(expected));
        let empty = whole(0, &Persisted::default());
        assert!(Export::from_bytes(&empty).unwrap().state.is_empty());
    }

    /// A file with a whole state and a commit, the length of the whole state in bytes, and the
    /// states before and after the commit.
    fn two_commits() -> (Vec<u8>, usize, [Persisted; 2]) {
        let mut bytes = whole(5, &state());
        let base = bytes.len();
        let changes = changes();
        let mut after = state();
        after.apply(&changes);
        let sentinel = Sentinel {
            generation: 6,
            plan_generation: 9,
            ..Sentinel::default()
        };
        let sum = Checksum::new().with(&bytes);
        let (commit, sum) = commit_lines(&sentinel, &changes, sum).unwrap();
        bytes.extend(commit);
        assert_eq!(sum.value(), Checksum::of(&bytes));
        (bytes, base, [state(), after])
    }

    #[test]
    fn whole_file_with_changes_equals_the_file_of_the_state_after_them() {
        let changes = changes();
        let before = state();
        let mut bytes = Vec::new();
        let with = Whole::of(&before).with(&changes);
        with.write(6, &mut bytes).unwrap();
        let mut after = state();
        after.apply(&changes);
        assert_eq!(bytes, whole(6, &after));
    }

    #[test]
    fn complete_commits_before_a_damaged_one_are_read() {
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
    fn file_without_a_complete_state_is_refused() {
        let bytes = whole(5, &state());
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
