//! Decides which losses are due to congestion: the client tolerates the loss rate of its smallest
//! window, and only losses beyond that rate halve the window.

use crate::Time;

/// The number of resolved attempts over which the share of lost attempts is averaged.
const MEMORY: f64 = 512.0;

/// The number of resolved attempts from which on their share of losses is used.
const MIN_ATTEMPTS: u32 = 32;

/// The number of losses that is enough evidence if half of all attempts are lost: at the smallest
/// window no load could explain them.
const MIN_LOSSES: u32 = 12;

/// The number of attempts in an epoch after which its counts are halved, so that the rate follows a
/// fabric that changes.
const EPOCH: u32 = 512;

/// The number of standard deviations by which losses must exceed the tolerated rate before they
/// count as congestion: with three, one epoch in 700 is judged wrongly.
const DEVIATIONS: f64 = 3.0;

/// The share of losses below which losses at the smallest window may be left over from a larger
/// window.
const NOTICEABLE: f64 = 0.02;

/// The probability below which chance no longer explains why all attempts stay unanswered.
const MIN_CHANCE: f64 = 0.02;

/// The recent share of lost attempts, over all requests that were answered in the end. Attempts to
/// a target that never answers do not count as losses.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LossRate {
    rate: f64,
    resolved: u32,
}

impl LossRate {
    /// Records that one attempt was answered after `lost` attempts were lost.
    pub(super) fn resolved(&mut self, lost: u32) {
        for _ in 0..lost {
            self.add(1.0);
        }
        self.add(0.0);
    }

    fn add(&mut self, sample: f64) {
        self.resolved = self.resolved.saturating_add(1);
        self.rate += (sample - self.rate) / f64::from(self.resolved).min(MEMORY);
    }

    /// The share of lost attempts, from 0 to 1; 0 as long as too few attempts are resolved.
    pub(super) fn rate(&self) -> f64 {
        if self.resolved < MIN_ATTEMPTS {
            0.0
        } else {
            self.rate
        }
    }

    /// The share of lost attempts in permille, from 0 to 1000.
    pub(super) fn permille(&self) -> u32 {
        (self.rate() * 1000.0) as u32
    }

    /// The number of rounds of `attempts` attempts, 1 to `max`, after which losses no longer
    /// explain why all attempts stayed unanswered.
    pub(super) fn rounds(&self, attempts: u32, max: u8) -> u8 {
        let round_loss = power(self.rate(), attempts);
        let mut chance = round_loss;
        let mut rounds = 1;
        while rounds < max && chance > MIN_CHANCE / 10.0 {
            chance *= round_loss;
            rounds += 1;
        }
        rounds
    }
}

/// Separates congestion, which a smaller window reduces, from other losses.
///
/// Losses from congestion become rarer as the window shrinks; losses of bad cables and busy
/// processors do not. Therefore the losses while the window is at its minimum are *tolerated*: only
/// losses beyond them shrink a larger window again.
#[derive(Debug)]
pub(super) struct Tolerance {
    /// The tolerated share of lost attempts, 0 to 1.
    tolerated: f64,
    /// The number of attempts from which `tolerated` was measured.
    measured: u32,
    /// The time since which sent attempts are counted.
    since: Time,
    /// The number of attempts of this epoch that were answered.
    answered: u32,
    /// The number of attempts of this epoch that were lost.
    lost: u32,
}

/// The conclusion of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Too few attempts are resolved yet.
    Undecided,
    /// A smaller window reduces the losses.
    Congestion,
    /// The smallest window loses as much.
    Random,
}

impl Tolerance {
    pub(super) fn new() -> Tolerance {
        Tolerance {
            tolerated: 0.0,
            measured: 1,
            since: Time::ZERO,
            answered: 0,
            lost: 0,
        }
    }

    /// Begins a measurement in which only attempts sent from `now` on count.
    pub(super) fn begin(&mut self, now: Time) {
        self.since = now;
        (self.answered, self.lost) = (0, 0);
    }

    /// The time from which sent attempts count.
    pub(super) fn since(&self) -> Time {
        self.since
    }

    /// Records that an attempt was answered after `lost` attempts of this epoch were lost.
    pub(super) fn resolved(&mut self, lost: u32) {
        self.answered += 1;
        self.lost += lost;
        if self.total() >= EPOCH {
            self.refine();
            self.answered /= 2;
            self.lost /= 2;
        }
    }

