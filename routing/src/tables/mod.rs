//! The tables of switches as desired state: how each switch forwards packets.
//!
//! - [`Lft`]: the linear forwarding table (IBA 14.2.5.10, 18.2.4.3.3), one byte for each LID;
//! - [`Mft`]: the multicast forwarding table, and the [`Trees`] from which it is made;
//! - [`AdaptiveTable`]: sets of ports in place of single entries.
//!
//! Engines and [`crate::mcast`] make the tables, and [`crate::verify`] proves them; this module
//! knows none of these.

mod adaptive;
mod difference;
mod multicast;
mod pool;
mod trees;

use std::sync::Arc;

use rayon::prelude::*;
use rsm_ids::{Lid, PortNum};

pub use self::adaptive::{AdaptiveTable, AdaptiveTables, NO_GROUP};
pub use self::difference::{Difference, Entry};
pub use self::multicast::{BLOCK_MLIDS, Mft, POSITION_PORTS, PortMask};
pub(crate) use self::pool::Pool;
pub use self::trees::{Group, Member, Tree, Trees};
use crate::topology::SwitchIdx;

/// The entry of a LID without a path: the switch discards the packets.
pub const NO_PATH: u8 = 255;

/// The number of LIDs that one LinearForwardingTable attribute carries (IBA 14.2.5.10).
pub const BLOCK_LIDS: usize = 64;

/// The number of blocks in a page. The memory of a page is shared and copied as a whole.
pub(crate) const PAGE_BLOCKS: usize = 64;

/// The number of entries in a page, which are adjacent in memory. A table of the largest subnet has
/// twelve pages: few enough to copy and compare as a list. A page is small enough that a change of
/// one entry costs little.
pub(crate) const PAGE_LIDS: usize = PAGE_BLOCKS * BLOCK_LIDS;

/// The number of blocks of the whole LID space: 65,536 LIDs.
const MAX_BLOCKS: usize = (u16::MAX as usize + 1) / BLOCK_LIDS;

pub(crate) type Page = [u8; PAGE_LIDS];

/// The linear forwarding table of one switch: the output port of each LID.
///
/// Entries past its end are [`NO_PATH`]. Tables with equal entries are equal, even if their lengths
/// differ. A clone shares the entries; a change in either copy copies only the changed page.
#[derive(Clone, Default)]
pub struct Lft {
    pages: Arc<[Arc<Page>]>,
}

impl Lft {
    /// Creates a table without paths, with room for the LIDs `0..lids`.
    pub fn new(lids: usize) -> Lft {
        let page = Arc::new([NO_PATH; PAGE_LIDS]);
        Lft::from_pages(vec![page; lids.div_ceil(PAGE_LIDS)])
    }

    /// Creates a table with these entries, from LID 0 on.
    pub fn from_entries(entries: &[u8]) -> Lft {
        Lft::from_pages(entries.chunks(PAGE_LIDS).map(page).collect())
    }

    pub(crate) fn from_pages(pages: Vec<Arc<Page>>) -> Lft {
        Lft {
            pages: pages.into(),
        }
    }

    /// The output port of `lid`, 0 for the switch's own LIDs; `None` if the switch discards packets
    /// to `lid`.
    pub fn port(&self, lid: Lid) -> Option<PortNum> {
        match self.entry(lid) {
            NO_PATH => None,
            port => Some(PortNum(port)),
        }
    }

    /// The entry for `lid`; [`NO_PATH`] past the end.
    pub fn entry(&self, lid: Lid) -> u8 {
        let page = self.pages.get(lid.index() / PAGE_LIDS);
        page.map_or(NO_PATH, |page| page[lid.index() % PAGE_LIDS])
    }

    /// Sets the entry for `lid`, and grows the table if needed.
    pub fn set_entry(&mut self, lid: Lid, port: u8) {
        if self.entry(lid) != port {
            self.page_mut(lid.index() / PAGE_LIDS)[lid.index() % PAGE_LIDS] = port;
        }
    }

