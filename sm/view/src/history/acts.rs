//! Acts of operators, which outlast the segments that they were recorded in.
//!
//! Links that flap fill the history; the bound of bytes then removes segments, and with them who
//! drained a switch last week. So before a segment goes, its acts are copied to a file of their
//! own, with their numbers: `DIR/history/acts.log`, frames as in a segment. It has a bound of its
//! own, and is small enough to be kept in memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message as _;
use rsm_api::{is_act, v1};
use rsm_store::StoreError;
use rsm_store::io::Disk;

use super::frame::{self, Frame, Frames, Kind};

/// The name in the folder of the history.
const NAME: &str = "acts.log";

/// Parts of the bound of all bytes that acts may take.
const SHARE: u64 = 32;

/// The most bytes of acts, some 30,000 of them: what memory and each query hold.
const MOST: u64 = 8 << 20;

/// The acts of segments that are gone.
#[derive(Clone, Debug, Default)]
pub(super) struct Acts {
    /// Whole frames, by ascending number.
    frames: Arc<Vec<u8>>,
}

impl Acts {
    /// The acts in `dir`. Damage is logged, and costs the damaged records.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn open(dir: &Path, disk: &Disk) -> Result<Acts, StoreError> {
        let path = path(dir);
        let bytes = disk.read(&path)?.unwrap_or_default();
        let mut frames = Frames::of(&bytes);
        let mut whole = Vec::new();
        for frame in frames.by_ref() {
            put(&frame, &mut whole);
        }
        let damaged = frames.damaged() + frames.torn();
        if damaged > 0 {
            tracing::warn!(
                path = %path.display(),
                bytes = damaged,
                "acts of operators in the history are damaged: these are lost, the others are kept"
            );
        }
        Ok(Acts {
            frames: Arc::new(whole),
        })
    }

    /// Whether this is the name of their file.
    pub(super) fn is_file(path: &Path) -> bool {
        path.file_name().is_some_and(|name| name == NAME)
    }

    /// Bytes of all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.frames.len() as u64
    }

    /// The number of the last one; 0 for none.
    pub(super) fn last_number(&self) -> u64 {
        Frames::of(&self.frames)
            .last()
            .map_or(0, |frame| frame.number)
    }

    /// Their frames before the record of number `before`: a segment that is still there has its
    /// own.
    pub(super) fn frames(&self, before: u64) -> impl Iterator<Item = Frame<'_>> {
        Frames::of(&self.frames).filter(move |frame| frame.number < before)
    }

    /// These and those of a segment that goes, with its `bytes`, on the disk: those after
    /// `oldest_unix_ms`, and of these the newest that the bound of `all` bytes allows.
    ///
    /// # Errors
    /// The file system's; the file is as before then.
    pub(super) fn with(
        &self,
        bytes: &[u8],
        oldest_unix_ms: u64,
        all: u64,
        (dir, disk): (&Path, &Disk),
    ) -> Result<Acts, StoreError> {
        let last = self.last_number();
        let new = Frames::of(bytes).filter(|frame| frame.number > last && holds_act(frame));
        let kept: Vec<Frame<'_>> = Frames::of(&self.frames)
            .chain(new)
            .filter(|frame| frame.at_unix_ms >= oldest_unix_ms)
            .collect();
        let most = (all / SHARE).min(MOST) as usize;
        let mut size = 0;
        let newest = kept.iter().rev().take_while(|frame| {
            size += frame::HEADER + frame.payload.len();
            size <= most
        });
        let first = kept.len() - newest.count();
        let mut frames = Vec::new();
        for frame in &kept[first..] {
            put(frame, &mut frames);
        }
        if frames != *self.frames {
            disk.write(&path(dir), &frames)?;
        }
        Ok(Acts {
            frames: Arc::new(frames),
        })
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

fn put(frame: &Frame<'_>, out: &mut Vec<u8>) {
    frame::encode(
        frame.number,
        frame.at_unix_ms,
        Kind::Event,
        frame.payload,
        out,
    );
}

fn holds_act(frame: &Frame<'_>) -> bool {
    frame.kind == Some(Kind::Event)
        && v1::Event::decode(frame.payload).is_ok_and(|event| is_act(&event))
}
