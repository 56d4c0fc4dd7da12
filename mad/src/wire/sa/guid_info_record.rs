use rsm_ids::Lid;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{components, record};
use crate::wire::attr::GuidInfo;
use crate::wire::bits::bits;
use crate::wire::sa::ComponentMask;

/// GUIDInfoRecord (IBA 15.2.5.18): a block of a port's GUIDs. In Set and Delete the mask selects
/// the GUIDs.
///
/// ```text
/// byte  0  LID             | BlockNum | -
///       4  -
///       8  GUIDInfo, 64 bytes
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct GuidInfoRecord {
    lid: U16,
    block: u8,
    reserved: [u8; 5],
    guid_info: GuidInfo,
}

record!(GuidInfoRecord, 0x0030, "GUIDInfoRecord");

bits! { GuidInfoRecord {
    /// The LID of the end port; for a switch the LID of its port 0.
    lid, set_lid: Lid = lid;
    /// The number of the block, which has the GUIDs 8 × block to 8 × block + 7.
    block_num, set_block_num: u8 = block;
} }

components! { GuidInfoRecord {
    0 LID = "LID" at 0, 16;
    1 BLOCK_NUM = "BlockNum" at 16, 8;
    4 GUID0 = "GUID0" at 64, 64;
    5 GUID1 = "GUID1" at 128, 64;
    6 GUID2 = "GUID2" at 192, 64;
    7 GUID3 = "GUID3" at 256, 64;
    8 GUID4 = "GUID4" at 320, 64;
    9 GUID5 = "GUID5" at 384, 64;
    10 GUID6 = "GUID6" at 448, 64;
    11 GUID7 = "GUID7" at 512, 64;
} }

impl GuidInfoRecord {
    /// The components of all eight GUIDs.
    pub const GUIDS: ComponentMask = ComponentMask::range(4, 11);

    /// The component of the GUID at `index` in the block, 0 to 7; `None` from index 8 on.
    pub fn guid_component(index: usize) -> Option<ComponentMask> {
        let bit = 1u64.checked_shl(u32::try_from(index).ok()?)?;
        (index < GuidInfo::ENTRIES).then_some(ComponentMask(bit << 4))
    }

    /// The GUIDInfo of the block.
    pub fn guid_info(&self) -> &GuidInfo {
        &self.guid_info
    }

    /// The block, mutable in place.
    pub fn guid_info_mut(&mut self) -> &mut GuidInfo {
        &mut self.guid_info
    }
}
