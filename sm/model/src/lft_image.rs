//! The linear forwarding table that a switch holds, as far as it is known.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::Lid;
use rsm_mad::wire::attr::LinearForwardingTable;
use rsm_routing::tables::Lft;

use super::image::BlockState;

/// Entries in one block of a linear forwarding table (IBA 14.2.5.10).
pub const LFT_BLOCK: usize = 64;

/// The linear forwarding table of a switch, with the state of each block.
///
/// Entries are shared copy-on-write, so that a plan can be checked against the content of the
/// hardware while acknowledgements change it.
#[derive(Clone, Default, Debug)]
pub struct LftImage {
    /// Entries as last known; 255 (no path) in unread blocks.
    entries: Lft,
    /// State of each block; blocks past the end are unknown.
    states: Vec<BlockState>,
    /// Entries of unanswered Sets that differ from the held entries, by block. Contains only blocks
    /// that are dirty for no other reason than these Sets.
    sent: BTreeMap<usize, BTreeSet<(Lid, u8)>>,
    /// Whether entries that are read back do not count; see [`LftImage::distrust`].
    distrusted: bool,
}

impl LftImage {
    /// The state of block `block`; unknown for a block that was never read or written.
    fn state(&self, block: usize) -> BlockState {
        self.states
            .get(block)
            .copied()
            .unwrap_or(BlockState::Unknown)
    }

    /// Whether the entries of block `block` are known.
    pub fn is_known(&self, block: usize) -> bool {
        self.state(block) == BlockState::Known
    }

    /// Whether block `block` is known to hold exactly `entries`.
    pub fn holds(&self, block: usize, entries: &[u8; LFT_BLOCK]) -> bool {
        self.is_known(block) && self.entries.block(block) == entries
    }

    /// Whether block `block` is known, and its entries up to LinearFDBTop `top` equal `entries`.
    /// Entries above LinearFDBTop are undefined (IBA 14.2.5.10).
    pub fn agrees(&self, block: usize, entries: &[u8; LFT_BLOCK], top: Lid) -> bool {
        let in_use = (top.index() + 1).saturating_sub(block * LFT_BLOCK);
        let in_use = ..in_use.min(LFT_BLOCK);
        self.is_known(block) && self.entries.block(block)[in_use] == entries[in_use]
    }

    /// The blocks among the first `count` blocks that are not known to hold the entries of `table`,
    /// ascending.
    pub fn not_held(&self, table: &Lft, count: usize) -> impl Iterator<Item = u16> {
        let unknown = (0..count).filter(|&block| !self.is_known(block));
        let differing = self.entries.differing_blocks(table);
        let mut blocks: Vec<usize> = unknown
            .chain(differing.take_while(|&block| block < count))
            .collect();
        blocks.sort_unstable();
        blocks.dedup();
        // A LID has sixteen bits, so the number of a block has ten.
        blocks.into_iter().map(|block| block as u16)
    }

    /// Records that a Get of block `block` was answered with `entries`.
    pub fn read(&mut self, block: usize, entries: &LinearForwardingTable) {
        let was_known = self.is_known(block);
        self.store(block, entries);
        if self.distrusted && !was_known {
            self.states[block] = BlockState::Distrusted;
        }
    }

    /// Stops trusting entries that are read back, because the switch may forward by other entries.
    /// Each block counts as not held until it is written.
    pub fn distrust(&mut self) {
        self.distrusted = true;
        self.replace(BlockState::Known, BlockState::Distrusted);
    }

    /// Ends the effect of [`LftImage::distrust`]. Sweeps then read the blocks again that were not
    /// written in the meantime.
    pub fn trust(&mut self) {
        self.distrusted = false;
        self.replace(BlockState::Distrusted, BlockState::Dirty);
    }

    /// Whether no block is distrusted.
    pub fn is_trusted(&self) -> bool {
        !self.distrusted && !self.states.contains(&BlockState::Distrusted)
    }

    /// Whether [`LftImage::distrust`] is in effect, so that entries read back do not count.
    pub fn is_distrusted(&self) -> bool {
        self.distrusted
    }

    /// Changes the state of all blocks in the state `before` to `after`.
    fn replace(&mut self, before: BlockState, after: BlockState) {
        for state in &mut self.states {
            if *state == before {
                *state = after;
            }
        }
    }

    /// Records that the switch holds `entries` in block `block`.
    pub fn store(&mut self, block: usize, entries: &LinearForwardingTable) {
        self.grow(block);
        self.entries.set_block(block, entries.ports());
        self.states[block] = BlockState::Known;
        self.sent.remove(&block);
    }

    /// Records an unanswered Set of block `block`: the block holds its old entries or `sent`.
    pub fn mark_sent(&mut self, block: usize, sent: &[u8; LFT_BLOCK]) {
        self.grow(block);
        if self.states[block] == BlockState::Known {
            self.sent.insert(block, BTreeSet::new());
        }
        self.states[block] = BlockState::Dirty;
        if let Some(entries) = self.sent.get_mut(&block) {
            let lids = (block * LFT_BLOCK..).map(|lid| Lid(lid as u16));
            let held = self.entries.block(block);
            let pairs = lids.zip(sent).zip(held);
            entries.extend(
                pairs
                    .filter(|((_, sent), held)| sent != held)
                    .map(|((lid, &sent), _)| (lid, sent)),
            );
        }
    }

