//! The checksum of all data that the store writes.

use std::hash::Hasher as _;

use fnv::FnvHasher;

/// A 64-bit FNV-1a hash, computed step by step.
///
/// Each step is a bijection of the state, so that two inputs of one length that differ in a single
/// byte never collide. The hash detects accidents (torn pages, bit rot, a truncated copy), not
/// forgery: a process that can write to the store can also stop the daemon.
#[derive(Clone, Copy, Debug)]
pub struct Checksum(u64);

impl Checksum {
    /// The checksum of no bytes.
    pub fn new() -> Checksum {
        Checksum(FnvHasher::default().finish())
    }

    /// The checksum of all bytes so far, followed by `bytes`.
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Checksum {
        let mut hasher = FnvHasher::with_key(self.0);
        hasher.write(bytes);
        Checksum(hasher.finish())
    }

    /// The checksum of all bytes so far.
    pub fn value(self) -> u64 {
        self.0
    }

    /// The checksum of `bytes`.
    pub fn of(bytes: &[u8]) -> u64 {
        Checksum::new().with(bytes).value()
    }
}

impl Default for Checksum {
    fn default() -> Checksum {
        Checksum::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv_1a_gives_the_published_values() {
        assert_eq!(Checksum::of(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(Checksum::of(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Checksum::of(b"foobar"), 0x8594_4171_f739_67e8);
        let split = Checksum::new().with(b"foo").with(b"bar").value();
        assert_eq!(split, Checksum::of(b"foobar"));
    }
}
