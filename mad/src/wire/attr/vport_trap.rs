//! The details of NVIDIA's traps about virtual ports: notices of a vendor, whose trap number is in
//! the last two bytes of DataDetails.

use rsm_ids::Lid;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::notice::Notice;
use super::trap::details;
use crate::wire::bits::bits;

/// The VendorID in notices of NVIDIA.
pub const NVIDIA: u32 = 0x00_02_C9;

/// The number of NVIDIA's trap about changes of a virtual port.
pub const VPORT_LOCAL_CHANGE: u16 = 1144;
/// The number of NVIDIA's trap about states of virtual ports.
pub const VPORT_STATE_CHANGE: u16 = 1146;

details!(VPortStateChange, VPortLocalChange);

/// Trap 1146 of NVIDIA: the state of some virtual port of a port changed.
///
/// ```text
/// byte  0  -                 | LIDADDR
///       4  - to byte 51
///      52  trap number
/// ```
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct VPortStateChange {
    reserved_0: [u8; 2],
    lid: U16,
    reserved_4: [u8; 48],
    trap: U16,
}

bits! { VPortStateChange {
    /// The LID of the port.
    lid, set_lid: Lid = lid;
    /// The trap number, [`VPORT_STATE_CHANGE`].
    trap, set_trap: u16 = trap;
} }

/// Trap 1144 of NVIDIA: an attribute of a virtual port changed.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  -                                 | LIDADDR
///    4  -               | - - - - - - - |O| CapabilityMask
///    8  changes                           | -
///   12  VPortIndex                        | - to byte 51
///   52  trap number
/// ```
///
/// O is OtherLocalChanges.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct VPortLocalChange {
    reserved_0: [u8; 2],
    lid: U16,
    reserved_4: u8,
    flags: u8,
    capability_mask: U16,
    changes: U16,
    reserved_10: [u8; 2],
    vport_index: U16,
    reserved_14: [u8; 38],
    trap: U16,
}

bits! { VPortLocalChange {
    /// The LID of the port.
    lid, set_lid: Lid = lid;
    /// Whether [`Self::changes`] lists the changes; otherwise the capability mask changed.
    other_local_changes, set_other_local_changes: bool = flags[0, 0];
    /// The present CapabilityMask of VPortInfo.
    capability_mask, set_capability_mask: u16 = capability_mask;
    /// The changes, as the vendor numbers them.
    changes, set_changes: u16 = changes;
    /// The virtual port.
    vport_index, set_vport_index: u16 = vport_index;
    /// The trap number, [`VPORT_LOCAL_CHANGE`].
    trap, set_trap: u16 = trap;
} }

/// The trap number of a notice of NVIDIA with these details.
pub(super) const fn number(details: &[u8; Notice::DETAILS_LEN]) -> u16 {
    let [.., high, low] = *details;
    u16::from_be_bytes([high, low])
}