    /// Entries of unanswered Sets up to LinearFDBTop `top`. The switch may hold them in place of
    /// the entries in [`LftImage::entries`].
    pub fn sent(&self, top: Lid) -> impl Iterator<Item = (Lid, u8)> + '_ {
        let entries = self.sent.values().flatten().copied();
        entries.filter(move |&(lid, _)| lid <= top)
    }

    /// Shares the pages that equal pages of `table`. This saves memory, up to 48 KiB per switch,
    /// and time, because shared pages are compared by address.
    pub fn share_with(&mut self, table: &Lft) {
        self.entries.share_with(table);
    }

    /// Shares the page around block `block` with `table`, if `block` was the last missing block of
    /// its page and the page now equals the page of `table`.
    ///
    /// The tables of all switches are written in parallel, block by block. Images that share
    /// nothing until their last block would double the memory of the plan's tables.
    pub fn share_around(&mut self, block: usize, table: &Lft) {
        if Lft::ends_page(block) {
            self.entries.share_page_with(table, block);
        }
    }

    /// Forgets all blocks after a reset of the switch.
    pub fn forget(&mut self) {
        *self = LftImage::default();
    }

    /// The entries by LID as last known; 255 in unread blocks.
    pub fn entries(&self) -> &Lft {
        &self.entries
    }

    /// Whether all entries up to `top` are known, except those of [`LftImage::sent`]. A switch
    /// whose LinearFDBTop is 0 forwards nothing.
    pub fn is_complete(&self, top: Lid) -> bool {
        let known = self.states.get(..=top.index() / LFT_BLOCK);
        let is_known =
            |states: &[BlockState]| states.iter().all(|&state| state == BlockState::Known);
        if known.is_some_and(is_known) {
            return true;
        }
        let mut blocks = 0..=top.index() / LFT_BLOCK;
        let is_determined = |block| self.is_known(block) || self.sent.contains_key(&block);
        top == Lid::NONE || blocks.all(is_determined)
    }

    /// The highest LID up to LinearFDBTop `top` to which the switch may forward packets. A block
    /// that is not known may hold any entries.
    pub fn highest_in_force(&self, top: Lid) -> Lid {
        let known = self.entries.top().unwrap_or(Lid::NONE);
        let mut blocks = (0..=top.index() / LFT_BLOCK).rev();
        let unknown = blocks.find(|&block| !self.is_known(block));
        // A LID has sixteen bits.
        let unknown = unknown.map_or(0, |block| (block + 1) * LFT_BLOCK - 1) as u16;
        top.min(known.max(Lid(unknown)))
    }

    /// Numbers of the blocks `0..=top/64` with unknown content.
    pub fn unknown_blocks(&self, top: Lid) -> impl Iterator<Item = usize> + '_ {
        (0..=top.index() / LFT_BLOCK)
            .filter(|&block| matches!(self.state(block), BlockState::Unknown | BlockState::Dirty))
    }

    /// Adds the state unknown for blocks until `block` has a state.
    fn grow(&mut self, block: usize) {
        if self.states.len() <= block {
            self.states.resize(block + 1, BlockState::Unknown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_blocks_may_be_in_force_up_to_the_top() {
        let mut empty = LinearForwardingTable::default();
        *empty.ports_mut() = [255; LFT_BLOCK];
        let mut block = empty;
        block.ports_mut()[5] = 7;
        let mut image = LftImage::default();
        for number in 0..4 {
            image.store(number, &empty);
        }
        assert_eq!(image.highest_in_force(Lid(255)), Lid::NONE);
        image.store(1, &block);
        assert_eq!(image.highest_in_force(Lid(255)), Lid(69));
        // The switch may hold the entries of a Set that it has not acknowledged.
        image.mark_sent(2, block.ports());
        assert_eq!(image.highest_in_force(Lid(255)), Lid(191));
        assert_eq!(image.highest_in_force(Lid(150)), Lid(150));
        assert_eq!(image.highest_in_force(Lid(127)), Lid(69));
        // Blocks that were never read may hold any entries.
        assert_eq!(image.highest_in_force(Lid(300)), Lid(300));
    }

    #[test]
    fn agreement_ignores_entries_above_the_top() {
        let mut block = LinearForwardingTable::default();
        *block.ports_mut() = [7; LFT_BLOCK];
        let mut image = LftImage::default();
        assert!(!image.agrees(1, block.ports(), Lid(100)), "never read");
        image.store(1, &block);
        for (index, agrees) in [(36, false), (37, true)] {
            let mut other = *block.ports();
            other[index] = 9;
            assert_eq!(image.agrees(1, &other, Lid(100)), agrees, "entry {index}");
        }
        assert!(image.agrees(1, &[9; LFT_BLOCK], Lid(63)));
    }
}
