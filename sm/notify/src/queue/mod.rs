//! Queue of the events of one receiver: on the disk, of bounded size, and kept over restarts.
//!
//! ```text
//! DIR/queue-NNNNNNNNNNNNNNNN   records; NNNN: the number of the first one, hexadecimal
//! DIR/taken                    number of the last record that the receiver has taken
//! ```
//!
//! Records wait in memory only while the disk does not take them. A segment takes at most an eighth
//! of the bound, and is removed as a whole: once the receiver has taken its records, or to make
//! room for newer ones. If the process is killed, no record is lost, but the receiver may get the
//! last records twice.

mod files;
mod frame;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use rsm_proto::v1;

pub use self::files::{Files, Folder};
use crate::source::Record;

/// Maximum number of records that wait in memory while the disk takes none: 8 MB at about 500 bytes
/// each.
pub const MEMORY_MAX: usize = 16_384;

/// Number of segments of maximum size within the bound.
const SEGMENTS: u64 = 8;

/// Name of the file with the number of the last record that the receiver has taken.
const TAKEN: &str = "taken";

/// A file with records of consecutive numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    /// Number of the first record.
    first: u64,
    /// Number of the last record.
    last: u64,
    /// Size of the file, in bytes.
    bytes: u64,
}

impl Segment {
    /// Name of the file.
    fn name(&self) -> String {
        segment_name(self.first)
    }

    /// Number of records whose number is greater than `taken`.
    fn waiting(&self, taken: u64) -> u64 {
        let end = self.last.saturating_add(1);
        end.saturating_sub(self.first.max(taken + 1))
    }
}

/// Name of the segment whose first record has number `first`.
fn segment_name(first: u64) -> String {
    format!("queue-{first:016x}")
}

/// Number of the first record of the segment with this name; `None` for the name of another file.
fn first_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("queue-")?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok())?
}

/// The queue.
#[derive(Debug)]
pub struct Queue<F> {
    /// The disk; `None` to keep all records in memory.
    files: Option<F>,
    /// Maximum size of the segments, in bytes.
    bound: u64,
    /// Segments on the disk, oldest first.
    segments: VecDeque<Segment>,
    /// Whether the last segment takes no more records, because its end may be torn.
    is_sealed: bool,
    /// Records of consecutive numbers that are not on the disk.
    memory: VecDeque<Record>,
    /// Number of the next record.
    next: u64,
    /// Number of the last record that the receiver has taken.
    taken: u64,
    /// Number of lost records since the queue was opened.
    lost: u64,
}

impl<F: Files> Queue<F> {
    /// Creates an empty queue without a disk.
    pub fn in_memory_only() -> Queue<F> {
        Queue {
            files: None,
            bound: 0,
            segments: VecDeque::new(),
            is_sealed: true,
            memory: VecDeque::new(),
            next: 1,
            taken: 0,
            lost: 0,
        }
    }

    /// Takes over the records in the memory of `other`, which is empty afterwards, and its count of
    /// lost records.
    ///
    /// # Errors
    /// The disk does not take the records: they wait in memory.
    pub fn adopt(&mut self, other: &mut Queue<F>) -> io::Result<()> {
        self.lost += std::mem::take(&mut other.lost);
        for record in other.memory.drain(..) {
            self.memory.push_back(Record {
                number: self.next,
                ..record
            });
            self.next += 1;
        }
        self.flush()
    }

