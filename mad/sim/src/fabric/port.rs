//! The state of one simulated port, and the training of its link.

use std::collections::BTreeMap;

use rsm_ids::Guid;
use rsm_mad::wire::attr::{
    LinkDownDefault, LinkSpeedExt, LinkSpeedExt2, LinkSpeeds, LinkWidths, PortInfo,
    PortPhysicalState, PortState,
};

use crate::personality::PortFields;
use crate::rng::Probability;

/// The 32-bit index that stands for no port, no client or no node.
pub(crate) const NONE: u32 = u32::MAX;

/// The state of one port. Its size is limited to 120 bytes, because a fabric of 45,056 hosts has a
/// quarter of a million ports.
#[derive(Debug, Clone)]
pub(crate) struct Port {
    /// The PortInfo that a Get returns.
    pub(crate) info: PortInfo,
    /// The port's GUID; on a switch, the node GUID.
    pub(crate) guid: Guid,
    /// The tables that a manager has written; `None` if no table was written since power-on.
    pub(crate) tables: Option<Box<PortTables>>,
    /// The port at the other end of the cable, or [`NONE`]. A port can be cabled to itself.
    pub(crate) peer: u32,
    /// The node to which the port belongs.
    pub(crate) node: u32,
    /// The number of events of the link so far, kept at the lower of its two ends. A training that
    /// began at an earlier number is obsolete.
    pub(crate) link_generation: u32,
    /// The number of starts and stops of the M_Key lease countdown.
    pub(crate) lease_generation: u32,
    /// The client attached to the port, or [`NONE`].
    pub(crate) client: u32,
    /// The probability that a packet is lost when it leaves through this port.
    pub(crate) loss: Probability,
    /// The number of the port at its node.
    pub(crate) number: u8,
    /// Whether the cable exists but is unplugged.
    pub(crate) is_unplugged: bool,
    /// Whether the M_Key lease countdown runs.
    pub(crate) is_lease_running: bool,
    /// The fields for which the answer to a Set has shown the old value once since power-on, as
    /// some personalities do.
    pub(crate) shown_old: PortFields,
    /// The rate of the cable, equal at both of its ends.
    pub(crate) cable: RateSet,
    /// Whether a manager has disabled FDR10 (ExtendedPortInfo.LinkSpeedEnabled).
    pub(crate) fdr10_disabled: bool,
    /// Whether FDR10 was disabled at an end of the link when the link last trained.
    pub(crate) trained_without_fdr10: bool,
    /// ExtendedPortInfo.SHArPANEnable of a switch's port.
    pub(crate) aggregation_enabled: bool,
    /// ExtendedPortInfo.OOOSLMask of an adapter's port.
    pub(crate) out_of_order_sls: u16,
}

/// The tables that a manager has written to a port. A block that a map lacks has its content after
/// power-on.
#[derive(Debug, Clone, Default)]
pub(crate) struct PortTables {
    /// The blocks of P_KeyTable, by block number.
    pub(crate) p_keys: BTreeMap<u16, [u8; 64]>,
    /// The blocks of GUIDInfo, by block number.
    pub(crate) guids: BTreeMap<u32, [u8; 64]>,
    /// The blocks of VLArbitrationTable, by block number.
    pub(crate) vl_arbitration: BTreeMap<u8, [u8; 64]>,
    /// The SLtoVLMappingTable for each input port; the input port is 0 except on external ports of
    /// switches.
    pub(crate) sl_to_vl: BTreeMap<u8, [u8; 8]>,
    /// The content of QoSConfigSL; `None` before the first Set.
    pub(crate) rate_limits: Option<[u8; 64]>,
}

/// A set of widths and speeds. The bits of speeds ascend with the speed: SDR 0x01, DDR, QDR, FDR,
/// EDR, HDR, NDR, XDR 0x80.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateSet {
    pub(crate) widths: LinkWidths,
    pub(crate) speeds: u8,
}

/// The position of LinkSpeedExt's lowest bit in the ranked speed bits.
const EXT_SHIFT: u32 = 3;
/// The position of LinkSpeedExt2's bit in the ranked speed bits.
const EXT2_SHIFT: u32 = 7;

impl RateSet {
    /// The speeds for LinkSpeed fields.
    pub(crate) fn base(self) -> LinkSpeeds {
        LinkSpeeds(self.speeds & 0x7)
    }

    /// The speeds for LinkSpeedExt fields.
    pub(crate) fn ext(self) -> LinkSpeedExt {
        LinkSpeedExt((self.speeds >> EXT_SHIFT) & 0xF)
    }

    /// The speeds for LinkSpeedExt2 fields.
    pub(crate) fn ext2(self) -> LinkSpeedExt2 {
        LinkSpeedExt2(self.speeds >> EXT2_SHIFT)
    }

