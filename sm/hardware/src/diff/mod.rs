//! Compares the plan with the hardware.
//!
//! Only this module decides which Sets are needed, and only [`crate::push`] sends them.

pub mod adaptive;
mod bounce;
mod kept;
mod last_comparison;
mod links;
mod managed;
mod multicast;
mod reregister;
mod sl2vl;
mod vports;

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::{ArInfo, NodeType, PKey, PKeyTable, PortInfo, PortState, SwitchInfo};
use rsm_model::fabric::{Fabric, PortRef};
use rsm_model::habits::DeviceKind;
use rsm_model::lft_image::LFT_BLOCK;
use rsm_model::port_info::{FieldMask, LinkMismatch, PortSettings};
use rsm_model::{InventorySwitch, p_keys};
use rsm_plan::{Plan, ports};
use rsm_routing::tables::{Lft, Tables};

pub use self::adaptive::AdaptiveChange;
pub use self::bounce::next as next_bounce;
pub use self::kept::NotKept;
pub use self::last_comparison::{ComparisonScope, LastComparison};
pub use self::managed::{BlockChange, differing as differing_blocks};
pub use self::multicast::{
    LastMulticastComparison, LidsOfBlock, MulticastChange, MulticastLoss, kept,
};
pub use self::reregister::{Reregister, heeds};
pub use self::sl2vl::SlToVlRow;
pub use self::vports::{VPortChange, VPortChanges};
use crate::link_step::LinkStep;
use crate::sweep::inventory::Inventory;

/// The changes of one switch.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct SwitchChange {
    /// SwitchInfo, if it differs.
    pub info: Option<SwitchInfo>,
    /// ARInfo with adaptive routing off, if adaptive routing is on with tables that are not valid.
    pub ar_info: Option<ArInfo>,
    /// Sets of this manager's own adaptive routing.
    pub adaptive: AdaptiveChange,
    /// Blocks to write for each of the plan's interim tables: one list per stage, lowest block
    /// first. A push writes the blocks of a stage only after all switches hold the tables of the
    /// previous stage.
    pub interim: Vec<Vec<u16>>,
    /// SLtoVLMappingTables that differ. A push writes them after all switches hold the first
    /// interim tables, and before the next stage.
    pub sl2vl: Vec<SlToVlRow>,
    /// Blocks in which the planned table differs from the last interim table, lowest first. Without
    /// interim tables: from the table that the switch holds.
    pub blocks: Vec<u16>,
}

impl SwitchChange {
    /// Whether there are blocks to write, for interim tables or for the planned table.
    pub(crate) fn has_blocks(&self) -> bool {
        !self.blocks.is_empty() || self.has_interim()
    }

    /// Whether there are blocks to write for interim tables.
    pub(crate) fn has_interim(&self) -> bool {
        self.interim.iter().any(|blocks| !blocks.is_empty())
    }

    /// Whether the switch needs no change.
    pub fn is_empty(&self) -> bool {
        self.info.is_none()
            && self.ar_info.is_none()
            && self.adaptive.is_empty()
            && self.sl2vl.is_empty()
            && !self.has_blocks()
    }
}

/// The changes of one port's PortInfo and P_KeyTable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortChange {
    /// Planned values of PortInfo.
    pub settings: PortSettings,
    /// Fields that this kind of device does not keep, which the comparison ignores.
    pub ignored: FieldMask,
    /// Whether to bring the link to Active, because rsm manages the nodes at both ends.
    pub(crate) activate: bool,
    /// Other end of the cable.
    pub peer: Option<PortKey>,
    /// Whether to write PortInfo.
    pub info: bool,
    /// Whether the port's host must register again with the SA.
    pub reregister: bool,
    /// Whether hosts register again when their port changes to this manager.
    pub reregisters: bool,
    /// Blocks of the P_KeyTable that differ, lowest first.
    pub p_keys: Vec<PKeyBlock>,
    /// Whether the port is an external port of a switch.
    pub(crate) external_of_switch: bool,
}

impl PortChange {
    /// Whether the change brings an end port to Active, so that its host may send requests to the
    /// SA.
    pub fn activates_end_port(&self) -> bool {
        self.info && self.activate && !self.external_of_switch
    }

    /// PortInfo after the push, if the port holds `held` now.
    pub fn expected(&self, held: &PortInfo) -> PortInfo {
        let mut info = self.settings.expected(held, self.ignored);
        if self.activate {
            info.set_port_state(PortState::Active);
        }
        info
    }
}

/// A block of a P_KeyTable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PKeyBlock {
    /// Index of the block.
    pub block: u16,
    /// Keys up to the end of the block or of the table.
    pub keys: Vec<PKey>,
}

