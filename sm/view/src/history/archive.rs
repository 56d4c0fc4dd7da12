//! Appends records to the history, and keeps the history within its bounds.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use prost::Message as _;
use rsm_api::v1;
use rsm_model::fabric::Fabric;
use rsm_state::Snapshot;
use rsm_store::StoreError;
use rsm_store::io::{Disk, FileOperation, is_at};

use super::frame::{self, Frames, Kind};
use super::operator_actions::OperatorActionLog;
use super::scan::{Segment, Segments};
use super::state::{State, StateChange};

/// Name of the history folder in the state folder.
const FOLDER: &str = "history";

/// Inverse of the share of [`Bounds::bytes`] that the records of one segment may take, without its
/// base. Small segments let the oldest records be removed in small steps.
const SEGMENT_SHARE: u64 = 16;

/// Maximum size of a segment's records in bytes, without its base, because a query reads a whole
/// segment.
const SEGMENT_MAX: u64 = 8 << 20;

/// Inverse of the share of [`Bounds::days`] that one segment may span.
const SPAN_SHARE: u64 = 10;

const DAY_MS: u64 = 24 * 3_600_000;

/// Bounds of the history. Segments beyond them are removed, the oldest first, but never the segment
/// being written. Operator actions in removed segments stay, within a share of the bytes, until
/// they are older than `days`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Days for which records are kept; a record may stay a tenth longer. Age removes no record
    /// while the clock is not trusted, so that a wrong clock at boot does no harm.
    pub days: u32,
    /// Maximum size of all segments, in bytes.
    pub bytes: u64,
}

/// The segment that is being written.
#[derive(Debug)]
struct Current {
    path: PathBuf,
    file: File,
    /// Length of the whole records, in bytes.
    bytes: u64,
    /// Length of the base in bytes, which is part of `bytes`.
    base: u64,
    /// Time of the first record, in milliseconds since the Unix epoch.
    began_unix_ms: u64,
}

/// Records that are not yet on the disk.
#[derive(Debug, Default)]
struct Unwritten {
    frames: Vec<u8>,
    /// Number and time of the first record, and length of the base, if these records begin a
    /// segment; `None` if they continue one.
    begins: Option<(u64, u64, u64)>,
    /// Earliest and latest time of the records, in milliseconds since the Unix epoch; `None` if
    /// there are no records.
    span: Option<(u64, u64)>,
}

/// The history in a state folder. The store holds the lock of the folder, and only one thread
/// writes the history.
#[derive(Debug)]
pub struct Archive {
    dir: PathBuf,
    disk: Disk,
    bounds: Bounds,
    segments: Segments,
    current: Option<Current>,
    unwritten: Unwritten,
    next: u64,
    state: State,
    /// Whether the clock can tell what is old.
    is_clock_trusted: bool,
}

impl Archive {
    /// Opens the history in `state_dir`, and reads its last segment. Skips damaged records, and
    /// logs the damage.
    ///
    /// # Errors
    /// The folder cannot be created or listed, or the last segment cannot be read.
    pub fn open(state_dir: &Path, disk: Disk, bounds: Bounds) -> Result<Archive, StoreError> {
        let dir = state_dir.join(FOLDER);
        disk.create_dir(&dir)?;
        let mut segments = Vec::new();
        let actions = OperatorActionLog::open(&dir, &disk)?;
        for path in disk
            .list(&dir)?
            .into_iter()
            .filter(|path| !OperatorActionLog::is_file(path))
        {
            match first_number(&path) {
                Some(first) if path.is_file() => {
                    segments.push(segment_of_earlier_run(&disk, path, first)?)
                }
                _ => tracing::warn!(
                    path = %path.display(),
                    "this is no segment of the history: it stays, and is not read"
                ),
            }
        }
        segments.sort_by_key(|segment| segment.first);
        // Segments may have been removed while their operator actions were kept.
        let next = actions.last_number() + 1;
        let mut archive = Archive {
            dir,
            segments: Segments::new(disk.clone(), segments, actions),
            disk,
            bounds,
            current: None,
            unwritten: Unwritten::default(),
            next,
            state: State::default(),
            is_clock_trusted: false,
        };
        archive.resume()?;
        Ok(archive)
    }

