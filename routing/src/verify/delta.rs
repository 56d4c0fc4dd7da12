//! Whether tables that were proved stay so, by what changed alone.
//!
//! What packets do is a sum over pairs of (a switch they start at, a LID they go to), and a pair
//! counts as it did unless its way meets an entry that is another, or a port that leads elsewhere.
//! So the pairs whose way does are found, by going back from there; what they gave is taken out of
//! the sums, and what they give now is put in. The result is that of the whole proof, number for
//! number. Nothing is taken on trust of whoever made the tables: what differs is found here.
//!
//! That no cycle of links can wait for each other is told by an order of the switches, as
//! [`Dependencies::follows`](super::Dependencies::follows) has it: where the tables followed it,
//! only what changed can go up after it went down.

mod found;
mod matched;
mod side;
mod ways;

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use rsm_ids::Lid;

use self::found::Found;
use self::matched::Matched;
use self::side::Side;
use super::tally::Tally;
use crate::mcast::Orientation;
use crate::tables::Tables;
use crate::topology::{SwitchIdx, Topology};

/// Tables that were proved.
#[derive(Clone, Copy)]
pub struct ProvedTables<'a> {
    /// The fabric that they were proved on.
    pub topology: &'a Topology,
    /// The tables.
    pub tables: &'a Tables,
    /// The order that they follow.
    pub orientation: &'a Orientation,
    /// Their sums.
    pub tally: &'a Tally,
}

/// Tables that are to be proved.
#[derive(Clone, Copy)]
pub struct Candidate<'a> {
    /// The fabric that they are for.
    pub topology: &'a Topology,
    /// The tables.
    pub tables: &'a Tables,
    /// The order that they are to follow.
    pub orientation: &'a Orientation,
}

/// What was found of tables that are free of loops and follow their order.
#[derive(Clone, Debug)]
pub struct Changed {
    /// Their sums, those of the whole proof.
    pub tally: Tally,
    /// How many pairs of (switch, LID) were looked at.
    pub ways: u64,
}

/// Why what changed does not tell whether tables are sound. They may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Inconclusive {
    /// Switches that were there before and are still stand in another order.
    #[error("the switches stand in another order")]
    Order,
    /// Switches that were joined are apart now, or the other way.
    #[error("the fabric falls into other parts")]
    Parts,
    /// So much is different that a look at everything costs less.
    #[error("too much is different")]
    TooMuch,
    /// Some packets go up after they went down.
    #[error("packets to LID {lid} go up after they went down")]
    Turn {
        /// Where they go.
        lid: Lid,
    },
    /// Some packets go round.
    #[error("packets to LID {lid} go round")]
    Loop {
        /// Where they go.
        lid: Lid,
    },
    /// The sums are not those of the tables that stood.
    #[error("the sums do not fit the tables that were proved")]
    Tally,
}

/// How many entries may be different: with ten times as many, the whole proof of the largest fabric
/// takes no longer.
const MAX_POINTS: usize = 1 << 20;

/// Proves `candidate` by what is different from `standing`, which is free of loops and follows its
/// order.
///
/// # Errors
/// It could not be shown like this that the candidate is free of loops and follows its order, the
/// same as before. Whether every pair is reached, the sums tell.
pub fn verify_changes(
    standing: &ProvedTables<'_>,
    candidate: &Candidate<'_>,
) -> Result<Changed, Inconclusive> {
    let before = Side::new(standing.topology, standing.tables, standing.orientation);
    let after = Side::new(candidate.topology, candidate.tables, candidate.orientation);
    let matched = Matched::new(&before, &after);
    if !matched.keeps_order(&before, &after) {
        return Err(Inconclusive::Order);
    }
    if !matched.keeps_parts(&before, &after) {
        return Err(Inconclusive::Parts);
    }
    let work = Work {
        points: points(&before, &after, &matched)?,
        before,
        after,
        matched,
    };
    work.check_turns()?;
    let parts = work.look()?;
    work.sum_up(standing.tally, &parts)
}

/// An entry that may lead elsewhere than before. By LID and switch, as numbered now.
type Point = (Lid, SwitchIdx);

