use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::DefaultClock;
use governor::nanos::Nanos;
use governor::state::keyed::{DashMapStateStore, ShrinkableKeyedStateStore};
use governor::state::{InMemoryState, NotKeyed, StateStore};
use governor::{Quota, RateLimiter};

use crate::role::Need;

/// The maximum number of identities with a separate rate, and the same number of addresses; all
/// further identities share one rate, and all further addresses another, until [`KEPT_FOR`] frees
/// places. At about 100 bytes each, they take less than two megabytes.
pub(super) const MAX_IDENTITIES: usize = 4096;

/// The time after its last admitted request for which an identity keeps its separate rate, whatever
/// number of other identities come: longer than the pause of any script that polls.
const KEPT_FOR: Duration = Duration::from_secs(600);

/// The size of a burst after a pause, in seconds' worth of requests.
const BURST_S: u32 = 4;

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

/// A client whose requests are counted together.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum RateKey {
    /// A proved identity.
    Identity(String),
    /// The address of a client that proves no identity.
    Address(String),
}

struct Limit {
    per_s: u32,
    limiter: RateLimiter<RateKey, Counts, DefaultClock>,
}

/// The request counts under one limit. Addresses have places of their own, so that a client with
/// many addresses takes no place of an identity.
#[derive(Default)]
struct Counts {
    identities: Places,
    addresses: Places,
}

/// The request counts of identities, or of addresses.
#[derive(Default)]
struct Places {
    /// The separate counts, at most [`MAX_IDENTITIES`].
    separate: DashMapStateStore<RateKey>,
    /// The count of all others.
    shared: InMemoryState,
}

impl StateStore for Counts {
    type Key = RateKey;

    fn measure_and_replace<T, F, E>(&self, key: &RateKey, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let places = match key {
            RateKey::Identity(_) => &self.identities,
            RateKey::Address(_) => &self.addresses,
        };
        let has_room = places.separate.len() < MAX_IDENTITIES;
        match has_room || places.separate.contains_key(key) {
            true => places.separate.measure_and_replace(key, measure),
            false => places
                .shared
                .measure_and_replace(&NotKeyed::NonKey, measure),
        }
    }
}

impl ShrinkableKeyedStateStore<RateKey> for Counts {
    /// Forgets clients whose full burst has been available for [`KEPT_FOR`].
    fn retain_recent(&self, full_since: Nanos) {
        let idle_since = full_since.saturating_sub(KEPT_FOR.into());
        self.identities.separate.retain_recent(idle_since);
        self.addresses.separate.retain_recent(idle_since);
    }

