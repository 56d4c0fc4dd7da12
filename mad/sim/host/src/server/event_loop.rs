//! The thread that waits for connections, datagrams and time-outs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rsm_mad::Time;
use rsm_sim::live::{LiveError, SimHandle};
use rustix::event::epoll;
use rustix::event::{Nsecs, Secs, Timespec};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use zerocopy::{FromBytes, IntoBytes};

use super::connection::{Connection, Purpose};
use super::device::{Refusal, Seat, path_bytes};
use super::packet::{self, Wake};
use super::port::{Arrivals, Port, PortKey};
use super::tree::Tree;
use crate::abi::{
    self, ENABLE_PKEY, REGISTER_AGENT, REGISTER_AGENT2, RegisterRequest, RegisterRequest2,
    UNREGISTER_AGENT, USER_RMPP,
};
use crate::layer::{Effect, FileId, MadLayer, Registration};
use crate::protocol::{
    ASK_TREE, Answer, Call, Hello, MAX_INLINE, MAX_MESSAGE, MAX_PACKET, OPEN_ISSM, OPEN_UMAD,
    WRITE, split,
};

/// How many connections there can be: as many open devices as a large test has. One more is closed at once.
const MAX_CONNECTIONS: usize = 4096;

/// How many packets are taken from one connection before the others have their turn.
const PACKETS_AT_ONCE: usize = 64;

/// How many events are taken at once.
const EVENTS_AT_ONCE: usize = 64;

/// How many datagrams from the simulation are handled before the connections have their turn.
const ARRIVALS_AT_ONCE: usize = 1024;

const LISTENER: u64 = u64::MAX;
const WAKE: u64 = u64::MAX - 1;

/// Everything that is served.
pub(super) struct EventLoop {
    sim: SimHandle,
    listener: OwnedFd,
    wake: Arc<Wake>,
    waiter: OwnedFd,
    directory: PathBuf,
    /// Where processes are that do not say.
    default: PortKey,
    connections: BTreeMap<u64, Connection>,
    accepted: u64,
    ports: BTreeMap<PortKey, Port>,
    trees: BTreeMap<String, Tree>,
    arrivals: Arrivals,
    /// Ports that something happened at.
    touched: BTreeSet<PortKey>,
    started: Instant,
    buffer: Vec<u8>,
}

