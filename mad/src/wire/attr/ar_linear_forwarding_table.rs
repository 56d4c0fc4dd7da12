use rsm_ids::{Lid, PortNum};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::ar_encoding::AR_BLOCK;
use super::attribute;
use crate::wire::codes::code_enum;

code_enum! {
    /// The manner in which a switch forwards packets to a LID.
    ArLidState {
        /// The switch uses a port of the group, and changes the port only between bursts of
        /// packets.
        Bounded = 0 "bounded",
        /// The switch uses any port of the group.
        Free = 1 "free",
        /// The switch uses the static port.
        Static = 2 "static",
        /// The switch uses the port of the group that a hash of the packet's header selects.
        Hash = 3 "hash",
    }
}

/// The adaptive linear forwarding table of revision 1, attribute 0xFF23 of NVIDIA switches: the
/// group and the static port of 16 LIDs.
///
/// ```text
/// byte  7 6 | 5 4 | 3 2 1 0 | 7 6 5 4 3 2 1 0 | 16 bits
///    0  Stat|  -  | Table   | static port     | group     of LID 16 × block
///    4  ... of the next LID
/// ```
///
/// Layout: `ib_types.h` of OpenSM 5.24.0.MLNX20250722. The attribute modifier is not public; see
/// `ar_encoding`.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ArLinearForwardingTable {
    /// For each LID, four bytes with the state and the table, the static port, and the group.
    entries: [[u8; 4]; Self::ENTRIES],
}

attribute!(
    ArLinearForwardingTable,
    AR_LINEAR_FORWARDING_TABLE,
    "ARLinearForwardingTable"
);

/// The entry of one LID, which determines how the switch forwards packets to the LID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArEntry {
    /// Whether the switch uses the group or the static port.
    pub state: ArLidState,
    /// The group table, 0 to 15.
    pub table: u8,
    /// The port of packets that must stay in order.
    pub port: PortNum,
    /// The number of the group.
    pub group: u16,
}

impl ArLinearForwardingTable {
    /// The number of LIDs in a block.
    pub const ENTRIES: usize = 16;

    /// The attribute modifier for a block of the only table, without pLFTs.
    pub const fn modifier(block: u16) -> u32 {
        AR_BLOCK.modifier(block)
    }

    /// The block that a modifier names; `None` if other bits are set, whose meaning is not known.
    pub const fn modifier_block(modifier: u32) -> Option<u16> {
        AR_BLOCK.block(modifier)
    }

    /// The block that holds the entry of `lid`, and the index of the entry in the block.
    pub const fn block_and_index_of(lid: Lid) -> (u16, usize) {
        (lid.0 / Self::ENTRIES as u16, lid.0 as usize % Self::ENTRIES)
    }

    /// The entry at `index` in the block; `None` from [`Self::ENTRIES`] on.
    pub fn entry(&self, index: usize) -> Option<ArEntry> {
        let &[state, port, group @ ..] = self.entries.get(index)?;
        Some(ArEntry {
            state: ArLidState::from_code(state >> 6),
            table: state & 0xF,
            port: PortNum(port),
            group: u16::from_be_bytes(group),
        })
    }

    /// Replaces the entry at `index`, except its reserved bits; an index beyond [`Self::ENTRIES`]
    /// changes nothing. Only the low two bits of the state and the low four bits of the table are
    /// used.
    pub fn set_entry(&mut self, index: usize, new: ArEntry) -> &mut Self {
        if let Some(entry) = self.entries.get_mut(index) {
            let state = new.state.code() << 6 | entry[0] & 0x30 | new.table & 0xF;
            let [high, low] = new.group.to_be_bytes();
            *entry = [state, new.port.0, high, low];
        }
        self
    }
}
