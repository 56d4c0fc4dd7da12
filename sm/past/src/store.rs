//! The files of the past: readings are added up in steps, steps are written to segments, and the
//! oldest segments are removed.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use pco::errors::PcoError;
use rsm_store::StoreError;
use rsm_store::io::{Disk, FileOperation, is_at};

use crate::chunk;
use crate::frame::{self, Kind};
use crate::head::{self, ChunkEntry};
use crate::port_table::{self, Entry, PortTable};
use crate::segment::Segment;
use crate::step_accumulator::{Reading, StepAccumulator};
use crate::tier::Tier;

/// Name of the folder of the past in the state folder.
const FOLDER: &str = "past";

/// Suffix of the names of segments.
const SUFFIX: &str = ".past";

/// A segment is full when its size reaches [`Bounds::bytes`] divided by this number.
const SEGMENT_SHARE: u64 = 32;

/// Bounds of the past. Segments beyond them are removed, the oldest first, but never a segment that
/// is being written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Number of days whose steps of 15 minutes are kept, 1 or more.
    pub days: u32,
    /// Maximum size of all segments, in bytes. The largest tier loses segments first.
    pub bytes: u64,
}

/// Segments of each tier, oldest first.
type Segments = [Vec<Arc<Segment>>; Tier::ALL.len()];

/// Reads the past while another thread writes it.
#[derive(Clone, Debug)]
pub struct PastReader {
    pub(crate) disk: Disk,
    segments: Arc<RwLock<Segments>>,
}

impl PastReader {
    /// Segments of a tier, oldest first.
    pub(crate) fn segments(&self, tier: Tier) -> Vec<Arc<Segment>> {
        let segments = self.segments.read();
        segments.unwrap_or_else(PoisonError::into_inner)[tier as usize].clone()
    }

    /// Size of all segments, in bytes.
    pub fn bytes(&self) -> u64 {
        let tiers = Tier::ALL.into_iter();
        let segments = tiers.flat_map(|tier| self.segments(tier));
        segments.map(|segment| segment.bytes).sum()
    }

    /// Changes the lists of segments.
    fn change<T>(&self, change: impl FnOnce(&mut Segments) -> T) -> T {
        let segments = self.segments.write();
        change(&mut segments.unwrap_or_else(PoisonError::into_inner))
    }
}

/// A segment that is being written.
#[derive(Debug)]
struct CurrentSegment {
    segment: Segment,
    file: File,
    /// Number of the port table's entries that the segment contains.
    entries: usize,
}

/// The current step of a tier, and the segment to which it will be written.
#[derive(Debug)]
struct Writer {
    accumulator: StepAccumulator,
    /// The segment to write to; `None` if the next step begins a new one.
    current: Option<CurrentSegment>,
    /// Number of the next segment.
    next: u64,
}

/// The past of the counters in a state folder, whose lock the store holds. Only one thread writes
/// it.
#[derive(Debug)]
pub struct Past {
    dir: PathBuf,
    disk: Disk,
    bounds: Bounds,
    port_table: PortTable,
    writers: [Writer; Tier::ALL.len()],
    reader: PastReader,
}

impl Past {
    /// Opens the past in `state_dir`. Steps of earlier runs are kept; new steps are written to new
    /// segments.
    ///
    /// # Errors
    /// Fails if the folder cannot be created or listed, or if a segment cannot be read.
    pub fn open(state_dir: &Path, disk: Disk, bounds: Bounds) -> Result<Past, StoreError> {
        let dir = state_dir.join(FOLDER);
        disk.create_dir(&dir)?;
        let mut segments = Segments::default();
        let mut next = [0; Tier::ALL.len()];
        for path in disk.list(&dir)? {
            let Some((tier, number)) = number_of(&path).filter(|_| path.is_file()) else {
                warn_foreign(&path);
                continue;
            };
            next[tier as usize] = next[tier as usize].max(number + 1);
            match Segment::open_existing(&disk, number, path.clone())? {
                Some(segment) => segments[tier as usize].push(Arc::new(segment)),
                None => warn_foreign(&path),
            }
        }
        for tier in &mut segments {
            tier.sort_by_key(|segment| segment.number);
        }
        let writers = Tier::ALL.map(|tier| Writer {
            accumulator: StepAccumulator::new(tier),
            current: None,
            next: next[tier as usize],
        });
        let mut past = Past {
            dir,
            bounds,
            port_table: PortTable::default(),
            writers,
            reader: PastReader {
                disk: disk.clone(),
                segments: Arc::new(RwLock::new(segments)),
            },
            disk,
        };
        past.keep_bounds()?;
        Ok(past)
    }