    /// Continues the last segment, beginning with the state of the subnet at its end.
    fn resume(&mut self) -> Result<(), StoreError> {
        let Some(last) = self.segments.last() else {
            return Ok(());
        };
        self.next = last.first;
        let bytes = self.disk.read(&last.path)?.unwrap_or_default();
        let mut frames = Frames::of(&bytes);
        let (mut base, mut began) = (0, None);
        for frame in frames.by_ref() {
            self.next = frame.number + 1;
            began = began.or(Some(frame.at_unix_ms));
            let change = match frame.kind {
                Some(Kind::Base | Kind::Change) => StateChange::decode(frame.payload).ok(),
                _ => None,
            };
            if frame.kind == Some(Kind::Base) {
                self.state = State::default();
                base = (frame::HEADER + frame.payload.len()) as u64;
            }
            if let Some(change) = change {
                self.state.apply(change);
            }
        }
        if frames.damaged() > 0 {
            tracing::warn!(
                path = %last.path.display(),
                bytes = frames.damaged(),
                "the history is damaged here: these records are lost, the others are kept"
            );
            // A change of the state may be among the lost records, so that the state is unknown.
            self.state = State::default();
            return Ok(());
        }
        if frames.torn() > 0 {
            tracing::info!(
                path = %last.path.display(),
                bytes = frames.torn(),
                "a record that was being written when rsm ended is left out"
            );
        }
        let whole = (bytes.len() - frames.torn()) as u64;
        let Some(began_unix_ms) = began else {
            if !frame::begins(&bytes) {
                // The file belongs to another program, or is damaged from its beginning: it is
                // kept.
                self.next = last.first + 1;
                return Ok(());
            }
            // The segment has no record, so that its name is used again.
            self.segments.remove_last();
            return self.disk.remove_file(&last.path);
        };
        self.current = Some(Current {
            file: self.open_segment(&last.path, whole)?,
            path: last.path,
            bytes: whole,
            base,
            began_unix_ms,
        });
        Ok(())
    }

    fn open_segment(&self, path: &Path, whole: u64) -> Result<File, StoreError> {
        self.disk.run(FileOperation::Append, path, || {
            let mut options = OpenOptions::new();
            let file = options.create(true).append(true).open(path)?;
            file.set_len(whole)?;
            Ok(file)
        })
    }

    /// The segments of the history, for readers on other threads.
    pub fn segments(&self) -> Segments {
        self.segments.clone()
    }

    /// Whether all records are on the disk.
    pub fn is_written(&self) -> bool {
        self.unwritten.frames.is_empty()
    }

    /// Says whether the clock can tell what is old. Until the first call, and after `false`, age
    /// removes no record.
    pub fn trust_clock(&mut self, is_trusted: bool) {
        self.is_clock_trusted = is_trusted;
    }

    /// Begins a new segment at `at_unix_ms` if the current segment is long enough or old enough.
    /// Must be called before the records of a batch, after all earlier records were written.
    pub fn begin_segment_if_due(&mut self, at_unix_ms: u64) {
        let most = (self.bounds.bytes / SEGMENT_SHARE).min(SEGMENT_MAX);
        let span = u64::from(self.bounds.days) * DAY_MS / SPAN_SHARE;
        let continues = self.current.as_ref().is_some_and(|current| {
            current.bytes - current.base.min(current.bytes) < most
                && at_unix_ms.saturating_sub(current.began_unix_ms) < span
                // The file may have been removed, or its folder replaced.
                && is_at(&current.file, &current.path)
        });
        if continues || self.unwritten.begins.is_some() {
            return;
        }
        let first = self.next;
        let base = self.state.base();
        self.push(at_unix_ms, Kind::Base, &base.encode_to_vec());
        let length = self.unwritten.frames.len() as u64;
        self.unwritten.begins = Some((first, at_unix_ms, length));
    }

    /// Adds an event to the waiting records.
    pub fn event(&mut self, event: &v1::Event) {
        self.push(event.at_unix_ms, Kind::Event, &event.encode_to_vec());
    }

    /// Adds the difference between a snapshot and the last recorded state to the waiting records;
    /// see [`State::follow`].
    pub fn state(&mut self, at_unix_ms: u64, before: Option<&Fabric>, snapshot: &Snapshot) {
        if let Some(change) = self.state.follow(before, snapshot) {
            self.push(at_unix_ms, Kind::Change, &change.encode_to_vec());
        }
    }

    fn push(&mut self, at_unix_ms: u64, kind: Kind, payload: &[u8]) {
        if payload.len() > frame::MAX_PAYLOAD {
            tracing::error!(
                bytes = payload.len(),
                limit = frame::MAX_PAYLOAD,
                "a record is too long for the history and is left out of it"
            );
            return;
        }
        let frames = &mut self.unwritten.frames;
        frame::encode(self.next, at_unix_ms, kind, payload, frames);
        self.next += 1;
        let (from, to) = self.unwritten.span.unwrap_or((at_unix_ms, at_unix_ms));
        self.unwritten.span = Some((from.min(at_unix_ms), to.max(at_unix_ms)));
    }

