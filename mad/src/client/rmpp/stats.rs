/// What happened so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RmppStats {
    /// Transfers and requests that are there now.
    pub transactions: usize,
    /// Messages that were received whole.
    pub received: u64,
    /// Messages of many segments that were acknowledged whole.
    pub sent: u64,
    /// Transfers and requests that failed.
    pub failed: u64,
    /// Packets that belong to no transfer.
    pub stray: u64,
    /// Requests that came again while their answer was being sent.
    pub repeated: u64,
    /// Questions of many segments that were stopped for want of room.
    pub stopped: u64,
    /// Packets that were dropped because nobody fetched them; see
    /// [`MAX_CONTROL`](super::MAX_CONTROL).
    pub dropped: u64,
}