    /// The highest LID that has a path, the value for SwitchInfo's LinearFDBTop (IBA 14.2.5.4);
    /// `None` for a table without paths.
    pub fn top(&self) -> Option<Lid> {
        self.pages
            .iter()
            .enumerate()
            .rev()
            .find_map(|(number, page)| {
                let last = page.iter().rposition(|&port| port != NO_PATH)?;
                // Tables are indexed by LID.
                Some(Lid((number * PAGE_LIDS + last) as u16))
            })
    }

    /// The number of blocks that contain all entries; [`Lft::block`] returns only [`NO_PATH`] from
    /// this index on.
    pub fn blocks(&self) -> usize {
        self.pages.len() * PAGE_BLOCKS
    }

    /// The 64 entries from LID `64 * index` on, as the LinearForwardingTable attribute carries
    /// them.
    pub fn block(&self, index: usize) -> &[u8; BLOCK_LIDS] {
        let (blocks, _) = self.page(index / PAGE_BLOCKS).as_chunks();
        &blocks[index % PAGE_BLOCKS]
    }

    /// The page with this number; a page without paths past the end.
    pub(crate) fn page(&self, number: usize) -> &Page {
        static NOTHING: Page = [NO_PATH; PAGE_LIDS];
        self.pages.get(number).map_or(&NOTHING, |page| &**page)
    }

    /// Replaces the 64 entries from LID `64 * index` on.
    ///
    /// Blocks past the LID space (`index` above 1,023) hold no LID and are ignored.
    pub fn set_block(&mut self, index: usize, block: &[u8; BLOCK_LIDS]) {
        if index < MAX_BLOCKS && self.block(index) != block {
            let start = index % PAGE_BLOCKS * BLOCK_LIDS;
            self.page_mut(index / PAGE_BLOCKS)[start..][..BLOCK_LIDS].copy_from_slice(block);
        }
    }

    /// Whether block `index` equals that block of `other`.
    pub fn block_eq(&self, other: &Lft, index: usize) -> bool {
        let page = index / PAGE_BLOCKS;
        self.shares_page(other, page) || self.block(index) == other.block(index)
    }

    /// The blocks that differ from those of `other`, lowest first.
    pub fn differing_blocks<'a>(&'a self, other: &'a Lft) -> impl Iterator<Item = usize> + 'a {
        let pages = if self.is_shared_with(other) {
            0
        } else {
            self.pages.len().max(other.pages.len())
        };
        (0..pages)
            .filter(|&page| !self.shares_page(other, page))
            .flat_map(|page| page * PAGE_BLOCKS..(page + 1) * PAGE_BLOCKS)
            .filter(|&block| self.block(block) != other.block(block))
    }

    /// The LIDs whose entries differ from those of `other`, lowest first.
    pub fn differing<'a>(&'a self, other: &'a Lft) -> impl Iterator<Item = Lid> + 'a {
        self.differing_blocks(other).flat_map(|block| {
            let entries = self.block(block).iter().zip(other.block(block));
            let differing = entries.enumerate().filter(|(_, (one, other))| one != other);
            // Tables are indexed by LID.
            differing.map(move |(offset, _)| Lid((block * BLOCK_LIDS + offset) as u16))
        })
    }

    /// Whether the two tables share all memory. They are then equal; equal tables need not share
    /// memory.
    pub fn is_shared_with(&self, other: &Lft) -> bool {
        Arc::ptr_eq(&self.pages, &other.pages)
    }

