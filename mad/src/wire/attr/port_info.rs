use rsm_ids::{Lid, Lmc, PortNum};
use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::attribute;
use super::capability::{CapabilityMask, CapabilityMask2};
use super::link::{
    ActiveRate, LinkSpeed, LinkSpeedExt, LinkSpeedExt2, LinkSpeeds, LinkWidths, active_speed,
};
use crate::wire::bits::bits;
use crate::wire::codes::code_enum;

code_enum! {
    /// PortState: the packets that the link layer accepts and sends (IBA 7.2).
    PortState {
        /// In a Set: the state does not change.
        NoChange = 0 "no change",
        /// The port has no link.
        Down = 1 "Down",
        /// The link carries subnet management packets only.
        Init = 2 "Init",
        /// The link carries subnet management packets, and the port receives data packets.
        Armed = 3 "Armed",
        /// The link carries all packets.
        Active = 4 "Active",
    }
}

code_enum! {
    /// PortPhysicalState: the state of link training.
    PortPhysicalState {
        /// In a Set: the state does not change.
        NoChange = 0 "no change",
        /// The port drives no signal.
        Sleep = 1 "Sleep",
        /// The port looks for another port at the other end of the cable.
        Polling = 2 "Polling",
        /// Management disabled the port.
        Disabled = 3 "Disabled",
        /// The two ports agree on the width and the speed of the link.
        PortConfigurationTraining = 4 "PortConfigurationTraining",
        /// The link is trained.
        LinkUp = 5 "LinkUp",
        /// The link trains again after errors.
        LinkErrorRecovery = 6 "LinkErrorRecovery",
        /// The port is under test.
        PhyTest = 7 "PhyTest",
    }
}

code_enum! {
    /// LinkDownDefaultState: the state in which link training starts after the link went down.
    LinkDownDefault {
        /// In a Set: the default does not change.
        NoChange = 0 "no change",
        /// The port sleeps until management changes its state.
        Sleep = 1 "Sleep",
        /// The port looks for another port at the other end of the cable.
        Polling = 2 "Polling",
    }
}

code_enum! {
    /// A maximum transfer unit: the payload of a packet.
    Mtu {
        /// 256 bytes.
        Bytes256 = 1 "256",
        /// 512 bytes.
        Bytes512 = 2 "512",
        /// 1024 bytes.
        Bytes1024 = 3 "1024",
        /// 2048 bytes.
        Bytes2048 = 4 "2048",
        /// 4096 bytes.
        Bytes4096 = 5 "4096",
    }
}

impl Mtu {
    /// The payload in bytes; `None` for a code without a meaning.
    pub const fn bytes(self) -> Option<u16> {
        match self.code() {
            code @ 1..=5 => Some(128 << code),
            _ => None,
        }
    }
}

code_enum! {
    /// The set of data VLs that VLCap or OperationalVLs names.
    VlCap {
        /// In a Set of OperationalVLs: the number does not change.
        NoChange = 0 "no change",
        /// VL 0.
        Vl0 = 1 "VL0",
        /// VLs 0 and 1.
        Vl0To1 = 2 "VL0-1",
        /// VLs 0 to 3.
        Vl0To3 = 3 "VL0-3",
        /// VLs 0 to 7.
        Vl0To7 = 4 "VL0-7",
        /// VLs 0 to 14.
        Vl0To14 = 5 "VL0-14",
    }
}

impl VlCap {
    /// The number of data VLs; `None` for a code without a meaning.
    pub const fn data_vls(self) -> Option<u8> {
        match self {
            Self::Vl0 => Some(1),
            Self::Vl0To1 => Some(2),
            Self::Vl0To3 => Some(4),
            Self::Vl0To7 => Some(8),
            Self::Vl0To14 => Some(15),
            _ => None,
        }
    }
}

