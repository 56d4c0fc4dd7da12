//! The journal: changes acknowledged to hosts that the database does not contain yet.
//!
//! A commit of the database compares whole tables and flushes several files, which is too slow for
//! an answer to wait. Changed rows are therefore first appended to the journal, many at once, and
//! flushed; then the answers are sent. The database follows. Each commit states the last entry that
//! it includes, and the journal then drops the entries up to that one.
//!
//! ```text
//! journal.0, journal.1   entries: length (4) checksum (8) number (8) rows
//! ```
//!
//! Numbers in parentheses are lengths in bytes. One file is written while the entries of the other
//! wait to be covered by a commit.
//!
//! An entry at the end of a file that is not whole is ignored, because a process may have died
//! while it wrote that entry. If whole entries follow bytes that are no entry, these bytes were
//! damaged after they were written: the entries are read, and [`Journal::damaged`] counts the
//! damaged bytes.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::io::{self as store_io, Disk, FileOperation};
use super::{Checksum, Namespace, StoreError};

/// Size in bytes from which on the other file is written, if that file is empty.
const SWITCH_SIZE: u64 = 1 << 20;

/// Maximum size of each file in bytes: about 200,000 joins. The database lags behind that far only
/// if it fails permanently.
const FILE_MAX: u64 = 32 << 20;

/// Number of bytes of length, checksum and number of an entry.
const HEADER: usize = 4 + 8 + 8;

/// Code of [`RowChange::Set`].
const SET: u8 = 1;
/// Code of [`RowChange::Clear`].
const CLEAR: u8 = 2;

/// A change in a table of generic records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RowChange {
    /// Writes one record.
    Set {
        /// The table.
        table: Namespace,
        /// Key of the record.
        key: Vec<u8>,
        /// Value of the record.
        value: Vec<u8>,
    },
    /// Removes all records whose keys begin with `prefix`. All keys of a table have one length, so
    /// that a whole key removes one record.
    Clear {
        /// The table.
        table: Namespace,
        /// Common beginning of the keys.
        prefix: Vec<u8>,
    },
}

/// Changes that were made together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalEntry {
    /// Number of the entry; entries are numbered consecutively over the whole life of the store.
    pub number: u64,
    /// The changes, in order.
    pub rows: Vec<RowChange>,
}

/// Appends an encoded entry to `out`.
pub fn encode(number: u64, rows: &[RowChange], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend([0; HEADER]);
    for row in rows {
        let (operation, table, key, value) = match row {
            RowChange::Set { table, key, value } => (SET, table, key, &value[..]),
            RowChange::Clear { table, prefix } => (CLEAR, table, prefix, &[][..]),
        };
        let name = table.as_str().as_bytes();
        // A namespace has at most 32 bytes, a key 256, a value 64 KiB.
        out.extend([operation, name.len() as u8]);
        out.extend((key.len() as u16).to_be_bytes());
        out.extend((value.len() as u32).to_be_bytes());
        for part in [name, key, value] {
            out.extend(part);
        }
    }
    let length = (out.len() - start - HEADER) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    out[start + 12..start + HEADER].copy_from_slice(&number.to_be_bytes());
    let sum = Checksum::of(&out[start + 12..]);
    out[start + 4..start + 12].copy_from_slice(&sum.to_be_bytes());
}

/// Splits the first entry off `bytes`; `None` if the entry is not whole.
fn decode(bytes: &mut &[u8]) -> Option<JournalEntry> {
    let mut rest = *bytes;
    let length = u32::from_be_bytes(take(&mut rest)?);
    let sum = u64::from_be_bytes(take(&mut rest)?);
    let (covered, after) = rest.split_at_checked(8 + usize::try_from(length).ok()?)?;
    if Checksum::of(covered) != sum {
        return None;
    }
    let mut rest = covered;
    let number = u64::from_be_bytes(take(&mut rest)?);
    let mut rows = Vec::new();
    while !rest.is_empty() {
        let [operation, name] = take(&mut rest)?;
        let key = usize::from(u16::from_be_bytes(take(&mut rest)?));
        let value = usize::try_from(u32::from_be_bytes(take(&mut rest)?)).ok()?;
        let (name, after) = rest.split_at_checked(usize::from(name))?;
        let (key, after) = after.split_at_checked(key)?;
        let (value, after) = after.split_at_checked(value)?;
        rest = after;
        let table = Namespace::new(std::str::from_utf8(name).ok()?).ok()?;
        rows.push(match operation {
            SET => RowChange::Set {
                table,
                key: key.to_vec(),
                value: value.to_vec(),
            },
            CLEAR => RowChange::Clear {
                table,
                prefix: key.to_vec(),
            },
            _ => return None,
        });
    }
    *bytes = after;
    Some(JournalEntry { number, rows })
}

