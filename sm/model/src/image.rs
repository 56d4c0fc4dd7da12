//! Images: tables as devices hold them, with a state for each block.
//!
//! One type serves multicast forwarding tables, SLtoVLMappingTables, P_KeyTables and managed
//! attributes. The linear forwarding table has its own type,
//! [`LftImage`](super::lft_image::LftImage): it has a thousand blocks, every plan reads all of
//! them, and an unanswered Set leaves single entries open instead of a block.

use std::collections::BTreeMap;

/// State of a block of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockState {
    /// Never read, or lost in a reset of the device.
    Unknown,
    /// The hardware holds this content.
    Known,
    /// A Set was sent and not answered: the hardware holds the old content or the new.
    Dirty,
    /// The switch reads back this content, but may forward by other entries. Only an acknowledged
    /// Set makes the block known.
    Distrusted,
}

/// The content of a table that is read and written block by block.
pub trait BlockTable: Default {
    /// Address of a block.
    type Place: Copy + Ord;
    /// Content of a block.
    type Block: ?Sized;

    /// Whether a block equals `block`, except in parts that do not count.
    fn has_block(&self, place: Self::Place, block: &Self::Block) -> bool;

    /// Replaces the content of a block.
    fn set_block(&mut self, place: Self::Place, block: &Self::Block);
}

/// A table as a device holds it, as far as its blocks were read or written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image<T: BlockTable> {
    content: T,
    states: BTreeMap<T::Place, BlockState>,
    /// State of all blocks that were neither read nor written.
    untouched: BlockState,
}

impl<T: BlockTable> Default for Image<T> {
    fn default() -> Image<T> {
        Image {
            content: T::default(),
            states: BTreeMap::new(),
            untouched: BlockState::Unknown,
        }
    }
}

impl<T: BlockTable> Image<T> {
    /// A table that is known to hold `content`.
    pub fn known(content: T) -> Image<T> {
        Image {
            content,
            untouched: BlockState::Known,
            ..Image::default()
        }
    }

    /// The table as last known; a block that was neither read nor written is empty.
    pub fn content(&self) -> &T {
        &self.content
    }

    /// The state of a block.
    pub fn state(&self, place: T::Place) -> BlockState {
        self.states.get(&place).copied().unwrap_or(self.untouched)
    }

    /// Whether the content of a block is known.
    pub fn is_known(&self, place: T::Place) -> bool {
        self.state(place) == BlockState::Known
    }

    /// Whether a block is known to equal `block`, except in parts that do not count.
    pub fn holds(&self, place: T::Place, block: &T::Block) -> bool {
        self.is_known(place) && self.content.has_block(place, block)
    }

    /// Records that the hardware holds `block` at `place`.
    pub fn store(&mut self, place: T::Place, block: &T::Block) {
        self.content.set_block(place, block);
        self.states.insert(place, BlockState::Known);
    }

    /// Records that a block holds its old content or a new one, after an unanswered Set.
    pub fn mark_dirty(&mut self, place: T::Place) {
        self.states.insert(place, BlockState::Dirty);
    }

    /// Records that the content of all blocks read or written is uncertain.
    pub(crate) fn mark_all_dirty(&mut self) {
        let states = self.states.values_mut();
        states.for_each(|state| *state = BlockState::Dirty);
    }

    /// Records that all blocks that were neither read nor written are empty.
    pub fn mark_rest_empty(&mut self) {
        self.untouched = BlockState::Known;
    }

    /// The blocks that were read or written, in order.
    pub fn touched(&self) -> impl Iterator<Item = T::Place> + '_ {
        self.states.keys().copied()
    }

    /// Forgets a block.
    pub(crate) fn forget_block(&mut self, place: T::Place) {
        self.states.remove(&place);
    }

    /// Forgets all blocks after a reset of the device.
    pub fn forget(&mut self) {
        *self = Image::default();
    }
}

#[cfg(test)]
mod tests {
    use rsm_ids::PortNum;

    use super::*;
    use crate::sl2vl_image::{SlToVlImage, VlBySl};

    #[test]
    fn block_is_held_from_store_until_forgotten() {
        let [there, back] = [(PortNum(1), PortNum(2)), (PortNum(2), PortNum(1))];
        let row: VlBySl = std::array::from_fn(|level| level as u8 % 2);
        let mut image = SlToVlImage::default();
        assert!(!image.holds(there, &row));
        assert_eq!(image.state(there), BlockState::Unknown);
        image.store(there, &row);
        assert!(image.holds(there, &row) && !image.holds(back, &row));
        assert!(!image.holds(there, &[0; 16]));
        image.mark_dirty(there);
        assert!(!image.holds(there, &row));
        assert_eq!(image.state(there), BlockState::Dirty);
        assert!(image.touched().eq([there]));
        image.store(back, &row);
        image.mark_all_dirty();
        assert!(!image.is_known(back));
        image.forget();
        assert_eq!(image, SlToVlImage::default());
        image.mark_rest_empty();
        assert!(image.is_known(there));
    }
}