/// PortInfo (IBA 14.2.5.6): addresses, state and capabilities of a port.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  M_Key
///    8  GidPrefix
///   16  LID                               | MasterSMLID
///   20  CapabilityMask
///   24  DiagCode                          | M_KeyLeasePeriod
///   28  LocalPortNum    | LinkWidthEnabld | LinkWidthSupprt | LinkWidthActive
///   32  SpeedSup| State | PhysSt|DownDefl | MKP|- - -| LMC  | SpeedAct|SpeedEn
///   36  NbrMTU | SMSL   | VLCap |InitType | VLHighLimit     | VLArbHighCap
///   40  VLArbLowCap     | InitRep| MTUCap | Stall|  HOQLife | OperVL |I|O|R|S
///   44  M_KeyViolations                   | P_KeyViolations
///   48  Q_KeyViolations                   | GUIDCap         |C|Mc |SubnetTmout
///   52  - - -|RespTime  | PhyErr| Overrun | MaxCreditHint
///   56  -|A2 |S2 |E2    | LinkRoundTripLatency
///   60  CapabilityMask2                   | ExtAct| ExtSup  | - - - | ExtEn
/// ```
///
/// I is PartitionEnforcementInbound, O PartitionEnforcementOutbound, R FilterRawInbound, S
/// FilterRawOutbound, C ClientReregister, Mc MulticastPKeyTrapSuppressionEnabled, and A2, S2 and E2
/// are LinkSpeedExtActive2, -Supported2 and -Enabled2, which carry XDR in a byte that was reserved
/// before.
///
/// A switch's external ports use only the fields of the link; the PortInfo of port 0 holds the
/// addresses, keys and masks of the switch.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PortInfo {
    m_key: U64,
    gid_prefix: U64,
    lid: U16,
    master_sm_lid: U16,
    capability_mask: U32,
    diag_code: U16,
    m_key_lease_period: U16,
    local_port_num: u8,
    link_width_enabled: u8,
    link_width_supported: u8,
    link_width_active: u8,
    speed_supported_and_state: u8,
    physical_state_and_default: u8,
    protect_bits_and_lmc: u8,
    speed_active_and_enabled: u8,
    neighbor_mtu_and_sm_sl: u8,
    vl_cap_and_init_type: u8,
    vl_high_limit: u8,
    vl_arbitration_high_cap: u8,
    vl_arbitration_low_cap: u8,
    init_type_reply_and_mtu_cap: u8,
    vl_stall_and_hoq_life: u8,
    operational_vls_and_filters: u8,
    m_key_violations: U16,
    p_key_violations: U16,
    q_key_violations: U16,
    guid_cap: u8,
    reregister_and_timeout: u8,
    resp_time: u8,
    error_thresholds: u8,
    max_credit_hint: U16,
    ext2_and_latency: U32,
    capability_mask2: U16,
    ext_active_and_supported: u8,
    ext_enabled: u8,
}

attribute!(PortInfo, PORT_INFO, "PortInfo");