/// Skips to the next whole entry in `bytes` whose number is greater than `last`. Returns the number
/// of skipped bytes; `None` if there is no such entry.
fn skip_damaged(bytes: &mut &[u8], last: u64) -> Option<usize> {
    // An entry has at least one byte, so that fewer entries than bytes can be missing.
    let numbers = last.saturating_add(1)..=last.saturating_add(bytes.len() as u64);
    for skipped in 1..bytes.len().saturating_sub(HEADER) {
        let rest = &bytes[skipped..];
        let number = rest[HEADER - 8..].first_chunk();
        let number = number.map(|number| u64::from_be_bytes(*number));
        // The checksum is computed only where the number is plausible, which is rare.
        if number.is_some_and(|number| numbers.contains(&number)) && decode(&mut { rest }).is_some()
        {
            *bytes = rest;
            return Some(skipped);
        }
    }
    None
}

/// Splits `N` bytes off the front of `bytes`; `None` if there are fewer.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

/// State of one of the two files of the journal.
#[derive(Debug)]
struct JournalFile {
    path: PathBuf,
    /// The open file; `None` before the first write, so that entries of an unwritable folder can be
    /// read.
    file: Option<File>,
    /// Length of the whole entries in bytes.
    bytes: u64,
    /// Number of the last entry; 0 if there is none.
    last: u64,
    /// Whether part of an entry may follow the whole entries; the next write first cuts that part
    /// off.
    is_torn: bool,
}

/// The journal of a state directory. The store must hold the lock of the directory.
#[derive(Debug)]
pub struct Journal {
    disk: Disk,
    files: [JournalFile; 2],
    /// Index of the file that is written.
    current: usize,
    /// Number of the last entry that the database includes.
    covered: u64,
    /// Number of the last entry in the former folder, if the folder was replaced; `None` otherwise.
    replaced: Option<u64>,
    /// Value of [`Journal::damaged`].
    damaged: u64,
}

impl Journal {
    /// Reads the journal in `dir`, whose files are opened for writing only at the first new entry.
    /// Also returns the entries in the order of their numbers, including entries that the database
    /// already contains.
    ///
    /// # Errors
    /// Fails if a file exists and cannot be read.
    pub fn open(dir: &Path, disk: Disk) -> Result<(Journal, Vec<JournalEntry>), StoreError> {
        let mut entries: Vec<JournalEntry> = Vec::new();
        let mut damaged = 0;
        let mut read_file = |name: &str| {
            let path = dir.join(name);
            let bytes = disk.read(&path)?.unwrap_or_default();
            let mut rest = &bytes[..];
            let mut last = 0;
            loop {
                while let Some(entry) = decode(&mut rest) {
                    last = entry.number;
                    entries.push(entry);
                }
                let Some(skipped) = skip_damaged(&mut rest, last) else {
                    break;
                };
                damaged += skipped as u64;
                tracing::error!(
                    path = %path.display(),
                    bytes = skipped,
                    "acknowledged entries of the journal are damaged, and left out"
                );
            }
            let whole = (bytes.len() - rest.len()) as u64;
            if !rest.is_empty() {
                tracing::info!(
                    path = %path.display(),
                    bytes = rest.len(),
                    "an entry that was being written when rsm ended is left out"
                );
            }
            Ok::<JournalFile, StoreError>(JournalFile {
                path,
                file: None,
                bytes: whole,
                last,
                is_torn: false,
            })
        };
        let files = [read_file("journal.0")?, read_file("journal.1")?];
        entries.sort_by_key(|entry| entry.number);
        let current = usize::from(files[1].last > files[0].last);
        let journal = Journal {
            disk,
            files,
            current,
            covered: 0,
            replaced: None,
            damaged,
        };
        Ok((journal, entries))
    }

