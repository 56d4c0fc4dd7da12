//! Sets of the managed attributes of ports.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::PortKey;
use rsm_mad::wire::attr::{Attribute, ExtendedPortInfo};
use rsm_model::managed::{BlockKey, Content, Origin};
use rsm_plan::managed::Source;

use super::{Cause, Push, Task};
use crate::diff::{BlockChange, differing_blocks};
use crate::sweep::inventory::Inventory;

/// Number of QoS blocks of each port among `changes`.
pub(super) fn qos_blocks(
    changes: &BTreeMap<PortKey, Vec<BlockChange>>,
) -> BTreeMap<PortKey, usize> {
    let count =
        |blocks: &Vec<BlockChange>| blocks.iter().filter(|block| block.key.is_qos()).count();
    let counts = changes.iter().map(|(&port, blocks)| (port, count(blocks)));
    counts.filter(|&(_, count)| count > 0).collect()
}

/// The virtual ports whose rate limits are among `changes`; they become Active after these Sets.
pub(super) fn vport_limits(
    changes: &BTreeMap<PortKey, Vec<BlockChange>>,
) -> BTreeSet<(PortKey, u16)> {
    let blocks = changes.values().flatten().map(|change| change.key);
    blocks
        .filter_map(|key| Some((key.port, key.vport()?)))
        .collect()
}

impl Push {
    /// Queues the managed blocks of a port that may be sent now.
    pub(super) fn release_managed(&mut self, inventory: &Inventory, port: PortKey) {
        if self.stopped {
            return;
        }
        let changes = self.managed.get(&port).into_iter().flatten();
        let due: Vec<Task> = changes
            .map(|change| Task::Managed(change.key))
            .filter(|&task| self.may(inventory, task))
            .collect();
        for task in due {
            if self.managed_queued.insert(task) {
                self.ready.push_back(task);
            }
        }
    }

    /// The planned content of a block.
    pub(super) fn wanted_managed(&self, key: BlockKey) -> Option<Content> {
        let changes = self.managed.get(&key.port)?;
        let change = changes.iter().find(|change| change.key == key)?;
        Some(change.content)
    }

    pub(super) fn managed_answered(
        &mut self,
        inventory: &mut Inventory,
        key: BlockKey,
        data: &Content,
    ) {
        let wanted = self.wanted_managed(key);
        let Some(port) = inventory.port_mut(key.port) else {
            return;
        };
        port.managed.store(key.place, data);
        if key.attribute() == ExtendedPortInfo::ID {
            port.extended = Some(Box::new(*ExtendedPortInfo::from_data(data)));
        }
        let is_held = wanted.is_some_and(|wanted| port.managed.holds(key.place, &wanted));
        inventory.note_managed(key.port);
        if is_held {
            inventory.vport_limits_taken(key);
            self.qos_settled(inventory, key);
            self.vport_limits_settled(inventory, key);
        } else {
            self.failed(inventory, Task::Managed(key), Cause::NotHeld);
        }
    }

    pub(super) fn managed_failed(
        &mut self,
        inventory: &mut Inventory,
        key: BlockKey,
        cause: Cause,
    ) {
        if let Some(port) = inventory.port_mut(key.port) {
            port.managed.mark_dirty(key.place);
        }
        inventory.note_managed(key.port);
        let is_habit = match cause {
            Cause::Refused(status) => {
                key.is_habit_by(status) || inventory.vport_limits_refused(key)
            }
            Cause::NotHeld => true,
            _ => false,
        };
        if is_habit && inventory.learn_refused_block(key) {
            // A habit is not a failure.
            self.failures
                .retain(|failure| failure.task != Task::Managed(key));
            if key.is_qos() {
                self.take_other_form(inventory, key.port);
            }
        }
        self.qos_settled(inventory, key);
        self.vport_limits_settled(inventory, key);
    }

    /// Handles settled rate limits of a virtual port, which may now become Active.
    fn vport_limits_settled(&mut self, inventory: &Inventory, key: BlockKey) {
        if let Some(index) = key.vport()
            && self.vport_limits.remove(&(key.port, index))
        {
            self.release_vports(inventory, key.port);
        }
    }

    /// Adds the blocks of a port that replace a block refused by its kind of device.
    fn take_other_form(&mut self, inventory: &Inventory, port: PortKey) {
        let source = Source::of_plan(inventory, &inventory.alias_guids, &self.plan);
        let blocks = differing_blocks(&source, port, Origin::Qos);
        let changes = self.managed.entry(port).or_default();
        let is_new = |block: &BlockChange| !changes.iter().any(|change| change.key == block.key);
        let new: Vec<BlockChange> = blocks.into_iter().filter(is_new).collect();
        *self.qos_unsettled.entry(port).or_default() += new.len();
        changes.extend(new);
        self.release_managed(inventory, port);
    }

    /// Handles a settled QoS block: the link may now become Active.
    fn qos_settled(&mut self, inventory: &Inventory, key: BlockKey) {
        let port = key.port;
        let Some(left) = self.qos_unsettled.get_mut(&port).filter(|_| key.is_qos()) else {
            return;
        };
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.qos_unsettled.remove(&port);
            self.consider(inventory, port);
            if let Some(peer) = self.ports.get(&port).and_then(|port| port.peer()) {
                self.consider(inventory, peer);
            }
        }
    }
}
