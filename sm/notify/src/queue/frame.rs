//! Encoding of a record on the disk.
//!
//! ```text
//! length (4) checksum (8) number (8) run (8) rsm.v1.Event
//! ```
//!
//! All numbers are big-endian; the numbers in parentheses are lengths in bytes. Length and
//! checksum both cover all bytes after the checksum.

use std::hash::Hasher as _;
use std::sync::Arc;

use prost::Message as _;
use rsm_proto::v1;

use crate::source::Record;

/// Size of length and checksum, in bytes.
const HEADER: usize = 4 + 8;

/// Appends a record to `out`.
pub(super) fn encode(record: &Record, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend([0; HEADER]);
    out.extend(record.number.to_be_bytes());
    out.extend(record.run.to_be_bytes());
    out.extend(record.event.encode_to_vec());
    let covered = &out[start + HEADER..];
    // An event is far shorter than 4 GiB, because its texts have bounds.
    let length = (covered.len() as u32).to_be_bytes();
    let sum = checksum(covered).to_be_bytes();
    out[start..start + 4].copy_from_slice(&length);
    out[start + 4..start + HEADER].copy_from_slice(&sum);
}

/// The whole records at the beginning of `bytes`, up to the first record that is torn or damaged.
pub(super) fn records(bytes: &[u8]) -> impl Iterator<Item = Record> + '_ {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (record, after) = decode(rest)?;
        rest = after;
        Some(record)
    })
}

/// Decodes the first record of `bytes`. Returns the record and the bytes after it; `None` if the
/// record is torn or damaged.
fn decode(bytes: &[u8]) -> Option<(Record, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (sum, rest) = rest.split_first_chunk()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (covered, after) = rest.split_at_checked(length)?;
    if checksum(covered) != u64::from_be_bytes(*sum) {
        return None;
    }
    let (number, rest) = covered.split_first_chunk()?;
    let (run, event) = rest.split_first_chunk()?;
    let record = Record {
        number: u64::from_be_bytes(*number),
        run: u64::from_be_bytes(*run),
        event: Arc::new(v1::Event::decode(event).ok()?),
    };
    Some((record, after))
}

/// The encoding of a number with its checksum.
pub(super) fn number(number: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes[8..].copy_from_slice(&checksum(&number.to_be_bytes()).to_be_bytes());
    bytes
}

/// The number in `bytes`; `None` if the bytes are damaged.
pub(super) fn read_number(bytes: &[u8]) -> Option<u64> {
    let bytes: [u8; 16] = bytes.try_into().ok()?;
    let (value, _) = bytes.split_first_chunk()?;
    let value = u64::from_be_bytes(*value);
    (number(value) == bytes).then_some(value)
}

/// FNV-1a of `bytes`.
fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(bytes);
    hasher.finish()
}
