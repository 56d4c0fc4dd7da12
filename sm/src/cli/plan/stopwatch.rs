//! Measures time and memory of a command.

use std::time::{Duration, Instant};

/// Measures successive stages.
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts the first stage.
    #[expect(
        clippy::disallowed_methods,
        reason = "a command line that says how long it took"
    )]
    pub(super) fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// Time since the start or the last lap.
    #[expect(
        clippy::disallowed_methods,
        reason = "a command line that says how long it took"
    )]
    pub(super) fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now.saturating_duration_since(std::mem::replace(&mut self.0, now))
    }
}

/// Converts a duration to milliseconds.
pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Peak resident memory of this process, in bytes; `None` if the system does not state the peak.
pub(super) fn memory_peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
