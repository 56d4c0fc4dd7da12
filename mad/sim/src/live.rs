//! A simulated fabric in real time, with the same trait as hardware.
//!
//! A thread owns the [`Sim`] and lets it follow the clock. Clients send through a bounded channel;
//! the simulation's thread calls their sinks, so a slow sink stops the simulation, as a full
//! receive queue would. Sending never waits for the simulation, so a client that sends and receives
//! on one thread cannot deadlock. The thread ends when the last [`SimHandle`] and [`SimTransport`]
//! are dropped.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel,
};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{RwLock, RwLockUpgradableReadGuard};
use rsm_ids::{Guid, PortNum};
use rsm_mad::Time;
use rsm_mad::transport::{
    Datagram, Inbound, IsSmError, LocalPort, PerformancePort, RemoteAddress, SaPort, SendError,
    Sinks, Transport,
};

use crate::error::SimError;
use crate::sim::{AttachId, Sim};

/// The maximum number of commands that wait for the simulation: 4096 datagrams, 1.3 MB. At the
/// maximum, the channel refuses datagrams like a full send queue of an operating system, and
/// operations wait.
const MAX_COMMANDS: usize = 4096;

/// The maximum number of commands that the thread handles in one turn, so that senders cannot block
/// the simulation.
const MAX_COMMANDS_PER_TURN: usize = 256;

/// The maximum number of transports whose ports are updated in one turn, between two checks of
/// commands and events. With more clients, some see a change of their port a few turns later.
const MAX_REFRESHES_PER_TURN: usize = 64;

/// The shortest time for which the thread sleeps. For a shorter time it yields instead, because the
/// operating system would let it sleep too long.
const MIN_SLEEP: Duration = Duration::from_micros(50);

/// An operation on the simulation, which passes its result to the caller itself.
type Operation = Box<dyn FnOnce(&mut Sim) + Send>;

/// A command to the simulation's thread.
enum Command {
    Send {
        client: AttachId,
        datagram: Datagram,
        timeout: Duration,
    },
    /// Sends a datagram as [`Command::Send`] does, but without matching: all responses are
    /// delivered, at any time.
    Pass {
        client: AttachId,
        datagram: Datagram,
    },
    Operate(Operation),
    Attach {
        client: AttachId,
        sinks: Sinks,
        port: Arc<RwLock<LocalPort>>,
    },
    Detach(AttachId),
}

/// The simulation's thread cannot be started, or a client cannot be attached.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The operating system could not start a thread.
    #[error("cannot start the thread of the simulated fabric")]
    Thread(#[source] io::Error),
    /// The port cannot have a client.
    #[error("cannot attach to port {port} of node {node}")]
    Attach {
        /// The GUID of the node.
        node: Guid,
        /// The number of the port.
        port: PortNum,
        /// The reason.
        source: SimError,
    },
    /// The simulation's thread has ended, because a sink panicked.
    #[error("the simulated fabric has stopped")]
    Stopped,
}

/// Runs `sim` in real time on a separate thread.
///
/// The virtual time of `sim` continues from its present value, at the pace of the clock.
///
/// # Errors
/// [`LiveError::Thread`] if the thread cannot be started.
pub fn spawn(sim: Sim) -> Result<SimHandle, LiveError> {
    let (commands, inbox) = sync_channel(MAX_COMMANDS);
    let progress = Arc::new(Progress::start(sim.now()));
    let shared = Arc::clone(&progress);
    thread::Builder::new()
        .name("simulated-fabric".to_owned())
        .spawn(move || Runner::new(sim, shared).run(&inbox))
        .map_err(LiveError::Thread)?;
    Ok(SimHandle { commands, progress })
}

/// The progress of the simulation's thread in following the clock and in receiving datagrams.
#[derive(Debug)]
struct Progress {
    started: Instant,
    /// The simulation's time at the start.
    origin: Time,
    /// The number of datagrams that clients sent.
    sent: AtomicU64,
    /// The number of these datagrams that have entered the fabric. The thread updates this number
    /// after `next`, so that `next` includes their events.
    received: AtomicU64,
    /// The time of the next event in the fabric, in nanoseconds; `u64::MAX` without one.
    next: AtomicU64,
}

