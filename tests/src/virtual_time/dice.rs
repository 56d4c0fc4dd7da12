//! Random choices derived from a seed.

use std::time::Duration;

/// A small random number generator (SplitMix64): a seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The random numbers of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0xA076_1D64_78BD_642F) ^ 0xE703_7ED1_A0B4_28DB)
    }

    /// A random number of 64 bits.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A random number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound as u64) as usize
    }

    /// A random element of `choices`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Returns true with probability 1 / `n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// A random time between the two bounds. Each order of magnitude is equally likely, so tests
    /// try races of microseconds as well as pauses of seconds.
    pub fn duration(&mut self, from: Duration, to: Duration) -> Duration {
        let (low, high) = (from.as_secs_f64().ln(), to.as_secs_f64().ln());
        let part = self.number() as f64 / u64::MAX as f64;
        Duration::from_secs_f64((low + (high - low) * part).exp())
    }
}
