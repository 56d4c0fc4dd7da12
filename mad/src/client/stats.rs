use std::time::Duration;

/// What a client did since it was made, and how it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientStats {
    /// Get datagrams handed out to be sent, retries included.
    pub sent_get: u64,
    /// Set datagrams handed out to be sent, retries included.
    pub sent_set: u64,
    /// Datagrams of other methods handed out to be sent, retries included.
    pub sent_other: u64,
    /// Of all those, the ones that were not a request's first.
    pub retries: u64,
    /// Requests that got a response.
    pub answered: u64,
    /// Requests that were given up.
    pub failed: u64,
    /// Attempts that were not answered in time.
    pub timeouts: u64,
    /// Attempts that the transport failed to send.
    pub send_failures: u64,
    /// Attempts that were answered BUSY.
    pub busy: u64,
    /// Attempts that are known to be lost: a later one of the same request was answered.
    pub losses: u64,
    /// Attempts that were answered after their timeout, but before the request was given up.
    pub slow: u64,
    /// Answers that came after their request was given up.
    pub late: u64,
    /// Answers to a request that had one already.
    pub duplicate: u64,
    /// Answers whose transaction is known, but whose class, attribute or modifier are not those
    /// that were asked for.
    pub mismatched: u64,
    /// Requests refused because too many were pending.
    pub rejected: u64,
    /// Requests taken back by their owner.
    pub cancelled: u64,
    /// Of those, the ones that were sent and not answered: whether a datagram of theirs got lost
    /// was not waited for.
    pub withdrawn: u64,
    /// Requests out now.
    pub in_flight: u32,
    /// Requests that wait for their turn now, retries included.
    pub queued: u32,
    /// How many requests may be out now.
    pub window: u32,
    /// How often the window was halved.
    pub window_halvings: u64,
    /// The smoothed round trip; zero before the first answer.
    pub srtt: Duration,
    /// How long a first attempt is waited for now.
    pub timeout: Duration,
    /// Of 1000 attempts of late, how many were lost on their way there or back. Attempts to targets
    /// that never answer, and to single targets that drop what others take, do not count.
    pub loss_permille: u32,
    /// Targets remembered for answering later than others, or for dropping what others take.
    pub outliers: u32,
}