impl Progress {
    #[expect(
        clippy::disallowed_methods,
        reason = "the simulation's thread is what ties virtual time to the clock"
    )]
    fn start(origin: Time) -> Progress {
        Progress {
            started: Instant::now(),
            origin,
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            next: AtomicU64::new(u64::MAX),
        }
    }

    fn now(&self) -> Time {
        self.origin + self.started.elapsed()
    }

    /// Whether a sent datagram has not entered the fabric, or an event is due.
    fn is_behind(&self) -> bool {
        let sent = self.sent.load(Ordering::SeqCst);
        let received = self.received.load(Ordering::SeqCst);
        received < sent || self.next.load(Ordering::SeqCst) <= self.now().as_nanos()
    }
}

/// A handle with which callers operate a simulated fabric that runs in real time.
#[derive(Clone, Debug)]
pub struct SimHandle {
    commands: SyncSender<Command>,
    progress: Arc<Progress>,
}

impl SimHandle {
    /// Runs an operation on the fabric's own thread, and returns its result. An operation calls a
    /// method of [`Sim`] such as [`Sim::unlink`], or reads the state. Blocks until the operation is
    /// done; must not be called from a sink.
    ///
    /// # Errors
    /// [`LiveError::Stopped`] if the thread has ended.
    pub fn with<R: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Sim) -> R + Send + 'static,
    ) -> Result<R, LiveError> {
        let (answer, result) = sync_channel(1);
        let operation = Box::new(move |sim: &mut Sim| {
            // The caller waits below, unless it has ended and needs no answer.
            let _ = answer.send(operation(sim));
        });
        self.commands
            .send(Command::Operate(operation))
            .map_err(|_| LiveError::Stopped)?;
        result.recv().map_err(|_| LiveError::Stopped)
    }

    /// Attaches a client to an end port. `sinks` are called on the simulation's thread.
    ///
    /// # Errors
    /// [`LiveError::Attach`] if the port cannot have a client; [`LiveError::Stopped`] if the thread
    /// has ended.
    pub fn attach(
        &self,
        node: Guid,
        port: PortNum,
        sinks: impl Into<Sinks>,
    ) -> Result<SimTransport, LiveError> {
        let attached = self.with(move |sim| {
            let client = sim.attach(node, port)?;
            Ok::<_, SimError>((client, sim.local_port(client)))
        })?;
        let (client, local) =
            attached.map_err(|source| LiveError::Attach { node, port, source })?;
        // The client was attached just now, so it has a port.
        let local = Arc::new(RwLock::new(local.ok_or(LiveError::Stopped)?));
        let attach = Command::Attach {
            client,
            sinks: sinks.into(),
            port: Arc::clone(&local),
        };
        self.commands.send(attach).map_err(|_| LiveError::Stopped)?;
        let sender = SimSaPort {
            commands: self.commands.clone(),
            progress: Arc::clone(&self.progress),
            client,
            local,
        };
        Ok(SimTransport { sender })
    }
}

/// The transport of one client into a simulated fabric that runs in real time. Dropping the
/// transport detaches the client.
#[derive(Debug)]
pub struct SimTransport {
    sender: SimSaPort,
}

impl SimTransport {
    /// The client at the simulation.
    pub fn client(&self) -> AttachId {
        self.sender.client
    }

    /// The sending half for the SA and for performance management. The client stays attached as
    /// long as the transport exists.
    pub fn sa(&self) -> SimSaPort {
        self.sender.clone()
    }

    /// Sends like an adapter, without matching responses to requests: every datagram for the client
    /// is delivered, at any time, as long as [`Transport::send`] is never used. Waits for room;
    /// must not be called from a sink.
    ///
    /// # Errors
    /// [`LiveError::Stopped`] if the thread has ended.
    pub fn pass(&self, datagram: &Datagram) -> Result<(), LiveError> {
        let command = Command::Pass {
            client: self.sender.client,
            datagram: *datagram,
        };
        let sent = self.sender.commands.send(command);
        sent.map_err(|_| LiveError::Stopped)
    }

    /// Whether the fabric's thread is behind the clock, so that an answer that should have arrived
    /// may still be missing.
    pub fn has_unread(&self) -> bool {
        self.sender.progress.is_behind()
    }

