//! How far a standby has followed the master.

/// How far a standby has followed the master.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Following {
    /// The number of the last plan that the store has; `None`: the store has not shown it yet.
    pub planned: Option<u64>,
    /// The number of the plan that the subnet was read as of; `None`: it was not.
    pub read: Option<u64>,
}
