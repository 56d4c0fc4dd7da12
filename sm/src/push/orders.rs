//! What goes on the wire next, with its content and its way.

use rsm_ids::Guid;
use rsm_mad::wire::attr::{
    Attribute, GuidInfo, LinearForwardingTable, MulticastForwardingTable, PKeyTable, PortInfo,
    SlToVlMapping, SwitchInfo,
};

use super::{Cause, Failure, Order, Push, Task};
use crate::sweep::inventory::{Inventory, NodeRecord};
use crate::sweep::{p_keys as image, reach};

impl Push {
    pub(super) fn next_table(&mut self, inventory: &Inventory) -> Option<Order> {
        let on_the_way = self.unmet > 0;
        for _ in 0..self.turn.len() {
            let guid = self.turn.pop_front()?;
            let Some(switch) = self.switches.get_mut(&guid) else {
                continue;
            };
            let task = switch.next(guid, on_the_way);
            switch.in_turn = switch.has_next(on_the_way);
            if switch.in_turn {
                self.turn.push_back(guid);
            }
            let Some(task) = task else { continue };
            match self.write_table(inventory, task) {
                Some(order) => return Some(order),
                None => self.failures.push(Failure {
                    task,
                    cause: Cause::Silence,
                }),
            }
        }
        None
    }

    pub(super) fn write_table(&self, inventory: &Inventory, task: Task) -> Option<Order> {
        let (guid, attribute, modifier, data) = match task {
            Task::Switch(guid) => (
                guid,
                SwitchInfo::ID,
                0,
                *self.switches.get(&guid)?.info()?.as_data(),
            ),
            Task::Block {
                switch,
                block,
                first,
            } => {
                let entries = self.wanted(switch, block, first)?;
                (switch, LinearForwardingTable::ID, u32::from(block), entries)
            }
            Task::Lanes {
                switch,
                input,
                output,
            } => {
                let data = self.wanted_lanes((switch, input, output))?;
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
                let mut info = inventory.node(guid)?.switch.as_ref()?.info;
                info.set_multicast_fdb_top(self.multicast.top(guid)?)
                    .set_port_state_change(false);
                (guid, SwitchInfo::ID, 0, *info.as_data())
            }
            Task::Port(..) | Task::PKeys(..) | Task::Guids(..) => return None,
        };
        let node = inventory.node(guid)?;
        Some(Order {
            task,
            attribute,
            modifier,
            data,
            target: guid,
            lid: reach::lid_of(inventory, guid),
            path: node.path,
            alternate: node.alternate,
        })
    }

    /// What a block is to hold, on the way or in the end.
    pub(super) fn wanted(&self, switch: Guid, block: u16, first: bool) -> Option<[u8; 64]> {
        let table = if first {
            self.plan.table_on_the_way(switch)?
        } else {
            self.plan.table(switch)?
        };
        Some(*table.block(usize::from(block)))
    }

    pub(super) fn next_port(&mut self, inventory: &Inventory) -> Option<Order> {
        while let Some(task) = self.ready.pop_front() {
            match self.write_port(inventory, task) {
                Some(order) => return Some(order),
                None => self.failures.push(Failure {
                    task,
                    cause: Cause::Silence,
                }),
            }
        }
        None
    }

    fn write_port(&self, inventory: &Inventory, task: Task) -> Option<Order> {
        let (key, attribute, modifier, data) = match task {
            Task::Port(key, step) => {
                let current = inventory.port(key)?.info.as_ref()?;
                let data = *self.ports.get(&key)?.content(current, step).as_data();
                let modifier = PortInfo::modifier(key.port, true);
                (key, PortInfo::ID, modifier, data)
            }
            Task::PKeys(key, block) => {
                let table = self.ports.get(&key)?.p_keys.block(block)?.table();
                let is_switch = inventory.node(key.node).is_some_and(NodeRecord::is_switch);
                let modifier = image::modifier(is_switch, key.port, block);
                (key, PKeyTable::ID, modifier, *table.as_data())
            }
            Task::Guids(key, block) => {
                let mut info = GuidInfo::default();
                info.set_guids(self.wanted_guids(key, block)?.guids);
                let modifier = GuidInfo::modifier(block);
                (key, GuidInfo::ID, modifier, *info.as_data())
            }
            Task::Switch(_)
            | Task::Block { .. }
            | Task::Lanes { .. }
            | Task::Multicast { .. }
            | Task::MulticastTop(_) => return None,
        };
        let (path, alternate) = inventory.way_to(key)?;
        Some(Order {
            task,
            attribute,
            modifier,
            data,
            target: key.node,
            lid: None,
            path,
            alternate,
        })
    }
}
