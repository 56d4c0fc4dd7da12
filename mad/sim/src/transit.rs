//! The life of a packet: departure, links, agents, answer or delivery.

use std::time::Duration;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::transport::{Datagram, GENERAL_SERVICE_QKEY, Inbound, RemoteAddress};
use rsm_mad::wire::MAD_LEN;
use rsm_mad::wire::attr::PortState;
use rsm_mad::wire::header::{Class, Method, Status};

use crate::agent::{Outcome, Request};
use crate::causes::PacketLoss;
use crate::config::SimConfig;
use crate::congestion::CongestionRefusal;
use crate::counters::DropReason;
use crate::directed::{self, Step};
use crate::fabric::{NONE, Node, Silence};
use crate::journal::SetJournalEntry;
use crate::personality::Habit;
use crate::queue::Event;
use crate::route::{self, Traffic};
use crate::sim::Sim;

/// The work of an agent on a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// The agent forwards a directed-route SMP.
    Forward,
    /// The agent answers a request.
    Request,
}

/// The time that a [slow processor](Habit::SlowProcessor) needs for an answer.
const SLOW_ANSWER: Duration = Duration::from_millis(40);
/// The number of requests that fit into a [small buffer](Habit::SmallBuffer).
const SMALL_BUFFER: u16 = 4;
/// The period of a node that [pauses](Habit::Pauses): the node pauses at the end of each period.
/// The offset of the periods depends on the node.
const PAUSE_PERIOD: Duration = Duration::from_secs(20);
/// The duration of a pause.
const PAUSE: Duration = Duration::from_secs(3);

/// The time at which the agent of a node has finished its work on a packet that reaches it at
/// `arrival`.
fn done_at(node: &mut Node, arrival: Time, work: Work, config: &SimConfig) -> Time {
    let free = match node.personality.has(Habit::Pauses) {
        true => after_pause(node.guid, arrival),
        false => arrival,
    };
    if work == Work::Request && node.personality.has(Habit::SlowProcessor) {
        node.answers_until = node.answers_until.max(free) + SLOW_ANSWER;
        return node.answers_until;
    }
    let busy = match work {
        Work::Forward => config.forward_time,
        Work::Request if node.is_switch() => config.switch_service_time,
        Work::Request => config.ca_service_time,
    };
    node.busy_until = node.busy_until.max(free) + busy;
    node.busy_until
}

/// The end of the pause of the node with this GUID at `time`; `time` itself if the node does not
/// pause then.
fn after_pause(guid: Guid, time: Time) -> Time {
    let period = PAUSE_PERIOD.as_nanos() as u64;
    // The factor may be any fixed number that gives different offsets for different GUIDs.
    let offset = guid.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) % period;
    let phase = (time.as_nanos() % period + offset) % period;
    match phase >= period - PAUSE.as_nanos() as u64 {
        true => time + Duration::from_nanos(period - phase),
        false => time,
    }
}

impl Sim {
    /// Sends a packet out of the port where it starts.
    ///
    /// A LID-routed packet crosses the whole fabric at once, by the present tables, although it
    /// arrives later. The deviation from reality is a few microseconds, and saves an event for
    /// every switch.
    pub(crate) fn depart(&mut self, index: u32) {
        let packet = self.packets.get_mut(index);
        let node = self.fabric.node_of(packet.at);
        if !node.is_powered {
            return self.lose(index, DropReason::NodeOff);
        }
        if !packet.is_directed() {
            return self.depart_by_lid(index);
        }
        let is_switch = node.is_switch();
        let own = self.fabric.port(packet.at).number;
        match directed::originate(packet.smp_mut()) {
            // A port of an adapter acts as a separate node: the only exit is the client's port.
            Step::Exit(exit) if !is_switch && exit.0 != own => {
                self.lose(index, DropReason::BadPath);
            }
            Step::Exit(exit) => {
                if self
                    .faults
                    .loses(&mut self.rng, self.packets.get(index).header())
                {
                    return self.lose(index, DropReason::Loss);
                }
                self.leave(index, exit);
            }
            Step::ByLid => {
                self.packets.get_mut(index).is_at_origin = false;
                self.depart_by_lid(index);
            }
            Step::Here => self.reach(index, Duration::ZERO),
            Step::Discard(reason) => self.lose(index, reason),
        }
    }

