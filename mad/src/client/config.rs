use std::time::Duration;

use super::MAX_PENDING;

/// The operator's settings of the client. [`Default`] explains each value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientConfig {
    /// The number of requests that may be out before the first answer.
    pub initial_window: u32,
    /// The minimum of the window, 1 or more.
    pub min_window: u32,
    /// The maximum of the window, up to [`MAX_PENDING`].
    pub max_window: u32,
    /// The maximum number of requests that may be out to one target, at least 1.
    pub target_cap: u16,
    /// The number of times that the client sends a request again before it fails, up to
    /// [`ClientConfig::MAX_RETRIES`].
    pub retries: u8,
    /// The timeout of a request's first attempt before any answer has shown a round trip.
    pub initial_timeout: Duration,
    /// The shortest timeout of an attempt.
    pub timeout_floor: Duration,
    /// The longest timeout of an attempt.
    pub timeout_ceiling: Duration,
    /// The time for which the client sends nothing to a target after a BUSY answer or after the
    /// transport failed to send. Doubles with every further attempt; at most the ceiling.
    pub busy_delay: Duration,
    /// The generation before the first generation of transaction identifiers. A process that starts
    /// at a random generation does not mistake answers to its predecessor for its own answers.
    pub first_generation: u16,
}

impl ClientConfig {
    /// The largest window on a port of this host. The send queue of QP0 that Linux gives the MAD
    /// layer holds 128 datagrams (`ib_core`, IB_MAD_QP_SEND_SIZE). Of these, 32 remain for other
    /// programs and for the kernel's own answers. Requests beyond the queue wait in the kernel
    /// while their timeouts already run.
    pub const UMAD_WINDOW: u32 = 96;

    /// The maximum number of retries: with more, doubled timeouts would take too long.
    pub const MAX_RETRIES: u8 = 30;

    /// Checks that the values are in range and do not contradict each other.
    ///
    /// # Errors
    /// The first rule that the values break.
    pub fn validate(&self) -> Result<(), ClientConfigError> {
        let windows = [self.min_window, self.initial_window, self.max_window];
        if self.min_window == 0 || !windows.is_sorted() || self.max_window as usize > MAX_PENDING {
            return Err(ClientConfigError::Window {
                min: self.min_window,
                initial: self.initial_window,
                max: self.max_window,
            });
        }
        if self.target_cap == 0 {
            return Err(ClientConfigError::TargetCap);
        }
        if self.retries > Self::MAX_RETRIES {
            return Err(ClientConfigError::Retries(self.retries));
        }
        let timeouts = [
            self.timeout_floor,
            self.initial_timeout,
            self.timeout_ceiling,
        ];
        if self.timeout_floor.is_zero() || !timeouts.is_sorted() {
            return Err(ClientConfigError::Timeout {
                floor: self.timeout_floor,
                initial: self.initial_timeout,
                ceiling: self.timeout_ceiling,
            });
        }
        if self.busy_delay.is_zero() || self.busy_delay > self.timeout_ceiling {
            return Err(ClientConfigError::BusyDelay(self.busy_delay));
        }
        Ok(())
    }
}

impl Default for ClientConfig {
    /// The values are chosen for the following reasons:
    ///
    /// * The window begins at 4, as OpenSM's, because the buffers of the agents are not known
    ///   yet. The window grows with every answer to at most 96 requests, which keep a large fabric
    ///   busy with a hundred thousand answers a second. The window never shrinks below 4, so that
    ///   the client makes progress even if a few targets do not answer. More than 96 would not fit
    ///   into the kernel's send queue ([`UMAD_WINDOW`](ClientConfig::UMAD_WINDOW)), and ibsim stops
    ///   for good when a client has some 160 requests out.
    /// * Two requests may be out to one target: the agent has the next request when it answers
    ///   the first, and its receive queue, which may hold as few as four datagrams, has room for
    ///   traps and for the requests of another subnet manager.
    /// * Timeouts are between 25 ms and 1 s, and 100 ms before any round trip was measured. 25 ms
    ///   is the time of 25 slow answers, and longer than a scheduler delays this process, but short
    ///   enough that a lost SMP costs little time. A switch whose processor boots, or programs
    ///   tables, does not answer for up to seconds; six retries with doubled timeouts take longer
    ///   than that (25, 50, 100, 200, 400, 800, 1000 ms: 2.6 s in all). A timeout that was too
    ///   short does little harm, because an answer to an earlier attempt is accepted as well and
    ///   increases the estimate.
    fn default() -> ClientConfig {
        ClientConfig {
            initial_window: 4,
            min_window: 4,
            max_window: ClientConfig::UMAD_WINDOW,
            target_cap: 2,
            retries: 6,
            initial_timeout: Duration::from_millis(100),
            timeout_floor: Duration::from_millis(25),
            timeout_ceiling: Duration::from_secs(1),
            busy_delay: Duration::from_millis(25),
            first_generation: 0,
        }
    }
}

/// The values of a [`ClientConfig`] are out of range or contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientConfigError {
    /// The windows are not in order.
    #[error(
        "windows of {min} to {max} requests from {initial} at first: expected 1 <= least <= first <= most <= {MAX_PENDING}"
    )]
    Window {
        /// The value of [`ClientConfig::min_window`].
        min: u32,
        /// The value of [`ClientConfig::initial_window`].
        initial: u32,
        /// The value of [`ClientConfig::max_window`].
        max: u32,
    },
    /// The number of requests that may be out to one target is 0.
    #[error("0 requests to a target at a time: expected 1 or more")]
    TargetCap,
    /// The number of retries is too large.
    #[error("{0} retries: expected 0 to {max}", max = ClientConfig::MAX_RETRIES)]
    Retries(u8),
    /// The timeouts are not in order.
    #[error(
        "timeouts of {floor:?} to {ceiling:?} from {initial:?} at first: expected 0 < floor <= first <= ceiling"
    )]
    Timeout {
        /// The value of [`ClientConfig::timeout_floor`].
        floor: Duration,
        /// The value of [`ClientConfig::initial_timeout`].
        initial: Duration,
        /// The value of [`ClientConfig::timeout_ceiling`].
        ceiling: Duration,
    },
    /// The delay after BUSY is out of range.
    #[error(
        "a delay of {0:?} after BUSY: expected more than 0, and no more than the ceiling of timeouts"
    )]
    BusyDelay(Duration),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(ClientConfig::default().validate(), Ok(()));
    }

    #[test]
    fn each_broken_rule_is_an_error() {
        let broken: [fn(&mut ClientConfig); 8] = [
            |config| config.min_window = 0,
            |config| config.initial_window = 3,
            |config| config.max_window = 3,
            |config| config.max_window = MAX_PENDING as u32 + 1,
            |config| config.target_cap = 0,
            |config| config.retries = 31,
            |config| config.timeout_floor = Duration::from_secs(2),
            |config| config.busy_delay = Duration::ZERO,
        ];
        for (rule, breaks) in broken.into_iter().enumerate() {
            let mut config = ClientConfig::default();
            breaks(&mut config);
            assert!(config.validate().is_err(), "rule {rule}");
        }
    }
}
