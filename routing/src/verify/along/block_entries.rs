//! The entries of one block of LIDs, before and after a change.

use rsm_ids::Lid;

use super::super::fabric::Blocks;
use crate::tables::{BLOCK_LIDS, Difference};
use crate::topology::SwitchIdx;

/// The entries of the LIDs of one block in all switches.
///
/// The copies of a block in any two tables are whole pages apart, at addresses that displace each
/// other in a processor's cache. If many switches change, the block is copied, and all of its LIDs
/// are followed within the cache.
pub(super) struct BlockEntries<'a> {
    difference: &'a Difference<'a>,
    block: usize,
    is_copied: bool,
    before: Copies<'a>,
    after: Copies<'a>,
}

/// A block of one set of tables.
struct Copies<'a> {
    blocks: Blocks<'a>,
    /// The entries: [`BLOCK_LIDS`] for each switch.
    entries: Vec<u8>,
}

/// Entries of one block of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entries {
    pub(super) switch: SwitchIdx,
    pub(super) block: usize,
    /// The mask of the LIDs of the entries.
    pub(super) lids: u64,
}

/// The mask of all LIDs of a block.
pub(super) const ALL_LIDS: u64 = u64::MAX;

/// All blocks are prepared for look-up if at least one in this many changes.
pub(super) const BLOCKS_PER_CHANGE: usize = 16;

impl<'a> BlockEntries<'a> {
    pub(super) fn new(difference: &'a Difference<'a>) -> BlockEntries<'a> {
        let switches = difference.after().lfts.len();
        let copies = |tables| Copies {
            blocks: Blocks::new(tables, switches),
            entries: Vec::new(),
        };
        BlockEntries {
            difference,
            block: 0,
            is_copied: false,
            before: copies(difference.before()),
            after: copies(difference.after()),
        }
    }

    /// Begins a block that changes in `changed` switches.
    pub(super) fn begin_block(&mut self, block: usize, changed: usize) {
        let switches = self.difference.after().lfts.len();
        self.block = block;
        self.is_copied = changed * BLOCKS_PER_CHANGE >= switches;
        if self.is_copied {
            for copies in [&mut self.before, &mut self.after] {
                copies.blocks.gather((block, u64::MAX), &mut copies.entries);
            }
        }
    }

    /// The entries of a switch whose LIDs are in a mask.
    pub(super) fn masked(&self, switch: SwitchIdx, lids: u64) -> Entries {
        let block = self.block;
        Entries {
            switch,
            block,
            lids,
        }
    }

    /// The LID of an entry, by its offset in the block.
    fn lid(&self, offset: usize) -> Lid {
        // Tables are indexed by LID.
        Lid((self.block * BLOCK_LIDS + offset) as u16)
    }

    pub(super) fn before(&self, switch: SwitchIdx, offset: usize) -> u8 {
        if self.is_copied {
            return self.before.entries[switch.index() * BLOCK_LIDS + offset];
        }
        self.difference.entry_before(switch, self.lid(offset))
    }

    pub(super) fn after(&self, switch: SwitchIdx, offset: usize) -> u8 {
        if self.is_copied {
            return self.after.entries[switch.index() * BLOCK_LIDS + offset];
        }
        self.difference.entry_after(switch, self.lid(offset))
    }

    /// The mask of the LIDs whose entries change in a switch.
    pub(super) fn changed(&self, switch: SwitchIdx) -> u64 {
        let [before, after] = self.difference.block_in(switch, self.block);
        let entries = before.iter().zip(after).enumerate();
        entries.fold(0, |mask, (offset, (before, after))| {
            mask | u64::from(before != after) << offset
        })
    }
}

/// The offsets of the LIDs of a mask in their block, lowest first.
pub(super) fn ones(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let offset = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(offset)
    })
}