impl PKeyBlock {
    /// The block as a P_KeyTable attribute to send.
    pub fn table(&self) -> PKeyTable {
        let mut all = [PKey::INVALID; PKeyTable::ENTRIES];
        for (slot, &key) in all.iter_mut().zip(&self.keys) {
            *slot = key;
        }
        let mut table = PKeyTable::default();
        table.set_p_keys(all);
        table
    }
}

/// All changes that a push makes.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Changes {
    /// Changes by switch.
    pub switches: BTreeMap<Guid, SwitchChange>,
    /// Changes by port. Boxed, because a bring-up changes every port and passes the changes on to
    /// the push without a copy.
    pub ports: BTreeMap<PortKey, Box<PortChange>>,
    /// Changes of multicast tables, by switch.
    pub multicast: BTreeMap<Guid, MulticastChange>,
    /// Blocks of managed attributes that differ, by port, lowest first.
    pub managed: BTreeMap<PortKey, Vec<BlockChange>>,
    /// Changes of virtual ports, by the physical port.
    pub vports: BTreeMap<PortKey, VPortChanges>,
    /// Active ports whose MTU or VLs differ from the plan, and cannot be set.
    pub mismatches: BTreeMap<PortKey, LinkMismatch>,
    /// The link to bounce: the end to set to Down, and the far end.
    pub bounce: Option<(PortKey, PortKey)>,
    /// Links to take down or up, by the port whose PortInfo is set.
    pub links: BTreeMap<PortKey, LinkStep>,
}

impl Changes {
    /// Whether the hardware needs no change.
    pub fn is_empty(&self) -> bool {
        self.switches.is_empty()
            && self.ports.is_empty()
            && self.multicast.is_empty()
            && self.managed.is_empty()
            && self.vports.is_empty()
            && self.bounce.is_none()
            && self.links.is_empty()
    }

    /// Approximate number of Sets. Adaptive routing and devices with habits need more Sets; a
    /// stopped push sends fewer.
    pub fn sets(&self) -> usize {
        let switches = self.switches.values().map(|change| {
            usize::from(change.info.is_some())
                + usize::from(change.ar_info.is_some())
                + change.sl2vl.len()
        });
        let ports = self.ports.values().map(|change| {
            usize::from(change.info) + usize::from(change.activate) + change.p_keys.len()
        });
        let multicast = self.multicast.values().map(MulticastChange::sets);
        let managed = self.managed.values().map(Vec::len);
        self.blocks()
            + switches.sum::<usize>()
            + ports.sum::<usize>()
            + multicast.sum::<usize>()
            + managed.sum::<usize>()
            + self.vports.len()
            + usize::from(self.bounce.is_some())
            + self.links.len()
    }

    /// Number of blocks of linear forwarding tables to write, including interim tables.
    pub fn blocks(&self) -> usize {
        self.switches
            .values()
            .map(|change| change.interim.iter().map(Vec::len).sum::<usize>() + change.blocks.len())
            .sum()
    }
}

/// The hardware and the plan to compare.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'a> {
    /// The state of the hardware, as far as it is known.
    pub inventory: &'a Inventory,
    /// The model of `inventory`.
    pub fabric: &'a Arc<Fabric>,
    /// The plan.
    pub plan: &'a Arc<Plan>,
    /// The interim tables by stage, each in the order of the plan's topology.
    pub interim: &'a [Tables],
    /// Fields to ignore in PortInfo, by kind of device.
    pub not_kept: &'a NotKept,
    /// Hosts that must register again with the SA.
    pub reregister: &'a Reregister,
}

