//! Sets that take a link down or up.

/// A Set of PortInfo that takes a link down or up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkStep {
    /// PortState Down: the link goes down and trains again.
    Bounce,
    /// PortPhysicalState Disabled: the link stays down.
    Disable,
    /// PortPhysicalState Polling: the link trains if the other end lets it.
    Enable,
}
