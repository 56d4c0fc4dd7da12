use rsm_ids::PortNum;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::LinkSpeed;
use super::attribute;
use crate::wire::bits::bits;
use crate::wire::codes::{bit_mask, code_enum};

bit_mask! {
    /// The link speeds that Mellanox added to the speeds of the specification.
    MlnxLinkSpeed(u8) {
        /// FDR10, 10.3125 Gb/s per lane.
        FDR10 = 0x01 "FDR10",
    }
}

bit_mask! {
    /// Capabilities of a port in [`ExtendedPortInfo`].
    ExtendedPortCapabilities(u16) {
        /// The port accepts the old M_Key beside the new one while the keys change.
        DUAL_M_KEY = 0x0200 "DualM_Key",
    }
}

code_enum! {
    /// The reason why a switch took a port out of service without a request of the manager.
    UnhealthyReason {
        /// The port is in service.
        None = 0 "none",
        /// Credits were not returned in time.
        CreditWatchdog = 2 "credit watchdog",
        /// The planes of a port differ.
        Symmetry = 3 "symmetry",
        /// There were too many bit errors before correction.
        RawBer = 4 "raw bit errors",
        /// There were too many bit errors after correction.
        EffectiveBer = 5 "effective bit errors",
        /// There were too many symbol errors.
        SymbolBer = 6 "symbol errors",
        /// The switch isolates the port and discards its packets (contain and drain).
        ContainAndDrain = 8 "contain and drain",
    }
}

code_enum! {
    /// The device inside the switch to which a special port leads.
    SpecialPortType {
        /// The device is an aggregation node (SHARP).
        AggregationNode = 1 "aggregation node",
        /// The device is a router.
        Router = 2 "router",
        /// The device is a gateway to Ethernet.
        EthernetGateway = 3 "Ethernet gateway",
    }
}

/// NVIDIA ExtendedPortInfo (MEPI), attribute 0xFF90: properties of a port for which PortInfo has no
/// field.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  A N R V - - - - | -                                 | StateChangeEnabl
///    4  - - - - - B UsedBandwidth         | UnhealthyReason | LinkSpeedSupport
///    8  -                                 | MinimumBandwidt | LinkSpeedEnabled
///   12  -                                                   | LinkSpeedActive
///   16  -               | - - - - Admin - | CapabilityMask
///   20  - to byte 43
///   44  F M Q T - - - - | -                                 | S - - - SpecialTy
///   48  -
///   52  AdaptiveTimeoutSLMask             | OOOSLMask
///   56  - to byte 63
/// ```
///
/// A is AME, N enables the aggregation node, R router LIDs, V says that the port recovered, B
/// enables UsedBandwidth. F is an FNM port, M a mission port in use as an FNM port, Q says that
/// QoSConfigVL is in force, T is access or trunk, S a special port. Layout: `ib_types.h` of OpenSM
/// 5.24.0.MLNX20250722.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ExtendedPortInfo {
    enables: u8,
    reserved_1: [u8; 2],
    state_change_enable: u8,
    bandwidth: U16,
    unhealthy_reason: u8,
    link_speed_supported: u8,
    reserved_8: [u8; 2],
    minimum_bandwidth: u8,
    link_speed_enabled: u8,
    reserved_12: [u8; 3],
    link_speed_active: u8,
    reserved_16: u8,
    admin: u8,
    capability_mask: U16,
    reserved_20: [u8; 24],
    kind: u8,
    reserved_45: [u8; 2],
    special: u8,
    reserved_48: [u8; 4],
    adaptive_timeout_sl_mask: U16,
    ooo_sl_mask: U16,
    reserved_56: [u8; 8],
}

attribute!(ExtendedPortInfo, EXTENDED_PORT_INFO, "ExtendedPortInfo");

