//! Reads the time for all other parts of the daemon.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rsm_mad::Time;

/// Clock that counts from the start of the daemon, and knows the start in Unix time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    origin: Instant,
    /// Start of the daemon, in milliseconds since the Unix epoch.
    unix_ms: u64,
}

impl Clock {
    /// Starts the clock at zero.
    #[expect(
        clippy::disallowed_methods,
        reason = "the shell is where the time comes from"
    )]
    pub(super) fn start() -> Clock {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        Clock {
            origin: Instant::now(),
            // A system clock before 1970 is not set; Unix times then count from the start of the
            // daemon.
            unix_ms: unix.map_or(0, |since| since.as_millis() as u64),
        }
    }

    /// Time since the start of the daemon.
    #[expect(
        clippy::disallowed_methods,
        reason = "the shell is where the time comes from"
    )]
    pub(super) fn now(self) -> Time {
        let since = Instant::now().saturating_duration_since(self.origin);
        Time::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Time of the machine's clock in milliseconds since the Unix epoch, which follows each setting
    /// of that clock; 0 before 1970.
    pub(super) fn wall_unix_ms() -> u64 {
        let since = UNIX_EPOCH.elapsed().unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
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
        self.unix_ms + at.as_nanos() / 1_000_000
    }
}
