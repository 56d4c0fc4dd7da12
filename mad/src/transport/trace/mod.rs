//! A record of all datagrams, for Wireshark.
//!
//! Captures are pcapng with link type ERF (197) and records of type InfiniBand (21), nanosecond
//! times and the direction of every packet. Wireshark and tshark dissect them down to the fields of
//! attributes, without any preference set; `infiniband.mad.attributeid == 0x15` filters one
//! attribute. A datagram takes 352 bytes.
//!
//! A trace wraps both halves of a transport:
//!
//! ```no_run
//! # use rsm_mad::transport::{Sink, umad, trace::{PcapngWriter, Trace}};
//! # fn open(sink: Sink, clock: fn() -> rsm_mad::Time) -> Result<(), Box<dyn std::error::Error>> {
//! let file = std::io::BufWriter::new(std::fs::File::create("sm.pcapng")?);
//! let trace = Trace::new(PcapngWriter::new(file, "mlx5_0:1")?, clock);
//! let transport = umad::open(&umad::UmadSelector::default(), trace.sink(sink))?;
//! let transport = trace.transport(transport);
//! # Ok(())
//! # }
//! ```

mod packet;
mod pcapng;

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rsm_ids::Lid;

pub use packet::Direction;
pub use pcapng::PcapngWriter;

use super::{
    Datagram, Inbound, IsSmError, LocalPort, Message, PerformancePort, RemoteAddress, SaInbound,
    SaPort, SaSink, SendError, Sink, Sinks, Transport, is_rmpp,
};
use crate::Time;
use crate::wire::segments;
use crate::wire::{MAD_LEN, MadBytes};

/// The capture to which both halves write. A clone writes to the same capture.
///
/// A capture that cannot be written must not stop a subnet manager: the first error ends the
/// capture, is logged and passed to [`Trace::on_error`].
#[derive(Clone)]
pub struct Trace {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    clock: Box<dyn Fn() -> Time + Send + Sync>,
}

/// The mutable state of a capture.
struct State {
    /// The writer of the capture; `None` after an error.
    writer: Option<PcapngWriter<Box<dyn Write + Send>>>,
    local_lid: Lid,
    /// A function that is called with the error that ends the capture.
    on_error: Option<ErrorHandler>,
}

type ErrorHandler = Box<dyn FnOnce(&io::Error) + Send>;

impl State {
    /// Ends the capture.
    fn fail(&mut self, error: &io::Error) {
        tracing::error!(%error, "cannot write the trace; it ends here");
        self.writer = None;
        if let Some(handler) = self.on_error.take() {
            handler(error);
        }
    }
}

