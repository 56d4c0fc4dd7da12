use rsm_ids::Lid;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{components, record};
use crate::wire::attr::LinearForwardingTable;
use crate::wire::bits::bits;

/// LinearForwardingTableRecord (IBA 15.2.5.6): a block of a switch's unicast table.
///
/// ```text
/// byte  0  LID             | BlockNum
///       4  -
///       8  LinearForwardingTable, 64 bytes
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct LinearForwardingTableRecord {
    lid: U16,
    block: U16,
    reserved: [u8; 4],
    table: LinearForwardingTable,
}

record!(
    LinearForwardingTableRecord,
    0x0015,
    "LinearForwardingTableRecord"
);

bits! { LinearForwardingTableRecord {
    /// The LID of the switch's port 0.
    lid, set_lid: Lid = lid;
    /// The number of the block, which has the LIDs 64 × block to 64 × block + 63.
    block_num, set_block_num: u16 = block;
} }

components! { LinearForwardingTableRecord {
    0 LID = "LID" at 0, 16;
    1 BLOCK_NUM = "BlockNum" at 16, 16;
} }

impl LinearForwardingTableRecord {
    /// The LinearForwardingTable of the block.
    pub fn table(&self) -> &LinearForwardingTable {
        &self.table
    }

    /// The block, mutable in place.
    pub fn table_mut(&mut self) -> &mut LinearForwardingTable {
        &mut self.table
    }
}