bits! { PortInfo {
    /// The management key that Sets must carry; 0 for none.
    m_key, set_m_key: u64 = m_key;
    /// The upper half of the port's GIDs.
    gid_prefix, set_gid_prefix: u64 = gid_prefix;
    /// The base LID.
    lid, set_lid: Lid = lid;
    /// The LID of the master subnet manager, to which traps are sent.
    master_sm_lid, set_master_sm_lid: Lid = master_sm_lid;
    /// The capabilities of the port. Read only.
    capability_mask, set_capability_mask: CapabilityMask = capability_mask;
    /// The diagnostic code; 0 means that there is no fault (IBA 14.2.5.6.1). Read only.
    diag_code, set_diag_code: u16 = diag_code;
    /// The time in seconds from a violation of the M_Key until its protection ends; 0 means that it
    /// never ends.
    m_key_lease_period, set_m_key_lease_period: u16 = m_key_lease_period;
    /// The port that received the request. Read only.
    local_port_num, set_local_port_num: PortNum = local_port_num;
    /// The widths that the link may train to.
    link_width_enabled, set_link_width_enabled: LinkWidths = link_width_enabled;
    /// The widths that the port can train to. Read only.
    link_width_supported, set_link_width_supported: LinkWidths = link_width_supported;
    /// The width that the link has trained to. Read only.
    link_width_active, set_link_width_active: LinkWidths = link_width_active;
    /// The original speeds that the port can train to. Read only.
    link_speed_supported, set_link_speed_supported: LinkSpeeds = speed_supported_and_state[7, 4];
    /// The state of the link layer.
    port_state, set_port_state: PortState = speed_supported_and_state[3, 0];
    /// The state of link training.
    port_physical_state, set_port_physical_state: PortPhysicalState = physical_state_and_default[7, 4];
    /// The state in which link training starts after the link went down.
    link_down_default_state, set_link_down_default_state: LinkDownDefault = physical_state_and_default[3, 0];
    /// The protection level of the M_Key, 0 to 3 (IBA 14.2.4.1).
    m_key_protect_bits, set_m_key_protect_bits: u8 = protect_bits_and_lmc[7, 6];
    /// The LID mask control.
    lmc, set_lmc: Lmc = protect_bits_and_lmc[2, 0];
    /// The original speed that the link has trained to; no bit is set for an extended speed. Read
    /// only.
    link_speed_active, set_link_speed_active: LinkSpeeds = speed_active_and_enabled[7, 4];
    /// The original speeds that the link may train to.
    link_speed_enabled, set_link_speed_enabled: LinkSpeeds = speed_active_and_enabled[3, 0];
    /// The largest payload that may be sent to the peer.
    neighbor_mtu, set_neighbor_mtu: Mtu = neighbor_mtu_and_sm_sl[7, 4];
    /// The service level of packets to the master subnet manager; 0 to 15.
    master_sm_sl, set_master_sm_sl: u8 = neighbor_mtu_and_sm_sl[3, 0];
    /// The VLs that the port has. Read only.
    vl_cap, set_vl_cap: VlCap = vl_cap_and_init_type[7, 4];
    /// The initialisation that the port requests, 4 bits (IBA 14.2.5.6). Read only.
    init_type, set_init_type: u8 = vl_cap_and_init_type[3, 0];
    /// The maximum number of blocks of 4 KiB of high priority that are sent before a packet of low
    /// priority; 255 means no limit.
    vl_high_limit, set_vl_high_limit: u8 = vl_high_limit;
    /// The number of entries of the high-priority VL arbitration table, 0 to 64. Read only.
    vl_arbitration_high_cap, set_vl_arbitration_high_cap: u8 = vl_arbitration_high_cap;
    /// The number of entries of the low-priority VL arbitration table, 0 to 64. Read only.
    vl_arbitration_low_cap, set_vl_arbitration_low_cap: u8 = vl_arbitration_low_cap;
    /// The initialisation that the manager performed, 4 bits.
    init_type_reply, set_init_type_reply: u8 = init_type_reply_and_mtu_cap[7, 4];
    /// The largest payload that the port supports. Read only.
    mtu_cap, set_mtu_cap: Mtu = init_type_reply_and_mtu_cap[3, 0];
    /// The number of packets that a VL drops in a row before it is stalled; 0 to 7.
    vl_stall_count, set_vl_stall_count: u8 = vl_stall_and_hoq_life[7, 5];
    /// The maximum time that a packet waits at the head of a queue: 4.096 µs × 2^value, unlimited
    /// above 19; 0 to 31.
    hoq_life, set_hoq_life: u8 = vl_stall_and_hoq_life[4, 0];
    /// The VLs in use.
    operational_vls, set_operational_vls: VlCap = operational_vls_and_filters[7, 4];
    /// Whether a switch checks the partition of packets that enter by the port.
    partition_enforcement_inbound, set_partition_enforcement_inbound: bool = operational_vls_and_filters[3, 3];
    /// Whether a switch checks the partition of packets that leave by the port.
    partition_enforcement_outbound, set_partition_enforcement_outbound: bool = operational_vls_and_filters[2, 2];
    /// Whether raw packets that enter by the port are dropped.
    filter_raw_inbound, set_filter_raw_inbound: bool = operational_vls_and_filters[1, 1];
    /// Whether raw packets that leave by the port are dropped.
    filter_raw_outbound, set_filter_raw_outbound: bool = operational_vls_and_filters[0, 0];
    /// The number of packets with a wrong M_Key; the counter stays at its highest value.
    m_key_violations, set_m_key_violations: u16 = m_key_violations;
    /// The number of packets with a wrong P_Key; the counter stays at its highest value.
    p_key_violations, set_p_key_violations: u16 = p_key_violations;
    /// The number of packets with a wrong Q_Key; the counter stays at its highest value.
    q_key_violations, set_q_key_violations: u16 = q_key_violations;
    /// The number of GUIDInfo entries. Read only.
    guid_cap, set_guid_cap: u8 = guid_cap;
    /// In a Set, whether clients behind the port have to register with the SA again.
    client_reregister, set_client_reregister: bool = reregister_and_timeout[7, 7];
    /// Whether trap 257 or 258 is suppressed for multicast packets, 2 bits.
    multicast_p_key_trap_suppression_enabled, set_multicast_p_key_trap_suppression_enabled: u8 = reregister_and_timeout[6, 5];
    /// The maximum time of a packet through the subnet: 4.096 µs × 2^value; 0 to 31.
    subnet_timeout, set_subnet_timeout: u8 = reregister_and_timeout[4, 0];
    /// The maximum time until the port answers a MAD: 4.096 µs × 2^value; 0 to 31. Read only.
    resp_time_value, set_resp_time_value: u8 = resp_time[4, 0];
    /// The number of marginal link errors that cause trap 129; 0 to 15.
    local_phy_errors, set_local_phy_errors: u8 = error_thresholds[7, 4];
    /// The number of overruns that cause trap 130; 0 to 15.
    overrun_errors, set_overrun_errors: u8 = error_thresholds[3, 0];
    /// The maximum number of credits that the other end of the link needs to advertise; 0 if
    /// unknown. Read only.
    max_credit_hint, set_max_credit_hint: u16 = max_credit_hint;
    /// The speed of the second set of extended speeds that the link has trained to. Read only.
    link_speed_ext_active2, set_link_speed_ext_active2: LinkSpeedExt2 = ext2_and_latency[30, 29];
    /// The speeds of the second set of extended speeds that the port can train to. Read only.
    link_speed_ext_supported2, set_link_speed_ext_supported2: LinkSpeedExt2 = ext2_and_latency[28, 27];
    /// The speeds of the second set of extended speeds that the link may train to.
    link_speed_ext_enabled2, set_link_speed_ext_enabled2: LinkSpeedExt2 = ext2_and_latency[26, 24];
    /// The round-trip time to the peer; 24 bits. Read only.
    link_round_trip_latency, set_link_round_trip_latency: u32 = ext2_and_latency[23, 0];
    /// Further capabilities of the port. Read only.
    capability_mask2, set_capability_mask2: CapabilityMask2 = capability_mask2;
    /// The extended speed that the link has trained to; no bit is set for an original speed. Read
    /// only.
    link_speed_ext_active, set_link_speed_ext_active: LinkSpeedExt = ext_active_and_supported[7, 4];
    /// The extended speeds that the port can train to. Read only.
    link_speed_ext_supported, set_link_speed_ext_supported: LinkSpeedExt = ext_active_and_supported[3, 0];
    /// The extended speeds that the link may train to.
    link_speed_ext_enabled, set_link_speed_ext_enabled: LinkSpeedExt = ext_enabled[4, 0];
} }

