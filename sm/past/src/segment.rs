//! Segments: files with successive steps of a tier, and with port tables.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rsm_store::StoreError;
use rsm_store::io::{Disk, FileOperation};

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
    /// Path of the file.
    pub(crate) path: PathBuf,
    /// Length of the complete records, in bytes. The file is longer if a failed write left a part
    /// of a record.
    pub(crate) bytes: u64,
    /// Number of steps.
    pub(crate) steps: usize,
    /// Time of the earliest reading, in milliseconds since the Unix epoch; [`u64::MAX`] without
    /// steps.
    pub(crate) from: u64,
    /// Time of the latest reading, in the same unit; 0 without steps.
    pub(crate) until: u64,
}

impl Segment {
    /// Creates a segment without steps.
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

    /// Reads the segment of an existing file; `None` if the file is absent or another program wrote
    /// it.
    pub(crate) fn open_existing(
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
            .has_our_magic()
            .map_err(|error| read_error(&segment.path, error))?
        {
            return Ok(None);
        }
        while let Some(item) = frames
            .next()
            .map_err(|error| read_error(&segment.path, error))?
        {
            if let Item::Step(step) = item {
                segment.count_step(step.head.from, step.head.until);
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
    pub(crate) fn count_step(&mut self, from: u64, until: u64) {
        self.steps += 1;
        (self.from, self.until) = (self.from.min(from), self.until.max(until));
    }
}

/// The error of a file that cannot be read.
pub(crate) fn read_error(path: &Path, source: io::Error) -> StoreError {
    StoreError::Io {
        operation: FileOperation::Read,
        path: path.to_owned(),
        source,
    }
}

/// A port table or a step of a segment.
pub(crate) enum Item {
    /// Encoded entries of the port table.
    PortTable(Vec<u8>),
    /// A step.
    Step(Box<Step>),
}

/// A step of a segment, whose chunks are read on demand.
pub(crate) struct Step {
    /// Head of the step.
    pub(crate) head: Head,
    /// Offset of the first chunk in the file, in bytes.
    chunks_at: u64,
}

/// Reads the frames of a file in order, and skips damaged ones.
pub(crate) struct Frames {
    file: File,
    /// Offset of the next frame, in bytes.
    at: u64,
    /// Length of the part of the file to read, in bytes.
    end: u64,
    /// Number of damaged bytes so far.
    damaged: u64,
}

impl Frames {
    /// Opens a file. If `bytes` is given, only that many bytes are read from its beginning. Returns
    /// `None` if the file is absent.
    pub(crate) fn open(
        disk: &Disk,
        path: &Path,
        bytes: Option<u64>,
    ) -> Result<Option<Frames>, StoreError> {
        disk.run(FileOperation::Read, path, || {
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
    fn has_our_magic(&self) -> io::Result<bool> {
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
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// The next port table or step; `None` at the end of the file.
    pub(crate) fn next(&mut self) -> io::Result<Option<Item>> {
        while self.at < self.end {
            // Most heads are shorter than this.
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
                Some(Kind::PortTable) => return Ok(Some(Item::PortTable(payload.to_vec()))),
                Some(Kind::Head) => {
                    let Some(head) = head::decode(payload) else {
                        continue;
                    };
                    let chunks_at = self.at;
                    let entries = head.chunk_entries.iter();
                    let lengths = entries.map(|entry| u64::from(entry.length));
                    let end = lengths.fold(self.at, u64::saturating_add);
                    // If the file ends before the last chunk, the search for frames continues after
                    // the head.
                    if end <= self.end {
                        self.at = end;
                    }
                    return Ok(Some(Item::Step(Box::new(Step { head, chunks_at }))));
                }
                // The frame is a chunk whose head is lost, or has a kind of a later version.
                Some(Kind::Chunk) | None => {}
            }
        }
        Ok(None)
    }

    /// Advances to the next magic, or to the end, and counts the skipped bytes as damaged.
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
            let skipped = bytes.len().saturating_sub(3);
            self.at = if skipped == 0 {
                self.end
            } else {
                self.at + skipped as u64
            };
        }
        self.damaged += self.at - begin;
        Ok(())
    }

    /// Columns of the chunk with this number; `None` if the step lacks the chunk because none of
    /// its ports was read, or if the chunk is damaged. Traffic is left out unless `with_traffic`.
    pub(crate) fn columns(
        &self,
        step: &Step,
        chunk: usize,
        with_traffic: bool,
    ) -> io::Result<Option<Columns>> {
        let mut at = step.chunks_at;
        for entry in &step.head.chunk_entries {
            if usize::from(entry.chunk) == chunk {
                let max_length = frame::HEADER + frame::MAX_PAYLOAD;
                let bytes = self.read(at, max_length.min(entry.length as usize))?;
                let decoded = frame::decode(&bytes);
                let chunk = decoded.filter(|(kind, _)| *kind == Some(Kind::Chunk));
                return Ok(chunk.and_then(|(_, payload)| chunk::decode(payload, with_traffic)));
            }
            at = at.saturating_add(entry.length.into());
        }
        Ok(None)
    }
}
