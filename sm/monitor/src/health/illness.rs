//! The state machine that decides which ports are unhealthy, and for how long.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rsm_config::{HealthPolicy, Symptom};
use rsm_ids::PortKey;
use rsm_mad::Time;

use super::evidence::{MAX_PORTS, PortErrors};
use super::saved::{SavedHealth, SavedIllness, checksum};

/// Span of time in which the reports of a port are counted.
const HOUR: Duration = Duration::from_secs(3600);

/// Time after recovery within which a new illness counts as a relapse. After a relapse, the port
/// must be quiet for twice as long as before.
const RELAPSE: Duration = Duration::from_secs(24 * 3600);

/// Maximum number of doublings of the quiet time.
const DOUBLINGS: u32 = 4;

/// Factor by which the excess of an unhealthy port must change for its text to be updated.
const UPDATE_FACTOR: f64 = 2.0;

/// Time without errors above a limit after which the errors of an unhealthy port count as ended.
const ENDED: Duration = Duration::from_secs(300);

/// An unhealthy port.
#[derive(Clone, Debug)]
struct UnhealthyPort {
    /// Description of the errors.
    text: String,
    /// Largest ratio of a symptom to its limit when the text was written.
    excess: f64,
    /// The symptoms in the text: bit n for the symptom with number n.
    symptoms: u32,
    /// Time at which the port is healthy again, if no error occurs until then.
    ends: Time,
    /// Sum of the port's error counters at the last evidence.
    total: u64,
    /// Time without new errors after which the port is healthy again.
    quiet: Duration,
    /// Whether the last errors above a limit are [`ENDED`] ago.
    has_ended: bool,
}

impl UnhealthyPort {
    /// Time at which the errors count as ended, if none follow; `None` if the port is healthy
    /// again by then, or if they have ended.
    fn errors_end(&self) -> Option<Time> {
        let until_healthy = self.quiet.checked_sub(ENDED)?;
        let is_due = !self.has_ended && !until_healthy.is_zero();
        let before = u64::try_from(until_healthy.as_nanos()).unwrap_or(u64::MAX);
        is_due.then(|| Time::from_nanos(self.ends.as_nanos().saturating_sub(before)))
    }
}

/// The record of a port's illnesses, which an unhealthy port has as well.
#[derive(Clone, Copy, Debug)]
struct Recovery {
    /// Time of the recovery; for an unhealthy port, time at which it became unhealthy.
    at: Time,
    /// Sum of the port's error counters at the recovery. If the sum has not changed, a rate above
    /// its limit is due to old errors, and does not make the port unhealthy again.
    total: u64,
    /// Number of successive illnesses, each within [`RELAPSE`] after the previous illness.
    times: u32,
}

/// The reports of a port in the last hour.
#[derive(Clone, Default, Debug)]
struct Reports {
    /// Times of the latest reports; at most the number that makes a port unhealthy.
    recent: VecDeque<Time>,
}

/// Decides which ports are unhealthy.
///
/// [`Health::count`] and [`Health::report`] handle evidence, and [`Health::release`] makes quiet
/// ports healthy. Each of these methods returns whether the set of unhealthy ports or a text has
/// changed.
#[derive(Clone, Debug, Default)]
pub struct Health {
    policy: HealthPolicy,
    /// Unhealthy ports, at most [`MAX_PORTS`].
    ill: BTreeMap<PortKey, UnhealthyPort>,
    recovered: BTreeMap<PortKey, Recovery>,
    reports: BTreeMap<PortKey, Reports>,
    /// Last evidence from counters.
    counted: Arc<BTreeMap<PortKey, PortErrors>>,
}

impl Health {
    /// Starts with all ports healthy.
    pub fn new(policy: HealthPolicy) -> Health {
        Health {
            policy,
            ..Health::default()
        }
    }

    /// Restores the unhealthy ports of an earlier run, unless the limits have changed since. The
    /// first errors in this run count as new.
    pub fn restored(policy: HealthPolicy, saved: &SavedHealth) -> Health {
        let mut health = Health::new(policy);
        if saved.limits != checksum(&policy) {
            return health;
        }
        for (&port, saved) in saved.ill.iter().take(MAX_PORTS) {
            let unhealthy = UnhealthyPort {
                text: saved.text.clone(),
                excess: saved.excess,
                symptoms: saved.symptoms,
                ends: saved.ends,
                // The counters of this run have other totals.
                total: 0,
                quiet: saved.quiet,
                has_ended: false,
            };
            health.ill.insert(port, unhealthy);
            let recovery = Recovery {
                at: saved.ends,
                total: 0,
                times: saved.times,
            };
            health.recovered.insert(port, recovery);
        }
        health
    }