/// Why the loop ends before it is told to.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("the operating system refused")]
    System(#[from] io::Error),
    #[error(transparent)]
    Fabric(#[from] LiveError),
}

impl EventLoop {
    #[expect(
        clippy::disallowed_methods,
        reason = "this thread is what ties the layers to the clock"
    )]
    pub(super) fn new(
        sim: SimHandle,
        listener: OwnedFd,
        wake: Arc<Wake>,
        directory: PathBuf,
        default: PortKey,
    ) -> io::Result<EventLoop> {
        let waiter = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (descriptor, token) in [(listener.as_fd(), LISTENER), (wake.as_fd(), WAKE)] {
            let data = epoll::EventData::new_u64(token);
            epoll::add(&waiter, descriptor, data, epoll::EventFlags::IN)?;
        }
        Ok(EventLoop {
            sim,
            listener,
            wake,
            waiter,
            directory,
            default,
            connections: BTreeMap::new(),
            accepted: 0,
            ports: BTreeMap::new(),
            trees: BTreeMap::new(),
            arrivals: Arrivals::new(),
            touched: BTreeSet::new(),
            started: Instant::now(),
            buffer: vec![0; MAX_PACKET],
        })
    }

    fn now(&self) -> Time {
        Time::ZERO + self.started.elapsed()
    }

    /// Serves until it is told to stop or the fabric does.
    pub(super) fn run(mut self) {
        while !self.wake.is_stopping() {
            if let Err(error) = self.turn() {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the simulated fabric is no longer served"
                );
                break;
            }
        }
        let lost = self.arrivals.lost();
        if lost > 0 {
            tracing::warn!(lost, "datagrams were lost for want of room");
        }
    }

    /// Waits for something and does what follows.
    fn turn(&mut self) -> Result<(), Broken> {
        let deadlines = self
            .ports
            .values()
            .filter_map(|port| port.layer.next_deadline());
        let patience = deadlines.min().map(|due| timespec(due.since(self.now())));
        let mut events = Vec::with_capacity(EVENTS_AT_ONCE);
        match epoll::wait(
            &self.waiter,
            rustix::buffer::spare_capacity(&mut events),
            patience.as_ref(),
        ) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
        for event in &events {
            // The structure is packed.
            let (token, flags) = (event.data.u64(), event.flags);
            match token {
                LISTENER => self.accept()?,
                WAKE => self.wake.look(),
                connection => self.attend(connection, flags)?,
            }
        }
        self.take_arrivals();
        let now = self.now();
        for (key, port) in &mut self.ports {
            if port.layer.next_deadline().is_some_and(|due| due <= now) {
                port.layer.tick(now);
                self.touched.insert(*key);
            }
        }
        self.settle()
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match rustix::net::accept_with(&self.listener, flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return Ok(()),
                // Whoever it was is gone, or there are no descriptors now; the next turn tries again.
                Err(error) => {
                    tracing::debug!(%error, "a connection was not accepted");
                    return Ok(());
                }
            };
            if self.connections.len() >= MAX_CONNECTIONS {
                tracing::warn!(MAX_CONNECTIONS, "too many connections");
                continue;
            }
            self.accepted += 1;
            let data = epoll::EventData::new_u64(self.accepted);
            epoll::add(&self.waiter, &socket, data, epoll::EventFlags::IN)?;
            self.connections
                .insert(self.accepted, Connection::new(socket));
        }
    }

    /// Something happened on a connection.
    fn attend(&mut self, id: u64, flags: epoll::EventFlags) -> Result<(), Broken> {
        if flags.contains(epoll::EventFlags::OUT)
            && let Some(connection) = self.connections.get_mut(&id)
            && connection.flush().is_err()
        {
            self.close(id);
            return Ok(());
        }
        self.watch_room(id)?;
        if !flags
            .intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR)
        {
            return Ok(());
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        for _ in 0..PACKETS_AT_ONCE {
            let Some(connection) = self.connections.get(&id) else {
                break;
            };
            match packet::receive(connection.as_fd(), &mut buffer) {
                Ok(None) => break,
                Ok(Some((packet, carried))) if !packet.is_empty() => {
                    let carried = carried.as_ref().map(AsFd::as_fd);
                    if !self.packet(id, packet, carried) {
                        self.close(id);
                    }
                }
                // The end.
                Ok(Some(_)) | Err(_) => self.close(id),
            }
        }
        self.buffer = buffer;
        Ok(())
    }

    /// Handles a packet. Whether the connection stays open.
    fn packet(&mut self, id: u64, packet: &[u8], carried: Option<BorrowedFd<'_>>) -> bool {
        let Some(connection) = self.connections.get(&id) else {
            return false;
        };
        match connection.purpose {
            Purpose::Unknown => self.hello(id, packet),
            Purpose::Umad(port, file) => self.call(port, file, packet, carried),
            // Nothing can be done with these but closing them.
            Purpose::IsSm(_) | Purpose::WaitsForIsSm(_) => false,
        }
    }

    fn hello(&mut self, id: u64, packet: &[u8]) -> bool {
        let Some((hello, name)) = split::<Hello>(packet) else {
            return false;
        };
        let opened =
            Seat::find(&self.sim, self.default, &hello, name).and_then(|seat| match hello.what {
                ASK_TREE => self.tree(&seat).map(Some),
                OPEN_UMAD => self.open_umad(id, seat.port(hello.device)?),
                OPEN_ISSM => self.open_issm(id, seat.port(hello.device)?, hello.nonblocking != 0),
                _ => Err(Refusal::new(
                    Errno::PROTO,
                    "the shim asks for what there is not",
                )),
            });
        let Some(connection) = self.connections.get(&id) else {
            return false;
        };
        let (answered, stays) = match opened {
            Ok(Some(body)) => (connection.answer(0, &body), hello.what != ASK_TREE),
            // The answer comes later.
            Ok(None) => (Ok(()), true),
            Err(refusal) => {
                let errno = refusal.errno.raw_os_error() as u32;
                (connection.answer(errno, refusal.reason.as_bytes()), false)
            }
        };
        answered.is_ok() && stays
    }

    /// Brings a node's sysfs up to date; returns its path.
    fn tree(&mut self, seat: &Seat) -> Result<Vec<u8>, Refusal> {
        let facts = seat.facts(&self.sim)?;
        let name = seat.directory();
        let root = self.directory.join(&name);
        let tree = self.trees.entry(name).or_insert_with(|| Tree::new(root));
        tree.update(&facts)
            .map_err(|error| Refusal::broken(&error))?;
        Ok(path_bytes(tree.root()).to_vec())
    }

    /// The port, attached to if nobody had anything of it open.
    fn port(&mut self, key: PortKey) -> Result<&mut Port, Refusal> {
        if !self.ports.contains_key(&key) {
            let attached = self.arrivals.attach(&self.sim, key, &self.wake);
            let port = Port {
                layer: MadLayer::new(),
                wire: attached.map_err(|error| Refusal::broken(&error))?,
                files: BTreeMap::new(),
                is_sm: None,
                want_is_sm: VecDeque::new(),
            };
            self.ports.insert(key, port);
        }
        self.ports
            .get_mut(&key)
            .ok_or_else(|| Refusal::new(Errno::IO, "the port is gone"))
    }

    fn open_umad(&mut self, id: u64, key: PortKey) -> Result<Option<Vec<u8>>, Refusal> {
        let port = self.port(key)?;
        let file = port.layer.open();
        port.files.insert(file, id);
        self.set_purpose(id, Purpose::Umad(key, file));
        Ok(Some(Vec::new()))
    }

    fn open_issm(
        &mut self,
        id: u64,
        key: PortKey,
        nonblocking: bool,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let port = self.port(key)?;
        if port.is_sm.is_some() {
            if nonblocking {
                return Err(Refusal::new(
                    Errno::AGAIN,
                    "another process is the subnet manager here",
                ));
            }
            port.want_is_sm.push_back(id);
            self.set_purpose(id, Purpose::WaitsForIsSm(key));
            return Ok(None);
        }
        self.set_is_sm(key, Some(id));
        Ok(Some(Vec::new()))
    }

    fn set_is_sm(&mut self, key: PortKey, holder: Option<u64>) {
        let Some(port) = self.ports.get_mut(&key) else {
            return;
        };
        port.is_sm = holder;
        let (client, on) = (port.wire.client(), holder.is_some());
        if let Err(error) = self.sim.with(move |sim| sim.set_is_sm(client, on)) {
            tracing::debug!(%error, "IsSM stays as it is");
        }
        if let Some(id) = holder {
            self.set_purpose(id, Purpose::IsSm(key));
        }
    }

    fn set_purpose(&mut self, id: u64, purpose: Purpose) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.purpose = purpose;
        }
    }

    /// A call on an open device.
    fn call(
        &mut self,
        key: PortKey,
        file: FileId,
        packet: &[u8],
        carried: Option<BorrowedFd<'_>>,
    ) -> bool {
        let now = self.now();
        let (Some((call, inline)), Some(port)) = (split::<Call>(packet), self.ports.get_mut(&key))
        else {
            return false;
        };
        if call.what != WRITE {
            // The answer goes where the caller waits, who may be gone.
            let Some(back) = carried else {
                return false;
            };
            let (errno, body) = match control(&mut port.layer, file, call.what, inline) {
                Ok(body) => (0, body),
                Err((errno, body)) => (errno.raw_os_error() as u32, body),
            };
            let _ = packet::send(back, &[Answer { errno }.as_bytes(), &body], None);
            return true;
        }
        let len = call.len as usize;
        let from_file;
        let message = if len <= MAX_INLINE {
            inline
        } else {
            let Some(Ok(bytes)) = carried
                .filter(|_| len <= MAX_MESSAGE + abi::HEADER_LEN)
                .map(|carried| packet::read_file(carried, len))
            else {
                return false;
            };
            from_file = bytes;
            &from_file
        };
        if let Err(error) = port.layer.write(file, message, now) {
            port.layer.refuse_write(file, message, error);
        }
        self.touched.insert(key);
        true
    }

    fn take_arrivals(&mut self) {
        let now = self.now();
        for _ in 0..ARRIVALS_AT_ONCE {
            let Ok((key, datagram)) = self.arrivals.receiver.try_recv() else {
                return;
            };
            if let Some(port) = self.ports.get_mut(&key) {
                port.layer.receive(&datagram, now);
                self.touched.insert(key);
            }
        }
        // There may be more.
        self.wake.wake();
    }

    /// Carries out what the layers want.
    fn settle(&mut self) -> Result<(), Broken> {
        while let Some(key) = self.touched.pop_first() {
            let mut gone = Vec::new();
            let mut full = Vec::new();
            let Some(port) = self.ports.get_mut(&key) else {
                continue;
            };
            while let Some(effect) = port.layer.poll_effect() {
                match effect {
                    Effect::Send(datagram) => port.wire.pass(&datagram)?,
                    Effect::Deliver(file, delivery) => {
                        let Some(&id) = port.files.get(&file) else {
                            continue;
                        };
                        let Some(connection) = self.connections.get_mut(&id) else {
                            continue;
                        };
                        if connection.deliver(delivery).is_err() {
                            gone.push(id);
                        } else if connection.is_full() && !connection.waits_for_room {
                            full.push(id);
                        }
                    }
                }
            }
            for id in full {
                self.watch_room(id)?;
            }
            for id in gone {
                self.close(id);
            }
        }
        Ok(())
    }

    /// Waits for room in the socket exactly while something needs it.
    fn watch_room(&mut self, id: u64) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(&id) else {
            return Ok(());
        };
        if connection.is_full() != connection.waits_for_room {
            connection.waits_for_room = connection.is_full();
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, connection.waits_for_room);
            let data = epoll::EventData::new_u64(id);
            epoll::modify(&self.waiter, connection.as_fd(), data, flags)?;
        }
        Ok(())
    }

    /// A connection ends, and with it what it had open.
    fn close(&mut self, id: u64) {
        let Some(connection) = self.connections.remove(&id) else {
            return;
        };
        if connection.lost > 0 {
            tracing::warn!(
                lost = connection.lost,
                "a program did not read what it was sent"
            );
        }
        let key = match connection.purpose {
            Purpose::Unknown => return,
            Purpose::Umad(key, file) => {
                if let Some(port) = self.ports.get_mut(&key) {
                    port.layer.close(file);
                    port.files.remove(&file);
                }
                key
            }
            Purpose::IsSm(key) => {
                let next = self
                    .ports
                    .get_mut(&key)
                    .and_then(|port| port.want_is_sm.pop_front());
                self.set_is_sm(key, next);
                if let Some(next) = next.and_then(|id| self.connections.get(&id))
                    && let Err(error) = next.answer(0, &[])
                {
                    tracing::debug!(%error, "a program that waited for IsSM is gone");
                }
                key
            }
            Purpose::WaitsForIsSm(key) => {
                if let Some(port) = self.ports.get_mut(&key) {
                    port.want_is_sm.retain(|waiting| *waiting != id);
                }
                key
            }
        };
        // What the layer still wants sent goes first.
        let idle = self.ports.get(&key).is_some_and(Port::is_idle);
        if idle && let Err(error) = self.settle() {
            tracing::debug!(%error, "nothing more can be sent");
        }
        if idle {
            self.ports.remove(&key);
        }
    }
}