/// Every entry that is different, or whose port leads to another switch, for LIDs whose port is
/// where it was.
fn points(
    before: &Side<'_>,
    after: &Side<'_>,
    matched: &Matched,
) -> Result<Vec<Point>, Inconclusive> {
    let count = AtomicUsize::new(0);
    let of_switch = |switch: SwitchIdx| {
        if count.load(Ordering::Relaxed) > MAX_POINTS {
            return Vec::new();
        }
        let found = matched.points_of(switch, before, after);
        count.fetch_add(found.len(), Ordering::Relaxed);
        found
    };
    let found: Vec<Vec<Point>> = after.topology.par_indices().map(of_switch).collect();
    if count.into_inner() > MAX_POINTS {
        return Err(Inconclusive::TooMuch);
    }
    let mut points: Vec<Point> = found.into_iter().flatten().collect();
    points.par_sort_unstable();
    Ok(points)
}

struct Work<'a> {
    before: Side<'a>,
    after: Side<'a>,
    matched: Matched,
    /// By LID and switch.
    points: Vec<Point>,
}

impl Work<'_> {
    /// Whether a packet that meets what is different goes up after it went down.
    fn check_turns(&self) -> Result<(), Inconclusive> {
        let turned = self
            .points
            .par_iter()
            .find_first(|&&(lid, switch)| self.turns_at(lid, switch));
        if let Some(&(lid, _)) = turned {
            return Err(Inconclusive::Turn { lid });
        }
        let turned = self.matched.anew.par_iter().find_first(|&&lid| {
            let mut switches = self.after.topology.indices();
            self.after.is_in_use(lid) && switches.any(|switch| self.after.turns_below(switch, lid))
        });
        match turned {
            Some(&lid) => Err(Inconclusive::Turn { lid }),
            None => Ok(()),
        }
    }

    fn turns_at(&self, lid: Lid, switch: SwitchIdx) -> bool {
        let after = &self.after;
        let Some(next) = after.next(switch, lid) else {
            return false;
        };
        if after.is_above(switch, next) {
            return after.turns_below(switch, lid);
        }
        if next == switch {
            // By a cable to itself: it goes round, which is found on the way.
            return false;
        }
        // Who sends down to it by an entry that is different is looked at himself; who does by one
        // that is not did so before, and then it did not send up.
        let sent_up = self.matched.then(switch).is_some_and(|then| {
            let was = self.before.next(then, lid);
            was.is_some_and(|was| self.before.is_above(was, then))
        });
        !sent_up
            && after
                .feeders(switch, lid)
                .any(|from| after.is_above(from, switch))
    }

    /// Looks at every pair whose way may be another, each thread at its share of the LIDs.
    fn look(&self) -> Result<Vec<Found<'_>>, Inconclusive> {
        let lids: Vec<&[Point]> = self
            .points
            .chunk_by(|one, other| one.0 == other.0)
            .collect();
        let threads = rayon::current_num_threads().max(1);
        let share = lids.len().div_ceil(threads).max(1);
        let changed = lids.par_chunks(share).map(|lids| {
            let mut found = Found::new(&self.before, &self.after);
            for points in lids {
                found.add_around(points, &self.matched)?;
            }
            Ok(found)
        });
        let mut parts: Vec<Found<'_>> = changed.collect::<Result<_, Inconclusive>>()?;
        let whole = self.matched.whole_lids(&self.before, &self.after);
        let restarted = self.matched.restarted(&self.before, &self.after);
        let has_points = |lid: Lid| {
            let found = self.points.binary_search_by_key(&lid, |&(lid, _)| lid);
            found.is_ok()
        };
        if !whole.is_empty() {
            let share = whole.len().div_ceil(threads).max(1);
            let moved = whole.par_chunks(share).map(|lids| {
                let mut found = Found::new(&self.before, &self.after);
                for &lid in lids {
                    match &restarted {
                        Some(restarted) if !self.matched.is_anew(lid) && !has_points(lid) => {
                            found.add_restarted(lid, restarted)?;
                        }
                        _ => found.add_whole(lid, &self.matched)?,
                    }
                }
                Ok(found)
            });
            parts.extend(moved.collect::<Result<Vec<_>, Inconclusive>>()?);
        }
        Ok(parts)
    }

    fn sum_up(&self, standing: &Tally, parts: &[Found<'_>]) -> Result<Changed, Inconclusive> {
        let mut tally = Tally {
            load: self
                .matched
                .loads(&self.before, &self.after, standing, parts)?,
            hops: standing.hops.clone(),
            ..*standing
        };
        let mut ways = 0;
        for part in parts {
            tally.add_pairs(&part.now.tally);
            ways += part.ways;
        }
        for part in parts {
            tally
                .take_pairs(&part.then.tally)
                .ok_or(Inconclusive::Tally)?;
        }
        Ok(Changed { tally, ways })
    }
}
