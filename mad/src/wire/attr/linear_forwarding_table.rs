use rsm_ids::{Lid, PortNum};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::attribute;

/// One block of a LinearForwardingTable (IBA 14.2.5.10): the exit ports to 64 consecutive LIDs.
///
/// ```text
/// byte 0 .. 63  Port to LID 64 × block + byte; 255 drops the packet
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct LinearForwardingTable {
    ports: [u8; Self::ENTRIES],
}

attribute!(
    LinearForwardingTable,
    LINEAR_FORWARDING_TABLE,
    "LinearForwardingTable"
);

impl LinearForwardingTable {
    /// The number of entries in a block.
    pub const ENTRIES: usize = 64;
    /// The number of blocks that cover the unicast LIDs.
    pub const BLOCKS: u16 = 768;
    /// The entry that drops packets.
    pub const DROP: PortNum = PortNum(255);

    /// The attribute modifier for `block`, 0 to [`Self::BLOCKS`] - 1.
    pub const fn modifier(block: u16) -> u32 {
        block as u32
    }

    /// The block that holds the entry of `lid`.
    pub const fn block_of(lid: Lid) -> u16 {
        lid.0 / Self::ENTRIES as u16
    }

    /// The exit port to the LID at `index` in the block; `None` from [`Self::ENTRIES`] on.
    pub fn port(&self, index: usize) -> Option<PortNum> {
        self.ports.get(index).copied().map(PortNum)
    }

    /// The exit ports, in LID order.
    pub fn ports(&self) -> &[u8; Self::ENTRIES] {
        &self.ports
    }

    /// The exit ports, to be changed in place.
    pub fn ports_mut(&mut self) -> &mut [u8; Self::ENTRIES] {
        &mut self.ports
    }
}
