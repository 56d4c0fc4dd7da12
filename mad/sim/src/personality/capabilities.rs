//! The effects of a personality on PortInfo.

use rsm_mad::wire::attr::{
    CapabilityMask, CapabilityMask2, LinkDownDefault, LinkSpeedExt, LinkSpeedExt2, LinkSpeeds,
    LinkWidths, Mtu, PortInfo, PortPhysicalState, PortState, VlCap,
};

use super::{Habit, Personality};

/// RespTimeValue with [`Habit::LongResponseTime`]: 4.3 s.
const LONG_RESPONSE_TIME: u8 = 20;

/// The role that a port has for its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A port of an adapter or router.
    End,
    /// Port 0 of a switch; `enhanced` says whether it is an enhanced port 0.
    Port0 { enhanced: bool },
    /// A port of a switch with a link.
    External,
}

impl Personality {
    /// Removes the capabilities that the device lacks from a PortInfo after power-on. A second call
    /// changes nothing.
    pub(crate) fn remove_missing_capabilities(self, info: &mut PortInfo, role: Role) {
        if self.has(Habit::NoExtendedSpeeds) {
            let capabilities = info.capability_mask();
            info.set_capability_mask(
                capabilities
                    .without(CapabilityMask::IS_EXTENDED_SPEEDS_SUPPORTED)
                    .without(CapabilityMask::IS_CAPABILITY_MASK2_SUPPORTED),
            )
            .set_capability_mask2(CapabilityMask2::NONE)
            .set_link_speed_ext_supported(LinkSpeedExt::NONE)
            .set_link_speed_ext_enabled(LinkSpeedExt::NONE)
            .set_link_speed_ext_supported2(LinkSpeedExt2::NONE)
            .set_link_speed_ext_enabled2(LinkSpeedExt2::NONE);
        }
        let port0 = matches!(role, Role::Port0 { .. });
        if role != Role::External && self.has(Habit::LongResponseTime) {
            info.set_resp_time_value(LONG_RESPONSE_TIME);
        }
        if !port0 && self.has(Habit::SleepsWhenDown) {
            info.set_link_down_default_state(LinkDownDefault::Sleep);
        }
        let claims_port_states = [
            Habit::PortStates,
            Habit::DeafToPortStates,
            Habit::RefusesPortStates,
            Habit::NonsensePortStates,
            Habit::FrozenPortStates,
            Habit::ForgetsPortStates,
        ];
        if role != Role::End
            && claims_port_states.into_iter().any(|habit| self.has(habit))
            && info
                .capability_mask()
                .contains(CapabilityMask::IS_CAPABILITY_MASK2_SUPPORTED)
        {
            let claimed = CapabilityMask2::IS_SWITCH_PORT_STATE_TABLE_SUPPORTED;
            info.set_capability_mask2(info.capability_mask2() | claimed);
        }
        let claims_error_correction = [
            Habit::ErrorCorrection,
            Habit::DeafToErrorCorrection,
            Habit::RefusesErrorCorrection,
        ];
        if !port0
            && claims_error_correction
                .into_iter()
                .any(|habit| self.has(habit))
            && info
                .capability_mask()
                .contains(CapabilityMask::IS_CAPABILITY_MASK2_SUPPORTED)
        {
            let claimed = CapabilityMask2::IS_PORT_INFO_EXTENDED_SUPPORTED;
            info.set_capability_mask2(info.capability_mask2() | claimed);
        }
        if !port0 && self.has(Habit::TwoVls) {
            info.set_vl_cap(VlCap::Vl0To1.min(info.vl_cap()));
        } else if !port0 && self.has(Habit::FourVls) {
            info.set_vl_cap(VlCap::Vl0To3.min(info.vl_cap()));
        }
        if port0 && self.has(Habit::EnhancedPort0) {
            info.set_vl_cap(VlCap::Vl0)
                .set_link_width_supported(LinkWidths::X1 | LinkWidths::X4)
                .set_link_width_enabled(LinkWidths::X1 | LinkWidths::X4)
                .set_link_width_active(LinkWidths::X4)
                .set_link_speed_supported(LinkSpeeds::SDR)
                .set_link_speed_enabled(LinkSpeeds::SDR)
                .set_link_speed_active(LinkSpeeds::SDR);
        }
    }

    /// Changes the PortInfo of a port into the PortInfo that the agent's answers show.
    pub(crate) fn show(self, info: &mut PortInfo, role: Role) {
        let extended =
            !info.link_speed_ext_active().is_empty() || !info.link_speed_ext_active2().is_empty();
        if self.has(Habit::LegacySpeed4) && extended {
            info.set_link_speed_active(LinkSpeeds::QDR);
        }
        if self.has(Habit::BlankBasePort0) && role == (Role::Port0 { enhanced: false }) {
            info.set_port_state(PortState::NoChange)
                .set_port_physical_state(PortPhysicalState::NoChange)
                .set_link_width_supported(LinkWidths::NONE)
                .set_link_width_enabled(LinkWidths::NONE)
                .set_link_width_active(LinkWidths::NONE)
                .set_link_speed_supported(LinkSpeeds::NONE)
                .set_link_speed_enabled(LinkSpeeds::NONE)
                .set_link_speed_active(LinkSpeeds::NONE)
                .set_link_speed_ext_supported(LinkSpeedExt::NONE)
                .set_link_speed_ext_enabled(LinkSpeedExt::NONE)
                .set_link_speed_ext_supported2(LinkSpeedExt2::NONE)
                .set_link_speed_ext_enabled2(LinkSpeedExt2::NONE)
                .set_mtu_cap(Mtu::from_code(0))
                .set_neighbor_mtu(Mtu::from_code(0))
                .set_vl_cap(VlCap::from_code(0))
                .set_operational_vls(VlCap::from_code(0))
                .set_vl_arbitration_high_cap(0)
                .set_vl_arbitration_low_cap(0);
        }
        if self.has(Habit::BareExternalPorts) && role == Role::External {
            info.set_capability_mask(CapabilityMask(0))
                .set_capability_mask2(CapabilityMask2::NONE)
                .set_gid_prefix(0)
                .set_subnet_timeout(0);
        }
    }
}
