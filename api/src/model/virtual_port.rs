use super::PortId;

/// The key of a virtual port, in the order of lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualPortId {
    /// The port of the host.
    pub port: PortId,
    /// The index there.
    pub index: u16,
}
