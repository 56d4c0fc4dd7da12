use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::RwLock;

use super::ffi::{self, OpenPort, PortAttributes, Received};
use super::ports::local_port;
use super::sysfs::{PortWatch, Reading};
use crate::transport::{
    Inbound, LocalPort, Message, PortEvent, SA_HEADER_LEN, SaInbound, SendFailure, Sinks,
};
use crate::wire::MAD_LEN;
use crate::wire::attr::PortState;
use crate::wire::header::{Class, MadHeader, Method};

/// The time in ms that the thread waits for a datagram before it checks whether to end.
const WAIT_MS: u16 = 50;

/// The number of consecutive read errors that are tolerated. With the next error, or with any final
/// error, the device counts as removed.
const READ_FAILURES_TOLERATED: u32 = 8;

/// The number of consecutive refused requests of subnet management with which the device counts as
/// removed: more than a busy driver refuses.
const SEND_FAILURES_TOLERATED: u32 = 16;

/// The open ports of one device, or of the two devices of a multi-plane adapter's port.
pub(super) struct OpenPorts {
    /// The port of the device with QP 0.
    pub(super) smi: OpenPort,
    /// The port of the device with QP 1, if that is another device.
    pub(super) gsi: Option<OpenPort>,
    /// The SA's own descriptor on the device with QP 1; the receive thread does not read it.
    pub(super) sa: Option<OpenPort>,
}

impl OpenPorts {
    /// The port through which datagrams of `class` leave.
    pub(super) fn of_class(&self, class: Class) -> &OpenPort {
        match (&self.sa, &self.gsi) {
            (Some(sa), _) if class == Class::SUBNET_ADMINISTRATION => sa,
            (_, Some(gsi)) if !class.is_subnet_management() => gsi,
            _ => &self.smi,
        }
    }

    /// The descriptors that the receive thread reads.
    fn of_thread(&self) -> impl Iterator<Item = &OpenPort> {
        [Some(&self.smi), self.gsi.as_ref()].into_iter().flatten()
    }

    /// Whether a descriptor of the receive thread has a datagram to read.
    fn has_input(&self) -> bool {
        ffi::has_input([&self.smi, self.gsi.as_ref().unwrap_or(&self.smi)])
    }

    /// Waits until a descriptor of the receive thread has a datagram, or for `timeout_ms`.
    fn wait(&self, timeout_ms: u16) {
        match &self.gsi {
            Some(gsi) => ffi::wait_for_either([&self.smi, gsi], timeout_ms),
            None => self.smi.wait(timeout_ms),
        }
    }
}

/// The state that the sending half and the thread share.
pub(super) struct Shared {
    pub(super) ports: OpenPorts,
    pub(super) local: RwLock<LocalPort>,
    pub(super) closing: AtomicBool,
    /// Whether the device has been removed.
    pub(super) gone: AtomicBool,
    /// Whether reading the SA's own descriptor failed for good.
    pub(super) sa_failed: AtomicBool,
    /// The number of consecutive requests of subnet management that the device refused.
    pub(super) send_failures: AtomicU32,
    /// Whether the receive thread is reading a datagram, or passing a datagram to a sink.
    pub(super) reading: AtomicBool,
}

