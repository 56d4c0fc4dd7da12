//! The head of a step on the disk. In parentheses are lengths in bytes; numbers are big-endian. The
//! sums of switch ports come first, then the sums of all other ports, each with one count for each
//! quantity. A chunk's number and length follow for each chunk.
//!
//! ```text
//! start (8) from (8) until (8) quantities (1)
//! { ports (4) seconds (8) max_interval (4) count (8)... }[2]
//! { chunk (2) length (4) }...
//! ```

use crate::quantity::Quantity;
use crate::step_accumulator::{ClassSum, StepAccumulator};

/// Number and length of a chunk that follows the head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChunkEntry {
    /// Number of the chunk.
    pub(crate) chunk: u16,
    /// Length of the chunk's frame in bytes.
    pub(crate) length: u32,
}

/// Times, sums and chunks of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    /// Start of the step, in milliseconds since the Unix epoch.
    pub(crate) start: u64,
    /// Time of the earliest reading in the step, in the same unit.
    pub(crate) from: u64,
    /// Time of the latest reading in the step, in the same unit.
    pub(crate) until: u64,
    /// Sums over ports of switches, and over all other ports.
    pub(crate) sums: [ClassSum; 2],
    /// The chunks, in the order in which they follow the head.
    pub(crate) chunk_entries: Vec<ChunkEntry>,
}

/// Encodes the head of `step`, which the chunks of `chunk_entries` follow.
pub(crate) fn encode(step: &StepAccumulator, chunk_entries: &[ChunkEntry]) -> Vec<u8> {
    let mut out = Vec::new();
    for time in [step.start, step.from, step.until] {
        out.extend(time.to_be_bytes());
    }
    out.push(Quantity::ALL.len() as u8);
    for sum in &step.sums {
        out.extend(sum.ports.to_be_bytes());
        out.extend(sum.seconds.to_be_bytes());
        out.extend(sum.max_interval.to_be_bytes());
        for quantity in Quantity::ALL {
            out.extend(sum.counts[quantity].to_be_bytes());
        }
    }
    for entry in chunk_entries {
        out.extend(entry.chunk.to_be_bytes());
        out.extend(entry.length.to_be_bytes());
    }
    out
}

/// Decodes a head; `None` if it is too short. Quantities that this version does not know are
/// ignored.
pub(crate) fn decode(payload: &[u8]) -> Option<Head> {
    let mut rest = payload;
    let mut next_u64 = || -> Option<u64> {
        let (bytes, after) = rest.split_first_chunk()?;
        rest = after;
        Some(u64::from_be_bytes(*bytes))
    };
    let (start, from, until) = (next_u64()?, next_u64()?, next_u64()?);
    let (&quantities, mut rest) = rest.split_first()?;
    let mut sums = [ClassSum::default(); 2];
    for sum in &mut sums {
        let (ports, after) = rest.split_first_chunk()?;
        let (seconds, after) = after.split_first_chunk()?;
        let (max_interval, after) = after.split_first_chunk()?;
        (sum.ports, sum.seconds) = (u32::from_be_bytes(*ports), u64::from_be_bytes(*seconds));
        sum.max_interval = u32::from_be_bytes(*max_interval);
        rest = after;
        for code in 0..quantities {
            let (count, after) = rest.split_first_chunk()?;
            if let Some(quantity) = Quantity::of(code) {
                sum.counts[quantity] = u64::from_be_bytes(*count);
            }
            rest = after;
        }
    }
    let chunk_entries = rest.chunks_exact(6).map(|entry| ChunkEntry {
        chunk: u16::from_be_bytes([entry[0], entry[1]]),
        length: u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]),
    });
    Some(Head {
        start,
        from,
        until,
        sums,
        chunk_entries: chunk_entries.collect(),
    })
}
