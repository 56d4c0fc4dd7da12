//! Rehearses a push: lists its Sets in the order of sending, and sends none.
//!
//! The push runs against a copy of the inventory, and gets the answers that devices would give. A
//! dry run ends here: the core enters no stage that sends Sets.

use std::sync::Arc;

use rsm_mad::wire::attr::{
    Attribute, LinkDownDefault, LinkSpeeds, LinkWidths, MulticastForwardingTable, PKey, PKeyTable,
    PortInfo, PortPhysicalState, PortState, SwitchInfo, VPortInfo, VirtualizationInfo,
};
use rsm_plan::Plan;

use super::{Order, Phase, Push, Task};
use crate::diff::{Changes, NotKept};
use crate::sweep::AgentAnswer;
use crate::sweep::inventory::Inventory;

/// One Set that a push would send.
#[derive(Clone, Copy, Debug)]
pub struct Foreseen {
    /// The Set.
    pub order: Order,
    /// Phase of the push in which the Set would be sent.
    pub phase: Phase,
    /// Content of the device before the Set, after all Sets listed earlier; `None` if it is not
    /// known.
    pub before: Option<[u8; 64]>,
    /// Content of the device after the Set; fields that the Set marks "no change" keep their
    /// values.
    pub after: [u8; 64],
}

/// Lists the Sets that lead from `inventory` to `plan`, in the order of a push in which every Set
/// succeeds at once.
pub fn rehearse(plan: Arc<Plan>, changes: Changes, inventory: &Inventory) -> Vec<Foreseen> {
    let mut inventory = inventory.clone();
    let mut not_kept = NotKept::default();
    let mut push = Push::start(plan, changes, &inventory);
    let mut sets = Vec::new();
    while let Some(order) = push.poll_order(&mut inventory) {
        let phase = push.phases.current();
        let before = held(&inventory, order.task);
        let after = carried_out(order.task, before.as_ref(), order.data);
        push.handle(
            &mut inventory,
            &mut not_kept,
            order.task,
            AgentAnswer::Data(&after),
        );
        sets.push(Foreseen {
            order,
            phase,
            before,
            after,
        });
    }
    sets
}

/// The device's content that the Set of `task` overwrites; `None` if the content was not read.
fn held(inventory: &Inventory, task: Task) -> Option<[u8; 64]> {
    let switch = |guid| inventory.hardware.node(guid)?.switch.as_ref();
    match task {
        Task::Switch(guid) | Task::MulticastTop(guid) => Some(*switch(guid)?.info.as_data()),
        Task::Block {
            switch: guid,
            block,
            ..
        } => {
            let table = &switch(guid)?.lft;
            let block = usize::from(block);
            let is_known = table.is_known(block);
            is_known.then(|| *table.entries().block(block))
        }
        Task::Multicast {
            switch: guid, at, ..
        } => {
            let image = &switch(guid)?.mft;
            let mut table = MulticastForwardingTable::default();
            table.set_masks(image.block(at));
            image.is_known(at).then(|| *table.as_data())
        }
        Task::Port(key, _) | Task::Link(key, _) => {
            Some(*inventory.hardware.port(key)?.info.as_ref()?.as_data())
        }
        Task::PKeys(key, block) => {
            let image = inventory.hardware.port(key)?.p_keys.as_deref()?;
            let first = usize::from(block) * PKeyTable::ENTRIES;
            let mut keys = [PKey::INVALID; PKeyTable::ENTRIES];
            for (key, &held) in keys.iter_mut().zip(image.keys().iter().skip(first)) {
                *key = held;
            }
            let mut table = PKeyTable::default();
            table.set_p_keys(keys);
            image.is_known(block).then(|| *table.as_data())
        }
        Task::Virtualization(key) => {
            let vports = inventory.hardware.port(key)?.vports.as_deref()?;
            Some(*vports.info.as_data())
        }
        Task::VPort(key, index) => {
            let vport = inventory
                .hardware
                .port(key)?
                .vports
                .as_deref()?
                .get(index)?;
            Some(*vport.info.as_data())
        }
        _ => None,
    }
}

/// The device's content after the Set of `task` with `data`, which is also the answer.
fn carried_out(task: Task, before: Option<&[u8; 64]>, data: [u8; 64]) -> [u8; 64] {
    match (task, before) {
        (Task::Switch(_) | Task::MulticastTop(_), _) => {
            let mut info = *SwitchInfo::from_data(&data);
            // Writing 1 clears the bit (IBA 14.2.5.4).
            info.set_port_state_change(false);
            *info.as_data()
        }
        (Task::Port(..) | Task::Link(..), Some(before)) => {
            let (mut info, before) = (*PortInfo::from_data(&data), PortInfo::from_data(before));
            info.set_client_reregister(false);
            if info.port_state() == PortState::NoChange {
                info.set_port_state(before.port_state());
            }
            if info.port_physical_state() == PortPhysicalState::NoChange {
                info.set_port_physical_state(before.port_physical_state());
            }
            if info.link_down_default_state() == LinkDownDefault::NoChange {
                info.set_link_down_default_state(before.link_down_default_state());
            }
            if info.link_width_enabled() == LinkWidths(0) {
                info.set_link_width_enabled(before.link_width_enabled());
            }
            if info.link_speed_enabled() == LinkSpeeds(0) {
                info.set_link_speed_enabled(before.link_speed_enabled());
            }
            *info.as_data()
        }
        (Task::Virtualization(_), _) => {
            let mut info = *VirtualizationInfo::from_data(&data);
            info.set_vport_state_change(false);
            *info.as_data()
        }
        (Task::VPort(..), Some(before)) => {
            let mut info = *VPortInfo::from_data(&data);
            info.set_client_reregister(false);
            if info.state() == PortState::NoChange {
                info.set_state(VPortInfo::from_data(before).state());
            }
            *info.as_data()
        }
        _ => data,
    }
}
