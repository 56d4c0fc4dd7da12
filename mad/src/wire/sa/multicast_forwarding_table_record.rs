use rsm_ids::Lid;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{components, record};
use crate::wire::attr::MulticastForwardingTable;
use crate::wire::bits::bits;

/// MulticastForwardingTableRecord (IBA 15.2.5.8): a block of a switch's multicast table, for 16 of
/// its ports.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  LID                               | Posn  | - - - | BlockNum, 9 bits
///    4  -
///    8  MulticastForwardingTable, 64 bytes
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct MulticastForwardingTableRecord {
    lid: U16,
    position_and_block: U16,
    reserved: [u8; 4],
    table: MulticastForwardingTable,
}

record!(
    MulticastForwardingTableRecord,
    0x0017,
    "MulticastForwardingTableRecord"
);

bits! { MulticastForwardingTableRecord {
    /// The LID of the switch's port 0.
    lid, set_lid: Lid = lid;
    /// The position, 0 to 15: the record has the ports 16 × position to 16 × position + 15.
    position, set_position: u8 = position_and_block[15, 12];
    /// The number of the block, 0 to 511, which has the LIDs 0xC000 + 32 × block to 0xC000 + 32 ×
    /// block + 31.
    block_num, set_block_num: u16 = position_and_block[8, 0];
} }

components! { MulticastForwardingTableRecord {
    0 LID = "LID" at 0, 16;
    1 POSITION = "Position" at 16, 4;
    3 BLOCK_NUM = "BlockNum" at 23, 9;
} }

impl MulticastForwardingTableRecord {
    /// The MulticastForwardingTable of the block.
    pub fn table(&self) -> &MulticastForwardingTable {
        &self.table
    }

    /// The block, mutable in place.
    pub fn table_mut(&mut self) -> &mut MulticastForwardingTable {
        &mut self.table
    }
}
