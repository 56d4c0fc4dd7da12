use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use super::ffi::{OpenPort, Readiness, Wake};
use super::receiver::{ReadFailures, Shared, of_sa};
use super::{device, whole_milliseconds};
use crate::transport::{
    Datagram, LocalPort, PerformancePort, RemoteAddress, SaInbound, SaPort, SaSink, SendError,
    is_rmpp,
};
use crate::wire::header::{Class, MadHeader};

/// The number of times that the kernel sends an unacknowledged segment again; it waits 2 s each
/// time.
const RMPP_RETRIES: u8 = 4;

/// The agents of the SA and of performance management on an open port.
#[derive(Clone)]
pub(super) struct Agent {
    pub(super) id: Option<u32>,
    /// The agent of performance management, whose answers the receive thread reads; `None` if it is
    /// not registered.
    pub(super) performance: Option<u32>,
    /// The agent of the class of NVIDIA devices; `None` if it is not registered.
    pub(super) vendor: Option<u32>,
    pub(super) shared: Arc<Shared>,
}

/// The part of a transport that serves the SA. It stays the same when the port is reopened.
pub(super) struct SaHalf {
    /// The agent of the SA; `None` while the port is closed.
    agent: RwLock<Option<Agent>>,
    /// A lock that is held while a thread waits for the SA's descriptor or reads it. Closing the
    /// port waits for the lock: until the lock is free, the kernel keeps the class registered, and
    /// refuses the class to the next descriptor.
    reading: Mutex<ReadFailures>,
    /// The sink of the SA; `None` if the SA has no sink of its own.
    sink: Option<Mutex<SaSink>>,
    wake: Wake,
}

impl SaHalf {
    pub(super) fn new(sink: Option<SaSink>) -> io::Result<SaHalf> {
        Ok(SaHalf {
            agent: RwLock::default(),
            reading: Mutex::default(),
            sink: sink.map(Mutex::new),
            wake: Wake::new()?,
        })
    }

    /// Whether messages of the SA go to a separate sink.
    pub(super) fn has_sink(&self) -> bool {
        self.sink.is_some()
    }

    /// The sink for the receive thread, which reads the SA's messages if the SA has no separate
    /// descriptor.
    pub(super) fn sink(half: &Arc<SaHalf>) -> Option<SaSink> {
        half.sink.as_ref()?;
        let half = Arc::clone(half);
        Some(Box::new(move |inbound| {
            half.deliver(inbound);
            half.wake.wake();
        }))
    }

    fn deliver(&self, inbound: SaInbound) {
        if let Some(sink) = &self.sink {
            (sink.lock())(inbound);
        }
    }

    /// Sends and receives through `agent` from now on.
    pub(super) fn open(&self, agent: Agent) {
        self.reading.lock().succeeded();
        *self.agent.write() = Some(agent);
        // A thread may be waiting for a port to be opened.
        self.wake.wake();
    }

    /// Stops sending and receiving. The caller must have set [`Shared::closing`].
    pub(super) fn close(&self) {
        *self.agent.write() = None;
        self.wake.wake();
        // A thread that takes the lock later finds no agent.
        drop(self.reading.lock());
    }

    /// Waits for messages at the SA's descriptor, and passes them to the sink. Returns the number
    /// of messages; `None` if there is no such descriptor, or if it does not work.
    fn read(&self, max: usize, timeout: Duration) -> Option<usize> {
        let mut failures = self.reading.lock();
        let agent = self.agent.read().clone()?;
        let shared = &*agent.shared;
        let port = shared.ports.sa.as_ref().filter(|_| shared.is_open())?;
        if !timeout.is_zero() {
            match self.wake.wait(Some(port), whole_milliseconds(timeout)) {
                Readiness::Readable => {}
                Readiness::Nothing => return Some(0),
                Readiness::Failed => {
                    let error = io::Error::from_raw_os_error(libc::EIO);
                    count_failure(&mut failures, &error, shared);
                    return Some(0);
                }
            }
        }
        let outcome = self.pass_to_sink(port, max);
        match &outcome.ended {
            Ok(()) => failures.succeeded(),
            Err(error) => count_failure(&mut failures, error, shared),
        }
        Some(outcome.count)
    }

