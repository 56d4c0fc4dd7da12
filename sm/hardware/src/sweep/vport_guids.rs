//! Reads the GUID tables of virtual ports: VPortGUIDInfo, on adapters with the capability, of
//! virtual ports whose GUIDCap shows more GUIDs than their own.
//!
//! Hosts fill the tables. The sweep reads the table of a virtual port once the port is up, after a
//! trap 1144 that names the port, and in audits. The position of the index in the AttributeModifier
//! is not certain. If block 0 does not begin with the GUID of the virtual port, the block belongs
//! to another virtual port: the sweep ignores it, and asks for no further block.
//!
//! If a kind of device refuses the attribute, or leaves it unanswered several times, the
//! [habit](DeviceHabit::RefusesVPortGuids) is recorded, and the kind is not asked again.

use std::sync::Arc;

use rsm_ids::PortKey;
use rsm_mad::wire::attr::{Capability, VPortGuidInfo};
use rsm_mad::wire::header::Status;
use rsm_model::habits::{DeviceHabit, DeviceKind};

use super::Query;
use super::inventory::Inventory;
use super::reading::Reading;
use super::vports::{VPortQuery, vport_mut, vport_of};

impl Inventory {
    /// Records that the GUID table of a virtual port may have changed. The sweep reads it again
    /// after VPortInfo.
    pub fn mark_vport_guids_stale(&mut self, key: PortKey, index: u16) {
        if vport_of(self, key, index).is_some_and(|vport| vport.guids.is_some()) {
            self.vport_reading.stale_guids.insert((key, index));
        }
    }

    /// Whether the sweep reads the GUID tables of a port's virtual ports.
    pub(super) fn reads_vport_guids(&self, key: PortKey) -> bool {
        self.hardware.node(key.node).is_some_and(|node| {
            let kind = DeviceKind::of(&node.info, key.port);
            let capability = Capability::VPortGuidInfo;
            self.hardware.capabilities.has(&node.info, capability)
                && !self
                    .hardware
                    .habits
                    .has(kind, DeviceHabit::RefusesVPortGuids)
        })
    }
}

/// Asks for the unknown blocks of a virtual port's GUID table. Block 0 comes first, because it
/// shows whether the adapter answers about this virtual port.
pub(super) fn check_vport_guids(
    reading: &mut Reading,
    inventory: &mut Inventory,
    key: PortKey,
    index: u16,
) {
    if inventory.vport_reading.stale_guids.remove(&(key, index))
        && let Some(vport) = vport_mut(inventory, key, index)
    {
        vport.guids = None;
    }
    let Some(vport) = vport_of(inventory, key, index) else {
        return;
    };
    let blocks = vport.guid_blocks();
    // The virtual port of the physical function has the GUID table of the physical port.
    let is_port = inventory
        .hardware
        .port(key)
        .is_some_and(|port| port.guid == vport.guid());
    if blocks == 0 || is_port || !inventory.reads_vport_guids(key) {
        return;
    }
    let wanted = match vport.guid_block(0) {
        None => 0..1,
        Some(_) => 1..blocks,
    };
    for block in wanted.filter(|&block| vport.guid_block(block).is_none()) {
        reading.again(Query::VPorts(key, VPortQuery::Guids(index, block)));
    }
}

/// Asks again for the known blocks of the GUID tables of a port's virtual ports.
pub(super) fn audit_vport_guids(reading: &mut Reading, inventory: &Inventory, key: PortKey) {
    let vports = inventory.vports(key);
    let vports = vports.filter(|_| inventory.reads_vport_guids(key));
    for (&index, vport) in vports.iter().flat_map(|vports| &vports.vports) {
        for &block in vport.guids.iter().flat_map(|guids| guids.keys()) {
            reading.ask(Query::VPorts(key, VPortQuery::Guids(index, block)));
        }
    }
}

/// Records a block of a virtual port's GUID table.
pub(super) fn on_vport_guids(
    reading: &mut Reading,
    inventory: &mut Inventory,
    key: PortKey,
    (index, block): (u16, u8),
    info: &VPortGuidInfo,
) {
    if let Some(node) = inventory.hardware.node(key.node) {
        let kind = DeviceKind::of(&node.info, key.port);
        inventory.vport_reading.guid_answers.answered(kind);
    }
    let Some(vport) = vport_of(inventory, key, index) else {
        return;
    };
    let guids = info.guids();
    let is_own = block > 0 || guids[0] == vport.guid();
    if !is_own || vport.guid_block(block) == Some(&guids) {
        return;
    }
    if let Some(vport) = vport_mut(inventory, key, index) {
        reading.changed = true;
        let table = Arc::make_mut(vport.guids.get_or_insert_default());
        table.insert(block, guids);
    }
    if block == 0 {
        check_vport_guids(reading, inventory, key, index);
    }
}

/// Handles the refusal (`status`) or silence of an agent that was asked for a block.
pub(super) fn on_no_vport_guids(
    reading: &mut Reading,
    inventory: &mut Inventory,
    key: PortKey,
    (index, block): (u16, u8),
    status: Option<Status>,
) {
    let Some(node) = inventory.hardware.node(key.node) else {
        return;
    };
    let kind = DeviceKind::of(&node.info, key.port);
    let is_habit = match status {
        // Any other status may concern a virtual port that is gone.
        Some(status) => status == Status::UNSUPPORTED_METHOD_ATTRIBUTE,
        None => inventory.vport_reading.guid_answers.unanswered(kind),
    };
    if is_habit {
        // The habit has a finding, so it counts as a change.
        let habit = DeviceHabit::RefusesVPortGuids;
        reading.changed |= inventory.hardware.habits.learn(kind, habit);
    } else if status.is_none() {
        let query = VPortQuery::Guids(index, block);
        inventory.faults.owe(Query::VPorts(key, query), None);
    }
}
