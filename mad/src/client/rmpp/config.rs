use std::time::Duration;

use crate::Time;

/// The timeouts and bounds of RMPP. [`Default`] explains each value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RmppConfig {
    /// The time for which a sender waits for an acknowledgement before it sends again. Doubles with
    /// every attempt.
    pub response_timeout: Duration,
    /// The ceiling of the doubled timeout.
    pub timeout_ceiling: Duration,
    /// The maximum number of consecutive retries of either side without progress.
    pub retries: u8,
    /// The maximum time of one transfer.
    pub total_time: Duration,
    /// The time for which a side keeps a finished transfer, to repeat its last ACK if that ACK was
    /// lost.
    pub linger: Duration,
    /// The number of segments beyond the acknowledged segments that a receiver allows the sender to
    /// send, at least 1.
    pub window: u32,
    /// The maximum size of the data of a received message in bytes.
    pub max_received: usize,
    /// The maximum number of transfers at the same time.
    pub max_transactions: usize,
    /// The maximum number of transfers with one LID.
    pub max_per_client: usize,
}

impl RmppConfig {
    /// The timeout after `retries` attempts without progress.
    pub(super) fn timeout_after(&self, retries: u8) -> Duration {
        let factor = 2u32.saturating_pow(u32::from(retries));
        let doubled = self.response_timeout.saturating_mul(factor);
        // The timeout is at least 1 ms, so that time advances under any configuration.
        doubled
            .min(self.timeout_ceiling)
            .max(Duration::from_millis(1))
    }

    /// The time at which a transfer that begins at `now` fails.
    pub(super) fn deadline_from(&self, now: Time) -> Time {
        now + self.total_time
    }
}

impl Default for RmppConfig {
    /// The values are chosen for the following reasons:
    ///
    /// * The timeout is half a second, doubled up to 2 s, with five retries. An acknowledgement
    ///   takes microseconds, or the time for which a busy host does not schedule the program; 2 s
    ///   is the timeout of Linux, and ten seconds in all are longer than any pause except a crash.
    /// * A whole transfer may take 40 s: after that time Linux receivers give up too.
    /// * A finished transfer is kept for 10 s: for that time the other side may continue to send
    ///   the last segment.
    /// * The window is 32 segments: at a round trip of 20 µs this allows 300 MB/s, faster than any
    ///   program makes records, and needs 6 kB for each transfer.
    /// * A received message has at most 64 KiB: the longest request is a MultiPathRecord with some
    ///   hundred GIDs, 4 kB.
    /// * There are at most 8192 transfers, which need 55 MB with full windows. A host runs one or
    ///   two; 16 with one LID are enough for a machine with many programs that send requests at the
    ///   same time.
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
