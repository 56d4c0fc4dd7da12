//! Handles answers to Sets: records them in the inventory, and reports failures.

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::{
    ArInfo, Attribute, LinearForwardingTable, MulticastForwardingTable, PKeyTable, PortInfo,
    PortState, SlToVlMapping, SwitchInfo,
};
use rsm_model::habits::{DeviceKind, PortRole};

use super::ports::PortPush;
use super::tables::SwitchPush;
use super::{Cause, FailedSet, PortStep, Push, Task};
use crate::diff::NotKept;
use crate::sweep::inventory::Inventory;

impl Push {
    /// Handles the answer to the Set of `task`: `data` is the content that the device now holds.
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
                self.report.unread.extend(unread);
                inventory
                    .hardware
                    .put_switch_info(guid, SwitchInfo::from_data(data));
                self.table_settled(inventory, task, guid, false);
            }
            Task::AdaptiveRouting(guid) => {
                self.ar_info_answered(inventory, guid, Some(ArInfo::from_data(data)));
            }
            Task::Adaptive(guid, step) => {
                self.adaptive_answered(inventory, guid, step, data);
            }
            Task::Block {
                switch,
                block,
                interim,
            } => {
                self.report.progress.blocks += 1;
                let before = inventory.hardware.mark();
                if let Some(record) = inventory.hardware.switch_mut(switch) {
                    let number = usize::from(block);
                    let entries = LinearForwardingTable::from_data(data);
                    record.lft.store(number, entries);
                    if let Some(table) = self.plan.last_table(switch) {
                        record.lft.share_around(number, table);
                    }
                }
                self.known_routes.block_written(inventory, before, block);
                if self.wanted(switch, block, interim).as_ref() == Some(data) {
                    self.table_settled(inventory, task, switch, false);
                } else {
                    self.failed(inventory, task, Cause::NotHeld);
                }
            }
            Task::SlToVl {
                switch,
                input,
                output,
            } => {
                let (place, mapping) = ((switch, input, output), SlToVlMapping::from_data(data));
                self.sl2vl_answered(inventory, task, place, mapping);
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
            Task::Link(key, _) => {
                if let Some(record) = inventory.hardware.port_mut(key) {
                    record.answered(key.port, PortInfo::from_data(data));
                }
                inventory.link_orders.remove(&key);
                self.report.unread.insert(key);
            }
            Task::PKeys(key, block) => {
                self.p_keys_answered(inventory, key, block, PKeyTable::from_data(data));
            }
            Task::Managed(key) => self.managed_answered(inventory, key, data),
            Task::Virtualization(_) | Task::VPort(..) | Task::VPortPKeys(..) => {
                self.vport_answered(inventory, task, data);
            }
        }
    }

    /// Handles the answer to a Set of ARInfo; `None` if the Set was refused. The push continues in
    /// either case. If the switch keeps adaptive routing on, a finding reports it, and the Set is
    /// not repeated.
    pub(super) fn ar_info_answered(
        &mut self,
        inventory: &mut Inventory,
        guid: Guid,
        info: Option<&ArInfo>,
    ) {
        if info.is_some() {
            inventory.hardware.put_ar_info(guid, info.copied());
        }
        if let Some(switch) = inventory.hardware.switch_mut(guid) {
            let held = switch.ar_info();
            switch.keeps_adaptive_routing = held.is_some_and(|info| info.uses_groups());
        }
        self.table_settled(inventory, Task::AdaptiveRouting(guid), guid, false);
    }

    /// The ports that must be read again after a Set of SwitchInfo to the switch `guid`.
    fn made_unread(&self, inventory: &Inventory, guid: Guid) -> Vec<PortKey> {
        let (Some(node), Some(set)) = (
            inventory.hardware.node(guid),
            self.switches.get(&guid).and_then(SwitchPush::info),
        ) else {
            return Vec::new();
        };
        let zero = PortKey::new(guid, PortNum::ZERO);
        // The Set hides a reset of the switch since its last reading; a lost LID of port 0 still
        // shows it.
        let mut unread = vec![zero];
        // The Set may also have cleared PortStateChange, and with it reports of changes since the
        // ports were read. Some switches send no trap while that bit is set.
        if set.port_state_change() {
            let external = node.external_ports();
            unread.extend(external.map(|(number, _)| PortKey::new(guid, number)));
        }
        unread
    }

    /// Handles the answer to a Set of PortInfo.
    fn port_answered(
        &mut self,
        inventory: &mut Inventory,
        not_kept: &mut NotKept,
        key: PortKey,
        step: PortStep,
        info: &PortInfo,
    ) {
        let Some(kind) = inventory
            .hardware
            .node(key.node)
            .map(|node| DeviceKind::of(&node.info, key.port))
        else {
            return;
        };
        let planned = self.ports.get(&key).and_then(PortPush::m_key);
        let info = &match planned {
            Some(planned) => inventory.see_set_m_key(key, info, planned),
            None => *info,
        };
        let Some(record) = inventory.hardware.port_mut(key) else {
            return;
        };
        self.report.unread.remove(&key);
        let before = record.answered(key.port, info);
        let fell_back = before
            .as_ref()
            .is_some_and(|before| before.port_state() != PortState::Init);
        if kind.role == PortRole::End && fell_back && info.port_state() == PortState::Init {
            // The port was reset since its last answer, or its link trained again.
            record.forget_tables();
        }
        self.lid_settled(inventory, key);
        if let (Some(port), Some(before)) = (self.ports.get_mut(&key), before) {
            let asked = port.content(&before, step);
            let unkept = port.take_answer(&before, info);
            if port.is_reregistered() {
                self.report.reregistered.insert(key);
            }
            let reached = port.reached(info, step);
            let armed_after_settings =
                step == PortStep::Arm && reached && port.sends_settings_first();
            if port.is_active(info) && step == PortStep::Activate {
                self.report.progress.activated += 1;
            }
            if !reached {
                return self.state_open(inventory, key, step, asked, Cause::NotHeld);
            }
            if armed_after_settings {
                self.armed_after_settings(inventory, kind, key);
            }
            let read = inventory.unverified.raise(key, unkept, asked, Some(info));
            self.fields_open(not_kept, key, kind, unkept, read);
        }
        self.link_settled(inventory, key);
        self.consider_others_after(inventory, key);
        self.consider(inventory, key);
        self.release_managed(inventory, key);
        self.release_vports(inventory, key);
        if let Some(peer) = self.ports.get(&key).and_then(|port| port.peer()) {
            self.consider(inventory, peer);
        }
    }

    /// Handles a Set that had no effect, for `cause`: reports the failure, marks the content as
    /// unknown if necessary, and continues with the Sets that waited for it.
    pub(super) fn failed(&mut self, inventory: &mut Inventory, task: Task, cause: Cause) {
        let failure = FailedSet { task, cause };
        if cause == Cause::Silence && !task.is_of_vports() {
            let port = match task {
                Task::Link(key, _) => PortKey::new(key.node, PortNum::ZERO),
                _ => task.port(),
            };
            inventory.set_ignored(port);
        }
        self.report.failures.push(failure);
        if cause == Cause::Silence {
            self.mark_uncertain(inventory, task);
        }
        match task {
            Task::Switch(guid) | Task::AdaptiveRouting(guid) => {
                self.table_settled(inventory, task, guid, true);
            }
            Task::Adaptive(guid, step) => self.adaptive_failed(inventory, guid, step, cause),
            Task::Block { switch, .. } | Task::SlToVl { switch, .. } => {
                self.table_settled(inventory, task, switch, true);
            }
            Task::Multicast { .. } | Task::MulticastTop(_) => {
                self.multicast_settled(inventory, task, true);
            }
            Task::Port(key, _) => {
                if let Some(port) = self.ports.get_mut(&key) {
                    port.give_up();
                }
                self.lid_settled(inventory, key);
                self.consider_others_after(inventory, key);
                self.release_managed(inventory, key);
                self.release_vports(inventory, key);
            }
            Task::Link(key, _) => {
                inventory.link_orders.remove(&key);
                self.report.unread.insert(key);
            }
            Task::PKeys(key, block) => self.p_keys_failed(inventory, key, block, cause),
            Task::Managed(key) => self.managed_failed(inventory, key, cause),
            Task::Virtualization(_) | Task::VPort(..) | Task::VPortPKeys(..) => {
                self.vport_failed(inventory, task, cause);
            }
        }
    }

    /// Records that a switch holds the old content of a table or the content of this Set, which may
    /// or may not have been executed.
    pub(super) fn mark_uncertain(&mut self, inventory: &mut Inventory, task: Task) {
        let hardware = &mut inventory.hardware;
        match task {
            Task::Block {
                switch,
                block,
                interim,
            } => {
                if let Some(sent) = self.wanted(switch, block, interim)
                    && let Some(record) = hardware.switch_mut(switch)
                {
                    record.lft.mark_sent(usize::from(block), &sent);
                }
            }
            Task::SlToVl {
                switch,
                input,
                output,
            } => {
                if let Some(record) = hardware.switch_mut(switch) {
                    record.sl2vl.mark_dirty((input, output));
                }
                hardware.forget_operator_row(switch, input, output);
            }
            Task::Multicast { switch, at, .. } => {
                if let Some(record) = hardware.switch_mut(switch) {
                    record.mft.mark_dirty(at);
                }
            }
            _ => {}
        }
    }

    /// Stops waiting for the answer to the Set of `task`. The device may have executed the Set.
    pub fn abandon(&mut self, inventory: &mut Inventory, task: Task) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.report.has_unverified = true;
        let before = self.report.failures.len();
        self.failed(inventory, task, Cause::Silence);
        // The push stopped waiting: this is not a failure of the device.
        self.report.failures.truncate(before);
        if let Task::Port(key, _) = task {
            self.report.unread.insert(key);
        }
    }

    /// Marks a port that must be read to know whether it executed a Set. No failure is reported,
    /// and the port gets no further Sets from this push.
    pub(super) fn await_reading(&mut self, inventory: &Inventory, key: PortKey) {
        self.report.has_unverified = true;
        if let Some(port) = self.ports.get_mut(&key) {
            port.give_up();
        }
        self.lid_settled(inventory, key);
        self.report.unread.insert(key);
    }
}
