use rsm_ids::PortNum;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{PortState, attribute, packed_states};

/// SwitchPortStateTable, attribute 0x34 (IBA 14.2.5.20): PortState of 128 ports of a switch.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | …
///    0  port 0  port 1  | port 2  port 3  | …  to byte 63: ports 126 and 127
/// ```
///
/// The figure shows the first block; the second block has ports 128 to 255.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SwitchPortStateTable {
    states: [u8; 64],
}

attribute!(
    SwitchPortStateTable,
    SWITCH_PORT_STATE_TABLE,
    "SwitchPortStateTable"
);

impl SwitchPortStateTable {
    /// The number of ports in a block.
    pub const ENTRIES: usize = 128;

    /// The attribute modifier of `block`, 0 or 1. Bit 15, which announces that the requester knows
    /// state 5 (ActiveDefer), stays clear.
    pub const fn modifier(block: u8) -> u32 {
        (block & 1) as u32
    }

    /// The number of the block that holds the state of `port`.
    pub const fn block_of(port: PortNum) -> u8 {
        port.0 >> 7
    }

    /// The state of the port at `index` in the block; `None` from index 128 on.
    pub fn state(&self, index: usize) -> Option<PortState> {
        packed_states::state(&self.states, index)
    }

    /// Sets the state of the port at `index` of the block. An index from 128 on changes nothing.
    pub fn set_state(&mut self, index: usize, state: PortState) -> &mut Self {
        packed_states::set_state(&mut self.states, index, state);
        self
    }
}