    /// A reader of all written steps.
    pub fn reader(&self) -> PastReader {
        self.reader.clone()
    }

    /// Sorts readings by time, adds them, and writes the steps that they end.
    ///
    /// # Errors
    /// Fails if a step cannot be written; that step is lost, and all others are kept. The first
    /// such error is returned after all readings were added.
    pub fn add(&mut self, readings: &mut [Reading]) -> Result<(), StoreError> {
        readings.sort_by_key(|reading| reading.at_unix_ms);
        let mut result = Ok(());
        for reading in readings {
            for tier in Tier::ALL {
                if self.writers[tier as usize]
                    .accumulator
                    .is_over(reading.at_unix_ms)
                {
                    result = result.and(self.write(tier));
                }
            }
            let entry = Entry {
                key: reading.port,
                is_switch: reading.is_switch,
            };
            let number = match self.port_table.number(entry) {
                Some(number) => Some(number),
                None => {
                    result = result.and(self.begin_segments());
                    self.port_table.number(entry)
                }
            };
            let Some(number) = number else { continue };
            for writer in &mut self.writers {
                writer.accumulator.add(number, reading);
            }
        }
        result
    }

    /// Writes the steps that end before `now_unix_ms`, in milliseconds since the Unix epoch.
    /// Readings that are added later must be after that time.
    ///
    /// # Errors
    /// Fails if a step cannot be written; that step is lost, and all others are kept.
    pub fn advance(&mut self, now_unix_ms: u64) -> Result<(), StoreError> {
        let mut result = Ok(());
        for tier in Tier::ALL {
            if self.writers[tier as usize].accumulator.is_over(now_unix_ms) {
                result = result.and(self.write(tier));
            }
        }
        result
    }

    /// Writes the current step of every tier, although further readings may belong to it.
    ///
    /// # Errors
    /// Fails if a step cannot be written; that step is lost, and all others are kept.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        let written = Tier::ALL.map(|tier| self.write(tier));
        written.into_iter().collect()
    }

    /// Begins new segments with an empty port table, because the table is full.
    fn begin_segments(&mut self) -> Result<(), StoreError> {
        let result = self.flush();
        self.port_table = PortTable::default();
        for writer in &mut self.writers {
            writer.current = None;
        }
        result
    }

    /// Writes the current step of a tier, and clears it.
    fn write(&mut self, tier: Tier) -> Result<(), StoreError> {
        if self.writers[tier as usize].accumulator.is_empty() {
            return Ok(());
        }
        let result = self.append(tier);
        self.writers[tier as usize].accumulator.clear();
        result.and_then(|()| self.keep_bounds())
    }

    /// Appends the current step of a tier to the tier's last segment, or to a new segment if that
    /// one is full or has vanished.
    fn append(&mut self, tier: Tier) -> Result<(), StoreError> {
        let share = self.bounds.bytes / SEGMENT_SHARE;
        let writer = &mut self.writers[tier as usize];
        let is_unusable = |current: &CurrentSegment| {
            let segment = &current.segment;
            // If the folder was replaced, writes to the file would be lost.
            let has_vanished = !is_at(&current.file, &segment.path);
            has_vanished || segment.steps >= tier.segment_steps() || segment.bytes >= share
        };
        if writer.current.as_ref().is_none_or(is_unusable) {
            let begun = begin_segment(&self.disk, &self.dir, tier, &mut writer.next)?;
            writer.current = Some(begun);
        }
        let Some(current) = &mut writer.current else {
            return Ok(());
        };
        let mut bytes = Vec::new();
        let new = &self.port_table.entries()[current.entries..];
        if !new.is_empty() {
            let entries = port_table::encode(current.entries, new);
            frame::encode(Kind::PortTable, &entries, &mut bytes);
        }
        encode(&writer.accumulator, &mut bytes).map_err(|error| StoreError::Io {
            operation: FileOperation::Append,
            path: current.segment.path.clone(),
            source: io::Error::other(error),
        })?;
        let (path, file) = (&current.segment.path, &mut current.file);
        let written = self
            .disk
            .run(FileOperation::Append, path, || file.write_all(&bytes));
        if let Err(error) = written {
            // The next step must not follow a part of this step that has reached the disk.
            if current.segment.steps == 0 || file.set_len(current.segment.bytes).is_err() {
                let path = path.clone();
                let is_empty = current.segment.steps == 0;
                writer.current = None;
                if is_empty {
                    // The next step begins another segment, even if this one cannot be removed.
                    let _ = self.disk.remove_file(&path);
                }
            }
            return Err(error);
        }
        current.entries = self.port_table.len();
        current.segment.bytes += bytes.len() as u64;
        current
            .segment
            .count_step(writer.accumulator.from, writer.accumulator.until);
        let segment = Arc::new(current.segment.clone());
        self.reader.change(|segments| {
            let of_tier = &mut segments[tier as usize];
            of_tier.pop_if(|last| last.number == segment.number);
            of_tier.push(segment);
        });
        Ok(())
    }

    /// Removes the oldest segments beyond the bounds.
    fn keep_bounds(&mut self) -> Result<(), StoreError> {
        let (bounds, segments) = (self.bounds, self.reader.clone());
        let current = |tier: Tier| self.writers[tier as usize].current.as_ref();
        let is_current = |tier: Tier, segment: &Segment| {
            current(tier).is_some_and(|current| current.segment.number == segment.number)
        };
        let removed = segments.change(|segments| {
            let mut removed = Vec::new();
            for tier in Tier::ALL {
                let of_tier = &mut segments[tier as usize];
                let mut steps: usize = of_tier.iter().map(|segment| segment.steps).sum();
                while let Some(oldest) = of_tier.first()
                    && !is_current(tier, oldest)
                    && steps - oldest.steps >= tier.kept_steps(bounds.days)
                {
                    steps -= oldest.steps;
                    removed.push((tier, of_tier.remove(0)));
                }
            }
            let bytes = |of: &Vec<Arc<Segment>>| of.iter().map(|one| one.bytes).sum::<u64>();
            while segments.iter().map(bytes).sum::<u64>() > bounds.bytes {
                let removable = |tier: &Tier| {
                    let oldest = segments[*tier as usize].first();
                    oldest.is_some_and(|oldest| !is_current(*tier, oldest))
                };
                let tiers = Tier::ALL.into_iter().filter(removable);
                let Some(tier) = tiers.max_by_key(|&tier| bytes(&segments[tier as usize])) else {
                    break;
                };
                removed.push((tier, segments[tier as usize].remove(0)));
            }
            removed
        });
        let mut failure = None;
        for (tier, segment) in removed.into_iter().rev() {
            if let Err(error) = self.disk.remove_file(&segment.path) {
                // The segment still counts, and is removed after the next step.
                segments.change(|segments| segments[tier as usize].insert(0, segment));
                failure = Some(error);
            }
        }
        failure.map_or(Ok(()), Err)
    }
}

