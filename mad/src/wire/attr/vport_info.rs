use rsm_ids::{Guid, Lid};
use zerocopy::byteorder::network_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::vport_encoding::INDEX;
use super::{PortState, attribute};
use crate::wire::bits::bits;

/// NVIDIA VPortInfo, attribute 0xFFB1: a virtual port.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  State  |R|L|- - | GUIDCap         | CapabilityMask
///    4  P_KeyViolations                   | Q_KeyViolations
///    8  VPortLID                          | LIDByVPortIndex
///   12  PortGUID, to byte 19
///   20  Profile, to byte 27
///   28  - to byte 63
/// ```
///
/// R is ClientReregister, L LIDRequired. Layout: `ib_types.h` of OpenSM 5.24.0.MLNX20250722.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct VPortInfo {
    state: u8,
    guid_cap: u8,
    capability_mask: U16,
    p_key_violations: U16,
    q_key_violations: U16,
    lid: U16,
    lid_by_vport_index: U16,
    port_guid: U64,
    profile: U64,
    reserved_28: [u8; 36],
}

attribute!(VPortInfo, VPORT_INFO, "VPortInfo");

bits! { VPortInfo {
    /// The state of the virtual port.
    state, set_state: PortState = state[7, 4];
    /// R: whether the host has to register with the SA again.
    client_reregister, set_client_reregister: bool = state[3, 3];
    /// L: whether the virtual port needs a separate LID.
    lid_required, set_lid_required: bool = state[2, 2];
    /// The maximum number of GUIDs of the virtual port.
    guid_cap, set_guid_cap: u8 = guid_cap;
    /// The capabilities, in the numbering of the vendor; 0x20 is IsSM.
    capability_mask, set_capability_mask: u16 = capability_mask;
    /// The number of packets with a wrong P_Key.
    p_key_violations, set_p_key_violations: u16 = p_key_violations;
    /// The number of packets with a wrong Q_Key.
    q_key_violations, set_q_key_violations: u16 = q_key_violations;
    /// The virtual port's own LID; [`Lid::NONE`] if the virtual port uses the LID of another port.
    lid, set_lid: Lid = lid;
    /// The index of the virtual port whose LID this virtual port uses if it has no LID of its own;
    /// 0 is the physical port.
    lid_by_vport_index, set_lid_by_vport_index: u16 = lid_by_vport_index;
    /// The GUID of the virtual port.
    port_guid, set_port_guid: Guid = port_guid;
    /// The profile of the virtual port, whose meaning the vendor defines.
    profile, set_profile: u64 = profile;
} }

impl VPortInfo {
    /// The attribute modifier of the virtual port at `index`.
    pub const fn modifier(index: u16) -> u32 {
        INDEX.modifier(index)
    }

    /// The index in a modifier.
    pub const fn modifier_index(modifier: u32) -> u16 {
        INDEX.of(modifier)
    }
}