    /// Passes the messages that have arrived to the sink, at most `max` of them.
    fn pass_to_sink(&self, port: &OpenPort, max: usize) -> ReadOutcome {
        let mut count = 0;
        while count < max {
            match port.receive() {
                Ok(Some(received)) => {
                    count += 1;
                    if let Some(inbound) = of_sa(received) {
                        self.deliver(inbound);
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    let ended = Err(error);
                    return ReadOutcome { count, ended };
                }
            }
        }
        ReadOutcome {
            count,
            ended: Ok(()),
        }
    }
}

/// The result of reading the SA's descriptor.
struct ReadOutcome {
    /// The number of messages read.
    count: usize,
    /// The error that ended the reading; `Ok` if no error occurred.
    ended: io::Result<()>,
}

/// Counts an error of the SA's descriptor. The receive thread reports a device that is gone.
fn count_failure(failures: &mut ReadFailures, error: &io::Error, shared: &Shared) {
    if failures.failed(error, shared) {
        shared.sa_failed.store(true, Ordering::Release);
    }
}

/// The sending half of the SA of a [`UmadTransport`](super::UmadTransport), usable from any thread,
/// and closed while the transport is. The SA's owner also receives through it.
///
/// The kernel does RMPP: it sends and delivers whole messages. ibsim, which replaces the kernel,
/// has no RMPP: it sends only the first datagram of a longer message, and delivers 224 bytes of a
/// datagram. This half does not work around the limit; responses of one datagram still arrive.
///
/// A device has a descriptor for subnet management and one for the SA, so that no message of the SA
/// waits for the receive thread. If there is no second descriptor, the receive thread reads for the
/// SA as well.
pub struct UmadSaPort {
    pub(super) half: Arc<SaHalf>,
    /// The port as it was when this half was made.
    pub(super) known: LocalPort,
}

impl UmadSaPort {
    /// Sends with the agent of `class`: the SA, performance management, or NVIDIA's class.
    fn send_as(
        &self,
        class: Class,
        bytes: &[u8],
        remote: &RemoteAddress,
        timeout: Duration,
    ) -> Result<(), SendError> {
        // The agent is copied, so that reopening the port never waits while the kernel copies a
        // long message.
        let agent = self.half.agent.read().clone().ok_or(SendError::Closed)?;
        if agent.shared.gone.load(Ordering::Acquire) {
            return Err(SendError::Closed);
        }
        let id = match class {
            Class::PERFORMANCE => agent.performance,
            Class::VENDOR_DEVICE => agent.vendor,
            _ => agent.id,
        };
        let id = id.ok_or(SendError::UnsupportedClass { class })?;
        let retries = if is_rmpp(bytes) { RMPP_RETRIES } else { 0 };
        let timeout = whole_milliseconds(timeout);
        let port = agent.shared.ports.of_class(class);
        // A refusal does not count towards the removal of the device: see `Shared::request_sent`.
        let sent = port.send(id, bytes, remote, timeout, retries);
        sent.map_err(|source| SendError::Io {
            device: device(&agent.shared.local.read()),
            source,
        })
    }
}

impl PerformancePort for UmadSaPort {
    fn send_performance(&self, datagram: &Datagram, timeout: Duration) -> Result<(), SendError> {
        let class = match MadHeader::of(&datagram.mad).class() {
            Class::VENDOR_DEVICE => Class::VENDOR_DEVICE,
            _ => Class::PERFORMANCE,
        };
        self.send_as(class, &datagram.mad, &datagram.remote, timeout)
    }
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
        self.send_as(Class::SUBNET_ADMINISTRATION, bytes, remote, timeout)
    }

    fn local_port(&self) -> LocalPort {
        let agent = self.half.agent.read();
        let shared = agent.as_ref().map(|agent| &agent.shared);
        shared.map_or_else(|| self.known.clone(), |shared| shared.local.read().clone())
    }

    fn is_polled(&self) -> bool {
        self.half.has_sink()
    }

    fn receive(&self, max: usize, timeout: Duration) -> usize {
        let read = self.half.read(max, timeout);
        read.unwrap_or_else(|| {
            // The receive thread ends this wait, and so does reopening the port.
            self.half.wake.wait(None, whole_milliseconds(timeout));
            0
        })
    }

    fn wake(&self) {
        self.half.wake.wake();
    }
}

