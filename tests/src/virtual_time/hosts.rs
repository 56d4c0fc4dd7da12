//! The SA and hosts that query it, in virtual time.
//!
//! The fabric is up and does not change. The SA replaces the manager at the manager's port, behind
//! injected faults; programs run at the ports of hosts. Processing takes no time: the SA answers at
//! the moment of the request, one unit of work after another.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rsm::daemon::sa::outgoing;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::client::rmpp::{Refused, RmppConfig, RmppStats};
use rsm_mad::ids::Tid;
use rsm_mad::messenger::{Delivery, Left, Messenger, NotSent};
use rsm_mad::transport::fault::{FaultCounts, FaultInjector, FaultPlan};
use rsm_mad::transport::{
    Datagram, Inbound, LocalPort, Message, RemoteAddress, SaInbound, SaPort, SaSink, SendError,
};
use rsm_mad::wire::MadBytes;
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::rmpp::RmppHeader;
use rsm_mad::wire::sa::{ComponentMask, Record, SA_DATA_LEN, SaHeader};
use rsm_plan::groups::GroupSet;
use rsm_sa::{Sa, SaAnswer, SaConfig, SaRequest};
use rsm_sim::{AttachId, Sim};

use super::World;

/// The time for which a host waits for an answer, as in IP over InfiniBand.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The maximum number of datagrams that a program sends in one turn.
const MAX_DATAGRAMS: usize = 64;

/// The number of steps at one moment after which a run counts as stuck.
const IDLE_STEPS: usize = 1_000_000;

/// The port of a program.
#[derive(Debug)]
struct EndPort {
    /// The datagrams that the program has sent and the fabric has not yet received.
    outbox: Mutex<VecDeque<Datagram>>,
    local: LocalPort,
}

impl SaPort for EndPort {
    fn does_rmpp(&self) -> bool {
        false
    }

    fn send(&self, bytes: &[u8], remote: &RemoteAddress, _: Duration) -> Result<(), SendError> {
        let mad = bytes.try_into().map_err(|_| SendError::Closed)?;
        let remote = *remote;
        self.outbox.lock().push_back(Datagram { mad, remote });
        Ok(())
    }

    fn local_port(&self) -> LocalPort {
        self.local.clone()
    }
}

/// A program at a port: the SA or a host.
struct End {
    client: AttachId,
    end_port: Arc<EndPort>,
    messenger: Messenger,
    sink: SaSink,
    inbox: Arc<Mutex<VecDeque<SaInbound>>>,
    /// Whether the program ignores arriving packets.
    ignores_packets: bool,
    /// The number of requests so far, which is the transaction identifier of the last one.
    requests: u64,
}

impl End {
    fn new(sim: &mut Sim, (node, port): (Guid, PortNum), faults: Option<&FaultInjector>) -> End {
        let client = sim.attach(node, port).expect("the port is free");
        let end_port = Arc::new(EndPort {
            outbox: Mutex::default(),
            local: sim.local_port(client).expect("the client is attached"),
        });
        let inbox: Arc<Mutex<VecDeque<SaInbound>>> = Arc::default();
        let arrived = Arc::clone(&inbox);
        let mut sink: SaSink = Box::new(move |inbound| arrived.lock().push_back(inbound));
        let mut port: Arc<dyn SaPort> = Arc::clone(&end_port) as _;
        let mut config = RmppConfig::default();
        match faults {
            Some(faults) => {
                sink = faults.sa_sink(sink);
                port = Arc::new(faults.sa(port));
            }
            // A host accepts answers of any size up to 256 MiB.
            None => config.max_received = 256 << 20,
        }
        End {
            client,
            end_port,
            messenger: Messenger::new(port, config),
            sink,
            inbox,
            ignores_packets: false,
            requests: 0,
        }
    }

    /// Passes an arrived datagram to the program.
    fn receive(&mut self, datagram: Datagram, now: Time) {
        if self.ignores_packets {
            return;
        }
        (self.sink)(SaInbound::Datagram(Box::new(datagram)));
        while let Some(inbound) = self.inbox.lock().pop_front() {
            self.messenger.handle(inbound, now);
        }
    }