    /// Number of bytes of acknowledged entries that [`Journal::open`] could not read; 0 if all were
    /// whole.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Appends encoded entries; the last one has the number `last`. They are durable when the
    /// method returns.
    ///
    /// # Errors
    /// Fails if the disk fails, if the journal is full, or if its folder was replaced and the
    /// database lacks earlier entries. Earlier entries are then unchanged.
    pub fn append(&mut self, entries: &[u8], last: u64) -> Result<(), StoreError> {
        if self.replaced.is_none() && self.files.iter().any(JournalFile::has_vanished) {
            self.replaced = self
                .files
                .iter()
                .map(|journal_file| journal_file.last)
                .max();
        }
        self.adopt_folder()?;
        let other = 1 - self.current;
        if self.files[self.current].bytes >= SWITCH_SIZE && self.files[other].bytes == 0 {
            self.current = other;
        }
        let journal_file = &mut self.files[self.current];
        let (path, whole) = (journal_file.path.clone(), journal_file.bytes);
        let bytes = whole + entries.len() as u64;
        let disk = &self.disk;
        let is_torn = journal_file.is_torn;
        let file = journal_file.open(disk)?;
        if is_torn {
            disk.run(FileOperation::Write, &path, || cut(file, whole))?;
        }
        let in_file = |source| StoreError::Io {
            operation: FileOperation::Write,
            path: path.clone(),
            source,
        };
        if bytes > FILE_MAX {
            return Err(in_file(io::ErrorKind::FileTooLarge.into()));
        }
        let written = disk.write_to(FileOperation::Write, &path, file, entries);
        let written = written.map_err(in_file);
        let written =
            written.and_then(|()| disk.run(FileOperation::Sync, &path, || file.sync_data()));
        journal_file.is_torn = match written {
            Ok(()) => {
                (journal_file.bytes, journal_file.last) = (bytes, last);
                false
            }
            // A start ignores the unfinished entry; the next write cuts it off.
            Err(_) => disk
                .run(FileOperation::Write, &path, || cut(file, whole))
                .is_err(),
        };
        written
    }

    /// If another folder has replaced the former one, starts again in that folder with empty files.
    /// Files that it contains belong to another journal, or the database contains their entries.
    ///
    /// # Errors
    /// Fails if the database lacks entries that were in the former folder, or if the disk fails.
    fn adopt_folder(&mut self) -> Result<(), StoreError> {
        let Some(last) = self.replaced else {
            return Ok(());
        };
        if last > self.covered {
            let text = "its folder was replaced, and the store has not all earlier entries yet";
            return Err(StoreError::Io {
                operation: FileOperation::Append,
                path: self.files[self.current].path.clone(),
                source: io::Error::other(text),
            });
        }
        for journal_file in &mut self.files {
            (
                journal_file.file,
                journal_file.bytes,
                journal_file.last,
                journal_file.is_torn,
            ) = (None, 0, 0, false);
            journal_file.open(&self.disk)?;
        }
        self.replaced = None;
        Ok(())
    }

    /// Records that the database includes all entries up to `number`, and empties each file that
    /// has no later entry.
    ///
    /// # Errors
    /// Fails if the disk fails. The entries then stay, and applying them again changes nothing.
    pub fn covered(&mut self, number: u64) -> Result<(), StoreError> {
        self.covered = number;
        self.adopt_folder()?;
        for journal_file in &mut self.files {
            if journal_file.bytes > 0 && journal_file.last <= number {
                let path = journal_file.path.clone();
                let file = journal_file.open(&self.disk)?;
                self.disk
                    .run(FileOperation::Write, &path, || cut(file, 0))?;
                (journal_file.bytes, journal_file.last, journal_file.is_torn) = (0, 0, false);
            }
        }
        Ok(())
    }
}

impl JournalFile {
    /// Whether the file that contains the entries is no longer in the folder.
    fn has_vanished(&self) -> bool {
        match &self.file {
            Some(file) => !store_io::is_at(file, &self.path),
            None if self.bytes > 0 => {
                std::fs::metadata(&self.path).map_or(true, |about| about.len() < self.bytes)
            }
            None => false,
        }
    }

    /// Opens the file, cuts off an unfinished entry, and makes the file durable in its folder.
    fn open(&mut self, disk: &Disk) -> Result<&mut File, StoreError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let (path, whole) = (&self.path, self.bytes);
                let file = disk.run(FileOperation::Write, path, || {
                    let mut options = OpenOptions::new();
                    options.create(true).truncate(false).write(true);
                    let mut file = options.open(path)?;
                    cut(&mut file, whole)?;
                    Ok(file)
                })?;
                if let Some(folder) = path.parent() {
                    disk.sync(folder)?;
                }
                file
            }
        };
        Ok(self.file.insert(file))
    }
}