    /// The unhealthy ports in saved form; `isolated` are the ports that routes avoid.
    pub fn saved(&self, isolated: impl Iterator<Item = PortKey>) -> SavedHealth {
        let saved = |(&port, unhealthy): (&PortKey, &UnhealthyPort)| {
            let recovery = self.recovered.get(&port);
            let saved = SavedIllness {
                text: unhealthy.text.clone(),
                excess: unhealthy.excess,
                symptoms: unhealthy.symptoms,
                times: recovery.map_or(1, |recovery| recovery.times),
                quiet: unhealthy.quiet,
                ends: unhealthy.ends,
            };
            (port, saved)
        };
        SavedHealth {
            limits: checksum(&self.policy),
            ill: self.ill.iter().map(saved).collect(),
            isolated: isolated
                .filter(|port| self.ill.contains_key(port))
                .collect(),
        }
    }

    /// The policy in force.
    pub fn policy(&self) -> &HealthPolicy {
        &self.policy
    }

    /// Changes the policy. If limits or quiet time differ, all ports count as healthy until new
    /// evidence arrives.
    pub fn configure(&mut self, policy: HealthPolicy) {
        if self.policy.limits != policy.limits || self.policy.quiet != policy.quiet {
            self.ill.clear();
            self.recovered.clear();
        }
        self.policy = policy;
    }

    /// Replaces the evidence from counters with `errors`, the ports above a limit. Returns whether
    /// anything has changed.
    pub fn count(&mut self, errors: Arc<BTreeMap<PortKey, PortErrors>>, now: Time) -> bool {
        self.counted = errors.clone();
        let mut changed = false;
        for (&port, errors) in errors.iter() {
            let is_old = |total| total == errors.total;
            let has_new_errors = match (self.ill.get(&port), self.recovered.get(&port)) {
                (Some(unhealthy), _) => !is_old(unhealthy.total),
                (None, Some(recovery)) => !is_old(recovery.total),
                (None, None) => true,
            };
            if has_new_errors && errors.excess(&self.policy.limits) >= 1.0 {
                changed |= self.become_unhealthy(port, errors.total, now);
            }
        }
        changed
    }

    /// Counts a port's report of link errors. Returns whether anything has changed.
    pub fn report(&mut self, port: PortKey, now: Time) -> bool {
        let Some(limit) = self.policy.limits.of(Symptom::Reports) else {
            return false;
        };
        if self.reports.len() >= MAX_PORTS && !self.reports.contains_key(&port) {
            let is_recent = |reports: &Reports| {
                let last = reports.recent.back();
                last.is_some_and(|&last| now.since(last) < HOUR)
            };
            self.reports.retain(|_, reports| is_recent(reports));
            if self.reports.len() >= MAX_PORTS {
                return false;
            }
        }
        let reports = self.reports.entry(port).or_default();
        reports.recent.push_back(now);
        while reports.recent.len() > limit as usize {
            reports.recent.pop_front();
        }
        let oldest = reports.recent.front().copied().unwrap_or(now);
        let is_full = reports.recent.len() == limit as usize;
        if !(is_full && now.since(oldest) <= HOUR) {
            return false;
        }
        let total = self.ill.get(&port).map_or(0, |unhealthy| unhealthy.total);
        self.become_unhealthy(port, total, now)
    }

    /// Handles new errors of a port above a limit. Returns whether the port was healthy before, or
    /// its text has changed.
    fn become_unhealthy(&mut self, port: PortKey, total: u64, now: Time) -> bool {
        let (symptoms, excess, text) = self.symptoms(port, now);
        if let Some(unhealthy) = self.ill.get_mut(&port) {
            unhealthy.ends = now + unhealthy.quiet;
            unhealthy.total = total.max(unhealthy.total);
            let factor = excess / unhealthy.excess;
            let is_similar = (1.0 / UPDATE_FACTOR..UPDATE_FACTOR).contains(&factor);
            let had_ended = std::mem::take(&mut unhealthy.has_ended);
            if unhealthy.symptoms == symptoms && is_similar && !had_ended {
                return false;
            }
            (unhealthy.symptoms, unhealthy.excess, unhealthy.text) = (symptoms, excess, text);
            return true;
        }
        if self.ill.len() >= MAX_PORTS {
            return false;
        }
        let recovery = self.recovered.remove(&port);
        let times = recovery
            .filter(|recovery| now.since(recovery.at) < RELAPSE)
            .map_or(0, |recovery| recovery.times.min(DOUBLINGS));
        let quiet = self.policy.quiet * (1 << times);
        let unhealthy = UnhealthyPort {
            text,
            excess,
            symptoms,
            ends: now + quiet,
            total,
            quiet,
            has_ended: false,
        };
        self.ill.insert(port, unhealthy);
        self.recovered.insert(
            port,
            Recovery {
                at: now,
                total,
                times: times + 1,
            },
        );
        true
    }