    /// The handle of the fabric.
    pub fn handle(&self) -> SimHandle {
        SimHandle {
            commands: self.sender.commands.clone(),
            progress: Arc::clone(&self.sender.progress),
        }
    }
}

impl Transport for SimTransport {
    fn send(&mut self, datagram: &Datagram, timeout: Duration) -> Result<(), SendError> {
        self.sender.queue(*datagram, timeout)
    }

    fn local_port(&self) -> LocalPort {
        SaPort::local_port(&self.sender)
    }

    fn set_is_sm(&mut self, on: bool) -> Result<(), IsSmError> {
        let client = self.sender.client;
        let command = Command::Operate(Box::new(move |sim| sim.set_is_sm(client, on)));
        let sent = self.sender.commands.try_send(command);
        sent.map_err(|error| match error {
            TrySendError::Full(_) => IsSmError::Io {
                device: self.sender.device(),
                on,
                source: io::ErrorKind::WouldBlock.into(),
            },
            TrySendError::Disconnected(_) => IsSmError::Closed,
        })
    }
}

/// The sending half of a [`SimTransport`] for the SA and for performance management, usable from
/// any thread. It does no RMPP. Datagrams sent after the transport is dropped are lost.
#[derive(Debug, Clone)]
pub struct SimSaPort {
    commands: SyncSender<Command>,
    progress: Arc<Progress>,
    client: AttachId,
    local: Arc<RwLock<LocalPort>>,
}

impl SimSaPort {
    /// The name of the adapter and the port for messages, for example `mlx5_0:1`.
    fn device(&self) -> String {
        let local = self.local.read();
        format!("{}:{}", local.ca, local.port)
    }

    /// Puts a datagram into the queue, if the queue has room.
    fn queue(&self, datagram: Datagram, timeout: Duration) -> Result<(), SendError> {
        let command = Command::Send {
            client: self.client,
            datagram,
            timeout,
        };
        // The datagram is counted before it is sent, so that `received` never exceeds `sent`.
        self.progress.sent.fetch_add(1, Ordering::SeqCst);
        let sent = self.commands.try_send(command);
        if sent.is_err() {
            self.progress.sent.fetch_sub(1, Ordering::SeqCst);
        }
        sent.map_err(|error| match error {
            TrySendError::Full(_) => SendError::Io {
                device: self.device(),
                source: io::ErrorKind::WouldBlock.into(),
            },
            TrySendError::Disconnected(_) => SendError::Closed,
        })
    }
}

impl PerformancePort for SimSaPort {
    fn send_performance(&self, datagram: &Datagram, timeout: Duration) -> Result<(), SendError> {
        self.queue(*datagram, timeout)
    }
}

impl SaPort for SimSaPort {
    fn does_rmpp(&self) -> bool {
        false
    }

    fn send(
        &self,
        bytes: &[u8],
        remote: &RemoteAddress,
        timeout: Duration,
    ) -> Result<(), SendError> {
        let mad = bytes.try_into().map_err(|_| SendError::Io {
            device: self.device(),
            source: io::ErrorKind::InvalidInput.into(),
        })?;
        let datagram = Datagram {
            mad,
            remote: *remote,
        };
        self.queue(datagram, timeout)
    }

    fn local_port(&self) -> LocalPort {
        self.local.read().clone()
    }
}

impl Drop for SimTransport {
    fn drop(&mut self) {
        // If the channel is full, the runner detaches the client when it finds that the shared port
        // has no other owner.
        let detach = Command::Detach(self.sender.client);
        let _ = self.sender.commands.try_send(detach);
    }
}

/// An attached client, as the thread sees it.
struct Client {
    sinks: Sinks,
    port: Arc<RwLock<LocalPort>>,
}

/// The thread that runs the simulation.
struct Runner {
    sim: Sim,
    clients: BTreeMap<AttachId, Client>,
    /// The client whose port was updated last.
    refreshed: Option<AttachId>,
    /// The number of clients whose ports may have changed since they were updated.
    stale: usize,
    progress: Arc<Progress>,
    /// The number of datagrams received from transports.
    received: u64,
}

impl Runner {
    fn new(sim: Sim, progress: Arc<Progress>) -> Runner {
        Runner {
            sim,
            clients: BTreeMap::new(),
            refreshed: None,
            stale: 0,
            progress,
            received: 0,
        }
    }

