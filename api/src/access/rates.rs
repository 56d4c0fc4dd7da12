use std::num::NonZeroU32;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

/// Identities with a rate of their own; further ones share one. At some 100 bytes each they take
/// less than a megabyte.
pub(super) const MAX_IDENTITIES: usize = 4096;

/// How many seconds' worth of requests an identity may send at once after a pause.
const BURST_S: u32 = 4;

/// The identity of all that have no rate of their own.
const OTHERS: &str = "others";

/// Rates of each identity, in requests per second; 0: no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateSettings {
    /// Requests that only read.
    pub reads_per_s: u32,
    /// Requests that may change something.
    pub changes_per_s: u32,
}

impl Default for RateSettings {
    fn default() -> RateSettings {
        RateSettings {
            reads_per_s: 1_000,
            changes_per_s: 50,
        }
    }
}

/// The rates of all identities.
pub(super) struct Rates {
    reads: Option<Limit>,
    changes: Option<Limit>,
}

struct Limit {
    per_s: u32,
    limiter: DefaultKeyedRateLimiter<String>,
}

impl Rates {
    pub(super) fn new(settings: RateSettings) -> Rates {
        Rates {
            reads: Limit::new(settings.reads_per_s),
            changes: Limit::new(settings.changes_per_s),
        }
    }

    /// Counts a request of `identity`. Returns the rate if it exceeds it.
    pub(super) fn exceeded(&self, identity: &str, changes: bool) -> Option<u32> {
        let limit = if changes { &self.changes } else { &self.reads };
        limit.as_ref().and_then(|limit| limit.exceeded(identity))
    }
}

impl Limit {
    fn new(per_s: u32) -> Option<Limit> {
        let rate = NonZeroU32::new(per_s)?;
        let burst = rate.saturating_mul(NonZeroU32::new(BURST_S)?);
        let quota = Quota::per_second(rate).allow_burst(burst);
        Some(Limit {
            per_s,
            limiter: RateLimiter::keyed(quota),
        })
    }

    fn exceeded(&self, identity: &str) -> Option<u32> {
        if self.limiter.len() >= MAX_IDENTITIES {
            // Forgets identities whose full burst is there again.
            self.limiter.retain_recent();
        }
        let key = match self.limiter.len() < MAX_IDENTITIES {
            true => identity,
            false => OTHERS,
        };
        let checked = self.limiter.check_key(&key.to_owned());
        checked.is_err().then_some(self.per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_identity_has_its_burst_and_reads_cost_no_changes() {
        let rates = Rates::new(RateSettings {
            reads_per_s: 1,
            changes_per_s: 1,
        });
        for identity in ["a", "b"] {
            for _ in 0..BURST_S {
                assert_eq!(rates.exceeded(identity, true), None);
            }
            assert_eq!(rates.exceeded(identity, true), Some(1));
            assert_eq!(rates.exceeded(identity, false), None);
        }
    }

    #[test]
    fn zero_is_no_limit() {
        let rates = Rates::new(RateSettings {
            reads_per_s: 0,
            changes_per_s: 0,
        });
        assert!((0..10_000).all(|_| rates.exceeded("a", true).is_none()));
    }

    #[test]
    fn more_identities_than_are_kept_share_a_rate() {
        let rates = Rates::new(RateSettings {
            reads_per_s: 1,
            changes_per_s: 0,
        });
        let refused = (0..3 * MAX_IDENTITIES)
            .filter(|number| rates.exceeded(&number.to_string(), false).is_some())
            .count();
        assert!(refused > MAX_IDENTITIES, "{refused} were refused");
        let limit = rates.reads.as_ref().unwrap();
        assert!(limit.limiter.len() <= MAX_IDENTITIES + 1);
    }
}