    /// Sends pending datagrams. Returns whether more can be sent immediately.
    fn transmit(&mut self, sim: &mut Sim, now: Time) -> bool {
        let left = self.messenger.transmit(MAX_DATAGRAMS, now);
        for datagram in self.end_port.outbox.lock().drain(..) {
            sim.send(self.client, &datagram, now);
        }
        left.expect("the port is never closed") == Left::More
    }
}

/// The SA and its hosts.
pub struct Hosts {
    /// The fabric.
    pub sim: Sim,
    /// The SA.
    pub sa: Sa,
    now: Time,
    /// The SA's program.
    server: End,
    /// The SA's LID.
    lid: Lid,
    faults: FaultInjector,
    /// The answers for which the SA still collects records.
    unfinished: VecDeque<SaAnswer>,
    hosts: Vec<End>,
    places: Vec<(Guid, Lid)>,
    /// The multicast groups that the SA last passed to a core.
    groups: Arc<GroupSet>,
}

impl Hosts {
    /// Takes over the fabric of a brought-up world. All hosts of the world except the manager's
    /// host become hosts of the result.
    ///
    /// # Panics
    ///
    /// The world is not up.
    #[must_use]
    pub fn of(world: &World, config: SaConfig, plan: FaultPlan) -> Hosts {
        let manager = world.manager();
        let snapshot = manager.snapshot().expect("the subnet is up");
        let place = manager.local(&world.sim).expect("the manager has a port");
        let mut sim = world.sim.clone();
        sim.detach(manager.attachment());
        let faults = FaultInjector::new(plan);
        let server = End::new(&mut sim, place, Some(&faults));
        let mut sa = Sa::new(config);
        sa.replace(snapshot);
        let fabric = &snapshot.fabric;
        let mut hosts = Vec::new();
        let mut places = Vec::new();
        for (at, port) in fabric.end_ports() {
            let node = fabric.node(at.node);
            if node.is_switch() || port.guid == snapshot.own_guid {
                continue;
            }
            hosts.push(End::new(&mut sim, (node.guid, at.port), None));
            places.push((port.guid, port.lid()));
        }
        Hosts {
            lid: sim
                .port_info(place.0, place.1)
                .expect("the port exists")
                .lid(),
            now: sim.now(),
            sim,
            sa,
            server,
            faults,
            unfinished: VecDeque::new(),
            hosts,
            places,
            groups: Arc::default(),
        }
    }

    /// The members of multicast groups that the SA last passed to a core for planning.
    #[must_use]
    pub fn groups(&self) -> &Arc<GroupSet> {
        &self.groups
    }

    /// The GUID and the LID of each host's port, by the index of the host.
    #[must_use]
    pub fn places(&self) -> &[(Guid, Lid)] {
        &self.places
    }

    /// The current virtual time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// The state of the SA's transactions.
    #[must_use]
    pub fn stats(&self) -> RmppStats {
        self.server.messenger.stats()
    }

    /// The counts of injected faults.
    #[must_use]
    pub fn faults(&self) -> FaultCounts {
        self.faults.counts()
    }

    /// Makes a host ignore all further packets.
    pub fn deafen(&mut self, host: usize) {
        self.hosts[host].ignores_packets = true;
    }

    /// Sends a request of a host; [`Hosts::next`] returns the answer.
    ///
    /// # Panics
    ///
    /// The host has no room for another request.
    pub fn ask<R: Record>(
        &mut self,
        host: usize,
        method: Method,
        mask: ComponentMask,
        record: &R,
    ) -> Tid {
        let end = &mut self.hosts[host];
        end.requests += 1;
        let tid = Tid(end.requests);
        let mut header = SaHeader::request::<R>(method, tid);
        header.set_component_mask(mask);
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend_from_slice(record.as_bytes());
        let remote = RemoteAddress::gsi(self.lid, 0);
        let sent = end
            .messenger
            .send(Message { bytes, remote }, ANSWER_TIMEOUT, self.now);
        sent.expect("the messenger has room for the request");
        tid
    }

    /// Sends a datagram from a host to the SA, without the host's messenger.
    pub fn send(&mut self, host: usize, mad: &MadBytes) {
        let remote = RemoteAddress::gsi(self.lid, 0);
        let datagram = Datagram { mad: *mad, remote };
        self.sim.send(self.hosts[host].client, &datagram, self.now);
    }

