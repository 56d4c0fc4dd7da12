use std::time::Duration;

/// Counters of a client since it was made, and its present state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientStats {
    /// Get datagrams handed out to be sent, retries included.
    pub sent_get: u64,
    /// Set datagrams handed out to be sent, retries included.
    pub sent_set: u64,
    /// Datagrams of other methods handed out to be sent, retries included.
    pub sent_other: u64,
    /// Datagrams among those that were not a request's first.
    pub retries: u64,
    /// Requests that got a response.
    pub answered: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Attempts that were not answered in time.
    pub timeouts: u64,
    /// Attempts that were not answered in time while this client's owner or the whole fabric was
    /// held up; they were sent again.
    pub excused: u64,
    /// Attempts that the transport failed to send.
    pub send_failures: u64,
    /// Attempts that were answered BUSY.
    pub busy: u64,
    /// Lost attempts: a later one of the same request was answered.
    pub losses: u64,
    /// Attempts that were answered after their timeout, but before the request was given up.
    pub slow: u64,
    /// Answers that came after their request had failed.
    pub late: u64,
    /// Answers to a request that was answered already.
    pub duplicate: u64,
    /// Answers of a known transaction with another class, attribute or modifier than the request.
    pub mismatched: u64,
    /// Requests refused because too many were pending.
    pub rejected: u64,
    /// Requests taken back by their owner.
    pub cancelled: u64,
    /// Cancelled requests that were sent and not answered; the client did not wait to learn whether
    /// their datagrams were lost.
    pub withdrawn: u64,
    /// Requests out now.
    pub in_flight: u32,
    /// Requests that wait to be sent now, retries included.
    pub queued: u32,
    /// The window: how many requests may be out now.
    pub window: u32,
    /// How often the window was halved.
    pub window_halvings: u64,
    /// The smoothed round trip; zero before the first answer.
    pub srtt: Duration,
    /// The timeout of a first attempt now.
    pub timeout: Duration,
    /// Recently lost attempts of 1000. Attempts to targets that never answer, and to single targets
    /// that drop requests that others take, do not count.
    pub loss_permille: u32,
    /// Targets in the table of slow and lossy targets.
    pub outliers: u32,
}
