//! The blocks in which switches take groups and entries.

use crate::tables::{Lft, Tables};

use super::{AdaptiveTable, AdaptiveTables};

/// How many groups of one sub group one ARGroupTable attribute carries.
pub const GROUPS_PER_BLOCK: usize = 2;

/// How many LIDs one entry table attribute (ARLFT) carries.
pub const ENTRIES_PER_BLOCK: usize = 16;

/// How many blocks a change writes, each one Set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// Groups with other ports, all switches together.
    pub groups: usize,
    /// Blocks of two groups.
    pub group_blocks: usize,
    /// Blocks of 16 entries. An entry has the port of the forwarding table beside its group.
    pub entry_blocks: usize,
    /// Blocks of the forwarding table.
    pub table_blocks: usize,
    /// How many switches have one of them.
    pub switches: usize,
}

impl Blocks {
    /// All blocks together.
    pub fn sets(&self) -> usize {
        self.group_blocks + self.entry_blocks + self.table_blocks
    }
}

/// The blocks in which two states of the same switches differ. A switch without groups and entries
/// in both has no entry blocks: it forwards by its table alone.
pub fn blocks_changed(old: (&Tables, &AdaptiveTables), new: (&Tables, &AdaptiveTables)) -> Blocks {
    let none = (Lft::default(), AdaptiveTable::default());
    let count = new.0.lfts.len().max(old.0.lfts.len());
    let mut blocks = Blocks::default();
    for switch in 0..count {
        let of = |tables: (&'_ Tables, &'_ AdaptiveTables)| {
            let lft = tables.0.lfts.get(switch).unwrap_or(&none.0).clone();
            let adaptive = tables.1.switches.get(switch).unwrap_or(&none.1).clone();
            (lft, adaptive)
        };
        let (old, new) = (of(old), of(new));
        let groups: Vec<u16> = new.1.differing_groups(&old.1).collect();
        let mut in_blocks: Vec<usize> = groups
            .iter()
            .map(|&group| usize::from(group) / GROUPS_PER_BLOCK)
            .collect();
        in_blocks.dedup();
        let forwards_by_table = old.1.lids() == 0 && new.1.lids() == 0;
        let table_lids: Vec<usize> = new.0.differing(&old.0).map(|lid| lid.index()).collect();
        let mut entries = table_lids;
        if forwards_by_table {
            entries.clear();
        }
        entries.extend(
            new.1
                .differing_entries(&old.1)
                .iter()
                .map(|lid| lid.index()),
        );
        entries.iter_mut().for_each(|lid| *lid /= ENTRIES_PER_BLOCK);
        entries.sort_unstable();
        entries.dedup();
        let table_blocks = new.0.differing_blocks(&old.0).count();
        blocks.groups += groups.len();
        blocks.group_blocks += in_blocks.len();
        blocks.entry_blocks += entries.len();
        blocks.table_blocks += table_blocks;
        blocks.switches += usize::from(in_blocks.len() + entries.len() + table_blocks > 0);
    }
    blocks
}
