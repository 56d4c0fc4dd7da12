//! Nodes and cables that were there before and are missing, updated after each sweep.

use std::sync::Arc;

use rsm_mad::Time;
use rsm_model::expected::{Accept, Cabling};
use rsm_model::fabric::{Delta, Fabric};
use rsm_plan::Plan;
use rsm_plan::lint::Proved;

use super::Core;

impl Core {
    /// Updates the expected parts by the difference between the fabric that a sweep found at `now`
    /// and the one before.
    pub(super) fn expect(&mut self, delta: &Delta, new: &Fabric, now: Time) {
        if delta.changes_cabling() {
            let expected = Arc::make_mut(&mut self.expected);
            expected.update(delta, &self.fabric, new, now);
            self.missing = self.expected.findings(new);
            self.lost_at = Some(now);
            self.cabling_changed = true;
        }
    }

    /// Records the part of the fabric that an unfinished sweep has found, so that its end does not
    /// count it as a difference.
    pub(super) fn expect_met(&mut self, new: &Fabric, now: Time) {
        let delta = Delta::between(&self.fabric, new);
        self.expect(&delta, new, now);
    }

    /// Stores the cabling. That costs a row of each node, so it waits for the end of a pass, when
    /// ports are in their final state.
    pub(super) fn remember_cabling(&mut self) {
        self.cabling_changed = false;
        self.kept_cabling = Cabling {
            fabric: self.fabric.clone(),
            missing: self.expected.clone(),
        };
        self.remember();
    }

    /// Adds the number of moved paths in the first plan after a loss to that loss.
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

    /// Forgets missing parts that an operator accepts as gone.
    pub(super) fn accept_missing(&mut self, accept: Accept, now: Time) {
        if Arc::make_mut(&mut self.expected).accept(accept, &self.fabric) > 0 {
            self.missing = self.expected.findings(&self.fabric);
            self.remember_cabling();
            self.publish(now);
        }
    }
}