    /// Sends a packet by its DLID.
    fn depart_by_lid(&mut self, index: u32) {
        let packet = self.packets.get_mut(index);
        if packet.answers_local_request || (packet.dlid == Lid::PERMISSIVE && packet.is_smp()) {
            packet.answers_local_request = true;
            return self.reach(index, Duration::ZERO);
        }
        if packet.dlid == Lid::NONE || packet.slid == Lid::NONE {
            return self.lose(index, DropReason::NoAddress);
        }
        if !packet.is_smp() && !packet.p_key.is_valid() {
            return self.lose(index, DropReason::PKey);
        }
        if self.faults.loses(&mut self.rng, packet.header()) {
            return self.lose(index, DropReason::Loss);
        }
        let traffic = if packet.is_smp() {
            Traffic::Management
        } else {
            Traffic::Data {
                sl: packet.sl,
                payload: MAD_LEN as u16,
                key: None,
            }
        };
        let (start, dlid) = (packet.at, packet.dlid);
        let rng = &mut self.rng;
        let fabric = &self.fabric;
        let mut armed = [NONE; 4];
        let mut crossed = std::mem::take(&mut self.crossed);
        crossed.clear();
        let walk_result = route::follow(fabric, start, dlid, traffic, |exit| {
            let port = fabric.port(exit);
            if traffic != Traffic::Management
                && fabric.port(port.peer).info.port_state() == PortState::Armed
                && let Some(slot) = armed.iter_mut().find(|slot| **slot == NONE)
            {
                *slot = port.peer;
            }
            if rng.happens(port.loss) {
                return Err(DropReason::Loss);
            }
            crossed.push(exit);
            Ok(())
        });
        if traffic != Traffic::Management {
            self.count_walk(&crossed, &walk_result);
        }
        self.crossed = crossed;
        // A data packet activates the Armed port that it enters (IBA 7.2.7).
        for port in armed.into_iter().filter(|&port| port != NONE) {
            self.fabric
                .port_mut(port)
                .info
                .set_port_state(PortState::Active);
        }
        if let Err(reason) = walk_result.result {
            return self.lose(index, reason);
        }
        let packet = self.packets.get_mut(index);
        packet.at = walk_result.port;
        packet.answers_local_request = walk_result.hops == 0;
        self.reach(index, self.config.hop_latency * walk_result.hops);
    }

    /// Sends a directed-route packet out of its node.
    fn leave(&mut self, index: u32, exit: PortNum) {
        let packet = self.packets.get_mut(index);
        let Some(exit) = self.fabric.node_of(packet.at).port(exit.0) else {
            return self.lose(index, DropReason::NoSuchPort);
        };
        let port = self.fabric.port(exit);
        if port.peer == NONE || !port.is_up() {
            return self.lose(index, DropReason::LinkDown);
        }
        if self.rng.happens(port.loss) {
            return self.lose(index, DropReason::Loss);
        }
        packet.at = port.peer;
        packet.is_at_origin = false;
        self.reach(index, self.config.hop_latency);
    }

    /// Sends an answer, which has arrived at the start of its directed part, on to DrSLID.
    fn leave_by_lid(&mut self, index: u32) {
        let at = self.packets.get(index).at;
        let address = self.fabric.address_port(at);
        let packet = self.packets.get_mut(index);
        packet.at = address;
        packet.slid = self.fabric.port(address).info.lid();
        packet.dlid = packet.smp().dr_slid();
        self.depart_by_lid(index);
    }

