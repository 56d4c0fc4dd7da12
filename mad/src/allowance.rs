//! Allowances: limits of the rate of events, which permit a burst.

use std::time::Duration;

use crate::Time;

/// A limit on the rate of events, which lets a burst pass at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// The number of events allowed at once.
    pub burst: u32,
    /// The time after which one more event is allowed.
    pub pause: Duration,
}

/// The use of a [`Rate`] so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowance {
    /// The time at which the whole burst is allowed again.
    whole_at: Time,
}

impl Allowance {
    /// An unused allowance.
    pub fn whole(now: Time) -> Allowance {
        Allowance { whole_at: now }
    }

    /// Whether the whole burst is allowed at `now`.
    pub fn is_whole(&self, now: Time) -> bool {
        self.whole_at <= now
    }

    /// Uses one event of `rate`; returns false if none is left at `now`.
    pub fn take(&mut self, rate: Rate, now: Time) -> bool {
        let whole_at = self.whole_at.max(now);
        let is_left = whole_at.since(now) < rate.pause * rate.burst;
        if is_left {
            self.whole_at = whole_at + rate.pause;
        }
        is_left
    }
}
