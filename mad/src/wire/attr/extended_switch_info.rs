use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::attribute;
use crate::wire::bits::bits;

/// NVIDIA ExtendedSwitchInfo, attribute 0xFF92.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  -                                                   | - - A R C Turbo
///    4  - to byte 63
/// ```
///
/// R: the switch requests a firmware update in service; A: the manager approved it; C: turbo paths
/// are possible. Layout: `ib_types.h` of OpenSM 5.24.0.MLNX20250722.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ExtendedSwitchInfo {
    reserved_0: [u8; 3],
    flags: u8,
    reserved_4: [u8; 60],
}

attribute!(
    ExtendedSwitchInfo,
    EXTENDED_SWITCH_INFO,
    "ExtendedSwitchInfo"
);

bits! { ExtendedSwitchInfo {
    /// A: whether the manager approves the in-service update. If [`Self::issu_request`] is not set,
    /// this bit is an error of the update.
    issu_approve, set_issu_approve: bool = flags[5, 5];
    /// R: whether the switch requests an in-service update.
    issu_request, set_issu_request: bool = flags[4, 4];
    /// C: whether turbo paths are possible.
    turbo_path_cap, set_turbo_path_cap: bool = flags[3, 3];
    /// The number of turbo paths in force; 0 for none.
    turbo_path_enabled, set_turbo_path_enabled: u8 = flags[2, 0];
} }

impl ExtendedSwitchInfo {
    /// The attribute modifier.
    pub const MODIFIER: u32 = 0;
}
