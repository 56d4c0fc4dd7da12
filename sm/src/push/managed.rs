//! Writing the names that ports have beside their own.

use rsm_mad::wire::attr::GuidInfo;

use super::{Cause, Push, Task};
use crate::diff::GuidBlock;
use crate::sweep::inventory::{Inventory, PortKey};

impl Push {
    /// Queues the blocks of a port, unless its PortInfo is still to be written: that tells of a reset, after which they would be
    /// lost.
    pub(super) fn release_guids(&mut self, key: PortKey) {
        let awaits_info = self.ports.get(&key).is_some_and(|port| port.awaits_info());
        if awaits_info || self.stopped {
            return;
        }
        for part in self.guids.get(&key).into_iter().flatten() {
            let task = Task::Guids(key, part.block);
            if self.guids_queued.insert(task) {
                self.ready.push_back(task);
            }
        }
    }

    /// What a block is to hold.
    pub(super) fn wanted_guids(&self, key: PortKey, block: u8) -> Option<&GuidBlock> {
        let parts = self.guids.get(&key)?;
        parts.iter().find(|part| part.block == block)
    }

    pub(super) fn guids_answered(
        &mut self,
        inventory: &mut Inventory,
        key: PortKey,
        block: u8,
        info: &GuidInfo,
    ) {
        let wanted = self.wanted_guids(key, block).map(|part| part.guids);
        let Some(port) = inventory.port_mut(key) else {
            return;
        };
        let image = port.guids.get_or_insert_default();
        image.store(block, info.guids());
        if !wanted.is_some_and(|wanted| image.holds(block, &wanted)) {
            self.failed(inventory, Task::Guids(key, block), Cause::NotHeld);
        }
    }

    pub(super) fn guids_failed(inventory: &mut Inventory, key: PortKey, block: u8) {
        if let Some(port) = inventory.port_mut(key) {
            port.guids.get_or_insert_default().doubt(block);
        }
    }
}
