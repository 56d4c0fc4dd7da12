//! Managed attributes: attributes of end ports that are set block by block, where a block waits
//! only for the PortInfo of its port.
//!
//! An attribute is a file beside this one and a line of [`MANAGED`]: its planned blocks and their
//! content. The sweep reads the planned blocks that are not known, [`crate::diff`] compares, and
//! [`crate::push`] writes the difference.

mod guid_info;

use std::collections::{BTreeMap, BTreeSet};

use rsm_mad::wire::header::AttrId;

use super::inventory::{Inventory, InventoryPort, PortKey};
use super::{Query, Sweep};

/// The content of a block.
pub type Content = [u8; 64];

/// A managed attribute.
#[derive(Debug)]
pub struct Managed {
    /// The attribute.
    pub attribute: AttrId,
    /// Why a block is written, for reports.
    pub reason: &'static str,
    /// The modifier of a block of a port.
    modifier: fn(PortKey, u16) -> u32,
    /// Whether any port has planned blocks, or ever had: otherwise no port is checked.
    is_used: fn(&Inventory) -> bool,
    /// The planned blocks of a port.
    blocks: fn(&Inventory, &InventoryPort) -> BTreeSet<u16>,
    /// The planned content of a block of a port.
    content: fn(&Inventory, &InventoryPort, u16) -> Content,
    /// Whether the first content is as good as the second: read-only parts do not count.
    agrees: fn(u16, &Content, &Content) -> bool,
}

/// Every managed attribute.
pub static MANAGED: &[Managed] = &[guid_info::GUID_INFO];

/// A block of a managed attribute of a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockKey {
    /// The port.
    pub port: PortKey,
    /// The attribute and block.
    pub place: BlockPlace,
}

/// A block of an attribute.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockPlace {
    /// Index of the attribute in [`MANAGED`].
    attribute: u8,
    /// Number of the block.
    pub block: u16,
}

impl BlockPlace {
    /// The attribute.
    pub fn managed(self) -> &'static Managed {
        &MANAGED[usize::from(self.attribute)]
    }

    fn agrees(self, held: &Content, wanted: &Content) -> bool {
        (self.managed().agrees)(self.block, held, wanted)
    }
}

impl BlockKey {
    /// The attribute.
    pub fn attribute(self) -> AttrId {
        self.place.managed().attribute
    }

    /// The modifier of the block.
    pub fn modifier(self) -> u32 {
        (self.place.managed().modifier)(self.port, self.place.block)
    }
}

/// The managed attributes of a port, as far as blocks were read or written.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct BlockImage {
    /// `None`: the block may hold anything.
    blocks: BTreeMap<BlockPlace, Option<Content>>,
}

impl BlockImage {
    /// Whether the block is known to hold `content`, as far as it counts.
    pub fn holds(&self, place: BlockPlace, content: &Content) -> bool {
        let held = self.blocks.get(&place).and_then(Option::as_ref);
        held.is_some_and(|held| place.agrees(held, content))
    }

    /// Whether the content of the block is known.
    pub fn is_known(&self, place: BlockPlace) -> bool {
        self.blocks.get(&place).is_some_and(Option::is_some)
    }

    /// Records that the hardware holds `content`.
    pub fn store(&mut self, place: BlockPlace, content: Content) {
        self.blocks.insert(place, Some(content));
    }

    /// Records that the block may hold any content.
    pub fn doubt(&mut self, place: BlockPlace) {
        self.blocks.insert(place, None);
    }

    /// As [`BlockImage::doubt`], only for a block that was read or written.
    pub fn doubt_known(&mut self, place: BlockPlace) {
        if let Some(held) = self.blocks.get_mut(&place) {
            *held = None;
        }
    }

    /// Records that all blocks read or written may hold any content.
    pub fn doubt_all(&mut self) {
        self.blocks.values_mut().for_each(|held| *held = None);
    }
}

impl Inventory {
    /// Whether any port has planned blocks, or ever had.
    pub fn has_managed_blocks(&self) -> bool {
        MANAGED.iter().any(|managed| (managed.is_used)(self))
    }

    /// The blocks of a port that count: planned ones, and those read or written.
    pub fn managed_blocks(&self, key: PortKey) -> BTreeSet<BlockKey> {
        let Some(port) = self.port(key) else {
            return BTreeSet::new();
        };
        let mut blocks: BTreeSet<BlockPlace> = port.managed.blocks.keys().copied().collect();
        for (attribute, managed) in (0..).zip(MANAGED) {
            let wanted = (managed.blocks)(self, port).into_iter();
            blocks.extend(wanted.map(|block| BlockPlace { attribute, block }));
        }
        let keys = blocks.into_iter();
        keys.map(|place| BlockKey { port: key, place }).collect()
    }

    /// The planned content of a block; `None` if the port is gone.
    pub fn managed_content(&self, key: BlockKey) -> Option<Content> {
        let port = self.port(key.port)?;
        Some((key.place.managed().content)(self, port, key.place.block))
    }
}

impl Sweep {
    /// After a port answered: asks for the blocks that count and are not known.
    pub(super) fn see_managed(&mut self, inventory: &Inventory, port: PortKey) {
        for key in inventory.managed_blocks(port) {
            let record = inventory.port(port);
            if !record.is_some_and(|record| record.managed.is_known(key.place)) {
                self.ask(Query::Managed(key));
            }
        }
    }

    pub(super) fn on_managed(&mut self, inventory: &mut Inventory, key: BlockKey, data: &Content) {
        if let Some(port) = inventory.port_mut(key.port) {
            // The comparison has new content.
            self.changed = true;
            port.managed.store(key.place, *data);
        }
    }
}

#[cfg(test)]
mod tests {
    use rsm_mad::wire::attr::{Attribute, GuidInfo};

    use super::*;

    fn place(attribute: AttrId, block: u16) -> BlockPlace {
        let position = MANAGED.iter().position(|one| one.attribute == attribute);
        let attribute = position.expect("it is managed") as u8;
        BlockPlace { attribute, block }
    }

    #[test]
    fn an_attribute_is_managed_once() {
        let attributes: BTreeSet<AttrId> = MANAGED.iter().map(|one| one.attribute).collect();
        assert_eq!(attributes.len(), MANAGED.len());
    }

    #[test]
    fn block_is_held_while_read_and_not_doubted() {
        let first = place(GuidInfo::ID, 1);
        let mut image = BlockImage::default();
        assert!(!image.is_known(first) && !image.holds(first, &[0; 64]));
        image.doubt_known(first);
        assert_eq!(image, BlockImage::default());
        image.store(first, [7; 64]);
        assert!(image.holds(first, &[7; 64]) && !image.holds(first, &[0; 64]));
        assert!(!image.is_known(place(GuidInfo::ID, 2)));
        image.doubt_all();
        assert!(!image.is_known(first) && !image.holds(first, &[7; 64]));
    }

    #[test]
    fn own_guid_of_a_port_does_not_count() {
        let mut image = BlockImage::default();
        let mut other_own = [0; 64];
        other_own[..8].copy_from_slice(&[9; 8]);
        for block in [0, 1] {
            image.store(place(GuidInfo::ID, block), other_own);
        }
        assert!(image.holds(place(GuidInfo::ID, 0), &[0; 64]));
        assert!(!image.holds(place(GuidInfo::ID, 1), &[0; 64]));
    }
}
