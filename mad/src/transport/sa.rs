//! The SA's own way through a port, beside that of subnet management.
//!
//! What arrives for it goes to a sink of its own, and it sends by a half of its own, from whatever
//! thread it likes: no question of a host waits for the manager of the subnet, and the manager
//! waits for no host.

use std::sync::Arc;
use std::time::Duration;

use super::{Datagram, Inbound, LocalPort, Message, RemoteAddress, SendError, SendFailure, Sink};
use crate::ids::Tid;
use crate::wire::header::{Class, MadHeader};

/// What a transport delivers for the SA.
#[derive(Debug, Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all of them are datagrams; a box each would cost more than the copy"
)]
pub enum SaInbound {
    /// A datagram as it came, a segment of a longer message perhaps: the transport does no RMPP.
    Datagram(Datagram),
    /// A message, put together by the transport where it had many segments.
    Message(Message),
    /// The transport gave up on a request.
    SendFailed {
        /// The transaction of the request. Match on [`Tid::low`].
        tid: Tid,
        /// Why.
        kind: SendFailure,
    },
}

impl SaInbound {
    /// The common header of what arrived.
    pub fn header(&self) -> Option<&MadHeader> {
        match self {
            SaInbound::Datagram(datagram) => Some(MadHeader::of(&datagram.mad)),
            SaInbound::Message(message) => message.header(),
            SaInbound::SendFailed { .. } => None,
        }
    }

    /// Where it came from.
    pub fn remote(&self) -> Option<&RemoteAddress> {
        match self {
            SaInbound::Datagram(datagram) => Some(&datagram.remote),
            SaInbound::Message(message) => Some(&message.remote),
            SaInbound::SendFailed { .. } => None,
        }
    }
}

/// The receiving half of the SA: called on the transport's receive thread. It must
/// not block, for subnet management is received by the same thread.
pub type SaSink = Box<dyn FnMut(SaInbound) + Send>;

/// The receiving halves of a transport.
pub struct Sinks {
    /// For everything else.
    pub others: Sink,
    /// For the SA; where there is none, its datagrams go to the others'.
    pub sa: Option<SaSink>,
}

impl From<Sink> for Sinks {
    fn from(others: Sink) -> Sinks {
        Sinks { others, sa: None }
    }
}

impl<F: FnMut(Inbound) + Send + 'static> From<Box<F>> for Sinks {
    fn from(others: Box<F>) -> Sinks {
        Sinks::from(others as Sink)
    }
}

impl Sinks {
    /// Hands on what arrived to the half it is for.
    pub fn deliver(&mut self, inbound: Inbound) {
        let for_sa = match (&inbound, &self.sa) {
            (Inbound::Mad(datagram), Some(_))
                if MadHeader::of(&datagram.mad).class() == Class::SUBNET_ADMINISTRATION =>
            {
                SaInbound::Datagram(*datagram)
            }
            (&Inbound::SendFailed { class, tid, kind }, Some(_))
                if class == Class::SUBNET_ADMINISTRATION =>
            {
                SaInbound::SendFailed { tid, kind }
            }
            _ => return (self.others)(inbound),
        };
        self.deliver_to_sa(for_sa);
    }

    /// Hands on what is for the SA. Without a sink for it a message of one datagram
    /// goes to the others'; there is no other form for a longer one, and who does not deliver_to_sa
    /// has not asked for it.
    pub fn deliver_to_sa(&mut self, for_sa: SaInbound) {
        match (&mut self.sa, for_sa) {
            (Some(sink), for_sa) => sink(for_sa),
            (None, SaInbound::Datagram(datagram)) => (self.others)(Inbound::Mad(datagram)),
            (None, SaInbound::SendFailed { tid, kind }) => (self.others)(Inbound::SendFailed {
                class: Class::SUBNET_ADMINISTRATION,
                tid,
                kind,
            }),
            (None, SaInbound::Message(message)) => match message.bytes.try_into() {
                Ok(mad) => {
                    let remote = message.remote;
                    (self.others)(Inbound::Mad(Datagram { mad, remote }));
                }
                Err(bytes) => {
                    let length = bytes.len();
                    tracing::debug!(length, "a message that nobody takes");
                }
            },
        }
    }
}

/// The sending half of the SA.
pub trait SaPort: Send + Sync {
    /// Whether the transport does RMPP: then [`SaPort::send`] takes whole messages, and
    /// whole messages arrive; otherwise both are datagrams, and the caller does RMPP.
    fn does_rmpp(&self) -> bool;

    /// Sends a datagram of 256 bytes, or where the transport does RMPP a whole [`Message`].
    ///
    /// `timeout` is what it is in [`Transport::send`](super::Transport::send).
    ///
    /// # Errors
    /// Nothing was sent. [`SendError::Io`] with [`WouldBlock`](std::io::ErrorKind::WouldBlock) says
    /// that there will be room in a moment.
    fn send(
        &self,
        bytes: &[u8],
        remote: &RemoteAddress,
        timeout: Duration,
    ) -> Result<(), SendError>;

    /// The port it sends from, as last known.
    fn local_port(&self) -> LocalPort;
}

impl<P: SaPort + ?Sized> SaPort for Arc<P> {
    fn does_rmpp(&self) -> bool {
        (**self).does_rmpp()
    }

    fn send(
        &self,
        bytes: &[u8],
        remote: &RemoteAddress,
        timeout: Duration,
    ) -> Result<(), SendError> {
        (**self).send(bytes, remote, timeout)
    }

    fn local_port(&self) -> LocalPort {
        (**self).local_port()
    }
}