    /// Schedules that a packet reaches the node of its port after `delay`: the agent forwards or
    /// answers it, or a client receives it.
    fn reach(&mut self, index: u32, delay: Duration) {
        let packet = self.packets.get_mut(index);
        let is_switch = self.fabric.node_of(packet.at).is_switch();
        let work = if packet.must_be_forwarded() {
            Work::Forward
        } else if packet.is_for_agent() {
            Work::Request
        } else {
            if packet.is_directed() && !packet.is_at_origin {
                let entry = PortNum(self.fabric.port(packet.at).number);
                match directed::arrive(packet.smp_mut(), entry, is_switch) {
                    Step::Here => {}
                    Step::Discard(reason) => return self.lose(index, reason),
                    // `ends_here` has excluded a further hop.
                    Step::Exit(_) | Step::ByLid => return self.lose(index, DropReason::BadPath),
                }
            }
            let due = self.now + delay + self.config.host_receive_latency;
            return self.queue.push(due, Event::Deliver(index));
        };
        self.queue_at_agent(index, delay, work);
    }

    /// Puts a packet into the buffer of its destination agent. The packet occupies the buffer from
    /// now on, so that packets on the wire count too.
    fn queue_at_agent(&mut self, index: u32, delay: Duration, work: Work) {
        let packet = self.packets.get_mut(index);
        let arrival = self.now + delay;
        let node = &mut self.fabric.nodes[self.fabric.ports[packet.at as usize].node as usize];
        if !node.is_powered {
            return self.lose(index, DropReason::NodeOff);
        }
        if self.rng.happens(node.loss) {
            return self.lose(index, DropReason::Loss);
        }
        let has_small_buffer = node.personality.has(Habit::SmallBuffer) && work == Work::Request;
        if node.queued >= self.config.agent_buffer
            || (has_small_buffer && node.requests >= SMALL_BUFFER)
        {
            return self.lose(index, DropReason::BufferFull);
        }
        node.queued += 1;
        packet.epoch = node.epoch;
        node.requests += u16::from(work == Work::Request);
        let due = done_at(node, arrival, work, &self.config);
        self.queue.push(due, Event::AgentDone(index));
    }

    /// Continues with a packet that its agent has finished.
    pub(crate) fn agent_done(&mut self, index: u32) {
        let packet = self.packets.get_mut(index);
        let port = &self.fabric.ports[packet.at as usize];
        let node = &mut self.fabric.nodes[port.node as usize];
        if packet.epoch != node.epoch || !node.is_powered {
            return self.lose(index, DropReason::NodeOff);
        }
        node.queued -= 1;
        node.requests -= u16::from(!packet.must_be_forwarded());
        if node.silence == Silence::Everything {
            return self.lose(index, DropReason::Silent);
        }
        let step = if packet.is_directed() && !packet.is_at_origin {
            directed::arrive(packet.smp_mut(), PortNum(port.number), node.is_switch())
        } else {
            Step::Here
        };
        match step {
            Step::Exit(exit) => self.leave(index, exit),
            Step::ByLid => self.leave_by_lid(index),
            Step::Discard(reason) => self.lose(index, reason),
            Step::Here => self.at_destination(index),
        }
    }

