//! The sockets of the tap, and the threads that move frames between them.

use std::collections::BTreeMap;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::Hook;
use super::packet::{Direction, FRAME_LEN, Packet};
use crate::clock::{Stopwatch, wait_for};
use crate::error::Error;

/// The size of a control message: magic, client, type and length (32 bits each), and 64 bytes of
/// data.
const CONTROL_LEN: usize = 80;
/// The range of the type in a control message, in host byte order.
const CONTROL_TYPE: std::ops::Range<usize> = 8..12;
/// The position of the data in a control message: the client's process ID in a connection request,
/// and the number that ibsim assigned in the answer.
const CONTROL_ID: std::ops::Range<usize> = 16..20;
/// The type of a refusal.
const CONTROL_ERROR: u32 = 0;
/// The type of a request to connect.
const CONTROL_CONNECT: u32 = 1;
/// The type of a request to disconnect.
const CONTROL_DISCONNECT: u32 = 2;

/// The interval at which a blocked thread checks whether the tap has ended.
const WAKE_INTERVAL: Duration = Duration::from_millis(100);

/// The maximum time for which an address may stay in use after its socket was closed.
const BIND_LIMIT: Duration = Duration::from_secs(10);

/// The state that the threads of a tap share.
pub(super) struct Shared {
    upstream_name: String,
    socket_name: String,
    stopwatch: Stopwatch,
    packets: Mutex<Vec<Packet>>,
    hook: Mutex<Option<Hook>>,
    closing: AtomicBool,
}

impl Shared {
    /// Creates the state of a tap on the simulator with this socket name.
    pub(super) fn new(upstream_name: &str) -> Self {
        Self {
            upstream_name: upstream_name.to_owned(),
            socket_name: format!("{upstream_name}-tap"),
            stopwatch: Stopwatch::start(),
            packets: Mutex::default(),
            hook: Mutex::default(),
            closing: AtomicBool::new(false),
        }
    }

    pub(super) fn socket_name(&self) -> &str {
        &self.socket_name
    }

    pub(super) fn packets(&self) -> MutexGuard<'_, Vec<Packet>> {
        self.packets.lock()
    }

    pub(super) fn now(&self) -> Duration {
        self.stopwatch.elapsed()
    }

    pub(super) fn set_hook(&self, hook: Option<Hook>) {
        *self.hook.lock() = hook;
    }

    /// Records a packet, and calls the hook.
    fn record(&self, client: u32, direction: Direction, frame: &[u8; FRAME_LEN]) {
        let mut packets = self.packets();
        let packet = Packet::new(self.now(), client, direction, *frame);
        if let Some(hook) = self.hook.lock().as_mut() {
            hook(&packet);
        }
        packets.push(packet);
    }
}

/// The running threads of a tap.
pub(super) struct Relay {
    shared: Arc<Shared>,
    control: Option<JoinHandle<()>>,
}

impl Relay {
    /// Opens the control sockets and starts relaying.
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Self, Error> {
        let tap_error = |operation: &str, source| Error::Tap {
            operation: operation.to_owned(),
            source,
        };
        let clients = bind(&format!("{}:ctl", shared.socket_name))
            .map_err(|source| tap_error("bind its control socket", source))?;
        let simulator = bind(&format!("{}:ctl-tap", shared.upstream_name))
            .map_err(|source| tap_error("bind its socket towards ibsim", source))?;
        simulator
            .connect_addr(
                &name(&format!("{}:ctl", shared.upstream_name))
                    .map_err(|source| tap_error("name ibsim's control socket", source))?,
            )
            .map_err(|source| tap_error("connect to ibsim", source))?;
        let control = ControlLoop {
            shared: Arc::clone(shared),
            clients,
            simulator,
            connections: BTreeMap::new(),
        };
        let control = std::thread::spawn(move || control.run());
        Ok(Self {
            shared: Arc::clone(shared),
            control: Some(control),
        })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Relaxed);
        if let Some(control) = self.control.take() {
            let _ = control.join();
        }
    }
}

/// Relays control messages one at a time, and keeps the connections that they open.
struct ControlLoop {
    shared: Arc<Shared>,
    clients: UnixDatagram,
    simulator: UnixDatagram,
    connections: BTreeMap<u32, Connection>,
}

