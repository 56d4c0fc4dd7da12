//! Reads adaptive routing. ARInfo shows whether a former manager left adaptive routing on, so that
//! the switch does not forward by its linear forwarding table. If this manager routes adaptively,
//! the sweep also reads the groups and entries of switches that have adaptive routing on.

use std::collections::BTreeSet;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::{ArGroupTable, ArInfo, ArLinearForwardingTable, Capability, NodeInfo};
use rsm_model::InventorySwitch;
use rsm_model::adaptive_image::{entry_block, masks};
use rsm_model::capabilities::DeviceType;
use rsm_model::habits::{DeviceHabit, DeviceKind};

use super::Query;
use super::adaptive_trials::TrialFault;
use super::inventory::Inventory;
use super::reading::Reading;

/// Number of blocks of groups, and of entries, that are read back from a switch before switches of
/// its type forward by them.
const READ_BACK: usize = 16;

/// VendorID of the switches with ARInfo.
const NVIDIA: u32 = 0x02_C9;

/// DeviceIDs of the switches with ARInfo: SwitchX, Switch-IB, Switch-IB 2, Quantum, Quantum-2,
/// Quantum-3. Other devices lack the attribute, and older agents may leave an unknown attribute
/// unanswered.
const DEVICES: [u16; 9] = [
    0xC738, 0xC739, 0xC73A, 0xC73B, 0xCB20, 0xCF08, 0xD2F0, 0xD2F2, 0xD2F4,
];

/// Whether the switch that answered `info` has ARInfo.
fn has_ar_info(info: &NodeInfo) -> bool {
    info.vendor_id() == NVIDIA && DEVICES.contains(&info.device_id())
}

/// Asks a switch for ARInfo, if its type has the attribute and the switch may hold tables of
/// another manager.
pub(super) fn ask_ar_info(reading: &mut Reading, inventory: &Inventory, guid: Guid) {
    let Some(node) = inventory.hardware.node(guid) else {
        return;
    };
    let switch = node.switch.as_ref();
    let top = switch.map_or(Lid::NONE, |switch| switch.info.linear_fdb_top());
    if top != Lid::NONE && has_ar_info(&node.info) {
        reading.ask(Query::AdaptiveRouting(guid));
    }
}

/// Asks a switch that can route adaptively for the tables that must be read back; also for ARInfo,
/// if the recorded ARInfo is unverified or `again` is true.
pub(super) fn check_adaptive(
    reading: &mut Reading,
    inventory: &Inventory,
    guid: Guid,
    again: bool,
) {
    let node = inventory.hardware.node(guid);
    let Some((node, switch)) = node.and_then(|node| Some((node, node.switch.as_ref()?))) else {
        return;
    };
    if !reading.policy.routes_adaptively || !can_route_adaptively(inventory, &node.info) {
        return;
    }
    if switch.adaptive.info_unverified || again {
        reading.ask(Query::AdaptiveRouting(guid));
    }
    let open: Vec<Query> = inventory.adaptive_trials.questions(guid).collect();
    for query in open {
        reading.ask(query);
    }
}

/// Handles an answer with ARInfo.
pub(super) fn on_ar_info(
    reading: &mut Reading,
    inventory: &mut Inventory,
    guid: Guid,
    info: ArInfo,
) {
    let node = inventory.hardware.node(guid);
    let Some(switch) = node.and_then(|node| node.switch.as_ref()) else {
        return;
    };
    let before = switch.ar_info();
    let was_on = before.is_some_and(|before| before.uses_groups());
    let was_lost = was_on && !info.uses_groups() && !switch.adaptive.info_unverified;
    reading.changed |= before != Some(info);
    inventory.hardware.put_ar_info(guid, Some(info));
    let routes_adaptively = reading.policy.routes_adaptively;
    if routes_adaptively && before.is_none() {
        inventory.adaptive_trials.record_capable_switch();
    }
    let Some(switch) = inventory.hardware.switch_mut(guid) else {
        return;
    };
    if was_lost {
        // The tables of the switch may be lost as well.
        switch.adaptive.forget();
    }
    switch.adaptive.info_unverified = false;
    if !info.uses_groups() {
        switch.adaptive.put_in_force(None);
    }
    if routes_adaptively && info.uses_groups() {
        for query in unread(guid, switch, info.group_top()) {
            reading.ask(query);
        }
    }
}