    /// Opens the queue with at most `bound` bytes on the disk. Damaged records, and those after
    /// them in their segment, are skipped and count as lost; only those after the last record that
    /// can be read have no number, and are not counted.
    ///
    /// # Errors
    /// The files cannot be read.
    pub fn open(files: Option<F>, bound: u64) -> io::Result<Queue<F>> {
        let mut queue = Queue::in_memory_only();
        queue.bound = bound;
        let Some(files) = files else {
            return Ok(queue);
        };
        queue.taken = match files.read(TAKEN)? {
            Some(bytes) => frame::read_number(&bytes).unwrap_or(0),
            None => 0,
        };
        let mut names: Vec<String> = files.list()?;
        names.retain(|name| first_of(name).is_some());
        names.sort();
        // Number after the last record of the previous segment, even if that one is damaged.
        let mut expected = None;
        for name in names {
            let bytes = files.read(&name)?.unwrap_or_default();
            let numbers: Vec<u64> = frame::records(&bytes).map(|record| record.number).collect();
            let ends = numbers.first().zip(numbers.last());
            let Some((&first, &last)) = ends.filter(|(first, _)| first_of(&name) == Some(**first))
            else {
                tracing::warn!(
                    file = name,
                    bytes = bytes.len(),
                    "events that wait for a receiver are damaged and lost"
                );
                files.remove(&name)?;
                expected = expected.or(first_of(&name));
                continue;
            };
            let missing_from = expected.unwrap_or(first).max(queue.taken + 1);
            queue.lost += first.saturating_sub(missing_from);
            expected = Some(last.saturating_add(1));
            // An append that failed may have left records that are in the next segment as well.
            if let Some(previous) = queue.segments.back_mut() {
                previous.last = previous.last.min(first.saturating_sub(1));
            }
            queue.segments.push_back(Segment {
                first,
                last,
                bytes: bytes.len() as u64,
            });
        }
        let last = queue.segments.back().map_or(0, |segment| segment.last);
        queue.next = last.max(queue.taken) + 1;
        queue.files = Some(files);
        queue.drop_taken()?;
        queue.make_room(0)?;
        Ok(queue)
    }

