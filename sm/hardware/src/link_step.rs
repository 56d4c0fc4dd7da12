//! Sets that take a link down or up.

use rsm_ids::PortKey;

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

/// A link that was bounced to change its MTU or number of VLs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BouncedLink {
    /// The end that was not set to Down.
    pub far: PortKey,
    /// Whether the link has not come up within the time that it has for that. It then holds up no
    /// further bounce.
    pub is_overdue: bool,
}
