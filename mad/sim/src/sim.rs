//! The simulation as a whole: virtual time, clients, and the events of the fabric.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::ids::Tid;
use rsm_mad::transport::{Datagram, Inbound, PortEvent, SendFailure};
use rsm_mad::wire::header::{Class, MadHeader};
use rsm_mad::wire::vendor::FirmwareVersion;
use rsm_routing::netlist::Netlist;

use crate::agent::Effect;
use crate::config::SimConfig;
use crate::congestion_agent::CongestionAgents;
use crate::counters::{DropReason, SimCounters};
use crate::directed;
use crate::error::SimError;
use crate::fabric::{Fabric, NONE};
use crate::fault::FabricFaults;
use crate::journal::SetJournal;
use crate::packet::{Packet, Packets};
use crate::queue::{Event, EventQueue};
use crate::rng::Rng;
use crate::tally::Performance;

/// A client that is attached to a port of the fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttachId(pub(crate) u32);

/// A program at a port, with the state that the kernel of a host keeps for it.
#[derive(Debug, Clone)]
pub(crate) struct AttachedClient {
    pub(crate) port: u32,
    /// The time at which the host has passed on all datagrams that the program sent.
    send_free: Time,
    /// Whether only responses to waiting requests are delivered.
    matches_responses: bool,
    /// The waiting requests, by class and the low half of the transaction identifier. Used for
    /// look-ups only, never iterated.
    waiting: HashMap<(Class, u32), u64>,
    /// The number of requests so far that waited for a response; the last of them has this serial
    /// number.
    serial: u64,
}

/// A simulated fabric: nodes, cables and packets, in virtual time.
///
/// The simulation runs only when it is called. [`send`](Sim::send) accepts datagrams;
/// [`poll`](Sim::poll) runs all events up to a time and returns the datagrams and events of
/// clients; [`next_event`](Sim::next_event) returns the time of the next event. Operations on the
/// hardware, like [`unlink`](Sim::unlink), take place at [`now`](Sim::now).
///
/// A run is a function of the netlist, the configuration, the seed and the calls with their times.
#[derive(Clone)]
pub struct Sim {
    pub(crate) config: SimConfig,
    pub(crate) fabric: Fabric,
    pub(crate) queue: EventQueue,
    pub(crate) packets: Packets,
    pub(crate) clients: Vec<AttachedClient>,
    pub(crate) counters: SimCounters,
    pub(crate) performance: Performance,
    /// The agents of congestion control. Used for look-ups only, never iterated.
    pub(crate) congestion: CongestionAgents,
    /// The firmware of nodes that differ from the usual firmware of their device, by node GUID.
    /// Used for look-ups only, never iterated.
    pub(crate) firmware: HashMap<Guid, FirmwareVersion>,
    pub(crate) faults: FabricFaults,
    pub(crate) journal: Option<SetJournal>,
    pub(crate) rng: Rng,
    pub(crate) now: Time,
    output: VecDeque<(AttachId, Inbound)>,
    /// The ports through which a datagram left nodes; a buffer that is kept to save allocations.
    pub(crate) crossed: Vec<u32>,
    /// The effects that agents returned; a buffer that is kept to save allocations.
    pub(crate) effects: Vec<Effect>,
}

impl Sim {
    /// The fabric of a netlist, as after power-on: every link with both ends cabled is up and in
    /// Init, and no tables are programmed.
    ///
    /// # Errors
    /// [`SimError::Config`] if a value of the configuration does not fit its attribute;
    /// [`SimError::TooManyPorts`] if there are more than four billion ports.
    pub fn new(netlist: &Netlist, config: SimConfig, seed: u64) -> Result<Sim, SimError> {
        config.check()?;
        let mut sim = Sim {
            fabric: Fabric::build(netlist, &config)?,
            config,
            queue: EventQueue::new(),
            packets: Packets::default(),
            clients: Vec::new(),
            counters: SimCounters::default(),
            performance: Performance::default(),
            congestion: CongestionAgents::default(),
            firmware: HashMap::new(),
            faults: FabricFaults::default(),
            journal: None,
            rng: Rng::new(seed),
            now: Time::ZERO,
            output: VecDeque::new(),
            crossed: Vec::new(),
            effects: Vec::new(),
        };
        for port in 0..sim.fabric.ports.len() as u32 {
            sim.bring_up(port);
        }
        Ok(sim)
    }