/// Truncates the file to `bytes` bytes, and moves the position of the next write there.
fn cut(file: &mut File, bytes: u64) -> io::Result<()> {
    file.set_len(bytes)?;
    file.seek(SeekFrom::Start(bytes))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// An entry that sets and clears one record.
    fn entry(number: u64) -> JournalEntry {
        let table = Namespace::new("members").unwrap();
        let key = number.to_be_bytes().to_vec();
        let set = RowChange::Set {
            table: table.clone(),
            key: key.clone(),
            value: vec![7; number as usize % 50],
        };
        let clear = RowChange::Clear { table, prefix: key };
        JournalEntry {
            number,
            rows: vec![set, clear],
        }
    }

    fn append(journal: &mut Journal, numbers: impl IntoIterator<Item = u64>) {
        let mut bytes = Vec::new();
        let mut last = 0;
        for number in numbers {
            encode(number, &entry(number).rows, &mut bytes);
            last = number;
        }
        journal.append(&bytes, last).unwrap();
    }

    /// The numbers of the entries in `dir`, whose rows are checked.
    fn read(dir: &Path) -> Vec<u64> {
        let (_, entries) = Journal::open(dir, Disk::new()).unwrap();
        for found in &entries {
            assert_eq!(*found, entry(found.number));
        }
        entries.iter().map(|entry| entry.number).collect()
    }

    #[test]
    fn entries_are_read_in_order_until_a_commit_covers_them() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, entries) = Journal::open(dir.path(), Disk::new()).unwrap();
        assert_eq!(entries, []);
        append(&mut journal, 1..=3);
        append(&mut journal, [4]);
        assert_eq!(read(dir.path()), [1, 2, 3, 4]);
        // The last entry is not covered, so that its file is kept.
        journal.covered(3).unwrap();
        assert_eq!(read(dir.path()), [1, 2, 3, 4]);
        journal.covered(4).unwrap();
        append(&mut journal, [5]);
        drop(journal);
        assert_eq!(read(dir.path()), [5]);
    }

    #[test]
    fn reading_stops_at_an_incomplete_entry_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(dir.path(), Disk::new()).unwrap();
        append(&mut journal, 1..=2);
        drop(journal);
        let path = dir.path().join("journal.0");
        let whole = std::fs::read(&path).unwrap();
        let mut first = Vec::new();
        encode(1, &entry(1).rows, &mut first);
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let expected: &[u64] = if cut < first.len() { &[] } else { &[1] };
            assert_eq!(read(dir.path()), expected, "cut at {cut}");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            std::fs::write(&path, &changed).unwrap();
            // A whole entry follows the damaged first one.
            let expected: &[u64] = if at < first.len() { &[2] } else { &[1] };
            assert_eq!(read(dir.path()), expected, "changed at {at}");
        }
        // The next entry follows the last whole one.
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        let (mut journal, _) = Journal::open(dir.path(), Disk::new()).unwrap();
        append(&mut journal, [2]);
        assert_eq!(read(dir.path()), [1, 2]);
    }

    #[test]
    fn whole_entries_after_a_damaged_one_are_read_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(dir.path(), Disk::new()).unwrap();
        append(&mut journal, 1..=100);
        drop(journal);
        let path = dir.path().join("journal.0");
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        std::fs::write(&path, &bytes).unwrap();
        let (mut journal, entries) = Journal::open(dir.path(), Disk::new()).unwrap();
        assert_eq!(entries.len(), 99);
        assert!(journal.damaged() > 0);
        // The next entry is appended after all of them.
        append(&mut journal, [101]);
        let read = read(dir.path());
        assert_eq!((read.len(), read.last()), (100, Some(&101)));
        journal.covered(101).unwrap();
        drop(journal);
        let (journal, _) = Journal::open(dir.path(), Disk::new()).unwrap();
        assert_eq!(journal.damaged(), 0);
    }

    #[test]
    fn full_file_is_left_for_the_other_file() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(dir.path(), Disk::new()).unwrap();
        let mut number = 0;
        while journal.current == 0 {
            append(&mut journal, number + 1..=number + 500);
            number += 500;
        }
        let first = journal.files[0].last;
        assert_eq!(number, first + 500);
        journal.covered(first).unwrap();
        assert_eq!(read(dir.path()), Vec::from_iter(first + 1..=number));
    }

    #[test]
    fn failed_append_keeps_the_entries_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let full = Arc::new(AtomicBool::new(false));
        let disk = Disk::with_fault({
            let full = full.clone();
            Arc::new(move |operation, _| {
                if operation == FileOperation::Sync && full.load(Ordering::Relaxed) {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                Ok(())
            })
        });
        let (mut journal, _) = Journal::open(dir.path(), disk).unwrap();
        append(&mut journal, [1]);
        full.store(true, Ordering::Relaxed);
        let mut bytes = Vec::new();
        encode(2, &entry(2).rows, &mut bytes);
        assert!(journal.append(&bytes, 2).is_err());
        full.store(false, Ordering::Relaxed);
        append(&mut journal, [3]);
        assert_eq!(read(dir.path()), [1, 3]);
    }
}