    /// The symptoms of a port that exceed their limits as bits, the largest ratio of a symptom to
    /// its limit, and a text that describes these symptoms.
    fn symptoms(&self, port: PortKey, now: Time) -> (u32, f64, String) {
        let errors = self.counted.get(&port).copied().unwrap_or_default();
        let reports = self.reports.get(&port).map_or(0, |reports| {
            let in_hour = |at: &&Time| now.since(**at) <= HOUR;
            reports.recent.iter().filter(in_hour).count()
        });
        let (mut bits, mut worst, mut words) = (0, 0.0f64, Vec::new());
        for symptom in Symptom::ALL {
            let Some(limit) = self.policy.limits.of(symptom) else {
                continue;
            };
            let rate = match symptom {
                Symptom::Reports => reports as f64,
                _ => errors.per_hour[symptom as usize],
            };
            let excess = rate / f64::from(limit);
            if excess < 1.0 {
                continue;
            }
            bits |= 1 << symptom as u32;
            worst = worst.max(excess);
            let name = symptom.name();
            words.push(match symptom {
                Symptom::Reports => {
                    format!("{rate:.0} or more {name} in an hour, the limit is {limit}")
                }
                _ => {
                    let in_words = errors.in_words(symptom);
                    let an_hour = match in_words.ends_with("an hour") {
                        true => "",
                        false => " an hour",
                    };
                    format!("{in_words}, the limit is {limit}{an_hour}")
                }
            });
        }
        (bits, worst, words.join("; "))
    }

    /// Makes the ports healthy that have been quiet for long enough. Returns whether any port
    /// became healthy.
    pub fn release(&mut self, now: Time) -> bool {
        let before = self.ill.len();
        let recovered = &mut self.recovered;
        self.ill.retain(|&port, unhealthy| {
            let is_ill = now < unhealthy.ends;
            if !is_ill && let Some(recovery) = recovered.get_mut(&port) {
                (recovery.at, recovery.total) = (now, unhealthy.total);
            }
            is_ill
        });
        let ill = &self.ill;
        self.recovered
            .retain(|port, recovery| ill.contains_key(port) || now.since(recovery.at) < RELAPSE);
        self.ill.len() < before
    }

    /// Notes which unhealthy ports have had no errors above a limit for [`ENDED`]. Returns whether
    /// there are new ones.
    pub fn note_ended_errors(&mut self, now: Time) -> bool {
        let mut is_news = false;
        for unhealthy in self.ill.values_mut() {
            if unhealthy.errors_end().is_some_and(|end| end <= now) {
                unhealthy.has_ended = true;
                is_news = true;
            }
        }
        is_news
    }

    /// Whether the errors of an unhealthy port have ended, so that its text is about earlier ones.
    pub fn have_errors_ended(&self, port: PortKey) -> bool {
        self.ill
            .get(&port)
            .is_some_and(|unhealthy| unhealthy.has_ended)
    }

    /// Time at which [`Health::release`] makes the next port healthy, or
    /// [`Health::note_ended_errors`] notes one, if it stays quiet; `None` if all ports are healthy.
    pub fn next_release(&self) -> Option<Time> {
        let ill = self.ill.values();
        ill.map(|unhealthy| unhealthy.errors_end().unwrap_or(unhealthy.ends))
            .min()
    }

    /// Time at which the last unhealthy port is healthy again, if all unhealthy ports stay quiet;
    /// `None` if all ports are healthy.
    pub fn last_release(&self) -> Option<Time> {
        self.ill.values().map(|unhealthy| unhealthy.ends).max()
    }

    /// The unhealthy ports, each with a description and the largest ratio of a symptom to its
    /// limit.
    pub fn ill(&self) -> impl Iterator<Item = (PortKey, &str, f64)> {
        let ill = self.ill.iter();
        ill.map(|(&port, unhealthy)| (port, unhealthy.text.as_str(), unhealthy.excess))
    }

