//! The random numbers of the simulator: equal seeds give equal runs, on every machine and with
//! every version of every dependency.

/// The generator xoshiro256++ (Blackman and Vigna, 2019), seeded by SplitMix64.
#[derive(Debug, Clone)]
pub(crate) struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The generator of a seed.
    pub(crate) fn new(seed: u64) -> Rng {
        let mut mix = seed;
        let state = std::array::from_fn(|_| {
            mix = mix.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut word = mix;
            word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            word ^ (word >> 31)
        });
        Rng { state }
    }

    /// A random number of 64 bits.
    pub(crate) fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let shifted = b << 17;
        let c = c ^ a;
        let d = d ^ b;
        self.state = [a ^ d, b ^ c, c ^ shifted, d.rotate_left(45)];
        result
    }

    /// A random number below `bound`; 0 if `bound` is 0. The bias of the multiplication is below
    /// 2^-32 for the bounds used here (nanoseconds of a second).
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Whether an event with this probability happens. A probability of zero draws no number, so
    /// that disabled faults do not change a run.
    pub(crate) fn happens(&mut self, chance: Probability) -> bool {
        chance.0 != 0 && (self.next_u64() >> 32) < chance.0
    }
}

/// A probability in steps of 2^-32: 0 means never, 2^32 means always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Probability(u64);

impl Probability {
    pub(crate) const NEVER: Probability = Probability(0);

    /// The probability, rounded to the nearest step; `None` unless `probability` is from 0 to 1.
    pub(crate) fn new(probability: f64) -> Option<Probability> {
        (0.0..=1.0)
            .contains(&probability)
            .then(|| Probability((probability * 4_294_967_296.0).round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_state_of_splitmix64_and_repeats_its_numbers() {
        let mut rng = Rng::new(0);
        // The outputs of SplitMix64 with seed 0 start with 0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4,
        // … (reference implementation).
        assert_eq!(rng.state[0], 0xE220_A839_7B1D_CDAF);
        assert_eq!(rng.state[1], 0x6E78_9E6A_A1B9_65F4);
        let first = rng.next_u64();
        assert_eq!(Rng::new(0).next_u64(), first);
        assert_ne!(Rng::new(1).next_u64(), first);
    }

    #[test]
    fn events_happen_with_their_probability() {
        let mut rng = Rng::new(7);
        let chance = Probability::new(0.05).unwrap();
        let hits = (0..100_000).filter(|_| rng.happens(chance)).count();
        assert!((4_700..5_300).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| rng.happens(Probability::new(1.0).unwrap())));
        assert!((0..1000).all(|_| rng.below(10) < 10));
    }

    #[test]
    fn a_probability_of_zero_draws_no_number() {
        let mut rng = Rng::new(7);
        assert!(!rng.happens(Probability::NEVER));
        assert_eq!(rng.next_u64(), Rng::new(7).next_u64());
    }

    #[test]
    fn values_outside_0_to_1_are_no_probability() {
        for bad in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert_eq!(Probability::new(bad), None);
        }
    }
}
