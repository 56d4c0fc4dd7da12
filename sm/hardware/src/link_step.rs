//! Sets that take a link down or up.

/// A Set of PortInfo that takes a link down or up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkStep {
    /// PortState Down, so that the link trains again.
    Bounce,
    /// PortPhysicalState Disabled: the link stays down.
    Disable,
    /// PortPhysicalState Polling: the link trains if the other end lets it.
    Enable,
}
