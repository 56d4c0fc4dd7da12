use rsm_ids::PortNum;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::ar_encoding::{AR_BLOCK, MASK_PORT_0};
use super::attribute;

/// ARGroupTable, attribute 0xFF21 of NVIDIA switches: the ports of two sub groups.
///
/// ```text
/// byte  0 .. 31  port mask of the first
/// byte 32 .. 63  port mask of the second
/// ```
///
/// The table is a row of sub groups. If a group has one sub group, a block holds two groups; if a
/// group has two sub groups, a block holds one group. Layout: `ib_types.h` of OpenSM
/// 5.24.0.MLNX20250722. The order of bits in a mask and the attribute modifier are not public; see
/// `ar_encoding`.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ArGroupTable {
    masks: [[u8; Self::MASK_LEN]; Self::ENTRIES],
}

attribute!(ArGroupTable, AR_GROUP_TABLE, "ARGroupTable");

impl ArGroupTable {
    /// The number of sub groups in a block.
    pub const ENTRIES: usize = 2;

    const MASK_LEN: usize = 32;

    /// The attribute modifier for a block of the first group table, without pLFTs.
    pub const fn modifier(block: u16) -> u32 {
        AR_BLOCK.modifier(block)
    }

    /// The block that a modifier names; `None` if other bits are set, whose meaning is not known.
    pub const fn modifier_block(modifier: u32) -> Option<u16> {
        AR_BLOCK.block(modifier)
    }

    /// The ports of a sub group, lowest first; none beyond [`Self::ENTRIES`].
    pub fn ports(&self, index: usize) -> impl Iterator<Item = PortNum> + '_ {
        let mask = self.masks.get(index);
        (0..=u8::MAX).map(PortNum).filter(move |port| {
            let (byte, bit) = MASK_PORT_0.byte_and_bit(*port);
            mask.is_some_and(|mask| mask[byte] & bit != 0)
        })
    }

    /// Replaces the ports of a sub group; an index beyond [`Self::ENTRIES`] changes nothing.
    pub fn set_ports(
        &mut self,
        index: usize,
        ports: impl IntoIterator<Item = PortNum>,
    ) -> &mut Self {
        if let Some(mask) = self.masks.get_mut(index) {
            *mask = [0; Self::MASK_LEN];
            for port in ports {
                let (byte, bit) = MASK_PORT_0.byte_and_bit(port);
                mask[byte] |= bit;
            }
        }
        self
    }
}
