use rsm_ids::Lid;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{components, narrow, record, widen};
use crate::wire::attr::{NodeDescription, NodeInfo};
use crate::wire::bits::bits;

/// NodeRecord (IBA 15.2.5.2): an end port, and the node that it belongs to.
///
/// ```text
/// byte  0  LID             | -
///       4  NodeInfo, 40 bytes
///      44  NodeDescription, 64 bytes
///     108  - to byte 111
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct NodeRecord {
    lid: U16,
    reserved_2: [u8; 2],
    node_info: [u8; 40],
    node_description: NodeDescription,
    reserved: [u8; 4],
}

record!(NodeRecord, 0x0011, "NodeRecord");

bits! { NodeRecord {
    /// The base LID of the port; for a switch the base LID of its port 0.
    lid, set_lid: Lid = lid;
} }

components! { NodeRecord {
    0 LID = "LID" at 0, 16;
    2 BASE_VERSION = "BaseVersion" at 32, 8;
    3 CLASS_VERSION = "ClassVersion" at 40, 8;
    4 NODE_TYPE = "NodeType" at 48, 8;
    5 NUM_PORTS = "NumPorts" at 56, 8;
    6 SYSTEM_IMAGE_GUID = "SystemImageGUID" at 64, 64;
    7 NODE_GUID = "NodeGUID" at 128, 64;
    8 PORT_GUID = "PortGUID" at 192, 64;
    9 PARTITION_CAP = "PartitionCap" at 256, 16;
    10 DEVICE_ID = "DeviceID" at 272, 16;
    11 REVISION = "Revision" at 288, 32;
    12 LOCAL_PORT_NUM = "LocalPortNum" at 320, 8;
    13 VENDOR_ID = "VendorID" at 328, 24;
    14 NODE_DESCRIPTION = "NodeString" at 352, 512;
} }

impl NodeRecord {
    /// The node, with the GUID and the number of this port.
    pub fn node_info(&self) -> NodeInfo {
        widen(&self.node_info)
    }

    /// Sets [`Self::node_info`].
    pub fn set_node_info(&mut self, info: &NodeInfo) -> &mut Self {
        self.node_info = narrow(info);
        self
    }

    /// The description of the node.
    pub fn node_description(&self) -> &NodeDescription {
        &self.node_description
    }

    /// Sets [`Self::node_description`].
    pub fn set_node_description(&mut self, description: &NodeDescription) -> &mut Self {
        self.node_description = *description;
        self
    }
}
