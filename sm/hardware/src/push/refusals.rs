//! Handles refusals of Sets that devices should accept according to the specification: sends other
//! Sets instead.

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_model::habits::{DeviceHabit, DeviceKind, HabitSign};

use super::{Push, Task};
use crate::sweep::inventory::Inventory;

/// Whether a port's kind of device is known to have `habit`, the refusal of some Sets.
pub(super) fn refuses(inventory: &Inventory, key: PortKey, habit: DeviceHabit) -> bool {
    kind_of(inventory, key).is_some_and(|kind| inventory.hardware.habits.has(kind, habit))
}

fn kind_of(inventory: &Inventory, key: PortKey) -> Option<DeviceKind> {
    let node = inventory.hardware.node(key.node)?;
    Some(DeviceKind::of(&node.info, key.port))
}

impl Push {
    /// Handles the refusal of a Set with settings and Armed. Returns whether the settings are now
    /// sent in a Set of their own, before the state.
    pub(super) fn separates_settings(&mut self, inventory: &Inventory, key: PortKey) -> bool {
        let info = inventory
            .hardware
            .port(key)
            .and_then(|record| record.info.as_ref());
        let port = self.ports.get_mut(&key);
        let settings_first = info
            .zip(port)
            .is_some_and(|(info, port)| port.separate_settings(info));
        if settings_first {
            self.consider(inventory, key);
        }
        settings_first
    }

    /// Handles a port that refused settings and Armed in one Set, and accepted them in two. Once a
    /// second port of the kind of device does so, all ports of the kind get two Sets. A single port
    /// proves nothing: a link that was down for a moment has the same effect.
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
        if !inventory.hardware.habits.learn_by_signs(kind, habit, sign) {
            return;
        }
        for (&key, port) in &mut self.ports {
            if kind_of(inventory, key) == Some(kind) {
                port.send_settings_first();
            }
        }
    }

    /// Handles the refusal of a block. Returns whether the block is above LinearFDBTop and is sent
    /// again after a Set of SwitchInfo raises LinearFDBTop.
    pub(super) fn raises_top_first(
        &mut self,
        inventory: &mut Inventory,
        guid: Guid,
        task: Task,
    ) -> bool {
        let record = inventory
            .hardware
            .node(guid)
            .and_then(|node| node.switch.as_ref());
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
            // The end of this phase now also waits for SwitchInfo.
            self.phases.unmet += 1;
        }
        if let Some(kind) = kind_of(inventory, PortKey::new(guid, PortNum::ZERO)) {
            inventory
                .hardware
                .habits
                .learn(kind, DeviceHabit::RefusesBlocksAboveTop);
        }
        if !self.stopped {
            self.give_turn(inventory, guid);
        }
        true
    }
}
