use std::time::Duration;

use crate::Time;

/// How patient RMPP is and how much it holds. [`Default`] says why each value is what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RmppConfig {
    /// How long a sender waits for an acknowledgement before it sends again; doubled with every
    /// attempt.
    pub response_timeout: Duration,
    /// What doubling ends at.
    pub timeout_ceiling: Duration,
    /// How often in a row either side tries again without any progress.
    pub retries: u8,
    /// How long one transfer may take altogether.
    pub total_time: Duration,
    /// How long a finished transfer is remembered, so that a lost last ACK can be repeated.
    pub linger: Duration,
    /// How many segments a receiver lets the sender be ahead, 1 or more.
    pub window: u32,
    /// How much data a received message may have, in bytes.
    pub max_received: usize,
    /// How many transfers there may be at once.
    pub max_transactions: usize,
    /// How many of them with one LID.
    pub max_per_client: usize,
}

impl RmppConfig {
    /// How long to wait after `retries` attempts without progress.
    pub(super) fn patience(&self, retries: u8) -> Duration {
        let attempts = 2u32.saturating_pow(u32::from(retries));
        let doubled = self.response_timeout.saturating_mul(attempts);
        // Whatever is configured, time goes on.
        doubled
            .min(self.timeout_ceiling)
            .max(Duration::from_millis(1))
    }

    /// When a transfer that begins `now` has taken too long.
    pub(super) fn give_up_at(&self, now: Time) -> Time {
        now + self.total_time
    }
}

impl Default for RmppConfig {
    /// * Half a second, doubled up to 2 s, five times: an acknowledgement takes microseconds, or as
    ///   long as a busy host does not schedule the program; 2 s is what Linux waits, and altogether
    ///   ten seconds are longer than any pause but a crash.
    /// * 40 s for a whole transfer: after that Linux receivers give up too.
    /// * 10 s of remembering: as long as the other side may go on sending the last segment.
    /// * Windows of 32 segments: at a round trip of 20 µs that is 300 MB/s, more than anybody makes
    ///   records in; and 6 kB for each transfer.
    /// * 64 KiB received: the longest request is a MultiPathRecord with some hundred GIDs, 4 kB.
    /// * 8192 transfers: with full windows 55 MB. A host runs one or two; 16 for one LID are a
    ///   machine with many programs that ask at once.
    fn default() -> RmppConfig {
        RmppConfig {
            response_timeout: Duration::from_millis(500),
            timeout_ceiling: Duration::from_secs(2),
            retries: 5,
            total_time: Duration::from_secs(40),
            linger: Duration::from_secs(10),
            window: 32,
            max_received: 64 << 10,
            max_transactions: 8192,
            max_per_client: 16,
        }
    }
}