impl Comparison<'_> {
    /// Finds the changes that make the hardware equal to the plan, without changes of multicast
    /// tables, which [`LastMulticastComparison::diff`] adds. `scope` limits the comparison, except
    /// that alias GUIDs are compared everywhere; `None` compares everything.
    pub fn changes(&self, scope: Option<&ComparisonScope>) -> Changes {
        let mut changes = match scope {
            Some(scope) => self.changes_in(scope),
            None => self.changes_in(&ComparisonScope::everything(self.inventory, self.fabric)),
        };
        if self.plan.policy.ports.links.bounce {
            changes.bounce = bounce::next(self.inventory, &changes.mismatches);
        }
        changes.links = links::due_steps(self.inventory);
        self.compare_alias_guids(&mut changes);
        changes
    }

    /// Finds the changes in `scope` of unicast tables, SwitchInfo, PortInfo, P_KeyTables and
    /// quality of service.
    pub fn changes_in(&self, scope: &ComparisonScope) -> Changes {
        let mut changes = Changes::default();
        for &guid in &scope.switches {
            if let Some(change) = self.switch_change(guid).filter(|change| !change.is_empty()) {
                changes.switches.insert(guid, change);
            }
        }
        for &key in &scope.ports {
            let Some(at) = self.fabric.find_port(key) else {
                continue;
            };
            let Some(wanted) = planned_port(self.fabric, self.plan, at) else {
                continue;
            };
            if let Some(mismatch) = wanted.settings.link_mismatch(wanted.info) {
                changes.mismatches.insert(key, mismatch);
            }
            if let Some(change) = self.port_change(at, wanted) {
                changes.ports.insert(key, Box::new(change));
            }
            if let Some(change) = self.vport_changes(at) {
                changes.vports.insert(key, change);
            }
        }
        self.compare_qos(scope, &mut changes);
        self.compare_extended_ports(scope, &mut changes);
        self.compare_rate_limits(scope, &mut changes);
        changes
    }

    /// The fields of PortInfo that agreed with the plan in `before`, the port's former PortInfo,
    /// and differ from the plan now.
    pub fn diverged(&self, node: Guid, port: PortNum, before: &PortInfo) -> FieldMask {
        let at = self.fabric.find_port(PortKey::new(node, port));
        let wanted = at.and_then(|at| Some((at, planned_port(self.fabric, self.plan, at)?)));
        let Some((at, wanted)) = wanted else {
            return FieldMask::default();
        };
        let kind = DeviceKind::of(&self.fabric.node(at.node).info, port);
        let ignored = self.not_kept.of(kind);
        let now = wanted.settings.differing(wanted.info, ignored);
        now.without(wanted.settings.differing(before, ignored))
    }

    /// The changes of the tables and SwitchInfo of a switch; `None` if the plan omits the switch.
    fn switch_change(&self, guid: Guid) -> Option<SwitchChange> {
        let plan = self.plan;
        let node = self.inventory.hardware.node(guid)?;
        let record = node.switch.as_ref()?;
        let table = plan.last_table(guid)?;
        let mut change = SwitchChange::default();
        // A lower LinearFDBTop would leave the entries above it in the switch, and a later plan that
        // raises LinearFDBTop would put them in force again before they are overwritten, beside
        // tables of another order: the blocks above are written as well, and the push lowers
        // LinearFDBTop only after the switch holds them.
        let in_force = record.lft.highest_in_force(record.info.linear_fdb_top());
        let block_count = plan.top().max(in_force).index() / LFT_BLOCK + 1;
        let wanted = ports::desired_switch_info(&record.info, plan.top(), &plan.policy.ports);
        if needs_switch_info(&record.info, &wanted) {
            change.info = Some(wanted);
        }
        // A mute switch gets no interim tables.
        let is_mute = plan.transition.mute.contains(&guid);
        let interim = if is_mute { &[] } else { self.interim };
        change.interim = vec![Vec::new(); interim.len()];
        let interim = interim
            .iter()
            .map(|tables| plan.table_of(tables, guid).unwrap_or(table));
        let mut before: Option<&Lft> = None;
        for (stage, next) in interim.chain([table]).enumerate() {
            let blocks = change.interim.get_mut(stage).unwrap_or(&mut change.blocks);
            match before.replace(next) {
                Some(before) => {
                    let differing = next.differing_blocks(before);
                    let counted = differing.take_while(|&block| block < block_count);
                    blocks.extend(counted.map(|block| block as u16));
                }
                None => blocks.extend(record.lft.not_held(next, block_count)),
            }
        }
        change.sl2vl = sl2vl::diff(plan, node);
        change.ar_info = without_adaptive_routing(record);
        change.adaptive = adaptive::switch_change(plan, self.inventory, guid, change.has_blocks());
        Some(change)
    }
}

/// ARInfo with adaptive routing off, if adaptive routing is on with tables that are not valid.
fn without_adaptive_routing(switch: &InventorySwitch) -> Option<ArInfo> {
    let is_foreign = switch.lft.is_distrusted() && !switch.adaptive.is_own();
    let ends = is_foreign && !switch.keeps_adaptive_routing;
    let mut info = switch.ar_info().filter(|info| ends && info.uses_groups())?;
    Some(*info.disable())
}

/// Whether LifeTimeValue or LinearFDBTop differs, or PortStateChange must be cleared.
fn needs_switch_info(current: &SwitchInfo, wanted: &SwitchInfo) -> bool {
    current.linear_fdb_top() != wanted.linear_fdb_top()
        || current.life_time_value() != wanted.life_time_value()
        || current.port_state_change()
}

