//! Levelling: decides whether loads are uneven, and how far to even them out.

use super::super::bounds::{Bounds, Cuts};
use super::spread::MAX_ENTRIES;
use super::{Budget, MaxLoadReducer, Moved, Target};
use crate::tables::Lft;

/// The load above which a link counts as full, in 64ths of the lower bound of the maximum link
/// load. Evening out lower loads would cost shift patterns more throughput than it gains.
const FULL_64THS: u64 = 67;

/// The minimum fair load of a link, in tenths of the lower bound of the maximum link load. Lower
/// fair loads are raised to this value, because evening them out gains nothing.
const MIN_FAIR_TENTHS: u128 = 7;

/// The maximum number of entries and links to read in search of better paths, about half a second
/// of work. This number suffices for 10,000 hosts on 1,700 switches with one link in a hundred
/// missing.
pub(in super::super::super) const MAX_READS: u64 = 1 << 26;

/// The fullest links are relieved in one more step for each this many entries (hosts times
/// switches). Large fabrics may exhaust [`MAX_READS`], which must not be spent on links that are
/// hardly full.
const STEP_ENTRIES: u64 = MAX_READS / 4;

/// The prices at which entries move off full links; see [`MaxLoadReducer::price`].
pub(super) const PRICES: [u64; 4] = [2, 4, 8, u64::MAX];

/// The moves that levelling has skipped because they would take too long.
#[derive(Clone, Copy, Default)]
pub(in super::super::super) struct SkippedMoves {
    /// Whether moves off full links have ended early, at [`MAX_READS`].
    pub(in super::super::super) relief: bool,
    /// Whether spreading is skipped, because the fabric has more entries than [`MAX_ENTRIES`].
    pub(in super::super::super) spread: bool,
}

/// The load above which a link counts as full, for this lower bound of the maximum link load.
pub(super) fn full_above(max_load_bound: u64) -> u64 {
    in_64ths(max_load_bound, FULL_64THS)
}

/// The load of `share` 64ths of a link load, rounded down.
pub(in super::super::super) fn in_64ths(load: u64, share: u64) -> u64 {
    // The product of a whole load may exceed 64 bits.
    (load / 64)
        .saturating_mul(share)
        .saturating_add(load % 64 * share / 64)
}