    /// Handles a request or TrapRepress at its destination agent.
    fn at_destination(&mut self, index: u32) {
        let packet = self.packets.get_mut(index);
        let node_index = self.fabric.port(packet.at).node;
        let header = *packet.header();
        if packet.is_of_general_agent() {
            return self.at_general_agent(index);
        }
        if self.is_invalid_route(index) {
            return self.lose(index, DropReason::InvalidRoute);
        }
        let packet = self.packets.get_mut(index);
        if header.method() == Method::TRAP_REPRESS {
            let (smp, entry, slid) = (*packet.smp(), packet.at, packet.slid);
            let is_allowed = Request::at(&mut self.fabric, &self.config, &mut self.effects, entry)
                .repress_allowed(&smp, slid);
            self.execute_effects();
            if !is_allowed {
                self.lose(index, DropReason::MKey);
            } else if self.repress(node_index, &smp) {
                self.counters.consumed += 1;
                self.packets.remove(index);
            } else {
                let due = self.now + self.config.host_receive_latency;
                self.queue.push(due, Event::Deliver(index));
            }
            return;
        }
        self.counters
            .count_request(header.attribute(), header.method());
        let node = self.fabric.node_mut(node_index);
        if node.silence == Silence::Answers || node.personality.has(Habit::Silent) {
            return self.lose(index, DropReason::Silent);
        }
        let outcome = if node.busy_answers > 0 {
            node.busy_answers -= 1;
            Outcome::Answer(Status::BUSY)
        } else {
            let (entry, slid) = (packet.at, packet.slid);
            Request::at(&mut self.fabric, &self.config, &mut self.effects, entry)
                .handle(packet.smp_mut(), slid)
        };
        match outcome {
            Outcome::Discard(reason) => self.lose(index, reason),
            Outcome::Client => {
                let due = self.now + self.config.host_receive_latency;
                self.queue.push(due, Event::Deliver(index));
            }
            Outcome::Answer(status) => {
                if status.is_ok() && header.method() == Method::SET {
                    self.record_set(index, node_index);
                }
                self.answer(index, status);
            }
        }
        self.execute_effects();
    }

    /// Whether the packet is an SMP that came by LID to a node without such routes. An SMP that
    /// never left its node has no route.
    fn is_invalid_route(&self, index: u32) -> bool {
        let packet = self.packets.get(index);
        let node = self.fabric.node_of(packet.at);
        let is_by_lid = packet.is_smp() && !packet.is_directed() && !packet.answers_local_request;
        is_by_lid && node.personality.has(Habit::DirectedOnly)
    }

    /// Handles a request of performance management, congestion control or the vendor class, which
    /// needs a P_Key instead of an M_Key.
    fn at_general_agent(&mut self, index: u32) {
        let packet = self.packets.get(index);
        let address = self.fabric.address_port(packet.at);
        let is_member = self
            .fabric
            .port(address)
            .p_key_index(packet.p_key)
            .is_some();
        let node = self.fabric.node_of(address);
        if node.silence == Silence::Answers || node.personality.has(Habit::Silent) {
            return self.lose(index, DropReason::Silent);
        }
        if !is_member {
            return self.lose_foreign(index, address);
        }
        let refusal = match self.packets.get(index).header().class() {
            Class::CONGESTION_CONTROL => self.answer_congestion(index).err(),
            Class::VENDOR_DEVICE => self.answer_device(index).err().map(Into::into),
            _ => self.answer_performance(index).err().map(Into::into),
        };
        match refusal {
            None => self.answer(index, Status::OK),
            Some(CongestionRefusal::Answer(status)) => self.answer(index, status),
            Some(CongestionRefusal::Drop(reason)) => self.lose(index, reason),
        }
    }

    /// Counts an effective Set, and records it in the journal.
    fn record_set(&mut self, index: u32, node_index: u32) {
        let packet = self.packets.get(index);
        let node = self.fabric.node_mut(node_index);
        node.sets += 1;
        if let Some(journal) = &mut self.journal {
            let address = self.fabric.address_port(packet.at);
            let smp = packet.smp();
            let sender = (packet.sender != NONE).then(|| {
                let number = self.fabric.port(packet.sender).number;
                (self.fabric.node_of(packet.sender).guid, PortNum(number))
            });
            journal.push(SetJournalEntry {
                time: self.now,
                sent: packet.sent,
                sender,
                node: self.fabric.node(node_index).guid,
                port: PortNum(self.fabric.port(address).number),
                attribute: smp.header().attribute(),
                modifier: smp.header().modifier(),
                data: *smp.data(),
            });
        }
    }

