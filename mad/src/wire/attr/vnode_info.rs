use rsm_ids::{Guid, PortNum};
use zerocopy::byteorder::network_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::vport_encoding::INDEX;
use super::{NodeDescription, attribute};
use crate::wire::bits::bits;

/// NVIDIA VNodeInfo, attribute 0xFFB2: the virtual node of a virtual port.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  PartitionCap                      | LocalPortNum    | NumPorts
///    4  VNodeGUID, to byte 11
///   12  - to byte 63
/// ```
///
/// Layout: `ib_types.h` of OpenSM 5.24.0.MLNX20250722.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct VNodeInfo {
    partition_cap: U16,
    local_port_num: u8,
    num_ports: u8,
    node_guid: U64,
    reserved_12: [u8; 52],
}

attribute!(VNodeInfo, VNODE_INFO, "VNodeInfo");

bits! { VNodeInfo {
    /// The number of P_Keys that the virtual port holds.
    partition_cap, set_partition_cap: u16 = partition_cap;
    /// The virtual node's number for the virtual port.
    local_port_num, set_local_port_num: PortNum = local_port_num;
    /// The number of ports of the virtual node.
    num_ports, set_num_ports: u8 = num_ports;
    /// The GUID of the virtual node.
    node_guid, set_node_guid: Guid = node_guid;
} }

impl VNodeInfo {
    /// The attribute modifier of the virtual port at `index`.
    pub const fn modifier(index: u16) -> u32 {
        INDEX.modifier(index)
    }

    /// The index in a modifier.
    pub const fn modifier_index(modifier: u32) -> u16 {
        INDEX.of(modifier)
    }
}

/// NVIDIA VNodeDescription, attribute 0xFFB4: the description of a virtual node, with the layout of
/// [`NodeDescription`].
///
/// ```text
/// byte 0 .. 63  NodeString, padded with NUL
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct VNodeDescription {
    description: NodeDescription,
}

attribute!(VNodeDescription, VNODE_DESCRIPTION, "VNodeDescription");

impl VNodeDescription {
    /// A description of the first 64 bytes of `text`.
    pub fn new(text: &[u8]) -> VNodeDescription {
        VNodeDescription {
            description: NodeDescription::new(text),
        }
    }

    /// The bytes up to the first NUL.
    pub fn text(&self) -> &[u8] {
        self.description.text()
    }

    /// The attribute modifier of the virtual port at `index`.
    pub const fn modifier(index: u16) -> u32 {
        INDEX.modifier(index)
    }

    /// The index in a modifier.
    pub const fn modifier_index(modifier: u32) -> u16 {
        INDEX.of(modifier)
    }
}
