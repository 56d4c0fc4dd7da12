//! Steps of rebalancing: moves of levelling, in few blocks of tables.

use std::collections::BTreeSet;

use super::level::{MAX_READS, PRICES};
use super::spread::MAX_ENTRIES;
use super::{Budget, Leveller, Target};
use crate::tables::{BLOCK_LIDS, Lft};

/// Spreading pays where each block of tables that changes saves this part of all meetings: below
/// that, the gain is not worth packets overtaking each other.
const WORTH_OF_BLOCK: f64 = 1e-4;

impl Leveller<'_> {
    /// Moves packets to `targets` off links that have more than `high`, and returns the number of
    /// moves. Those that cost shifts nothing come first; the others have the price at which the
    /// tables would be best without the budget.
    pub(in super::super::super) fn relieve_step(
        &mut self,
        high: u64,
        targets: &[Target],
        lfts: &mut [Lft],
        budget: &mut Budget,
    ) -> usize {
        self.set_high(high);
        let free = self.relieve_at(0, targets, lfts, budget);
        if free > 0 || self.full.is_empty() {
            return free;
        }
        match self.best_price(targets, lfts) {
            Some(price) => self.relieve_at(price, targets, lfts, budget),
            None => 0,
        }
    }

    /// The price at which relief makes the tables best; `None` where all make them worse.
    fn best_price(&mut self, targets: &[Target], lfts: &mut [Lft]) -> Option<u64> {
        if (targets.len() * lfts.len()) as u64 > MAX_READS {
            // A look at each price would take seconds.
            return Some(u64::MAX);
        }
        let times = self.time.clone();
        let before = self.load.clone();
        let mut least = self.badness(&times, targets, lfts);
        let mut best = None;
        for price in PRICES {
            self.reads = MAX_READS;
            let moved = self.relieve_at(price, targets, lfts, &mut Budget::of(usize::MAX));
            if moved > 0 {
                let badness = self.badness(&times, targets, lfts);
                if badness < least {
                    (least, best) = (badness, Some(price));
                }
                self.start_again(&before, lfts);
            }
        }
        self.reads = MAX_READS;
        best
    }

    /// Moves entries for `targets` to ways on which their packets meet fewer others, if all such
    /// moves together are worth it, and returns the number of moves. No link gets more load
    /// than the fullest on the way before, or `high`.
    pub(in super::super::super) fn spread_step(
        &mut self,
        high: u64,
        targets: &[Target],
        lfts: &mut [Lft],
        budget: &mut Budget,
    ) -> usize {
        if targets.len() * lfts.len() > MAX_ENTRIES {
            return 0;
        }
        self.set_high(high);
        let times = self.time.clone();
        let before = self.load.clone();
        let saved = self.spread(&times, targets, lfts);
        let moved = self.moved.iter();
        let blocks: BTreeSet<_> = moved
            .map(|moved| (moved.switch, moved.target.lid.index() / BLOCK_LIDS))
            .collect();
        self.start_again(&before, lfts);
        if blocks.is_empty() || saved < blocks.len() as f64 * WORTH_OF_BLOCK {
            return 0;
        }
        self.spread_within(targets, lfts, budget);
        self.moved.len()
    }

    /// Takes all moves back; `before` are the loads without them.
    fn start_again(&mut self, before: &[u64], lfts: &mut [Lft]) {
        self.take_back(0, lfts);
        self.load.copy_from_slice(before);
        self.set_high(self.high);
    }
}
