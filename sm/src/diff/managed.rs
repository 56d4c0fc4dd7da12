//! The difference in managed attributes of ports.

use super::Changes;
use crate::fabric::Fabric;
use crate::plan::Plan;
use crate::sweep::inventory::{Inventory, PortKey};
use crate::sweep::managed::{BlockKey, Content};

/// A block to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockChange {
    /// The block.
    pub key: BlockKey,
    /// Its planned content.
    pub content: Content,
}

/// The blocks of a port that differ from their planned content.
pub fn differing(inventory: &Inventory, key: PortKey) -> Vec<BlockChange> {
    let Some(port) = inventory.port(key) else {
        return Vec::new();
    };
    let blocks = inventory.managed_blocks(key).into_iter();
    blocks
        .filter_map(|key| {
            let content = inventory.managed_content(key)?;
            Some(BlockChange { key, content })
        })
        .filter(|wanted| !port.managed.holds(wanted.key.place, &wanted.content))
        .collect()
}

/// Adds the blocks of managed attributes that differ, at ports with a LID.
pub(super) fn diff(inventory: &Inventory, fabric: &Fabric, plan: &Plan, changes: &mut Changes) {
    if !inventory.has_managed_blocks() {
        return;
    }
    for (at, _) in fabric.end_ports() {
        let key = fabric.key(at);
        let blocks = differing(inventory, key);
        if !blocks.is_empty() && plan.claim(key).is_some() {
            changes.managed.insert(key, blocks);
        }
    }
}