    /// Changes a request into its answer, and sends the answer.
    fn answer(&mut self, index: u32, status: Status) {
        let packet = self.packets.get_mut(index);
        packet.smp_mut().make_response(status);
        if packet.is_directed() {
            packet.is_at_origin = true;
        } else {
            packet.at = self.fabric.address_port(packet.at);
            std::mem::swap(&mut packet.slid, &mut packet.dlid);
        }
        self.counters.answered += 1;
        if self.rng.happens(self.faults.duplicate) {
            let duplicate = self.packets.get(index).clone();
            if self.packets.len() < self.config.max_in_flight {
                let duplicate = self.packets.insert(duplicate);
                self.counters.duplicates += 1;
                self.queue.push(self.now, Event::Depart(duplicate));
            }
        }
        if self.rng.happens(self.faults.late) {
            let max_delay = u64::try_from(self.config.late_by.as_nanos()).unwrap_or(u64::MAX);
            let delay = Duration::from_nanos(self.rng.below(max_delay));
            self.queue.push(self.now + delay, Event::Depart(index));
        } else {
            self.depart(index);
        }
    }

    /// Handles a packet that has reached `port`, which has no client. The node answers a Get or a
    /// Set of a general service, because no agent here has the class, method and attribute (IBA
    /// 13.4.7). Other packets are lost. Requests to the SA are lost too, because the node does not
    /// know whether the process of an SA runs.
    fn refuse(&mut self, index: u32, port: u32) {
        let packet = self.packets.get(index);
        let header = packet.header();
        let is_request = matches!(header.method(), Method::GET | Method::SET);
        if packet.is_smp() || !is_request || header.class() == Class::SUBNET_ADMINISTRATION {
            return self.lose(index, DropReason::NoClient);
        }
        if self.fabric.port(port).p_key_index(packet.p_key).is_none() {
            return self.lose_foreign(index, port);
        }
        self.answer(index, Status::UNSUPPORTED_METHOD_ATTRIBUTE);
    }

    /// Ends a packet at a port outside the packet's partition.
    fn lose_foreign(&mut self, index: u32, port: u32) {
        self.count_lost(&PacketLoss::outside_partition(port));
        self.lose(index, DropReason::PKey);
    }

    /// Delivers a packet to the client at the packet's port.
    pub(crate) fn deliver(&mut self, index: u32) {
        let packet = self.packets.get(index);
        let port = self.fabric.address_port(packet.at);
        let client = self.fabric.port(port).client;
        if !self.fabric.node_of(port).is_powered {
            return self.lose(index, DropReason::NodeOff);
        }
        if self.is_invalid_route(index) {
            return self.lose(index, DropReason::InvalidRoute);
        }
        if client == NONE {
            return self.refuse(index, port);
        }
        let header = *packet.header();
        let is_response = header.method().is_response() || header.method() == Method::TRAP_REPRESS;
        let pkey_index = if packet.is_smp() {
            0
        } else {
            match self.fabric.port(port).p_key_index(packet.p_key) {
                Some(index) => index,
                None => return self.lose_foreign(index, port),
            }
        };
        let is_segment = packet.is_segment();
        if is_response && !self.claim_response(client, &header, is_segment) {
            return self.lose(index, DropReason::TooLate);
        }
        let packet = self.packets.get(index);
        let remote = if packet.is_directed() {
            RemoteAddress::directed()
        } else {
            let base = self.fabric.port(port).info.lid().0;
            RemoteAddress {
                lid: packet.slid,
                qpn: u32::from(!packet.is_smp()),
                qkey: if packet.is_smp() {
                    0
                } else {
                    GENERAL_SERVICE_QKEY
                },
                sl: packet.sl,
                pkey_index,
                // The LIDs of a port are at most 128.
                path_bits: (packet.dlid.0.wrapping_sub(base) & 0x7F) as u8,
                grh: None,
            }
        };
        let mad = packet.mad;
        if self.queue_output(client, Inbound::Mad(Datagram { mad, remote })) {
            self.counters.delivered += 1;
            self.packets.remove(index);
        } else {
            self.lose(index, DropReason::ClientFull);
        }
    }
}
