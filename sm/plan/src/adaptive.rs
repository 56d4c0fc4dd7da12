//! The adaptive routing of a plan: groups of ports that complement the forwarding tables, and the
//! hardware that the groups depend on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_config::AdaptiveRouting;
use rsm_ids::Guid;
use rsm_mad::wire::attr::ArInfo;
use rsm_model::capabilities::{DeviceCapabilities, DeviceType};
use rsm_routing::adaptive::{self, AdaptiveTable, AdaptiveTables, GroupIds};
use rsm_routing::verify::SetReport;

/// Mask of all SLs.
pub const ALL_SLS: u16 = 0xFFFF;

/// Mask of transports whose packets keep the static port: UD and UC, whose receivers do not reorder
/// packets.
const IN_ORDER_TRANSPORTS: u8 = 0b0101;

/// The operator's decisions about adaptive routing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdaptivePolicy {
    /// Mode: whether switches choose among the ports of a group, and whether a switch that loses a
    /// port uses another one at once.
    pub mode: AdaptiveRouting,
    /// Mask of the SLs whose packets may take any port of a group; SL 0 is bit 0.
    pub sls: u16,
    /// DeviceIDs of switches that may route adaptively.
    pub devices: BTreeSet<u16>,
}

impl Default for AdaptivePolicy {
    fn default() -> AdaptivePolicy {
        AdaptivePolicy {
            mode: AdaptiveRouting::Off,
            sls: ALL_SLS,
            devices: BTreeSet::new(),
        }
    }
}

impl AdaptivePolicy {
    /// Whether any switch may route adaptively.
    pub fn is_on(&self) -> bool {
        self.mode != AdaptiveRouting::Off
    }
}

/// A switch that can route adaptively, as recorded in the inventory.
#[derive(Clone, Debug)]
pub struct AdaptiveSwitch {
    /// Device type of the switch.
    pub device: DeviceType,
    /// ARInfo of the switch.
    pub info: ArInfo,
    /// Whether this kind of device has refused adaptive routing.
    pub refuses: bool,
    /// Groups and entries in force; `None` if adaptive routing is not in force.
    pub in_force: Option<Arc<AdaptiveTable>>,
}

/// The part of the hardware that plans of adaptive routing depend on.
#[derive(Clone, Default, Debug)]
pub struct AdaptiveHardware {
    /// Switches with the capability that answered ARInfo.
    pub switches: BTreeMap<Guid, AdaptiveSwitch>,
    /// Capabilities of device types, which show the hosts that accept packets out of order.
    pub capabilities: Arc<DeviceCapabilities>,
    /// Number of the group of each leaf in the previous plan.
    pub ids: GroupIds,
}

/// The adaptive routing of a plan.
#[derive(Clone, Debug)]
pub struct Adaptive {
    /// Whether fast recovery is on as well.
    pub recovers: bool,
    /// Mask of the SLs whose packets take any port of a group.
    pub sls: u16,
    /// Groups and entries of each switch, in the order of the plan's topology.
    pub tables: AdaptiveTables,
    /// Number of the group of each leaf.
    pub ids: GroupIds,
    /// Proof of the groups and entries.
    pub report: SetReport,
    /// Number of leaves with hosts.
    pub leaves: usize,
    /// Number of groups.
    pub groups: usize,
    /// GroupTop of all switches: the highest number of a group.
    pub group_top: u16,
    /// Switches that shall hold groups and entries.
    pub switches: BTreeSet<Guid>,
    /// One switch of each type. Its tables are read back before any switch of the type forwards by
    /// groups.
    pub tests: BTreeMap<DeviceType, Guid>,
    /// Switches whose groups may stay in force while forwarding tables change: no mixture of tables
    /// during the push has a loop or a credit loop.
    pub kept: BTreeSet<Guid>,
}

impl Adaptive {
    /// ARInfo to set at a switch that holds `held`. With `in_force`, the switch forwards by groups;
    /// otherwise, the groups are only prepared.
    pub fn ar_info(&self, held: &ArInfo, in_force: bool) -> ArInfo {
        let mut info = *held;
        let recovers = in_force && self.recovers && held.fast_recovery_sup();
        info.disable()
            .set_enabled(in_force)
            .set_fast_recovery_enabled(recovers)
            .set_sub_groups_active(0)
            .set_group_top(self.group_top);
        if held.by_sl_cap() {
            info.set_by_sl_en(self.sls != ALL_SLS).set_sl_mask(self.sls);
        }
        if held.by_transport_cap() {
            info.set_excluded_transports(IN_ORDER_TRANSPORTS);
        }
        info
    }

    /// Number of blocks in the group table of a switch.
    pub fn group_blocks(&self) -> u16 {
        self.group_top / adaptive::GROUPS_PER_BLOCK as u16 + 1
    }
}
