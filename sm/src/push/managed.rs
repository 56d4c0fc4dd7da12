//! Writing the managed attributes of ports.

use super::{Cause, Push, Task};
use crate::sweep::inventory::{Inventory, PortKey};
use crate::sweep::managed::{BlockKey, Content};

impl Push {
    /// Queues the blocks of a port, unless a Set of its PortInfo is still to come: its answer shows
    /// a reset, after which the blocks would be lost.
    pub(super) fn release_managed(&mut self, port: PortKey) {
        let awaits_info = self.ports.get(&port).is_some_and(|port| port.awaits_info());
        if awaits_info || self.stopped {
            return;
        }
        for change in self.managed.get(&port).into_iter().flatten() {
            let task = Task::Managed(change.key);
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
        port.managed.store(key.place, *data);
        if !wanted.is_some_and(|wanted| port.managed.holds(key.place, &wanted)) {
            self.failed(inventory, Task::Managed(key), Cause::NotHeld);
        }
    }

    pub(super) fn managed_failed(inventory: &mut Inventory, key: BlockKey) {
        if let Some(port) = inventory.port_mut(key.port) {
            port.managed.doubt(key.place);
        }
    }
}
