use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::attribute;
use crate::wire::bits::bits;

/// ARInfo, attribute 0xFF20 of NVIDIA switches: whether a switch forwards by more than its
/// LinearForwardingTable.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  -                                                   | - - T F - - - E
///    4  - to byte 19
///   20  -                                 | H W V P - - - - | -
///   24  - to byte 63
/// ```
///
/// E enables adaptive routing, F fast recovery, T the sending of routing notifications (FRN, ARN),
/// P pFRN, V hash-based forwarding by VL, W weighted hash-based forwarding, H hash-based forwarding
/// by SL. Capabilities and sizes are in the bytes between, which a read-modify-write keeps. Layout:
/// `ib_types.h` of OpenSM 5.24.0.MLNX20250722.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ArInfo {
    capabilities_0: [u8; 3],
    adaptive: u8,
    capabilities_4: [u8; 18],
    recovery: u8,
    rest: [u8; 41],
}

attribute!(ArInfo, AR_INFO, "ARInfo");

bits! { ArInfo {
    /// E: the switch forwards to any port of a group, rather than by its LinearForwardingTable.
    enabled, set_enabled: bool = adaptive[0, 0];
    /// F: a switch whose port for a LID is down uses another port of the group, with or without
    /// [`Self::enabled`].
    fast_recovery_enabled, set_fast_recovery_enabled: bool = adaptive[4, 4];
    /// T: the switch notifies its neighbours of ports that it lost.
    rn_transmit_enabled, set_rn_transmit_enabled: bool = adaptive[5, 5];
    /// P: the same by pFRN, the later protocol.
    pfrn_enabled, set_pfrn_enabled: bool = recovery[4, 4];
    /// V: hash-based forwarding among the ports of a group, by VL.
    hbf_by_vl_enabled, set_hbf_by_vl_enabled: bool = recovery[5, 5];
    /// W: weighted hash-based forwarding.
    weighted_hbf_enabled, set_weighted_hbf_enabled: bool = recovery[6, 6];
    /// H: hash-based forwarding, by SL.
    hbf_by_sl_enabled, set_hbf_by_sl_enabled: bool = recovery[7, 7];
} }

impl ArInfo {
    /// The attribute modifier of the settings in force; other modifiers query the effect of other
    /// settings.
    pub const MODIFIER: u32 = 0;

    /// Whether packets may leave by ports other than those of the LinearForwardingTable.
    pub fn uses_groups(&self) -> bool {
        self.enabled()
            || self.fast_recovery_enabled()
            || self.hbf_by_vl_enabled()
            || self.weighted_hbf_enabled()
            || self.hbf_by_sl_enabled()
    }

    /// Clears every bit that lets the switch forward by other tables than its
    /// LinearForwardingTable.
    pub fn disable(&mut self) -> &mut Self {
        self.set_enabled(false)
            .set_fast_recovery_enabled(false)
            .set_rn_transmit_enabled(false)
            .set_pfrn_enabled(false)
            .set_hbf_by_vl_enabled(false)
            .set_weighted_hbf_enabled(false)
            .set_hbf_by_sl_enabled(false)
    }
}
