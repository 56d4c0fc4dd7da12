use std::fmt;

use crate::Guid;

/// The number of a port on its node (IBA 14.2.5.3).
///
/// Ports of channel adapters and routers count from 1. A switch's external ports count from 1; its
/// port 0 is the management port, at which every path to the switch itself ends. The number 255 in
/// a forwarding table means "drop".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PortNum(pub u8);

impl PortNum {
    /// The management port of a switch, port 0.
    pub const ZERO: PortNum = PortNum(0);

    /// The port number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for PortNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for PortNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {}", self.0)
    }
}

/// A port of a node: the node's GUID and the port's number on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortKey {
    /// The GUID of the node.
    pub node: Guid,
    /// The number of the port on the node.
    pub port: PortNum,
}

impl PortKey {
    /// The port `port` of the node `node`.
    pub const fn new(node: Guid, port: PortNum) -> PortKey {
        PortKey { node, port }
    }
}

impl fmt::Display for PortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.node, self.port)
    }
}
