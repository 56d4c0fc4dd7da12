//! Sends the P_KeyTable of one port.
//!
//! Only blocks that differ are written. Switch ports that begin to enforce partitions get their
//! whole tables, which the sweep has not read. A key keeps its index in the table. A link becomes
//! Active once both ends hold their keys.

use std::sync::Arc;

use rsm_ids::PortKey;
use rsm_mad::wire::attr::PKeyTable;

use super::{Cause, Push, Task};
use crate::diff::PKeyBlock;
use crate::sweep::inventory::Inventory;

/// The blocks of one port's P_KeyTable to write, and their progress.
#[derive(Debug)]
pub(super) struct PKeyPush {
    blocks: Vec<PKeyBlock>,
    /// Whether all blocks were queued.
    sent: bool,
    /// Number of queued blocks that are neither answered nor given up.
    unsettled: usize,
    failed: bool,
}

impl PKeyPush {
    pub(super) fn new(blocks: Vec<PKeyBlock>) -> PKeyPush {
        PKeyPush {
            sent: blocks.is_empty(),
            blocks,
            unsettled: 0,
            failed: false,
        }
    }

    /// The blocks to queue now: all blocks at the first call, none later.
    pub(super) fn take_due(&mut self) -> Vec<u16> {
        if self.sent {
            return Vec::new();
        }
        self.sent = true;
        self.unsettled = self.blocks.len();
        self.blocks.iter().map(|part| part.block).collect()
    }

    /// Whether all blocks were queued.
    pub(super) fn is_sent(&self) -> bool {
        self.sent
    }

    /// The planned content of a block; `None` if the push does not write it.
    pub(super) fn block(&self, block: u16) -> Option<&PKeyBlock> {
        self.blocks.iter().find(|part| part.block == block)
    }

    /// Settles the Set of a block, which was answered or given up.
    pub(super) fn settle(&mut self, failed: bool) {
        self.unsettled = self.unsettled.saturating_sub(1);
        self.failed |= failed;
    }

    /// Whether all blocks were queued and are settled.
    pub(super) fn is_settled(&self) -> bool {
        self.sent && self.unsettled == 0
    }

    /// Whether the port holds its keys.
    pub(super) fn is_held(&self) -> bool {
        self.is_settled() && !self.failed
    }
}

impl Push {
    /// Handles the answer to the Set of a block, which shows the keys that the port now holds.
    pub(super) fn p_keys_answered(
        &mut self,
        inventory: &mut Inventory,
        key: PortKey,
        block: u16,
        table: &PKeyTable,
    ) {
        let mut held = false;
        if let Some(record) = inventory.hardware.port_mut(key) {
            let known = Arc::make_mut(record.p_keys.get_or_insert_default());
            known.store(block, &table.p_keys());
            let port = self.ports.get(&key);
            let wanted = port.and_then(|port| port.p_keys.block(block));
            held = wanted.is_some_and(|wanted| known.holds(block, &wanted.keys));
        }
        if held {
            self.p_keys_settled(inventory, key, false);
        } else {
            self.failed(inventory, Task::PKeys(key, block), Cause::NotHeld);
        }
    }

    /// Handles the Set of a block that was refused, lost or not kept.
    pub(super) fn p_keys_failed(
        &mut self,
        inventory: &mut Inventory,
        key: PortKey,
        block: u16,
        cause: Cause,
    ) {
        if cause == Cause::Silence
            && let Some(record) = inventory.hardware.port_mut(key)
        {
            let known = Arc::make_mut(record.p_keys.get_or_insert_default());
            known.mark_dirty(block);
        }
        self.p_keys_settled(inventory, key, true);
    }

    /// Handles a settled Set of a P_KeyTable: queues the Sets at both ends of the link that waited
    /// for it.
    fn p_keys_settled(&mut self, inventory: &Inventory, key: PortKey, failed: bool) {
        let Some(port) = self.ports.get_mut(&key) else {
            return;
        };
        port.p_keys.settle(failed);
        let peer = port.peer();
        self.consider(inventory, key);
        if let Some(peer) = peer {
            self.consider(inventory, peer);
        }
    }
}
