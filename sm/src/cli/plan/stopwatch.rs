//! Time and memory that a command takes.

use std::time::{Duration, Instant};

/// Measures stages one after the other.
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(
        clippy::disallowed_methods,
        reason = "a command line that says how long it took"
    )]
    pub(super) fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// The time since the start or the last lap.
    #[expect(
        clippy::disallowed_methods,
        reason = "a command line that says how long it took"
    )]
    pub(super) fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now.saturating_duration_since(std::mem::replace(&mut self.0, now))
    }
}

/// A time in milliseconds.
pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The most memory that this process had resident so far, if the system states it.
pub(super) fn memory_peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
