//! Reads the time for all other parts of the daemon.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use rsm_mad::Time;

/// Smallest difference between the machine's clock and the known one that counts as a setting of
/// the machine's clock. Time services that adjust the clock slowly adjust the monotonic clock with
/// it, so that smaller differences do not add up.
const STEP: Duration = Duration::from_millis(100);

/// Longest time in which both clocks are read. A process that was stopped between the two readings
/// would otherwise take its pause for a setting of the machine's clock.
const READING: Duration = Duration::from_millis(20);

/// Time after which a clock that nobody sets counts as right: time services set a clock that is
/// wrong at boot within minutes.
const SETTLED_AFTER: Duration = Duration::from_secs(3600);

/// Clock that counts from the start of the daemon, and converts its times to Unix time by the
/// machine's clock as it is set now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    origin: Instant,
    wall: &'static Wall,
}

/// The machine's clock, as the copies of a [`Clock`] know it.
#[derive(Debug)]
struct Wall {
    /// Start of the daemon, in milliseconds since the Unix epoch. A machine's clock before 1970 is
    /// not set; Unix times then count from the start of the daemon.
    origin_unix_ms: AtomicU64,
    /// Time of the last setting of the machine's clock, in milliseconds since the start of the
    /// daemon; 0 without one.
    set_ms: AtomicU64,
}

impl Clock {
    /// Starts the clock at zero.
    #[expect(
        clippy::disallowed_methods,
        reason = "the shell is where the time comes from"
    )]
    pub(super) fn start() -> Clock {
        // All parts of the daemon have a copy, until the process ends.
        let wall = Box::leak(Box::new(Wall {
            origin_unix_ms: AtomicU64::new(millis(UNIX_EPOCH.elapsed().unwrap_or_default())),
            set_ms: AtomicU64::new(0),
        }));
        Clock {
            origin: Instant::now(),
            wall,
        }
    }

    /// Time since the start of the daemon. Follows the machine's clock if it was set.
    pub(super) fn now(self) -> Time {
        let before = self.origin.elapsed();
        let unix = UNIX_EPOCH.elapsed().unwrap_or_default();
        let now = self.origin.elapsed();
        if now.saturating_sub(before) <= READING {
            self.follow(before, unix);
        }
        Time::from_nanos(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Converts times by the machine's clock from now on, which shows `unix` since the Unix epoch
    /// at `now` since the start of the daemon.
    fn follow(self, now: Duration, unix: Duration) {
        let origin = millis(unix.saturating_sub(now));
        let known = self.wall.origin_unix_ms.load(Ordering::Relaxed);
        if origin.abs_diff(known) < millis(STEP) {
            return;
        }
        self.wall.origin_unix_ms.store(origin, Ordering::Relaxed);
        self.wall.set_ms.store(millis(now), Ordering::Relaxed);
        let step = i128::from(origin) - i128::from(known);
        tracing::info!("the machine's clock was set by {step} ms: times that are shown follow it");
    }

    /// Whether the machine's clock can be trusted at `now` to tell what is old: nobody has set it
    /// for an hour of this run.
    pub(super) fn is_settled(self, now: Time) -> bool {
        let set = Duration::from_millis(self.wall.set_ms.load(Ordering::Relaxed));
        Duration::from_nanos(now.as_nanos()).saturating_sub(set) >= SETTLED_AFTER
    }

    /// Converts a time to the instant that tokio's timers expect; `None` stays `None`.
    pub(super) fn instant(self, at: Option<Time>) -> Option<tokio::time::Instant> {
        at.map(|at| {
            tokio::time::Instant::from_std(self.origin + Duration::from_nanos(at.as_nanos()))
        })
    }
}

impl rsm_view::publish::UnixClock for Clock {
    fn now(&self) -> Time {
        Clock::now(*self)
    }

    fn unix_ms(&self, at: Time) -> u64 {
        self.wall.origin_unix_ms.load(Ordering::Relaxed) + at.as_nanos() / 1_000_000
    }
}

/// Whole milliseconds of a span.
fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use rsm_view::publish::UnixClock as _;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn time(since: Duration) -> Time {
        Time::ZERO + since
    }

    #[test]
    fn set_machine_clock_moves_earlier_and_later_unix_times() {
        let clock = Clock::start();
        let copy = clock;
        let year = 1_700_000_000;
        clock.follow(Duration::from_secs(60), Duration::from_secs(year + 60));
        for second in [0, 30, 90] {
            let at = time(Duration::from_secs(second));
            assert_eq!(copy.unix_ms(at), (year + second) * 1000);
        }
        // The clock goes back by a day.
        let day = 24 * 3600;
        clock.follow(
            Duration::from_secs(90),
            Duration::from_secs(year - day + 90),
        );
        assert_eq!(copy.unix_ms(time(HOUR)), (year - day + 3600) * 1000);
    }

    #[test]
    fn unix_times_keep_still_while_nobody_sets_the_clock() {
        let clock = Clock::start();
        let begin = clock.unix_ms(Time::ZERO);
        for millisecond in 0..200 {
            let now = Duration::from_millis(1000 * millisecond);
            // The two readings are some milliseconds apart.
            let unix = Duration::from_millis(begin + millisecond % 50) + now;
            clock.follow(now, unix);
            assert_eq!(clock.unix_ms(Time::ZERO), begin);
        }
    }

    #[test]
    fn clock_is_settled_an_hour_after_the_start_and_after_each_setting() {
        let clock = Clock::start();
        let begin = Duration::from_millis(clock.unix_ms(Time::ZERO));
        assert!(!clock.is_settled(time(HOUR / 2)));
        assert!(clock.is_settled(time(HOUR)));
        let set = HOUR * 2;
        clock.follow(set, begin + set + Duration::from_secs(400 * 24 * 3600));
        assert!(!clock.is_settled(time(set + HOUR / 2)));
        clock.follow(set + HOUR / 2, begin + set + HOUR / 2);
        assert!(!clock.is_settled(time(set + HOUR)));
        assert!(clock.is_settled(time(set + HOUR + HOUR / 2)));
    }
}
