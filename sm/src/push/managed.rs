//! Writing the managed attributes of ports.

use super::{Cause, Push, Task};
use crate::sweep::inventory::{Inventory, PortKey};
use crate::sweep::managed::{BlockKey, Content};

impl Push {
    /// Queues the blocks of a port, if they may leave now.
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
        if !wanted.is_some_and(|wanted| port.managed.holds(key.place, &wanted)) {
            self.failed(inventory, Task::Managed(key), Cause::NotHeld);
        }
    }

    pub(super) fn managed_failed(inventory: &mut Inventory, key: BlockKey) {
        if let Some(port) = inventory.port_mut(key.port) {
            port.managed.mark_dirty(key.place);
        }
    }
}
