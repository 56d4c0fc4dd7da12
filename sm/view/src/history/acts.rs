//! Acts of operators, kept after their segments were removed.
//!
//! Links that flap fill the history. The bound of bytes then removes segments, and with them the
//! record of who drained a switch last week. Before a segment is removed, its acts are therefore
//! copied to a file of their own, with their record numbers: `DIR/history/acts.log`, which contains
//! frames as a segment does. The file has its own bound, and is small enough to be kept in memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message as _;
use rsm_api::{is_operator_action, v1};
use rsm_store::StoreError;
use rsm_store::io::Disk;

use super::frame::{self, Frame, Frames, Kind};

/// File name in the history folder.
const NAME: &str = "acts.log";

/// Inverse of the share of the bound of all bytes that acts may take.
const SHARE: u64 = 32;

/// Maximum size of all acts in bytes, enough for some 30,000 acts. Memory and each query hold that
/// much.
const MOST: u64 = 8 << 20;

/// Acts from removed segments.
#[derive(Clone, Debug, Default)]
pub(super) struct Acts {
    /// Whole frames, in ascending order of record number.
    frames: Arc<Vec<u8>>,
}

impl Acts {
    /// Reads the acts in `dir`. Skips damaged records, and logs that they are lost.
    ///
    /// # Errors
    /// The file cannot be read.
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

    /// Whether `path` has the name of the file of acts.
    pub(super) fn is_file(path: &Path) -> bool {
        path.file_name().is_some_and(|name| name == NAME)
    }

    /// Size of all acts, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Number of the last act's record; 0 if there is none.
    pub(super) fn last_number(&self) -> u64 {
        Frames::of(&self.frames)
            .last()
            .map_or(0, |frame| frame.number)
    }

    /// Acts with record numbers below `before`. Segments that still exist contain all later acts.
    pub(super) fn frames(&self, before: u64) -> impl Iterator<Item = Frame<'_>> {
        Frames::of(&self.frames).filter(move |frame| frame.number < before)
    }

    /// Adds the acts of a segment that is about to be removed, and writes the result to the disk.
    /// `bytes` is the segment's content. Drops acts older than `oldest_unix_ms`; of the others, the
    /// newest stay within the share of the bound of `all` bytes.
    ///
    /// # Errors
    /// The file cannot be written; its earlier content stays.
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
        && v1::Event::decode(frame.payload).is_ok_and(|event| is_operator_action(&event))
}
