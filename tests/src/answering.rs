//! A simulated fabric in real time, with the SA at the manager's port and hosts that query the SA.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rsm::daemon::sa::{AckJournal, SaConnections, SaHandle, SaSetup, TimeSource};
use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::client::rmpp::RmppConfig;
use rsm_mad::ids::Tid;
use rsm_mad::messenger::{Delivery, Left, Messenger};
use rsm_mad::transport::{
    Inbound, Message, PortEvent, RemoteAddress, SaInbound, SaPort, SaSink, Sinks,
};
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::{ComponentMask, Record, SA_DATA_LEN, SaHeader};
use rsm_sim::live::{self, SimHandle, SimTransport};
use rsm_state::Snapshot;

use crate::clock::wait_for;
use crate::virtual_time::{Settings, World};

/// The maximum time to wait for an answer, far above the time that the SA needs.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// A clock that starts now at zero.
#[expect(
    clippy::disallowed_methods,
    reason = "the simulation runs in real time"
)]
fn clock() -> TimeSource {
    let started = Instant::now();
    Arc::new(move || Time::ZERO + started.elapsed())
}

/// A fabric that was brought up in virtual time and continues in real time.
pub struct AnsweringFabric {
    /// The handle to the simulated fabric.
    pub handle: SimHandle,
    /// The manager's last published snapshot.
    pub snapshot: Arc<Snapshot>,
    /// The SA, which has no snapshot before [`SaHandle::publish`].
    pub sa_handle: SaHandle,
    /// The LID of the SA.
    lid: Lid,
    /// Keeps the SA attached to its port.
    _transport: SimTransport,
}

impl AnsweringFabric {
    /// Brings up the fabric of the generator's specification `spec`. The SA trusts requesters with
    /// the SM_Key `sm_key`.
    ///
    /// # Panics
    ///
    /// The specification is invalid, or the subnet does not come up.
    #[must_use]
    pub fn brought_up(spec: &str, sm_key: u64) -> AnsweringFabric {
        AnsweringFabric::journaled(spec, sm_key, None)
    }

    /// Brings up a fabric like [`AnsweringFabric::brought_up`], with an SA that writes to `journal`
    /// before it answers.
    ///
    /// # Panics
    ///
    /// Panics as [`AnsweringFabric::brought_up`] does.
    #[must_use]
    pub fn journaled(
        spec: &str,
        sm_key: u64,
        journal: Option<Arc<dyn AckJournal>>,
    ) -> AnsweringFabric {
        let world = World::brought_up(spec, Settings::default());
        let manager = world.manager();
        let snapshot = manager.snapshot().expect("the subnet is up").clone();
        let (node, port) = manager.local(&world.sim).expect("the manager has a port");
        let mut sim = world.sim.clone();
        sim.detach(manager.attachment());
        let lid = sim.port_info(node, port).expect("the port exists").lid();
        let handle = live::spawn(sim).expect("the simulation thread starts");
        let sa_setup = SaSetup::new(clock());
        let sinks = Sinks {
            others: Box::new(|_| ()),
            sa: Some(sa_setup.sink()),
            performance: None,
        };
        let transport = handle.attach(node, port, sinks).expect("the port is free");
        let config = rsm_sa::SaConfig {
            sm_key,
            ..rsm_sa::SaConfig::default()
        };
        let sa_handle = sa_setup
            .start(
                config,
                Arc::new(transport.sa()),
                SaConnections {
                    saved: rsm_sa::SavedSaState::default(),
                    core: Box::new(|_| true),
                    save: Box::new(|_| ()),
                    findings: Box::new(|_| ()),
                    journal,
                },
            )
            .expect("the threads of the SA start");
        AnsweringFabric {
            handle,
            snapshot,
            sa_handle,
            lid,
            _transport: transport,
        }
    }

    /// Brings up a fabric like [`AnsweringFabric::brought_up`], and lets the SA answer.
    ///
    /// # Panics
    ///
    /// Panics as [`AnsweringFabric::brought_up`] does; also if the SA never answers.
    #[must_use]
    pub fn answering(spec: &str, sm_key: u64) -> AnsweringFabric {
        AnsweringFabric::brought_up(spec, sm_key).serving()
    }

    /// Publishes the snapshot, and waits until the SA answers.
    ///
    /// # Panics
    ///
    /// The SA never answers.
    #[must_use]
    pub fn serving(self) -> AnsweringFabric {
        let answering = self;
        let snapshot = Arc::clone(&answering.snapshot);
        answering.sa_handle.publish(snapshot);
        let sa_handle = &answering.sa_handle;
        wait_for(ANSWER_LIMIT, || sa_handle.is_serving().then_some(()))
            .expect("the SA answers from the snapshot");
        answering
    }

