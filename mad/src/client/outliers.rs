//! Targets that answer later, or lose more requests, than the other targets: a slow or lossy target
//! does not mean that the fabric is congested.

use std::time::Duration;

use super::ClientConfig;
use super::rtt::RoundTrip;
use crate::Time;

/// The maximum number of slow or lossy targets in the table. If it is full, the client drops the
/// least recently active target and has to recognise that target again later. At 100 bytes each,
/// the table takes 100 kB.
const MAX_OUTLIERS: usize = 1024;

/// The number of losses after which the client assumes that a target drops requests that arrive too
/// fast.
const LOSSY_AFTER: u8 = 2;

/// A target is slow if its answers take this many times as long as those of other targets, and
/// longer than half the shortest timeout.
const SLOW_FACTOR: u32 = 4;

/// The number of consecutive prompt answers after which a target no longer counts as slow or lossy.
const RECOVERED_AFTER: u8 = 32;

/// The share of lost attempts over all targets, in permille, from which a loss says nothing about
/// its target.
const GENERAL_LOSS: u32 = 50;

/// The history of one slow or lossy target.
#[derive(Debug)]
struct Outlier {
    /// The number of the target, as in its requests.
    target: u64,
    /// The round trips of the target; `None` until an answer arrived later than the answers of
    /// other targets.
    round_trip: Option<RoundTrip>,
    /// The number of attempts lost since the target was last treated as normal.
    losses: u8,
    /// The number of consecutive prompt answers.
    prompt_answers: u8,
    /// The time of the last answer or loss.
    last_active: Time,
}

impl Outlier {
    /// Whether the target gets one request at a time, because it is slow or lossy.
    fn gets_one_at_a_time(&self) -> bool {
        self.round_trip.is_some() || self.losses >= LOSSY_AFTER
    }
}

/// The targets that answer later than others, or drop requests that others accept. Each target has
/// a separate timeout and gets one request at a time. Its round trips and losses do not affect the
/// estimates of the fabric.
#[derive(Debug)]
pub(super) struct Outliers {
    /// The targets in the order of their numbers; the memory is allocated once.
    targets: Vec<Outlier>,
    /// A target whose answers take longer than this is not prompt.
    prompt: Duration,
    /// The share of late answers among the last answers of all targets, in units of 1/65536.
    late_share: u32,
    /// The number of answers so far, at most 64: the length of the moving average `late_share`.
    answers: u32,
}

impl Outliers {
    pub(super) fn new(config: &ClientConfig) -> Outliers {
        Outliers {
            targets: Vec::with_capacity(MAX_OUTLIERS),
            prompt: config.timeout_floor / 2,
            late_share: 0,
            answers: 0,
        }
    }

    /// The number of targets in the table.
    pub(super) fn len(&self) -> usize {
        self.targets.len()
    }

    /// The round trips that set the timeouts of `target`; `None` if the target is not slow.
    pub(super) fn round_trip(&self, target: u64) -> Option<&RoundTrip> {
        self.get(target)?.round_trip.as_ref()
    }

    /// Whether `target` gets one request at a time.
    pub(super) fn gets_one_at_a_time(&self, target: u64) -> bool {
        self.get(target).is_some_and(Outlier::gets_one_at_a_time)
    }

    /// Records that an answer of `target` took `round_trip`, and whether that exceeded its timeout
    /// (`overdue`); answers of other targets take `usual`. Returns whether the answer says
    /// something about the fabric: the target is not slow, or most targets are slow.
    pub(super) fn record_answer(
        &mut self,
        target: u64,
        round_trip: Duration,
        overdue: bool,
        usual: Option<Duration>,
        config: &ClientConfig,
        now: Time,
    ) -> bool {
        let stands_out = usual.is_some_and(|usual| round_trip > usual * SLOW_FACTOR);
        let is_late = overdue || stands_out && round_trip > self.prompt;
        self.record_late(is_late);
        if is_late {
            let outlier = self.entry(target, now);
            outlier.prompt_answers = 0;
            let own = outlier.round_trip.get_or_insert(RoundTrip::new(config));
            own.sample(round_trip);
            return self.late_share > 1 << 15;
        }
        let Ok(position) = self.position(target) else {
            return true;
        };
        let outlier = &mut self.targets[position];
        outlier.last_active = now;
        let is_slow = outlier.round_trip.is_some();
        if let Some(own) = &mut outlier.round_trip {
            own.sample(round_trip);
        }
        if round_trip > self.prompt {
            outlier.prompt_answers = 0;
        } else {
            outlier.prompt_answers += 1;
            if outlier.prompt_answers >= RECOVERED_AFTER {
                self.targets.remove(position);
            }
        }
        !is_slow
    }

