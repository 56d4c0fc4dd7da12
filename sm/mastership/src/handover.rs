//! The offer of the subnet to another manager, until that manager answers.

use rsm_mad::client::{RequestFailure, Response};
use rsm_state::Other;

/// A handover of the subnet, under way.
#[derive(Debug)]
pub struct HandingOver {
    to: Other,
    /// Whether the other manager takes the subnet; `None` until it answers.
    accepted: Option<bool>,
}

impl HandingOver {
    pub(crate) fn new(to: Other) -> HandingOver {
        HandingOver { to, accepted: None }
    }

    /// Records the other manager's answer, or that it did not answer.
    pub fn handle(&mut self, outcome: &Result<Response, RequestFailure>) {
        self.accepted = Some(matches!(outcome, Ok(response) if response.status.is_ok()));
    }

    /// The other manager, and whether it takes the subnet; `None` until it answers or the offer
    /// times out.
    pub fn outcome(&self) -> Option<(Other, bool)> {
        Some((self.to.clone(), self.accepted?))
    }
}