/// The present PortInfo of a port, and its planned values.
struct PlannedPort<'a> {
    info: &'a PortInfo,
    settings: PortSettings,
    is_end_port: bool,
}

/// The present PortInfo and planned values of a port; `None` if rsm does not set the port.
fn planned_port<'a>(fabric: &'a Fabric, plan: &Plan, at: PortRef) -> Option<PlannedPort<'a>> {
    let node = fabric.node(at.node);
    let port = fabric.port(at);
    let info = port.info.as_ref()?;
    let switch = node.kind() == NodeType::Switch;
    let external = at.port.0 != 0;
    // A channel adapter has no port 0. Ports without a cable, and ports of unmanageable nodes, keep
    // their settings.
    if (!switch && !external)
        || node.unmanageable
        || node.locked
        || (external && info.port_state() == PortState::Down)
    {
        return None;
    }
    let claim = plan.claim(fabric.key(at));
    let is_end_port = !(switch && external);
    if is_end_port && claim.is_none() {
        return None;
    }
    let enforced = plan.partitions.enforced(fabric.key(at));
    let settings = ports::desired(fabric, at, claim, plan.sm_lid, enforced, &plan.policy)?;
    Some(PlannedPort {
        info,
        settings,
        is_end_port,
    })
}

impl Comparison<'_> {
    /// The change of a port's PortInfo and P_KeyTable; `None` if neither differs from the plan.
    fn port_change(&self, at: PortRef, wanted: PlannedPort<'_>) -> Option<PortChange> {
        let (fabric, plan) = (self.fabric, self.plan);
        let PlannedPort {
            info,
            settings,
            is_end_port,
        } = wanted;
        let node = fabric.node(at.node);
        let key = fabric.key(at);
        let external = at.port.0 != 0;
        let ignored = self.not_kept.of(DeviceKind::of(&node.info, at.port));
        let activate = external
            && fabric.peer(at).is_some_and(|peer| {
                let other = fabric.node(peer.node);
                let theirs = fabric.port(peer);
                let peer_has_lid =
                    other.kind() == NodeType::Switch || plan.claim(fabric.key(peer)).is_some();
                !other.unmanageable
                    && !other.locked
                    && peer_has_lid
                    && theirs
                        .info
                        .as_ref()
                        .is_some_and(|info| info.port_state() != PortState::Down)
            });
        let differs = !settings.differing(info, ignored).is_empty();
        let inactive = activate && info.port_state() != PortState::Active;
        // Before arming a port, write its keys again: a reset since the last reading would have
        // cleared them without a sign.
        let arms = is_end_port && activate && info.port_state() == PortState::Init;
        let p_keys = match plan.partitions.table(key) {
            Some(table) => diff_p_keys(fabric, at, table, arms),
            None => Vec::new(),
        };
        let reregisters = plan.policy.ports.reregisters;
        let reregister = reregisters && is_end_port && self.reregister.includes(key, info);
        let info = differs || inactive || reregister;
        (info || !p_keys.is_empty()).then(|| PortChange {
            settings,
            ignored,
            activate,
            peer: fabric.port(at).peer,
            info,
            reregister,
            reregisters,
            p_keys,
            external_of_switch: !is_end_port,
        })
    }
}

/// The blocks in which the P_KeyTable of a port differs from `wanted`. Includes the blocks that
/// would differ after a reset if the push arms the port (`armed`).
fn diff_p_keys(fabric: &Fabric, at: PortRef, wanted: &[PKey], armed: bool) -> Vec<PKeyBlock> {
    let again = armed && wanted != [PKey::DEFAULT_FULL];
    let held = fabric.port(at).p_keys.as_deref();
    differing_p_keys(held, wanted, fabric.p_key_capacity(at), again)
}

/// The blocks in which a P_KeyTable of `capacity` keys differs from `wanted`; if `again` is true,
/// also blocks that already hold wanted keys.
fn differing_p_keys(
    held: Option<&p_keys::PKeyImage>,
    wanted: &[PKey],
    capacity: u16,
    again: bool,
) -> Vec<PKeyBlock> {
    let mut blocks = Vec::new();
    for block in 0..p_keys::blocks(capacity) {
        let first = usize::from(block) * PKeyTable::ENTRIES;
        let end = (first + PKeyTable::ENTRIES).min(usize::from(capacity));
        let key = |index: usize| wanted.get(index).copied().unwrap_or(PKey::INVALID);
        let keys: Vec<PKey> = (first..end).map(key).collect();
        let lost = again && keys.iter().any(|key| key.is_valid());
        if lost || !held.is_some_and(|image| image.holds(block, &keys)) {
            blocks.push(PKeyBlock { block, keys });
        }
    }
    blocks
}
