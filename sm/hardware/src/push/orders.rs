//! Builds the next Set, with its content and its path.

use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::wire::attr::{
    ArInfo, Attribute, LinearForwardingTable, MulticastForwardingTable, PKeyTable, PortInfo,
    PortPhysicalState, PortState, SlToVlMapping, SwitchInfo,
};
use rsm_model::p_keys as image;
use rsm_model::port_info::{FieldMask, PortSettings};

use super::{Cause, FailedSet, Order, Push, Task};
use crate::link_step::LinkStep;
use crate::sweep::inventory::Inventory;

impl Push {
    /// The next Set of a switch's tables, from each switch in turn; `None` if none may be sent now.
    pub(super) fn next_table(&mut self, inventory: &Inventory) -> Option<Order> {
        for _ in 0..self.turn.len() {
            let guid = self.turn.pop_front()?;
            let switch = self.switches.get(&guid);
            let task = switch.and_then(|switch| self.due_table(inventory, guid, switch));
            if let Some(switch) = self.switches.get_mut(&guid) {
                switch.in_turn = false;
                task.inspect(|&task| switch.sent(task));
            }
            self.give_turn(inventory, guid);
            let Some(task) = task else { continue };
            match self.write_table(inventory, task) {
                Some(order) => return Some(order),
                None => self.report.failures.push(FailedSet {
                    task,
                    cause: Cause::Silence,
                }),
            }
        }
        None
    }

    /// Builds the Set of a switch's table; `None` if `task` concerns no such table, or its switch
    /// is not known or not written.
    pub(super) fn write_table(&mut self, inventory: &Inventory, task: Task) -> Option<Order> {
        let (guid, attribute, modifier, data) = match task {
            Task::Switch(guid) => (
                guid,
                SwitchInfo::ID,
                0,
                *self.switches.get(&guid)?.info()?.as_data(),
            ),
            Task::AdaptiveRouting(guid) => {
                let info = self.switches.get(&guid)?.ar_info()?;
                (guid, ArInfo::ID, ArInfo::MODIFIER, *info.as_data())
            }
            Task::Block {
                switch,
                block,
                interim,
            } => {
                let entries = self.wanted(switch, block, interim)?;
                (switch, LinearForwardingTable::ID, u32::from(block), entries)
            }
            Task::SlToVl {
                switch,
                input,
                output,
            } => {
                let data = self.wanted_sl2vl((switch, input, output))?;
                let modifier = SlToVlMapping::modifier(input, output);
                (switch, SlToVlMapping::ID, modifier, data)
            }
            Task::Multicast { switch, at, first } => {
                let masks = self.wanted_masks(inventory, switch, at, first)?;
                let mut table = MulticastForwardingTable::default();
                table.set_masks(masks);
                let data = *table.as_data();
                (switch, MulticastForwardingTable::ID, at.modifier(), data)
            }
            Task::MulticastTop(guid) => {
                let mut info = inventory.hardware.node(guid)?.switch.as_ref()?.info;
                info.set_multicast_fdb_top(self.multicast.top(guid)?)
                    .set_port_state_change(false);
                (guid, SwitchInfo::ID, 0, *info.as_data())
            }
            Task::Adaptive(..)
            | Task::Port(..)
            | Task::Link(..)
            | Task::PKeys(..)
            | Task::Managed(_)
            | Task::Virtualization(_)
            | Task::VPort(..)
            | Task::VPortPKeys(..) => return None,
        };
        let node = inventory.hardware.node(guid)?;
        Some(Order {
            task,
            attribute,
            modifier,
            data,
            target: guid,
            m_keys: inventory.m_keys_to(PortKey::new(guid, PortNum::ZERO)),
            lid: self.lid_of(inventory, guid),
            path: node.path,
            alternate: node.alternate,
        })
    }

