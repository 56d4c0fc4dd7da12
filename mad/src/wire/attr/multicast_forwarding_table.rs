use rsm_ids::Lid;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::attribute;

/// One block of a MulticastForwardingTable (IBA 14.2.5.12): one 16-bit port mask for each of 32
/// consecutive multicast LIDs. `position` selects which 16 ports the masks cover.
///
/// ```text
/// byte 2 × i .. 2 × i + 1  PortMask of LID 0xC000 + 32 × block + i; bit p is port 16 × position + p
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct MulticastForwardingTable {
    masks: [U16; Self::ENTRIES],
}

attribute!(
    MulticastForwardingTable,
    MULTICAST_FORWARDING_TABLE,
    "MulticastForwardingTable"
);

impl MulticastForwardingTable {
    /// The number of LIDs in a block.
    pub const ENTRIES: usize = 32;
    /// The number of ports that a mask covers.
    pub const PORTS_PER_POSITION: u8 = 16;
    /// The number of positions. Together, they cover 256 ports.
    pub const POSITIONS: u8 = 16;
    /// The number of blocks: the block number has 9 bits in the attribute modifier.
    pub const BLOCKS: u16 = 512;

    const POSITION_SHIFT: u32 = 28;

    /// The attribute modifier for `block`, 0 to [`Self::BLOCKS`] - 1, and `position`, 0 to
    /// [`Self::POSITIONS`] - 1. Bits beyond those ranges are dropped.
    pub const fn modifier(block: u16, position: u8) -> u32 {
        (position as u32) << Self::POSITION_SHIFT | (block & (Self::BLOCKS - 1)) as u32
    }

    /// The block that a modifier names.
    pub const fn modifier_block(modifier: u32) -> u16 {
        modifier as u16 & (Self::BLOCKS - 1)
    }

    /// The position that a modifier names.
    pub const fn modifier_position(modifier: u32) -> u8 {
        (modifier >> Self::POSITION_SHIFT) as u8
    }

    /// The block that holds the entry of `lid`, and the index of the entry in the block; `None` if
    /// the LID is not multicast.
    pub const fn block_and_index_of(lid: Lid) -> Option<(u16, usize)> {
        if !lid.is_multicast() {
            return None;
        }
        let offset = lid.0 - Lid::MULTICAST_FIRST.0;
        Some((
            offset / Self::ENTRIES as u16,
            offset as usize % Self::ENTRIES,
        ))
    }

    /// The port mask at `index` in the block; `None` from [`Self::ENTRIES`] on.
    pub fn mask(&self, index: usize) -> Option<u16> {
        self.masks.get(index).map(|mask| mask.get())
    }

    /// All masks, in the order of the LIDs.
    pub fn masks(&self) -> [u16; Self::ENTRIES] {
        self.masks.map(U16::get)
    }

    /// Replaces all masks.
    pub fn set_masks(&mut self, masks: [u16; Self::ENTRIES]) -> &mut Self {
        self.masks = masks.map(U16::new);
        self
    }
}
