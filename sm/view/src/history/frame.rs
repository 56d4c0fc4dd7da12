//! Encoding of a record on the disk.
//!
//! ```text
//! magic (4) length (4) checksum (8) number (8) time (8) kind (1) payload
//! ```
//!
//! All numbers are big-endian, and the numbers in parentheses are lengths in bytes. The length
//! field counts the payload; the checksum covers everything except the magic and itself.

use rsm_store::Checksum;

/// First bytes of a frame, which identify the version of the format.
const MAGIC: [u8; 4] = *b"rsH1";

/// Length of a frame before its payload, in bytes.
pub const HEADER: usize = 4 + 4 + 8 + 8 + 8 + 1;

/// Maximum length of a payload in bytes: about ten times the length of the state of 45,056 hosts. A
/// greater length indicates damage.
pub const MAX_PAYLOAD: usize = 64 << 20;

/// Kind of a frame's payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Event, an encoded `rsm.v1.Event`.
    Event,
    /// Whole state of the subnet, an encoded [`StateChange`](super::state::StateChange).
    Base,
    /// Change of the state, an encoded [`StateChange`](super::state::StateChange).
    Change,
}

impl Kind {
    const fn code(self) -> u8 {
        match self {
            Kind::Event => 1,
            Kind::Base => 2,
            Kind::Change => 3,
        }
    }

    const fn of(code: u8) -> Option<Kind> {
        match code {
            1 => Some(Kind::Event),
            2 => Some(Kind::Base),
            3 => Some(Kind::Change),
            _ => None,
        }
    }
}

/// A record as read from the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// Record number; numbers are consecutive over all runs.
    pub number: u64,
    /// Time of the record, in milliseconds since the Unix epoch.
    pub at_unix_ms: u64,
    /// Kind of the payload; `None` for a kind that only later versions know.
    pub kind: Option<Kind>,
    /// Encoded message.
    pub payload: &'a [u8],
}

/// Appends a frame to `out`.
pub fn encode(number: u64, at_unix_ms: u64, kind: Kind, payload: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend(MAGIC);
    // A payload has at most MAX_PAYLOAD bytes.
    out.extend((payload.len() as u32).to_be_bytes());
    out.extend([0; 8]);
    out.extend(number.to_be_bytes());
    out.extend(at_unix_ms.to_be_bytes());
    out.push(kind.code());
    out.extend(payload);
    let checksum = checksum(&out[start..]);
    out[start + 8..start + 16].copy_from_slice(&checksum.to_be_bytes());
}

/// Checksum of a frame that already has its magic and header.
fn checksum(frame: &[u8]) -> u64 {
    let covered = Checksum::new().with(&frame[4..8]);
    covered.with(&frame[16..]).value()
}

/// Decodes the frame at the beginning of `bytes`, and returns it with its length; `None` if the
/// frame is incomplete or damaged.
fn decode(bytes: &[u8]) -> Option<(Frame<'_>, usize)> {
    let (header, rest) = bytes.split_first_chunk::<HEADER>()?;
    let number = |at: usize| -> Option<u64> {
        let bytes = header.get(at..at + 8)?;
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    };
    let length = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    let length = usize::try_from(length).ok()?;
    if header[..4] != MAGIC || length > MAX_PAYLOAD {
        return None;
    }
    let payload = rest.get(..length)?;
    let whole = &bytes[..HEADER + length];
    if checksum(whole) != number(8)? {
        return None;
    }
    let frame = Frame {
        number: number(16)?,
        at_unix_ms: number(24)?,
        kind: Kind::of(header[32]),
        payload,
    };
    Some((frame, whole.len()))
}

