//! Segments: files of steps.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rsm_store::StoreError;
use rsm_store::io::{Disk, Operation};

use crate::chunk::{self, Columns};
use crate::frame::{self, Kind};
use crate::head::{self, Head};

/// Number of bytes read at once in a search for a frame.
const WINDOW: usize = 64 << 10;

/// A file of steps, with its number, sizes and times.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    /// Number of the segment; numbers ascend within a tier.
    pub(crate) number: u64,
    pub(crate) path: PathBuf,
    /// Length of the whole records, in bytes.
    pub(crate) bytes: u64,
    pub(crate) steps: usize,
    /// Time of the earliest reading, in milliseconds since the Unix epoch; `until` is the time of
    /// the latest reading.
    pub(crate) from: u64,
    pub(crate) until: u64,
}

impl Segment {
    pub(crate) fn new(number: u64, path: PathBuf) -> Segment {
        Segment {
            number,
            path,
            bytes: 0,
            steps: 0,
            from: u64::MAX,
            until: 0,
        }
    }

    /// Finds the steps of a file; `None` if another program wrote the file.
    pub(crate) fn found(
        disk: &Disk,
        number: u64,
        path: PathBuf,
    ) -> Result<Option<Segment>, StoreError> {
        let mut segment = Segment::new(number, path);
        let Some(mut frames) = Frames::open(disk, &segment.path, None)? else {
            return Ok(None);
        };
        segment.bytes = frames.end;
        if !frames
            .is_ours()
            .map_err(|error| unread(&segment.path, error))?
        {
            return Ok(None);
        }
        while let Some(item) = frames
            .next()
            .map_err(|error| unread(&segment.path, error))?
        {
            if let Item::Step(step) = item {
                segment.note(step.head.from, step.head.until);
            }
        }
        if frames.damaged > 0 {
            tracing::warn!(
                path = %segment.path.display(),
                bytes = frames.damaged,
                "the past of the counters is damaged here: these steps are lost, the others are kept"
            );
        }
        Ok(Some(segment))
    }

    /// Counts a further step, with readings from `from` until `until`.
    pub(crate) fn note(&mut self, from: u64, until: u64) {
        self.steps += 1;
        (self.from, self.until) = (self.from.min(from), self.until.max(until));
    }
}

pub(crate) fn unread(path: &Path, source: io::Error) -> StoreError {
    StoreError::Io {
        operation: Operation::Read,
        path: path.to_owned(),
        source,
    }
}

/// Record of a segment.
pub(crate) enum Item {
    /// Encoded entries of the roster.
    Roster(Vec<u8>),
    Step(Box<Step>),
}

/// Step of a segment.
pub(crate) struct Step {
    pub(crate) head: Head,
    /// Place of the first chunk in the file.
    chunks_at: u64,
}

/// Reads the records of a file in order. Skips damage.
pub(crate) struct Frames {
    file: File,
    at: u64,
    end: u64,
    /// Number of damaged bytes so far.
    damaged: u64,
}

impl Frames {
    /// Opens a file, and limits the reading to the first `bytes` bytes, if given; `None` if the
    /// file is absent.
    pub(crate) fn open(
        disk: &Disk,
        path: &Path,
        bytes: Option<u64>,
    ) -> Result<Option<Frames>, StoreError> {
        disk.run(Operation::Read, path, || {
            let file = match File::open(path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            let length = file.metadata()?.len();
            Ok(Some(Frames {
                file,
                at: 0,
                end: bytes.map_or(length, |bytes| bytes.min(length)),
                damaged: 0,
            }))
        })
    }

    /// Whether the file is empty, or begins with a frame's magic or a part of it.
    fn is_ours(&self) -> io::Result<bool> {
        let begin = self.read(0, frame::MAGIC.len())?;
        Ok(frame::MAGIC.starts_with(&begin))
    }

    /// Up to `length` bytes from `at` on; fewer at the end of the file.
    fn read(&self, at: u64, length: usize) -> io::Result<Vec<u8>> {
        let left = self.end.saturating_sub(at);
        let mut bytes = vec![0; usize::try_from(left).map_or(length, |left| left.min(length))];
        let mut filled = 0;
        while filled < bytes.len() {
            match self.file.read_at(&mut bytes[filled..], at + filled as u64) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// The next roster or step; `None` at the end of the file.
    pub(crate) fn next(&mut self) -> io::Result<Option<Item>> {
        while self.at < self.end {
            // Most heads are in the first bytes of a reading.
            let mut bytes = self.read(self.at, 4096)?;
            let length = frame::length_of(&bytes).map(|length| frame::HEADER + length);
            if let Some(length) = length.filter(|&length| length > bytes.len()) {
                bytes = self.read(self.at, length)?;
            }
            let Some((kind, payload)) = frame::decode(&bytes) else {
                self.skip_damage()?;
                continue;
            };
            self.at += (frame::HEADER + payload.len()) as u64;
            match kind {
                Some(Kind::Roster) => return Ok(Some(Item::Roster(payload.to_vec()))),
                Some(Kind::Head) => {
                    let Some(head) = head::decode(payload) else {
                        continue;
                    };
                    let chunks_at = self.at;
                    let lengths = head.places.iter().map(|place| u64::from(place.length));
                    let end = lengths.fold(self.at, u64::saturating_add);
                    // If chunks are missing, the search for frames goes on after the gap.
                    if end <= self.end {
                        self.at = end;
                    }
                    return Ok(Some(Item::Step(Box::new(Step { head, chunks_at }))));
                }
                // The frame is a chunk whose head is lost, or of a later version.
                Some(Kind::Chunk) | None => {}
            }
        }
        Ok(None)
    }

    /// Continues at the next magic.
    fn skip_damage(&mut self) -> io::Result<()> {
        let begin = self.at;
        self.at += 1;
        while self.at < self.end {
            let bytes = self.read(self.at, WINDOW)?;
            let magic = bytes.windows(4).position(|four| four == frame::MAGIC);
            if let Some(magic) = magic {
                self.at += magic as u64;
                break;
            }
            // The last three bytes may be the beginning of a magic.
            let passed = bytes.len().saturating_sub(3);
            self.at = if passed == 0 {
                self.end
            } else {
                self.at + passed as u64
            };
        }
        self.damaged += self.at - begin;
        Ok(())
    }

    /// Columns of a step's chunk; `None` if no port of the chunk was read, or the chunk is damaged.
    pub(crate) fn columns(
        &self,
        step: &Step,
        chunk: usize,
        with_traffic: bool,
    ) -> io::Result<Option<Columns>> {
        let mut at = step.chunks_at;
        for place in &step.head.places {
            if usize::from(place.chunk) == chunk {
                let most = frame::HEADER + frame::MAX_PAYLOAD;
                let bytes = self.read(at, most.min(place.length as usize))?;
                let decoded = frame::decode(&bytes);
                let chunk = decoded.filter(|(kind, _)| *kind == Some(Kind::Chunk));
                return Ok(chunk.and_then(|(_, payload)| chunk::decode(payload, with_traffic)));
            }
            at = at.saturating_add(place.length.into());
        }
        Ok(None)
    }
}