    /// Time for which a port must be quiet until it is healthy; the policy's time for a port that
    /// is healthy.
    pub fn quiet(&self, port: PortKey) -> Duration {
        self.ill
            .get(&port)
            .map_or(self.policy.quiet, |unhealthy| unhealthy.quiet)
    }
}

#[cfg(test)]
mod tests {
    use rsm_config::{Isolate, SymptomLimits};
    use rsm_ids::{Guid, PortNum};

    use super::*;

    const PORT: PortKey = PortKey::new(Guid(7), PortNum(1));
    const QUIET: Duration = Duration::from_secs(600);

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn health() -> Health {
        Health::new(HealthPolicy {
            quiet: QUIET,
            ..HealthPolicy::default()
        })
    }

    fn symbols(per_hour: f64, total: u64) -> Arc<BTreeMap<PortKey, PortErrors>> {
        let mut errors = PortErrors {
            total,
            ..PortErrors::default()
        };
        errors.per_hour[Symptom::SymbolErrors as usize] = per_hour;
        Arc::new(BTreeMap::from([(PORT, errors)]))
    }

    #[test]
    fn errors_of_less_than_five_minutes_are_a_number_with_its_time() {
        let mut health = health();
        let mut errors = symbols(5_000.0, 417);
        let of_port = Arc::make_mut(&mut errors).get_mut(&PORT).unwrap();
        of_port.observed = Duration::from_secs(40);
        assert!(health.count(errors, at(10)));
        let text = health.ill().next().unwrap().1;
        assert_eq!(text, "417 symbol errors in 40 s, the limit is 120 an hour");
    }

    fn is_ill(health: &Health) -> bool {
        health.ill().any(|(port, ..)| port == PORT)
    }

    #[test]
    fn port_above_a_limit_is_unhealthy_until_it_has_been_quiet() {
        let mut health = health();
        assert!(!health.count(symbols(119.0, 50), at(0)));
        assert!(health.count(symbols(121.0, 51), at(10)));
        let text = health.ill().next().unwrap().1.to_owned();
        assert_eq!(
            text,
            "symbol errors at a rate of 121 an hour, the limit is 120"
        );
        assert!(!health.count(symbols(130.0, 60), at(100)), "the text stays");
        assert_eq!(health.next_release(), Some(at(400)), "errors have ended");
        // The rate stays above the limit for a while without new errors.
        assert!(!health.count(symbols(125.0, 60), at(500)));
        assert!(!health.release(at(699)));
        assert!(health.release(at(700)));
        assert!(!health.count(symbols(121.0, 60), at(710)), "old errors");
        assert!(!is_ill(&health));
    }

    #[test]
    fn errors_have_ended_after_five_minutes_and_new_ones_renew_the_text() {
        let mut health = health();
        assert!(health.count(symbols(900.0, 10), at(0)));
        assert!(!health.note_ended_errors(at(299)));
        assert!(!health.have_errors_ended(PORT));
        assert_eq!(health.next_release(), Some(at(300)));
        assert!(health.note_ended_errors(at(300)));
        assert!(!health.note_ended_errors(at(301)), "noted once");
        assert!(health.have_errors_ended(PORT) && is_ill(&health));
        assert_eq!(health.next_release(), Some(at(600)));
        // The rate is similar, and its number is new.
        assert!(health.count(symbols(700.0, 11), at(400)));
        assert!(!health.have_errors_ended(PORT));
        assert!(health.ill().next().unwrap().1.contains("700 an hour"));
        // A rate that has fallen to half is told as well.
        assert!(health.count(symbols(340.0, 12), at(410)));
    }

    #[test]
    fn port_must_be_quiet_for_longer_after_each_relapse() {
        let mut health = health();
        let mut now = 0;
        for (times, total) in (0..7).zip(10..) {
            assert!(health.count(symbols(500.0, total), at(now)));
            let quiet = 600 << u32::min(times, 4);
            assert_eq!(health.last_release(), Some(at(now + quiet)), "{times}");
            now += quiet;
            assert!(health.release(at(now)));
            now += 60;
        }
        now += 25 * 3600;
        assert!(!health.release(at(now)));
        assert!(health.count(symbols(500.0, 99), at(now)));
        assert_eq!(health.last_release(), Some(at(now + 600)));
    }

