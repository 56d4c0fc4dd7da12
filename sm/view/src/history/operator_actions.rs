//! Log of operator actions: keeps the records of operator actions after the history segments that
//! held them are removed.
//!
//! Links that flap fill the history. The bound of bytes then removes segments, and with them the
//! record of who drained a switch last week. Before a segment is removed, its actions are therefore
//! copied to a file of their own, with their record numbers: `DIR/history/acts.log`, which contains
//! frames as a segment does. The file has its own bound, and is small enough to be kept in memory.
//!
//! This log is part of the history, and contains only actions that the history recorded. The audit
//! log (`rsm_api`, `access::audit`) is a different file: it has each request to the API, reading
//! requests included, with its identity and verdict.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message as _;
use rsm_api::{is_operator_action, v1};
use rsm_store::StoreError;
use rsm_store::io::Disk;

use super::frame::{self, Frame, Frames, Kind};

/// File name in the history folder.
const NAME: &str = "acts.log";

/// Inverse of the share of the history's bytes that the log may take.
const SHARE: u64 = 32;

/// Maximum size of the log in bytes, enough for about 30,000 actions. The whole log is in memory,
/// and each query reads all of it.
const MAX_BYTES: u64 = 8 << 20;

/// Operator actions from removed segments.
#[derive(Clone, Debug, Default)]
pub(super) struct OperatorActionLog {
    /// Whole frames, in ascending order of record number.
    frames: Arc<Vec<u8>>,
}

impl OperatorActionLog {
    /// Reads the log in `dir`. Skips damaged records, and logs that they are lost.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn open(dir: &Path, disk: &Disk) -> Result<OperatorActionLog, StoreError> {
        let path = path(dir);
        let bytes = disk.read(&path)?.unwrap_or_default();
        let mut frames = Frames::of(&bytes);
        let mut whole = Vec::new();
        for frame in frames.by_ref() {
            encode_action(&frame, &mut whole);
        }
        let damaged = frames.damaged() + frames.torn();
        if damaged > 0 {
            tracing::warn!(
                path = %path.display(),
                bytes = damaged,
                "some operator actions in the history are damaged and lost; all others are kept"
            );
        }
        Ok(OperatorActionLog {
            frames: Arc::new(whole),
        })
    }

    /// Whether `path` has the name of the log's file.
    pub(super) fn is_file(path: &Path) -> bool {
        path.file_name().is_some_and(|name| name == NAME)
    }

    /// Size of the log, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Number of the last action's record; 0 if there is none.
    pub(super) fn last_number(&self) -> u64 {
        Frames::of(&self.frames)
            .last()
            .map_or(0, |frame| frame.number)
    }

    /// Actions with record numbers below `before`. Segments that still exist contain all later
    /// ones.
    pub(super) fn frames(&self, before: u64) -> impl Iterator<Item = Frame<'_>> {
        Frames::of(&self.frames).filter(move |frame| frame.number < before)
    }

    /// Returns the log with the actions of `segment`, the content of a segment about to be removed,
    /// and writes it to the disk if it has changed. Drops actions before `oldest_unix_ms`, then the
    /// oldest actions until the log takes at most `history_bytes / SHARE` and at most
    /// [`MAX_BYTES`].
    ///
    /// # Errors
    /// The file cannot be written; its earlier content stays.
    pub(super) fn with_segment(
        &self,
        segment: &[u8],
        oldest_unix_ms: u64,
        history_bytes: u64,
        (dir, disk): (&Path, &Disk),
    ) -> Result<OperatorActionLog, StoreError> {
        let last = self.last_number();
        let new = Frames::of(segment).filter(|frame| frame.number > last && holds_action(frame));
        let kept: Vec<Frame<'_>> = Frames::of(&self.frames)
            .chain(new)
            .filter(|frame| frame.at_unix_ms >= oldest_unix_ms)
            .collect();
        let limit = (history_bytes / SHARE).min(MAX_BYTES) as usize;
        let mut size = 0;
        let newest = kept.iter().rev().take_while(|frame| {
            size += frame::HEADER + frame.payload.len();
            size <= limit
        });
        let first = kept.len() - newest.count();
        let mut frames = Vec::new();
        for frame in &kept[first..] {
            encode_action(frame, &mut frames);
        }
        if frames != *self.frames {
            disk.write(&path(dir), &frames)?;
        }
        Ok(OperatorActionLog {
            frames: Arc::new(frames),
        })
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

fn encode_action(frame: &Frame<'_>, out: &mut Vec<u8>) {
    frame::encode(
        frame.number,
        frame.at_unix_ms,
        Kind::Event,
        frame.payload,
        out,
    );
}

fn holds_action(frame: &Frame<'_>) -> bool {
    frame.kind == Some(Kind::Event)
        && v1::Event::decode(frame.payload).is_ok_and(|event| is_operator_action(&event))
}
