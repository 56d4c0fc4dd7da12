use rsm_ids::PortNum;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::LinkSpeed;
use super::attribute;
use crate::wire::bits::bits;
use crate::wire::codes::bit_mask;

bit_mask! {
    /// Link speeds that Mellanox added.
    MlnxLinkSpeed(u8) {
        /// 10.3125 Gb/s a lane.
        FDR10 = 0x01 "FDR10",
    }
}

/// Mellanox ExtPortInfo, attribute 0xFF90: FDR10, for which the specification has no bit.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  -                                                   | StateChangeEnabl
///    4  -                                                   | LinkSpeedSupport
///    8  -                                                   | LinkSpeedEnabled
///   12  -                                                   | LinkSpeedActive
///   16  - to byte 63
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct MlnxExtPortInfo {
    reserved_0: [u8; 3],
    state_change_enable: u8,
    reserved_4: [u8; 3],
    link_speed_supported: u8,
    reserved_8: [u8; 3],
    link_speed_enabled: u8,
    reserved_12: [u8; 3],
    link_speed_active: u8,
    reserved: [u8; 48],
}

attribute!(MlnxExtPortInfo, MLNX_EXT_PORT_INFO, "MlnxExtPortInfo");

bits! { MlnxExtPortInfo {
    /// The mask of the fields that a Set changes.
    state_change_enable, set_state_change_enable: u8 = state_change_enable;
    /// The speeds that the port can train to.
    link_speed_supported, set_link_speed_supported: MlnxLinkSpeed = link_speed_supported;
    /// The speeds that the link may train to.
    link_speed_enabled, set_link_speed_enabled: MlnxLinkSpeed = link_speed_enabled;
    /// The speed that the link has trained to.
    link_speed_active, set_link_speed_active: MlnxLinkSpeed = link_speed_active;
} }

impl MlnxExtPortInfo {
    /// The attribute modifier for `port`.
    pub const fn modifier(port: PortNum) -> u32 {
        port.0 as u32
    }

    /// The true speed behind one from PortInfo, which shows FDR10 as QDR.
    pub fn refine(&self, speed: LinkSpeed) -> LinkSpeed {
        let fdr10 = self.link_speed_active().contains(MlnxLinkSpeed::FDR10);
        if fdr10 && speed == LinkSpeed::Qdr {
            LinkSpeed::Fdr10
        } else {
            speed
        }
    }
}
