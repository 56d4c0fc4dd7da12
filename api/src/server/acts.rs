//! Records the requests of operators, each with its origin and outcome.

use std::sync::Arc;

use rsm_proto::v1;
use tonic::{Extensions, Status};

use crate::access::{Caller, Peer};
use crate::traits::ActionLog;

/// Records the requests that change the subnet or the manager.
#[derive(Clone)]
pub struct ActionRecorder {
    log: Option<Arc<dyn ActionLog>>,
}

impl ActionRecorder {
    /// Creates a recorder that writes to `log`; without a log, nothing is recorded.
    pub fn new(log: Option<Arc<dyn ActionLog>>) -> ActionRecorder {
        ActionRecorder { log }
    }

    /// Begins the record of a request with these `extensions`, which identify the operator; see
    /// [`ActionRecorder::begin_of`].
    pub(super) fn begin(
        &self,
        extensions: &Extensions,
        action: &str,
        detail: String,
    ) -> OpenAction {
        self.begin_of(origin(extensions), action, detail)
    }

    /// Begins the record of a request of `operator`. `action` is the kind of request, such as
    /// `drain`, and `detail` its argument. The record is written when the request ends, or when the
    /// client disconnects before that.
    pub fn begin_of(&self, operator: String, action: &str, detail: String) -> OpenAction {
        OpenAction {
            log: self.log.clone(),
            record: v1::OperatorActed {
                action: action.to_owned(),
                detail,
                operator,
                refusal: "the client left before the answer; it may have been carried out"
                    .to_owned(),
            },
        }
    }
}

/// The record of a request under way, which is written to the log when the value is dropped.
pub struct OpenAction {
    log: Option<Arc<dyn ActionLog>>,
    record: v1::OperatorActed,
}

impl OpenAction {
    /// Adds `name`, which the client gives to its operator, to the record, unless it is empty.
    pub(super) fn stated(mut self, name: &str) -> OpenAction {
        if !name.is_empty() {
            self.record.operator = format!("{} ({name})", self.record.operator);
        }
        self
    }

    /// Adds the effect of the request to the record, unless it is empty.
    pub fn add(&mut self, effect: &str) {
        if !effect.is_empty() {
            self.record.detail = format!("{}: {effect}", self.record.detail);
        }
    }

    /// Ends the record with the outcome of the request, and returns the outcome unchanged.
    pub(super) fn end<T>(self, outcome: Result<T, Status>) -> Result<T, Status> {
        self.close(outcome.as_ref().err().map_or("", Status::message));
        outcome
    }

    /// Ends the record with the reason of the refusal. An empty reason means that the request was
    /// carried out.
    pub fn close(mut self, refusal: &str) {
        refusal.clone_into(&mut self.record.refusal);
    }
}

impl Drop for OpenAction {
    fn drop(&mut self) {
        if let Some(log) = &self.log {
            log.acted(std::mem::take(&mut self.record));
        }
    }
}

/// The operator of a request, as records of orders name it: the identity of the caller and, in
/// brackets, the name that its client states, if it differs. Empty if neither is known.
pub(super) fn operator(extensions: &Extensions, stated: Option<&str>) -> String {
    let caller = extensions.get::<Arc<Caller>>();
    match (caller.map(|caller| &caller.name), stated) {
        (Some(identity), Some(stated)) if identity != stated => format!("{identity} ({stated})"),
        (Some(identity), _) => identity.clone(),
        (None, stated) => stated.unwrap_or_default().to_owned(),
    }
}

/// The identity of the caller, if it is known, and the other end of its connection.
fn origin(extensions: &Extensions) -> String {
    let peer = extensions.get::<Peer>().map(ToString::to_string);
    let peer = peer.unwrap_or_else(|| "unknown".to_owned());
    match extensions.get::<Arc<Caller>>() {
        Some(caller) => format!("{} at {peer}", caller.name),
        None => peer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Proof, Role};
    use crate::role::Grant;

    #[test]
    fn operator_is_the_identity_and_the_name_of_the_client_stands_behind_it() {
        let mut extensions = Extensions::new();
        assert_eq!(operator(&extensions, Some("alice")), "alice");
        let caller = Caller::new("uid:1001", Proof::UnixPeer, Grant::of(&[Role::Operate]));
        extensions.insert(Arc::new(caller));
        for (stated, expected) in [
            (None, "uid:1001"),
            (Some("uid:1001"), "uid:1001"),
            (
                Some("health.hostile_hosts"),
                "uid:1001 (health.hostile_hosts)",
            ),
        ] {
            assert_eq!(operator(&extensions, stated), expected);
        }
    }
}
