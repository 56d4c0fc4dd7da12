//! What the pairs give whose way may be another.

use rsm_ids::Lid;

use super::super::tally::Tally;
use super::matched::Matched;
use super::side::Side;
use super::{Point, Untold};
use crate::topology::SwitchIdx;

/// What one thread has found, and what it needs to find more.
pub(super) struct Found<'a> {
    before: &'a Side<'a>,
    after: &'a Side<'a>,
    /// What the pairs gave, by channels of the earlier fabric.
    pub(super) then: Tally,
    /// What they give, by channels of the later one.
    pub(super) now: Tally,
    /// How many pairs.
    pub(super) ways: u64,
    /// By switch: the round in which it was last come to.
    reached: Vec<u32>,
    round: u32,
    waiting: Vec<SwitchIdx>,
}

impl<'a> Found<'a> {
    pub(super) fn new(before: &'a Side<'a>, after: &'a Side<'a>) -> Found<'a> {
        Found {
            then: Tally::new(before.channels()),
            now: Tally::new(after.channels()),
            ways: 0,
            reached: vec![0; after.topology.switch_count()],
            round: 0,
            waiting: Vec::new(),
            before,
            after,
        }
    }

    /// Adds all pairs of one LID whose way passes one of `points`.
    ///
    /// Ways that pass a point now are those that passed one before: up to the first point on it a way is the same.
    pub(super) fn add_around(&mut self, points: &[Point], matched: &Matched) -> Result<(), Untold> {
        // At most as many rounds as LIDs.
        self.round += 1;
        let after = self.after;
        for &(lid, switch) in points {
            self.come_to(switch);
            while let Some(switch) = self.waiting.pop() {
                if !matched.is_whole(switch, lid) {
                    self.add(matched.then(switch), Some(switch), lid)?;
                }
                // The tables follow the order: nobody sends down to who sends up.
                let goes_up = after
                    .next(switch, lid)
                    .is_some_and(|next| after.is_above(next, switch));
                for group in after.topology.groups(switch) {
                    let from = group.neighbour;
                    if !(goes_up && after.is_above(from, switch))
                        && self.reached[from.index()] != self.round
                        && after.feeds(&group, lid)
                    {
                        self.come_to(from);
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds the pairs of a LID that are looked at whatever their way is.
    pub(super) fn add_whole(&mut self, lid: Lid, matched: &Matched) -> Result<(), Untold> {
        let (then, now) = matched.whole_pairs(lid);
        for switch in then {
            self.add(Some(switch), None, lid)?;
        }
        for switch in now {
            self.add(None, Some(switch), lid)?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        then: Option<SwitchIdx>,
        now: Option<SwitchIdx>,
        lid: Lid,
    ) -> Result<(), Untold> {
        if let Some(then) = then {
            self.before.count(then, lid, &mut self.then)?;
        }
        if let Some(now) = now {
            self.after.count(now, lid, &mut self.now)?;
        }
        self.ways += 1;
        Ok(())
    }

    fn come_to(&mut self, switch: SwitchIdx) {
        if self.reached[switch.index()] != self.round {
            self.reached[switch.index()] = self.round;
            self.waiting.push(switch);
        }
    }
}
