use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::attribute;
use crate::wire::bits::bits;

/// ARInfo, attribute 0xFF20 of NVIDIA switches: whether a switch forwards by more than its
/// LinearForwardingTable.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  - D t S s G - - | -               | -     SubGrpsAct| - - T F f - - E
///    4  StrgWCap GrpTblCap| GroupTop            | GroupCap
///    8  SLMask                            | SubGroupsSupport| -
///   12  -                                                   | -     Transports
///   16  AgeingTime
///   20  -                                 | H W V P - - - - | -
///   24  - to byte 63
/// ```
///
/// E enables adaptive routing, F fast recovery, T the sending of routing notifications (FRN, ARN),
/// P pFRN, V hash-based forwarding by VL, W weighted hash-based forwarding, H hash-based forwarding
/// by SL, S the mask of SLs. D, t, s, G and f are capabilities. A read-modify-write keeps the other
/// bits. Layout: `ib_types.h` of OpenSM 5.24.0.MLNX20250722.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ArInfo {
    by_sl: u8,
    rn_directions: u8,
    sub_groups_active: u8,
    adaptive: u8,
    groups: U32,
    sl_mask: U16,
    sub_groups_supported: u8,
    versions: u8,
    reserved_12: [u8; 3],
    transports: u8,
    ageing_time: U32,
    capabilities_20: [u8; 2],
    recovery: u8,
    rest: [u8; 41],
}

attribute!(ArInfo, AR_INFO, "ARInfo");

bits! { ArInfo {
    /// D: whether the switch calculates its capabilities for other settings on request.
    dyn_cap_calc_sup, set_dyn_cap_calc_sup: bool = by_sl[6, 6];
    /// t: whether adaptive routing can be excluded for transports ([`Self::excluded_transports`]).
    by_transport_cap, set_by_transport_cap: bool = by_sl[5, 5];
    /// S: whether adaptive routing is limited to the SLs of [`Self::sl_mask`].
    by_sl_en, set_by_sl_en: bool = by_sl[4, 4];
    /// s: whether adaptive routing can be limited to some SLs.
    by_sl_cap, set_by_sl_cap: bool = by_sl[3, 3];
    /// G: whether all group tables hold the same groups.
    global_groups, set_global_groups: bool = by_sl[2, 2];
    /// The number of sub groups of each group, minus one.
    sub_groups_active, set_sub_groups_active: u8 = sub_groups_active[3, 0];
    /// The length of strings of routing notifications.
    string_width_cap, set_string_width_cap: u8 = groups[31, 28];
    /// The number of group tables.
    group_table_cap, set_group_table_cap: u8 = groups[27, 24];
    /// The number of the highest group in use.
    group_top, set_group_top: u16 = groups[23, 12];
    /// The number of groups that the switch supports.
    group_cap, set_group_cap: u16 = groups[11, 0];
    /// The mask of the SLs whose packets are routed adaptively, if [`Self::by_sl_en`] is set.
    sl_mask, set_sl_mask: u16 = sl_mask;
    /// The numbers of sub groups that the switch supports.
    sub_groups_supported, set_sub_groups_supported: u8 = sub_groups_supported;
    /// The mask of the transports whose packets keep the static port: bit 0 UD, bit 1 RC, bit 2 UC,
    /// bit 3 DC.
    excluded_transports, set_excluded_transports: u8 = transports[3, 0];
    /// The time in microseconds after which a flow without packets may use another port.
    ageing_time, set_ageing_time: u32 = ageing_time;
    /// E: whether the switch forwards by any port of a group, rather than by its
    /// LinearForwardingTable.
    enabled, set_enabled: bool = adaptive[0, 0];
    /// f: whether the switch supports fast recovery.
    fast_recovery_sup, set_fast_recovery_sup: bool = adaptive[3, 3];
    /// F: whether a switch whose port for a LID is down uses another port of the group,
    /// independently of [`Self::enabled`].
    fast_recovery_enabled, set_fast_recovery_enabled: bool = adaptive[4, 4];
    /// T: whether the switch notifies its neighbours of ports that it lost.
    rn_transmit_enabled, set_rn_transmit_enabled: bool = adaptive[5, 5];
    /// P: whether the switch notifies its neighbours of lost ports by pFRN, the later protocol.
    pfrn_enabled, set_pfrn_enabled: bool = recovery[4, 4];
    /// V: whether hash-based forwarding among the ports of a group is enabled by VL.
    hbf_by_vl_enabled, set_hbf_by_vl_enabled: bool = recovery[5, 5];
    /// W: whether hash-based forwarding is weighted.
    weighted_hbf_enabled, set_weighted_hbf_enabled: bool = recovery[6, 6];
    /// H: whether hash-based forwarding among the ports of a group is enabled by SL.
    hbf_by_sl_enabled, set_hbf_by_sl_enabled: bool = recovery[7, 7];
} }

impl ArInfo {
    /// The attribute modifier of the settings in force; other modifiers query the effect of
    /// hypothetical settings.
    pub const MODIFIER: u32 = 0;

    /// Whether packets may leave by ports other than the ports in the LinearForwardingTable.
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