    /// The number of separate counts of identities or of addresses, whichever is larger.
    fn len(&self) -> usize {
        let identities = self.identities.separate.len();
        identities.max(self.addresses.separate.len())
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Rates {
    pub(super) fn new(settings: RateSettings) -> Rates {
        Rates {
            reads: Limit::new(settings.reads_per_s),
            changes: Limit::new(settings.changes_per_s),
            reports: Limit::new(settings.reports_per_s),
        }
    }

    /// Counts a request of a client. Returns the limit if it is exceeded.
    pub(super) fn exceeded(&self, key: &RateKey, kind: RateKind) -> Option<u32> {
        let limit = match kind {
            RateKind::Reads => &self.reads,
            RateKind::Changes => &self.changes,
            RateKind::Reports => &self.reports,
        };
        limit.as_ref().and_then(|limit| limit.exceeded(key))
    }
}

impl Limit {
    fn new(per_s: u32) -> Option<Limit> {
        let rate = NonZeroU32::new(per_s)?;
        let burst = rate.saturating_mul(NonZeroU32::new(BURST_S)?);
        let quota = Quota::per_second(rate).allow_burst(burst);
        Some(Limit {
            per_s,
            limiter: RateLimiter::new(quota, Counts::default(), DefaultClock::default()),
        })
    }

    fn exceeded(&self, key: &RateKey) -> Option<u32> {
        if self.limiter.len() >= MAX_IDENTITIES {
            self.limiter.retain_recent();
        }
        let checked = self.limiter.check_key(key);
        checked.is_err().then_some(self.per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(identity: &str) -> RateKey {
        RateKey::Identity(identity.to_owned())
    }

    #[test]
    fn each_identity_has_its_own_burst_and_reads_do_not_count_as_changes() {
        let rates = Rates::new(RateSettings {
            reads_per_s: 1,
            changes_per_s: 1,
            reports_per_s: 1,
        });
        for identity in ["a", "b"] {
            for _ in 0..BURST_S {
                assert_eq!(rates.exceeded(&named(identity), RateKind::Changes), None);
            }
            assert_eq!(rates.exceeded(&named(identity), RateKind::Changes), Some(1));
            assert_eq!(rates.exceeded(&named(identity), RateKind::Reads), None);
        }
    }

    #[test]
    fn inventories_of_5632_hosts_fit_in_half_a_minute_and_do_not_count_as_changes() {
        let rates = Rates::new(RateSettings::default());
        let kind = RateKind::of(Need::ImportInventory);
        // 5,632 hosts send their first reports at once: the burst is accepted, and the rest within
        // half a minute.
        let taken = (0..5_632).filter(|_| rates.exceeded(&named("agents"), kind).is_none());
        let rate = RateSettings::default().reports_per_s;
        assert!(taken.count() >= (rate * BURST_S) as usize);
        assert!(5_632 - rate * BURST_S <= 30 * rate);
        assert_eq!(
            rates.exceeded(&named("agents"), RateKind::of(Need::Operate)),
            None
        );
        assert_eq!(RateKind::of(Need::CheckInventory), RateKind::Reads);
    }

    #[test]
    fn a_rate_of_zero_means_no_limit() {
        let rates = Rates::new(RateSettings {
            reads_per_s: 0,
            changes_per_s: 0,
            reports_per_s: 0,
        });
        assert!((0..10_000).all(|_| rates.exceeded(&named("a"), RateKind::Changes).is_none()));
    }

    #[test]
    fn a_known_identity_keeps_its_rate_while_others_exceed_the_maximum() {
        let rates = Rates::new(RateSettings {
            reads_per_s: 1,
            changes_per_s: 0,
            reports_per_s: 0,
        });
        assert_eq!(rates.exceeded(&named("known"), RateKind::Reads), None);
        let refused = (0..2 * MAX_IDENTITIES)
            .filter(|number| {
                rates
                    .exceeded(&named(&number.to_string()), RateKind::Reads)
                    .is_some()
            })
            .count();
        assert!(refused > 0, "the shared rate is used up");
        let more =
            (1..BURST_S).filter(|_| rates.exceeded(&named("known"), RateKind::Reads).is_none());
        assert_eq!(more.count(), (BURST_S - 1) as usize);
    }

    #[test]
    fn addresses_take_no_place_of_an_identity() {
        let rates = Rates::new(RateSettings {
            reads_per_s: 0,
            changes_per_s: 1,
            reports_per_s: 0,
        });
        let kind = RateKind::Changes;
        let refused = (0..2 * MAX_IDENTITIES)
            .filter(|number| {
                let address = RateKey::Address(number.to_string());
                rates.exceeded(&address, kind).is_some()
            })
            .count();
        assert!(refused > 0, "the rate that addresses share is used up");
        let taken = (0..BURST_S).filter(|_| rates.exceeded(&named("new"), kind).is_none());
        assert_eq!(taken.count(), BURST_S as usize);
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
                    .exceeded(&named(&number.to_string()), RateKind::Reads)
                    .is_some()
            })
            .count();
        assert!(refused > MAX_IDENTITIES, "{refused} were refused");
        let limit = rates.reads.as_ref().unwrap();
        assert!(limit.limiter.len() <= MAX_IDENTITIES);
    }

    #[test]
    fn an_identity_loses_its_separate_rate_ten_minutes_after_its_last_request() {
        let counts = Counts::default();
        let begun = Nanos::from(Duration::from_secs(60));
        let request = |_| Ok::<_, ()>(((), begun));
        assert_eq!(counts.measure_and_replace(&named("known"), request), Ok(()));
        for (passed, kept) in [(0, 1), (599, 1), (601, 0)] {
            counts.retain_recent(begun + Nanos::from(Duration::from_secs(passed)));
            assert_eq!(counts.len(), kept, "after {passed} s");
        }
    }
}