impl std::fmt::Debug for UmadSaPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UmadSaPort")
            .field("local", &self.local_port())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::sync::atomic::{AtomicBool, AtomicU32};
    use std::sync::mpsc::{Receiver, channel};

    use proptest::prelude::*;
    use rsm_ids::{Guid, Lid, PortNum};

    use super::super::ffi::fake;
    use super::super::receiver::OpenPorts;
    use super::*;
    use crate::wire::attr::PortState;
    use crate::wire::header::Method;

    /// A time longer than any test runs.
    const LONG_WAIT: Duration = Duration::from_secs(600);

    /// The SA's half of an open port, the events that reach its sink, and the other end of its
    /// descriptor.
    fn opened() -> (UmadSaPort, Arc<Shared>, Receiver<SaInbound>, UnixDatagram) {
        let (sender, events) = channel();
        let sink: SaSink = Box::new(move |inbound| drop(sender.send(inbound)));
        let half = Arc::new(SaHalf::new(Some(sink)).unwrap());
        let known = LocalPort {
            ca: "none".to_owned(),
            port: PortNum(1),
            node_guid: Guid(1),
            port_guid: Guid(2),
            lid: Lid(1),
            sm_lid: Lid(1),
            state: PortState::Active,
        };
        let (sa, far) = fake::port();
        let shared = Arc::new(Shared {
            ports: OpenPorts {
                smi: fake::port().0,
                gsi: None,
                sa: Some(sa),
            },
            local: RwLock::new(known.clone()),
            closing: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            sa_failed: AtomicBool::new(false),
            send_failures: AtomicU32::new(0),
            reading: AtomicBool::new(false),
        });
        half.open(Agent {
            id: Some(0),
            performance: Some(3),
            vendor: None,
            shared: Arc::clone(&shared),
        });
        (UmadSaPort { half, known }, shared, events, far)
    }

    fn query() -> [u8; 256] {
        let mut mad = [0; 256];
        let (header, _) = zerocopy::FromBytes::mut_from_prefix(&mut mad).unwrap();
        let header: &mut MadHeader = header;
        header
            .set_class(Class::SUBNET_ADMINISTRATION)
            .set_method(Method::GET);
        mad
    }

    #[test]
    fn messages_reach_the_sink_on_the_thread_that_receives() {
        let (port, _shared, events, far) = opened();
        assert!(port.is_polled());
        for lid in 5..8 {
            far.send(&fake::arrival(Lid(lid), 0, &query())).unwrap();
        }
        // `open` ended the wait, and the messages are received nevertheless.
        assert_eq!(port.receive(2, LONG_WAIT), 2);
        assert_eq!(port.receive(2, Duration::ZERO), 1);
        assert_eq!(port.receive(2, Duration::ZERO), 0);
        let lids: Vec<u16> = events
            .try_iter()
            .map(|inbound| inbound.remote().unwrap().lid.0)
            .collect();
        assert_eq!(lids, [5, 6, 7]);
        let remote = RemoteAddress::gsi(Lid(5), 0);
        port.send(&query(), &remote, Duration::ZERO).unwrap();
        let mut sent = [0; 512];
        assert_eq!(far.recv(&mut sent).unwrap(), fake::HEADER + 256);
    }

    #[test]
    fn a_call_of_wake_ends_the_wait_with_and_without_a_descriptor() {
        let (port, shared, _came, _far) = opened();
        for _ in 0..2 {
            std::thread::scope(|scope| {
                scope.spawn(|| port.wake());
                assert_eq!(port.receive(1, LONG_WAIT), 0);
            });
            shared.gone.store(true, Ordering::Release);
        }
    }

    #[test]
    fn closing_ends_the_wait_and_frees_the_descriptor() {
        let (port, shared, _came, far) = opened();
        port.receive(1, LONG_WAIT);
        std::thread::scope(|scope| {
            scope.spawn(|| port.receive(1, LONG_WAIT));
            std::thread::sleep(Duration::from_millis(20));
            shared.closing.store(true, Ordering::Release);
            port.half.close();
            drop(shared);
            // The device closed with the last user of the port.
            assert!(far.send(&[0]).is_err());
            port.wake();
        });
        let sent = port.send(&query(), &RemoteAddress::gsi(Lid(5), 0), Duration::ZERO);
        assert!(matches!(sent, Err(SendError::Closed)));
    }

    /// The kernel refuses answers to a host that repeats its transaction identifier.
    #[test]
    fn refused_messages_of_the_sa_do_not_count_as_a_removed_device() {
        let (port, shared, _came, far) = opened();
        drop(far);
        for _ in 0..100 {
            let sent = port.send(&query(), &RemoteAddress::gsi(Lid(5), 0), Duration::ZERO);
            assert!(matches!(sent, Err(SendError::Io { .. })), "{sent:?}");
        }
        assert!(!shared.refuses_all());
        for _ in 0..16 {
            shared.request_sent(&Err(io::Error::from_raw_os_error(libc::EINVAL)));
        }
        assert!(shared.refuses_all());
    }

    #[test]
    fn a_descriptor_that_dies_is_reported_once_and_not_read_again() {
        let (port, shared, _came, far) = opened();
        port.receive(1, LONG_WAIT);
        // A device that was removed delivers an empty datagram.
        far.send(&[]).unwrap();
        assert_eq!(port.receive(1, LONG_WAIT), 0);
        assert!(shared.sa_failed.load(Ordering::Acquire));
        far.send(&fake::arrival(Lid(5), 0, &query())).unwrap();
        assert_eq!(port.receive(1, Duration::ZERO), 0);
    }

    proptest! {
        /// The kernel checks little of what a host sends, so any bytes can arrive.
        #[test]
        fn any_bytes_are_a_message_of_the_sa_or_nothing(
            status in prop_oneof![Just(0), Just(110), any::<u32>()],
            bytes in proptest::collection::vec(any::<u8>(), 0..=256),
        ) {
            let (port, _shared, events, far) = opened();
            far.send(&fake::arrival(Lid(5), status, &bytes)).unwrap();
            prop_assert_eq!(port.receive(9, LONG_WAIT), 1);
            for inbound in events.try_iter() {
                let class = inbound.header().map(MadHeader::class);
                prop_assert!(class.is_none_or(|class| class == Class::SUBNET_ADMINISTRATION));
            }
        }
    }
}
