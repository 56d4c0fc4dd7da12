use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{PortState, attribute, packed_states};

/// NVIDIA VPortState, attribute 0xFFB3: the states of 128 virtual ports.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | …
///    0  vport 0 vport 1 | vport 2 vport 3 | …  to byte 63: vports 126 and 127
/// ```
///
/// The figure shows the first block. Layout: `ib_types.h` of OpenSM 5.24.0.MLNX20250722.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct VPortState {
    states: [u8; 64],
}

attribute!(VPortState, VPORT_STATE, "VPortState");

impl VPortState {
    /// The number of virtual ports in a block.
    pub const ENTRIES: usize = 128;

    /// The attribute modifier of `block`.
    pub const fn modifier(block: u16) -> u32 {
        block as u32
    }

    /// The block of the virtual port at `index`.
    pub const fn block_of(index: u16) -> u16 {
        index >> 7
    }

    /// The state of the virtual port at `index` in the block; `None` from index 128 on.
    pub fn state(&self, index: usize) -> Option<PortState> {
        packed_states::state(&self.states, index)
    }

    /// Sets the state of the virtual port at `index` of the block. An index from 128 on changes
    /// nothing.
    pub fn set_state(&mut self, index: usize, state: PortState) -> &mut Self {
        packed_states::set_state(&mut self.states, index, state);
        self
    }
}
