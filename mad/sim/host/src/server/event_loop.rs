//! The thread that waits for connections, datagrams and time-outs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_sim::live::{LiveError, SimHandle};
use rustix::event::epoll;
use rustix::event::{Nsecs, Secs, Timespec};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::connection::{Connection, Purpose};
use super::packet::{self, Wake};
use super::port::{Arrivals, NodePort, ServedPort};
use super::tree::Tree;
use crate::layer::LayerEffect;
use crate::protocol::MAX_PACKET;

/// The maximum number of connections: the number of open devices of a large test. The server closes
/// a further connection immediately.
const MAX_CONNECTIONS: usize = 4096;

/// The maximum number of packets that the loop reads from one connection before it reads from the
/// next connection.
const PACKETS_AT_ONCE: usize = 64;

/// The maximum number of events that the loop takes from one wait.
const EVENTS_AT_ONCE: usize = 64;

/// The maximum number of datagrams from the simulation that the loop handles before it handles the
/// connections.
const ARRIVALS_AT_ONCE: usize = 1024;

/// The token of the listening socket; a connection's token is its number.
const LISTENER: u64 = u64::MAX;
/// The token of the event that wakes the thread.
const WAKE: u64 = u64::MAX - 1;

/// The state of the server's thread.
pub(super) struct EventLoop {
    pub(super) sim: SimHandle,
    listener: OwnedFd,
    pub(super) wake: Arc<Wake>,
    /// The epoll instance.
    waiter: OwnedFd,
    pub(super) directory: PathBuf,
    /// The node of processes that do not choose one.
    pub(super) default: Guid,
    /// The open connections, by number.
    pub(super) connections: BTreeMap<u64, Connection>,
    /// The number of connections that were accepted so far.
    accepted: u64,
    pub(super) ports: BTreeMap<NodePort, ServedPort>,
    /// The number of agents that were registered so far, for each port without an open device: at
    /// most one entry for each port of the fabric.
    pub(super) registered: BTreeMap<NodePort, u32>,
    pub(super) trees: BTreeMap<String, Tree>,
    pub(super) arrivals: Arrivals,
    /// The ports whose layers may have outputs to execute.
    pub(super) ports_with_outputs: BTreeSet<NodePort>,
    started: Instant,
    buffer: Vec<u8>,
    /// Whether [`EventLoop::close_ended_connections`] is under way.
    is_closing_ended: bool,
}

