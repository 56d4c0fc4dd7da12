//! The Linux MAD device, through libibumad.
//!
//! The library is loaded at first use: a program built with this module runs without the library as
//! long as it opens no port. One thread waits and reads; the caller's thread writes.
//!
//! An SA with a sink has a separate descriptor, which its owner reads
//! ([`SaPort::receive`](super::SaPort::receive)): hosts and subnet management share no thread and
//! no queue. If the device provides no second descriptor, one thread reads for both, and the log
//! says so. For example, ibsim delivers all requests to one descriptor of a node.
//!
//! # When the device vanishes
//!
//! A link that goes down leaves the port open; going down and coming up are events. If reading
//! fails because the adapter was removed or its driver reset, the thread reports
//! [`PortEvent::Gone`](super::PortEvent::Gone) and ends; from then on, sending fails with
//! [`SendError::Closed`]. The owner calls [`UmadTransport::reopen`], at intervals of its choice,
//! until the call succeeds.
//!
//! # Why not verbs
//!
//! libibumad is loaded at run time, so that a build needs no headers. Verbs need them: `rdma-sys`
//! (feature `verbs`) only adds the asynchronous events of the local adapter.

mod agents;
mod ffi;
mod ports;
mod receiver;
mod sa;
mod sysfs;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::RwLock;
use rsm_ids::PortNum;

use self::agents::{Agents, Presence};
use self::ffi::{IsSm, OpenPort, Pair, Umad};
use self::receiver::{OpenPorts, Shared, is_answer};
use self::sysfs::{PortFiles, PortWatch};
use super::{Datagram, IsSmError, LocalPort, SendError, Sinks, Transport};
use crate::wire::header::{Class, MadHeader};

pub use ports::UmadSelector;
pub use sa::UmadSaPort;
use sa::{Agent, SaHalf};

