use rsm_ids::{Lid, PortNum};
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{components, record};
use crate::wire::attr::VlArbitration;
use crate::wire::bits::bits;

/// VLArbitrationTableRecord (IBA 15.2.5.9): a block of a port's VLArbitrationTable.
///
/// ```text
/// byte  0  LID             | OutputPortNum | BlockNum
///       4  -
///       8  VLArbitrationTable, 64 bytes
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct VlArbitrationTableRecord {
    lid: U16,
    output_port: u8,
    block: u8,
    reserved: [u8; 4],
    table: VlArbitration,
}

record!(VlArbitrationTableRecord, 0x0036, "VLArbitrationTableRecord");

bits! { VlArbitrationTableRecord {
    /// The LID of the end port; for a switch the LID of its port 0.
    lid, set_lid: Lid = lid;
    /// The number of the port on a switch. Reserved on other nodes.
    output_port_num, set_output_port_num: PortNum = output_port;
    /// The number of the block: 1 and 2 are the two blocks of low priority, 3 and 4 the two blocks
    /// of high priority.
    block_num, set_block_num: u8 = block;
} }

components! { VlArbitrationTableRecord {
    0 LID = "LID" at 0, 16;
    1 OUTPUT_PORT_NUM = "OutputPortNum" at 16, 8;
    2 BLOCK_NUM = "BlockNum" at 24, 8;
} }

impl VlArbitrationTableRecord {
    /// The VLArbitrationTable of the block.
    pub fn table(&self) -> &VlArbitration {
        &self.table
    }

    /// The block, mutable in place.
    pub fn table_mut(&mut self) -> &mut VlArbitration {
        &mut self.table
    }
}
