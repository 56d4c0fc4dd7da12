//! Adaptive routing of a plan: groups of ports beside its forwarding tables, and the hardware that
//! they depend on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_config::AdaptiveRouting;
use rsm_ids::Guid;
use rsm_mad::wire::attr::ArInfo;
use rsm_model::capabilities::{DeviceCapabilities, DeviceType};
use rsm_routing::adaptive::{self, AdaptiveTable, AdaptiveTables, GroupIds};
use rsm_routing::verify::SetReport;

/// All SLs.
pub const ALL_SLS: u16 = 0xFFFF;

/// Transports that keep the static port: UD and UC, whose receivers put nothing back in order.
const IN_ORDER_TRANSPORTS: u8 = 0b0101;

/// The operator's decisions about adaptive routing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdaptivePolicy {
    /// Whether packets take any port of a group, and whether another port is taken where one is
    /// down.
    pub mode: AdaptiveRouting,
    /// The SLs of packets that take any port of a group, SL 0 in bit 0.
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

/// A switch that can route adaptively, as the inventory has it.
#[derive(Clone, Debug)]
pub struct AdaptiveSwitch {
    /// Its type.
    pub device: DeviceType,
    /// Its ARInfo.
    pub info: ArInfo,
    /// Whether its kind of device has refused adaptive routing.
    pub refuses: bool,
    /// The switch's groups and entries, while they are in force.
    pub in_force: Option<Arc<AdaptiveTable>>,
}

/// The part of the hardware that plans of adaptive routing depend on.
#[derive(Clone, Default, Debug)]
pub struct AdaptiveHardware {
    /// Switches with the capability that have answered ARInfo.
    pub switches: BTreeMap<Guid, AdaptiveSwitch>,
    /// Capabilities of device types: which hosts take packets out of order.
    pub capabilities: Arc<DeviceCapabilities>,
    /// The groups of leaves before.
    pub ids: GroupIds,
}

/// Adaptive routing of a plan.
#[derive(Clone, Debug)]
pub struct Adaptive {
    /// Fast recovery is on beside adaptive routing.
    pub recovers: bool,
    /// The SLs of packets that take any port of a group.
    pub sls: u16,
    /// Groups and entries, in the order of the plan's topology.
    pub tables: AdaptiveTables,
    /// The group of each leaf.
    pub ids: GroupIds,
    /// Their proof.
    pub report: SetReport,
    /// How many leaves have hosts.
    pub leaves: usize,
    /// How many groups there are.
    pub groups: usize,
    /// GroupTop of all switches.
    pub group_top: u16,
    /// Switches that are to hold groups and entries.
    pub switches: BTreeSet<Guid>,
    /// Of each type of switch the one whose tables are read back before any of the type forwards
    /// by groups.
    pub tests: BTreeMap<DeviceType, Guid>,
    /// Switches whose groups may stay in force while forwarding tables change: no mixture on the
    /// way has a loop or a credit loop.
    pub kept: BTreeSet<Guid>,
}

impl Adaptive {
    /// ARInfo of a switch with `held`: with its groups in force, or ready for them.
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

    /// How many blocks of groups a switch holds.
    pub fn group_blocks(&self) -> u16 {
        self.group_top / adaptive::GROUPS_PER_BLOCK as u16 + 1
    }
}
