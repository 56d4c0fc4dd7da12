//! A histogram of answer times, in which longer times have wider buckets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use histogram::AtomicHistogram;

/// Each power of two is divided into 2^3 buckets of equal width, so that the bounds of a bucket
/// differ by at most an eighth; below 2^3, every nanosecond has a bucket.
const GROUPING_POWER: u8 = 3;

/// Exponent of the power of two, in nanoseconds, from which answer times share one bucket without
/// a bound: 2^36 ns are 69 s, longer than any host waits for an answer.
const MAX_VALUE_POWER: u8 = 36;

/// A histogram that many threads may add to while others read it. Adding costs two atomic
/// additions.
#[derive(Debug)]
pub struct Latencies {
    bounded: AtomicHistogram,
    /// Number of answer times of 2^[`MAX_VALUE_POWER`] ns or more.
    overflow: AtomicU64,
    sum_nanos: AtomicU64,
}

/// The counts of a histogram at one moment.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LatencyCounts {
    /// Exclusive upper bound in nanoseconds, and count, of each non-empty bucket, ascending. The
    /// last bucket may have no bound.
    pub buckets: Vec<(Option<u64>, u64)>,
    /// Sum of all answer times in nanoseconds.
    pub sum_nanos: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies {
            bounded: AtomicHistogram::new(GROUPING_POWER, MAX_VALUE_POWER).expect(
                "the grouping power is below the power of the largest value, which is below 64",
            ),
            overflow: AtomicU64::new(0),
            sum_nanos: AtomicU64::new(0),
        }
    }
}

impl Latencies {
    /// Adds one answer time.
    pub fn add(&self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if self.bounded.increment(nanos).is_err() {
            self.overflow.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// The counts so far.
    pub fn counts(&self) -> LatencyCounts {
        let bounded = self.bounded.load();
        let bounded = bounded
            .iter()
            .map(|bucket| (Some(bucket.end() + 1), bucket.count()));
        let overflow = (None, self.overflow.load(Ordering::Relaxed));
        LatencyCounts {
            buckets: bounded
                .chain([overflow])
                .filter(|&(_, count)| count > 0)
                .collect(),
            sum_nanos: self.sum_nanos.load(Ordering::Relaxed),
        }
    }
}

impl LatencyCounts {
    /// Number of answer times in all buckets.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }

    /// An upper bound, in nanoseconds, of the fastest `share` (0 to 1) of the answer times, at most
    /// an eighth too high. `None` if there are no answers, or the time is in the bucket without a
    /// bound.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = (self.count() as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let at = self.buckets.iter().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        at.and_then(|(bound, _)| *bound)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counts_of(nanos: impl IntoIterator<Item = u64>) -> LatencyCounts {
        let latencies = Latencies::default();
        for nanos in nanos {
            latencies.add(Duration::from_nanos(nanos));
        }
        latencies.counts()
    }

    #[test]
    fn buckets_are_single_nanoseconds_and_then_eighths_of_powers() {
        let counts = counts_of([0, 7, 8, 15, 16, 17, 18, 1000]);
        let expected = [
            (Some(1), 1),
            (Some(8), 1),
            (Some(9), 1),
            (Some(16), 1),
            (Some(18), 2),
            (Some(20), 1),
            (Some(1024), 1),
        ];
        assert_eq!(counts.buckets, expected);
        assert_eq!(counts.sum_nanos, 1081);
    }

    #[test]
    fn quantile_is_a_bound_at_most_an_eighth_too_high() {
        assert_eq!(counts_of([]).quantile(0.5), None);
        let counts = counts_of((1..=100).map(|n| n * 1_000));
        assert_eq!(counts.count(), 100);
        for (share, exact) in [(0.0, 1_000), (0.5, 50_000), (0.99, 99_000), (1.0, 100_000)] {
            let bound = counts.quantile(share).unwrap();
            assert!(
                (exact..=exact + exact / 8 + 1).contains(&bound),
                "{share}: {bound}"
            );
        }
        let overflow = counts_of([1, u64::MAX]);
        assert_eq!(overflow.buckets, [(Some(2), 1), (None, 1)]);
        assert_eq!(
            (overflow.quantile(0.5), overflow.quantile(1.0)),
            (Some(2), None)
        );
    }

    proptest! {
        #[test]
        fn width_of_buckets_follows_the_grouping_power(power in 0u32..64, low: u64) {
            let nanos = (1 << power) | (low & ((1 << power) - 1));
            let bound = (nanos >> MAX_VALUE_POWER == 0).then(|| {
                let width = nanos.ilog2().saturating_sub(u32::from(GROUPING_POWER));
                ((nanos >> width) + 1) << width
            });
            prop_assert_eq!(counts_of([nanos]).buckets, [(bound, 1)]);
        }
    }
}