impl Shared {
    /// Counts the result of sending a request of subnet management. Answers do not count: a
    /// requester chooses their transaction identifiers, and the kernel refuses an answer (EINVAL)
    /// while another one with the same identifier, class and destination is being sent, for example
    /// a long answer of the SA that awaits its last acknowledgement.
    pub(super) fn request_sent(&self, result: &io::Result<()>) {
        match result {
            Ok(()) => self.send_failures.store(0, Ordering::Relaxed),
            // The device works, but is short of buffers.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOMEM | libc::EAGAIN)) => {}
            Err(_) => {
                self.send_failures.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Whether the device refused so many requests in a row that it counts as removed.
    pub(super) fn refuses_all(&self) -> bool {
        self.send_failures.load(Ordering::Relaxed) >= SEND_FAILURES_TOLERATED
    }

    /// Whether a datagram has arrived and no sink has been called for it yet.
    pub(super) fn has_unread(&self) -> bool {
        // The order matters: the second check sees a datagram that the thread reads between the two
        // checks.
        self.is_open() && (self.ports.has_input() || self.reading.load(Ordering::SeqCst))
    }

    /// Whether datagrams can still be sent and received.
    pub(super) fn is_open(&self) -> bool {
        let ended = [&self.closing, &self.gone, &self.sa_failed];
        !ended.iter().any(|ended| ended.load(Ordering::Acquire))
    }
}

/// The number of consecutive read errors of one descriptor.
#[derive(Debug, Default)]
pub(super) struct ReadFailures(u32);

impl ReadFailures {
    pub(super) fn succeeded(&mut self) {
        self.0 = 0;
    }

    /// Counts and logs an error. Returns whether the device counts as removed.
    pub(super) fn failed(&mut self, error: &io::Error, shared: &Shared) -> bool {
        self.0 += 1;
        let local = shared.local.read();
        tracing::warn!(ca = local.ca, port = local.port.0, %error, "cannot read from the device");
        is_final(error) || self.0 > READ_FAILURES_TOLERATED
    }
}

/// Whether a read error means that the device has been removed, so that further reads are useless.
fn is_final(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENODEV | libc::ENXIO | libc::EBADF | libc::EIO)
    )
}

/// Reads datagrams until the device is closed or removed, and returns the sinks.
pub(super) fn run(
    shared: &Arc<Shared>,
    mut known: PortAttributes,
    watch: &PortWatch,
    mut sinks: Sinks,
) -> Sinks {
    let mut failures = ReadFailures::default();
    while !shared.closing.load(Ordering::Acquire) {
        shared.reading.store(true, Ordering::SeqCst);
        let mut idle = true;
        let mut gone = shared.refuses_all() || shared.sa_failed.load(Ordering::Acquire);
        for port in shared.ports.of_thread() {
            match port.receive() {
                Ok(received) => {
                    failures.succeeded();
                    idle &= received.is_none();
                    if let Some(received) = received {
                        deliver(&mut sinks, received);
                    }
                }
                Err(error) => gone |= failures.failed(&error, shared),
            }
        }
        while let Some(reading) = watch.poll() {
            match reading {
                Reading::Port(attributes) => {
                    update_state(shared, &mut known, attributes, &mut sinks);
                }
                Reading::Gone => {
                    gone = true;
                    break;
                }
            }
        }
        if gone {
            let local = shared.local.read().clone();
            tracing::error!(ca = local.ca, port = local.port.0, "the device is gone");
            shared.gone.store(true, Ordering::Release);
            sinks.deliver(Inbound::Port(PortEvent::Gone));
            break;
        }
        if idle {
            shared.reading.store(false, Ordering::SeqCst);
            shared.ports.wait(WAIT_MS);
        }
    }
    shared.reading.store(false, Ordering::SeqCst);
    sinks
}

/// Passes a message or datagram that was read from a descriptor to its sink.
fn deliver(sinks: &mut Sinks, received: Received) {
    if received.is_message() {
        sinks.deliver_to_sa(SaInbound::Message(received.into_message()));
    } else if let Some(inbound) = classify(&received) {
        sinks.deliver(inbound);
    }
}

/// Converts a datagram read from the SA's own descriptor into an event; `None` if the datagram is
/// of another class, which the kernel does not deliver there.
pub(super) fn of_sa(received: Received) -> Option<SaInbound> {
    if received.is_message() {
        return Some(SaInbound::Message(received.into_message()));
    }
    match classify(&received)? {
        Inbound::SendFailed { class, tid, kind } if class == Class::SUBNET_ADMINISTRATION => {
            Some(SaInbound::SendFailed { tid, kind })
        }
        other => {
            tracing::debug!(
                ?other,
                "the SA's descriptor gave a datagram of another class"
            );
            None
        }
    }
}

/// Delivers an event for each difference from the previous state.
fn update_state(
    shared: &Shared,
    known: &mut PortAttributes,
    attributes: PortAttributes,
    sinks: &mut Sinks,
) {
    let local = shared.local.read().clone();
    *shared.local.write() = local_port(&local.ca, local.port, local.node_guid, &attributes);
    for event in differences(known, &attributes) {
        sinks.deliver(Inbound::Port(event));
    }
    *known = attributes;
}

impl Received {
    /// Whether the datagram is a received message of the SA for which the kernel does RMPP.
    fn is_message(&self) -> bool {
        self.status == 0
            && MadHeader::of(&self.datagram.mad).class() == Class::SUBNET_ADMINISTRATION
    }