/// The reason why the loop ends before the server is stopped.
#[derive(Debug, thiserror::Error)]
enum LoopError {
    #[error("a system call failed")]
    System(#[from] io::Error),
    #[error(transparent)]
    Fabric(#[from] LiveError),
}

impl EventLoop {
    #[expect(
        clippy::disallowed_methods,
        reason = "this thread drives the layers with the clock"
    )]
    pub(super) fn new(
        sim: SimHandle,
        listener: OwnedFd,
        wake: Arc<Wake>,
        directory: PathBuf,
        default: Guid,
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
            registered: BTreeMap::new(),
            trees: BTreeMap::new(),
            arrivals: Arrivals::new(),
            ports_with_outputs: BTreeSet::new(),
            started: Instant::now(),
            buffer: Vec::new(),
            is_closing_ended: false,
        })
    }

    pub(super) fn now(&self) -> Time {
        Time::ZERO + self.started.elapsed()
    }

    /// Serves until the server or the fabric stops.
    pub(super) fn run(mut self) {
        while !self.wake.is_stopping() {
            if let Err(error) = self.handle_events() {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the simulated fabric is no longer served"
                );
                break;
            }
        }
        let lost = self.arrivals.lost();
        if lost > 0 {
            tracing::warn!(
                lost,
                "datagrams from the fabric were dropped because the server's queue was full"
            );
        }
    }

    /// Waits for events or the next deadline, and handles them.
    fn handle_events(&mut self) -> Result<(), LoopError> {
        let deadlines = self
            .ports
            .values()
            .filter_map(|port| port.layer.next_deadline());
        let timeout = deadlines.min().map(|due| timespec(due.since(self.now())));
        let mut events = Vec::with_capacity(EVENTS_AT_ONCE);
        match epoll::wait(
            &self.waiter,
            rustix::buffer::spare_capacity(&mut events),
            timeout.as_ref(),
        ) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
        for event in &events {
            // The structure is packed, so its fields are copied rather than borrowed.
            let (token, flags) = (event.data.u64(), event.flags);
            match token {
                LISTENER => self.accept()?,
                WAKE => self.wake.clear(),
                connection => self.handle_connection(connection, flags)?,
            }
        }
        self.take_arrivals();
        let now = self.now();
        for (key, port) in &mut self.ports {
            if port.layer.next_deadline().is_some_and(|due| due <= now) {
                port.layer.tick(now);
                self.ports_with_outputs.insert(*key);
            }
        }
        self.execute_outputs()
    }

    /// Accepts all connections that wait.
    fn accept(&mut self) -> io::Result<()> {
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match rustix::net::accept_with(&self.listener, flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return Ok(()),
                // The client has closed the connection, or no file descriptors are left; the next
                // pass of the loop tries again.
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection; trying again");
                    return Ok(());
                }
            };
            if self.connections.len() >= MAX_CONNECTIONS {
                tracing::warn!(
                    MAX_CONNECTIONS,
                    "a connection was closed because too many are open"
                );
                continue;
            }
            self.accepted += 1;
            let data = epoll::EventData::new_u64(self.accepted);
            epoll::add(&self.waiter, &socket, data, epoll::EventFlags::IN)?;
            self.connections
                .insert(self.accepted, Connection::new(socket));
        }
    }

    /// Handles an event of a connection: sends messages that wait for room, and reads packets.
    fn handle_connection(&mut self, id: u64, flags: epoll::EventFlags) -> Result<(), LoopError> {
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
        self.read_from(id);
        Ok(())
    }

    /// Handles the packets of a connection.
    fn read_from(&mut self, id: u64) {
        // `close_ended_connections` may call this function again, which needs another buffer.
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(MAX_PACKET, 0);
        for _ in 0..PACKETS_AT_ONCE {
            let Some(connection) = self.connections.get(&id) else {
                break;
            };
            match packet::receive(connection.as_fd(), &mut buffer) {
                Ok(None) => break,
                Ok(Some((packet, descriptor))) if !packet.is_empty() => {
                    let descriptor = descriptor.as_ref().map(AsFd::as_fd);
                    if !self.handle_packet(id, packet, descriptor) {
                        self.close(id);
                    }
                }
                // An empty packet is the end of the connection.
                Ok(Some(_)) | Err(_) => self.close(id),
            }
        }
        self.buffer = buffer;
    }

    /// Handles a packet and the file `descriptor` that came with it. Returns whether the connection
    /// stays open.
    fn handle_packet(
        &mut self,
        id: u64,
        packet: &[u8],
        descriptor: Option<BorrowedFd<'_>>,
    ) -> bool {
        let Some(connection) = self.connections.get(&id) else {
            return false;
        };
        match connection.purpose {
            Purpose::Unknown => self.hello(id, packet),
            Purpose::Umad(port, file) => self.call(port, file, packet, descriptor),
            // A packet on a connection for IsSM is invalid: close the connection.
            Purpose::IsSm(_) | Purpose::WaitsForIsSm(_) => false,
        }
    }

    /// Closes the devices of a port whose programs have closed their ends of the connections. A
    /// program's `close` has already returned, and the next request of the program may come on
    /// another connection: the device must be closed before the server handles that request.
    pub(super) fn close_ended_connections(&mut self, key: NodePort) {
        // Reading from a closed connection may call this function again.
        if std::mem::replace(&mut self.is_closing_ended, true) {
            return;
        }
        let port = self.ports.get(&key);
        let ids = |port: &ServedPort| port.files.values().chain(&port.is_sm).copied().collect();
        let ids: Vec<u64> = port.map(ids).unwrap_or_default();
        for id in ids {
            while self.connections.get(&id).is_some_and(Connection::has_ended) {
                // The packets that were sent before the end of the connection can still be read.
                self.read_from(id);
            }
        }
        self.is_closing_ended = false;
    }

    /// Passes datagrams from the simulation to the layers of their ports.
    fn take_arrivals(&mut self) {
        let now = self.now();
        for _ in 0..ARRIVALS_AT_ONCE {
            let Ok((key, datagram)) = self.arrivals.receiver.try_recv() else {
                return;
            };
            if let Some(port) = self.ports.get_mut(&key) {
                port.layer.receive(&datagram, now);
                self.ports_with_outputs.insert(key);
            }
        }
        // More datagrams may be waiting.
        self.wake.wake();
    }

    /// Sends the datagrams of the layers, and delivers their messages to programs.
    fn execute_outputs(&mut self) -> Result<(), LoopError> {
        while let Some(key) = self.ports_with_outputs.pop_first() {
            let mut gone = Vec::new();
            let mut full = Vec::new();
            let Some(port) = self.ports.get_mut(&key) else {
                continue;
            };
            while let Some(effect) = port.layer.poll_effect() {
                match effect {
                    LayerEffect::Send(datagram) => port.wire.pass(&datagram)?,
                    LayerEffect::Deliver(file, delivery) => {
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

    /// Watches the socket for room while a message waits for room, and only then.
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

    /// Ends a connection and closes its device.
    fn close(&mut self, id: u64) {
        let Some(connection) = self.connections.remove(&id) else {
            return;
        };
        if connection.lost > 0 {
            tracing::warn!(
                lost = connection.lost,
                "messages to a program were dropped because it did not read its device"
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
        // The remaining datagrams of the layer must leave before the layer is dropped.
        let idle = self.ports.get(&key).is_some_and(ServedPort::is_idle);
        if idle && let Err(error) = self.execute_outputs() {
            tracing::debug!(%error, "the remaining datagrams of a closed port cannot be sent");
        }
        if idle && let Some(port) = self.ports.remove(&key) {
            self.registered.insert(key, port.layer.registered());
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: Secs::try_from(duration.as_secs()).unwrap_or(Secs::MAX),
        tv_nsec: Nsecs::from(duration.subsec_nanos()),
    }
}
