//! The state machine that reads the counters of all agents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortKey};
use rsm_mad::Time;
use rsm_mad::transport::{Datagram, Inbound, RemoteAddress, SendFailure};
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::header::{Class, MadHeader, Method};
use rsm_mad::wire::perf::PerfMad;
use rsm_model::fabric::{Fabric, Node};
use rsm_routing::engine::Routing;
use rsm_routing::topology::Topology;

use super::agent::{Agent, Next, Verdict};
use super::config::CountersConfig;
use super::request::{Request, answered_port, p_key_index};
use super::snapshot::{AgentState, CountersSnapshot, Intervals};
use super::stats::CollectorStats;
use crate::agent_window::{AgentWindow, Flight, SEND_PAUSE, Transmit};

/// Number of repetitions of an unanswered request before its agent gets a pause.
const REPETITIONS: u8 = 1;

/// Length of a burst after a pause: the burst has as many requests as the configured rate permits
/// in this time.
const BURST: Duration = Duration::from_millis(50);

/// Time over which the first readings are spread, so that agents have different phases afterwards.
const FIRST_SPREAD: Duration = Duration::from_secs(2);

/// The parts of the subnet that requests to agents depend on.
#[derive(Clone, Default, Debug)]
pub struct CountedSubnet {
    /// Whether this subnet manager is master; other managers read no counters.
    pub is_master: bool,
    /// Nodes, LIDs and links.
    pub fabric: Arc<Fabric>,
    /// Service levels of the plan; `None` before the first plan.
    pub levels: Option<PlannedLevels>,
    /// Service level, 0 to 15, for destinations for which the plan states none.
    pub sl: u8,
}

/// The service levels of a plan's routes from the subnet manager's port.
#[derive(Clone, Debug)]
pub struct PlannedLevels {
    /// The switch graph of the plan.
    pub topology: Arc<Topology>,
    /// The routes of the plan.
    pub routing: Arc<Routing>,
    /// The LID of the subnet manager's port.
    pub sm_lid: Lid,
}

impl PlannedLevels {
    /// The service level that packets to a LID require; `None` if packets may have any service
    /// level.
    fn to(&self, lid: Lid) -> Option<u8> {
        let switch = |lid| Some(self.topology.destination_of(lid)?.switch);
        let lanes = &self.routing.lanes;
        lanes.level(switch(self.sm_lid)?, switch(lid)?)
    }
}

/// Data for the addresses of agents: P_Keys of the manager's port, and service levels.
#[derive(Clone, Default, Debug)]
pub struct Routes {
    /// P_Key table of the manager's port; empty if it is unknown.
    p_keys: Vec<PKey>,
    levels: Option<PlannedLevels>,
    /// Service level, 0 to 15, for destinations for which the plan states none.
    sl: u8,
}

impl Routes {
    /// Creates the routes in a model; `sl` is the service level for destinations for which the plan
    /// states none.
    pub fn new(fabric: &Fabric, levels: Option<PlannedLevels>, sl: u8) -> Routes {
        let own = fabric.local.map(|at| fabric.port(at));
        let image = own.and_then(|port| port.p_keys.as_ref());
        Routes {
            p_keys: image.map_or_else(Vec::new, |image| image.keys().to_vec()),
            levels,
            sl,
        }
    }

    /// The address of the general services agent at a LID.
    pub fn to(&self, lid: Lid) -> RemoteAddress {
        let default = p_key_index(&self.p_keys, PKey::DEFAULT_FULL).unwrap_or(0);
        RemoteAddress {
            pkey_index: default,
            ..RemoteAddress::gsi(lid, self.level(lid))
        }
    }

    /// The service level of packets to a LID.
    fn level(&self, lid: Lid) -> u8 {
        let planned = self.levels.as_ref().and_then(|levels| levels.to(lid));
        planned.unwrap_or(self.sl)
    }

    /// The address for a request to an agent, or to the target of its redirection. `None` if the
    /// manager's port is not a member of the target's partition.
    fn remote(&self, agent: &Agent, request: Request) -> Option<RemoteAddress> {
        // Only performance management is redirected.
        if let Some(redirect) = agent.redirect().filter(|_| request != Request::Firmware) {
            return redirect.remote(&self.p_keys);
        }
        Some(self.to(agent.published.lid))
    }
}

/// A request, and the LID to which it was sent.
#[derive(Clone, Copy)]
struct SentRequest {
    request: Request,
    lid: Lid,
}

