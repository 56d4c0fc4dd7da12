//! The halves of a transport for the SA and for performance management, in addition to the halves
//! for subnet management.
//!
//! Datagrams of the SA arrive at a separate sink and leave by a separate sending half, from any
//! thread. A host's request therefore never waits for the subnet manager, and the subnet manager
//! never waits for a host.

use std::sync::Arc;
use std::time::Duration;

use super::{Datagram, Inbound, LocalPort, Message, RemoteAddress, SendError, SendFailure, Sink};
use crate::ids::Tid;
use crate::wire::header::{Class, MadHeader};

/// An event that a transport delivers for the SA.
#[derive(Debug, Clone)]
pub enum SaInbound {
    /// A single datagram, which may be a segment of a longer message: the transport does no RMPP.
    /// The datagram is in a box, so that the events of transports that do RMPP, such as the
    /// kernel's, stay small.
    Datagram(Box<Datagram>),
    /// A whole message: the transport does RMPP.
    Message(Message),
    /// The transport gave up on a request.
    SendFailed {
        /// The transaction of the request. Match on [`Tid::low`].
        tid: Tid,
        /// The reason why the message was not sent.
        kind: SendFailure,
    },
}

impl SaInbound {
    /// The common header of the datagram or message.
    pub fn header(&self) -> Option<&MadHeader> {
        match self {
            SaInbound::Datagram(datagram) => Some(MadHeader::of(&datagram.mad)),
            SaInbound::Message(message) => message.header(),
            SaInbound::SendFailed { .. } => None,
        }
    }

    /// The remote end that sent the message; `None` if the event is not a message.
    pub fn remote(&self) -> Option<&RemoteAddress> {
        match self {
            SaInbound::Datagram(datagram) => Some(&datagram.remote),
            SaInbound::Message(message) => Some(&message.remote),
            SaInbound::SendFailed { .. } => None,
        }
    }
}

/// The receiving half of the SA, called on the transport's receive thread or by
/// [`SaPort::receive`]. It must not block, because the same thread may receive subnet management.
pub type SaSink = Box<dyn FnMut(SaInbound) + Send>;

/// The receiving halves of a transport.
pub struct Sinks {
    /// The sink for all other classes.
    pub others: Sink,
    /// The sink for the SA; without it, the datagrams of the SA go to `others`.
    pub sa: Option<SaSink>,
    /// The sink for performance management (class 0x04) and the class of NVIDIA devices (0x0A);
    /// without it, their datagrams go to `others`.
    /// The sink must not block: it is called on the thread that receives subnet management.
    pub performance: Option<Sink>,
}

impl From<Sink> for Sinks {
    fn from(others: Sink) -> Sinks {
        Sinks {
            others,
            sa: None,
            performance: None,
        }
    }
}

impl<F: FnMut(Inbound) + Send + 'static> From<Box<F>> for Sinks {
    fn from(others: Box<F>) -> Sinks {
        Sinks::from(others as Sink)
    }
}

impl Sinks {
    /// Delivers an event to the sink of its class.
    pub fn deliver(&mut self, inbound: Inbound) {
        let class = match &inbound {
            Inbound::Mad(datagram) => Some(MadHeader::of(&datagram.mad).class()),
            Inbound::SendFailed { class, .. } => Some(*class),
            Inbound::Port(_) => None,
        };
        if let Some(Class::PERFORMANCE | Class::VENDOR_DEVICE) = class
            && let Some(sink) = &mut self.performance
        {
            return sink(inbound);
        }
        let for_sa = match (&inbound, &self.sa) {
            (Inbound::Mad(datagram), Some(_))
                if MadHeader::of(&datagram.mad).class() == Class::SUBNET_ADMINISTRATION =>
            {
                SaInbound::Datagram(Box::new(*datagram))
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

    /// Delivers an event of the SA. Without a sink for the SA, a message of one datagram goes to
    /// `others`, and a longer message is dropped, because `others` accepts only datagrams.
    pub fn deliver_to_sa(&mut self, for_sa: SaInbound) {
        match (&mut self.sa, for_sa) {
            (Some(sink), for_sa) => sink(for_sa),
            (None, SaInbound::Datagram(datagram)) => (self.others)(Inbound::Mad(*datagram)),
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
                    tracing::debug!(length, "no receiver takes this message");
                }
            },
        }
    }
}

/// The sending half of performance management: usable from any thread.
pub trait PerformancePort: Send + Sync {
    /// Sends one datagram of performance management (class 0x04) or of NVIDIA devices (0x0A).
    ///
    /// `timeout` is as in [`Transport::send`](super::Transport::send).
    ///
    /// # Errors
    /// The errors of [`SaPort::send`].
    fn send_performance(&self, datagram: &Datagram, timeout: Duration) -> Result<(), SendError>;
}

/// The sending half of the SA.
pub trait SaPort: Send + Sync {
    /// Whether the transport does RMPP. If so, [`SaPort::send`] accepts whole messages, and whole
    /// messages arrive; otherwise datagrams are sent and arrive, and the caller does RMPP.
    fn does_rmpp(&self) -> bool;

    /// Sends a datagram of 256 bytes, or, if the transport does RMPP, a whole [`Message`].
    ///
    /// `timeout` is as in [`Transport::send`](super::Transport::send).
    ///
    /// # Errors
    /// The datagram or message was not sent. [`SendError::Io`] with
    /// [`WouldBlock`](std::io::ErrorKind::WouldBlock): the transport will have room in a moment.
    fn send(
        &self,
        bytes: &[u8],
        remote: &RemoteAddress,
        timeout: Duration,
    ) -> Result<(), SendError>;

    /// The local port of this half, as last known.
    fn local_port(&self) -> LocalPort;

    /// Whether messages wait until the owner calls [`SaPort::receive`]. If not, a thread of the
    /// transport passes them to the [`SaSink`].
    fn is_polled(&self) -> bool {
        false
    }

    /// Passes at most `most` messages to the [`SaSink`], on the calling thread; waits up to
    /// `timeout` for the first message. A call of [`SaPort::wake`], even one before this call, ends
    /// the wait. Returns the number of messages. While the transport is closed, the method only
    /// waits.
    ///
    /// Only a port that [is polled](SaPort::is_polled) supports this method; other ports return 0
    /// at once.
    fn receive(&self, _most: usize, _timeout: Duration) -> usize {
        0
    }

    /// Ends the wait of [`SaPort::receive`], from any thread.
    fn wake(&self) {}
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

    fn is_polled(&self) -> bool {
        (**self).is_polled()
    }

    fn receive(&self, most: usize, timeout: Duration) -> usize {
        (**self).receive(most, timeout)
    }

    fn wake(&self) {
        (**self).wake();
    }
}