/// Handles a missing answer about ARInfo. A refusal is no fault, because firmware may lack adaptive
/// routing. After a silence, ARInfo stays unverified, so that a later sweep asks again.
pub(super) fn on_no_ar_info(
    reading: &mut Reading,
    inventory: &mut Inventory,
    guid: Guid,
    is_silent: bool,
) {
    let keeps = is_silent && reading.policy.routes_adaptively;
    let node = inventory.hardware.node(guid);
    let switch = node.and_then(|node| node.switch.as_ref());
    if let Some(switch) = switch.filter(|_| !keeps) {
        reading.changed |= switch.ar_info().is_some();
        inventory.hardware.put_ar_info(guid, None);
    }
    if let Some(switch) = inventory.hardware.switch_mut(guid) {
        switch.adaptive.info_unverified = is_silent;
    }
}

/// Handles a block of groups: a block that this manager reads back, or a block from a switch on
/// which another manager or an earlier run left adaptive routing on.
pub(super) fn on_ar_groups(
    reading: &mut Reading,
    inventory: &mut Inventory,
    guid: Guid,
    block: u16,
    table: &ArGroupTable,
) {
    if inventory.adaptive_trials.is_open(guid) {
        let node = inventory.hardware.node(guid);
        let switch = node.and_then(|node| node.switch.as_ref());
        let is_held =
            switch.is_some_and(|switch| switch.adaptive.holds_groups(block, &masks(table)));
        if let Some(switch) = inventory.hardware.switch_mut(guid) {
            switch.adaptive.store_groups(block, Some(table));
        }
        return on_read_back(
            reading,
            inventory,
            guid,
            Query::ArGroups(guid, block),
            is_held,
        );
    }
    if let Some(switch) = inventory.hardware.switch_mut(guid) {
        switch.adaptive.store_groups(block, Some(table));
        reading.changed = true;
    }
}

/// Handles a block of entries, like [`on_ar_groups`] for groups.
pub(super) fn on_ar_entries(
    reading: &mut Reading,
    inventory: &mut Inventory,
    guid: Guid,
    block: u16,
    table: &ArLinearForwardingTable,
) {
    if inventory.adaptive_trials.is_open(guid) {
        let node = inventory.hardware.node(guid);
        let switch = node.and_then(|node| node.switch.as_ref());
        let is_held = switch.is_some_and(|switch| switch.adaptive.holds_entries(block, table));
        if let Some(switch) = inventory.hardware.switch_mut(guid) {
            switch.adaptive.store_entries(block, Some(table));
        }
        return on_read_back(
            reading,
            inventory,
            guid,
            Query::ArEntries(guid, block),
            is_held,
        );
    }
    if let Some(switch) = inventory.hardware.switch_mut(guid) {
        switch.adaptive.store_read_entries(block, table);
        reading.changed = true;
    }
}

/// Handles a refused or unanswered query for a table. While tables are read back, a refusal counts
/// against the device type; otherwise the block stays unknown.
pub(super) fn on_no_adaptive_table(
    reading: &mut Reading,
    inventory: &mut Inventory,
    guid: Guid,
    is_silent: bool,
) {
    if inventory.adaptive_trials.is_open(guid) {
        // The core counts silence, once for all queries together.
        reading.changed = true;
        if !is_silent {
            inventory.adaptive_trials.end(guid);
            fail(inventory, guid, TrialFault::Refused);
        }
    }
}

/// Handles an answer while tables are read back that were written with adaptive routing off.
/// `is_held` says whether the answer equals the written content.
fn on_read_back(
    reading: &mut Reading,
    inventory: &mut Inventory,
    guid: Guid,
    query: Query,
    is_held: bool,
) {
    heard(inventory, guid);
    if !is_held {
        reading.changed = true;
        // The next push writes the block again: another manager may have overwritten it, or the
        // switch was reset.
        inventory.adaptive_trials.end(guid);
        fail(inventory, guid, TrialFault::Refused);
    } else if inventory.adaptive_trials.confirm(guid, query) {
        reading.changed = true;
        pass(inventory, guid);
    }
}