    /// Makes pages that equal those of `other` share memory with them.
    pub fn share_with(&mut self, other: &Lft) {
        if self.is_shared_with(other) {
            return;
        }
        if self == other {
            *self = other.clone();
            return;
        }
        let is_alike = |(page, (one, other)): (usize, (&Arc<Page>, &Arc<Page>))| {
            (!Arc::ptr_eq(one, other) && one == other).then_some(page)
        };
        let page_pairs = self.pages.iter().zip(other.pages.iter()).enumerate();
        let alike: Vec<usize> = page_pairs.filter_map(is_alike).collect();
        if !alike.is_empty() {
            let pages = Arc::make_mut(&mut self.pages);
            for page in alike {
                pages[page] = other.pages[page].clone();
            }
        }
    }

    /// Makes the page of block `index` share memory with that of `other` if the two are equal.
    pub fn share_page_with(&mut self, other: &Lft, index: usize) {
        let number = index / PAGE_BLOCKS;
        if let (Some(one), Some(shared)) = (self.pages.get(number), other.pages.get(number))
            && !Arc::ptr_eq(one, shared)
            && one == shared
        {
            Arc::make_mut(&mut self.pages)[number] = shared.clone();
        }
    }

    /// Whether block `index` is the last block of a page.
    pub fn ends_page(index: usize) -> bool {
        index % PAGE_BLOCKS == PAGE_BLOCKS - 1
    }

    /// The entries by LID, from LID 0 on.
    pub fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        self.pages.iter().flat_map(|page| page.iter().copied())
    }

    /// The entries of a range of LIDs in contiguous pieces, without LIDs past the end of the table.
    pub fn pieces(&self, lids: std::ops::Range<usize>) -> impl Iterator<Item = &[u8]> + '_ {
        let pages = lids.start / PAGE_LIDS..lids.end.div_ceil(PAGE_LIDS).min(self.pages.len());
        pages.map(move |number| {
            let first = number * PAGE_LIDS;
            let start = lids.start.saturating_sub(first);
            let end = (lids.end - first).min(PAGE_LIDS);
            &self.pages[number][start..end]
        })
    }

    /// The number of LIDs, from LID 0 on, for which the table has entries.
    pub fn lids(&self) -> usize {
        self.pages.len() * PAGE_LIDS
    }

    /// Whether both tables share the page in memory, or both lack it.
    fn shares_page(&self, other: &Lft, page: usize) -> bool {
        match (self.pages.get(page), other.pages.get(page)) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        }
    }

    /// Sets entries of one page; the page stays shared if none of them differs.
    fn set_in_page(&mut self, number: usize, entries: &[(SwitchIdx, Lid, u8)]) {
        let differs = |&(_, lid, port): &(SwitchIdx, Lid, u8)| self.entry(lid) != port;
        if let Some(first) = entries.iter().position(differs) {
            let page = self.page_mut(number);
            for &(_, lid, port) in &entries[first..] {
                page[lid.index() % PAGE_LIDS] = port;
            }
        }
    }

    /// A page, for changes; grows the table if needed.
    fn page_mut(&mut self, number: usize) -> &mut Page {
        if number >= self.pages.len() {
            let mut pages = self.pages.to_vec();
            pages.resize(number + 1, Arc::new([NO_PATH; PAGE_LIDS]));
            self.pages = pages.into();
        }
        Arc::make_mut(&mut Arc::make_mut(&mut self.pages)[number])
    }
}

/// Creates a page that begins with `entries`, at most [`PAGE_LIDS`] of them.
pub(crate) fn page(entries: &[u8]) -> Arc<Page> {
    match Arc::<[u8]>::from(entries).try_into() {
        Ok(page) => page,
        Err(_) => {
            let mut page = [NO_PATH; PAGE_LIDS];
            page[..entries.len()].copy_from_slice(entries);
            Arc::new(page)
        }
    }
}

impl std::fmt::Debug for Lft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let entries = self.iter().enumerate();
        f.debug_map()
            .entries(entries.filter(|&(_, port)| port != NO_PATH))
            .finish()
    }
}

