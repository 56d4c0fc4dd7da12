//! Pauses between attempts to reach a receiver.

use std::time::Duration;

/// First pause.
const FIRST: Duration = Duration::from_secs(1);

/// Maximum of the doubling pauses.
const LONGEST: Duration = Duration::from_secs(60);

/// Maximum of a pause that a receiver asks for.
const ASKED_MAX: Duration = Duration::from_secs(600);

/// Pauses that double from one second to a minute.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The pause after another failure. `asked` is the pause that the receiver asked for, if any.
    pub fn after_failure(&mut self, asked: Option<Duration>) -> Duration {
        let doubled = FIRST.saturating_mul(1 << self.failures.min(6)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        asked.map_or(doubled, |asked| asked.min(ASKED_MAX).max(doubled))
    }

    /// Starts again with the first pause.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}
