//! Adaptive routing in the core: which switches a plan may use for it, and the trial of each type
//! of switch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rsm_hardware::push::{Cause, FailedSet, Task};
use rsm_hardware::sweep::adaptive::{can_route_adaptively, fail, pass, read_back_queries};
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

/// Pause before the core repeats unanswered queries to a switch on trial.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The switches that can route adaptively, as input of a plan. `ids` are the numbers of the groups
/// of leaves that earlier plans have assigned.
pub(super) fn hardware(inventory: &Inventory, ids: &GroupIds) -> Arc<AdaptiveHardware> {
    let capable = inventory
        .hardware
        .switches()
        .filter(|(_, node, _)| can_route_adaptively(inventory, &node.info));
    let switches = capable.filter_map(|(guid, node, switch)| {
        let kind = DeviceKind::of(&node.info, rsm_ids::PortNum::ZERO);
        let candidate = AdaptiveSwitch {
            device: DeviceType::of(&node.info),
            info: switch.ar_info()?,
            refuses: inventory
                .hardware
                .habits
                .has(kind, DeviceHabit::RefusesAdaptiveRouting),
            in_force: switch.adaptive.in_force().cloned(),
        };
        Some((guid, candidate))
    });
    Arc::new(AdaptiveHardware {
        switches: switches.collect(),
        capabilities: inventory.hardware.capabilities.clone(),
        ids: ids.clone(),
    })
}

/// Counts failed Sets of adaptive routing against the types of their switches. A type gets at most
/// one failure per push, the worst.
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
            let (_, worst) = faults
                .entry(DeviceType::of(&node.info))
                .or_insert((guid, fault));
            *worst = fault.max(*worst);
        }
    }
    for (guid, fault) in faults.into_values() {
        fail(inventory, guid, fault);
    }
}

/// Begins to read back the tables of each switch on trial, once the switch holds the tables of
/// `plan`. Asks a switch again after a pause if queries of an earlier call are unanswered.
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
            work.sweep_switch_at(guid, now + ASK_AGAIN);
            continue;
        }
        let node = inventory.hardware.node(guid);
        let Some(switch) = node.and_then(|node| node.switch.as_ref()) else {
            continue;
        };
        if holds_tables(plan, adaptive, guid, switch) {
            let questions = read_back_queries(guid, switch, adaptive.group_top);
            inventory.adaptive_trials.begin(guid, questions);
            work.sweep_switch(guid, "tables of adaptive routing are read back");
        }
    }
}

/// Records the groups of `plan` as in force on switches that hold them from an earlier run.
fn adopt_in_force(plan: &Plan, adaptive: &Adaptive, inventory: &mut Inventory) {
    let without_record = inventory.hardware.adaptive().filter(|&guid| {
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
    let without_record: Vec<Guid> = without_record.collect();
    for guid in without_record {
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
