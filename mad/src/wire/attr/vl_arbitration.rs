use rsm_ids::PortNum;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::attribute;
use crate::wire::bits::bits;

/// One entry of the table: a VL, and the amount of data that the VL may send in its turn.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  - - - - | VL    | Weight
/// ```
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    Debug,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct VlArbitrationEntry {
    vl: u8,
    weight: u8,
}

impl VlArbitrationEntry {
    /// An entry that lets `vl`, 0 to 14, send up to `weight` units of 64 bytes; weight 0 skips the
    /// entry.
    pub fn new(vl: u8, weight: u8) -> VlArbitrationEntry {
        let mut entry = VlArbitrationEntry::default();
        entry.set_vl(vl).set_weight(weight);
        entry
    }
}

bits! { VlArbitrationEntry {
    /// The VL; 0 to 15, of which 15 is not valid.
    vl, set_vl: u8 = vl[3, 0];
    /// The amount that the VL may send for this entry, in units of 64 bytes; 0 skips the entry.
    weight, set_weight: u8 = weight;
} }

/// A block of 32 entries of one of the two arbitration tables; the attribute modifier selects it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u16)]
pub enum VlArbitrationBlock {
    /// Entries 0 to 31 of low priority.
    LowPriorityLower = 1,
    /// Entries 32 to 63 of low priority.
    LowPriorityUpper = 2,
    /// Entries 0 to 31 of high priority.
    HighPriorityLower = 3,
    /// Entries 32 to 63 of high priority.
    HighPriorityUpper = 4,
}

impl VlArbitrationBlock {
    /// All blocks, in the order of their numbers.
    pub const ALL: [VlArbitrationBlock; 4] = [
        Self::LowPriorityLower,
        Self::LowPriorityUpper,
        Self::HighPriorityLower,
        Self::HighPriorityUpper,
    ];
}

/// One block of a port's VLArbitrationTable (IBA 14.2.5.9): 32 entries, each of which lets a VL
/// send.
///
/// ```text
/// byte 2 × i .. 2 × i + 1  entry i of the block
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct VlArbitration {
    entries: [VlArbitrationEntry; Self::ENTRIES],
}

attribute!(VlArbitration, VL_ARBITRATION, "VLArbitrationTable");

impl VlArbitration {
    /// The number of entries in a block.
    pub const ENTRIES: usize = 32;

    /// The attribute modifier for `block` of `port`; 0 is the port of a CA or router that receives
    /// the request.
    pub const fn modifier(port: PortNum, block: VlArbitrationBlock) -> u32 {
        (block as u32) << 16 | port.0 as u32
    }

    /// The port that a modifier names.
    pub const fn modifier_port(modifier: u32) -> PortNum {
        PortNum(modifier as u8)
    }

    /// The block that a modifier names; `None` if no block has its number.
    pub const fn modifier_block(modifier: u32) -> Option<VlArbitrationBlock> {
        match modifier >> 16 {
            1 => Some(VlArbitrationBlock::LowPriorityLower),
            2 => Some(VlArbitrationBlock::LowPriorityUpper),
            3 => Some(VlArbitrationBlock::HighPriorityLower),
            4 => Some(VlArbitrationBlock::HighPriorityUpper),
            _ => None,
        }
    }

    /// The entries, in the order of their turns.
    pub fn entries(&self) -> &[VlArbitrationEntry; Self::ENTRIES] {
        &self.entries
    }

    /// The entries, mutable in place.
    pub fn entries_mut(&mut self) -> &mut [VlArbitrationEntry; Self::ENTRIES] {
        &mut self.entries
    }
}