/// Time in the header of a frame, in milliseconds since the Unix epoch, without a check of the
/// checksum, because the payload may be missing. `None` for bytes that are no header.
pub(crate) fn time_of(header: &[u8]) -> Option<u64> {
    let bytes = header.strip_prefix(&MAGIC)?.get(20..28)?;
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

/// Whether a file is empty, or begins with a frame's magic or a part of it.
pub fn begins(bytes: &[u8]) -> bool {
    let length = bytes.len().min(MAGIC.len());
    bytes[..length] == MAGIC[..length]
}

/// Iterator over the whole frames of a file, in order. Skips damage.
#[derive(Debug)]
pub(crate) struct Frames<'a> {
    rest: &'a [u8],
    damaged: usize,
    /// Length in bytes of the damage found so far before the next whole frame.
    gap: usize,
}

impl<'a> Frames<'a> {
    /// Iterates over the frames in `bytes`.
    pub(crate) fn of(bytes: &'a [u8]) -> Frames<'a> {
        Frames {
            rest: bytes,
            damaged: 0,
            gap: 0,
        }
    }

    /// Number of damaged bytes between whole frames so far, without the bytes after the last frame;
    /// see [`Frames::torn`].
    pub(crate) fn damaged(&self) -> usize {
        self.damaged
    }

    /// Number of bytes after the last whole frame, once the iterator has ended: a record whose
    /// writing was interrupted, or damage.
    pub(crate) fn torn(&self) -> usize {
        self.gap
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        while !self.rest.is_empty() {
            if let Some((frame, length)) = decode(self.rest) {
                self.rest = &self.rest[length..];
                self.damaged += std::mem::take(&mut self.gap);
                return Some(frame);
            }
            let from = self.rest.get(1..).unwrap_or_default();
            let next = from.windows(MAGIC.len()).position(|four| four == MAGIC);
            let skipped = next.map_or(self.rest.len(), |at| at + 1);
            self.gap += skipped;
            self.rest = &self.rest[skipped..];
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> (Vec<u8>, Vec<usize>) {
        let mut bytes = Vec::new();
        let mut ends = vec![0];
        for number in 1..=4 {
            // A magic within a payload does not begin a frame.
            let payload = [&MAGIC[..], &[number as u8; 9]].concat();
            encode(number, 1000 + number, Kind::Event, &payload, &mut bytes);
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    fn numbers(bytes: &[u8]) -> Vec<u64> {
        Frames::of(bytes).map(|frame| frame.number).collect()
    }

    #[test]
    fn frames_are_decoded_in_order() {
        let (bytes, _) = file();
        let mut frames = Frames::of(&bytes);
        let first = frames.next().unwrap();
        assert_eq!((first.number, first.at_unix_ms), (1, 1001));
        assert_eq!(first.kind, Some(Kind::Event));
        assert_eq!(frames.by_ref().count(), 3);
        assert_eq!((frames.damaged(), frames.torn()), (0, 0));
    }

    #[test]
    fn truncated_file_yields_the_frames_before_the_cut() {
        let (bytes, ends) = file();
        for cut in 0..bytes.len() {
            let whole = ends.iter().filter(|&&end| end > 0 && end <= cut).count() as u64;
            let expected: Vec<u64> = (1..=whole).collect();
            assert_eq!(numbers(&bytes[..cut]), expected, "cut at {cut}");
        }
    }

    #[test]
    fn changed_byte_costs_only_its_own_frame() {
        let (bytes, ends) = file();
        for at in 0..bytes.len() {
            for bit in [0x01, 0x10, 0x80] {
                let mut changed = bytes.clone();
                changed[at] ^= bit;
                let lost = ends.iter().filter(|&&end| end <= at).count() as u64;
                let expected: Vec<u64> = (1..=4).filter(|&number| number != lost).collect();
                assert_eq!(numbers(&changed), expected, "bit {bit:#x} at {at}");
            }
        }
    }

    #[test]
    fn foreign_bytes_between_frames_are_counted_and_skipped() {
        let (bytes, ends) = file();
        let mut changed = bytes[..ends[2]].to_vec();
        changed.extend(b"rsH1 lines of another program\n");
        changed.extend(&bytes[ends[2]..]);
        let mut frames = Frames::of(&changed);
        assert_eq!(frames.by_ref().count(), 4);
        assert_eq!((frames.damaged(), frames.torn()), (30, 0));
    }
}
