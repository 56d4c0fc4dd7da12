//! News for managers that share the store: what is being written, and what has changed.

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
    /// Hardware is being written, or may be, as the store has it.
    is_pushing: bool,
    /// Notes what changes in the hardware.
    surveyor: Surveyor,
    /// A rotation of M_Keys that the store has, before its first Set.
    rotation: Option<AnnouncedRotation>,
}

/// A rotation that managers sharing the store are told of, before its first Set.
#[derive(Debug)]
pub(crate) struct AnnouncedRotation {
    pub(crate) generations: Generations,
    /// When it begins.
    pub(crate) due: Time,
    /// The commands that wait for it.
    pub(crate) tickets: Vec<Ticket>,
}

/// The meaning of the end of a pass for others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PushEnd {
    /// Nothing that they do not know.
    NoNews,
    /// A push has ended that they know of.
    Pushed,
    /// The hardware has changed without a push.
    Changed,
}

impl SharedNews {
    /// As an earlier run left them.
    pub(crate) fn new(is_pushing: bool) -> SharedNews {
        SharedNews {
            is_pushing,
            ..SharedNews::default()
        }
    }

    /// This manager begins to write hardware.
    pub(crate) fn begin(&mut self) {
        self.surveyor.begin();
    }

    /// Until the end of a pass the hardware may hold what no plan says.
    pub(crate) fn doubt(&mut self) {
        self.is_pushing = true;
    }

    /// A push begins. Returns whether the store does not know.
    pub(crate) fn begin_push(&mut self) -> bool {
        !std::mem::replace(&mut self.is_pushing, true)
    }

    /// A part is being written.
    pub(crate) fn note_set(&mut self, part: WrittenPart) {
        self.surveyor.note_set(part);
    }

    /// A pass has ended that left nothing open.
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

    /// The hardware holds the plan of this number.
    pub(crate) fn conclude(&mut self, plan: u64, fabric: &Arc<Fabric>) {
        self.surveyor.conclude(plan, fabric);
    }

    /// The state goes to the store, with the number of a plan.
    pub(crate) fn tell(&mut self, plan: u64) {
        self.surveyor.tell(plan);
    }

    pub(crate) fn footprints(&self) -> &Footprints {
        self.surveyor.footprints()
    }

    pub(crate) fn is_pushing(&self) -> bool {
        self.is_pushing
    }

    /// The rotation that is announced.
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

    /// The announced rotation, if it is due at `now`.
    pub(crate) fn take_rotation(&mut self, now: Time) -> Option<AnnouncedRotation> {
        self.rotation.take_if(|rotation| rotation.due <= now)
    }
}
