use std::fmt;

/// The number of a port on its node (IBA 14.2.5.3).
///
/// Ports of channel adapters and routers count from 1. A switch's external ports count from 1;
/// its port 0 is the management port that every path to the switch itself ends at.
/// 255 in a forwarding table means "drop".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PortNum(pub u8);

impl PortNum {
    /// A switch's management port.
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