bits! { ExtendedPortInfo {
    /// A: the flag that the vendor calls AME; real ports answer 1.
    ame, set_ame: bool = enables[7, 7];
    /// N: whether the aggregation node behind the port may work.
    sharp_an_enabled, set_sharp_an_enabled: bool = enables[6, 6];
    /// R: whether packets to router LIDs may leave by the port.
    router_lid_enabled, set_router_lid_enabled: bool = enables[5, 5];
    /// V: whether the port recovered without a request of the manager.
    port_recovered, set_port_recovered: bool = enables[4, 4];
    /// The mask of the fields that a Set changes.
    state_change_enable, set_state_change_enable: u8 = state_change_enable;
    /// B: whether UsedBandwidth is measured.
    bandwidth_enabled, set_bandwidth_enabled: bool = bandwidth[10, 10];
    /// The used bandwidth, in the vendor's unit.
    used_bandwidth, set_used_bandwidth: u16 = bandwidth[9, 0];
    /// The reason for which the switch took the port out of service.
    unhealthy_reason, set_unhealthy_reason: UnhealthyReason = unhealthy_reason;
    /// The speeds that the port can train to.
    link_speed_supported, set_link_speed_supported: MlnxLinkSpeed = link_speed_supported;
    /// The smallest bandwidth of the port, in the vendor's unit.
    minimum_bandwidth, set_minimum_bandwidth: u8 = minimum_bandwidth;
    /// The speeds that the link may train to.
    link_speed_enabled, set_link_speed_enabled: MlnxLinkSpeed = link_speed_enabled;
    /// The speed that the link has trained to.
    link_speed_active, set_link_speed_active: MlnxLinkSpeed = link_speed_active;
    /// The administrative state.
    admin_state, set_admin_state: u8 = admin[3, 1];
    /// The capabilities of the port.
    capability_mask, set_capability_mask: ExtendedPortCapabilities = capability_mask;
    /// F: whether the port belongs to the ring of management links in a multi-plane switch.
    is_fnm_port, set_is_fnm_port: bool = kind[7, 7];
    /// M: whether the port is an ordinary port that is used as an FNM port.
    is_mission_port_as_fnm, set_is_mission_port_as_fnm: bool = kind[6, 6];
    /// Q: whether QoSConfigVL is in force.
    qos_config_vl_enabled, set_qos_config_vl_enabled: bool = kind[5, 5];
    /// T: whether the port is a trunk port rather than an access port.
    is_trunk, set_is_trunk: bool = kind[4, 4];
    /// S: whether the port leads to a device inside the switch.
    is_special_port, set_is_special_port: bool = special[7, 7];
    /// The device behind a special port.
    special_port_type, set_special_port_type: SpecialPortType = special[3, 0];
    /// The mask of the SLs on which the transport adapts its time-outs; bit 0 is SL 0.
    adaptive_timeout_sl_mask, set_adaptive_timeout_sl_mask: u16 = adaptive_timeout_sl_mask;
    /// The mask of the SLs on which packets may arrive out of order; the host's libraries read it.
    ooo_sl_mask, set_ooo_sl_mask: u16 = ooo_sl_mask;
} }

impl ExtendedPortInfo {
    /// The bit of StateChangeEnable with which a Set changes LinkSpeedEnabled.
    pub const SETS_SPEED: u8 = 0x01;

    /// The attribute modifier for `port`.
    pub const fn modifier(port: PortNum) -> u32 {
        port.0 as u32
    }

    /// The true speed of a link whose speed in PortInfo is `speed`: PortInfo shows FDR10 as QDR.
    pub fn refine(&self, speed: LinkSpeed) -> LinkSpeed {
        let fdr10 = self.link_speed_active().contains(MlnxLinkSpeed::FDR10);
        if fdr10 && speed == LinkSpeed::Qdr {
            LinkSpeed::Fdr10
        } else {
            speed
        }
    }

    /// Whether the port leads to an aggregation node.
    pub fn leads_to_aggregation_node(&self) -> bool {
        self.is_special_port() && self.special_port_type() == SpecialPortType::AggregationNode
    }
}
