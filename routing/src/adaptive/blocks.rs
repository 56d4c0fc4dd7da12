//! Counts the blocks of adaptive-routing attributes that a change of tables writes.

use crate::tables::{Lft, Tables};

use super::{AdaptiveTable, AdaptiveTables};

/// The number of groups of one sub group that one ARGroupTable attribute carries.
pub const GROUPS_PER_BLOCK: usize = 2;

/// The number of LIDs whose entries one ARLFT attribute carries.
pub const ENTRIES_PER_BLOCK: usize = 16;

/// The number of blocks that a change writes, by attribute; each block is one Set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// The number of groups whose set of ports changes, summed over all switches.
    pub groups: usize,
    /// The number of ARGroupTable blocks, of two groups each.
    pub group_blocks: usize,
    /// The number of ARLFT blocks, of 16 entries each. An entry holds both the group and the LFT
    /// port of a LID.
    pub entry_blocks: usize,
    /// The number of LFT blocks, of 64 entries each.
    pub table_blocks: usize,
    /// The number of switches with at least one changed block.
    pub switches: usize,
}

impl Blocks {
    fn add(&mut self, other: Blocks) {
        self.groups += other.groups;
        self.group_blocks += other.group_blocks;
        self.entry_blocks += other.entry_blocks;
        self.table_blocks += other.table_blocks;
        self.switches += other.switches;
    }

    /// The total number of blocks, which is the number of Sets.
    pub fn sets(&self) -> usize {
        self.group_blocks + self.entry_blocks + self.table_blocks
    }
}

/// Counts the blocks in which two states of the same switches differ. A switch without entries in
/// both states has no ARLFT blocks, because it forwards only by its LFT.
pub fn blocks_changed(old: (&Tables, &AdaptiveTables), new: (&Tables, &AdaptiveTables)) -> Blocks {
    let none = (Lft::default(), AdaptiveTable::default());
    let count = new.0.lfts.len().max(old.0.lfts.len());
    let mut blocks = Blocks::default();
    for switch in 0..count {
        let [old, new] = [old, new].map(|(tables, adaptive)| {
            let lft = tables.lfts.get(switch).unwrap_or(&none.0);
            (lft, adaptive.switches.get(switch).unwrap_or(&none.1))
        });
        blocks.add(of_switch(old, new));
    }
    blocks
}

/// Counts the blocks in which two states of one switch differ.
fn of_switch(old: (&Lft, &AdaptiveTable), new: (&Lft, &AdaptiveTable)) -> Blocks {
    let groups: Vec<u16> = new.1.differing_groups(old.1).collect();
    let group_blocks = groups
        .chunk_by(|&one, &other| block_of(one) == block_of(other))
        .count();
    let mut lids = new.1.differing_entries(old.1);
    if old.1.lids() > 0 || new.1.lids() > 0 {
        lids.extend(new.0.differing(old.0));
    }
    let mut entry_blocks: Vec<usize> = lids
        .iter()
        .map(|lid| lid.index() / ENTRIES_PER_BLOCK)
        .collect();
    entry_blocks.sort_unstable();
    entry_blocks.dedup();
    let mut blocks = Blocks {
        groups: groups.len(),
        group_blocks,
        entry_blocks: entry_blocks.len(),
        table_blocks: new.0.differing_blocks(old.0).count(),
        switches: 0,
    };
    blocks.switches = usize::from(blocks.sets() > 0);
    blocks
}

/// The number of the ARGroupTable block that holds a group.
fn block_of(group: u16) -> usize {
    usize::from(group) / GROUPS_PER_BLOCK
}

#[cfg(test)]
mod tests {
    use rsm_ids::{Lid, PortNum};

    use super::*;

    #[test]
    fn changes_within_one_block_count_as_one_block() {
        let mut tables = Tables {
            lfts: vec![Lft::default(); 2],
        };
        let mut groups = AdaptiveTables {
            switches: vec![AdaptiveTable::default(); 2],
        };
        let before = (tables.clone(), groups.clone());
        let ports = |port| [PortNum(port)].into_iter().collect();
        for (group, port) in [(2, 1), (3, 2), (4, 3)] {
            groups.switches[0].set_group(group, ports(port));
        }
        groups.switches[0].set_entry(Lid(15), 2);
        groups.switches[0].set_entry(Lid(16), 3);
        tables.lfts[0].set_entry(Lid(17), 1);
        tables.lfts[1].set_entry(Lid(17), 1);
        let changed = blocks_changed((&before.0, &before.1), (&tables, &groups));
        let expected = Blocks {
            groups: 3,
            group_blocks: 2,
            // LID 15 in one block, LIDs 16 and 17 in the next; the second switch has no entries.
            entry_blocks: 2,
            table_blocks: 2,
            switches: 2,
        };
        assert_eq!(changed, expected);
        assert_eq!(changed.sets(), 6);
        let unchanged = blocks_changed((&tables, &groups), (&tables, &groups));
        assert_eq!(unchanged, Blocks::default());
    }
}
