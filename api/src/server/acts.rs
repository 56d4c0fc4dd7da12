//! Requests of operators, noted with their origin and outcome.

use std::sync::Arc;

use rsm_proto::v1;
use tonic::transport::server::{TcpConnectInfo, UdsConnectInfo};
use tonic::{Extensions, Status};

use crate::traits::ActionLog;

/// Where requests that change something are noted.
#[derive(Clone)]
pub(super) struct Acts {
    log: Option<Arc<dyn ActionLog>>,
}

impl Acts {
    /// Notes requests in `log`; without one nothing is noted.
    pub(super) fn new(log: Option<Arc<dyn ActionLog>>) -> Acts {
        Acts { log }
    }

    /// Begins a request, `action` on `detail`. The note is made when it ends, or when the client
    /// leaves before.
    pub(super) fn begin(&self, from: &Extensions, action: &str, detail: String) -> Act {
        Act {
            log: self.log.clone(),
            note: v1::OperatorActed {
                action: action.to_owned(),
                detail,
                operator: origin(from),
                refusal: "the client left before the answer; it may have been carried out"
                    .to_owned(),
            },
        }
    }
}

/// A request under way.
pub(super) struct Act {
    log: Option<Arc<dyn ActionLog>>,
    note: v1::OperatorActed,
}

impl Act {
    /// Adds the name that the client states, if any.
    pub(super) fn stated(mut self, name: &str) -> Act {
        if !name.is_empty() {
            self.note.operator = format!("{} ({name})", self.note.operator);
        }
        self
    }

    /// Ends the request, and passes its outcome on.
    pub(super) fn end<T>(mut self, outcome: Result<T, Status>) -> Result<T, Status> {
        self.note.refusal = match &outcome {
            Ok(_) => String::new(),
            Err(status) => status.message().to_owned(),
        };
        outcome
    }
}

impl Drop for Act {
    fn drop(&mut self) {
        if let Some(log) = &self.log {
            log.acted(std::mem::take(&mut self.note));
        }
    }
}

/// The other end of the connection, as the kernel states it.
fn origin(from: &Extensions) -> String {
    if let Some(unix) = from.get::<UdsConnectInfo>() {
        return match &unix.peer_cred {
            Some(peer) => {
                let process = peer.pid().map(|pid| format!(", process {pid}"));
                format!("uid {}{}", peer.uid(), process.unwrap_or_default())
            }
            None => "unknown".to_owned(),
        };
    }
    let tcp = from.get::<TcpConnectInfo>();
    let address = tcp.and_then(TcpConnectInfo::remote_addr);
    address.map_or_else(|| "unknown".to_owned(), |address| format!("tcp {address}"))
}
