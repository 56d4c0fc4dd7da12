//! Records operators' requests with their origin and outcome.

use std::sync::Arc;

use rsm_proto::v1;
use tonic::{Extensions, Status};

use crate::access::{Caller, Peer};
use crate::traits::ActionLog;

/// Records requests that change something.
#[derive(Clone)]
pub struct ActionRecorder {
    log: Option<Arc<dyn ActionLog>>,
}

impl ActionRecorder {
    /// Creates a recorder that writes to `log`; without a log, nothing is recorded.
    pub fn new(log: Option<Arc<dyn ActionLog>>) -> ActionRecorder {
        ActionRecorder { log }
    }

    /// Begins a request of the caller in `from`; see [`ActionRecorder::begin_of`].
    pub(super) fn begin(&self, from: &Extensions, action: &str, detail: String) -> OpenAction {
        self.begin_of(origin(from), action, detail)
    }

    /// Begins a request of `operator`. `action` is the kind of request, such as `drain`, and
    /// `detail` its argument. The request is recorded when it ends, or when the client disconnects
    /// before.
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

/// A request under way, which is recorded when the value is dropped.
pub struct OpenAction {
    log: Option<Arc<dyn ActionLog>>,
    record: v1::OperatorActed,
}

impl OpenAction {
    /// Adds the name that the client states, if any.
    pub(super) fn stated(mut self, name: &str) -> OpenAction {
        if !name.is_empty() {
            self.record.operator = format!("{} ({name})", self.record.operator);
        }
        self
    }

    /// Adds the effect of the request, if any, to the record.
    pub fn add(&mut self, text: &str) {
        if !text.is_empty() {
            self.record.detail = format!("{}: {text}", self.record.detail);
        }
    }

    /// Ends the request, and returns its outcome unchanged.
    pub(super) fn end<T>(self, outcome: Result<T, Status>) -> Result<T, Status> {
        self.close(outcome.as_ref().err().map_or("", Status::message));
        outcome
    }

    /// Ends the request with the reason of its refusal; an empty reason means that it was carried
    /// out.
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

/// The identity of the caller, and the other end of its connection.
fn origin(from: &Extensions) -> String {
    let peer = from.get::<Peer>().map(ToString::to_string);
    let peer = peer.unwrap_or_else(|| "unknown".to_owned());
    match from.get::<Arc<Caller>>() {
        Some(caller) => format!("{} at {peer}", caller.name),
        None => peer,
    }
}
