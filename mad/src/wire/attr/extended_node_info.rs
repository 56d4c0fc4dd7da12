use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::attribute;
use crate::wire::bits::bits;

/// NVIDIA ExtendedNodeInfo, attribute 0xFF91.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  -                                 | SL2VLAct        | SL2VLCap
///    4  - to byte 11
///   12  -               | AnycastLIDTop   | AnycastLIDCap   | NodeTypeExtended
///   16  Y T - - - - - - | -                                 | ASICMaxPlanes
///   20  - to byte 63
/// ```
///
/// Y enables asymmetric planes, T automatic retraining. Layout: `ib_types.h` of OpenSM
/// 5.24.0.MLNX20250722.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ExtendedNodeInfo {
    reserved_0: [u8; 2],
    sl2vl_act: u8,
    sl2vl_cap: u8,
    reserved_4: [u8; 9],
    anycast_lid_top: u8,
    anycast_lid_cap: u8,
    node_type_extended: u8,
    enables: u8,
    reserved_17: [u8; 2],
    asic_max_planes: u8,
    reserved_20: [u8; 44],
}

attribute!(ExtendedNodeInfo, EXTENDED_NODE_INFO, "ExtendedNodeInfo");

bits! { ExtendedNodeInfo {
    /// The active form of SLtoVLMappingTable.
    sl2vl_act, set_sl2vl_act: u8 = sl2vl_act;
    /// The forms of SLtoVLMappingTable that the node supports.
    sl2vl_cap, set_sl2vl_cap: u8 = sl2vl_cap;
    /// The index of the last entry of AnycastLIDInfo in use.
    anycast_lid_top, set_anycast_lid_top: u8 = anycast_lid_top;
    /// The number of entries of AnycastLIDInfo.
    anycast_lid_cap, set_anycast_lid_cap: u8 = anycast_lid_cap;
    /// The kind of node if NodeInfo has no code for it (GPUs, multi-plane adapters).
    node_type_extended, set_node_type_extended: u8 = node_type_extended;
    /// Y: whether the planes of a port may differ.
    asymmetry_enabled, set_asymmetry_enabled: bool = enables[7, 7];
    /// T: whether links retrain without a request from the manager.
    auto_retrain_enabled, set_auto_retrain_enabled: bool = enables[6, 6];
    /// The maximum number of planes of the ASIC.
    asic_max_planes, set_asic_max_planes: u8 = asic_max_planes;
} }

impl ExtendedNodeInfo {
    /// The attribute modifier of every request.
    pub const MODIFIER: u32 = 0;
}