    /// Attaches a client to a port: port 0 of a switch, an external port of another node.
    ///
    /// # Errors
    /// There is no such port, or the port has no address or already has a client.
    pub fn attach(&mut self, node: Guid, port: PortNum) -> Result<AttachId, SimError> {
        let index = self.fabric.find_end_port(node, port)?;
        let slot = &mut self.fabric.port_mut(index).client;
        if *slot != NONE {
            return Err(SimError::AlreadyAttached { guid: node, port });
        }
        *slot = self.clients.len() as u32;
        let id = AttachId(*slot);
        self.clients.push(AttachedClient {
            port: index,
            send_free: Time::ZERO,
            matches_responses: false,
            waiting: HashMap::new(),
            serial: 0,
        });
        Ok(id)
    }

    /// Detaches a client: the client receives nothing more, and its port clears IsSM.
    pub fn detach(&mut self, client: AttachId) {
        if let Some(index) = self.client_port(client) {
            self.set_is_sm(client, false);
            self.fabric.port_mut(index).client = NONE;
            self.clients[client.0 as usize].port = NONE;
            self.output.retain(|(to, _)| *to != client);
        }
    }

    /// Sends a datagram from a client at `now`. Responses to the datagram are delivered at any
    /// time.
    ///
    /// The node's own agent answers requests addressed to the client's own port (no hops, or its
    /// own LID).
    pub fn send(&mut self, client: AttachId, datagram: &Datagram, now: Time) {
        let Some(port) = self.client_port(client) else {
            return;
        };
        let mut packet = Packet::new(datagram.mad);
        packet.at = port;
        packet.sent = now.max(self.now);
        packet.sender = port;
        if !packet.is_directed() || directed::starts_by_lid(packet.smp()) {
            let base = self.fabric.port(port).info.lid();
            packet.dlid = datagram.remote.lid;
            packet.slid = Lid(base.0 | u16::from(datagram.remote.path_bits));
            packet.sl = datagram.remote.sl;
            packet.p_key = self.fabric.port(port).p_key(datagram.remote.pkey_index);
        }
        if let Some(index) = self.admit(packet) {
            self.counters.sent += 1;
            let client = &mut self.clients[client.0 as usize];
            let start = now.max(self.now).max(client.send_free);
            client.send_free = start + self.config.host_send_interval;
            self.queue.push(client.send_free, Event::Depart(index));
        }
    }

    /// Sends a datagram as an operating system does: if `timeout` is not zero, the host waits for a
    /// response, and if none arrives in time, the client receives [`Inbound::SendFailed`].
    ///
    /// From the first call on, responses without a waiting request do not reach this client; they
    /// are counted as [`DropReason::TooLate`].
    pub fn send_with_timeout(
        &mut self,
        client: AttachId,
        datagram: &Datagram,
        timeout: Duration,
        now: Time,
    ) {
        if self.client_port(client).is_none() {
            return;
        }
        let state = &mut self.clients[client.0 as usize];
        state.matches_responses = true;
        if !timeout.is_zero() {
            state.serial += 1;
            let header = MadHeader::of(&datagram.mad);
            let (serial, class, tid) = (state.serial, header.class(), header.tid().low());
            state.waiting.insert((class, tid), serial);
            let timed_out = Event::SendTimeout {
                client: client.0,
                class,
                tid,
                serial,
            };
            self.queue.push(now.max(self.now) + timeout, timed_out);
        }
        self.send(client, datagram, now);
    }

    /// Runs all events up to `now`, or up to the next output for a client, and returns that output.
    /// Call `poll` until it returns `None`.
    pub fn poll(&mut self, now: Time) -> Option<(AttachId, Inbound)> {
        loop {
            if let Some(output) = self.output.pop_front() {
                return Some(output);
            }
            match self.queue.pop_until(now) {
                Some((time, event)) => {
                    self.now = self.now.max(time);
                    self.handle_event(event);
                }
                None => {
                    self.now = self.now.max(now);
                    return None;
                }
            }
        }
    }

    /// The time of the next event for [`poll`](Sim::poll); `None` if there is no event.
    pub fn next_event(&self) -> Option<Time> {
        if self.output.is_empty() {
            self.queue.next_time()
        } else {
            Some(self.now)
        }
    }

    /// The present virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The properties of the hardware.
    pub fn config(&self) -> &SimConfig {
        &self.config
    }