    #[test]
    fn ten_reports_in_an_hour_make_a_port_unhealthy_and_rare_reports_do_not() {
        let mut health = health();
        for minute in 0..100 {
            assert!(!health.report(PORT, at(minute * 600)));
        }
        let now = 100 * 600;
        let changed: Vec<bool> = (0..10).map(|n| health.report(PORT, at(now + n))).collect();
        assert_eq!(changed.iter().filter(|&&changed| changed).count(), 1);
        assert!(is_ill(&health));
        assert!(health.ill().next().unwrap().1.contains("traps 129 to 131"));
        assert!(health.release(at(now + 9 + 600)));
    }

    #[test]
    fn symptom_without_a_limit_makes_no_port_unhealthy() {
        let mut limits = SymptomLimits::default();
        limits.0[Symptom::SymbolErrors as usize] = 0;
        limits.0[Symptom::Reports as usize] = 0;
        let mut health = Health::new(HealthPolicy {
            disables_babbling: false,
            limits,
            isolate: Isolate::On,
            quiet: QUIET,
        });
        assert!(!health.count(symbols(1e9, 1), at(0)));
        assert!((0..1000).all(|second| !health.report(PORT, at(second))));
        assert!(!is_ill(&health));
    }

    #[test]
    fn text_changes_when_the_rate_doubles_or_a_symptom_is_new() {
        let mut health = health();
        assert!(health.count(symbols(200.0, 1), at(0)));
        assert!(!health.count(symbols(390.0, 2), at(1)));
        assert!(health.count(symbols(401.0, 3), at(2)));
        let reported: Vec<bool> = (0..10)
            .map(|second| health.report(PORT, at(second)))
            .collect();
        assert!(reported[9] && !reported[8]);
        assert!(
            health
                .ill()
                .next()
                .unwrap()
                .1
                .contains("; 10 or more reports")
        );
    }

    #[test]
    fn all_ports_are_healthy_after_limits_change() {
        let mut health = health();
        health.count(symbols(200.0, 1), at(0));
        let policy = HealthPolicy {
            isolate: Isolate::On,
            ..*health.policy()
        };
        health.configure(policy);
        assert!(is_ill(&health));
        let limits = SymptomLimits([300; Symptom::ALL.len()]);
        health.configure(HealthPolicy { limits, ..policy });
        assert!(!is_ill(&health));
        assert!(!health.count(symbols(200.0, 2), at(1)));
    }

    #[test]
    fn unhealthy_ports_are_restored_unless_limits_have_changed() {
        let mut before = health();
        assert!(before.count(symbols(500.0, 10), at(0)));
        assert!(before.release(at(600)));
        assert!(before.count(symbols(500.0, 11), at(700)));
        let saved = before.saved([PORT, PortKey::new(Guid(8), PortNum(1))].into_iter());
        assert_eq!(saved.isolated, [PORT].into());
        let mut after = Health::restored(*before.policy(), &saved);
        assert_eq!(after.saved([PORT].into_iter()), saved);
        assert_eq!(after.last_release(), Some(at(700 + 1200)));
        // The counters of this run have started again, so that the total is smaller.
        let is_news = after.count(symbols(130.0, 2), at(800));
        assert!(is_news, "a rate that has fallen by half renews the text");
        assert_eq!(after.last_release(), Some(at(800 + 1200)));
        assert!(after.release(at(2000)));
        assert!(after.count(symbols(500.0, 3), at(2100)));
        assert_eq!(after.last_release(), Some(at(2100 + 2400)), "a relapse");
        for other in [
            HealthPolicy {
                limits: SymptomLimits([300; Symptom::ALL.len()]),
                ..*before.policy()
            },
            HealthPolicy {
                quiet: QUIET * 2,
                ..*before.policy()
            },
        ] {
            assert!(!is_ill(&Health::restored(other, &saved)));
        }
    }

    #[test]
    fn number_of_reporting_and_unhealthy_ports_is_bounded() {
        let mut health = health();
        for node in 0..3 * MAX_PORTS as u64 {
            for second in 0..10 {
                health.report(PortKey::new(Guid(node), PortNum(1)), at(second));
            }
        }
        assert_eq!(health.reports.len(), MAX_PORTS);
        assert_eq!(health.ill().count(), MAX_PORTS);
        // After an hour, there is room for other ports.
        health.report(PortKey::new(Guid(1 << 40), PortNum(1)), at(4000));
        assert_eq!(health.reports.len(), 1);
    }
}