    /// A LID by which a Set reaches a switch and the answer returns, regardless of the other Sets
    /// under way; `None` if there is none, so that the Set must take a directed route.
    ///
    /// If interim tables discard packets, the route in both directions must consist of entries that
    /// stay: otherwise the Set itself could remove an entry that its answer needs.
    fn lid_of(&mut self, inventory: &Inventory, guid: Guid) -> Option<Lid> {
        if self.moves_own_lid {
            return None;
        }
        let plan = &self.plan;
        self.known_routes
            .lid_of(inventory, guid, |switch, lid, entry| {
                let planned = || plan.last_table(switch);
                !plan.transition.discards || planned().is_none_or(|lft| lft.entry(lid) == entry)
            })
    }

    /// The content of a block of an interim table, or of the planned one if `interim` is `None`.
    pub(super) fn wanted(
        &self,
        switch: Guid,
        block: u16,
        interim: Option<usize>,
    ) -> Option<[u8; 64]> {
        let table = match interim {
            Some(stage) => self.plan.interim_table(stage, switch)?,
            None => self.plan.last_table(switch)?,
        };
        Some(*table.block(usize::from(block)))
    }

    /// The next Set of a port, link or virtual port; `None` if none is ready.
    pub(super) fn next_port(&mut self, inventory: &Inventory) -> Option<Order> {
        while let Some(task) = self.ready.pop_front() {
            match self.write_port(inventory, task) {
                Some(order) => return Some(order),
                None => self.report.failures.push(FailedSet {
                    task,
                    cause: Cause::Silence,
                }),
            }
        }
        None
    }

    /// Builds the Set of a port, link or virtual port; `None` if `task` concerns a switch's table,
    /// or its port is not known or not written.
    pub(super) fn write_port(&self, inventory: &Inventory, task: Task) -> Option<Order> {
        let (key, attribute, modifier, data) = match task {
            Task::Port(key, step) => {
                let current = inventory.hardware.port(key)?.info.as_ref()?;
                let data = *self.ports.get(&key)?.content(current, step).as_data();
                (key, PortInfo::ID, modifier_of(inventory, key), data)
            }
            Task::Link(key, step) => {
                let mut info = PortSettings::default().apply(
                    inventory.hardware.port(key)?.info.as_ref()?,
                    FieldMask::default(),
                );
                match step {
                    LinkStep::Bounce => info.set_port_state(PortState::Down),
                    LinkStep::Disable => info.set_port_physical_state(PortPhysicalState::Disabled),
                    LinkStep::Enable => info.set_port_physical_state(PortPhysicalState::Polling),
                };
                (
                    key,
                    PortInfo::ID,
                    modifier_of(inventory, key),
                    *info.as_data(),
                )
            }
            Task::PKeys(key, block) => {
                let table = self.ports.get(&key)?.p_keys.block(block)?.table();
                let is_switch = inventory.hardware.is_switch(key.node);
                let modifier = image::modifier(is_switch, key.port, block);
                (key, PKeyTable::ID, modifier, *table.as_data())
            }
            Task::Managed(block) => {
                let content = self.wanted_managed(block)?;
                (block.port, block.attribute(), block.modifier(), content)
            }
            Task::Virtualization(_) | Task::VPort(..) | Task::VPortPKeys(..) => {
                self.write_vport(task)?
            }
            Task::Switch(_)
            | Task::AdaptiveRouting(_)
            | Task::Adaptive(..)
            | Task::Block { .. }
            | Task::SlToVl { .. }
            | Task::Multicast { .. }
            | Task::MulticastTop(_) => return None,
        };
        let (path, alternate) = inventory.hardware.paths_to(key)?;
        Some(Order {
            task,
            attribute,
            modifier,
            data,
            target: key.node,
            m_keys: inventory.m_keys_to(key),
            lid: None,
            path,
            alternate,
        })
    }
}

/// The attribute modifier of a Set of a port's PortInfo.
fn modifier_of(inventory: &Inventory, key: PortKey) -> u32 {
    PortInfo::modifier(key.port, inventory.hardware.asks_extended_speeds(key))
}
