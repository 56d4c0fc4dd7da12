//! The entries of one block of LIDs, before and after a change.

use rsm_ids::Lid;

use super::super::fabric::Blocks;
use crate::tables::{BLOCK_LIDS, Difference};
use crate::topology::SwitchIdx;

/// The entries of the LIDs of one block in all switches.
///
/// The entries of one block in different tables are whole pages apart, at addresses that displace
/// each other in a processor's cache. If many switches change, this type copies the block, so that
/// its LIDs are followed within the cache.
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

/// A block is copied if at least one in this many switches changes in it.
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

    /// Selects a block, which changes in `changed` switches.
    pub(super) fn turn_to(&mut self, block: usize, changed: usize) {
        let switches = self.difference.after().lfts.len();
        self.block = block;
        self.is_copied = changed * BLOCKS_PER_CHANGE >= switches;
        if self.is_copied {
            for copies in [&mut self.before, &mut self.after] {
                copies.blocks.gather((block, u64::MAX), &mut copies.entries);
            }
        }
    }

    /// The entry of a switch before the change, for a LID of the block.
    pub(super) fn before(&self, switch: SwitchIdx, lid: Lid) -> u8 {
        if self.is_copied {
            return self.before.entries[BlockEntries::place(switch, lid)];
        }
        self.difference.entry_before(switch, lid)
    }

    /// The entry of a switch after the change, for a LID of the block.
    pub(super) fn after(&self, switch: SwitchIdx, lid: Lid) -> u8 {
        if self.is_copied {
            return self.after.entries[BlockEntries::place(switch, lid)];
        }
        self.difference.entry_after(switch, lid)
    }

    /// The index of an entry in [`Copies::entries`].
    fn place(switch: SwitchIdx, lid: Lid) -> usize {
        switch.index() * BLOCK_LIDS + lid.index() % BLOCK_LIDS
    }

    /// Whether the entry of a switch for a LID of the block changes.
    pub(super) fn changes(&self, switch: SwitchIdx, lid: Lid) -> bool {
        self.before(switch, lid) != self.after(switch, lid)
    }

    /// The LIDs of the block that change, lowest first, each with the switches among `switches` in
    /// which it changes.
    pub(super) fn changed(
        &self,
        switches: &[SwitchIdx],
    ) -> impl Iterator<Item = (Lid, Vec<SwitchIdx>)> {
        let mut by_lid: [Vec<SwitchIdx>; BLOCK_LIDS] = std::array::from_fn(|_| Vec::new());
        for &switch in switches {
            for entry in self.difference.entries_in(switch, self.block) {
                by_lid[entry.lid.index() % BLOCK_LIDS].push(switch);
            }
        }
        // Tables are indexed by LID.
        let first = self.block * BLOCK_LIDS;
        let lids = (first..).map(|lid| Lid(lid as u16)).zip(by_lid);
        lids.filter(|(_, switches)| !switches.is_empty())
    }
}
