//! Sets of the managed attributes of ports.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::PortKey;
use rsm_mad::wire::attr::{Attribute, ExtendedPortInfo};
use rsm_model::managed::{BlockKey, Content, Origin};
use rsm_plan::managed::Source;

use super::{Cause, Push, Task};
use crate::diff::{BlockChange, differing_blocks};
use crate::sweep::inventory::Inventory;

/// Blocks of managed attributes that a push writes.
#[derive(Debug)]
pub(super) struct ManagedPush {
    /// Blocks to write, by port.
    blocks: BTreeMap<PortKey, Vec<BlockChange>>,
    /// Number of unsettled QoS blocks, by port; ports without any are not in the map.
    qos_unsettled: BTreeMap<PortKey, usize>,
    /// Virtual ports whose rate limits are not settled, each as (physical port, index).
    vport_limits: BTreeSet<(PortKey, u16)>,
    /// Tasks that were queued.
    queued: BTreeSet<Task>,
}

impl ManagedPush {
    pub(super) fn new(blocks: BTreeMap<PortKey, Vec<BlockChange>>) -> ManagedPush {
        let count =
            |blocks: &Vec<BlockChange>| blocks.iter().filter(|block| block.key.is_qos()).count();
        let counts = blocks.iter().map(|(&port, blocks)| (port, count(blocks)));
        let keys = blocks.values().flatten().map(|change| change.key);
        ManagedPush {
            qos_unsettled: counts.filter(|&(_, count)| count > 0).collect(),
            vport_limits: keys
                .filter_map(|key| Some((key.port, key.vport()?)))
                .collect(),
            queued: BTreeSet::new(),
            blocks,
        }
    }

    /// The ports with blocks to write.
    pub(super) fn ports(&self) -> impl Iterator<Item = PortKey> + '_ {
        self.blocks.keys().copied()
    }

    /// Whether all QoS blocks of a port are settled.
    pub(super) fn qos_is_settled(&self, port: PortKey) -> bool {
        !self.qos_unsettled.contains_key(&port)
    }

    /// Whether the rate limits of a virtual port are settled.
    pub(super) fn limits_are_settled(&self, port: PortKey, index: u16) -> bool {
        !self.vport_limits.contains(&(port, index))
    }

    /// The planned content of a block; `None` if the push does not write it.
    fn wanted(&self, key: BlockKey) -> Option<Content> {
        let changes = self.blocks.get(&key.port)?;
        let change = changes.iter().find(|change| change.key == key)?;
        Some(change.content)
    }

    /// Adds QoS blocks of a port that the push does not write yet.
    fn add_qos(&mut self, port: PortKey, blocks: Vec<BlockChange>) {
        let changes = self.blocks.entry(port).or_default();
        let is_new = |block: &BlockChange| !changes.iter().any(|change| change.key == block.key);
        let new: Vec<BlockChange> = blocks.into_iter().filter(is_new).collect();
        *self.qos_unsettled.entry(port).or_default() += new.len();
        changes.extend(new);
    }

    /// Settles a QoS block of a port. Returns whether it was the last one.
    fn settle_qos(&mut self, port: PortKey) -> bool {
        let Some(left) = self.qos_unsettled.get_mut(&port) else {
            return false;
        };
        *left = left.saturating_sub(1);
        let is_last = *left == 0;
        if is_last {
            self.qos_unsettled.remove(&port);
        }
        is_last
    }
}

impl Push {
    /// Queues the managed blocks of a port that may be sent now.
    pub(super) fn release_managed(&mut self, inventory: &Inventory, port: PortKey) {
        if self.stopped {
            return;
        }
        let changes = self.managed.blocks.get(&port).into_iter().flatten();
        let due: Vec<Task> = changes
            .map(|change| Task::Managed(change.key))
            .filter(|&task| self.may(inventory, task))
            .collect();
        for task in due {
            if self.managed.queued.insert(task) {
                self.ready.push_back(task);
            }
        }
    }