/// Reads the counters of all ports repeatedly.
///
/// The owner calls [`Collector::poll_transmit`] until it returns nothing, then waits for datagrams
/// ([`Collector::handle`]) or until [`Collector::next_deadline`]. The owner reports each change of
/// the subnet with [`Collector::follow`]. While counters are read, the collector has an agent for
/// each end port of the fabric, with a reading for each port of a switch; it forgets ports that
/// vanish.
#[derive(Clone, Default)]
pub struct Collector {
    config: CountersConfig,
    routes: Routes,
    is_master: bool,
    fabric: Arc<Fabric>,
    agents: BTreeMap<PortKey, Agent>,
    /// Turns of agents, and requests in flight; at most `config.window` requests are in flight.
    window: AgentWindow<SentRequest>,
    /// Time from which on the configured rate permits the next request.
    next_send: Time,
    stats: CollectorStats,
}

impl Collector {
    /// A collector without readings. `first_tid` should differ from the transaction IDs of an
    /// earlier process, whose answers may still arrive.
    pub fn new(config: CountersConfig, first_tid: u32) -> Collector {
        Collector {
            config,
            window: AgentWindow::new(first_tid),
            ..Collector::default()
        }
    }

    /// Changes the settings. Requests in flight keep the former settings.
    pub fn configure(&mut self, config: CountersConfig, now: Time) {
        let was_collecting = self.is_collecting();
        let before = std::mem::replace(&mut self.config, config);
        if before.adapters != config.adapters {
            let fabric = self.fabric.clone();
            let adapters = fabric.nodes().filter(|node| !node.is_switch());
            adapters.for_each(|node| self.follow_node(node, now));
        }
        self.start_or_stop(was_collecting, now);
    }

    /// Follows nodes, LIDs and links of the subnet. Counters are read only while this subnet
    /// manager is master.
    pub fn follow(&mut self, subnet: CountedSubnet, now: Time) {
        let was_collecting = self.is_collecting();
        self.is_master = subnet.is_master;
        self.routes = Routes::new(&subnet.fabric, subnet.levels, subnet.sl);
        let before = std::mem::replace(&mut self.fabric, subnet.fabric);
        let fabric = self.fabric.clone();
        for (earlier, node) in before.differing(&fabric) {
            match node {
                Some(node) => self.follow_node(node, now),
                None => earlier
                    .into_iter()
                    .for_each(|former| self.forget(former.guid, |_| true)),
            }
        }
        self.start_or_stop(was_collecting, now);
    }

    /// Whether counters are read.
    fn is_collecting(&self) -> bool {
        self.config.enabled && self.is_master
    }

    /// Starts or stops the collection, if [`Collector::is_collecting`] differs from
    /// `was_collecting`.
    fn start_or_stop(&mut self, was_collecting: bool, now: Time) {
        if was_collecting == self.is_collecting() {
            return;
        }
        let is_collecting = self.is_collecting();
        if is_collecting {
            let fabric = self.fabric.clone();
            fabric.nodes().for_each(|node| self.follow_node(node, now));
        }
        self.window.clear();
        for (key, agent) in &mut self.agents {
            agent.due = is_collecting.then(|| agent.next_turn().max(now + phase(*key)));
            if let Some(due) = agent.due {
                self.window.enqueue(due, *key);
            }
        }
    }

    /// Creates, updates and forgets agents of a node that has changed.
    fn follow_node(&mut self, node: &Node, now: Time) {
        let is_read = node.is_switch() || self.config.adapters;
        let end_ports = node.end_ports().filter(|_| is_read);
        let with_lid = end_ports.filter(|(_, port)| port.lid() != Lid::NONE);
        let keys: BTreeSet<PortKey> = with_lid
            .map(|(port, _)| PortKey::new(node.guid, port))
            .collect();
        let agents = &self.agents;
        let stays = |key| {
            agents
                .get(&key)
                .is_some_and(|agent: &Agent| agent.fits(node))
        };
        let staying: BTreeSet<PortKey> = keys.iter().copied().filter(|&key| stays(key)).collect();
        self.forget(node.guid, |key| !staying.contains(&key));
        // The agents of a large fabric take much memory, and are created only while counters are
        // read.
        let is_collecting = self.is_collecting();
        for key in keys {
            match self.agents.get_mut(&key) {
                Some(agent) => agent.follow(node),
                None if !is_collecting => {}
                None => {
                    let mut agent = Agent::new(node, key, now + phase(key));
                    let due = agent.next_turn();
                    agent.due = Some(due);
                    self.window.enqueue(due, key);
                    self.agents.insert(key, agent);
                }
            }
        }
    }

