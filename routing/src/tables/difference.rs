//! The differences between two sets of tables.

use rayon::prelude::*;
use rsm_ids::Lid;

use super::{BLOCK_LIDS, Lft, NO_PATH, Tables};
use crate::topology::SwitchIdx;

/// An entry that differs between two tables of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The LID of the entry.
    pub lid: Lid,
    /// The previous output port, [`NO_PATH`](super::NO_PATH) for none.
    pub before: u8,
    /// The new output port, [`NO_PATH`](super::NO_PATH) for none.
    pub after: u8,
}

/// Two sets of tables by the same switch numbers, and the blocks in which they differ. Users share
/// a difference, so that the tables are compared only once.
#[derive(Clone, Debug)]
pub struct Difference<'a> {
    before: &'a Tables,
    after: &'a Tables,
    /// For each switch, the numbers of the blocks that differ, lowest first.
    blocks: Vec<Vec<u16>>,
}

impl<'a> Difference<'a> {
    /// Compares two sets of tables. A switch that `before` lacks counts as a switch without paths;
    /// a switch that `after` lacks is ignored.
    pub fn between(before: &'a Tables, after: &'a Tables) -> Difference<'a> {
        let of_switch = |(index, after): (usize, &Lft)| -> Vec<u16> {
            let blocks = |before: &Lft| {
                let blocks = after.differing_blocks(before);
                // There are 1,024 blocks.
                blocks.map(|block| block as u16).collect()
            };
            match before.lfts.get(index) {
                Some(before) => blocks(before),
                None => blocks(&Lft::default()),
            }
        };
        let blocks = after.lfts.par_iter().enumerate().map(of_switch);
        Difference {
            before,
            after,
            blocks: blocks.collect(),
        }
    }

    /// The previous tables.
    pub fn before(&self) -> &'a Tables {
        self.before
    }

    /// The new tables.
    pub fn after(&self) -> &'a Tables {
        self.after
    }

    /// The previous entry of a LID; [`NO_PATH`] for a switch that had no table.
    pub fn entry_before(&self, switch: SwitchIdx, lid: Lid) -> u8 {
        let lft = self.before.lfts.get(switch.index());
        lft.map_or(NO_PATH, |lft| lft.entry(lid))
    }

    /// The new entry of a LID. Panics for a switch that the new tables lack.
    pub fn entry_after(&self, switch: SwitchIdx, lid: Lid) -> u8 {
        self.after.lft(switch).entry(lid)
    }

    /// Whether all entries are equal.
    pub fn is_empty(&self) -> bool {
        self.blocks.iter().all(Vec::is_empty)
    }

    /// For each switch, the numbers of the blocks that differ, lowest first.
    pub fn blocks(&self) -> &[Vec<u16>] {
        &self.blocks
    }

    /// The entries of a switch that differ, sorted by LID.
    pub fn entries(&self, switch: SwitchIdx) -> impl Iterator<Item = Entry> + '_ {
        let blocks = self.blocks.get(switch.index()).into_iter().flatten();
        blocks.flat_map(move |&block| self.entries_in(switch, usize::from(block)))
    }

    /// The previous and the new entries of a block of a switch.
    pub fn block_in(&self, switch: SwitchIdx, block: usize) -> [&'a [u8; BLOCK_LIDS]; 2] {
        const NO_PATHS: &[u8; BLOCK_LIDS] = &[NO_PATH; BLOCK_LIDS];
        [self.before, self.after].map(|tables| {
            let lft = tables.lfts.get(switch.index());
            lft.map_or(NO_PATHS, |lft| lft.block(block))
        })
    }

    /// The entries of a block of a switch that differ, sorted by LID.
    fn entries_in(&self, switch: SwitchIdx, block: usize) -> impl Iterator<Item = Entry> + '_ {
        let [before, after] = self.block_in(switch, block);
        let entries = before.iter().zip(after).enumerate();
        entries.filter(|(_, (before, after))| before != after).map(
            move |(offset, (&before, &after))| Entry {
                // Tables are indexed by LID.
                lid: Lid((block * BLOCK_LIDS + offset) as u16),
                before,
                after,
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_switch_differs_in_all_entries_with_a_path() {
        let before = Tables {
            lfts: vec![Lft::from_entries(&[255, 1, 2])],
        };
        let after = Tables {
            lfts: vec![Lft::from_entries(&[255, 1, 3]), {
                let mut lft = Lft::default();
                lft.set_entry(Lid(70), 5);
                lft
            }],
        };
        let difference = Difference::between(&before, &after);
        assert!(!difference.is_empty());
        assert_eq!(difference.blocks(), [vec![0], vec![1]]);
        let entry = |lid, before, after| Entry {
            lid: Lid(lid),
            before,
            after,
        };
        let entries_of = |switch| difference.entries(SwitchIdx(switch)).collect::<Vec<_>>();
        assert_eq!(entries_of(0), [entry(2, 2, 3)]);
        assert_eq!(entries_of(1), [entry(70, 255, 5)]);
        assert_eq!(entries_of(2), []);
        assert!(Difference::between(&after, &after).is_empty());
    }
}