impl MaxLoadReducer<'_> {
    /// Moves entries for `targets` if some link is full. Targets of one column must be adjacent.
    /// Reads at most `MAX_READS / share` entries and links: `share` calls together may read as much
    /// as one call with a share of 1.
    pub(in super::super::super) fn level(
        &mut self,
        targets: &[Target],
        lfts: &mut [Lft],
        share: usize,
    ) -> SkippedMoves {
        self.load = self.loads_of(targets, lfts);
        let Bounds {
            fair,
            max_load_bound,
        } = self.bounds(targets);
        let full_limit = full_above(max_load_bound);
        if self.max_load() <= full_limit {
            return SkippedMoves::default();
        }
        let times = self.time.clone();
        self.weigh(&fair, max_load_bound);
        self.set_full_limit(full_limit);
        let is_spread = targets.len() * lfts.len() * share <= MAX_ENTRIES;
        if is_spread {
            self.spread(&times, targets, lfts);
        }
        self.reads = MAX_READS / share as u64;
        let mut budget = Budget::of(usize::MAX);
        let entries = (targets.len() * lfts.len() * share) as u64;
        let mut threshold = self.max_load();
        for _ in 0..entries / STEP_ENTRIES {
            threshold -= threshold.saturating_sub(full_limit) / 4;
            self.set_full_limit(threshold);
            self.relieve_once(targets, lfts, &mut budget);
        }
        self.set_full_limit(full_limit);
        self.relieve_at_best_price(&times, targets, lfts, &mut budget);
        if !targets.iter().all(Target::is_base) {
            // The last LIDs of a port have few paths left that no other LID of the port takes.
            self.keeps_lids_apart = false;
            self.load_with(targets, lfts);
            self.set_full_limit(full_limit);
            self.relieve_at_best_price(&times, targets, lfts, &mut budget);
        }
        SkippedMoves {
            relief: self.reads == 0,
            spread: !is_spread,
        }
    }

    /// The bounds of link loads from cuts; the lower bound of the maximum is also at least the mean
    /// load.
    fn bounds(&self, targets: &[Target]) -> Bounds {
        let cuts = Cuts::of(self.input, &self.hosts, targets, self.unit);
        let bounds = cuts.bounds();
        Bounds {
            max_load_bound: bounds.max_load_bound.max(self.mean()),
            ..bounds
        }
    }

    /// The lower bound of the maximum link load: under any tables, some link carries at least this
    /// much.
    pub(in super::super::super) fn max_load_bound(&self, targets: &[Target]) -> u64 {
        self.bounds(targets).max_load_bound
    }

    /// Relieves full links first at price 0, and then at the price of [`PRICES`] that gives the
    /// best tables. `times` holds the time of a packet on each link. Afterwards, the entries
    /// include the moves at the best price, but the loads do not.
    fn relieve_at_best_price(
        &mut self,
        times: &[u64],
        targets: &[Target],
        lfts: &mut [Lft],
        budget: &mut Budget,
    ) {
        if self.full.is_empty() {
            return;
        }
        self.relieve_at(0, targets, lfts, budget);
        let free = (self.moved.len(), self.load.clone());
        let mut lowest = self.table_cost(times, targets, lfts);
        let mut best = Vec::new();
        for price in PRICES {
            if self.full.is_empty() {
                break;
            }
            if self.relieve_at(price, targets, lfts, budget) == 0 {
                continue;
            }
            let cost = self.table_cost(times, targets, lfts);
            if cost < lowest {
                lowest = cost;
                let moved = self.moved[free.0..].iter();
                let now = |moved: &Moved| lfts[moved.switch.index()].entry(moved.target.lid);
                best = moved
                    .map(|moved| (moved.switch, moved.target, now(moved)))
                    .collect();
            }
            self.undo_moves(free.0, &free.1, lfts);
        }
        for (switch, target, port) in best {
            self.set_entry(switch, &target, port, lfts);
        }
    }

    /// The cost of the tables (lower is better): the maximum link load, times the square of the
    /// mean over shift permutations of the maximum link load.
    pub(super) fn table_cost(&self, times: &[u64], targets: &[Target], lfts: &[Lft]) -> f64 {
        self.max_load() as f64 * self.mean_max_load_in_shifts(times, targets, lfts).powi(2)
    }

    /// The load of the fullest link, in packets times their time.
    pub(in super::super::super) fn max_load(&self) -> u64 {
        self.load.iter().copied().max().unwrap_or(0)
    }

    /// The load of each link if all links share all packets in proportion to their rates.
    fn mean(&self) -> u64 {
        let times = self.load.iter().zip(&self.time);
        let packets: u128 = times.map(|(&load, &time)| u128::from(load / time)).sum();
        let rates = self.time.iter().map(|&time| u128::from(self.unit / time));
        let mean = packets * u128::from(self.unit) / rates.sum::<u128>().max(1);
        u64::try_from(mean).unwrap_or(u64::MAX)
    }

    /// Raises the times of packets on links with a fair load below `max_load_bound`, so that each
    /// link at its fair load counts as one with the load `max_load_bound`.
    fn weigh(&mut self, fair: &[u64], max_load_bound: u64) {
        let bound = u128::from(max_load_bound);
        let links = self.load.iter_mut().zip(&mut self.time);
        for ((load, time), &fair) in links.zip(fair) {
            let packets = *load / *time;
            let fair = u128::from(fair).clamp(bound * MIN_FAIR_TENTHS / 10, bound);
            let weighed = u128::from(*time) * bound / fair.max(1);
            *time = u64::try_from(weighed).unwrap_or(u64::MAX);
            *load = packets * *time;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shares_of_small_and_large_loads_are_rounded_down_only_once(
            load in prop_oneof![0..1000_u64, any::<u64>()],
            share in 64..=128_u64,
        ) {
            let exact = u128::from(load) * u128::from(share) / 64;
            let expected = u64::try_from(exact).unwrap_or(u64::MAX);
            prop_assert_eq!(in_64ths(load, share), expected);
            prop_assert!(full_above(load) >= load);
        }
    }
}