    /// Attaches a host at an end port.
    ///
    /// # Panics
    ///
    /// The port does not exist, or is taken.
    #[must_use]
    pub fn host(&self, node: Guid, port: PortNum) -> Host {
        Host::at(&self.handle, (node, port), self.lid)
    }
}

/// An answer of the SA to a request.
#[derive(Debug)]
pub struct Answer(Message);

impl Answer {
    fn header(&self) -> &SaHeader {
        let (header, _) = SaHeader::split(&self.0.bytes).expect("an answer has a header");
        header
    }

    /// The status of the answer (IBA 15.2.3).
    #[must_use]
    pub fn status(&self) -> Status {
        self.header().mad().status()
    }

    /// The records of an answer to a GetTable.
    ///
    /// # Panics
    ///
    /// The length of the data is not a multiple of the length of `R`.
    #[must_use]
    pub fn records<R: Record>(&self) -> Vec<R> {
        if self.0.data().is_empty() {
            return Vec::new();
        }
        assert_eq!(self.header().attribute_offset(), R::WORDS);
        let (records, rest) = (self.0.data().chunks_exact(R::LEN), self.0.data().len());
        assert_eq!(rest % R::LEN, 0, "{} bytes of records", rest);
        records
            .map(|bytes| *R::from_prefix(bytes).expect("the chunk has the length of a record"))
            .collect()
    }

    /// The only record of the answer.
    ///
    /// # Panics
    ///
    /// The answer has no record, or more than one.
    #[must_use]
    pub fn record<R: Record>(&self) -> R {
        assert_eq!(self.status(), Status::OK);
        *R::from_prefix(self.0.data()).expect("the answer has a record")
    }
}

/// A program at a port that queries the SA.
pub struct Host {
    messenger: Messenger,
    inbox: Receiver<SaInbound>,
    clock: TimeSource,
    /// The address of the SA.
    server: RemoteAddress,
    /// The transaction identifier of the last request.
    tid: u64,
    reregistrations: Arc<AtomicU32>,
    /// Keeps the program attached to its port.
    _transport: SimTransport,
}