impl ControlLoop {
    fn run(mut self) {
        let mut message = [0; CONTROL_LEN];
        let _ = self.clients.set_read_timeout(Some(WAKE_INTERVAL));
        while !self.shared.closing.load(Ordering::Relaxed) {
            let Ok((CONTROL_LEN, client)) = self.clients.recv_from(&mut message) else {
                continue;
            };
            // A client that gets no answer waits forever; a client that is refused ends with a
            // message.
            if self.relay(&mut message).is_err() {
                message[CONTROL_TYPE].copy_from_slice(&CONTROL_ERROR.to_ne_bytes());
            }
            let _ = self.clients.send_to_addr(&message, &client);
        }
    }

    /// Passes a control message to ibsim, and replaces it by ibsim's answer. Also opens or closes
    /// the connection of the client.
    fn relay(&mut self, message: &mut [u8; CONTROL_LEN]) -> io::Result<()> {
        let kind = read_u32(message, CONTROL_TYPE);
        let id = read_u32(message, CONTROL_ID);
        let number = read_u32(message, 4..8);
        // The socket is bound before the request is sent, because ibsim connects to the socket
        // while it handles the request.
        let upstream = (kind == CONTROL_CONNECT)
            .then(|| bind(&format!("{}:in{id}", self.shared.upstream_name)))
            .transpose()?;
        self.simulator.send(message)?;
        self.simulator.recv(message)?;
        if read_u32(message, CONTROL_TYPE) == CONTROL_ERROR {
            return Ok(());
        }
        if let Some(upstream) = upstream {
            let number = read_u32(message, CONTROL_ID);
            self.connections.remove(&number);
            let connection = Connection::open(&self.shared, id, number, upstream)?;
            self.connections.insert(number, connection);
        } else if kind == CONTROL_DISCONNECT {
            self.connections.remove(&number);
        }
        Ok(())
    }
}

/// The packet sockets of one client.
struct Connection {
    client: Arc<UnixDatagram>,
    simulator: Arc<UnixDatagram>,
    threads: Vec<JoinHandle<()>>,
}

impl Connection {
    fn open(
        shared: &Arc<Shared>,
        pid: u32,
        number: u32,
        upstream: UnixDatagram,
    ) -> io::Result<Self> {
        upstream.connect_addr(&name(&format!("{}:out{number}", shared.upstream_name))?)?;
        let client = bind(&format!("{}:out{number}", shared.socket_name))?;
        client.connect_addr(&name(&format!("{}:in{pid}", shared.socket_name))?)?;
        let (client, simulator) = (Arc::new(client), Arc::new(upstream));
        let threads = [
            (Direction::IntoFabric, &client, &simulator),
            (Direction::ToClient, &simulator, &client),
        ]
        .into_iter()
        .map(|(direction, from, to)| {
            let (shared, from, to) = (Arc::clone(shared), Arc::clone(from), Arc::clone(to));
            std::thread::spawn(move || forward(&shared, pid, direction, &from, &to))
        })
        .collect();
        Ok(Self {
            client,
            simulator,
            threads,
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.client.shutdown(std::net::Shutdown::Both);
        let _ = self.simulator.shutdown(std::net::Shutdown::Both);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Records and forwards frames in one direction until either side has closed.
fn forward(
    shared: &Shared,
    client: u32,
    direction: Direction,
    from: &UnixDatagram,
    to: &UnixDatagram,
) {
    let mut frame = [0; FRAME_LEN];
    while let Ok(FRAME_LEN) = from.recv(&mut frame) {
        shared.record(client, direction, &frame);
        if to.send(&frame).is_err() {
            break;
        }
    }
    let _ = from.shutdown(std::net::Shutdown::Both);
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// An abstract address in ibsim's form, which includes the terminating zero of the C string.
fn name(text: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{text}\0"))
}

/// Binds a socket to an abstract address. The address of a socket that was just closed may still be
/// in use: a process that another thread starts shares all sockets until it runs its own program.
fn bind(text: &str) -> io::Result<UnixDatagram> {
    let name = name(text)?;
    wait_for(BIND_LIMIT, || match UnixDatagram::bind_addr(&name) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => None,
        bound => Some(bound),
    })
    .unwrap_or_else(|| Err(io::ErrorKind::AddrInUse.into()))
}

/// The number in host byte order at a position of a control message.
fn read_u32(message: &[u8; CONTROL_LEN], range: std::ops::Range<usize>) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&message[range]);
    u32::from_ne_bytes(bytes)
}
