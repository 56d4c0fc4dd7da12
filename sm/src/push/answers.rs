//! What answers say: it is written into the inventory, and failures are noted.

use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::{
    Attribute, GuidInfo, LinearForwardingTable, MulticastForwardingTable, PKeyTable, PortInfo,
    PortState, SlToVlMapping, SwitchInfo,
};

use super::tables::SwitchPush;
use super::{Cause, Failure, Push, Step, Task};
use crate::diff::{NotKept, PortRole};
use crate::sweep::inventory::{Inventory, PortKey};

impl Push {
    pub(super) fn acknowledged(
        &mut self,
        inventory: &mut Inventory,
        not_kept: &mut NotKept,
        task: Task,
        data: &[u8; 64],
    ) {
        match task {
            Task::Switch(guid) => {
                let unread = self.made_unread(inventory, guid);
                self.unread.extend(unread);
                if let Some(record) = inventory
                    .node_mut(guid)
                    .and_then(|node| node.switch.as_mut())
                {
                    record.info = *SwitchInfo::from_data(data);
                    record.unheard = false;
                }
                self.table_settled(inventory, task, guid, false);
            }
            Task::Block {
                switch,
                block,
                first,
            } => {
                self.progress.blocks += 1;
                if let Some(record) = inventory
                    .node_mut(switch)
                    .and_then(|node| node.switch.as_mut())
                {
                    record
                        .lft
                        .store(usize::from(block), LinearForwardingTable::from_data(data));
                }
                if self.wanted(switch, block, first).as_ref() == Some(data) {
                    self.table_settled(inventory, task, switch, false);
                } else {
                    self.failed(inventory, task, Cause::NotHeld);
                }
            }
            Task::Lanes {
                switch,
                input,
                output,
            } => {
                let (place, mapping) = ((switch, input, output), SlToVlMapping::from_data(data));
                self.lanes_answered(inventory, task, place, mapping);
            }
            Task::Multicast { .. } => {
                let masks = MulticastForwardingTable::from_data(data).masks();
                self.masks_answered(inventory, task, &masks);
            }
            Task::MulticastTop(guid) => {
                self.top_answered(inventory, guid, SwitchInfo::from_data(data));
            }
            Task::Port(key, step) => {
                self.port_answered(inventory, not_kept, key, step, PortInfo::from_data(data))
            }
            Task::PKeys(key, block) => {
                self.p_keys_answered(inventory, key, block, PKeyTable::from_data(data));
            }
            Task::Guids(key, block) => {
                self.guids_answered(inventory, key, block, GuidInfo::from_data(data));
            }
        }
    }

    /// The ports that have to be read again because SwitchInfo of `guid` was set.
    fn made_unread(&self, inventory: &Inventory, guid: Guid) -> Vec<PortKey> {
        let (Some(node), Some(set)) = (
            inventory.node(guid),
            self.switches.get(&guid).and_then(SwitchPush::info),
        ) else {
            return Vec::new();
        };
        let zero = PortKey::new(guid, PortNum::ZERO);
        // Had the switch been reset since it was read, this Set covered that up; the lost LID of port 0 tells.
        let mut unread = vec![zero];
        let unheard = node.switch.as_ref().is_some_and(|switch| switch.unheard);
        if set.port_state_change() && unheard {
            let external = node.external_ports();
            unread.extend(external.map(|(number, _)| PortKey::new(guid, number)));
        }
        unread
    }

    fn port_answered(
        &mut self,
        inventory: &mut Inventory,
        not_kept: &mut NotKept,
        key: PortKey,
        step: Step,
        info: &PortInfo,
    ) {
        let Some(kind) = inventory
            .node(key.node)
            .map(|node| crate::diff::DeviceKind::of(&node.info, key.port))
        else {
            return;
        };
        let Some(record) = inventory.port_mut(key) else {
            return;
        };
        self.unread.remove(&key);
        self.lid_settled(key);
        let before = record.answered(info);
        let fell_back = before
            .as_ref()
            .is_some_and(|before| before.port_state() != PortState::Init);
        if kind.role == PortRole::End && fell_back && info.port_state() == PortState::Init {
            // It was reset in between, or its link trained again.
            record.forget_tables();
        }
        if let (Some(port), Some(before)) = (self.ports.get_mut(&key), before) {
            let unkept = port.take_answer(&before, info, step);
            self.reregistered.extend(port.reregistered());
            self.learned |= not_kept.learn(kind, unkept);
            if port.is_active(info) && step == Step::Activate {
                self.progress.activated += 1;
            }
            if !port.reached(info, step) {
                self.failures.push(Failure {
                    task: Task::Port(key, step),
                    cause: Cause::NotHeld,
                });
                self.consider_others_after(inventory, key);
                return;
            }
        }
        self.consider_others_after(inventory, key);
        self.consider(inventory, key);
        self.release_guids(key);
        if let Some(peer) = self.ports.get(&key).and_then(|port| port.peer()) {
            self.consider(inventory, peer);
        }
    }

    pub(super) fn failed(&mut self, inventory: &mut Inventory, task: Task, cause: Cause) {
        self.failures.push(Failure { task, cause });
        match task {
            Task::Switch(guid) => self.table_settled(inventory, task, guid, true),
            Task::Block { switch, block, .. } => {
                if cause == Cause::Silence
                    && let Some(record) = inventory
                        .node_mut(switch)
                        .and_then(|node| node.switch.as_mut())
                {
                    record.lft.mark_dirty(usize::from(block));
                }
                self.table_settled(inventory, task, switch, true);
            }
            Task::Lanes {
                switch,
                input,
                output,
            } => self.lanes_failed(inventory, task, (switch, input, output), cause),
            Task::Multicast { .. } => self.masks_failed(inventory, task, cause),
            Task::MulticastTop(_) => self.multicast_settled(task, true),
            Task::Port(key, _) => {
                if let Some(port) = self.ports.get_mut(&key) {
                    port.give_up();
                }
                self.lid_settled(key);
                self.consider_others_after(inventory, key);
            }
            Task::PKeys(key, block) => self.p_keys_failed(inventory, key, block, cause),
            Task::Guids(key, block) => Self::guids_failed(inventory, key, block),
        }
    }

    /// A port that is Armed refuses to be armed: if an attempt whose answer was lost armed it, nothing failed. The port has
    /// to be read to know.
    pub(super) fn doubt(&mut self, key: PortKey) {
        self.doubted = true;
        if let Some(port) = self.ports.get_mut(&key) {
            port.give_up();
        }
        self.lid_settled(key);
        self.unread.insert(key);
    }
}