    fn now(&self) -> Time {
        self.progress.now()
    }

    /// Publishes the progress of this thread for clients.
    fn publish_progress(&self) {
        let next = self.sim.next_event().map_or(u64::MAX, Time::as_nanos);
        self.progress.next.store(next, Ordering::SeqCst);
        self.progress
            .received
            .store(self.received, Ordering::SeqCst);
    }

    fn run(mut self, inbox: &Receiver<Command>) {
        loop {
            for _ in 0..MAX_COMMANDS_PER_TURN {
                match inbox.try_recv() {
                    Ok(command) => self.command(command),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            self.catch_up();
            self.refresh();
            self.publish_progress();
            if self.stale > 0 {
                // Waiting commands take precedence over the ports that are still stale.
                continue;
            }
            let idle = match self.sim.next_event() {
                Some(next) => next.since(self.now()),
                None => Duration::MAX,
            };
            if idle < MIN_SLEEP {
                thread::yield_now();
                continue;
            }
            let received = if idle == Duration::MAX {
                inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                inbox.recv_timeout(idle)
            };
            match received {
                Ok(command) => self.command(command),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn command(&mut self, command: Command) {
        self.stale = self.clients.len();
        match command {
            Command::Send {
                client,
                datagram,
                timeout,
            } => {
                self.received += 1;
                let now = self.now();
                self.sim.send_with_timeout(client, &datagram, timeout, now);
            }
            Command::Pass { client, datagram } => {
                let now = self.now();
                self.sim.send(client, &datagram, now);
            }
            Command::Operate(operation) => {
                self.catch_up();
                operation(&mut self.sim);
            }
            Command::Attach {
                client,
                sinks,
                port,
            } => {
                self.clients.insert(client, Client { sinks, port });
                self.stale = self.clients.len();
            }
            Command::Detach(client) => {
                self.sim.detach(client);
                self.clients.remove(&client);
            }
        }
    }

    /// Runs all events up to now. Operations take place at the simulation's time, which is behind
    /// the clock after a sleep.
    fn catch_up(&mut self) {
        let now = self.now();
        if self.sim.next_event().is_some_and(|next| next <= now) {
            self.stale = self.clients.len();
        }
        while let Some((client, inbound)) = self.sim.poll(now) {
            self.deliver(client, inbound);
        }
    }

    /// Passes an output of the simulation to the sinks of its client.
    fn deliver(&mut self, client: AttachId, inbound: Inbound) {
        if matches!(inbound, Inbound::Port(_)) {
            // A client that receives a port event must find the port already changed.
            self.refresh_port(client);
        }
        if let Some(attached) = self.clients.get_mut(&client) {
            attached.sinks.deliver(inbound);
        }
    }

    /// Updates the ports of some clients in turn, and detaches clients whose transport was dropped.
    fn refresh(&mut self) {
        let count = self
            .stale
            .min(self.clients.len())
            .min(MAX_REFRESHES_PER_TURN);
        let after = self.refreshed.map_or(Bound::Unbounded, Bound::Excluded);
        let later = self.clients.range((after, Bound::Unbounded));
        let in_turn: Vec<AttachId> = later
            .map(|(&client, _)| client)
            .chain(self.clients.keys().copied())
            .take(count)
            .collect();
        for &client in &in_turn {
            self.refresh_port(client);
        }
        self.refreshed = in_turn.last().copied();
        self.stale = self.stale.saturating_sub(count).min(self.clients.len());
    }

    /// Updates the port of a client, or detaches the client if its transport was dropped.
    fn refresh_port(&mut self, client: AttachId) {
        let Some(attached) = self.clients.get(&client) else {
            return;
        };
        if Arc::strong_count(&attached.port) == 1 {
            self.sim.detach(client);
            self.clients.remove(&client);
            return;
        }
        let Some(info) = self.sim.client_info(client) else {
            return;
        };
        let known = attached.port.upgradable_read();
        let changed = (known.lid, known.sm_lid, known.state)
            != (info.lid(), info.master_sm_lid(), info.port_state());
        if changed {
            let mut known = RwLockUpgradableReadGuard::upgrade(known);
            known.lid = info.lid();
            known.sm_lid = info.master_sm_lid();
            known.state = info.port_state();
        }
    }
}