    /// Forgets the agents of a node for whose ports `is_obsolete` returns true.
    fn forget(&mut self, node: Guid, is_obsolete: impl Fn(PortKey) -> bool) {
        let all =
            PortKey::new(node, rsm_ids::PortNum(0))..=PortKey::new(node, rsm_ids::PortNum(255));
        let keys = self.agents.range(all).map(|(&key, _)| key);
        let obsolete: Vec<PortKey> = keys.filter(|&key| is_obsolete(key)).collect();
        for key in obsolete {
            let agent = self.agents.remove(&key);
            if let Some(due) = agent.and_then(|agent| agent.due) {
                self.window.dequeue(due, key);
            }
            // The answer to a request in flight will find no agent, and is ignored.
        }
    }

    /// The next request; `None` if no request is due, or the window or rate does not permit one.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        while self.may_send(now) {
            let (due, key) = self.window.first_turn()?;
            if due > now {
                return None;
            }
            self.window.dequeue(due, key);
            if let Some(transmit) = self.send(key, now) {
                return Some(transmit);
            }
        }
        None
    }

    /// Whether settings, window and rate permit a request now.
    fn may_send(&self, now: Time) -> bool {
        self.is_collecting() && self.has_room() && self.next_send <= now
    }

    /// Whether another request may be in flight.
    fn has_room(&self) -> bool {
        (self.window.in_flight() as u64) < u64::from(self.config.window)
    }

    /// The next request of an agent whose turn it is. `None` if its reading has ended or no request
    /// can be sent; the agent is then queued again.
    fn send(&mut self, key: PortKey, now: Time) -> Option<Transmit> {
        let agent = self.agents.get_mut(&key)?;
        agent.due = None;
        let Some(request) = agent.next_request(now) else {
            agent.end_reading(&self.config, now);
            let at = agent.next_turn();
            self.enqueue(key, at, now);
            return None;
        };
        let Some(remote) = self.routes.remote(agent, request) else {
            // The manager's port is not a member of the partition of the redirection's target.
            agent.fail(&self.config, now);
            let at = agent.next_turn();
            self.enqueue(key, at, now);
            return None;
        };
        let lid = remote.lid;
        let deadline = now + self.config.timeout;
        let tid = self.window.add(key, SentRequest { request, lid }, deadline);
        self.stats.sent += 1;
        self.schedule_next_send(now);
        Some(Transmit {
            datagram: request.datagram(tid, remote),
            timeout: self.config.timeout,
        })
    }

    /// Handles a request that the transport did not accept. The agent gets another turn after a
    /// pause.
    pub fn not_sent(&mut self, transmit: &Transmit, now: Time) {
        let tid = MadHeader::of(&transmit.datagram.mad).tid();
        if let Some(flight) = self.window.remove(tid) {
            self.stats.sent -= 1;
            self.next_send = self.next_send.max(now + SEND_PAUSE);
            self.enqueue(flight.agent, now + SEND_PAUSE, now);
        }
    }

    /// Sets the time of the next request after a request at `now`.
    fn schedule_next_send(&mut self, now: Time) {
        let each = Duration::from_secs(1) / self.config.requests_per_s.max(1);
        let earliest = Time::from_nanos(now.as_nanos().saturating_sub(BURST.as_nanos() as u64));
        self.next_send = self.next_send.max(earliest) + each;
    }

    /// Queues an agent at `at`, or at `now` if that is later.
    fn enqueue(&mut self, key: PortKey, at: Time, now: Time) {
        if let Some(agent) = self.agents.get_mut(&key) {
            let at = at.max(now);
            agent.due = Some(at);
            self.window.enqueue(at, key);
        }
    }

    /// Handles a datagram of performance management or of the vendor's class, or the failure of a
    /// request.
    pub fn handle(&mut self, inbound: &Inbound, now: Time) {
        match inbound {
            Inbound::Mad(datagram) => self.handle_datagram(datagram, now),
            &Inbound::SendFailed {
                class: Class::PERFORMANCE | Class::VENDOR_DEVICE,
                tid,
                kind,
            } => {
                if let Some(flight) = self.window.remove(tid) {
                    match kind {
                        SendFailure::TimedOut => self.handle_unanswered(&flight, now),
                        // The manager's port is the cause, not the agent.
                        SendFailure::Flushed | SendFailure::Other(_) => {
                            self.enqueue(flight.agent, now + SEND_PAUSE, now);
                        }
                    }
                }
            }
            Inbound::SendFailed { .. } | Inbound::Port(_) => {}
        }
    }

    /// Handles requests that were not answered in time.
    pub fn handle_deadline(&mut self, now: Time) {
        while let Some(flight) = self.window.remove_overdue(now) {
            self.handle_unanswered(&flight, now);
        }
    }

    /// Handles a request that was not answered in time: repeats it, or gives the agent a pause.
    fn handle_unanswered(&mut self, flight: &Flight<SentRequest>, now: Time) {
        self.stats.timed_out += 1;
        let Some(agent) = self.agents.get_mut(&flight.agent) else {
            return;
        };
        let at = if agent.may_repeat(REPETITIONS) {
            now
        } else if flight.request.request == Request::Firmware {
            // A device without the vendor's class may not answer, but its counters can be read.
            agent.handle_firmware_answer(None, now);
            now
        } else {
            agent.fail(&self.config, now);
            agent.next_turn()
        };
        self.enqueue(flight.agent, at, now);
    }

    /// Handles a datagram that answers a request in flight; counts any other datagram as stray.
    fn handle_datagram(&mut self, datagram: &Datagram, now: Time) {
        let mad = PerfMad::from_bytes(&datagram.mad);
        let header = mad.header();
        let is_answer = |flight: &Flight<SentRequest>| {
            let SentRequest { request, lid } = flight.request;
            let select = request.port_select();
            let is_of_port = select.is_none_or(|port| {
                // An agent that refuses a request may return other data.
                !header.status().is_ok() || answered_port(mad.data()).0 == port
            });
            header.class() == request.class()
                && header.method() == Method::GET_RESPONSE
                && header.attribute() == request.attribute()
                && datagram.remote.lid == lid
                && is_of_port
        };
        if !self.window.get(header.tid()).is_some_and(is_answer) {
            self.stats.stray += 1;
            return;
        }
        let Some(flight) = self.window.remove(header.tid()) else {
            return;
        };
        let Some(agent) = self.agents.get_mut(&flight.agent) else {
            return;
        };
        if flight.request.request == Request::Firmware && !header.status().is_busy() {
            agent.handle_firmware_answer(Some((header.status(), &datagram.mad)), now);
            self.stats.answered += 1;
            return self.enqueue(flight.agent, now, now);
        }
        let (verdict, next) =
            agent.handle_answer(flight.request.request, header.status(), mad.data(), now);
        let at = match (verdict, next) {
            (Verdict::Busy, _) => {
                agent.postpone(&self.config, now);
                agent.next_turn()
            }
            (_, Next::Continue) => now,
            (_, Next::Wait) => {
                agent.end_reading(&self.config, now);
                agent.next_turn()
            }
        };
        match verdict {
            Verdict::Read { reset } => {
                self.stats.answered += 1;
                self.stats.resets += u64::from(reset);
            }
            Verdict::Refused => self.stats.refused += 1,
            Verdict::Busy => self.stats.busy += 1,
            Verdict::Redirected => self.stats.redirected += 1,
        }
        self.enqueue(flight.agent, at, now);
    }

    /// Time of the next request or of the next deadline of a request in flight; `None` if no
    /// request is pending or in flight.
    pub fn next_deadline(&self) -> Option<Time> {
        let times_out = self.window.first_deadline();
        let turn = self.window.first_turn();
        let sends = turn.filter(|_| self.has_room() && self.is_collecting());
        let sends = sends.map(|(at, _)| at.max(self.next_send));
        times_out.into_iter().chain(sends).min()
    }

    /// The last readings of all agents. Copies one pointer for each agent.
    pub fn snapshot(&self, now: Time) -> CountersSnapshot {
        let agents = || self.agents.values();
        let is_silent = |agent: &&Agent| matches!(agent.published.state, AgentState::Silent(_));
        CountersSnapshot {
            at: now,
            is_collecting: self.is_collecting(),
            intervals: Intervals::of(&self.config),
            stats: CollectorStats {
                agents: self.agents.len(),
                silent: agents().filter(is_silent).count(),
                behind: self
                    .window
                    .first_turn()
                    .map_or(Duration::ZERO, |(at, _)| now.since(at)),
                ..self.stats
            },
            agents: agents().map(|agent| agent.published.clone()).collect(),
        }
    }
}

/// Phase of an agent within [`FIRST_SPREAD`]: equal in every run, and evenly distributed even for
/// successive GUIDs.
fn phase(key: PortKey) -> Duration {
    let seed = (key.node.0 ^ u64::from(key.port.0) << 56).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    FIRST_SPREAD.mul_f64((seed >> 32) as f64 / (1u64 << 32) as f64)
}
