use rsm_ids::Guid;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::vport_encoding::{BLOCK, INDEX_BESIDE_BLOCK};
use super::{GuidInfo, PKey, PKeyTable, attribute};

/// Defines the attribute modifiers of a virtual port's table that is divided into blocks.
macro_rules! by_blocks {
    ($table:ident) => {
        impl $table {
            /// The attribute modifier for `block` of the virtual port at `index`.
            pub const fn modifier(index: u16, block: u16) -> u32 {
                INDEX_BESIDE_BLOCK.modifier(index) | BLOCK.modifier(block)
            }

            /// The index in a modifier.
            pub const fn modifier_index(modifier: u32) -> u16 {
                INDEX_BESIDE_BLOCK.of(modifier)
            }

            /// The block in a modifier.
            pub const fn modifier_block(modifier: u32) -> u16 {
                BLOCK.of(modifier)
            }
        }
    };
}

/// NVIDIA VPortGUIDInfo, attribute 0xFFB5: a block of the GUIDs of a virtual port, with the layout
/// of [`GuidInfo`].
///
/// ```text
/// byte 8 × i .. 8 × i + 7  GUID 8 × block + i
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct VPortGuidInfo {
    info: GuidInfo,
}

attribute!(VPortGuidInfo, VPORT_GUID_INFO, "VPortGUIDInfo");
by_blocks!(VPortGuidInfo);

impl VPortGuidInfo {
    /// All entries, in order.
    pub fn guids(&self) -> [Guid; GuidInfo::ENTRIES] {
        self.info.guids()
    }

    /// Replaces all entries.
    pub fn set_guids(&mut self, guids: [Guid; GuidInfo::ENTRIES]) -> &mut Self {
        self.info.set_guids(guids);
        self
    }
}

/// NVIDIA P_KeyTable of a virtual port, attribute 0xFFB6: a block of its partition keys, with the
/// layout of [`PKeyTable`].
///
/// ```text
/// byte 2 × i .. 2 × i + 1  P_Key 32 × block + i
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct VPortPKeyTable {
    table: PKeyTable,
}

attribute!(VPortPKeyTable, VPORT_P_KEY_TABLE, "VPortP_KeyTable");
by_blocks!(VPortPKeyTable);

impl VPortPKeyTable {
    /// All entries, in order.
    pub fn p_keys(&self) -> [PKey; PKeyTable::ENTRIES] {
        self.table.p_keys()
    }

    /// Replaces all entries.
    pub fn set_p_keys(&mut self, p_keys: [PKey; PKeyTable::ENTRIES]) -> &mut Self {
        self.table.set_p_keys(p_keys);
        self
    }
}
