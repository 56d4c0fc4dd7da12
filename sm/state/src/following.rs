//! How far a standby has followed the master.

/// State of a standby that follows the master.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Following {
    /// Number of the last plan in the store; `None` until the store has shown it.
    pub planned: Option<u64>,
    /// Number of the plan for which the subnet was read; `None` if it was not.
    pub read: Option<u64>,
}
