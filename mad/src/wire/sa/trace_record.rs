use rsm_ids::{Guid, PortNum};
use zerocopy::byteorder::network_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{components, record};
use crate::wire::attr::NodeType;
use crate::wire::bits::bits;

/// TraceRecord (IBA 15.2.5.19): a node on a path. A table of TraceRecords answers the PathRecord of
/// a GetTraceTable.
///
/// ```text
/// byte  0  GIDPrefix
///       8  IDGeneration    | - | NodeType
///      12  NodeID
///      20  ChassisID
///      28  EntryPortID
///      36  ExitPortID
///      44  EntryPort | ExitPort | - to byte 47
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct TraceRecord {
    gid_prefix: U64,
    id_generation: U16,
    reserved_10: u8,
    node_type: u8,
    node_id: U64,
    chassis_id: U64,
    entry_port_id: U64,
    exit_port_id: U64,
    entry_port: u8,
    exit_port: u8,
    reserved: [u8; 2],
}

record!(TraceRecord, 0x0039, "TraceRecord");

bits! { TraceRecord {
    /// The prefix of the subnet that contains the node.
    gid_prefix, set_gid_prefix: u64 = gid_prefix;
    /// The number of times that the meaning of the identifiers changed.
    id_generation, set_id_generation: u16 = id_generation;
    /// The kind of the node.
    node_type, set_node_type: NodeType = node_type;
    /// The identifier of the node; a disguised identifier if the SA conceals the node.
    node_id, set_node_id: Guid = node_id;
    /// The identifier of the chassis that contains the node; 0 if unknown.
    chassis_id, set_chassis_id: Guid = chassis_id;
    /// The identifier of the port by which packets enter the node; 0 at the source.
    entry_port_id, set_entry_port_id: Guid = entry_port_id;
    /// The identifier of the port by which packets leave; 0 at the destination.
    exit_port_id, set_exit_port_id: Guid = exit_port_id;
    /// The number of the port by which packets enter the node; 0 at the source.
    entry_port, set_entry_port: PortNum = entry_port;
    /// The number of the port by which packets leave; 0 at the destination.
    exit_port, set_exit_port: PortNum = exit_port;
} }

components! { TraceRecord {
    0 GID_PREFIX = "GIDPrefix" at 0, 64;
    1 ID_GENERATION = "IDGeneration" at 64, 16;
    3 NODE_TYPE = "NodeType" at 88, 8;
    4 NODE_ID = "NodeID" at 96, 64;
    5 CHASSIS_ID = "ChassisID" at 160, 64;
    6 ENTRY_PORT_ID = "EntryPortID" at 224, 64;
    7 EXIT_PORT_ID = "ExitPortID" at 288, 64;
    8 ENTRY_PORT = "EntryPort" at 352, 8;
    9 EXIT_PORT = "ExitPort" at 360, 8;
} }