    /// Records that an attempt to `target` was lost, while all targets together lose `general_loss`
    /// permille of their attempts. Returns whether the loss says something about the fabric: the
    /// target did not count as slow or lossy before.
    pub(super) fn record_loss(&mut self, target: u64, general_loss: u32, now: Time) -> bool {
        if general_loss >= GENERAL_LOSS && self.get(target).is_none() {
            return true;
        }
        let outlier = self.entry(target, now);
        let known = outlier.gets_one_at_a_time();
        outlier.prompt_answers = 0;
        if general_loss < GENERAL_LOSS {
            outlier.losses = outlier.losses.saturating_add(1);
        }
        !known
    }

    /// Updates the share of late answers.
    fn record_late(&mut self, is_late: bool) {
        self.answers = (self.answers + 1).min(64);
        let sample = if is_late { 1 << 16 } else { 0_i64 };
        let share = i64::from(self.late_share);
        self.late_share = (share + (sample - share) / i64::from(self.answers)) as u32;
    }

    /// The entry of `target`, which is inserted if it is missing. A full table drops the least
    /// recently active target.
    fn entry(&mut self, target: u64, now: Time) -> &mut Outlier {
        if self.targets.len() >= MAX_OUTLIERS && self.position(target).is_err() {
            let known = self.targets.iter().enumerate();
            let oldest = known.min_by_key(|(_, outlier)| (outlier.last_active, outlier.target));
            if let Some((oldest, _)) = oldest {
                self.targets.remove(oldest);
            }
        }
        let position = self.position(target).unwrap_or_else(|position| {
            let new_outlier = Outlier {
                target,
                round_trip: None,
                losses: 0,
                prompt_answers: 0,
                last_active: now,
            };
            self.targets.insert(position, new_outlier);
            position
        });
        let outlier = &mut self.targets[position];
        outlier.last_active = now;
        outlier
    }

    /// The index of `target` in the table, or as an error the index at which to insert it.
    fn position(&self, target: u64) -> Result<usize, usize> {
        self.targets
            .binary_search_by_key(&target, |outlier| outlier.target)
    }

    fn get(&self, target: u64) -> Option<&Outlier> {
        self.position(target)
            .ok()
            .map(|position| &self.targets[position])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Duration = Duration::from_millis(60);
    const FAST: Duration = Duration::from_micros(60);

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    #[test]
    fn a_late_target_among_prompt_targets_has_its_own_timeout_until_it_is_prompt() {
        let config = ClientConfig::default();
        let mut outliers = Outliers::new(&config);
        for target in 0..100 {
            assert!(outliers.record_answer(target, FAST, false, None, &config, at(1)));
        }
        let usual = Some(FAST);
        assert!(!outliers.record_answer(8, SLOW, false, usual, &config, at(2)));
        assert!(outliers.gets_one_at_a_time(8));
        for _ in 0..32 {
            outliers.record_answer(8, FAST, false, usual, &config, at(3));
        }
        assert!(!outliers.record_answer(7, SLOW, true, None, &config, at(2)));
        assert!(outliers.gets_one_at_a_time(7) && !outliers.gets_one_at_a_time(8));
        assert!(outliers.round_trip(7).unwrap().timeout(0) > SLOW);
        assert!(outliers.round_trip(8).is_none());
        for _ in 0..32 {
            outliers.record_answer(7, FAST, false, None, &config, at(3));
        }
        assert!(!outliers.gets_one_at_a_time(7) && outliers.len() == 0);
    }

    #[test]
    fn mostly_late_answers_are_evidence_about_the_fabric() {
        let config = ClientConfig::default();
        let mut outliers = Outliers::new(&config);
        assert!(outliers.record_answer(1, SLOW, true, None, &config, at(1)));
        for target in 2..100 {
            outliers.record_answer(target, FAST, false, None, &config, at(1));
        }
        let is_late =
            (0..100).map(|target| outliers.record_answer(target, SLOW, true, None, &config, at(2)));
        let of_the_fabric = is_late.filter(|&fabric| fabric).count();
        assert!((20..80).contains(&of_the_fabric), "{of_the_fabric}");
    }

    #[test]
    fn the_third_loss_of_a_target_is_no_evidence_about_the_fabric_unless_all_lose() {
        let config = ClientConfig::default();
        let mut outliers = Outliers::new(&config);
        assert!(outliers.record_loss(1, 0, at(1)) && outliers.record_loss(1, 0, at(2)));
        assert!(outliers.gets_one_at_a_time(1) && !outliers.record_loss(1, 0, at(3)));
        for _ in 0..9 {
            assert!(outliers.record_loss(2, 300, at(4)));
        }
        assert!(!outliers.gets_one_at_a_time(2));
    }

    #[test]
    fn a_full_table_drops_the_least_recently_active_target() {
        let config = ClientConfig::default();
        let mut outliers = Outliers::new(&config);
        for target in 0..2000 {
            outliers.record_answer(target, SLOW, true, None, &config, at(target));
        }
        assert_eq!(outliers.len(), 1024);
        assert!(!outliers.gets_one_at_a_time(0) && outliers.gets_one_at_a_time(1999));
    }
}
