//! Transports, which carry datagrams from and to this process.
//!
//! A transport has two halves. The sending half is a value that implements [`Transport`]. The
//! receiving half is a [`Sink`], which is passed in when the transport is opened, and called from a
//! thread of the transport. Decorators wrap both halves: they implement [`Transport`] around
//! another transport, and wrap the sink before they pass it on.
//!
//! The SA has separate halves (see [`SaPort`] and [`Sinks`]), and a
//! [`Messenger`](crate::messenger::Messenger) converts their datagrams to messages. Performance
//! management also has separate halves; see [`PerformancePort`].

mod datagram;
pub mod fault;
mod message;
mod sa;
pub mod trace;
pub mod umad;
#[cfg(feature = "verbs")]
pub mod verbs;

use std::io;
use std::time::Duration;

pub use datagram::{
    Datagram, GENERAL_SERVICE_QKEY, Grh, Inbound, LocalPort, PortEvent, RemoteAddress, SendFailure,
};
pub use message::{
    Filled, Message, Outgoing, Records, SA_DATA_LEN, SA_HEADER_LEN, Source, Streamed,
};
pub(crate) use message::{Whole, is_rmpp};
pub use sa::{PerformancePort, SaInbound, SaPort, SaSink, Sinks};

use crate::wire::header::Class;

/// The receiving half. The transport's receive thread calls the sink for every arrival, in order.
///
/// A sink may block; the transport then stops reading, and datagrams wait in the kernel's receive
/// queue.
pub type Sink = Box<dyn FnMut(Inbound) + Send>;

/// The sending half.
pub trait Transport: Send {
    /// Sends one datagram.
    ///
    /// A response that arrives within `timeout` is delivered; without a response,
    /// [`Inbound::SendFailed`] follows. A zero timeout means that no response is expected, as for
    /// responses, TrapRepress and Send; a response to such a datagram is lost. The transport owns
    /// the upper 32 bits of the transaction identifier, except in responses.
    ///
    /// # Errors
    /// The datagram was not sent; no [`Inbound::SendFailed`] follows.
    fn send(&mut self, datagram: &Datagram, timeout: Duration) -> Result<(), SendError>;

    /// The local port of the transport, as last known.
    fn local_port(&self) -> LocalPort;

    /// Sets or clears the IsSM bit in the CapabilityMask of the local port (IBA 14.2.5.6), by which
    /// other subnet managers find this one. Closing the transport clears the bit. A call that
    /// changes nothing succeeds.
    ///
    /// # Errors
    /// The bit could not be changed and keeps its value, for example while another subnet manager
    /// that ends holds it; the caller may try again.
    fn set_is_sm(&mut self, on: bool) -> Result<(), IsSmError>;
}

/// A datagram could not be sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The transport has no agent for the datagram's class.
    #[error("no agent is registered for datagrams of class {class}")]
    UnsupportedClass {
        /// The class of the datagram.
        class: Class,
    },
    /// The transport is closed, because the device vanished or it was shut down.
    #[error("the transport is closed")]
    Closed,
    /// The operating system refused the datagram.
    #[error("cannot send a datagram through {device}")]
    Io {
        /// The adapter and the port, for example `mlx5_0:1`.
        device: String,
        /// The operating system's error.
        source: io::Error,
    },
}

/// The IsSM bit of the local port could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum IsSmError {
    /// The device file for the bit has no path, or could not be opened or closed.
    #[error("cannot {} IsSM on {device}", if *.on { "set" } else { "clear" })]
    Io {
        /// The adapter and the port, for example `mlx5_0:1`.
        device: String,
        /// Whether the bit was to be set (true) or cleared.
        on: bool,
        /// The operating system's error.
        source: io::Error,
    },
    /// The transport is closed.
    #[error("the transport is closed")]
    Closed,
}

impl<T: Transport + ?Sized> Transport for Box<T> {
    fn send(&mut self, datagram: &Datagram, timeout: Duration) -> Result<(), SendError> {
        (**self).send(datagram, timeout)
    }

    fn local_port(&self) -> LocalPort {
        (**self).local_port()
    }

    fn set_is_sm(&mut self, on: bool) -> Result<(), IsSmError> {
        (**self).set_is_sm(on)
    }
}
