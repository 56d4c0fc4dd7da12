use super::PortId;

/// The key of a virtual port, by which lists are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualPortId {
    /// The port of the host.
    pub port: PortId,
    /// The index of the virtual port at the host's port.
    pub index: u16,
}
