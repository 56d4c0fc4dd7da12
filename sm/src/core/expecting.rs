//! What was there before and is not: kept up to date by the differences that sweeps find.

use std::sync::Arc;

use rsm_mad::Time;

use super::Core;
use crate::expected::{Accept, Cabling};
use crate::fabric::{Delta, Fabric};
use crate::plan::Plan;
use crate::plan::lint::Proved;

impl Core {
    /// Takes in what distinguishes the fabric that a sweep found at `now` from the one before.
    pub(super) fn expect(&mut self, delta: &Delta, new: &Fabric, now: Time) {
        if delta.changes_cabling() {
            let expected = Arc::make_mut(&mut self.expected);
            expected.update(delta, &self.fabric, new, now);
            self.missing = self.expected.findings(new);
            self.lost_at = Some(now);
            self.cabling_changed = true;
        }
    }

    /// Takes in what a sweep that goes on has met so far: at its end it is no difference any more.
    pub(super) fn expect_met(&mut self, new: &Fabric, now: Time) {
        let delta = Delta::between(&self.fabric, new);
        self.expect(&delta, new, now);
    }

    /// Has what is there now remembered. That costs a row of each node, so that it waits for the
    /// end of a pass, when ports have the state that they keep.
    pub(super) fn remember_cabling(&mut self) {
        self.cabling_changed = false;
        self.kept_cabling = Cabling {
            fabric: self.fabric.clone(),
            missing: self.expected.clone(),
        };
        self.remember();
    }

    /// Adds to what went lately what the first plan without it moved.
    pub(super) fn count_moved(&mut self, plan: &Plan) {
        let Some(at) = self.lost_at.take() else {
            return;
        };
        if let Proved::Changes { ways } = plan.proved
            && ways > 0
            && self.expected.has_lost_at(at)
        {
            Arc::make_mut(&mut self.expected).note_moved(at, ways);
            self.missing = self.expected.findings(&self.fabric);
        }
    }

    /// Expects no longer what an operator gives up.
    pub(super) fn accept_missing(&mut self, accept: Accept, now: Time) {
        if Arc::make_mut(&mut self.expected).accept(accept) > 0 {
            self.missing = self.expected.findings(&self.fabric);
            self.remember_cabling();
            self.publish(now);
        }
    }
}
