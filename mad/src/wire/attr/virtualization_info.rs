use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::attribute;
use super::vport_encoding::STATE_CHANGE_CLEARED_BY;
use crate::wire::bits::bits;

/// NVIDIA VirtualizationInfo, attribute 0xFFB0: the virtual ports of a host's port as a whole.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  VPortCap                          | VPortIndexTop
///    4  E R S - - - - - | -               | Revision        | Capability
///    8  - to byte 63
/// ```
///
/// E enables virtual ports, R is VClientReregister, S VPortStateChange. Layout: `ib_types.h` of
/// OpenSM 5.24.0.MLNX20250722.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct VirtualizationInfo {
    vport_cap: U16,
    vport_index_top: U16,
    flags: u8,
    reserved_5: u8,
    revision: u8,
    capability: u8,
    reserved_8: [u8; 56],
}

attribute!(
    VirtualizationInfo,
    VIRTUALIZATION_INFO,
    "VirtualizationInfo"
);

bits! { VirtualizationInfo {
    /// The number of virtual ports that the port can have.
    vport_cap, set_vport_cap: u16 = vport_cap;
    /// The highest index of a virtual port in use.
    vport_index_top, set_vport_index_top: u16 = vport_index_top;
    /// E: whether the subnet manager supports virtual ports, so that they may become Active.
    enabled, set_enabled: bool = flags[7, 7];
    /// R: whether the hosts of all virtual ports have to register again.
    client_reregister, set_client_reregister: bool = flags[6, 6];
    /// S: whether the state of some virtual port has changed since
    /// [`VirtualizationInfo::clear_state_change`] was last written.
    vport_state_change, set_vport_state_change: bool = flags[5, 5];
    /// The revision of the interface.
    revision, set_revision: u8 = revision;
    /// The capabilities, in the numbering of the vendor.
    capability, set_capability: u8 = capability;
} }

impl VirtualizationInfo {
    /// The attribute modifier.
    pub const MODIFIER: u32 = 0;

    /// Sets VPortStateChange to the value that clears the bit in a Set.
    pub fn clear_state_change(&mut self) -> &mut Self {
        self.set_vport_state_change(STATE_CHANGE_CLEARED_BY)
    }

    /// Whether a Set of this attribute clears VPortStateChange.
    pub fn clears_state_change(&self) -> bool {
        self.vport_state_change() == STATE_CHANGE_CLEARED_BY
    }
}
