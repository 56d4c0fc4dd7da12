use rsm_ids::Guid;
use zerocopy::byteorder::network_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::attribute;

/// A block of a port's GUIDInfo (IBA 14.2.5.5): eight GUIDs. Entry 0 of block 0 is the port GUID,
/// which is read only.
///
/// ```text
/// byte 8 × i .. 8 × i + 7  GUID 8 × block + i
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct GuidInfo {
    guids: [U64; Self::ENTRIES],
}

attribute!(GuidInfo, GUID_INFO, "GUIDInfo");

impl GuidInfo {
    /// The number of entries in a block.
    pub const ENTRIES: usize = 8;

    /// The attribute modifier for `block`.
    pub const fn modifier(block: u8) -> u32 {
        block as u32
    }

    /// The GUID at `index` in the block; `None` from [`Self::ENTRIES`] on.
    pub fn guid(&self, index: usize) -> Option<Guid> {
        self.guids.get(index).map(|guid| Guid(guid.get()))
    }

    /// All entries, in order.
    pub fn guids(&self) -> [Guid; Self::ENTRIES] {
        self.guids.map(|guid| Guid(guid.get()))
    }

    /// Replaces all entries.
    pub fn set_guids(&mut self, guids: [Guid; Self::ENTRIES]) -> &mut Self {
        self.guids = guids.map(|guid| U64::new(guid.0));
        self
    }
}
