//! Random numbers from which fabrics are generated.

/// A small deterministic generator (SplitMix64): the same numbers on every machine and in every
/// version.
///
/// Tests and reports identify fabrics by their seeds, so that the numbers must not change with the
/// version of a dependency.
pub struct Rng(u64);

impl Rng {
    /// Starts the sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// The next number of the sequence.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which must not be 0. Bounds are far below 2^64, so the bias is
    /// negligible.
    pub fn below(&mut self, bound: usize) -> usize {
        let wide = u128::from(self.next()) * bound as u128;
        (wide >> 64) as usize
    }

    /// Shuffles `items`; all orders are equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.below(index + 1));
        }
    }

    /// Draws `count` different numbers below `bound`, in ascending order; all numbers below `bound`
    /// if there are not more.
    pub fn sample(&mut self, count: usize, bound: usize) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..bound).collect();
        let count = count.min(bound);
        for index in 0..count {
            let other = index + self.below(bound - index);
            numbers.swap(index, other);
        }
        numbers.truncate(count);
        numbers.sort_unstable();
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_zero_gives_the_known_sequence() {
        let mut rng = Rng::new(0);
        assert_eq!(rng.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(rng.next(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn shuffle_keeps_all_items_and_changes_their_order() {
        let mut items: Vec<usize> = (0..100).collect();
        Rng::new(3).shuffle(&mut items);
        assert!(items.windows(2).any(|pair| pair[0] > pair[1]));
        items.sort_unstable();
        assert!(items.into_iter().eq(0..100));
        Rng::new(3).shuffle::<u8>(&mut []);
    }

    #[test]
    fn sample_has_distinct_ascending_numbers_below_the_bound() {
        let sample = Rng::new(7).sample(50, 60);
        assert_eq!(sample.len(), 50);
        assert!(sample.windows(2).all(|pair| pair[0] < pair[1]) && sample[49] < 60);
        assert_eq!(Rng::new(7).sample(9, 3), [0, 1, 2]);
    }
}