/// Does an `ioctl`. What its argument then is, with or without an error.
fn control(
    layer: &mut MadLayer,
    file: FileId,
    request: u32,
    argument: &[u8],
) -> Result<Vec<u8>, (Errno, Vec<u8>)> {
    let bad = |errno: Errno| (errno, Vec::new());
    if abi::argument_len(request) != Some(argument.len()) {
        return Err(bad(Errno::NOTTY));
    }
    match request {
        ENABLE_PKEY => layer.enable_pkey(file).map(|()| Vec::new()).map_err(bad),
        UNREGISTER_AGENT => {
            let id = u32::read_from_bytes(argument).map_err(|_| bad(Errno::FAULT))?;
            layer.unregister(file, id).map(|()| Vec::new()).map_err(bad)
        }
        REGISTER_AGENT => {
            let mut request =
                RegisterRequest::read_from_bytes(argument).map_err(|_| bad(Errno::FAULT))?;
            let wanted = Registration {
                qpn: request.qpn.into(),
                class: request.mgmt_class,
                version: request.mgmt_class_version,
                methods: mask(request.method_mask),
                oui: request.oui,
                rmpp_version: request.rmpp_version,
                user_rmpp: false,
            };
            request.id = layer.register(file, &wanted, false).map_err(bad)?;
            Ok(request.as_bytes().to_vec())
        }
        REGISTER_AGENT2 => {
            let mut request =
                RegisterRequest2::read_from_bytes(argument).map_err(|_| bad(Errno::FAULT))?;
            if request.flags & !USER_RMPP != 0 {
                request.flags = USER_RMPP;
                return Err((Errno::INVAL, request.as_bytes().to_vec()));
            }
            let [over, oui @ ..] = request.oui.to_be_bytes();
            if request.mgmt_class != 0 && over != 0 {
                return Err(bad(Errno::INVAL));
            }
            let wanted = Registration {
                qpn: request.qpn,
                class: request.mgmt_class,
                version: request.mgmt_class_version,
                methods: mask(request.method_mask),
                oui,
                rmpp_version: request.rmpp_version,
                user_rmpp: request.flags & USER_RMPP != 0,
            };
            request.id = layer.register(file, &wanted, true).map_err(bad)?;
            Ok(request.as_bytes().to_vec())
        }
        _ => Err(bad(Errno::NOTTY)),
    }
}

/// Two native words of 64 bits, the first with the lower methods.
fn mask(bytes: [u8; 16]) -> u128 {
    let word = |from: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[from..from + 8]);
        u128::from(u64::from_ne_bytes(word))
    };
    word(0) | word(8) << 64
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: Secs::try_from(duration.as_secs()).unwrap_or(Secs::MAX),
        tv_nsec: Nsecs::from(duration.subsec_nanos()),
    }
}
