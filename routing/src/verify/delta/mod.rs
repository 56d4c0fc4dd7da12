//! Proves that sound tables stay sound, by examining only the changes.
//!
//! The proof is a sum over pairs of a switch where packets start and a LID to which they go. The
//! contribution of a pair changes only if its path meets an entry that differs or a port that leads
//! elsewhere. This module finds these pairs by following paths backwards from such entries and
//! ports. The module subtracts the earlier contributions of these pairs from the sums, and adds the
//! present ones. The result equals the result of the whole proof, number for number. The module
//! finds the differences itself and trusts no engine for them.
//!
//! An order of the switches proves that there is no credit loop, as in
//! [`Dependencies::follows`](super::Dependencies::follows): if the tables followed it, only changed
//! entries can make an illegal turn, up after going down. If the order has changed, unchanged
//! entries can make an illegal turn only at switches that now have two neighbours above them, one
//! of which was below before; the proof examines all entries there.

mod found;
mod matched;
mod side;
mod ways;

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use rsm_ids::Lid;

use self::found::ExaminedPairs;
use self::matched::Matched;
use self::side::Side;
use super::tally::Tally;
use crate::tables::Tables;
use crate::topology::{Orientation, SwitchIdx, Topology};

/// Tables with a finished proof.
#[derive(Clone, Copy)]
pub struct ProvedTables<'a> {
    /// The fabric on which the tables were proved.
    pub topology: &'a Topology,
    /// The tables.
    pub tables: &'a Tables,
    /// The order of the switches that the tables follow.
    pub orientation: &'a Orientation,
    /// The sums of their proof.
    pub tally: &'a Tally,
}

/// Tables to prove by their differences.
#[derive(Clone, Copy)]
pub struct Candidate<'a> {
    /// The fabric for which the tables are made.
    pub topology: &'a Topology,
    /// The tables.
    pub tables: &'a Tables,
    /// The order of the switches that the tables should follow.
    pub orientation: &'a Orientation,
}

/// The result for tables that are free of loops and follow their order.
#[derive(Clone, Debug)]
pub struct Changed {
    /// The sums of the tables, equal to the sums of the whole proof.
    pub tally: Tally,
    /// The number of pairs of (switch, LID) that were examined; some count both before and after
    /// the change.
    pub pairs: u64,
}

/// The reason why the changes do not show whether tables are sound. The tables may be sound
/// nevertheless: the whole proof decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Inconclusive {
    /// Too many switches have other neighbours above them than before.
    #[error("too many switches have other neighbours above them than before")]
    Order,
    /// Components have divided or merged.
    #[error("components of the fabric have divided or merged")]
    Parts,
    /// So many entries have changed that the whole proof costs less.
    #[error("so many entries differ that the whole proof costs less")]
    TooMuch,
    /// Some packets turn up after going down.
    #[error("packets to LID {lid} turn up after going down")]
    Turn {
        /// The LID of the packets.
        lid: Lid,
    },
    /// Some packets loop.
    #[error("packets to LID {lid} loop")]
    Loop {
        /// The LID of the packets.
        lid: Lid,
    },
    /// The sums do not belong to the proved tables.
    #[error("the sums do not belong to the proved tables")]
    Tally,
}

/// The maximum number of differing entries, for the memory of the largest fabrics.
const MAX_POINTS: usize = 1 << 20;

/// A differing entry costs as much time as the whole proof of about this many entries.
const ENTRIES_PER_POINT: usize = 32;

/// The number of differing entries up to which either proof takes less than a millisecond.
const FEW_POINTS: usize = 1 << 12;

/// The number of differing entries above which the whole proof of `side` costs less.
fn max_points(side: &Side<'_>) -> usize {
    let lids = side.topology.top_lid().index() + 1;
    let entries = side.topology.indices().len().saturating_mul(lids);
    (entries / ENTRIES_PER_POINT).clamp(FEW_POINTS, MAX_POINTS)
}

/// The maximum number of entries that the proof may examine at switches with other neighbours above
/// them: a few milliseconds of work.
const MAX_TURNED: usize = 1 << 20;

/// Proves `candidate` by its differences from `proved`, which is free of loops and follows its
/// order.
///
/// # Errors
/// The differences do not show that the candidate is free of loops and follows its order. Even on
/// success, only the sums show whether every pair is reached.
pub fn verify_changes(
    proved: &ProvedTables<'_>,
    candidate: &Candidate<'_>,
) -> Result<Changed, Inconclusive> {
    let before = Side::new(proved.topology, proved.tables, proved.orientation);
    let after = Side::new(candidate.topology, candidate.tables, candidate.orientation);
    let matched = Matched::new(&before, &after);
    if !matched.keeps_components(&before, &after) {
        return Err(Inconclusive::Parts);
    }
    let turned = matched.turned(&before, &after);
    if turned
        .len()
        .saturating_mul(after.topology.top_lid().index() + 1)
        > MAX_TURNED
    {
        return Err(Inconclusive::Order);
    }
    let proof = ChangeProof {
        turned,
        points: points(&before, &after, &matched)?,
        before,
        after,
        matched,
    };
    proof.check_turns()?;
    let examined = proof.examine_pairs()?;
    proof.sum_up(proved.tally, &examined)
}

/// An entry, by LID and present switch number, that may lead elsewhere than before.
type Point = (Lid, SwitchIdx);

