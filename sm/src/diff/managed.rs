//! What differs in the names that ports have beside their own.

use super::Changes;
use crate::fabric::Fabric;
use crate::plan::Plan;
use crate::sweep::guids::Block;
use crate::sweep::inventory::{Inventory, PortKey};

/// A block of a port's GUIDInfo that is to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GuidBlock {
    /// Which block.
    pub block: u8,
    /// Its GUIDs.
    pub guids: Block,
}

/// The blocks of a port that do not hold what they are to hold.
pub fn differing(inventory: &Inventory, key: PortKey) -> Vec<GuidBlock> {
    let Some(port) = inventory.port(key) else {
        return Vec::new();
    };
    let blocks = inventory.guid_blocks(key).into_iter();
    blocks
        .map(|block| GuidBlock {
            block,
            guids: inventory.alias_guids.block(port.guid, block),
        })
        .filter(|wanted| {
            let image = port.guids.as_ref();
            !image.is_some_and(|image| image.holds(wanted.block, &wanted.guids))
        })
        .collect()
}

/// Adds what has to be written so that ports have the names that they are to have. Only those that get a LID are looked at.
pub(super) fn diff(inventory: &Inventory, fabric: &Fabric, plan: &Plan, changes: &mut Changes) {
    if !inventory.named {
        return;
    }
    for (at, _) in fabric.end_ports() {
        let key = fabric.key(at);
        let blocks = differing(inventory, key);
        if !blocks.is_empty() && plan.claim(key).is_some() {
            changes.guids.insert(key, blocks);
        }
    }
}