/// The reason why a port could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum UmadError {
    /// The library is missing or lacks a function.
    #[error("cannot load libibumad.so.3 (package libibumad3)")]
    Library(#[source] libloading::Error),
    /// The host has no InfiniBand port.
    #[error(
        "there is no InfiniBand adapter, or its driver is not loaded: \
         load its driver and `modprobe ib_umad`"
    )]
    NoAdapter,
    /// Several ports are suitable, and none has a link.
    #[error("none of the InfiniBand ports has a link, and no port is named to wait for: {seen}")]
    NoLink {
        /// The ports of this host, with their states.
        seen: String,
    },
    /// No port matches the selector.
    #[error("no InfiniBand port matches {wanted}; there are: {seen}")]
    NoPort {
        /// The selector, with `*` for open fields.
        wanted: String,
        /// The ports of this host, with their states.
        seen: String,
    },
    /// The port could not be opened.
    #[error("cannot open {device}")]
    Open {
        /// The adapter and the port, for example `mlx5_0:1`.
        device: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// Another process, most likely another subnet manager, has registered for the class.
    #[error(
        "cannot register for datagrams of class {class} on {device}: another subnet manager, such as \
         OpenSM, probably runs on this port; stop it, or name another port"
    )]
    Register {
        /// The adapter and the port, for example `mlx5_0:1`.
        device: String,
        /// The management class.
        class: Class,
        /// The operating system's error.
        source: io::Error,
    },
    /// The operating system has no descriptor left for waking the SA's thread.
    #[error("cannot create the event that wakes the SA")]
    Wake(#[source] io::Error),
    /// The receive thread could not be started.
    #[error("cannot start the receive thread of {device}")]
    Thread {
        /// The adapter and the port, for example `mlx5_0:1`.
        device: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// The sink panicked, and the transport can deliver no more.
    #[error("the receive thread of {device} panicked")]
    SinkLost {
        /// The adapter and the port, for example `mlx5_0:1`.
        device: String,
    },
}

/// The InfiniBand ports of this host, in any state.
///
/// # Errors
/// [`UmadError::Library`].
pub fn list_ports() -> Result<Vec<LocalPort>, UmadError> {
    Ok(ports::list(Umad::load().map_err(UmadError::Library)?))
}

/// Opens the port that `selector` selects. A thread delivers its datagrams to `sinks`.
///
/// # Errors
/// The port cannot be opened; [`UmadError`] has the reasons. No other port is tried: it may belong
/// to another fabric.
pub fn open(selector: &UmadSelector, sinks: impl Into<Sinks>) -> Result<UmadTransport, UmadError> {
    open_as(selector, Presence::Manager, sinks.into())
}

/// Opens a port like [`open`], for a requester: only responses are delivered, so that a subnet
/// manager can run on the same port.
///
/// # Errors
/// The errors of [`open`].
pub fn observe(
    selector: &UmadSelector,
    sinks: impl Into<Sinks>,
) -> Result<UmadTransport, UmadError> {
    open_as(selector, Presence::Observer, sinks.into())
}

/// Opens the port that `selector` selects, and registers with `presence`.
fn open_as(
    selector: &UmadSelector,
    presence: Presence,
    sinks: Sinks,
) -> Result<UmadTransport, UmadError> {
    let umad = Umad::load().map_err(UmadError::Library)?;
    let local = ports::choose(selector, ports::list(umad))?;
    let Sinks {
        others,
        sa,
        performance,
    } = sinks;
    let sa = Arc::new(SaHalf::new(sa).map_err(UmadError::Wake)?);
    let registered = RegisteredPort::open(umad, &local, presence, sa.has_sink())?;
    let mut transport = UmadTransport {
        umad,
        presence,
        local,
        opened: None,
        sinks: Some(Sinks {
            others,
            sa: SaHalf::sink(&sa),
            performance,
        }),
        sa,
        wants_is_sm: false,
        is_sm: None,
    };
    transport.start(registered)?;
    Ok(transport)
}

fn device(local: &LocalPort) -> String {
    format!("{}:{}", local.ca, local.port)
}

/// An open port with its agents.
struct RegisteredPort {
    ports: OpenPorts,
    agents: Agents,
}

impl RegisteredPort {
    /// Opens a port, and registers for its classes. `for_sa` states whether the SA has a sink.
    fn open(
        umad: &'static Umad,
        local: &LocalPort,
        presence: Presence,
        for_sa: bool,
    ) -> Result<RegisteredPort, UmadError> {
        let ports = open_ports(umad, local, for_sa && presence == Presence::Manager)?;
        let agents = Agents::register(&ports, presence).map_err(|error| UmadError::Register {
            device: device(local),
            class: error.class,
            source: error.source,
        })?;
        Ok(RegisteredPort { ports, agents })
    }
}

/// Opens the device of a port, or two devices if its QP 0 and QP 1 belong to different devices. If
/// `for_sa` is set, also opens the device of QP 1 a second time, for the SA.
fn open_ports(
    umad: &'static Umad,
    local: &LocalPort,
    for_sa: bool,
) -> Result<OpenPorts, UmadError> {
    let (smi, gsi) = devices(
        umad.pair(&local.ca, local.port),
        (local.ca.clone(), local.port),
    );
    let open = |(ca, port): &Device| {
        umad.open(ca, *port).map_err(|source| UmadError::Open {
            device: format!("{ca}:{port}"),
            source,
        })
    };
    let mut ports = OpenPorts {
        smi: open(&smi)?,
        gsi: gsi.as_ref().map(open).transpose()?,
        sa: None,
    };
    if for_sa {
        let first = ports.gsi.as_ref().unwrap_or(&ports.smi);
        ports.sa = own_descriptor(first, || open(gsi.as_ref().unwrap_or(&smi)), local);
    }
    Ok(ports)
}

/// Opens the SA's own descriptor of a device on which `first` is open; `None` if the device
/// provides no second descriptor.
fn own_descriptor(
    first: &OpenPort,
    open_again: impl FnOnce() -> Result<OpenPort, UmadError>,
    local: &LocalPort,
) -> Option<OpenPort> {
    const EFFECT: &str = "the SA shares a descriptor and a thread with subnet management: under \
                          load hosts wait longer for answers";
    let device = device(local);
    if !first.is_of_kernel() {
        tracing::info!(
            device,
            "the device is ibsim's, which gives all requests to one descriptor; {EFFECT}"
        );
        return None;
    }
    open_again()
        .inspect_err(|error| {
            let error: &dyn std::error::Error = error;
            tracing::warn!(device, error, "the device cannot be opened twice; {EFFECT}");
        })
        .ok()
}

type Device = (String, PortNum);

/// The device of QP 0, and the device of QP 1 if QP 1 belongs to another device.
fn devices(pair: Option<Pair>, own: Device) -> (Device, Option<Device>) {
    match pair {
        Some(pair) if pair.smi == pair.gsi => (pair.smi, None),
        Some(pair) => (pair.smi, Some(pair.gsi)),
        None => (own, None),
    }
}

/// A port that was opened. If its device vanishes, [`UmadTransport::reopen`] opens it again.
pub struct UmadTransport {
    umad: &'static Umad,
    presence: Presence,
    /// The port's properties at the last opening.
    local: LocalPort,
    /// The open port; `None` while the port is being opened, or if opening failed.
    opened: Option<Opened>,
    /// The sinks; `None` while the receive thread owns them, and after it has panicked.
    sinks: Option<Sinks>,
    sa: Arc<SaHalf>,
    /// Whether IsSM is to be set whenever the port is open, by the last call of `set_is_sm`.
    wants_is_sm: bool,
    /// The file that keeps IsSM set; `None` if IsSM is clear.
    is_sm: Option<IsSm>,
}

struct Opened {
    shared: Arc<Shared>,
    agents: Agents,
    thread: JoinHandle<Sinks>,
}

impl UmadTransport {
    /// Starts the threads of an open port, which take the sinks.
    ///
    /// # Errors
    /// [`UmadError::SinkLost`] if an earlier receive thread panicked with the sinks;
    /// [`UmadError::Open`] and [`UmadError::Thread`].
    fn start(&mut self, registered: RegisteredPort) -> Result<(), UmadError> {
        let device = device(&self.local);
        let RegisteredPort { ports, agents } = registered;
        let attributes = self
            .umad
            .port(&self.local.ca, self.local.port)
            .map_err(|source| UmadError::Open {
                device: device.clone(),
                source,
            })?;
        let shared = Arc::new(Shared {
            ports,
            local: RwLock::new(self.local.clone()),
            closing: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            sa_failed: AtomicBool::new(false),
            send_failures: AtomicU32::new(0),
            reading: AtomicBool::new(false),
        });
        let files = PortFiles::new(&self.local.ca, self.local.port, attributes.clone());
        let watch = PortWatch::start(&device, files).map_err(|source| UmadError::Thread {
            device: device.clone(),
            source,
        })?;
        let sinks = self.sinks.take().ok_or_else(|| UmadError::SinkLost {
            device: device.clone(),
        })?;
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name(format!("umad {device}"))
            .spawn(move || receiver::run(&for_thread, attributes, &watch, sinks))
            .map_err(|source| UmadError::Thread { device, source })?;
        self.sa.open(Agent {
            id: agents.for_class(Class::SUBNET_ADMINISTRATION),
            performance: agents.for_class(Class::PERFORMANCE),
            vendor: agents.for_class(Class::VENDOR_DEVICE),
            shared: Arc::clone(&shared),
        });
        self.opened = Some(Opened {
            shared,
            agents,
            thread,
        });
        Ok(())
    }

    /// Ends the receive thread, and takes the sinks back.
    fn stop(&mut self) {
        let Some(opened) = self.opened.take() else {
            return;
        };
        opened.shared.closing.store(true, Ordering::Release);
        self.sa.close();
        self.local = opened.shared.local.read().clone();
        self.sinks = opened.thread.join().ok();
    }

    /// Opens the port again, on any adapter that now has the same port GUID, and sets IsSM if the
    /// last call of `set_is_sm` wanted it. A refusal of IsSM leaves the port open with IsSM clear;
    /// the caller may call `set_is_sm` again.
    ///
    /// The transport may be in any state, but the sink must not be waiting for the caller: this
    /// function waits for the receive thread. Requests without a response are lost without notice;
    /// the caller relies on its own timeouts.
    ///
    /// # Errors
    /// The port cannot be opened; [`UmadError`] has the reasons. The transport is then closed, and
    /// the caller may try again.
    pub fn reopen(&mut self) -> Result<(), UmadError> {
        self.stop();
        self.is_sm = None;
        let same_port = |local: &LocalPort| local.port_guid == self.local.port_guid;
        let ports = ports::list(self.umad);
        let Some(local) = ports.iter().find(|local| same_port(local)).cloned() else {
            return Err(UmadError::NoPort {
                wanted: format!("port GUID {}", self.local.port_guid),
                seen: ports::description(&ports),
            });
        };
        let for_sa = self.sa.has_sink();
        let registered = RegisteredPort::open(self.umad, &local, self.presence, for_sa)?;
        self.local = local;
        self.start(registered)?;
        if let Err(error) = self.set_is_sm(self.wants_is_sm) {
            let error: &dyn std::error::Error = &error;
            tracing::debug!(device = device(&self.local), error, "IsSM is not set yet");
        }
        Ok(())
    }

    /// The sending half of the SA and of performance management, which stays usable after the port
    /// is opened again.
    pub fn sa(&self) -> UmadSaPort {
        UmadSaPort {
            half: Arc::clone(&self.sa),
            known: self.local.clone(),
        }
    }

    /// Whether a datagram has arrived that the receive thread has not yet passed to a sink.
    pub fn has_unread(&self) -> bool {
        self.opened_port()
            .is_some_and(|opened| opened.shared.has_unread())
    }

    /// The open port; `None` if the device has vanished.
    fn opened_port(&self) -> Option<&Opened> {
        self.opened
            .as_ref()
            .filter(|opened| !opened.shared.gone.load(Ordering::Acquire))
    }
}

impl Transport for UmadTransport {
    fn send(&mut self, datagram: &Datagram, timeout: Duration) -> Result<(), SendError> {
        let opened = self.opened_port().ok_or(SendError::Closed)?;
        let class = MadHeader::of(&datagram.mad).class();
        let agent = opened
            .agents
            .for_class(class)
            .ok_or(SendError::UnsupportedClass { class })?;
        let timeout = whole_milliseconds(timeout);
        let port = opened.shared.ports.of_class(class);
        let sent = port.send(agent, &datagram.mad, &datagram.remote, timeout, 0);
        if !is_answer(MadHeader::of(&datagram.mad).method()) {
            opened.shared.request_sent(&sent);
        }
        sent.map_err(|source| SendError::Io {
            device: device(&self.local),
            source,
        })
    }

    fn local_port(&self) -> LocalPort {
        match &self.opened {
            Some(opened) => opened.shared.local.read().clone(),
            None => self.local.clone(),
        }
    }

    fn set_is_sm(&mut self, on: bool) -> Result<(), IsSmError> {
        self.wants_is_sm = on;
        if !on {
            self.is_sm = None;
            return Ok(());
        }
        self.opened_port().ok_or(IsSmError::Closed)?;
        if self.is_sm.is_some() {
            return Ok(());
        }
        let own = (self.local.ca.clone(), self.local.port);
        let ((ca, port), _) = devices(self.umad.pair(&self.local.ca, self.local.port), own);
        let opened = self.umad.open_is_sm(&ca, port);
        self.is_sm = Some(opened.map_err(|source| IsSmError::Io {
            device: device(&self.local),
            on,
            source,
        })?);
        Ok(())
    }
}

/// The time that `drop` waits for the receive thread, which ends at once unless its sink blocks.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
const CLOSE_POLL_INTERVAL: Duration = Duration::from_millis(5);

impl Drop for UmadTransport {
    fn drop(&mut self) {
        self.is_sm = None;
        let Some(opened) = self.opened.take() else {
            return;
        };
        opened.shared.closing.store(true, Ordering::Release);
        self.sa.close();
        for _ in 0..CLOSE_TIMEOUT.as_millis() / CLOSE_POLL_INTERVAL.as_millis() {
            if opened.thread.is_finished() {
                return;
            }
            std::thread::sleep(CLOSE_POLL_INTERVAL);
        }
        // The receive thread closes the port once the sink returns.
        tracing::warn!(
            device = device(&self.local),
            "the receive thread is held up by its sink"
        );
    }
}

impl std::fmt::Debug for UmadTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UmadTransport")
            .field("local", &self.local_port())
            .field("open", &self.opened_port().is_some())
            .field("is_sm", &self.is_sm.is_some())
            .finish_non_exhaustive()
    }
}

