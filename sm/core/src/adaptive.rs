//! Adaptive routing in the core: the capable switches as input of a plan, and the trial of each
//! type of switch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rsm_hardware::push::{Cause, FailedSet, Task};
use rsm_hardware::sweep::adaptive::{can_route_adaptively, fail, pass, to_read_back};
use rsm_hardware::sweep::adaptive_trials::TrialFault;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_model::InventorySwitch;
use rsm_model::adaptive_image::{entries_of_block, entry_block, groups_of_block};
use rsm_model::capabilities::DeviceType;
use rsm_model::habits::{DeviceHabit, DeviceKind};
use rsm_plan::Plan;
use rsm_plan::adaptive::{Adaptive, AdaptiveHardware, AdaptiveSwitch};
use rsm_routing::adaptive::GroupIds;

use super::work::Work;

/// Pause before queries to a switch on trial are repeated.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The switches that can route adaptively, as input of a plan. `ids` has the numbers assigned to
/// groups of leaves so far.
pub(super) fn hardware(inventory: &Inventory, ids: &GroupIds) -> Arc<AdaptiveHardware> {
    let capable = inventory
        .hardware
        .switches()
        .filter(|(_, node, _)| can_route_adaptively(inventory, &node.info));
    let switches = capable.filter_map(|(guid, node, switch)| {
        let kind = DeviceKind::of(&node.info, rsm_ids::PortNum::ZERO);
        let known = AdaptiveSwitch {
            device: DeviceType::of(&node.info),
            info: switch.ar_info()?,
            refuses: inventory
                .hardware
                .habits
                .has(kind, DeviceHabit::RefusesAdaptiveRouting),
            in_force: switch.adaptive.in_force().cloned(),
        };
        Some((guid, known))
    });
    Arc::new(AdaptiveHardware {
        switches: switches.collect(),
        capabilities: inventory.hardware.capabilities.clone(),
        ids: ids.clone(),
    })
}

/// Counts failed Sets of adaptive routing against the types of their switches: at most one failure
/// per type and push.
pub(super) fn count_failures(inventory: &mut Inventory, failures: &[FailedSet]) {
    let mut faults: BTreeMap<DeviceType, (Guid, TrialFault)> = BTreeMap::new();
    for failure in failures {
        let Task::Adaptive(guid, _) = failure.task else {
            continue;
        };
        let fault = match failure.cause {
            Cause::NotSent => continue,
            Cause::Silence => TrialFault::Silent,
            _ => TrialFault::Refused,
        };
        if let Some(node) = inventory.hardware.node(guid) {
            let known = faults
                .entry(DeviceType::of(&node.info))
                .or_insert((guid, fault));
            known.1 = known.1.max(fault);
        }
    }
    for (guid, fault) in faults.into_values() {
        fail(inventory, guid, fault);
    }
}

/// Begins to read back the tables of the switches on trial, once they hold the tables of `plan`. A
/// switch that has left the queries of an earlier call unanswered is asked again after a pause.
pub(super) fn read_back(
    plan: &Plan,
    adaptive: &Adaptive,
    inventory: &mut Inventory,
    work: &mut Work,
    now: Time,
) {
    adopt_in_force(plan, adaptive, inventory);
    for (&device, &guid) in &adaptive.tests {
        if inventory.adaptive_trials.has_passed(device) {
            continue;
        }
        if inventory.adaptive_trials.is_open(guid) {
            fail(inventory, guid, TrialFault::Silent);
            work.look_at_later(guid, now + ASK_AGAIN);
            continue;
        }
        let node = inventory.hardware.node(guid);
        let Some(switch) = node.and_then(|node| node.switch.as_ref()) else {
            continue;
        };
        if holds_tables(plan, adaptive, guid, switch) {
            let questions = to_read_back(guid, switch, adaptive.group_top);
            inventory.adaptive_trials.begin(guid, questions);
            work.look_at(guid, "tables of adaptive routing are read back");
        }
    }
}

/// Records the groups of `plan` as in force on switches that hold them from an earlier run.
fn adopt_in_force(plan: &Plan, adaptive: &Adaptive, inventory: &mut Inventory) {
    let unknown = inventory.hardware.adaptive().filter(|&guid| {
        let node = inventory.hardware.node(guid);
        let switch = node.and_then(|node| node.switch.as_ref());
        switch.is_some_and(|switch| {
            let image = &switch.adaptive;
            image.is_own()
                && image.in_force().is_none()
                && !image.info_unverified
                && holds_tables(plan, adaptive, guid, switch)
        })
    });
    let unknown: Vec<Guid> = unknown.collect();
    for guid in unknown {
        let table = adaptive.table(plan, guid).cloned().map(Arc::new);
        if let Some(switch) = inventory.hardware.switch_mut(guid) {
            switch.adaptive.put_in_force(table);
        }
        pass(inventory, guid);
    }
}

/// Whether a switch holds all of its planned groups and entries.
fn holds_tables(plan: &Plan, adaptive: &Adaptive, guid: Guid, switch: &InventorySwitch) -> bool {
    let (Some(table), Some(lft)) = (adaptive.table(plan, guid), plan.table(guid)) else {
        return false;
    };
    let image = &switch.adaptive;
    let mut groups = 0..adaptive.group_blocks();
    let mut entries = 0..=entry_block(plan.top());
    groups.all(|block| image.holds_groups(block, &groups_of_block(table, block)))
        && entries.all(|block| image.holds_entries(block, &entries_of_block(table, lft, block)))
}
