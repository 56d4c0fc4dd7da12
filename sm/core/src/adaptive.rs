//! Adaptive routing in the loop: the hardware that plans see, the trial of each type of switch, and
//! the Sets that wait for forwarding tables.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rsm_hardware::push::{Cause, FailedSet, Task};
use rsm_hardware::sweep::adaptive::{can_route_adaptively, fail, pass, to_read_back};
use rsm_hardware::sweep::adaptive_trials::TrialFault;
use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_model::InventorySwitch;
use rsm_model::adaptive_image::{entries_of_block, entry_block, groups_of_block};
use rsm_model::capabilities::DeviceType;
use rsm_model::habits::{DeviceHabit, DeviceKind};
use rsm_plan::Plan;
use rsm_plan::adaptive::{Adaptive, AdaptiveHardware, AdaptiveSwitch};

use super::Core;

/// The pause before questions to a switch on trial are repeated.
const ASK_AGAIN: Duration = Duration::from_secs(1);

impl Core {
    /// The switches that can route adaptively, as input of a plan; `None` while that is off.
    pub(super) fn adaptive_hardware(&self) -> Option<Arc<AdaptiveHardware>> {
        if !self.config.policy.adaptive.is_on() {
            return None;
        }
        let inventory = &self.inventory;
        let capable = inventory
            .switches()
            .filter(|(_, node, _)| can_route_adaptively(inventory, &node.info));
        let switches = capable.filter_map(|(guid, node, switch)| {
            let kind = DeviceKind::of(&node.info, rsm_ids::PortNum::ZERO);
            let known = AdaptiveSwitch {
                device: DeviceType::of(&node.info),
                info: switch.ar_info()?,
                refuses: inventory
                    .habits
                    .has(kind, DeviceHabit::RefusesAdaptiveRouting),
                in_force: switch.adaptive.in_force().cloned(),
            };
            Some((guid, known))
        });
        Some(Arc::new(AdaptiveHardware {
            switches: switches.collect(),
            capabilities: inventory.capabilities.clone(),
            ids: self.plans.assigned.group_ids.clone(),
        }))
    }

    /// Counts failed Sets of adaptive routing against the types of the switches, once for each type
    /// and push.
    pub(super) fn count_adaptive_failures(&mut self, failures: &[FailedSet]) {
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
            if let Some(node) = self.inventory.node(guid) {
                let known = faults
                    .entry(DeviceType::of(&node.info))
                    .or_insert((guid, fault));
                known.1 = known.1.max(fault);
            }
        }
        for (guid, fault) in faults.into_values() {
            fail(&mut self.inventory, guid, fault);
        }
        self.plan_by_adaptive_news();
    }

    /// Plans again if switches turned out to be able to route adaptively, or not to.
    pub(super) fn plan_by_adaptive_news(&mut self) {
        if self.inventory.adaptive_trials.take_news() && self.plans.in_force().is_some() {
            self.work
                .plan_again("other switches can route adaptively than before");
        }
    }

    /// After a push, or where there was nothing to write: Sets of adaptive routing that waited
    /// follow, and tables of switches on trial are read back.
    pub(super) fn go_on_with_adaptive(&mut self, complete: bool, now: Time) {
        if !complete {
            return;
        }
        if std::mem::take(&mut self.adaptive_put_off) {
            self.work.route_adaptively();
        }
        let Some(plan) = self.plans.in_force().cloned() else {
            return;
        };
        let Some(adaptive) = plan.adaptive.as_deref() else {
            return;
        };
        self.adopt_in_force(&plan, adaptive);
        for (&device, &guid) in &adaptive.tests {
            if self.inventory.adaptive_trials.has_passed(device) {
                continue;
            }
            if self.inventory.adaptive_trials.is_open(guid) {
                fail(&mut self.inventory, guid, TrialFault::Silent);
                self.work.look_at_later(guid, now + ASK_AGAIN);
                continue;
            }
            let node = self.inventory.node(guid);
            let Some(switch) = node.and_then(|node| node.switch.as_ref()) else {
                continue;
            };
            if holds_tables(&plan, adaptive, guid, switch) {
                let questions = to_read_back(guid, switch, adaptive.group_top);
                self.inventory.adaptive_trials.begin(guid, questions);
                self.work
                    .look_at(guid, "tables of adaptive routing are read back");
            }
        }
        self.plan_by_adaptive_news();
    }

    /// Notes the groups in force of switches that hold them from an earlier run.
    fn adopt_in_force(&mut self, plan: &Plan, adaptive: &Adaptive) {
        let unknown = self.inventory.adaptive().filter(|&guid| {
            let node = self.inventory.node(guid);
            let switch = node.and_then(|node| node.switch.as_ref());
            switch.is_some_and(|switch| {
                let image = &switch.adaptive;
                image.is_own()
                    && image.in_force().is_none()
                    && !image.info_in_doubt
                    && holds_tables(plan, adaptive, guid, switch)
            })
        });
        let unknown: Vec<Guid> = unknown.collect();
        for guid in unknown {
            let table = adaptive.table(plan, guid).cloned().map(Arc::new);
            if let Some(switch) = self.inventory.switch_mut(guid) {
                switch.adaptive.put_in_force(table);
            }
            pass(&mut self.inventory, guid);
        }
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