    /// Sets the bound. A lower bound drops the oldest records.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn set_bound(&mut self, bound: u64) -> io::Result<()> {
        self.bound = bound;
        self.make_room(0)
    }

    /// Adds events of the run `run`, and writes them to the disk.
    ///
    /// # Errors
    /// The disk does not take the events: they wait in memory, and [`flush`](Queue::flush) tries
    /// again.
    pub fn put(
        &mut self,
        run: u64,
        events: impl IntoIterator<Item = Arc<v1::Event>>,
    ) -> io::Result<()> {
        for event in events {
            if self.memory.len() == MEMORY_MAX {
                self.memory.pop_front();
                self.lost += 1;
            }
            self.memory.push_back(Record {
                number: self.next,
                run,
                event,
            });
            self.next += 1;
        }
        self.flush()
    }

    /// Writes the records in memory to the disk.
    ///
    /// # Errors
    /// The disk does not take all records.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.files.is_none() {
            return Ok(());
        }
        while !self.memory.is_empty() {
            self.flush_some()?;
        }
        Ok(())
    }

    /// Writes as many records from memory as fit into one segment.
    fn flush_some(&mut self) -> io::Result<()> {
        let Some(files) = &self.files else {
            return Ok(());
        };
        let most = self.bound / SEGMENTS;
        let mut bytes = Vec::new();
        let mut count = 0;
        for record in &self.memory {
            let before = bytes.len();
            frame::encode(record, &mut bytes);
            if bytes.len() as u64 > most {
                bytes.truncate(before);
                break;
            }
            count += 1;
        }
        let Some(first) = self.memory.front().map(|record| record.number) else {
            return Ok(());
        };
        if count == 0 {
            // The first record is longer than a segment may be.
            self.memory.pop_front();
            self.lost += 1;
            return Ok(());
        }
        let last = first + count - 1;
        let length = bytes.len() as u64;
        let open = self.segments.back().filter(|segment| {
            !self.is_sealed && segment.last + 1 == first && segment.bytes + length <= most
        });
        let name = open.map_or_else(|| segment_name(first), Segment::name);
        let is_new = open.is_none();
        if is_new {
            // An earlier attempt may have left a file.
            files.remove(&name)?;
        }
        self.make_room(length)?;
        // `make_room` may have removed the segment to append to.
        let is_new = is_new || self.segments.is_empty();
        let name = if is_new { segment_name(first) } else { name };
        let Some(files) = &self.files else {
            return Ok(());
        };
        if let Err(error) = files.append(&name, &bytes) {
            self.is_sealed = true;
            match self.segments.back_mut().filter(|_| !is_new) {
                // The file may contain some of the bytes.
                Some(segment) => segment.bytes += length,
                // The next attempt removes the remains of this one.
                None => drop(files.remove(&name)),
            }
            return Err(error);
        }
        self.is_sealed = false;
        match self.segments.back_mut().filter(|_| !is_new) {
            Some(segment) => {
                segment.last = last;
                segment.bytes += length;
            }
            None => self.segments.push_back(Segment {
                first,
                last,
                bytes: length,
            }),
        }
        let flushed = usize::try_from(count).unwrap_or(usize::MAX);
        self.memory.drain(..flushed.min(self.memory.len()));
        Ok(())
    }

    /// Removes the oldest segments until `length` more bytes fit.
    fn make_room(&mut self, length: u64) -> io::Result<()> {
        while self.bytes() + length > self.bound {
            let (Some(files), Some(oldest)) = (&self.files, self.segments.front()) else {
                return Ok(());
            };
            files.remove(&oldest.name())?;
            self.lost += oldest.waiting(self.taken);
            self.segments.pop_front();
        }
        Ok(())
    }

    /// The oldest waiting records, at most `most`.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn peek(&mut self, most: usize) -> io::Result<Vec<Record>> {
        let mut found = Vec::new();
        // A segment whose file another program removed or changed: its index, and whether none of
        // its records can be read.
        let mut damaged = None;
        if let Some(files) = &self.files {
            for (index, segment) in self.segments.iter().enumerate() {
                if found.len() == most {
                    break;
                }
                let bytes = files.read(&segment.name())?.unwrap_or_default();
                let before = found.len();
                let waiting = frame::records(&bytes)
                    .filter(|record| record.number > self.taken && record.number <= segment.last);
                found.extend(waiting.take(most - found.len()));
                let last_read = found[before..].last().map(|record: &Record| record.number);
                let is_whole = segment.waiting(self.taken) == 0 || last_read == Some(segment.last);
                if found.len() < most && !is_whole {
                    damaged = Some((index, found.len() == before));
                    break;
                }
            }
        }
        match damaged {
            None => {
                let room = most - found.len();
                found.extend(self.memory.iter().take(room).cloned());
            }
            // The receiver gets the readable records first; the others are lost after that.
            Some((_, false)) => {}
            Some((index, true)) => {
                if let Some(segment) = self.segments.remove(index) {
                    self.lost += segment.waiting(self.taken);
                }
            }
        }
        Ok(found)
    }

    /// Drops the records up to `number`, which the receiver has taken.
    ///
    /// # Errors
    /// The disk does not take the number: after a restart the receiver gets these records again.
    pub fn take(&mut self, number: u64) -> io::Result<()> {
        self.taken = self.taken.max(number);
        while self
            .memory
            .front()
            .is_some_and(|record| record.number <= number)
        {
            self.memory.pop_front();
        }
        let written = match &self.files {
            Some(files) => files.replace(TAKEN, &frame::number(self.taken)),
            None => Ok(()),
        };
        self.drop_taken()?;
        written
    }

    /// Removes the segments that the receiver has taken completely.
    fn drop_taken(&mut self) -> io::Result<()> {
        while let (Some(files), Some(oldest)) = (&self.files, self.segments.front()) {
            if oldest.waiting(self.taken) > 0 {
                break;
            }
            files.remove(&oldest.name())?;
            self.segments.pop_front();
        }
        Ok(())
    }

    /// Drops all records and their files, without counting them as lost.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn clear(&mut self) -> io::Result<()> {
        self.memory.clear();
        self.take(self.next - 1)
    }

    /// Counts `number` more records as lost.
    pub fn count_lost(&mut self, number: u64) {
        self.lost += number;
    }

    /// Number of waiting records.
    pub fn waiting(&self) -> u64 {
        let on_disk: u64 = self
            .segments
            .iter()
            .map(|segment| segment.waiting(self.taken))
            .sum();
        on_disk + self.memory.len() as u64
    }

    /// Number of waiting records that are only in memory.
    pub fn in_memory(&self) -> usize {
        self.memory.len()
    }

    /// Number of records lost to the receiver since the queue was opened.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Size of the segments, in bytes.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }
}

#[cfg(test)]
mod tests;