    /// Runs until a delivery reaches a host, and returns both; `None` if the time `until` comes
    /// first.
    ///
    /// # Panics
    ///
    /// The run is stuck.
    pub fn next(&mut self, until: Time) -> Option<(usize, Delivery)> {
        let mut idle = 0;
        loop {
            for (index, host) in self.hosts.iter_mut().enumerate() {
                if let Some(delivery) = host.messenger.poll() {
                    return Some((index, delivery));
                }
            }
            let before = self.now;
            if !self.step(until) {
                return None;
            }
            idle = if self.now > before { 0 } else { idle + 1 };
            assert!(idle < IDLE_STEPS, "the run is stuck at {before:?}");
        }
    }

    /// Advances the time by `duration`, and passes deliveries to hosts to `each`.
    pub fn run_for(&mut self, duration: Duration, mut each: impl FnMut(usize, Delivery)) {
        let until = self.now + duration;
        while let Some((host, delivery)) = self.next(until) {
            each(host, delivery);
        }
    }

    /// Does the work that is due, or advances the time. Returns whether `until` is still in the
    /// future.
    fn step(&mut self, until: Time) -> bool {
        let mut more = self.serve();
        for host in &mut self.hosts {
            host.messenger.handle_deadline(self.now);
            more |= host.transmit(&mut self.sim, self.now);
        }
        let ends = self.hosts.iter().chain([&self.server]);
        let deadlines = ends.filter_map(|end| end.messenger.next_deadline());
        let next = deadlines
            .chain(self.sa.next_deadline())
            .chain(self.sim.next_event())
            .min();
        let limit = match next {
            _ if more => self.now,
            Some(next) => next.clamp(self.now, until),
            None => until,
        };
        match self.sim.poll(limit) {
            Some((client, Inbound::Mad(datagram))) => {
                self.now = self.sim.now().max(self.now);
                let mut ends = self.hosts.iter_mut().chain([&mut self.server]);
                if let Some(end) = ends.find(|end| end.client == client) {
                    end.receive(datagram, self.now);
                }
                true
            }
            Some(_) => true,
            None => {
                let is_over = !more && limit >= until && next.is_none_or(|next| next > until);
                self.now = limit;
                !is_over
            }
        }
    }

    /// Lets the SA do one unit of work. Returns whether more work is due immediately.
    fn serve(&mut self) -> bool {
        let now = self.now;
        self.sa.handle_deadline(now);
        self.server.messenger.handle_deadline(now);
        // No core plans for groups here, and no store keeps registrations.
        if let Some(groups) = self.sa.poll_groups(now) {
            self.groups = groups;
        }
        let _ = self.sa.poll_save(now);
        while let Some(delivery) = self.server.messenger.poll() {
            let Delivery::Message(message) = delivery else {
                continue;
            };
            let request = SaRequest {
                bytes: &message.bytes,
                requester: message.remote,
            };
            let answer = self.sa.handle(request, now);
            self.unfinished.extend(answer);
        }
        for _ in 0..self.unfinished.len().min(MAX_DATAGRAMS) {
            let Some(mut answer) = self.unfinished.pop_front() else {
                break;
            };
            if self.sa.continue_search(&mut answer) {
                self.send_answer(answer);
            } else {
                self.unfinished.push_back(answer);
            }
        }
        self.server.transmit(&mut self.sim, now) || !self.unfinished.is_empty()
    }

    /// Sends an answer of the SA, or BUSY if the messenger has no room for the answer.
    fn send_answer(&mut self, answer: SaAnswer) {
        let (header, remote) = (*answer.header(), answer.remote);
        let messenger = &mut self.server.messenger;
        match messenger.send(outgoing(answer, Arc::default()), Duration::ZERO, self.now) {
            Ok(()) | Err(NotSent::Refused(Refused::UnderWay)) => {}
            Err(NotSent::Refused(_)) => {
                let mut header = header;
                *header.rmpp_mut() = RmppHeader::default();
                header
                    .set_attribute_offset(0)
                    .mad_mut()
                    .set_status(Status::BUSY);
                let mut bytes = header.as_bytes().to_vec();
                bytes.resize(bytes.len() + SA_DATA_LEN, 0);
                let busy = messenger.send(Message { bytes, remote }, Duration::ZERO, self.now);
                busy.expect("the messenger has room for a datagram");
            }
            Err(NotSent::Transport(error)) => panic!("{error}"),
        }
    }
}
