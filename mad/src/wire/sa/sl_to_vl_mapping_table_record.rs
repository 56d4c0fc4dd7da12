use rsm_ids::{Lid, PortNum};
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{components, narrow, record, widen};
use crate::wire::attr::SlToVlMapping;
use crate::wire::bits::bits;

/// SLtoVLMappingTableRecord (IBA 15.2.5.4): the VLs of packets from one port of a switch to
/// another, or of packets that leave a CA or a router.
///
/// ```text
/// byte  0  LID             | InputPortNum | OutputPortNum
///       4  -
///       8  SLtoVLMappingTable, 8 bytes
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SlToVlMappingTableRecord {
    lid: U16,
    input_port: u8,
    output_port: u8,
    reserved: [u8; 4],
    mapping: [u8; 8],
}

record!(SlToVlMappingTableRecord, 0x0013, "SLtoVLMappingTableRecord");

bits! { SlToVlMappingTableRecord {
    /// The LID of the end port; for a switch the LID of its port 0.
    lid, set_lid: Lid = lid;
    /// The port of a switch by which packets enter. Reserved on other nodes.
    input_port_num, set_input_port_num: PortNum = input_port;
    /// The port of a switch by which packets leave. Reserved on other nodes.
    output_port_num, set_output_port_num: PortNum = output_port;
} }

components! { SlToVlMappingTableRecord {
    0 LID = "LID" at 0, 16;
    1 INPUT_PORT_NUM = "InputPortNum" at 16, 8;
    2 OUTPUT_PORT_NUM = "OutputPortNum" at 24, 8;
} }

impl SlToVlMappingTableRecord {
    /// The VLs of the service levels.
    pub fn mapping(&self) -> SlToVlMapping {
        widen(&self.mapping)
    }

    /// Sets [`Self::mapping`].
    pub fn set_mapping(&mut self, mapping: &SlToVlMapping) -> &mut Self {
        self.mapping = narrow(mapping);
        self
    }
}