/// All entries that differ or whose port leads to another switch, for LIDs that lead to the same
/// port as before.
fn points(
    before: &Side<'_>,
    after: &Side<'_>,
    matched: &Matched,
) -> Result<Vec<Point>, Inconclusive> {
    let max = max_points(after);
    let count = AtomicUsize::new(0);
    let of_switch = |switch: SwitchIdx| {
        if count.load(Ordering::Relaxed) > max {
            return Vec::new();
        }
        let found = matched.points_of(switch, before, after);
        count.fetch_add(found.len(), Ordering::Relaxed);
        found
    };
    let found: Vec<Vec<Point>> = after.topology.par_indices().map(of_switch).collect();
    if count.into_inner() > max {
        return Err(Inconclusive::TooMuch);
    }
    let mut points: Vec<Point> = found.into_iter().flatten().collect();
    points.par_sort_unstable();
    Ok(points)
}

/// The inputs of the proof, and the entries to examine.
struct ChangeProof<'a> {
    before: Side<'a>,
    after: Side<'a>,
    matched: Matched,
    /// The entries that may lead elsewhere, sorted by LID and switch.
    points: Vec<Point>,
    /// The switches at which unchanged entries may turn up after going down.
    turned: Vec<SwitchIdx>,
}

impl ChangeProof<'_> {
    /// Fails if packets that meet a difference turn up after going down.
    fn check_turns(&self) -> Result<(), Inconclusive> {
        let turned = self
            .points
            .par_iter()
            .find_first(|&&(lid, switch)| self.turns_at(lid, switch));
        if let Some(&(lid, _)) = turned {
            return Err(Inconclusive::Turn { lid });
        }
        let turned = self.matched.moved_lids.par_iter().find_first(|&&lid| {
            let mut switches = self.after.topology.indices();
            self.after.is_in_use(lid) && switches.any(|switch| self.after.turns_below(switch, lid))
        });
        if let Some(&lid) = turned {
            return Err(Inconclusive::Turn { lid });
        }
        let turned = self.turned.par_iter().find_map_first(|&switch| {
            let lids = (1..=self.after.topology.top_lid().0).map(Lid);
            let mut in_use = lids.filter(|&lid| self.after.is_in_use(lid));
            in_use.find(|&lid| self.after.turns_here(switch, lid))
        });
        match turned {
            Some(lid) => Err(Inconclusive::Turn { lid }),
            None => Ok(()),
        }
    }

    /// Whether packets to a LID turn up after going down at a switch with a differing entry, or at
    /// the next switch.
    fn turns_at(&self, lid: Lid, switch: SwitchIdx) -> bool {
        if self.after.turns_below(switch, lid) {
            return true;
        }
        // The check of every differing entry covers switches that send down to this switch by a
        // differing entry. Any other switch sent down by its entry before, when this switch did not
        // send up. If such a switch lies above this one only in the new order, this switch is one
        // of `turned`.
        let sent_up = self.matched.then(switch).is_some_and(|then| {
            let was = self.before.next(then, lid);
            was.is_some_and(|was| self.before.is_above(was, then))
        });
        !sent_up && self.after.turns_here(switch, lid)
    }

    /// Examines every pair whose path may differ; each thread takes a share of the LIDs.
    fn examine_pairs(&self) -> Result<Vec<ExaminedPairs<'_>>, Inconclusive> {
        let lids: Vec<&[Point]> = self
            .points
            .chunk_by(|one, other| one.0 == other.0)
            .collect();
        let threads = rayon::current_num_threads().max(1);
        let share = lids.len().div_ceil(threads).max(1);
        let changed = lids.par_chunks(share).map(|lids| {
            let mut found = ExaminedPairs::new(&self.before, &self.after);
            for points in lids {
                found.add_around(points, &self.matched)?;
            }
            Ok(found)
        });
        let mut examined: Vec<ExaminedPairs<'_>> = changed.collect::<Result<_, Inconclusive>>()?;
        let whole = self.matched.whole_lids(&self.before, &self.after);
        let restarted = self.matched.restarted(&self.before, &self.after);
        let has_points = |lid: Lid| {
            let found = self.points.binary_search_by_key(&lid, |&(lid, _)| lid);
            found.is_ok()
        };
        if !whole.is_empty() {
            let share = whole.len().div_ceil(threads).max(1);
            let moved = whole.par_chunks(share).map(|lids| {
                let mut found = ExaminedPairs::new(&self.before, &self.after);
                for &lid in lids {
                    match &restarted {
                        Some(restarted) if !self.matched.is_moved_lid(lid) && !has_points(lid) => {
                            found.add_restarted(lid, restarted)?;
                        }
                        _ => found.add_whole(lid, &self.matched)?,
                    }
                }
                Ok(found)
            });
            examined.extend(moved.collect::<Result<Vec<_>, Inconclusive>>()?);
        }
        Ok(examined)
    }

    /// Computes the sums of the candidate's tables from those of the proved tables and the examined
    /// pairs.
    fn sum_up(
        &self,
        proved: &Tally,
        examined: &[ExaminedPairs<'_>],
    ) -> Result<Changed, Inconclusive> {
        let mut tally = Tally {
            load: self
                .matched
                .loads(&self.before, &self.after, proved, examined)?,
            hops: proved.hops.clone(),
            ..*proved
        };
        let mut pair_count = 0;
        for pairs in examined {
            tally.add_pairs(&pairs.now.tally);
            pair_count += pairs.pair_count;
        }
        for pairs in examined {
            tally
                .remove_pairs(&pairs.then.tally)
                .ok_or(Inconclusive::Tally)?;
        }
        Ok(Changed {
            tally,
            pairs: pair_count,
        })
    }
}
