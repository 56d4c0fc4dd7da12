use rsm_ids::{Guid, PortNum};
use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::attribute;
use crate::wire::bits::bits;
use crate::wire::codes::code_enum;

code_enum! {
    /// The kind of a node (IBA 14.2.5.3).
    NodeType {
        /// A channel adapter.
        Ca = 1 "CA",
        /// A switch.
        Switch = 2 "switch",
        /// A router.
        Router = 3 "router",
    }
}

/// NodeInfo (IBA 14.2.5.3): the kind of node that answered, and the port that received the request.
/// Read only.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  BaseVersion     | ClassVersion    | NodeType        | NumPorts
///    4  SystemImageGUID
///   12  NodeGUID
///   20  PortGUID
///   28  PartitionCap                      | DeviceID
///   32  Revision
///   36  LocalPortNum    | VendorID
///   40  - to byte 63
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct NodeInfo {
    base_version: u8,
    class_version: u8,
    node_type: u8,
    num_ports: u8,
    system_image_guid: U64,
    node_guid: U64,
    port_guid: U64,
    partition_cap: U16,
    device_id: U16,
    revision: U32,
    port_and_vendor: U32,
    reserved: [u8; 24],
}

attribute!(NodeInfo, NODE_INFO, "NodeInfo");

bits! { NodeInfo {
    /// The MAD base version that the node supports.
    base_version, set_base_version: u8 = base_version;
    /// The subnet management class version that the node supports.
    class_version, set_class_version: u8 = class_version;
    /// The kind of the node.
    node_type, set_node_type: NodeType = node_type;
    /// The number of physical ports, without a switch's port 0.
    num_ports, set_num_ports: u8 = num_ports;
    /// The GUID common to nodes of one enclosure under one supervision; zero when not supported.
    system_image_guid, set_system_image_guid: Guid = system_image_guid;
    /// The GUID of the node itself.
    node_guid, set_node_guid: Guid = node_guid;
    /// The GUID of the port that received the request; on a switch always the GUID of port 0.
    port_guid, set_port_guid: Guid = port_guid;
    /// The number of P_KeyTable entries of each CA or router port, or of switch port 0.
    partition_cap, set_partition_cap: u16 = partition_cap;
    /// The device number of the vendor.
    device_id, set_device_id: u16 = device_id;
    /// The revision of the device, in the numbering of the vendor.
    revision, set_revision: u32 = revision;
    /// The port that received the request.
    local_port_num, set_local_port_num: PortNum = port_and_vendor[31, 24];
    /// The IEEE number of the vendor; 24 bits.
    vendor_id, set_vendor_id: u32 = port_and_vendor[23, 0];
} }