impl PartialEq for Lft {
    fn eq(&self, other: &Self) -> bool {
        let [short, long] = if self.pages.len() < other.pages.len() {
            [self, other]
        } else {
            [other, self]
        };
        let pages = short.pages.len();
        self.is_shared_with(other)
            || short
                .pages
                .iter()
                .zip(long.pages.iter())
                .all(|(one, other)| Arc::ptr_eq(one, other) || one == other)
                && long.pages[pages..]
                    .iter()
                    .all(|page| page.iter().all(|&port| port == NO_PATH))
    }
}

impl Eq for Lft {}

/// The forwarding tables of a whole fabric, indexed by [`SwitchIdx`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// The table of each switch, in the order of the topology.
    pub lfts: Vec<Lft>,
}

impl Tables {
    /// The table of a switch.
    ///
    /// # Panics
    /// If the topology of the tables has no such switch.
    pub fn lft(&self, switch: SwitchIdx) -> &Lft {
        &self.lfts[switch.index()]
    }

    /// The number of 64-LID blocks that differ from those of `other`, which is the number of Sets
    /// for a change from one to the other. For a switch that only one set of tables has, every
    /// block with a path counts.
    pub fn blocks_changed(&self, other: &Tables) -> usize {
        let none = Lft::default();
        (0..self.lfts.len().max(other.lfts.len()))
            .map(|switch| {
                let mine = self.lfts.get(switch).unwrap_or(&none);
                let theirs = other.lfts.get(switch).unwrap_or(&none);
                mine.differing_blocks(theirs).count()
            })
            .sum()
    }

    /// Sets entries of some switches. Entries must be grouped by switch, in ascending order of
    /// switches.
    ///
    /// # Panics
    /// If the topology of the tables has no such switch.
    pub(crate) fn set_entries(&mut self, entries: &[(SwitchIdx, Lid, u8)]) {
        let mut work = Vec::new();
        let mut rest = &mut self.lfts[..];
        let mut first = 0;
        for entries in entries.chunk_by(|one, other| one.0 == other.0) {
            let place = entries[0].0.index();
            let (_, from) = rest.split_at_mut(place - first);
            let (lft, after) = from.split_first_mut().expect("the topology has the switch");
            work.push((lft, entries));
            (rest, first) = (after, place + 1);
        }
        let page = |&(_, lid, _): &(SwitchIdx, Lid, u8)| lid.index() / PAGE_LIDS;
        work.into_par_iter().for_each(|(lft, entries)| {
            for entries in entries.chunk_by(|one, other| page(one) == page(other)) {
                lft.set_in_page(page(&entries[0]), entries);
            }
        });
    }