    /// The widest width and the highest speed that both sets have; each is empty if the sets have
    /// none in common.
    fn best_with(self, other: RateSet) -> RateSet {
        // Try widths from the widest to the narrowest: their bits are not in the order of the
        // number of lanes.
        const WIDEST_FIRST: [LinkWidths; 5] = [
            LinkWidths::X12,
            LinkWidths::X8,
            LinkWidths::X4,
            LinkWidths::X2,
            LinkWidths::X1,
        ];
        let widths = self.widths & other.widths;
        let speeds = self.speeds & other.speeds;
        RateSet {
            widths: WIDEST_FIRST
                .into_iter()
                .find(|&width| widths.contains(width))
                .unwrap_or(LinkWidths::NONE),
            speeds: speeds.checked_ilog2().map_or(0, |highest| 1 << highest),
        }
    }
}

/// Combines the three speed fields into ranked bits.
fn ranked(base: LinkSpeeds, ext: LinkSpeedExt, ext2: LinkSpeedExt2) -> u8 {
    (base.0 & 0x7) | ((ext.0 & 0xF) << EXT_SHIFT) | ((ext2.0 & 1) << EXT2_SHIFT)
}

impl Port {
    /// The rates that the port's enabled widths and speeds allow.
    fn enabled(&self) -> RateSet {
        let info = &self.info;
        let ext = match info.link_speed_ext_enabled() {
            LinkSpeedExt::DISABLED => LinkSpeedExt::NONE,
            enabled => enabled & info.link_speed_ext_supported(),
        };
        let ext2 = info.link_speed_ext_enabled2() & info.link_speed_ext_supported2();
        RateSet {
            widths: info.link_width_enabled(),
            speeds: ranked(info.link_speed_enabled(), ext, ext2),
        }
    }

    /// The rate at which a link between two ports comes up; `None` if the ports and their cable
    /// have no width or no speed in common.
    pub(crate) fn train_with(&self, peer: &Port) -> Option<RateSet> {
        let common = RateSet {
            widths: self.enabled().widths & self.cable.widths,
            speeds: self.enabled().speeds & self.cable.speeds,
        };
        let rate = common.best_with(peer.enabled());
        (!rate.widths.is_empty() && rate.speeds != 0).then_some(rate)
    }

    /// Brings the port to the state Init, with this active rate.
    pub(crate) fn come_up(&mut self, rate: RateSet) {
        self.info
            .set_port_state(PortState::Init)
            .set_port_physical_state(PortPhysicalState::LinkUp);
        self.run_at(rate);
    }

    /// Sets the active rate of the link.
    pub(crate) fn run_at(&mut self, rate: RateSet) {
        self.info
            .set_link_width_active(rate.widths)
            .set_link_speed_active(rate.base())
            .set_link_speed_ext_active(rate.ext())
            .set_link_speed_ext_active2(rate.ext2());
    }

    /// Brings the port to the state Down. A disabled port stays disabled.
    pub(crate) fn go_down(&mut self) {
        self.info.set_port_state(PortState::Down);
        if self.info.port_physical_state() != PortPhysicalState::Disabled {
            let next = match self.info.link_down_default_state() {
                LinkDownDefault::Sleep => PortPhysicalState::Sleep,
                _ => PortPhysicalState::Polling,
            };
            self.info.set_port_physical_state(next);
        }
    }

    /// Whether the port is physically up, so that packets on VL15 pass (IBA 7.2.7).
    pub(crate) fn is_up(&self) -> bool {
        !matches!(
            self.info.port_state(),
            PortState::Down | PortState::NoChange
        )
    }

    /// Whether the port holds this LID.
    pub(crate) fn holds(&self, lid: rsm_ids::Lid) -> bool {
        let base = self.info.lid().0;
        base != 0 && lid.0.wrapping_sub(base) < self.info.lmc().lids()
    }

    /// The written tables of the port; creates empty tables if no table was written.
    pub(crate) fn tables_mut(&mut self) -> &mut PortTables {
        self.tables.get_or_insert_default()
    }

    /// The VL for a service level; `input` is the port where a packet entered the switch, 0 on
    /// other nodes.
    pub(crate) fn virtual_lane(&self, input: u8, sl: u8) -> u8 {
        let sl = sl & 0xF;
        let row = self
            .tables
            .as_ref()
            .and_then(|tables| tables.sl_to_vl.get(&input));
        match row {
            Some(row) => {
                let pair = row[usize::from(sl / 2)];
                if sl & 1 == 0 { pair >> 4 } else { pair & 0xF }
            }
            None => default_lane(sl),
        }
    }
}

/// The VL of a service level after power-on: the service level modulo the eight VLs of most ports.
pub(crate) const fn default_lane(sl: u8) -> u8 {
    sl % 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_at_most_120_bytes() {
        assert!(size_of::<Port>() <= 120, "{}", size_of::<Port>());
    }

    #[test]
    fn the_best_common_rate_has_the_widest_width_and_the_highest_speed() {
        let rate = |widths, speeds| RateSet { widths, speeds };
        let wide = rate(LinkWidths::X12 | LinkWidths::X4 | LinkWidths::X1, 0x3F);
        let narrow = rate(LinkWidths::X4 | LinkWidths::X2 | LinkWidths::X1, 0x1F);
        let best = wide.best_with(narrow);
        assert_eq!(best, rate(LinkWidths::X4, 0x10));
        assert_eq!(best.ext(), LinkSpeedExt::EDR);
        assert_eq!(best.base(), LinkSpeeds::NONE);
    }
}