    /// Writes all waiting records. They are durable when the method returns.
    ///
    /// # Errors
    /// A file cannot be created or written. The records then wait for the next call, and the disk
    /// has all earlier records.
    pub fn write(&mut self, now_unix_ms: u64) -> Result<(), StoreError> {
        if self.is_written() {
            return Ok(());
        }
        self.remove_old(now_unix_ms)?;
        let begins = self.unwritten.begins;
        let mut current = match (self.current.take(), begins) {
            (Some(current), None) if is_at(&current.file, &current.path) => current,
            (_, begins) => self.create(begins, now_unix_ms)?,
        };
        let written = self.disk.run(FileOperation::Append, &current.path, || {
            current.file.write_all(&self.unwritten.frames)
        });
        let written = written.and_then(|()| {
            self.disk.run(FileOperation::Sync, &current.path, || {
                current.file.sync_data()
            })
        });
        if written.is_err() {
            // If this fails as well, readers skip the incomplete record.
            let _ = current.file.set_len(current.bytes);
        } else {
            current.bytes += self.unwritten.frames.len() as u64;
            let span = self.unwritten.span;
            self.segments.grow(&current.path, current.bytes, span);
            self.unwritten = Unwritten::default();
        }
        // An empty segment, created for records that could not be written, is still new.
        let is_empty = current.bytes == 0;
        self.current = Some(current);
        if written.is_err() && is_empty {
            self.drop_empty();
        }
        written
    }

    /// Removes the new segment if it got no record; the next attempt creates it again.
    fn drop_empty(&mut self) {
        if let Some(current) = self.current.take() {
            self.segments.remove_last();
            let _ = fs::remove_file(&current.path);
        }
    }

    fn create(
        &mut self,
        begins: Option<(u64, u64, u64)>,
        now_unix_ms: u64,
    ) -> Result<Current, StoreError> {
        // If the last attempt failed after the base, the segment begins with the waiting records,
        // without a base.
        let (first, began_unix_ms, base) = begins.unwrap_or((self.next, now_unix_ms, 0));
        let path = self.dir.join(format!("segment-{first:016x}.log"));
        // The folder may have been removed meanwhile.
        self.disk.create_dir(&self.dir)?;
        let file = self.open_segment(&path, 0)?;
        self.disk.sync(&self.dir)?;
        self.segments.add(Segment {
            path: path.clone(),
            first,
            began_unix_ms: Some(began_unix_ms),
            bytes: 0,
            span: None,
        });
        Ok(Current {
            path,
            file,
            bytes: 0,
            base,
            began_unix_ms,
        })
    }

    /// Removes the oldest segments beyond the bounds.
    fn remove_old(&mut self, now_unix_ms: u64) -> Result<(), StoreError> {
        let oldest = match self.is_clock_trusted {
            true => now_unix_ms.saturating_sub(u64::from(self.bounds.days) * DAY_MS),
            false => 0,
        };
        let added = self.unwritten.frames.len() as u64;
        while let Some((path, ended)) = self.segments.oldest() {
            let is_old = ended.is_some_and(|ended| ended < oldest);
            if !is_old && self.segments.bytes() + added <= self.bounds.bytes {
                break;
            }
            if self
                .current
                .as_ref()
                .is_some_and(|current| current.path == path)
            {
                break;
            }
            let bytes = self.disk.read(&path)?.unwrap_or_default();
            let folder = (self.dir.as_path(), &self.disk);
            let actions = self.segments.operator_actions();
            let actions = actions.with_segment(&bytes, oldest, self.bounds.bytes, folder)?;
            self.segments.set_operator_actions(actions);
            self.disk.remove_file(&path)?;
            self.segments.remove_first();
        }
        Ok(())
    }
}

/// Record number in the name of a segment; `None` for other names.
fn first_number(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    let digits = name.strip_prefix("segment-")?.strip_suffix(".log")?;
    let is_number = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number.then(|| u64::from_str_radix(digits, 16).ok())?
}

/// Describes a segment of an earlier run, of which only the first bytes are read.
fn segment_of_earlier_run(disk: &Disk, path: PathBuf, first: u64) -> Result<Segment, StoreError> {
    let (bytes, head) = disk.run(FileOperation::Read, &path, || {
        let file = File::open(&path)?;
        let bytes = file.metadata()?.len();
        let mut head = Vec::new();
        file.take(frame::HEADER as u64).read_to_end(&mut head)?;
        Ok::<_, io::Error>((bytes, head))
    })?;
    Ok(Segment {
        path,
        first,
        began_unix_ms: frame::time_of(&head),
        bytes,
        span: None,
    })
}
