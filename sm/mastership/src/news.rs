//! The state that a master publishes in a shared store: whether hardware is being written, and
//! which parts have changed.

use std::sync::Arc;

use rsm_model::WrittenPart;
use rsm_model::fabric::Fabric;
use rsm_model::footprint::{FootprintRecorder, Footprints};

/// State that other managers read in the store.
#[derive(Default, Debug)]
pub struct SharedNews {
    /// Whether the store says that hardware is, or may be, being written.
    is_pushing: bool,
    /// Records the parts of the hardware that change.
    recorder: FootprintRecorder,
}

/// The meaning of the end of a pass for other managers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PushEnd {
    /// Nothing is to be announced.
    NoNews,
    /// An announced push has ended.
    Pushed,
    /// The hardware has changed without an announced push.
    Changed,
}

impl SharedNews {
    /// State at the start; `is_pushing` is the value that an earlier run has stored.
    pub(crate) fn new(is_pushing: bool) -> SharedNews {
        SharedNews {
            is_pushing,
            ..SharedNews::default()
        }
    }

    /// Starts again, as a master that has written nothing yet.
    pub fn begin(&mut self) {
        self.recorder.begin();
    }

    /// Marks the hardware as possibly different from every plan until the pass ends.
    pub fn mark_uncertain(&mut self) {
        self.is_pushing = true;
    }

    /// Records that a push begins. Returns whether it must be announced in the store.
    pub fn begin_push(&mut self) -> bool {
        !std::mem::replace(&mut self.is_pushing, true)
    }

    /// Records that a part is being written.
    pub fn record_set(&mut self, part: WrittenPart) {
        self.recorder.note_set(part);
    }

    /// Records the end of a pass that wrote all of its changes. A multicast pass (`of_multicast`)
    /// does not end an announced push.
    pub fn end_push(&mut self, of_multicast: bool) -> PushEnd {
        match (self.is_pushing, of_multicast) {
            (true, true) => PushEnd::NoNews,
            (true, false) => {
                self.is_pushing = false;
                PushEnd::Pushed
            }
            (false, _) if self.recorder.is_behind() => PushEnd::Changed,
            (false, _) => PushEnd::NoNews,
        }
    }

    /// Records that the hardware holds the plan with this number.
    pub fn conclude(&mut self, plan: u64, fabric: &Arc<Fabric>) {
        self.recorder.conclude(plan, fabric);
    }

    /// Records that the daemon stores the state with this plan number.
    pub fn record_stored(&mut self, plan: u64) {
        self.recorder.record_stored_plan(plan);
    }

    /// Footprints of the last plans.
    pub fn footprints(&self) -> &Footprints {
        self.recorder.footprints()
    }

    /// Whether the store says that hardware is, or may be, being written.
    pub fn is_pushing(&self) -> bool {
        self.is_pushing
    }
}
