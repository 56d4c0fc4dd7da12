//! Handles refusals of Sets that the specification allows: sends other Sets instead.

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_model::habits::{DeviceHabit, DeviceKind, HabitSign};

use super::{Push, Task};
use crate::sweep::inventory::Inventory;

/// Whether a port's kind of device is known to refuse this.
pub(super) fn refuses(inventory: &Inventory, key: PortKey, habit: DeviceHabit) -> bool {
    kind_of(inventory, key).is_some_and(|kind| inventory.habits.has(kind, habit))
}

fn kind_of(inventory: &Inventory, key: PortKey) -> Option<DeviceKind> {
    let node = inventory.node(key.node)?;
    Some(DeviceKind::of(&node.info, key.port))
}

impl Push {
    /// Handles the refusal of a Set with settings and Armed. Returns whether the settings are now
    /// sent in a Set of their own, before the state.
    pub(super) fn separates_settings(&mut self, inventory: &Inventory, key: PortKey) -> bool {
        let info = inventory.port(key).and_then(|record| record.info.as_ref());
        let port = self.ports.get_mut(&key);
        let settings_first = info
            .zip(port)
            .is_some_and(|(info, port)| port.separate_settings(info));
        if settings_first {
            self.consider(inventory, key);
        }
        settings_first
    }

    /// Handles a port that refused settings and Armed in one Set, and accepted them in two. Other
    /// ports of its kind of device get two Sets as well once a second port shows the same: a single
    /// port proves nothing, because a link that was down for a moment has the same effect.
    pub(super) fn armed_after_settings(
        &mut self,
        inventory: &mut Inventory,
        kind: DeviceKind,
        port: PortKey,
    ) {
        let sign = HabitSign {
            port,
            push: self.plan.generation,
        };
        let habit = DeviceHabit::RefusesStateWithSettings;
        if !inventory.habits.learn_by_signs(kind, habit, sign) {
            return;
        }
        for (&key, port) in &mut self.ports {
            if kind_of(inventory, key) == Some(kind) {
                port.send_settings_first();
            }
        }
    }

    /// Handles the refusal of a block. Returns whether the block is above LinearFDBTop, so that it
    /// is sent again after LinearFDBTop was raised.
    pub(super) fn raises_top_first(
        &mut self,
        inventory: &mut Inventory,
        guid: Guid,
        task: Task,
    ) -> bool {
        let record = inventory.node(guid).and_then(|node| node.switch.as_ref());
        let top = record.map(|switch| switch.info.linear_fdb_top());
        let is_before_last = !self.phases.is_last();
        let switch = self.switches.get_mut(&guid);
        let raised = top
            .zip(switch)
            .and_then(|(top, switch)| switch.raise_top_first(task, top));
        let Some(raised) = raised else {
            return false;
        };
        if raised && is_before_last {
            // The next phase now also waits for SwitchInfo.
            self.phases.unmet += 1;
        }
        if let Some(kind) = kind_of(inventory, PortKey::new(guid, PortNum::ZERO)) {
            inventory
                .habits
                .learn(kind, DeviceHabit::RefusesBlocksAboveTop);
        }
        if !self.stopped {
            self.give_turn(inventory, guid);
        }
        true
    }
}
