//! Limits the changes of one step of rebalancing.

use std::collections::BTreeSet;

use rsm_ids::Lid;

use crate::tables::BLOCK_LIDS;
use crate::topology::SwitchIdx;

/// A limit on the entries that the reducer may move.
pub(in super::super::super) struct Budget {
    /// The number of LFT blocks that may change; `usize::MAX` for no limit.
    blocks: usize,
    /// The blocks that have changed, as pairs of switch and block number; empty without a limit.
    changed: BTreeSet<(SwitchIdx, usize)>,
}

impl Budget {
    /// A limit of this many LFT blocks.
    pub(in super::super::super) fn of(blocks: usize) -> Budget {
        Budget {
            blocks,
            changed: BTreeSet::new(),
        }
    }

    /// Whether the entry of at least one switch for this LID may be moved.
    pub(super) fn may_allow(&self, lid: Lid) -> bool {
        let block = lid.index() / BLOCK_LIDS;
        self.changed.len() < self.blocks || self.changed.iter().any(|&(_, other)| other == block)
    }

    /// Whether the entry of this switch for this LID may be moved.
    pub(super) fn allows(&self, switch: SwitchIdx, lid: Lid) -> bool {
        self.changed.len() < self.blocks || self.changed.contains(&block_of(switch, lid))
    }

    /// Records the move of this switch's entry for this LID.
    pub(super) fn record(&mut self, switch: SwitchIdx, lid: Lid) {
        // With no limit, every block may change.
        if self.blocks < usize::MAX {
            self.changed.insert(block_of(switch, lid));
        }
    }
}

/// The LFT block that holds a switch's entry for a LID, as a pair of switch and block number.
pub(super) fn block_of(switch: SwitchIdx, lid: Lid) -> (SwitchIdx, usize) {
    (switch, lid.index() / BLOCK_LIDS)
}