    /// Makes pages that equal those of `other`, tables of the same topology, share memory with
    /// them, so that later comparisons are quick.
    pub fn share_with(&mut self, other: &Tables) {
        let lft_pairs = self.lfts.par_iter_mut().zip(&other.lfts);
        lft_pairs.for_each(|(lft, other)| lft.share_with(other));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lids_past_the_end_have_no_path() {
        let mut lft = Lft::new(3);
        assert_eq!(lft.top(), None);
        assert_eq!(lft.port(Lid(7)), None);
        lft.set_entry(Lid(5000), 4);
        assert_eq!(lft.top(), Some(Lid(5000)));
        assert_eq!(lft.port(Lid(5000)), Some(PortNum(4)));
        assert_eq!(lft.blocks(), 128);
        assert_eq!(lft.block(78)[8], 4);
        assert_eq!(lft.block(78)[9], NO_PATH);
        assert_eq!(lft.block(128), &[NO_PATH; BLOCK_LIDS]);
        assert_eq!(lft.block(usize::MAX), &[NO_PATH; BLOCK_LIDS]);
    }

    #[test]
    fn tables_with_equal_entries_are_equal_at_any_length() {
        let mut short = Lft::new(1);
        short.set_entry(Lid(5), 2);
        let mut long = Lft::new(9000);
        long.set_entry(Lid(5), 2);
        assert_eq!(short, long);
        assert_eq!(long, short);
        assert!((0..200).all(|block| short.block_eq(&long, block)));
        long.set_entry(Lid(8000), 1);
        assert_ne!(short, long);
        assert_ne!(long, short);
        assert!(!short.block_eq(&long, 8000 / BLOCK_LIDS));
        assert_eq!(short.differing(&long).collect::<Vec<_>>(), [Lid(8000)]);
        assert_eq!(long.differing(&short).collect::<Vec<_>>(), [Lid(8000)]);
        let (short, long) = (Tables { lfts: vec![short] }, Tables { lfts: vec![long] });
        assert_eq!(short.blocks_changed(&long), 1);
        assert_eq!(short.blocks_changed(&Tables::default()), 1);
    }

    #[test]
    fn set_block_changes_the_last_block_and_ignores_later_ones() {
        let mut block = [NO_PATH; BLOCK_LIDS];
        block[63] = 9;
        let mut lft = Lft::default();
        lft.set_block(1023, &block);
        lft.set_block(1024, &[0; BLOCK_LIDS]);
        assert_eq!(lft.block(1023), &block);
        assert_eq!(lft.entry(Lid(u16::MAX)), 9);
        assert_eq!(lft.blocks(), 1024);
    }

    #[test]
    fn set_entries_equals_setting_one_entry_at_a_time() {
        let lft = |first: u8| {
            let entries: Vec<u8> = (0..9000).map(|lid| first + (lid % 100) as u8).collect();
            Lft::from_entries(&entries)
        };
        let before = Tables {
            lfts: vec![lft(0), lft(1), lft(2)],
        };
        // The cases: pages in any order, an entry that is set twice, one past the end, and a page
        // without a difference.
        let entries = [
            (SwitchIdx(0), Lid(5000), 7),
            (SwitchIdx(0), Lid(3), 7),
            (SwitchIdx(0), Lid(5000), 8),
            (SwitchIdx(0), Lid(20_000), 9),
            (SwitchIdx(2), Lid(1), 3),
            (SwitchIdx(2), Lid(8500), 200),
        ];
        let mut together = before.clone();
        together.set_entries(&entries);
        let mut one_by_one = before.clone();
        for (switch, lid, port) in entries {
            one_by_one.lfts[switch.index()].set_entry(lid, port);
        }
        assert_eq!(together, one_by_one);
        assert!(together.lfts[1].is_shared_with(&before.lfts[1]));
        assert!(together.lfts[2].shares_page(&before.lfts[2], 0));
    }

    #[test]
    fn a_change_of_a_clone_leaves_the_original_unchanged() {
        let entries: Vec<u8> = (0..10_000).map(|lid| (lid % 200) as u8).collect();
        let original = Lft::from_entries(&entries);
        let mut other = original.clone();
        other.set_entry(Lid(4096), 250);
        assert_eq!(original.entry(Lid(4096)), 96);
        assert_eq!(other.entry(Lid(4096)), 250);
        assert_eq!(original.iter().take(10_000).collect::<Vec<_>>(), entries);
        assert!(original.shares_page(&other, 0) && !original.shares_page(&other, 1));
        let pieces: Vec<u8> = other.pieces(4090..4100).flatten().copied().collect();
        assert_eq!(pieces, [90, 91, 92, 93, 94, 95, 250, 97, 98, 99]);
        assert_eq!(other.pieces(12_200..20_000).flatten().count(), 88);
        assert_eq!(other.pieces(20_000..20_001).count(), 0);

        let mut alike = Lft::from_entries(&entries);
        alike.set_entry(Lid(9000), 3);
        alike.share_with(&original);
        assert!(alike.shares_page(&original, 0) && alike.shares_page(&original, 1));
        assert_eq!(alike.differing(&original).collect::<Vec<_>>(), [Lid(9000)]);
        alike.set_entry(Lid(9000), original.entry(Lid(9000)));
        alike.share_with(&original);
        assert!(alike.is_shared_with(&original));
    }
}
