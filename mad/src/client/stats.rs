use std::time::Duration;

/// Counters of a client since it was created, and its present state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientStats {
    /// The number of Get datagrams passed to the owner to be sent, retries included.
    pub sent_get: u64,
    /// The number of Set datagrams passed to the owner to be sent, retries included.
    pub sent_set: u64,
    /// The number of datagrams of other methods passed to the owner to be sent, retries included.
    pub sent_other: u64,
    /// The number of datagrams sent that were not the first datagram of their request.
    pub retries: u64,
    /// The number of requests that got a response.
    pub answered: u64,
    /// The number of requests that failed.
    pub failed: u64,
    /// The number of attempts that were not answered in time.
    pub timeouts: u64,
    /// The number of attempts that were not answered in time while the owner of this client, or the
    /// whole fabric, was delayed; such attempts were repeated.
    pub excused: u64,
    /// The number of attempts that the transport failed to send.
    pub send_failures: u64,
    /// The number of attempts that were answered with BUSY.
    pub busy: u64,
    /// The number of lost attempts: a later attempt of the same request was answered.
    pub losses: u64,
    /// The number of attempts that were answered after their timeout, but before the request was
    /// given up.
    pub slow: u64,
    /// The number of answers that arrived after their request had failed.
    pub late: u64,
    /// The number of answers to requests that were answered already.
    pub duplicate: u64,
    /// The number of answers to a known transaction with another class, attribute or modifier than
    /// the request.
    pub mismatched: u64,
    /// The number of requests refused because too many were pending.
    pub rejected: u64,
    /// The number of requests that their owner cancelled or withdrew, sent or not.
    pub cancelled: u64,
    /// The number of cancelled requests that were sent and not answered; the client did not wait to
    /// learn whether their datagrams were lost.
    pub withdrawn: u64,
    /// The number of requests that are out now.
    pub in_flight: u32,
    /// The number of requests that wait to be sent now, retries included.
    pub queued: u32,
    /// The window: the number of requests that may be out now.
    pub window: u32,
    /// The number of times the window was halved.
    pub window_halvings: u64,
    /// The smoothed round trip; zero before the first answer.
    pub srtt: Duration,
    /// The timeout of a first attempt now.
    pub timeout: Duration,
    /// The number of lost attempts per 1000 recent attempts. Attempts to targets that never answer
    /// do not count, nor do attempts to single targets that drop requests that other targets
    /// accept.
    pub loss_permille: u32,
    /// The number of targets in the table of slow and lossy targets.
    pub outliers: u32,
}
