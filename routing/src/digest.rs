//! Computes fast digests of byte slices, and hashes of keys of a few words.

use std::hash::Hasher;

/// The number of words that are mixed in parallel.
const LANES: usize = 4;

/// Digests are of bytes whose number is a multiple of this.
pub(crate) const STEP: usize = LANES * size_of::<u64>();

/// The multiplier of Fibonacci hashing: 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// A 64-bit digest of bytes whose number is a multiple of [`STEP`]. Different bytes may have the
/// same digest: after a match, compare the bytes.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    debug_assert!(bytes.len().is_multiple_of(STEP));
    let (words, _) = bytes.as_chunks::<{ size_of::<u64>() }>();
    let mut lanes = [0u64; LANES];
    for words in words.chunks_exact(LANES) {
        for (lane, &word) in lanes.iter_mut().zip(words) {
            *lane = (lane.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
        }
    }
    let mixed = lanes.into_iter().fold(0u64, |mixed, lane| {
        (mixed.rotate_left(23) ^ lane).wrapping_mul(FACTOR)
    });
    mixed ^ mixed >> 32
}

/// Hashes keys of a few words, several times as fast as the standard library. Not suitable for keys
/// that a peer chooses, because the peer could make them collide.
#[derive(Default)]
pub(crate) struct WordHasher(u64);

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<{ size_of::<u64>() }>();
        for &word in words {
            self.write_u64(u64::from_le_bytes(word));
        }
        for &byte in rest {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}
