//! Managed attributes: attributes of end ports that are set block by block, where a block waits
//! only for the PortInfo of its port.
//!
//! An attribute is a file beside this one and a line of [`MANAGED`]: its planned blocks and their
//! content. The sweep reads the planned blocks that are not known, [`crate::diff`] compares, and
//! [`crate::push`] writes the difference.

mod guid_info;

use std::collections::{BTreeMap, BTreeSet};

use rsm_mad::wire::header::AttrId;

use super::image::BlockTable;
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

/// The managed attributes of a port.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ManagedBlocks(BTreeMap<BlockPlace, Content>);

impl BlockTable for ManagedBlocks {
    type Place = BlockPlace;
    type Block = Content;

    fn has_block(&self, place: BlockPlace, wanted: &Content) -> bool {
        let agrees = place.managed().agrees;
        let held = self.0.get(&place);
        held.is_some_and(|held| agrees(place.block, held, wanted))
    }

    fn set_block(&mut self, place: BlockPlace, content: &Content) {
        self.0.insert(place, *content);
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
        let mut blocks: BTreeSet<BlockPlace> = port.managed.touched().collect();
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
            port.managed.store(key.place, data);
        }
    }
}

#[cfg(test)]
mod tests {
    use rsm_mad::wire::attr::{Attribute, GuidInfo};

    use super::super::image::Image;
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
    fn own_guid_of_a_port_does_not_count() {
        let mut image: Image<ManagedBlocks> = Image::default();
        let mut other_own = [0; 64];
        other_own[..8].copy_from_slice(&[9; 8]);
        for block in [0, 1] {
            image.store(place(GuidInfo::ID, block), &other_own);
        }
        assert!(image.holds(place(GuidInfo::ID, 0), &[0; 64]));
        assert!(!image.holds(place(GuidInfo::ID, 1), &[0; 64]));
    }
}