    /// The whole message. A message shorter than the headers becomes a datagram padded with zeroes.
    fn into_message(self) -> Message {
        let mut bytes = self.datagram.mad.to_vec();
        if (SA_HEADER_LEN..MAD_LEN).contains(&self.length) {
            bytes.truncate(self.length);
        }
        bytes.extend_from_slice(&self.rest);
        Message {
            bytes,
            remote: self.datagram.remote,
        }
    }
}

/// Whether a datagram of this method answers a datagram of the remote end, to which its transaction
/// identifier belongs.
pub(super) fn is_answer(method: Method) -> bool {
    method.is_response() || method == Method::TRAP_REPRESS
}

/// The event for a datagram; `None` for a response of this side that the kernel returned.
fn classify(received: &Received) -> Option<Inbound> {
    if received.status == 0 {
        return Some(Inbound::Mad(received.datagram));
    }
    // The kernel returns sent datagrams. Only requests wait for a response.
    let header = MadHeader::of(&received.datagram.mad);
    if is_answer(header.method()) {
        tracing::debug!(
            ?header,
            status = received.status,
            "a response was not delivered"
        );
        return None;
    }
    let kind = match received.status {
        libc::ETIMEDOUT => SendFailure::TimedOut,
        status => SendFailure::Other(status),
    };
    Some(Inbound::SendFailed {
        class: header.class(),
        tid: header.tid(),
        kind,
    })
}

/// The events for the differences between two states of the port.
fn differences(before: &PortAttributes, after: &PortAttributes) -> Vec<PortEvent> {
    let mut events = Vec::new();
    if before.is_up() != after.is_up() {
        events.push(if after.is_up() {
            PortEvent::Up
        } else {
            PortEvent::Down
        });
    } else if before.port_state() > PortState::Init && after.port_state() == PortState::Init {
        events.push(PortEvent::Retrained);
    }
    if (before.lid, before.lmc) != (after.lid, after.lmc) {
        events.push(PortEvent::LidChanged);
    }
    if (before.sm_lid, before.sm_sl) != (after.sm_lid, after.sm_sl) {
        events.push(PortEvent::SmChanged);
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Tid;
    use crate::transport::{Datagram, RemoteAddress};
    use crate::wire::header::{AttrId, Class};
    use crate::wire::smp::{Smp, SmpRequest};
    use rsm_ids::{Guid, Lid};

    fn attributes() -> PortAttributes {
        PortAttributes {
            port_guid: Guid(1),
            lid: Lid(4),
            lmc: 0,
            sm_lid: Lid(1),
            sm_sl: 0,
            state: 4,
            link_layer: "InfiniBand".to_owned(),
        }
    }

    #[test]
    fn every_change_of_the_port_except_its_activation_is_an_event() {
        let before = attributes();
        let mut after = attributes();
        after.state = 2;
        assert_eq!(differences(&before, &after), [PortEvent::Retrained]);
        assert_eq!(differences(&after, &before), []);
        after.state = 1;
        after.lid = Lid(5);
        after.sm_sl = 1;
        let events = [PortEvent::Down, PortEvent::LidChanged, PortEvent::SmChanged];
        assert_eq!(differences(&before, &after), events);
        assert_eq!(differences(&after, &before)[0], PortEvent::Up);
    }

    fn returned(method: Method, status: i32) -> Option<Inbound> {
        let smp = Smp::lid_routed(&SmpRequest {
            method,
            attribute: AttrId::SM_INFO,
            modifier: 0,
            tid: Tid(7),
            m_key: 0,
            data: [0; 64],
        });
        classify(&Received {
            status,
            length: MAD_LEN,
            rest: Vec::new(),
            datagram: Datagram {
                mad: *smp.as_bytes(),
                remote: RemoteAddress::smi(Lid(3)),
            },
        })
    }

    #[test]
    fn only_a_returned_request_is_a_failed_send() {
        let failed = |kind| {
            Some(Inbound::SendFailed {
                class: Class::SUBNET_LID_ROUTED,
                tid: Tid(7),
                kind,
            })
        };
        assert_eq!(returned(Method::GET, 110), failed(SendFailure::TimedOut));
        assert_eq!(returned(Method::SET, 5), failed(SendFailure::Other(5)));
        assert_eq!(returned(Method::GET_RESPONSE, 110), None);
        assert_eq!(returned(Method::TRAP_REPRESS, 110), None);
        assert!(matches!(
            returned(Method::GET_RESPONSE, 0),
            Some(Inbound::Mad(_))
        ));
    }
}
