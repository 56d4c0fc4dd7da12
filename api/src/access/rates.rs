use std::num::NonZeroU32;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::role::Need;

/// The maximum number of identities with a separate rate; further identities share one. At about
/// 100 bytes each, they take less than a megabyte.
pub(super) const MAX_IDENTITIES: usize = 4096;

/// The size of a burst after a pause, in seconds' worth of requests.
const BURST_S: u32 = 4;

/// The identity shared by all that have no rate of their own.
const OTHERS: &str = "others";

/// The rate limits of each identity, in requests per second; 0 means no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateSettings {
    /// The limit for requests that only read.
    pub reads_per_s: u32,
    /// The limit for requests that may change something, except inventories of GPU hosts.
    pub changes_per_s: u32,
    /// The limit for inventories of GPU hosts: the agents of a whole site can have one identity.
    pub reports_per_s: u32,
}

impl Default for RateSettings {
    fn default() -> RateSettings {
        RateSettings {
            reads_per_s: 1_000,
            changes_per_s: 50,
            reports_per_s: 200,
        }
    }
}

/// The kind of rate limit against which a request counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RateKind {
    Reads,
    Changes,
    Reports,
}

impl RateKind {
    /// The kind for a request with this need.
    pub(super) const fn of(need: Need) -> RateKind {
        match need {
            Need::ImportInventory => RateKind::Reports,
            need if need.changes() => RateKind::Changes,
            _ => RateKind::Reads,
        }
    }

    /// The name in the key of the configuration.
    pub(super) const fn name(self) -> &'static str {
        match self {
            RateKind::Reads => "reads",
            RateKind::Changes => "changes",
            RateKind::Reports => "reports",
        }
    }
}

/// The request counts of all identities.
pub(super) struct Rates {
    reads: Option<Limit>,
    changes: Option<Limit>,
    reports: Option<Limit>,
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
            reports: Limit::new(settings.reports_per_s),
        }
    }

    /// Counts a request of `identity`. Returns the limit if it is exceeded.
    pub(super) fn exceeded(&self, identity: &str, kind: RateKind) -> Option<u32> {
        let limit = match kind {
            RateKind::Reads => &self.reads,
            RateKind::Changes => &self.changes,
            RateKind::Reports => &self.reports,
        };
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
            // Forgets identities whose full burst is available again.
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
    fn each_identity_has_its_own_burst_and_reads_do_not_count_as_changes() {
        let rates = Rates::new(RateSettings {
            reads_per_s: 1,
            changes_per_s: 1,
            reports_per_s: 1,
        });
        for identity in ["a", "b"] {
            for _ in 0..BURST_S {
                assert_eq!(rates.exceeded(identity, RateKind::Changes), None);
            }
            assert_eq!(rates.exceeded(identity, RateKind::Changes), Some(1));
            assert_eq!(rates.exceeded(identity, RateKind::Reads), None);
        }
    }

    #[test]
    fn inventories_of_5632_hosts_fit_in_half_a_minute_and_do_not_count_as_changes() {
        let rates = Rates::new(RateSettings::default());
        let kind = RateKind::of(Need::ImportInventory);
        // 5,632 hosts send their first reports at once: the burst is accepted, and the rest within
        // half a minute.
        let taken = (0..5_632).filter(|_| rates.exceeded("agents", kind).is_none());
        let rate = RateSettings::default().reports_per_s;
        assert!(taken.count() >= (rate * BURST_S) as usize);
        assert!(5_632 - rate * BURST_S <= 30 * rate);
        assert_eq!(rates.exceeded("agents", RateKind::of(Need::Operate)), None);
        assert_eq!(RateKind::of(Need::CheckInventory), RateKind::Reads);
    }

    #[test]
    fn a_rate_of_zero_means_no_limit() {
        let rates = Rates::new(RateSettings {
            reads_per_s: 0,
            changes_per_s: 0,
            reports_per_s: 0,
        });
        assert!((0..10_000).all(|_| rates.exceeded("a", RateKind::Changes).is_none()));
    }

    #[test]
    fn identities_beyond_the_maximum_share_a_rate() {
        let rates = Rates::new(RateSettings {
            reads_per_s: 1,
            changes_per_s: 0,
            reports_per_s: 0,
        });
        let refused = (0..3 * MAX_IDENTITIES)
            .filter(|number| {
                rates
                    .exceeded(&number.to_string(), RateKind::Reads)
                    .is_some()
            })
            .count();
        assert!(refused > MAX_IDENTITIES, "{refused} were refused");
        let limit = rates.reads.as_ref().unwrap();
        assert!(limit.limiter.len() <= MAX_IDENTITIES + 1);
    }
}
