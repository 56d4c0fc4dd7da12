//! Reads a fuzz input from the front.

/// The bytes of an input that have not been read yet.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    /// The next byte; `None` at the end.
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    /// The next number of 16 bits, in network byte order; `None` at the end.
    pub(super) fn number(&mut self) -> Option<u16> {
        let (&bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_be_bytes(bytes))
    }

    /// The next `count` bytes, or all remaining bytes if there are fewer.
    pub(super) fn up_to(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// The next `N` bytes, padded with zeroes; `None` at the end.
    pub(super) fn padded<const N: usize>(&mut self) -> Option<[u8; N]> {
        if self.0.is_empty() {
            return None;
        }
        let taken = self.up_to(N);
        let mut padded = [0; N];
        padded[..taken.len()].copy_from_slice(taken);
        Some(padded)
    }
}
