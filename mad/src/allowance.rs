//! Allowances: limits of the rate of events, which permit a burst.

use std::time::Duration;

use crate::Time;

/// A rate with a burst.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// The number of events that may come at once.
    pub burst: u32,
    /// The time after which one more event may come.
    pub pause: Duration,
}

/// The use of a [`Rate`] so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowance {
    /// The time at which the whole burst may come again.
    whole_at: Time,
}

impl Allowance {
    /// An allowance of which nothing is used.
    pub fn whole(now: Time) -> Allowance {
        Allowance { whole_at: now }
    }

    /// Whether the whole burst may come at `now`.
    pub fn is_whole(&self, now: Time) -> bool {
        self.whole_at <= now
    }

    /// Uses one event of `rate`; false if none is left.
    pub fn take(&mut self, rate: Rate, now: Time) -> bool {
        let whole_at = self.whole_at.max(now);
        let is_left = whole_at.since(now) < rate.pause * rate.burst;
        if is_left {
            self.whole_at = whole_at + rate.pause;
        }
        is_left
    }
}
