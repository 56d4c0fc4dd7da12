//! Points on a monotonic clock.

use std::fmt;
use std::ops::{Add, AddAssign};
use std::time::Duration;

/// A point on a monotonic clock, in nanoseconds since an origin that only the owner of the clock
/// knows.
///
/// Code that never reads a clock has a parameter `now` of this type. Arithmetic saturates: 64 bits
/// of nanoseconds last 584 years, so only extremely long timeouts reach the limit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The origin of the time scale.
    pub const ZERO: Time = Time(0);
    /// A time later than any event.
    pub const MAX: Time = Time(u64::MAX);

    /// The point `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// The number of nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time that has passed since `earlier`; zero if `earlier` is not before this time.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    /// The point `duration` later, or [`Time::MAX`] when that is beyond the clock.
    fn add(self, duration: Duration) -> Time {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(nanos))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl fmt::Display for Time {
    /// Writes the seconds with nine decimals, for example `12.000000345`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NANOS_PER_SECOND: u64 = 1_000_000_000;
        write!(
            f,
            "{}.{:09}",
            self.0 / NANOS_PER_SECOND,
            self.0 % NANOS_PER_SECOND
        )
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let early = Time::from_nanos(5);
        let late = early + Duration::from_nanos(7);
        assert_eq!(late.as_nanos(), 12);
        assert_eq!(late.since(early), Duration::from_nanos(7));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(late + Duration::MAX, Time::MAX);
    }

    #[test]
    fn text_keeps_every_nanosecond() {
        assert_eq!(Time::from_nanos(12_000_000_345).to_string(), "12.000000345");
    }
}
