/// The counters of RMPP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RmppStats {
    /// The present number of transfers and waiting requests.
    pub transactions: usize,
    /// The number of messages that were received completely.
    pub received: u64,
    /// The number of messages with several segments that were acknowledged completely.
    pub sent: u64,
    /// The number of transfers and requests that failed.
    pub failed: u64,
    /// The number of packets that belong to no transfer.
    pub stray: u64,
    /// The number of requests that arrived again while their answer was being sent.
    pub repeated: u64,
    /// The number of requests of many segments that this side stopped for lack of room.
    pub stopped: u64,
    /// The number of packets dropped because the owner did not poll them; see
    /// [`MAX_CONTROL`](super::MAX_CONTROL).
    pub dropped: u64,
}