    /// Updates the tolerated rate with the losses of a whole epoch.
    fn refine(&mut self) {
        if self.covers_loss() && self.measured < 2 * MIN_ATTEMPTS {
            // The previous rate was a guess from few attempts.
            self.tolerated = self.rate();
        } else {
            // The fabric may have become better.
            self.tolerated = self.tolerated.min(self.rate() + self.slack());
        }
        // Losses come in groups, one for each timeout, so that more attempts would not be a better
        // measure.
        self.measured = self.measured.max(2 * MIN_ATTEMPTS);
    }

    fn total(&self) -> u32 {
        self.answered + self.lost
    }

    fn rate(&self) -> f64 {
        f64::from(self.lost) / f64::from(self.total().max(1))
    }

    /// The difference from the tolerated rate that chance can explain, given the numbers of
    /// attempts over which both rates were measured.
    fn slack(&self) -> f64 {
        let weight = 1.0 / f64::from(self.total().max(1)) + 1.0 / f64::from(self.measured);
        DEVIATIONS * (self.tolerated * (1.0 - self.tolerated) * weight).sqrt()
    }

    /// Whether a loss is within the tolerated rate, which no smaller window reduces.
    pub(super) fn covers_loss(&self) -> bool {
        self.tolerated > 0.0
            && (self.total() < MIN_ATTEMPTS || self.rate() <= self.tolerated + self.slack())
    }

    /// Whether chance can explain that none of `out` attempts was answered.
    pub(super) fn covers_silence(&self, out: u32) -> bool {
        power(self.tolerated, out) > MIN_CHANCE
    }

    /// The conclusion from the losses since the window reached its minimum.
    pub(super) fn verdict(&mut self, now: Time) -> Verdict {
        let most_are_lost = self.lost >= MIN_LOSSES && self.lost >= self.answered;
        if self.total() < 2 * MIN_ATTEMPTS && self.lost < MIN_ATTEMPTS && !most_are_lost {
            return Verdict::Undecided;
        }
        let rate = self.rate();
        self.measured = self.total();
        self.begin(now);
        if rate < NOTICEABLE {
            self.tolerated = 0.0;
            return Verdict::Congestion;
        }
        self.tolerated = rate;
        Verdict::Random
    }

    /// The number of retries of a request, at most `max`, that the tolerated losses explain.
    pub(super) fn plain_retries(&self, max: u8) -> u8 {
        let mut chance = self.tolerated;
        let mut retries = 0;
        while retries < max && chance > MIN_CHANCE {
            chance *= self.tolerated;
            retries += 1;
        }
        retries
    }
}

/// `base`, from 0 to 1, to the power of `exponent`, computed by multiplication so that every
/// machine has the same result.
fn power(base: f64, exponent: u32) -> f64 {
    (0..exponent.min(1024)).fold(1.0, |product, _| product * base)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tolerance(answered: u32, lost_each: u32) -> Tolerance {
        let mut tolerance = Tolerance::new();
        for _ in 0..answered {
            tolerance.resolved(lost_each);
        }
        tolerance
    }

    #[test]
    fn losses_at_the_smallest_window_are_tolerated_and_rarer_losses_mean_congestion() {
        let now = Time::from_nanos(1);
        assert_eq!(tolerance(10, 1).verdict(now), Verdict::Undecided);
        let mut clean = tolerance(100, 0);
        assert_eq!(clean.verdict(now), Verdict::Congestion);
        assert!(!clean.covers_loss() && !clean.covers_silence(1));
        let mut lossy = tolerance(32, 1);
        assert_eq!(lossy.verdict(now), Verdict::Random);
        assert!(lossy.covers_loss() && lossy.covers_silence(4) && !lossy.covers_silence(10));
        assert_eq!((lossy.plain_retries(30), clean.plain_retries(30)), (5, 0));
    }

    #[test]
    fn losses_beyond_the_tolerated_rate_are_not_covered() {
        let mut lossy = tolerance(32, 1);
        assert_eq!(lossy.verdict(Time::from_nanos(1)), Verdict::Random);
        for _ in 0..32 {
            lossy.resolved(1);
        }
        assert!(lossy.covers_loss(), "as many as before");
        for _ in 0..32 {
            lossy.resolved(6);
        }
        assert!(!lossy.covers_loss());
    }

    #[test]
    fn rounds_before_a_target_counts_as_silent_grow_with_the_loss_rate() {
        let mut rate = LossRate::default();
        assert_eq!(rate.rounds(7, 4), 1);
        for _ in 0..200 {
            rate.resolved(3);
        }
        assert!((740..=760).contains(&rate.permille()), "{rate:?}");
        assert_eq!(rate.rounds(7, 4), 4);
        for _ in 0..5000 {
            rate.resolved(0);
        }
        assert_eq!((rate.rounds(7, 4), rate.permille()), (1, 0));
    }
}