impl Host {
    /// Attaches a program at an end port; the program queries the SA at the LID `server`.
    ///
    /// # Panics
    ///
    /// The port does not exist, or is taken.
    #[must_use]
    pub fn at(sim: &SimHandle, (node, port): (Guid, PortNum), server: Lid) -> Host {
        let (sender, inbox) = channel();
        let sink: SaSink = Box::new(move |inbound| {
            // After the host is dropped, there is no receiver.
            let _ = sender.send(inbound);
        });
        let reregistrations = Arc::new(AtomicU32::new(0));
        let sinks = Sinks {
            others: Box::new({
                let reregistrations = reregistrations.clone();
                move |inbound| {
                    if inbound == Inbound::Port(PortEvent::ClientReregister) {
                        reregistrations.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }),
            sa: Some(sink),
            performance: None,
        };
        let transport = sim.attach(node, port, sinks);
        let transport = transport.expect("the port is free");
        let config = RmppConfig {
            // A host accepts answers of any size up to 256 MiB.
            max_received: 256 << 20,
            ..RmppConfig::default()
        };
        let port: Arc<dyn SaPort> = Arc::new(transport.sa());
        Host {
            messenger: Messenger::new(port, config),
            inbox,
            clock: clock(),
            server: RemoteAddress::gsi(server, 0),
            tid: 0,
            reregistrations,
            _transport: transport,
        }
    }

    /// The number of requests for client reregistration that have arrived so far.
    #[must_use]
    pub fn reregistrations(&self) -> u32 {
        self.reregistrations.load(Ordering::Relaxed)
    }

    /// Confirms a report with ReportResp.
    ///
    /// # Panics
    ///
    /// `report` is not a report, or the messenger refuses the answer.
    pub fn confirm(&mut self, report: &Answer) {
        let mut header = *report.header();
        assert_eq!(header.mad().method(), Method::REPORT);
        header.mad_mut().set_method(Method::REPORT_RESPONSE);
        let bytes = [header.as_bytes(), report.0.data()].concat();
        let message = Message {
            bytes,
            remote: report.0.remote,
        };
        let now = (self.clock)();
        let sent = self.messenger.send(message, Duration::ZERO, now);
        sent.expect("the messenger accepts the answer");
        self.transmit();
    }

    /// The next report; `None` if no report arrives within `patience`.
    pub fn report(&mut self, patience: Duration) -> Option<Answer> {
        let until = (self.clock)() + patience;
        loop {
            let now = (self.clock)();
            self.messenger.handle_deadline(now);
            self.transmit();
            if let Some(Delivery::Message(message)) = self.messenger.poll() {
                let report = Answer(message);
                if report.header().mad().method() == Method::REPORT {
                    return Some(report);
                }
                continue;
            }
            if now >= until {
                return None;
            }
            if let Ok(inbound) = self.inbox.recv_timeout(until.since(now)) {
                let now = (self.clock)();
                self.messenger.handle(inbound, now);
            }
        }
    }

    /// Sends all further requests to the LID `server`.
    pub fn ask_lid(&mut self, server: Lid) {
        self.server = RemoteAddress::gsi(server, 0);
    }

    /// Sends a request without waiting for the answer.
    ///
    /// # Panics
    ///
    /// The messenger refuses the request.
    pub fn send<R: Record>(&mut self, method: Method, mask: ComponentMask, template: &R) {
        self.send_for(ANSWER_LIMIT, (method, mask, 0), template);
    }

    /// Sends a request that counts as unanswered after `patience`.
    fn send_for<R: Record>(
        &mut self,
        patience: Duration,
        (method, mask, sm_key): (Method, ComponentMask, u64),
        template: &R,
    ) {
        self.tid += 1;
        let mut header = SaHeader::request::<R>(method, Tid(self.tid));
        header.set_component_mask(mask).set_sm_key(sm_key);
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend_from_slice(template.as_bytes());
        debug_assert!(template.as_bytes().len() <= SA_DATA_LEN);
        let message = Message {
            bytes,
            remote: self.server,
        };
        let now = (self.clock)();
        let sent = self.messenger.send(message, patience, now);
        sent.expect("the messenger accepts the request");
        self.transmit();
    }

    /// Sends a request, and waits for the answer.
    ///
    /// # Panics
    ///
    /// No answer comes.
    pub fn ask<R: Record>(&mut self, method: Method, mask: ComponentMask, template: &R) -> Answer {
        self.send(method, mask, template);
        self.answer()
    }

    /// Waits for the answer to the last request.
    ///
    /// # Panics
    ///
    /// No answer comes.
    pub fn answer(&mut self) -> Answer {
        self.answer_or_none().expect("the SA answers in time")
    }

    /// Sends a request with `sm_key` (0 for untrusted requesters), and returns the answer; `None`
    /// if no answer arrives within `patience`.
    ///
    /// # Panics
    ///
    /// The request cannot be sent.
    pub fn try_ask<R: Record>(
        &mut self,
        patience: Duration,
        (method, mask, sm_key): (Method, ComponentMask, u64),
        template: &R,
    ) -> Option<Answer> {
        self.send_for(patience, (method, mask, sm_key), template);
        self.answer_or_none()
    }

    /// Waits for the answer to the last request; `None` if the request counts as unanswered.
    fn answer_or_none(&mut self) -> Option<Answer> {
        loop {
            let now = (self.clock)();
            self.messenger.handle_deadline(now);
            let left = self.transmit();
            match self.messenger.poll() {
                Some(Delivery::Message(message)) => return Some(Answer(message)),
                Some(Delivery::Unanswered { .. }) => return None,
                Some(other) => panic!("{other:?} in place of an answer"),
                None => {}
            }
            let deadline = self.messenger.next_deadline();
            let wait = match left {
                Left::More => Duration::ZERO,
                Left::Nothing | Left::Blocked => deadline.map_or(ANSWER_LIMIT, |at| at.since(now)),
            };
            if let Ok(inbound) = self.inbox.recv_timeout(wait) {
                let now = (self.clock)();
                self.messenger.handle(inbound, now);
            }
        }
    }

    /// Waits for the first packet of an answer, and handles it without sending anything.
    /// [`Host::answer`] sends the acknowledgement, and receives the remaining packets.
    ///
    /// # Panics
    ///
    /// No packet comes.
    pub fn first_packet(&mut self) {
        let inbound = self.inbox.recv_timeout(ANSWER_LIMIT);
        let now = (self.clock)();
        self.messenger
            .handle(inbound.expect("a packet arrives"), now);
    }

    /// Sends all datagrams that the messenger has ready.
    fn transmit(&mut self) -> Left {
        let now = (self.clock)();
        self.messenger
            .transmit(usize::MAX, now)
            .expect("the simulation runs")
    }
}