/// Creates the file of a new segment with number `next`, and increments `next`.
fn begin_segment(
    disk: &Disk,
    dir: &Path,
    tier: Tier,
    next: &mut u64,
) -> Result<CurrentSegment, StoreError> {
    let number = *next;
    *next += 1;
    let path = dir.join(format!("{}-{number:010}{SUFFIX}", tier.prefix()));
    let file = disk.run(FileOperation::Append, &path, || {
        OpenOptions::new().create_new(true).append(true).open(&path)
    })?;
    Ok(CurrentSegment {
        segment: Segment::new(number, path),
        file,
        entries: 0,
    })
}

/// Appends the frames of a step to `out`.
///
/// # Errors
/// Fails if the compressor refuses a column; `out` is then unchanged.
fn encode(step: &StepAccumulator, out: &mut Vec<u8>) -> Result<(), PcoError> {
    let mut chunks = Vec::new();
    let mut chunk_entries = Vec::new();
    for chunk in 0..step.seconds.len().div_ceil(chunk::PORTS) {
        let Some(columns) = chunk::encode(step, chunk)? else {
            continue;
        };
        let before = chunks.len();
        frame::encode(Kind::Chunk, &columns, &mut chunks);
        chunk_entries.push(ChunkEntry {
            chunk: chunk as u16,
            length: (chunks.len() - before) as u32,
        });
    }
    frame::encode(Kind::Head, &head::encode(step, &chunk_entries), out);
    out.append(&mut chunks);
    Ok(())
}

/// Tier and number in the name of a segment; `None` if the name is not one of a segment.
fn number_of(path: &Path) -> Option<(Tier, u64)> {
    let name = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?;
    let (prefix, number) = name.split_once('-')?;
    let tier = Tier::ALL.into_iter().find(|tier| tier.prefix() == prefix)?;
    // A number close to the highest one would leave no number for further segments.
    let number = number
        .parse()
        .ok()
        .filter(|&number| number < u64::MAX / 2)?;
    Some((tier, number))
}

/// Logs that a file in the folder is not a segment.
fn warn_foreign(path: &Path) {
    tracing::warn!(
        path = %path.display(),
        "this is no segment of the past of the counters: it stays, and is not read"
    );
}
