//! Sums over the pairs whose paths may differ.

use rsm_ids::Lid;

use super::matched::Matched;
use super::side::Side;
use super::ways::{PathFinder, Sums};
use super::{Inconclusive, Point};
use crate::topology::SwitchIdx;

/// The sums over some of the examined pairs, before and after, and memory for reuse.
pub(super) struct ExaminedPairs<'a> {
    before: &'a Side<'a>,
    after: &'a Side<'a>,
    /// The earlier sums over the pairs, by channels of the earlier fabric.
    pub(super) then: Sums,
    /// The present sums over the pairs, by channels of the later fabric.
    pub(super) now: Sums,
    /// The number of pairs examined, before and after.
    pub(super) pair_count: u64,
    paths_then: PathFinder,
    paths_now: PathFinder,
    /// For each switch, the last round that reached it.
    reached: Vec<u32>,
    /// The number of the current round; each round handles one LID.
    round: u32,
    /// The switches that this round has reached and not yet examined.
    waiting: Vec<SwitchIdx>,
    /// The switches whose packets to the current LID are examined.
    starts: Vec<SwitchIdx>,
}

impl<'a> ExaminedPairs<'a> {
    pub(super) fn new(before: &'a Side<'a>, after: &'a Side<'a>) -> ExaminedPairs<'a> {
        ExaminedPairs {
            then: Sums::new(before),
            now: Sums::new(after),
            pair_count: 0,
            paths_then: PathFinder::new(before.topology.switch_count()),
            paths_now: PathFinder::new(after.topology.switch_count()),
            reached: vec![0; after.topology.switch_count()],
            round: 0,
            waiting: Vec::new(),
            starts: Vec::new(),
            before,
            after,
        }
    }

    /// Adds the pairs of one LID whose paths pass one of `points`, except pairs that
    /// [`ExaminedPairs::add_whole`] adds. There must be at least one point, and all must have the
    /// same LID.
    ///
    /// A path that passes a point now also passed it before, because a path is unchanged up to its
    /// first point.
    pub(super) fn add_around(
        &mut self,
        points: &[Point],
        matched: &Matched,
    ) -> Result<(), Inconclusive> {
        // There are at most as many rounds as LIDs.
        self.round += 1;
        self.starts.clear();
        let after = self.after;
        let lid = points[0].0;
        for &(_, switch) in points {
            self.reach(switch);
            while let Some(switch) = self.waiting.pop() {
                if !matched.is_whole(switch, lid) {
                    self.starts.push(switch);
                }
                // The tables follow the order, so that no switch sends down to a switch that sends
                // up.
                let goes_up = after
                    .next(switch, lid)
                    .is_some_and(|next| after.is_above(next, switch));
                for group in after.topology.groups(switch) {
                    let from = group.neighbour;
                    if !(goes_up && after.is_above(from, switch))
                        && self.reached[from.index()] != self.round
                        && after.feeds(&group, lid)
                    {
                        self.reach(from);
                    }
                }
            }
        }
        let now = self.starts.iter().copied();
        let then = now.clone().filter_map(|switch| matched.then(switch));
        self.pair_count += self.starts.len() as u64;
        self.paths_then
            .count(self.before, then, lid, &mut self.then)?;
        self.paths_now.count(self.after, now, lid, &mut self.now)
    }

    /// Adds the pairs of one of [`Matched::whole_lids`], from the switches of
    /// [`Matched::whole_pairs`].
    pub(super) fn add_whole(&mut self, lid: Lid, matched: &Matched) -> Result<(), Inconclusive> {
        let (then, now) = matched.whole_pairs(lid);
        self.pair_count += (then.len() + now.len()) as u64;
        self.paths_then
            .count(self.before, then.into_iter(), lid, &mut self.then)?;
        self.paths_now
            .count(self.after, now.into_iter(), lid, &mut self.now)
    }

    /// Adds the pairs of a LID whose paths are all unchanged, from the switches at which other
    /// ports start packets than before.
    pub(super) fn add_restarted(
        &mut self,
        lid: Lid,
        restarted: &[SwitchIdx],
    ) -> Result<(), Inconclusive> {
        let (before, after) = (self.before, self.after);
        let switches = restarted.iter().copied();
        self.pair_count += 2 * restarted.len() as u64;
        self.paths_now.find(after, switches.clone(), lid)?;
        let (then, now) = (
            |switch| before.starts(switch),
            |switch| after.starts(switch),
        );
        self.paths_now
            .add(after, switches.clone(), lid, then, &mut self.then);
        self.paths_now.add(after, switches, lid, now, &mut self.now);
        Ok(())
    }

    /// Adds a switch to `waiting` if this round has not reached it yet.
    fn reach(&mut self, switch: SwitchIdx) {
        if self.reached[switch.index()] != self.round {
            self.reached[switch.index()] = self.round;
            self.waiting.push(switch);
        }
    }
}
