//! Records the requests of operators, each with its origin and outcome.

use std::fmt;
use std::sync::Arc;

use rsm_proto::v1;
use tonic::{Extensions, Status};

use crate::access::{Caller, Peer, StatedOperator};
use crate::traits::ActionLog;

/// The reason in the record of a refusal that states none: an empty one would mean success.
const NO_REASON: &str = "no reason was given";

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

/// The outcome of a request that changes something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The request was carried out.
    Done,
    /// The request was refused or failed, for this reason.
    Refused(String),
}

impl Outcome {
    /// The outcome of a request with this result.
    pub fn of<T, E: fmt::Display>(result: &Result<T, E>) -> Outcome {
        match result {
            Ok(_) => Outcome::Done,
            Err(error) => Outcome::Refused(error.to_string()),
        }
    }

    /// The reason for a record; empty only if the request was carried out.
    pub fn refusal(self) -> String {
        match self {
            Outcome::Done => String::new(),
            Outcome::Refused(reason) if reason.trim().is_empty() => NO_REASON.to_owned(),
            Outcome::Refused(reason) => reason,
        }
    }
}

/// The record of a request under way, which is written to the log when the value is dropped.
pub struct OpenAction {
    log: Option<Arc<dyn ActionLog>>,
    record: v1::OperatorActed,
}

impl OpenAction {
    /// Adds `name`, which the client gives to its operator, to the record, unless it is empty or
    /// there already.
    pub(super) fn stated(mut self, name: &str) -> OpenAction {
        let stated = format!(" ({name})");
        if !name.is_empty() && !self.record.operator.ends_with(&stated) {
            self.record.operator += &stated;
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
        let refusal = outcome.as_ref().map_err(Status::message);
        self.close(Outcome::of(&refusal));
        outcome
    }

    /// Ends the record with the outcome of the request.
    pub fn close(mut self, outcome: Outcome) {
        self.record.refusal = outcome.refusal();
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
/// brackets, the name that its client states in the request or its metadata, if it differs. Empty if
/// neither is known.
pub(super) fn operator(extensions: &Extensions, stated: Option<&str>) -> String {
    let caller = extensions.get::<Arc<Caller>>();
    let metadata = extensions.get::<StatedOperator>();
    let stated = stated.or_else(|| metadata.map(|StatedOperator(name)| name.as_str()));
    match (caller.map(|caller| &caller.name), stated) {
        (Some(identity), Some(stated)) if identity != stated => format!("{identity} ({stated})"),
        (Some(identity), _) => identity.clone(),
        (None, stated) => stated.unwrap_or_default().to_owned(),
    }
}

/// The identity of the caller, if it is known, the other end of its connection, and in brackets the
/// name that the client states for its operator.
fn origin(extensions: &Extensions) -> String {
    let peer = extensions.get::<Peer>().map(ToString::to_string);
    let peer = peer.unwrap_or_else(|| "unknown".to_owned());
    let origin = match extensions.get::<Arc<Caller>>() {
        Some(caller) => format!("{} at {peer}", caller.name),
        None => peer,
    };
    match extensions.get::<StatedOperator>() {
        Some(StatedOperator(name)) => format!("{origin} ({name})"),
        None => origin,
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::access::{Proof, Role};
    use crate::refusal::{Reason, refusal};
    use crate::role::Grant;

    #[derive(Default)]
    struct Acts(Mutex<Vec<v1::OperatorActed>>);

    impl ActionLog for Acts {
        fn acted(&self, act: v1::OperatorActed) {
            self.0.lock().push(act);
        }
    }

    #[test]
    fn refusal_without_a_message_is_recorded_as_a_refusal() {
        let acts = Arc::new(Acts::default());
        let recorder = ActionRecorder::new(Some(acts.clone()));
        let begin = || recorder.begin(&Extensions::new(), "drain", "leaf-1".to_owned());
        let refused: Result<(), Status> = Err(refusal(Reason::CutOff, ""));
        assert!(begin().end(refused).is_err());
        assert!(begin().end(Ok(())).is_ok());
        begin().close(Outcome::Refused(" ".to_owned()));
        let acts = std::mem::take(&mut *acts.0.lock());
        let refusals: Vec<String> = acts.into_iter().map(|act| act.refusal).collect();
        assert_eq!(refusals, [NO_REASON, "", NO_REASON]);
    }

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
        extensions.insert(StatedOperator("nightshift".to_owned()));
        assert_eq!(operator(&extensions, None), "uid:1001 (nightshift)");
    }
}
