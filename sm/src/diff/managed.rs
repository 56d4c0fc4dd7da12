//! What differs in the managed attributes of ports.

use super::Changes;
use crate::fabric::Fabric;
use crate::plan::Plan;
use crate::sweep::inventory::{Inventory, PortKey};
use crate::sweep::managed::{BlockKey, Content};

/// A block that is to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockChange {
    /// Which block.
    pub key: BlockKey,
    /// What it is to hold.
    pub content: Content,
}

/// The blocks of a port that do not hold what they are to hold.
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

/// Adds what has to be written so that the managed attributes of ports are as they are to be. Only
/// ports that get a LID are looked at.
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
