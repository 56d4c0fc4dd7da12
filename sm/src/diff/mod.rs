//! What differs between what we want and what the hardware holds.
//!
//! Only this module decides whether something is Set; only [`crate::push`] does it.

mod guids;
mod kept;
mod lanes;
mod multicast;
mod reregister;

use std::collections::BTreeMap;

use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::{NodeType, PKey, PKeyTable, PortInfo, PortState, SwitchInfo};
use rsm_routing::tables::Tables;

pub use self::guids::{GuidBlock, differing as differing_guids};
pub use self::kept::{DeviceKind, NotKept, PortRole};
pub use self::lanes::LaneRow;
pub use self::multicast::{MulticastChange, kept};
pub use self::reregister::{Reregister, heeds};
use crate::fabric::{Fabric, PortRef};
use crate::plan::Plan;
use crate::plan::partitions::Enforced;
use crate::plan::ports::{self, Settings};
use crate::sweep::inventory::{Inventory, PortKey};
use crate::sweep::p_keys;

/// What has to be written to one switch.
#[derive(Clone, Default, Debug)]
pub struct SwitchChange {
    /// SwitchInfo, if it differs.
    pub info: Option<SwitchInfo>,
    /// Blocks that differ from the plan's waypoint, lowest first; they are written before any of `blocks` is written
    /// anywhere.
    pub first: Vec<u16>,
    /// SLtoVLMappingTables that differ; they are written when all of `first` is held everywhere, and before any of
    /// `blocks` is written anywhere.
    pub lanes: Vec<LaneRow>,
    /// Blocks of the forwarding table that differ then, lowest first.
    pub blocks: Vec<u16>,
}

impl SwitchChange {
    /// Whether the switch is as it should be.
    pub fn is_empty(&self) -> bool {
        self.info.is_none()
            && self.first.is_empty()
            && self.lanes.is_empty()
            && self.blocks.is_empty()
    }
}

/// What has to be written to one port.
#[derive(Clone, Debug)]
pub struct PortChange {
    /// The values it should have.
    pub settings: Settings,
    /// Fields that its kind of device does not keep, and that do not count.
    pub ignored: ports::FieldMask,
    /// Whether the link should be brought to Active: it has a managed node at both ends.
    pub activate: bool,
    /// The other end of its cable.
    pub peer: Option<PortKey>,
    /// Whether PortInfo has to be written.
    pub info: bool,
    /// The GUID of the port, if the host behind it is to register anew.
    pub reregister: Option<Guid>,
    /// Blocks of its P_KeyTable that differ, lowest first.
    pub p_keys: Vec<PKeyBlock>,
    /// Whether it is one of a switch's external ports.
    pub external_of_switch: bool,
}

/// A block of a P_KeyTable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PKeyBlock {
    /// Which block.
    pub block: u16,
    /// Its keys, up to the end of the block or of the table.
    pub keys: Vec<PKey>,
}

impl PKeyBlock {
    /// As it is sent.
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

/// Everything that has to be written.
#[derive(Clone, Default, Debug)]
pub struct Changes {
    /// By switch.
    pub switches: BTreeMap<Guid, SwitchChange>,
    /// By port.
    pub ports: BTreeMap<PortKey, PortChange>,
    /// Multicast tables, by switch.
    pub multicast: BTreeMap<Guid, MulticastChange>,
    /// Blocks of GUIDInfo that differ, by port, lowest first.
    pub guids: BTreeMap<PortKey, Vec<GuidBlock>>,
}

impl Changes {
    /// Whether the hardware is as it should be.
    pub fn is_empty(&self) -> bool {
        self.switches.is_empty()
            && self.ports.is_empty()
            && self.multicast.is_empty()
            && self.guids.is_empty()
    }

