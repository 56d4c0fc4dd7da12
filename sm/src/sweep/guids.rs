//! The GUIDInfo of a port as the hardware holds it. It is read only where a port is to have names beside its own: otherwise
//! nobody asks what is there.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::Guid;
use rsm_mad::wire::attr::GuidInfo;

use super::inventory::{Inventory, PortKey};
use super::{Query, Sweep};

/// A block: eight GUIDs.
pub type Block = [Guid; GuidInfo::ENTRIES];

/// What is known of a GUIDInfo: blocks that were read or written, and not doubted since.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct GuidImage {
    blocks: BTreeMap<u8, Block>,
    /// Blocks that were ever read or written.
    touched: BTreeSet<u8>,
}

impl GuidImage {
    /// Whether block `block` is known to hold `guids`. The first entry of all is the port's own and read only.
    pub fn holds(&self, block: u8, guids: &Block) -> bool {
        let own = usize::from(block == 0);
        let held = self.blocks.get(&block);
        held.is_some_and(|held| held[own..] == guids[own..])
    }

    /// Whether it is known what block `block` holds.
    pub fn is_known(&self, block: u8) -> bool {
        self.blocks.contains_key(&block)
    }

    /// Records that the hardware holds `guids`.
    pub fn store(&mut self, block: u8, guids: Block) {
        self.blocks.insert(block, guids);
        self.touched.insert(block);
    }

    /// A block may hold anything.
    pub fn doubt(&mut self, block: u8) {
        self.blocks.remove(&block);
        self.touched.insert(block);
    }

    /// The blocks that were ever read or written.
    pub fn touched(&self) -> impl Iterator<Item = u8> + '_ {
        self.touched.iter().copied()
    }
}

impl Inventory {
    /// The blocks of the GUIDInfo of a port that count: in which it is to have names, or had some.
    pub fn guid_blocks(&self, key: PortKey) -> BTreeSet<u8> {
        let Some(port) = self.port(key) else {
            return BTreeSet::new();
        };
        let mut blocks = self.alias_guids.blocks(port.guid);
        blocks.extend(port.guids.iter().flat_map(GuidImage::touched));
        blocks
    }
}

impl Sweep {
    /// A port answered: asks for what is not known of its GUIDInfo and counts.
    pub(super) fn see_guids(&mut self, inventory: &Inventory, key: PortKey) {
        for block in inventory.guid_blocks(key) {
            let image = inventory.port(key).and_then(|port| port.guids.as_ref());
            if !image.is_some_and(|image| image.is_known(block)) {
                self.ask(Query::Guids(key, block));
            }
        }
    }

    pub(super) fn on_guids(
        &mut self,
        inventory: &mut Inventory,
        key: PortKey,
        block: u8,
        info: &GuidInfo,
    ) {
        if let Some(port) = inventory.port_mut(key) {
            // Something is to be compared now.
            self.changed = true;
            port.guids
                .get_or_insert_default()
                .store(block, info.guids());
        }
    }
}
