use rsm_ids::{Lid, PortNum};
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{components, record};
use crate::wire::attr::PKeyTable;
use crate::wire::bits::bits;

/// P_KeyTableRecord (IBA 15.2.5.11): a block of a port's partitions.
///
/// ```text
/// byte  0  LID             | BlockNum
///       4  PortNum | -
///       8  P_KeyTable, 64 bytes
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PKeyTableRecord {
    lid: U16,
    block: U16,
    port: u8,
    reserved: [u8; 3],
    table: PKeyTable,
}

record!(PKeyTableRecord, 0x0033, "P_KeyTableRecord");

bits! { PKeyTableRecord {
    /// The LID of the end port; for a switch the LID of its port 0.
    lid, set_lid: Lid = lid;
    /// The number of the block, which has the entries 32 × block to 32 × block + 31.
    block_num, set_block_num: u16 = block;
    /// The number of the port on a switch. Reserved on other nodes.
    port_num, set_port_num: PortNum = port;
} }

components! { PKeyTableRecord {
    0 LID = "LID" at 0, 16;
    1 BLOCK_NUM = "BlockNum" at 16, 16;
    2 PORT_NUM = "PortNum" at 32, 8;
} }

impl PKeyTableRecord {
    /// The P_KeyTable of the block.
    pub fn table(&self) -> &PKeyTable {
        &self.table
    }

    /// The block, mutable in place.
    pub fn table_mut(&mut self) -> &mut PKeyTable {
        &mut self.table
    }
}