    /// The values of the counters so far.
    pub fn counters(&self) -> SimCounters {
        let mut counters = self.counters.clone();
        counters.in_flight = self.packets.len() as u64;
        counters
    }

    /// Starts to record the Sets that take effect, and keeps the last `capacity` Sets. Replaces a
    /// running recording.
    pub fn start_journal(&mut self, capacity: usize) {
        self.journal = Some(SetJournal::with_capacity(capacity));
    }

    /// Returns the Sets recorded so far and removes them; the recording continues. `None` if no
    /// recording was started.
    pub fn take_journal(&mut self) -> Option<SetJournal> {
        self.journal.as_mut().map(SetJournal::take)
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::AgentDone(packet) => self.agent_done(packet),
            Event::Depart(packet) => self.depart(packet),
            Event::Deliver(packet) => self.deliver(packet),
            Event::LinkUp { port, generation } => self.link_trained(port, generation),
            Event::SelfActivate { port, generation } => self.self_activate(port, generation),
            Event::PowerUp { node, epoch } => {
                if self.fabric.node(node).epoch == epoch {
                    self.power_up(node);
                }
            }
            Event::TrapDue { node, serial } => self.trap_due(node, serial),
            Event::SendTimeout {
                client,
                class,
                tid,
                serial,
            } => self.send_timed_out(client, class, tid, serial),
            Event::LeaseEnd { port, generation } => {
                let port = self.fabric.port_mut(port);
                if port.is_lease_running && port.lease_generation == generation {
                    port.is_lease_running = false;
                    // The M_Key can be read again, so that a manager that lost it can recover (IBA
                    // 14.2.4.2).
                    port.info.set_m_key_protect_bits(0);
                }
            }
        }
    }

    /// Admits a packet if there is room for it; otherwise counts its loss and returns `None`.
    pub(crate) fn admit(&mut self, packet: Packet) -> Option<u32> {
        if self.packets.len() < self.config.max_in_flight {
            return Some(self.packets.insert(packet));
        }
        // The packet counts as sent and as lost; no other counter includes it.
        self.counters.sent += 1;
        self.counters.count_drop(DropReason::FabricFull);
        None
    }

    /// Ends a packet that is lost.
    pub(crate) fn lose(&mut self, index: u32, reason: DropReason) {
        self.counters.count_drop(reason);
        self.packets.remove(index);
    }

    pub(crate) fn client_port(&self, client: AttachId) -> Option<u32> {
        let port = self.clients.get(client.0 as usize)?.port;
        (port != NONE).then_some(port)
    }

    /// Whether the host delivers a response to a client. Also removes the request that waits for
    /// the response. A host that matches responses delivers only the response to a waiting request,
    /// and segments of longer responses, because only the RMPP of the client knows the transfer.
    pub(crate) fn claim_response(
        &mut self,
        client: u32,
        header: &MadHeader,
        is_segment: bool,
    ) -> bool {
        let client = &mut self.clients[client as usize];
        let awaited = (header.class(), header.tid().low());
        let claimed = client.waiting.remove(&awaited).is_some();
        !client.matches_responses || claimed || is_segment
    }

    /// Reports a timeout to a client, if the request still waits for a response.
    fn send_timed_out(&mut self, client: u32, class: Class, tid: u32, serial: u64) {
        let state = &mut self.clients[client as usize];
        if state.waiting.get(&(class, tid)) == Some(&serial) {
            state.waiting.remove(&(class, tid));
            let failed = Inbound::SendFailed {
                class,
                tid: Tid(u64::from(tid)),
                kind: SendFailure::TimedOut,
            };
            self.queue_output(client, failed);
        }
    }

    /// Sends an event to the client at a port, if the port has a client.
    pub(crate) fn send_event(&mut self, port: u32, event: PortEvent) {
        let client = self.fabric.port(port).client;
        if client != NONE {
            self.queue_output(client, Inbound::Port(event));
        }
    }

    /// Queues an output for a client. Returns whether the queue had room.
    pub(crate) fn queue_output(&mut self, client: u32, inbound: Inbound) -> bool {
        let has_room = self.output.len() < self.config.max_output;
        if has_room {
            self.output.push_back((AttachId(client), inbound));
        }
        has_room
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim")
            .field("now", &self.now)
            .field("nodes", &self.fabric.nodes.len())
            .field("ports", &self.fabric.ports.len())
            .field("clients", &self.clients.len())
            .field("in_flight", &self.packets.len())
            .finish_non_exhaustive()
    }
}
