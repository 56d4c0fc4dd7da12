//! Rebalancing steps: moves that lower the maximum link load, limited to a few LFT blocks.

use std::collections::BTreeSet;
use std::iter;

use super::budget::block_of;
use super::level::{MAX_READS, PRICES, full_above};
use super::spread::MAX_ENTRIES;
use super::{Budget, MaxLoadReducer, Target};
use crate::tables::Lft;

/// The share of all meetings of packets that spreading must save for each LFT block that changes.
/// A smaller saving is not worth the reordering of packets while entries change.
const MIN_SAVED_PER_BLOCK: f64 = 1e-4;

impl MaxLoadReducer<'_> {
    /// Moves entries for `targets` off full links; if no such move helps, moves entries to paths on
    /// which their packets meet fewer other packets. Returns the number of moves. `max_load_bound`
    /// is the lower bound of the maximum link load.
    pub(in super::super::super) fn step(
        &mut self,
        max_load_bound: u64,
        targets: &[Target],
        lfts: &mut [Lft],
        budget: &mut Budget,
    ) -> usize {
        self.set_full_limit(full_above(max_load_bound));
        match self.relieve_step(targets, lfts, budget) {
            0 => self.spread_step(targets, lfts, budget),
            moved => moved,
        }
    }

    /// Moves entries off full links if all such moves together improve the tables. Returns the
    /// number of moves.
    fn relieve_step(&mut self, targets: &[Target], lfts: &mut [Lft], budget: &mut Budget) -> usize {
        if self.full.is_empty() {
            return 0;
        }
        if (targets.len() * lfts.len()) as u64 > MAX_READS {
            // Computing the cost of the tables would take seconds on so large a fabric.
            let moved_at_zero = self.relieve_at(0, targets, lfts, budget);
            return moved_at_zero + self.relieve_at(u64::MAX, targets, lfts, budget);
        }
        if let Some(price) = self.improving_price(targets, lfts) {
            return self.relieve_at(price, targets, lfts, budget);
        }
        if targets.iter().all(Target::is_base) {
            return 0;
        }
        // The last LIDs of a port have few paths left that no other LID of the port takes, so let
        // LIDs of one port share a path.
        self.keeps_lids_apart = false;
        let price = self.improving_price(targets, lfts);
        let moved = price.map_or(0, |price| self.relieve_at(price, targets, lfts, budget));
        self.keeps_lids_apart = true;
        moved
    }

    /// The price at which moves off full links improve the tables: 0 if it improves them, else the
    /// price with the lowest table cost; `None` if no price improves the tables. Moves no entry.
    fn improving_price(&mut self, targets: &[Target], lfts: &mut [Lft]) -> Option<u64> {
        let times = self.time.clone();
        let loads_before = self.load.clone();
        let mut lowest_cost = self.table_cost(&times, targets, lfts);
        let mut best_price = None;
        for price in iter::once(0).chain(PRICES) {
            self.reads = MAX_READS;
            let moved = self.relieve_at(price, targets, lfts, &mut Budget::of(usize::MAX));
            if moved > 0 {
                let cost = self.table_cost(&times, targets, lfts);
                if cost < lowest_cost {
                    (lowest_cost, best_price) = (cost, Some(price));
                }
                self.undo_moves(0, &loads_before, lfts);
            }
            if best_price == Some(0) {
                break;
            }
        }
        self.reads = MAX_READS;
        best_price
    }

    /// Moves entries to paths on which their packets meet fewer other packets, if all such moves
    /// together save at least [`MIN_SAVED_PER_BLOCK`] for each changed block. No link becomes full,
    /// or gets more load than the fullest link of the fabric. Returns the number of moves.
    fn spread_step(&mut self, targets: &[Target], lfts: &mut [Lft], budget: &mut Budget) -> usize {
        if targets.len() * lfts.len() > MAX_ENTRIES {
            return 0;
        }
        // The fullest link of the fabric may be below the load at which a link is full.
        self.set_full_limit(self.full_limit.min(self.max_load()));
        let times = self.time.clone();
        let loads_before = self.load.clone();
        let saved_share = self.spread(&times, targets, lfts);
        let moves = self.moved.iter();
        let changed_blocks: BTreeSet<_> = moves
            .map(|moved| block_of(moved.switch, moved.target.lid))
            .collect();
        self.undo_moves(0, &loads_before, lfts);
        if changed_blocks.is_empty()
            || saved_share < changed_blocks.len() as f64 * MIN_SAVED_PER_BLOCK
        {
            return 0;
        }
        self.spread_within(targets, lfts, budget);
        self.moved.len()
    }
}