impl Trace {
    /// A trace that records to `writer`, with times from `clock`, whose origin should be 1970 so
    /// that the times are readable.
    pub fn new(
        writer: PcapngWriter<impl Write + Send + 'static>,
        clock: impl Fn() -> Time + Send + Sync + 'static,
    ) -> Trace {
        let state = State {
            writer: Some(writer.boxed()),
            local_lid: Lid::NONE,
            on_error: None,
        };
        Trace {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                clock: Box::new(clock),
            }),
        }
    }

    /// Wraps the receiving half of a transport.
    pub fn sink(&self, mut sink: Sink) -> Sink {
        let trace = self.clone();
        Box::new(move |inbound| {
            if let Inbound::Mad(datagram) = &inbound {
                trace.record(Direction::Inbound, datagram);
            }
            sink(inbound);
        })
    }

    /// Wraps all receiving halves of a transport.
    pub fn sinks(&self, sinks: impl Into<Sinks>) -> Sinks {
        let Sinks {
            others,
            sa,
            performance,
        } = sinks.into();
        let wrap = |mut sink: SaSink| -> SaSink {
            let trace = self.clone();
            Box::new(move |inbound| {
                match &inbound {
                    SaInbound::Datagram(datagram) => {
                        trace.record(Direction::Inbound, datagram);
                    }
                    SaInbound::Message(Message { bytes, remote }) => {
                        trace.record_message(Direction::Inbound, bytes, remote);
                    }
                    SaInbound::SendFailed { .. } => {}
                }
                sink(inbound);
            })
        };
        Sinks {
            others: self.sink(others),
            sa: sa.map(wrap),
            performance: performance.map(|sink| self.sink(sink)),
        }
    }

    /// Wraps the sending half of the SA.
    ///
    /// If the transport does RMPP, the trace sees only whole messages: it records their segments
    /// one after the other, and no acknowledgements.
    pub fn sa<P: SaPort>(&self, port: P) -> TracedSaPort<P> {
        TracedSaPort {
            port,
            trace: self.clone(),
        }
    }

    /// Wraps the sending half of a transport.
    pub fn transport<T: Transport>(&self, transport: T) -> Traced<T> {
        self.shared.state.lock().local_lid = transport.local_port().lid;
        Traced {
            transport,
            trace: self.clone(),
        }
    }

    /// Calls `handler` once, with the error that ends the capture. Replaces an earlier handler.
    pub fn on_error(&self, handler: impl FnOnce(&io::Error) + Send + 'static) {
        self.shared.state.lock().on_error = Some(Box::new(handler));
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// The errors of the output, which end the capture.
    pub fn flush(&self) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        let flushed = match &mut state.writer {
            Some(writer) => writer.flush(),
            None => Ok(()),
        };
        if let Err(error) = &flushed {
            state.fail(error);
        }
        flushed
    }

    /// Records a datagram, or the segments of a message.
    fn record_message(&self, direction: Direction, bytes: &[u8], remote: &RemoteAddress) {
        let record = |mad| {
            let remote = *remote;
            self.record(direction, &Datagram { mad, remote });
        };
        match <MadBytes>::try_from(bytes) {
            Ok(mad) => record(mad),
            Err(_) if is_rmpp(bytes) => segments(bytes).for_each(record),
            Err(_) => {
                let mut mad = [0; MAD_LEN];
                let length = bytes.len().min(MAD_LEN);
                mad[..length].copy_from_slice(&bytes[..length]);
                record(mad);
            }
        }
    }

    /// Writes a datagram with the present time; an error ends the capture.
    fn record(&self, direction: Direction, datagram: &Datagram) {
        let mut state = self.shared.state.lock();
        let local_lid = state.local_lid;
        let Some(writer) = &mut state.writer else {
            return;
        };
        // The clock is read under the lock, so that times in the capture never go back.
        let at = (self.shared.clock)();
        if let Err(error) = writer.write(at, direction, datagram, local_lid) {
            state.fail(&error);
        }
    }
}

/// The sending half of the SA and of performance management, which records outgoing datagrams and
/// messages, sent successfully or not.
pub struct TracedSaPort<P> {
    port: P,
    trace: Trace,
}

impl<P: PerformancePort> PerformancePort for TracedSaPort<P> {
    fn send_performance(&self, datagram: &Datagram, timeout: Duration) -> Result<(), SendError> {
        self.trace.record(Direction::Outbound, datagram);
        self.port.send_performance(datagram, timeout)
    }
}

impl<P: SaPort> SaPort for TracedSaPort<P> {
    fn does_rmpp(&self) -> bool {
        self.port.does_rmpp()
    }

    fn send(
        &self,
        bytes: &[u8],
        remote: &RemoteAddress,
        timeout: Duration,
    ) -> Result<(), SendError> {
        self.trace
            .record_message(Direction::Outbound, bytes, remote);
        self.port.send(bytes, remote, timeout)
    }

    fn local_port(&self) -> LocalPort {
        self.port.local_port()
    }

    fn is_polled(&self) -> bool {
        self.port.is_polled()
    }

    fn receive(&self, most: usize, timeout: Duration) -> usize {
        self.port.receive(most, timeout)
    }

    fn wake(&self) {
        self.port.wake();
    }
}

/// A transport that records outgoing datagrams, sent successfully or not.
pub struct Traced<T> {
    transport: T,
    trace: Trace,
}

impl<T> Traced<T> {
    /// The wrapped transport.
    pub fn get_ref(&self) -> &T {
        &self.transport
    }

    /// The wrapped transport.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.transport
    }
}

impl<T: Transport> Transport for Traced<T> {
    fn send(&mut self, datagram: &Datagram, timeout: Duration) -> Result<(), SendError> {
        // The datagram is recorded before it is sent, because otherwise its answer might be
        // recorded first.
        self.trace.record(Direction::Outbound, datagram);
        self.transport.send(datagram, timeout)
    }

    fn local_port(&self) -> LocalPort {
        let port = self.transport.local_port();
        self.trace.shared.state.lock().local_lid = port.lid;
        port
    }

    fn set_is_sm(&mut self, on: bool) -> Result<(), IsSmError> {
        self.transport.set_is_sm(on)
    }
}
