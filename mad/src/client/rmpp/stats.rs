/// The counters of RMPP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RmppStats {
    /// The present number of transfers and waiting requests.
    pub transactions: usize,
    /// Messages that were received whole.
    pub received: u64,
    /// Messages of many segments that were acknowledged whole.
    pub sent: u64,
    /// Transfers and requests that failed.
    pub failed: u64,
    /// Packets that belong to no transfer.
    pub stray: u64,
    /// The number of requests that arrived again while their answer was being sent.
    pub repeated: u64,
    /// Requests of many segments that this side stopped for lack of room.
    pub stopped: u64,
    /// Packets dropped because the owner did not poll them; see
    /// [`MAX_CONTROL`](super::MAX_CONTROL).
    pub dropped: u64,
}
