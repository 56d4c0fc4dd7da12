//! Subnet administration's own way through a port, beside that of subnet management.
//!
//! What arrives for it goes to a sink of its own, and it sends by a half of its own, from whatever
//! thread it likes: no question of a host waits for the manager of the subnet, and the manager
//! waits for no host.

use std::sync::Arc;
use std::time::Duration;

use super::{Datagram, Inbound, LocalPort, Message, RemoteAddress, SendError, SendFailure, Sink};
use crate::ids::Tid;
use crate::wire::header::{Class, MadHeader};

/// What a transport delivers for subnet administration.
#[derive(Debug, Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all of them are datagrams; a box each would cost more than the copy"
)]
pub enum Administered {
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

impl Administered {
    /// The common header of what arrived.
    pub fn header(&self) -> Option<&MadHeader> {
        match self {
            Administered::Datagram(datagram) => Some(MadHeader::of(&datagram.mad)),
            Administered::Message(message) => message.header(),
            Administered::SendFailed { .. } => None,
        }
    }

    /// Where it came from.
    pub fn remote(&self) -> Option<&RemoteAddress> {
        match self {
            Administered::Datagram(datagram) => Some(&datagram.remote),
            Administered::Message(message) => Some(&message.remote),
            Administered::SendFailed { .. } => None,
        }
    }
}

/// The receiving half of subnet administration: called on the transport's receive thread. It must
/// not block, for subnet management is received by the same thread.
pub type AdministrationSink = Box<dyn FnMut(Administered) + Send>;

/// The receiving halves of a transport.
pub struct Sinks {
    /// For everything else.
    pub others: Sink,
    /// For subnet administration; where there is none, its datagrams go to the others'.
    pub administration: Option<AdministrationSink>,
}

impl From<Sink> for Sinks {
    fn from(others: Sink) -> Sinks {
        Sinks {
            others,
            administration: None,
        }
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
        let administered = match (&inbound, &self.administration) {
            (Inbound::Mad(datagram), Some(_))
                if MadHeader::of(&datagram.mad).class() == Class::SUBNET_ADMINISTRATION =>
            {
                Administered::Datagram(*datagram)
            }
            (&Inbound::SendFailed { class, tid, kind }, Some(_))
                if class == Class::SUBNET_ADMINISTRATION =>
            {
                Administered::SendFailed { tid, kind }
            }
            _ => return (self.others)(inbound),
        };
        self.administer(administered);
    }

    /// Hands on what is for subnet administration. Without a sink for it a message of one datagram
    /// goes to the others'; there is no other form for a longer one, and who does not administer
    /// has not asked for it.
    pub fn administer(&mut self, administered: Administered) {
        match (&mut self.administration, administered) {
            (Some(sink), administered) => sink(administered),
            (None, Administered::Datagram(datagram)) => (self.others)(Inbound::Mad(datagram)),
            (None, Administered::SendFailed { tid, kind }) => (self.others)(Inbound::SendFailed {
                class: Class::SUBNET_ADMINISTRATION,
                tid,
                kind,
            }),
            (None, Administered::Message(message)) => match message.bytes.try_into() {
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

/// The sending half of subnet administration.
pub trait AdministrationPort: Send + Sync {
    /// Whether the transport does RMPP: then [`AdministrationPort::send`] takes whole messages, and
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

impl<P: AdministrationPort + ?Sized> AdministrationPort for Arc<P> {
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