/// Rounds the timeout up to whole milliseconds, the unit of the kernel, because 0 means that no
/// response is expected.
fn whole_milliseconds(timeout: Duration) -> u32 {
    // `as_nanos` is not used, because its 128 bits need a long division for each datagram.
    let rest = timeout.subsec_nanos().div_ceil(1_000_000);
    let milliseconds = timeout.as_secs().saturating_mul(1_000);
    u32::try_from(milliseconds.saturating_add(rest.into())).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_devices_are_opened_only_if_qp_0_and_qp_1_belong_to_different_devices() {
        let named = |ca: &str, port| (ca.to_owned(), PortNum(port));
        let own = || named("mlx5_0", 1);
        assert_eq!(devices(None, own()), (own(), None));
        let same = Pair {
            smi: own(),
            gsi: own(),
        };
        assert_eq!(devices(Some(same), own()), (own(), None));
        let planes = Pair {
            smi: named("smi0", 2),
            gsi: own(),
        };
        assert_eq!(
            devices(Some(planes), own()),
            (named("smi0", 2), Some(own()))
        );
    }

    #[test]
    fn a_short_timeout_rounds_up_to_a_millisecond() {
        assert_eq!(whole_milliseconds(Duration::ZERO), 0);
        assert_eq!(whole_milliseconds(Duration::from_nanos(1)), 1);
        assert_eq!(whole_milliseconds(Duration::from_millis(25)), 25);
        assert_eq!(whole_milliseconds(Duration::MAX), u32::MAX);
    }
}
