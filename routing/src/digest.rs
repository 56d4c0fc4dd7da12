//! A number that distinguishes long runs of bytes.

/// How many words are mixed next to each other.
const LANES: usize = 4;

/// Lengths are a multiple of this.
pub(crate) const STEP: usize = LANES * size_of::<u64>();

/// Fibonacci hashing.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Some 64 bits of a length that is a multiple of [`STEP`]. Different bytes may have the same
/// digest: after a match, compare the bytes.
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
