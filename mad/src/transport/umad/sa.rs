use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::RwLock;

use super::receiver::Shared;
use super::{device, whole_milliseconds};
use crate::transport::{LocalPort, RemoteAddress, SaPort, SendError, is_rmpp};
use crate::wire::header::Class;

/// How often the kernel resends an unacknowledged segment. It waits 2 s each time.
const RMPP_RETRIES: u8 = 4;

/// The agent of the SA on an open port.
#[derive(Clone)]
pub(super) struct Agent {
    pub(super) id: Option<u32>,
    pub(super) shared: Arc<Shared>,
}

/// The sending half of the SA of a [`UmadTransport`](super::UmadTransport): usable from any thread,
/// and closed while the transport is.
///
/// The kernel does RMPP: it sends and delivers whole messages. ibsim stands in for a kernel without
/// RMPP: it sends only the first datagram of a longer message, and delivers 224 bytes of a
/// datagram. This half does not work around that; responses of one datagram still arrive.
pub struct UmadSaPort {
    pub(super) agent: Arc<RwLock<Option<Agent>>>,
    /// The port as it was when this half was made.
    pub(super) known: LocalPort,
}

impl SaPort for UmadSaPort {
    fn does_rmpp(&self) -> bool {
        true
    }

    fn send(
        &self,
        bytes: &[u8],
        remote: &RemoteAddress,
        timeout: Duration,
    ) -> Result<(), SendError> {
        // A copy, so that reopening the port never waits while the kernel copies a long message.
        let agent = self.agent.read().clone().ok_or(SendError::Closed)?;
        if agent.shared.gone.load(Ordering::Acquire) {
            return Err(SendError::Closed);
        }
        let id = agent.id.ok_or(SendError::UnsupportedClass {
            class: Class::SUBNET_ADMINISTRATION,
        })?;
        let retries = if is_rmpp(bytes) { RMPP_RETRIES } else { 0 };
        let timeout = whole_milliseconds(timeout);
        let port = agent.shared.ports.of_class(Class::SUBNET_ADMINISTRATION);
        let sent = port.send(id, bytes, remote, timeout, retries);
        agent.shared.sent(&sent);
        sent.map_err(|source| SendError::Io {
            device: device(&agent.shared.local.read()),
            source,
        })
    }

    fn local_port(&self) -> LocalPort {
        let agent = self.agent.read();
        let shared = agent.as_ref().map(|agent| &agent.shared);
        shared.map_or_else(|| self.known.clone(), |shared| shared.local.read().clone())
    }
}

impl std::fmt::Debug for UmadSaPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UmadSaPort")
            .field("local", &self.local_port())
            .finish_non_exhaustive()
    }
}