    /// Blocks of linear forwarding tables to be written, those on the way included.
    pub fn blocks(&self) -> usize {
        self.switches
            .values()
            .map(|change| change.first.len() + change.blocks.len())
            .sum()
    }
}

/// What to write so that the hardware, as `inventory` has it, becomes what `plan` wants.
///
/// `fabric` is the model of the same inventory; `reregister` says which hosts are to register anew; `waypoint` is what all switches are to hold on the way, in the order of
/// the plan's topology.
pub fn diff(
    inventory: &Inventory,
    fabric: &Fabric,
    plan: &Plan,
    not_kept: &NotKept,
    reregister: &Reregister,
    waypoint: Option<&Tables>,
) -> Changes {
    let mut changes = Changes::default();
    for (guid, node, record) in inventory.switches() {
        let Some(table) = plan.table(guid) else {
            continue;
        };
        let mut change = SwitchChange::default();
        let wanted = ports::desired_switch_info(&record.info, plan.top(), &plan.policy.ports);
        if needs_switch_info(&record.info, &wanted) {
            change.info = Some(wanted);
        }
        let on_the_way = waypoint.and_then(|tables| plan.table_of(tables, guid));
        for block in 0..plan.blocks() {
            let held = match on_the_way {
                Some(first) => {
                    if !record.lft.holds_of(first, block) {
                        change.first.push(block as u16);
                    }
                    first.block_eq(table, block)
                }
                None => record.lft.holds_of(table, block),
            };
            if !held {
                change.blocks.push(block as u16);
            }
        }
        change.lanes = lanes::diff(plan, node);
        if !change.is_empty() {
            changes.switches.insert(guid, change);
        }
    }
    for (ix, node) in fabric.iter() {
        for number in 0..node.ports.len() {
            let at = PortRef {
                node: ix,
                port: PortNum(number as u8),
            };
            if let Some(change) = diff_port(fabric, plan, not_kept, reregister, at) {
                changes.ports.insert(fabric.key(at), change);
            }
        }
    }
    multicast::diff(inventory, plan, &mut changes);
    guids::diff(inventory, fabric, plan, &mut changes);
    changes
}

/// As [`diff`], looking at multicast alone.
pub fn diff_multicast(inventory: &Inventory, plan: &Plan) -> Changes {
    let mut changes = Changes::default();
    multicast::diff(inventory, plan, &mut changes);
    changes
}

/// LifeTimeValue and LinearFDBTop are compared; PortStateChange is cleared where it is set.
fn needs_switch_info(current: &SwitchInfo, wanted: &SwitchInfo) -> bool {
    current.linear_fdb_top() != wanted.linear_fdb_top()
        || current.life_time_value() != wanted.life_time_value()
        || current.port_state_change()
}

fn diff_port(
    fabric: &Fabric,
    plan: &Plan,
    not_kept: &NotKept,
    reregister: &Reregister,
    at: PortRef,
) -> Option<PortChange> {
    let node = fabric.node(at.node);
    let port = fabric.port(at);
    let info = port.info.as_ref()?;
    let switch = node.kind() == NodeType::Switch;
    let external = at.port.0 != 0;
    // Port 0 of a channel adapter does not exist, and what has no cable or does not belong to a managed node is left alone.
    if (!switch && !external)
        || node.unmanageable
        || (external && info.port_state() == PortState::Down)
    {
        return None;
    }
    let claim = claim_in(plan, fabric, at);
    let is_end_port = !(switch && external);
    if is_end_port && claim.is_none() {
        return None;
    }
    let planned = plan.fabric.find_port(fabric.key(at));
    let enforced = planned.map_or_else(Enforced::default, |at| plan.partitions.enforced(at));
    let settings = ports::desired(fabric, at, claim, plan.sm_lid, enforced, &plan.policy.ports)?;
    let ignored = not_kept.of(DeviceKind::of(&node.info, at.port));
    let activate = external
        && port.peer.is_some_and(|peer| {
            let other = fabric.node(peer.node);
            let theirs = fabric.port(peer);
            let peer_has_lid =
                other.kind() == NodeType::Switch || claim_in(plan, fabric, peer).is_some();
            !other.unmanageable
                && peer_has_lid
                && theirs
                    .info
                    .as_ref()
                    .is_some_and(|info| info.port_state() != PortState::Down)
        });
    let differs = !settings.differing(info, ignored).is_empty();
    let inactive = activate && info.port_state() != PortState::Active;
    // What was read of a port before it is armed may be gone by then: a reset in between would not show.
    let arms = is_end_port && activate && info.port_state() == PortState::Init;
    let p_keys = match planned.and_then(|at| plan.partitions.table(at)) {
        Some(table) => diff_p_keys(fabric, at, table, arms),
        None => Vec::new(),
    };
    let is_told = is_end_port && reregister.includes(port.guid, info);
    let info = differs || inactive || is_told;
    (info || !p_keys.is_empty()).then(|| PortChange {
        settings,
        ignored,
        activate,
        peer: port.peer.map(|peer| fabric.key(peer)),
        info,
        reregister: is_told.then_some(port.guid),
        p_keys,
        external_of_switch: switch && external,
    })
}

/// The blocks in which the P_KeyTable of a port differs from `wanted`, or, if the port is `armed`, would if it were reset.
fn diff_p_keys(fabric: &Fabric, at: PortRef, wanted: &[PKey], armed: bool) -> Vec<PKeyBlock> {
    let again = armed && wanted != [PKey::DEFAULT_FULL];
    let capacity = fabric.p_key_capacity(at);
    let held = fabric.port(at).p_keys.as_deref();
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

/// The LIDs that `plan` gives to a port of `fabric`, which may be a later model than the plan's own.
fn claim_in(plan: &Plan, fabric: &Fabric, at: PortRef) -> Option<crate::plan::lids::Claim> {
    plan.claim(plan.fabric.find_port(fabric.key(at))?)
}

/// Whether the port's state is short of Active.
pub fn is_short_of_active(info: &PortInfo) -> bool {
    matches!(info.port_state(), PortState::Init | PortState::Armed)
}
