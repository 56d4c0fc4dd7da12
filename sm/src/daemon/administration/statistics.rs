//! What subnet administration did, for whoever asks while it works.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rsm_mad::wire::header::AttrId;

/// Bounds of the latencies that are told apart, in microseconds: powers of two up to 2^22, four seconds.
const LATENCIES: usize = 23;

/// Attributes below this are counted by themselves; those of subnet administration are (IBA 15.2.5).
const ATTRIBUTES: usize = 64;

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Counters since the start. Each is right by itself; together they are not of one moment.
#[derive(Debug)]
pub struct Statistics {
    /// By attribute; index 0 counts all without an index of their own.
    questions: [AtomicU64; ATTRIBUTES],
    /// By the power of two below which the microseconds are; the last one counts all others.
    latencies: [AtomicU64; LATENCIES + 1],
    answered: AtomicU64,
    busy: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// The counters at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Questions that were let in, by attribute; attribute 0 stands for those that subnet administration has none of. Only
    /// what is not zero.
    pub questions: Vec<(AttrId, u64)>,
    /// Answers by the time from the question's arrival: how many took less than so many microseconds, and no less than the
    /// entry before. The last one has no bound.
    pub latencies: Vec<(Option<u64>, u64)>,
    /// Questions that were answered, with whatever status.
    pub answered: u64,
    /// Questions that were refused for want of room, with BUSY.
    pub busy: u64,
    /// What arrived and was dropped without an answer for want of room: packets of longer messages, which come again, and
    /// answers. Also refusals that could not be sent.
    pub dropped: u64,
    /// Answers that could not be sent.
    pub failed: u64,
}

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics {
            questions: std::array::from_fn(|_| AtomicU64::new(0)),
            latencies: std::array::from_fn(|_| AtomicU64::new(0)),
            answered: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }
}

impl Statistics {
    pub(super) fn question(&self, attribute: AttrId) {
        let own = self.questions.get(usize::from(attribute.0));
        add(own.unwrap_or(&self.questions[0]));
    }

    pub(super) fn answered(&self, latency: Duration) {
        add(&self.answered);
        let micros = latency.as_micros();
        // 0 is below 2^0, 1 below 2^1, 2 and 3 below 2^2.
        let power = (u128::BITS - micros.leading_zeros()) as usize;
        add(&self.latencies[power.min(LATENCIES)]);
    }

    pub(super) fn busy(&self) {
        add(&self.busy);
    }

    pub(super) fn dropped(&self) {
        add(&self.dropped);
    }

    pub(super) fn failed(&self) {
        add(&self.failed);
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let questions = (0u16..).map(AttrId).zip(self.questions.iter().map(read));
        let bound = |power: usize| (power < LATENCIES).then(|| 1u64 << power);
        Counts {
            questions: questions.filter(|(_, count)| *count > 0).collect(),
            latencies: (0..)
                .map(bound)
                .zip(self.latencies.iter().map(read))
                .collect(),
            answered: read(&self.answered),
            busy: read(&self.busy),
            dropped: read(&self.dropped),
            failed: read(&self.failed),
        }
    }
}

impl Counts {
    /// The latency that `share` of the answers, 0 to 1, stayed below, in microseconds: a power of two. `None` without
    /// answers, and where it is beyond the last bound.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let total: u64 = self.latencies.iter().map(|(_, count)| count).sum();
        let wanted = (total as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let at = self.latencies.iter().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        at.and_then(|(bound, _)| *bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_fall_between_powers_of_two() {
        let statistics = Statistics::default();
        assert_eq!(statistics.counts().quantile(0.5), None);
        for micros in [0, 1, 2, 3, 4, 1000, 1024] {
            statistics.answered(Duration::from_micros(micros));
        }
        let counts = statistics.counts();
        let seen: Vec<_> = counts.latencies.iter().filter(|(_, n)| *n > 0).collect();
        let expected = [
            (Some(1), 1),
            (Some(2), 1),
            (Some(4), 2),
            (Some(8), 1),
            (Some(1024), 1),
            (Some(2048), 1),
        ];
        assert!(seen.into_iter().eq(&expected));
        assert_eq!(counts.answered, 7);
        assert_eq!(counts.quantile(0.5), Some(4));
        assert_eq!(counts.quantile(1.0), Some(2048));
        statistics.answered(Duration::from_secs(100));
        assert_eq!(statistics.counts().quantile(1.0), None);
    }

    #[test]
    fn attributes_without_a_place_share_one() {
        let statistics = Statistics::default();
        for attribute in [0x35, 0x35, 0x11, 0xFF90, 0x40] {
            statistics.question(AttrId(attribute));
        }
        let expected = [(AttrId(0), 2), (AttrId(0x11), 1), (AttrId(0x35), 2)];
        assert_eq!(statistics.counts().questions, expected);
    }
}
