//! The progress of a standby that follows the master.

/// State of a standby that follows the master.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Following {
    /// Number of the last plan in the store; `None` until the store has shown one.
    pub planned: Option<u64>,
    /// Number of the plan up to which the standby has read the subnet; `None` without a valid
    /// reading.
    pub read: Option<u64>,
}
