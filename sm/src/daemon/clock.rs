//! Reads the time for all other parts of the daemon.

use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant, UNIX_EPOCH};

use rsm_mad::Time;

/// Smallest difference between the machine's clock and the known one that counts as a setting of
/// the machine's clock. Time services that adjust the clock slowly adjust the monotonic clock with
/// it, so that smaller differences do not add up.
const STEP: Duration = Duration::from_millis(100);

/// Smallest setting that says that the clock was wrong since the start of the daemon. A smaller one
/// may be the end of a pause of the whole machine: the clock was right before it, and what happened
/// then keeps its time.
const WRONG_BEFORE: Duration = Duration::from_secs(30 * 60);

/// Longest time in which both clocks are read. A process that was stopped between the two readings
/// would otherwise take its pause for a setting of the machine's clock.
const READING: Duration = Duration::from_millis(20);

/// Time after which a clock that nobody sets counts as right: time services set a clock that is
/// wrong at boot within minutes.
const SETTLED_AFTER: Duration = Duration::from_secs(3600);

/// Most settings whose earlier times are converted as before.
const MAX_SETTINGS: usize = 64;

/// Clock that counts from the start of the daemon, and converts its times to Unix time by the
/// machine's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    origin: Instant,
    wall: &'static Wall,
}

/// The machine's clock, as the copies of a [`Clock`] know it: its settings, oldest first, at least
/// one.
#[derive(Debug)]
struct Wall(RwLock<Vec<Setting>>);

/// One setting of the machine's clock.
#[derive(Clone, Copy, Debug)]
struct Setting {
    /// Time of the setting since the start of the daemon, in milliseconds.
    from_ms: u64,
    /// Start of the daemon by this setting, in milliseconds since the Unix epoch. A machine's clock
    /// before 1970 is not set; Unix times then count from the start of the daemon.
    origin_unix_ms: u64,
}

impl Clock {
    /// Starts the clock at zero.
    #[expect(
        clippy::disallowed_methods,
        reason = "the shell is where the time comes from"
    )]
    pub(super) fn start() -> Clock {
        let first = Setting {
            from_ms: 0,
            origin_unix_ms: millis(UNIX_EPOCH.elapsed().unwrap_or_default()),
        };
        // All parts of the daemon have a copy, until the process ends.
        let wall = Box::leak(Box::new(Wall(RwLock::new(vec![first]))));
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

    /// Converts times by the machine's clock, which shows `unix` since the Unix epoch at `now` since
    /// the start of the daemon: those from `now` on, and all earlier ones where the clock was
    /// wrong until now.
    fn follow(self, now: Duration, unix: Duration) {
        let setting = Setting {
            from_ms: millis(now),
            origin_unix_ms: millis(unix.saturating_sub(now)),
        };
        let differs = |known: Setting, by: Duration| {
            setting.origin_unix_ms.abs_diff(known.origin_unix_ms) >= millis(by)
        };
        if !differs(self.wall.setting_at(setting.from_ms), STEP) {
            return;
        }
        let mut settings = self.wall.0.write().unwrap_or_else(PoisonError::into_inner);
        let Some(&known) = settings.last() else {
            return;
        };
        // Another copy may have followed since.
        if !differs(known, STEP) {
            return;
        }
        if differs(known, WRONG_BEFORE) {
            settings.clear();
        } else if settings.len() == MAX_SETTINGS {
            settings.remove(0);
        }
        settings.push(setting);
        let step = i128::from(setting.origin_unix_ms) - i128::from(known.origin_unix_ms);
        tracing::info!("the machine's clock was set by {step} ms: times that are shown follow it");
    }

    /// Whether the machine's clock can be trusted at `now` to tell what is old: nobody has set it
    /// for an hour of this run.
    pub(super) fn is_settled(self, now: Time) -> bool {
        let now = Duration::from_nanos(now.as_nanos());
        let set = self.wall.setting_at(millis(now)).from_ms;
        now.saturating_sub(Duration::from_millis(set)) >= SETTLED_AFTER
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
        let at_ms = at.as_nanos() / 1_000_000;
        self.wall.setting_at(at_ms).origin_unix_ms + at_ms
    }
}

impl Wall {
    /// Setting of the machine's clock that held at `at_ms` since the start of the daemon: the oldest
    /// known one where an earlier one held.
    fn setting_at(&self, at_ms: u64) -> Setting {
        let settings = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let held = settings.partition_point(|setting| setting.from_ms <= at_ms);
        settings[held.saturating_sub(1)]
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
    fn clock_that_was_wrong_since_the_start_moves_earlier_and_later_unix_times() {
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
    fn what_happened_before_a_pause_of_the_machine_keeps_its_time() {
        let clock = Clock::start();
        let begin = clock.unix_ms(Time::ZERO);
        // The monotonic clock stood still for half a minute, twice.
        for (minute, pauses) in [(10, 1), (20, 2)] {
            let now = Duration::from_secs(60 * minute);
            let unix = Duration::from_millis(begin + 30_240 * pauses) + now;
            clock.follow(now, unix);
        }
        for (minute, pauses) in [(0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (60, 2)] {
            let at = time(Duration::from_secs(60 * minute));
            assert_eq!(
                clock.unix_ms(at),
                begin + 30_240 * pauses + 60_000 * minute,
                "minute {minute}"
            );
        }
        assert!(!clock.is_settled(time(HOUR)));
        assert!(clock.is_settled(time(HOUR + HOUR / 2)));
    }

    #[test]
    fn clock_that_is_set_for_ever_keeps_the_last_settings() {
        let clock = Clock::start();
        let begin = clock.unix_ms(Time::ZERO);
        for minute in 1..1000 {
            let now = Duration::from_secs(60 * minute);
            clock.follow(now, Duration::from_millis(begin + 1000 * minute) + now);
        }
        assert_eq!(clock.wall.0.read().unwrap().len(), MAX_SETTINGS);
        let last = time(Duration::from_secs(60 * 998));
        assert_eq!(clock.unix_ms(last), begin + 1000 * 998 + 60_000 * 998);
        let forgotten = clock.unix_ms(Time::ZERO);
        assert_eq!(forgotten, begin + 1000 * (1000 - MAX_SETTINGS as u64));
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