/// Whether a switch with this NodeInfo supports adaptive routing of revision 1.
pub fn can_route_adaptively(inventory: &Inventory, info: &NodeInfo) -> bool {
    inventory
        .hardware
        .capabilities
        .has(info, Capability::AdaptiveRouting)
}

/// Queries for the unknown blocks of groups and entries of a switch.
fn unread(guid: Guid, switch: &InventorySwitch, group_top: u16) -> Vec<Query> {
    let image = &switch.adaptive;
    let groups = (0..=group_top / 2).filter(|&block| !image.knows_groups(block));
    let last = entry_block(switch.info.linear_fdb_top());
    let entries = (0..=last).filter(|&block| !image.knows_entries(block));
    let groups = groups.map(|block| Query::ArGroups(guid, block));
    groups
        .chain(entries.map(|block| Query::ArEntries(guid, block)))
        .collect()
}

/// Queries that read back the planned tables of a switch: a sample of the known blocks, spread
/// evenly.
pub fn read_back_queries(guid: Guid, switch: &InventorySwitch, group_top: u16) -> BTreeSet<Query> {
    let spread = |last: u16| {
        let count = usize::from(last) + 1;
        let step = count.div_ceil(READ_BACK).max(1);
        (0..count).step_by(step).chain([count - 1])
    };
    let image = &switch.adaptive;
    // Block numbers have 16 bits.
    let groups = spread(group_top / 2).map(|block| block as u16);
    let entries = spread(entry_block(switch.info.linear_fdb_top())).map(|block| block as u16);
    let groups = groups.filter(|&block| image.knows_groups(block));
    let entries = entries.filter(|&block| image.knows_entries(block));
    let groups = groups.map(|block| Query::ArGroups(guid, block));
    groups
        .chain(entries.map(|block| Query::ArEntries(guid, block)))
        .collect()
}

/// Records that a switch has shown its tables as written, so that switches of its type may forward
/// by groups.
pub fn pass(inventory: &mut Inventory, guid: Guid) {
    let Some(device) = inventory.hardware.device_type(guid) else {
        return;
    };
    if inventory.adaptive_trials.has_passed(device) {
        inventory.adaptive_trials.pass(device);
        return;
    }
    inventory.adaptive_trials.pass(device);
    // Mark all switches of the type as changed, so that the next comparison includes them.
    let alike = inventory
        .hardware
        .switches()
        .filter(|(_, node, _)| DeviceType::of(&node.info) == device);
    let alike: Vec<Guid> = alike.map(|(guid, ..)| guid).collect();
    for guid in alike {
        inventory.hardware.switch_mut(guid);
    }
}

/// Records that a switch accepted or showed a table, so that its type counts as answering requests
/// about tables.
pub fn heard(inventory: &mut Inventory, guid: Guid) {
    if let Some(node) = inventory.hardware.node(guid) {
        let device = DeviceType::of(&node.info);
        inventory.adaptive_trials.heard(device);
    }
}

/// Records that an attempt to write or read back the tables of a switch failed.
pub fn fail(inventory: &mut Inventory, guid: Guid, fault: TrialFault) {
    let Some(device) = inventory.hardware.device_type(guid) else {
        return;
    };
    if inventory.adaptive_trials.fail(device, fault) {
        inventory.adaptive_trials.end(guid);
        give_up(inventory, guid);
    }
}

/// Records that this kind of switch does not support the tables of adaptive routing.
fn give_up(inventory: &mut Inventory, guid: Guid) {
    if let Some(node) = inventory.hardware.node(guid) {
        let kind = DeviceKind::of(&node.info, PortNum::ZERO);
        let device = DeviceType::of(&node.info);
        inventory.adaptive_trials.give_up(device);
        let habit = DeviceHabit::RefusesAdaptiveRouting;
        inventory.hardware.habits.learn(kind, habit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_switches_of_the_vendor_have_ar_info() {
        let mut quantum = NodeInfo::default();
        quantum.set_vendor_id(NVIDIA).set_device_id(0xD2F0);
        assert!(has_ar_info(&quantum));
        let (mut older, mut other) = (quantum, quantum);
        older.set_device_id(0xBD36);
        other.set_vendor_id(0x00_11_75);
        assert!(!has_ar_info(&older) && !has_ar_info(&other));
    }
}