    /// Queues the managed blocks of all ports that may be sent now.
    pub(super) fn release_all_managed(&mut self, inventory: &Inventory) {
        let ports: Vec<PortKey> = self.managed.ports().collect();
        for port in ports {
            self.release_managed(inventory, port);
        }
    }

    /// The planned content of a block; `None` if the push does not write it.
    pub(super) fn wanted_managed(&self, key: BlockKey) -> Option<Content> {
        self.managed.wanted(key)
    }

    /// Handles the answer to a Set of a block, which shows the content that the port now holds.
    pub(super) fn managed_answered(
        &mut self,
        inventory: &mut Inventory,
        key: BlockKey,
        data: &Content,
    ) {
        let wanted = self.wanted_managed(key);
        let Some(port) = inventory.hardware.port_mut(key.port) else {
            return;
        };
        port.managed.store(key.place, data);
        if key.attribute() == ExtendedPortInfo::ID {
            port.extended = Some(Box::new(*ExtendedPortInfo::from_data(data)));
        }
        let is_held = wanted.is_some_and(|wanted| port.managed.holds(key.place, &wanted));
        inventory.hardware.record_managed_write(key.port);
        inventory.hardware.forget_engine_rows(key);
        if is_held {
            inventory.vport_limits_taken(key);
            self.qos_settled(inventory, key);
            self.vport_limits_settled(inventory, key);
        } else {
            self.failed(inventory, Task::Managed(key), Cause::NotHeld);
        }
    }

    /// Handles a Set of a block that was refused, lost or not kept. If the cause is a habit of the
    /// kind of device, the push takes the Set out of its failures.
    pub(super) fn managed_failed(
        &mut self,
        inventory: &mut Inventory,
        key: BlockKey,
        cause: Cause,
    ) {
        if let Some(port) = inventory.hardware.port_mut(key.port) {
            port.managed.mark_dirty(key.place);
        }
        inventory.hardware.record_managed_write(key.port);
        if !matches!(cause, Cause::Refused(_)) {
            inventory.hardware.forget_engine_rows(key);
        }
        let is_habit = match cause {
            Cause::Refused(status) => {
                key.is_habit_by(status) || inventory.vport_limits_refused(key)
            }
            Cause::NotHeld => true,
            _ => false,
        };
        if is_habit && inventory.hardware.learn_refused_block(key) {
            // A habit is not a failure.
            self.report
                .failures
                .retain(|failure| failure.task != Task::Managed(key));
            if key.is_qos() {
                self.take_other_form(inventory, key.port);
            }
        }
        self.qos_settled(inventory, key);
        self.vport_limits_settled(inventory, key);
    }

    /// Handles a settled block: if it has the rate limits of a virtual port, the virtual port may
    /// now become Active.
    fn vport_limits_settled(&mut self, inventory: &Inventory, key: BlockKey) {
        if let Some(index) = key.vport()
            && self.managed.vport_limits.remove(&(key.port, index))
        {
            self.release_vports(inventory, key.port);
        }
    }

    /// Adds the QoS blocks of a port that replace a block refused by the port's kind of device.
    fn take_other_form(&mut self, inventory: &Inventory, port: PortKey) {
        let source = Source::of_plan(&inventory.hardware, &inventory.alias_guids, &self.plan);
        let blocks = differing_blocks(&source, port, Origin::Qos);
        self.managed.add_qos(port, blocks);
        self.release_managed(inventory, port);
    }

    /// Handles a settled block: after the last QoS block of a port, the link may become Active.
    fn qos_settled(&mut self, inventory: &Inventory, key: BlockKey) {
        let port = key.port;
        if key.is_qos() && self.managed.settle_qos(port) {
            self.consider(inventory, port);
            if let Some(peer) = self.ports.get(&port).and_then(|port| port.peer()) {
                self.consider(inventory, peer);
            }
        }
    }
}
