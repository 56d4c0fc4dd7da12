//! State for other managers that share the store: what is being written, and what has changed.

use std::sync::Arc;

use rsm_config::m_keys::Generations;
use rsm_mad::Time;
use rsm_model::WrittenPart;
use rsm_model::fabric::Fabric;
use rsm_model::footprint::{Footprints, Surveyor};
use rsm_state::Ticket;

/// State that other managers read in the store.
#[derive(Default, Debug)]
pub(crate) struct SharedNews {
    /// Whether hardware is being written, or may be, according to the store.
    is_pushing: bool,
    /// Records what changes in the hardware.
    surveyor: Surveyor,
    /// A rotation of M_Keys that was announced in the store, before its first Set.
    rotation: Option<AnnouncedRotation>,
}

/// A rotation that was announced to managers sharing the store, before its first Set.
#[derive(Debug)]
pub(crate) struct AnnouncedRotation {
    pub(crate) generations: Generations,
    /// Start of the rotation.
    pub(crate) due: Time,
    /// Commands that wait for it.
    pub(crate) tickets: Vec<Ticket>,
}

/// Meaning of the end of a pass for other managers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PushEnd {
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
    pub(crate) fn begin(&mut self) {
        self.surveyor.begin();
    }

    /// Records that, until the end of a pass, the hardware may hold something that no plan has.
    pub(crate) fn doubt(&mut self) {
        self.is_pushing = true;
    }

    /// Records that a push begins. Returns whether it must be announced in the store.
    pub(crate) fn begin_push(&mut self) -> bool {
        !std::mem::replace(&mut self.is_pushing, true)
    }

    /// Records that a part is being written.
    pub(crate) fn note_set(&mut self, part: WrittenPart) {
        self.surveyor.note_set(part);
    }

    /// Records the end of a pass that left nothing open.
    pub(crate) fn end_push(&mut self, of_multicast: bool) -> PushEnd {
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
    pub(crate) fn conclude(&mut self, plan: u64, fabric: &Arc<Fabric>) {
        self.surveyor.conclude(plan, fabric);
    }

    /// Records that the state is being stored, with the number of a plan.
    pub(crate) fn tell(&mut self, plan: u64) {
        self.surveyor.tell(plan);
    }

    pub(crate) fn footprints(&self) -> &Footprints {
        self.surveyor.footprints()
    }

    pub(crate) fn is_pushing(&self) -> bool {
        self.is_pushing
    }

    /// The announced rotation; `None` if there is none.
    pub(crate) fn rotation(&self) -> Option<&AnnouncedRotation> {
        self.rotation.as_ref()
    }

    pub(crate) fn rotation_mut(&mut self) -> Option<&mut AnnouncedRotation> {
        self.rotation.as_mut()
    }

    /// Announces a rotation, as a push that has begun.
    pub(crate) fn announce(&mut self, rotation: AnnouncedRotation) {
        self.rotation = Some(rotation);
        self.is_pushing = true;
    }

    /// Takes the announced rotation, if it is due at `now`.
    pub(crate) fn take_rotation(&mut self, now: Time) -> Option<AnnouncedRotation> {
        self.rotation.take_if(|rotation| rotation.due <= now)
    }
}
