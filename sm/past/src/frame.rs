//! Encoding of a record on the disk.
//!
//! ```text
//! magic (4) kind (1) length (4) checksum (8) payload
//! ```
//!
//! All numbers are big-endian, and the numbers in parentheses are lengths in bytes. Length is that
//! of the payload; the checksum covers kind, length and payload.

use rsm_store::Checksum;

/// First bytes of a frame; they identify the version of the format.
pub const MAGIC: [u8; 4] = *b"rsP1";

/// Length of a frame before its payload, in bytes.
pub const HEADER: usize = 4 + 1 + 4 + 8;

/// Maximum length of a payload in bytes: the port table of a million ports. A larger length
/// indicates damage.
pub const MAX_PAYLOAD: usize = 16 << 20;

/// Kind of a frame's payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Ports, in the order of the columns.
    PortTable = 1,
    /// Head of a step: its times, the sums of the fabric, and numbers and lengths of its chunks.
    Head = 2,
    /// Counts of 4,096 ports in a step.
    Chunk = 3,
}

impl Kind {
    /// The kind with this code; `None` if only later versions know it.
    const fn of(code: u8) -> Option<Kind> {
        match code {
            1 => Some(Kind::PortTable),
            2 => Some(Kind::Head),
            3 => Some(Kind::Chunk),
            _ => None,
        }
    }
}

/// Appends a frame to `out`.
pub(crate) fn encode(kind: Kind, payload: &[u8], out: &mut Vec<u8>) {
    // A payload has at most MAX_PAYLOAD bytes.
    let length = (payload.len() as u32).to_be_bytes();
    out.extend(MAGIC);
    out.push(kind as u8);
    out.extend(length);
    let sum = Checksum::new().with(&[kind as u8]).with(&length);
    out.extend(sum.with(payload).value().to_be_bytes());
    out.extend(payload);
}

/// Length of the payload of the frame with `header`; `None` if the header is damaged.
pub(crate) fn length_of(header: &[u8]) -> Option<usize> {
    let header = header.first_chunk::<HEADER>()?;
    let length = u32::from_be_bytes([header[5], header[6], header[7], header[8]]) as usize;
    (header[..4] == MAGIC && length <= MAX_PAYLOAD).then_some(length)
}

/// Decodes the frame at the beginning of `bytes`; `None` if it is incomplete or damaged. The kind
/// is `None` if only later versions know it.
pub(crate) fn decode(bytes: &[u8]) -> Option<(Option<Kind>, &[u8])> {
    let length = length_of(bytes)?;
    let payload = bytes.get(HEADER..HEADER + length)?;
    let sum = Checksum::new().with(&bytes[4..9]).with(payload).value();
    (sum.to_be_bytes() == bytes[9..HEADER]).then(|| (Kind::of(bytes[4]), payload))
}