impl PortInfo {
    /// Bit 31 of the modifier: the sender knows extended speeds, so LinkSpeedExtEnabled is valid.
    const EXTENDED_SPEEDS: u32 = 1 << 31;

    /// The attribute modifier for `port`. On a CA or router, port 0 means the port that receives
    /// the request. `extended_speeds` states that the sender knows extended speeds.
    pub const fn modifier(port: PortNum, extended_speeds: bool) -> u32 {
        let flag = if extended_speeds {
            Self::EXTENDED_SPEEDS
        } else {
            0
        };
        port.0 as u32 | flag
    }

    /// The port number in a modifier.
    pub const fn modifier_port(modifier: u32) -> PortNum {
        PortNum(modifier as u8)
    }

    /// Whether a modifier states that the sender knows extended speeds.
    pub const fn modifier_extended_speeds(modifier: u32) -> bool {
        modifier & Self::EXTENDED_SPEEDS != 0
    }

    /// The speed that the link has trained to. `None` if no field states a speed, as on a link that
    /// is down, or if the value has no name.
    ///
    /// The method does not consult the capability masks: a switch's external ports leave them
    /// empty, and a port without an extension has zeroes in its fields. FDR10 is returned as QDR;
    /// see [`ExtendedPortInfo::refine`](super::ExtendedPortInfo::refine).
    pub fn effective_speed(&self) -> Option<LinkSpeed> {
        active_speed(
            self.link_speed_active(),
            self.link_speed_ext_active(),
            self.link_speed_ext_active2(),
        )
    }

    /// The rate of the link; `None` if the link is not trained, or if its width or speed has no
    /// name.
    pub fn link_rate(&self) -> Option<ActiveRate> {
        Some(ActiveRate {
            lanes: self.link_width_active().single()?.lanes(),
            speed: self.effective_speed()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modifier_holds_port_and_flag() {
        assert_eq!(PortInfo::modifier(PortNum(255), false), 0xFF);
        let modifier = PortInfo::modifier(PortNum(7), true);
        assert_eq!(modifier, 0x8000_0007);
        assert_eq!(PortInfo::modifier_port(modifier), PortNum(7));
        assert!(PortInfo::modifier_extended_speeds(modifier));
    }

    #[test]
    fn a_rate_needs_width_and_speed() {
        let mut info = PortInfo::default();
        assert_eq!(info.link_rate(), None);
        info.set_link_width_active(LinkWidths::X4);
        assert_eq!(info.link_rate(), None);
        info.set_link_speed_ext_active2(LinkSpeedExt2::XDR);
        assert_eq!(info.link_rate().map(ActiveRate::data_mbps), Some(800_000));
    }

    #[test]
    fn mtu_codes_are_powers_of_two() {
        assert_eq!(Mtu::Bytes256.bytes(), Some(256));
        assert_eq!(Mtu::Bytes4096.bytes(), Some(4096));
        assert_eq!(Mtu::Unknown(6).bytes(), None);
        assert!(Mtu::Bytes2048 < Mtu::Bytes4096);
    }
}
