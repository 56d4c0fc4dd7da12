use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::RwLock;

use super::ffi::{OpenPort, PortAttributes, Received, Umad};
use super::ports::local_port;
use crate::transport::{
    Administered, Inbound, LocalPort, Message, PortEvent, SA_HEADER_LEN, SendFailure, Sinks,
};
use crate::wire::MAD_LEN;
use crate::wire::header::{Class, MadHeader, Method};

/// How long the thread waits for a datagram before it looks whether it shall end.
const WAIT_MS: u16 = 50;

/// How often the port's state is looked at. Hardware tells the device at once (feature `verbs`); this is for
/// where that is not built in, and costs a few small files.
const STATE_INTERVAL: Duration = Duration::from_secs(1);

/// What the sending half and the thread share.
pub(super) struct Shared {
    pub(super) port: OpenPort,
    pub(super) local: RwLock<LocalPort>,
    pub(super) closing: AtomicBool,
    /// The device vanished.
    pub(super) gone: AtomicBool,
}

/// Reads until told to end or until the device vanishes, and gives the sinks back.
pub(super) fn run(
    umad: &Umad,
    shared: &Arc<Shared>,
    known: PortAttributes,
    mut sinks: Sinks,
) -> Sinks {
    let mut watch = StateWatch::new(known);
    while !shared.closing.load(Ordering::Acquire) {
        match shared.port.receive() {
            Ok(Some(received)) => {
                if received.is_message() {
                    let message = received.into_message();
                    sinks.administer(Administered::Message(message));
                } else if let Some(inbound) = classify(&received) {
                    sinks.deliver(inbound);
                }
            }
            Ok(None) => shared.port.wait(WAIT_MS),
            Err(error) => {
                let local = shared.local.read();
                tracing::error!(ca = local.ca, port = local.port.0, %error, "the device is gone");
                drop(local);
                shared.gone.store(true, Ordering::Release);
                sinks.deliver(Inbound::Port(PortEvent::Gone));
                break;
            }
        }
        for event in watch.look(umad, shared) {
            sinks.deliver(Inbound::Port(event));
        }
    }
    sinks
}

impl Received {
    /// Whether it arrived and is subnet administration's, where the kernel makes messages of datagrams.
    fn is_message(&self) -> bool {
        self.status == 0
            && MadHeader::of(&self.datagram.mad).class() == Class::SUBNET_ADMINISTRATION
    }

    /// All of it. What has not even headers is a datagram of zeroes behind what it has.
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

fn classify(received: &Received) -> Option<Inbound> {
    if received.status == 0 {
        return Some(Inbound::Mad(received.datagram));
    }
    // What was sent comes back. Only requests wait for something; the identifier of anything else is another's.
    let header = MadHeader::of(&received.datagram.mad);
    let method = header.method();
    if method.is_response() || method == Method::TRAP_REPRESS {
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

/// Compares what the system says of the port with what it said before.
struct StateWatch {
    known: PortAttributes,
    next: Instant,
}

#[allow(
    clippy::disallowed_methods,
    reason = "the receive thread is part of the shell"
)]
impl StateWatch {
    fn new(known: PortAttributes) -> StateWatch {
        StateWatch {
            known,
            next: Instant::now() + STATE_INTERVAL,
        }
    }

    fn look(&mut self, umad: &Umad, shared: &Shared) -> Vec<PortEvent> {
        let now = Instant::now();
        if now < self.next {
            return Vec::new();
        }
        self.next = now + STATE_INTERVAL;
        let local = shared.local.read().clone();
        let Ok(attributes) = umad.port(&local.ca, local.port) else {
            // The device may be on its way out; reading from it will tell.
            return Vec::new();
        };
        let events = differences(&self.known, &attributes);
        *shared.local.write() = local_port(&local.ca, local.port, local.node_guid, &attributes);
        self.known = attributes;
        events
    }
}

fn differences(before: &PortAttributes, after: &PortAttributes) -> Vec<PortEvent> {
    let mut events = Vec::new();
    if before.is_up() != after.is_up() {
        events.push(if after.is_up() {
            PortEvent::Up
        } else {
            PortEvent::Down
        });
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
    fn every_change_is_an_event_and_activation_is_none() {
        let before = attributes();
        let mut after = attributes();
        after.state = 2;
        assert_eq!(differences(&before, &after), []);
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
    fn only_requests_fail_for_want_of_an_answer() {
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
