//! State for other managers that share the store: what is being written, and what has changed.

use std::sync::Arc;

use rsm_model::WrittenPart;
use rsm_model::fabric::Fabric;
use rsm_model::footprint::{Footprints, Surveyor};

/// State that other managers read in the store.
#[derive(Default, Debug)]
pub struct SharedNews {
    /// Whether hardware is being written, or may be, according to the store.
    is_pushing: bool,
    /// Records what changes in the hardware.
    surveyor: Surveyor,
}

/// Meaning of the end of a pass for other managers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PushEnd {
    /// Nothing has changed for them.
    NoNews,
    /// An announced push has ended.
    Pushed,
    /// The hardware has changed without a push.
    Changed,
}

impl SharedNews {
    /// The state that an earlier run left.
    pub(crate) fn new(is_pushing: bool) -> SharedNews {
        SharedNews {
            is_pushing,
            ..SharedNews::default()
        }
    }

    /// Starts as a master that begins to write hardware.
    pub fn begin(&mut self) {
        self.surveyor.begin();
    }

    /// Records that, until the end of a pass, the hardware may hold something that no plan has.
    pub fn doubt(&mut self) {
        self.is_pushing = true;
    }

    /// Records that a push begins. Returns whether it must be announced in the store.
    pub fn begin_push(&mut self) -> bool {
        !std::mem::replace(&mut self.is_pushing, true)
    }

    /// Records that a part is being written.
    pub fn note_set(&mut self, part: WrittenPart) {
        self.surveyor.note_set(part);
    }

    /// Records the end of a pass that left nothing open.
    pub fn end_push(&mut self, of_multicast: bool) -> PushEnd {
        match (self.is_pushing, of_multicast) {
            (true, true) => PushEnd::NoNews,
            (true, false) => {
                self.is_pushing = false;
                PushEnd::Pushed
            }
            (false, _) if self.surveyor.is_behind() => PushEnd::Changed,
            (false, _) => PushEnd::NoNews,
        }
    }

    /// Records that the hardware holds the plan with this number.
    pub fn conclude(&mut self, plan: u64, fabric: &Arc<Fabric>) {
        self.surveyor.conclude(plan, fabric);
    }

    /// Records that the state is being stored, with the number of a plan.
    pub fn tell(&mut self, plan: u64) {
        self.surveyor.tell(plan);
    }

    /// Footprints of the last plans.
    pub fn footprints(&self) -> &Footprints {
        self.surveyor.footprints()
    }

    /// Whether hardware is being written, or may be, according to the store.
    pub fn is_pushing(&self) -> bool {
        self.is_pushing
    }
}
