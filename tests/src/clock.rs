//! Reads the clock for the whole harness.
//!
//! Tests wait for peers and benches measure them; both need real time, which the workspace
//! otherwise bans.

use std::time::{Duration, Instant};

/// A monotonic clock that counts from its creation.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts a stopwatch at zero.
    #[must_use]
    pub fn start() -> Self {
        Self(now())
    }

    /// The time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The current time, for deadlines and for measuring how long answers take.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "peers run in real time")]
pub fn now() -> Instant {
    Instant::now()
}

/// The polling interval of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Polls `condition` until it yields a value; returns `None` if `limit` passes first.
pub fn wait_for<T>(limit: Duration, condition: impl FnMut() -> Option<T>) -> Option<T> {
    wait_for_every(POLL_INTERVAL, limit, condition)
}

/// Polls like [`wait_for`], but at intervals of `interval`: for conditions that are expensive to
/// poll.
pub fn wait_for_every<T>(
    interval: Duration,
    limit: Duration,
    mut condition: impl FnMut() -> Option<T>,
) -> Option<T> {
    let stopwatch = Stopwatch::start();
    loop {
        if let Some(value) = condition() {
            return Some(value);
        }
        if stopwatch.elapsed() >= limit {
            return None;
        }
        std::thread::sleep(interval);
    }
}

/// The current time, in milliseconds since the Unix epoch.
#[must_use]
pub fn unix_ms() -> u64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
