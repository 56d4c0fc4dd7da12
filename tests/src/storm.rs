//! A boot storm: all hosts start at once; each host joins the broadcast group of IP over
//! InfiniBand, and then requests a path.
//!
//! A host that gets BUSY, or no answer for a second, repeats the request after one second, then
//! after two, four, and up to sixteen seconds, as IP over InfiniBand does.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::ids::{Gid, Tid};
use rsm_mad::transport::{RemoteAddress, SaInbound, SaPort as _, Sinks};
use rsm_mad::wire::MadBytes;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::header::{MadHeader, Method, Status};
use rsm_mad::wire::sa::{ComponentMask, JoinState, McMemberRecord, PathRecord, Record as _, SaMad};
use rsm_sim::live::{LiveError, SimHandle, SimTransport};

use crate::clock::now;
use crate::managed::Managed;
use crate::measure::milliseconds;

/// The broadcast group of the default partition: ff12:401b:ffff::ffff:ffff.
const BROADCAST: Gid = Gid(0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF);

/// The LID of the broadcast group: the first LID that rsm assigns to a group.
pub const BROADCAST_LID: Lid = Lid(0xC000);

/// The default subnet prefix.
const PREFIX: u64 = 0xFE80_0000_0000_0000;

/// The time for which a host waits for an answer; also the first pause after BUSY.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The limit of the doubling pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

/// A host, identified by its port.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// The node.
    pub node: Guid,
    /// The port of the host.
    pub port: PortNum,
    /// The port's GUID.
    pub guid: Guid,
    /// The port's LID.
    pub lid: Lid,
}

impl Host {
    /// All hosts of a fabric except the manager's, sorted by GUID, with the LIDs that rsm has
    /// assigned.
    ///
    /// # Errors
    ///
    /// The simulation has stopped.
    pub fn all_of(fabric: &Managed) -> Result<Vec<Host>, LiveError> {
        let at: Vec<(Guid, PortNum)> = fabric.hosts[1..].to_vec();
        fabric.fabric.sim.with(move |sim| {
            let host = |&(node, port): &(Guid, PortNum)| Host {
                node,
                port,
                guid: sim.port_guid(node, port).expect("the port exists"),
                lid: sim.port_info(node, port).expect("the port exists").lid(),
            };
            at.iter().map(host).collect()
        })
    }
}

/// The ports of hosts on a simulated fabric in real time.
pub struct Ports {
    ports: Vec<SimTransport>,
    server: RemoteAddress,
}

impl Ports {
    /// Attaches to the port of each host, and sends requests to the SA at the LID `server`. Also
    /// returns the channel on which the answers arrive.
    ///
    /// # Errors
    ///
    /// A port is taken, or the simulation has stopped.
    pub fn attach(
        sim: &SimHandle,
        hosts: &[Host],
        server: Lid,
    ) -> Result<(Ports, Receiver<(Lid, MadBytes)>), LiveError> {
        let (sender, answers) = channel();
        let attach = |host: &Host| {
            let (lid, sender) = (host.lid, sender.clone());
            let sinks = Sinks {
                others: Box::new(|_| ()),
                sa: Some(Box::new(move |inbound| {
                    if let SaInbound::Datagram(datagram) = inbound {
                        // After the storm there is no receiver.
                        let _ = sender.send((lid, datagram.mad));
                    }
                })),
                performance: None,
            };
            sim.attach(host.node, host.port, sinks)
        };
        let ports = Ports {
            ports: hosts.iter().map(attach).collect::<Result<_, _>>()?,
            server: RemoteAddress::gsi(server, 0),
        };
        Ok((ports, answers))
    }

    /// Sends a request of the host with the index `index`, without reporting failure: [`Crowd`]
    /// repeats lost requests.
    pub fn send(&self, index: usize, mad: &SaMad) {
        let port = self.ports[index].sa();
        let _ = port.send(mad.as_bytes(), &self.server, ANSWER_TIMEOUT);
    }
}

/// The result of a storm.
#[derive(Debug)]
pub struct Outcome {
    /// The time from the first request to the last answer.
    pub elapsed: Duration,
    /// The times from a host's first request to its answer with status OK, sorted: for joins, and
    /// for paths.
    pub latencies: [Vec<Duration>; 2],
    /// The number of requests, including repetitions.
    pub requests: u64,
    /// The number of answers with status BUSY.
    pub busy: u64,
    /// The number of requests without an answer within a second.
    pub unanswered: u64,
}

impl Outcome {
    /// Writes the outcome in words.
    ///
    /// # Errors
    ///
    /// The errors of `out`.
    pub fn report(&self, out: &mut impl Write) -> std::io::Result<()> {
        writeln!(
            out,
            "storm: all hosts have joined and have a path after {:.1} ms; \
             {} requests, {} answered BUSY, {} unanswered in time",
            milliseconds(self.elapsed),
            self.requests,
            self.busy,
            self.unanswered,
        )?;
        for (name, latencies) in ["join", "path"].into_iter().zip(&self.latencies) {
            let at = |share: f64| {
                let index = ((latencies.len() - 1) as f64 * share) as usize;
                milliseconds(latencies[index])
            };
            writeln!(
                out,
                "  {name}: half after {:.1} ms, 99 % after {:.1} ms, the last after {:.1} ms",
                at(0.5),
                at(0.99),
                at(1.0)
            )?;
        }
        Ok(())
    }
}

/// The next request of a host.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NextRequest {
    Group,
    Path,
    Nothing,
}

/// The progress of a host.
#[derive(Clone, Copy)]
struct Progress {
    next: NextRequest,
    /// The pause after the next BUSY.
    pause: Duration,
    /// The number of requests so far, which identifies stale timeouts.
    request_number: u64,
    /// The time of the first attempt of the current request.
    first_attempt: Instant,
}

/// All hosts, and their connection to the SA.
pub struct Crowd<'a, S> {
    hosts: &'a [Host],
    /// Sends a request of the host with the given index.
    send: S,
    /// The answers, each with the LID to which it goes.
    answers: Receiver<(Lid, MadBytes)>,
    progress: Vec<Progress>,
    /// The deadlines at which hosts repeat a request or time out, each with the host's index and
    /// the number of its request.
    deadlines: BinaryHeap<Reverse<(Instant, usize, u64)>>,
    latencies: [Vec<Duration>; 2],
    requests: u64,
    busy: u64,
    unanswered: u64,
}

impl<'a, S: FnMut(usize, &SaMad)> Crowd<'a, S> {
    /// Creates a crowd of hosts. `send` receives their requests with the index of the host, and
    /// `answers` provides the answers.
    pub fn new(hosts: &'a [Host], send: S, answers: Receiver<(Lid, MadBytes)>) -> Self {
        Crowd {
            hosts,
            send,
            answers,
            progress: Vec::new(),
            deadlines: BinaryHeap::new(),
            latencies: [Vec::new(), Vec::new()],
            requests: 0,
            busy: 0,
            unanswered: 0,
        }
    }

    /// Waits until the SA answers the first host; the SA answers after its first snapshot.
    pub fn wait_until_answered(&mut self) {
        let own = self.hosts[0];
        loop {
            (self.send)(0, &path(&own, &own));
            let answer = self.answers.recv_timeout(Duration::from_millis(10));
            if answer.is_ok_and(|(_, mad)| MadHeader::of(&mad).status() == Status::OK) {
                return;
            }
        }
    }

    /// Lets all hosts send their requests at once; returns after each host has joined and has a
    /// path.
    ///
    /// # Panics
    ///
    /// An answer has a status other than OK and BUSY, or the channel of answers has ended.
    #[must_use]
    pub fn run(mut self) -> Outcome {
        let started = now();
        let mut by_lid = vec![usize::MAX; 1 << 16];
        for (index, host) in self.hosts.iter().enumerate() {
            by_lid[host.lid.index()] = index;
        }
        let first = Progress {
            next: NextRequest::Group,
            pause: ANSWER_TIMEOUT,
            request_number: 0,
            first_attempt: started,
        };
        self.progress = vec![first; self.hosts.len()];
        for index in 0..self.hosts.len() {
            self.ask(index);
        }
        let mut left = self.hosts.len();
        while left > 0 {
            let next = self.deadlines.peek().map(|Reverse((at, ..))| *at);
            let wait = next.map_or(ANSWER_TIMEOUT, |at| at.saturating_duration_since(now()));
            match self.answers.recv_timeout(wait) {
                Ok((lid, mad)) => {
                    left -= usize::from(self.handle_answer(by_lid[lid.index()], &mad))
                }
                Err(RecvTimeoutError::Timeout) => self.wake(),
                Err(RecvTimeoutError::Disconnected) => panic!("the channel of answers has ended"),
            }
        }
        for latencies in &mut self.latencies {
            latencies.sort_unstable();
        }
        Outcome {
            elapsed: started.elapsed(),
            latencies: self.latencies,
            requests: self.requests,
            busy: self.busy,
            unanswered: self.unanswered,
        }
    }

    /// Sends the next request of a host, and sets the time to repeat it.
    fn ask(&mut self, index: usize) {
        let host = self.hosts[index];
        let progress = &mut self.progress[index];
        progress.request_number += 1;
        let (next, request_number) = (progress.next, progress.request_number);
        self.deadlines
            .push(Reverse((now() + ANSWER_TIMEOUT, index, request_number)));
        self.requests += 1;
        let other = self.hosts[(index + self.hosts.len() / 2) % self.hosts.len()];
        match next {
            NextRequest::Group => (self.send)(index, &join(&host)),
            NextRequest::Path => (self.send)(index, &path(&host, &other)),
            NextRequest::Nothing => {}
        }
    }

    /// Handles the hosts whose deadline has passed.
    fn wake(&mut self) {
        let now = now();
        while let Some(Reverse((at, index, request_number))) = self.deadlines.peek().copied() {
            if at > now {
                return;
            }
            self.deadlines.pop();
            let progress = &self.progress[index];
            if progress.request_number == request_number && progress.next != NextRequest::Nothing {
                self.unanswered += 1;
                self.ask(index);
            } else if progress.request_number + 1 == request_number {
                // The pause after BUSY is over.
                self.ask(index);
            }
        }
    }

    /// Handles an answer. Returns whether it was the last answer of the host.
    fn handle_answer(&mut self, index: usize, mad: &MadBytes) -> bool {
        let status = MadHeader::of(mad).status();
        let attribute = MadHeader::of(mad).attribute();
        let progress = &mut self.progress[index];
        let wanted = match progress.next {
            NextRequest::Group => McMemberRecord::ID,
            NextRequest::Path => PathRecord::ID,
            NextRequest::Nothing => return false,
        };
        if attribute != wanted {
            // This is a second answer, to a repeated request.
            return false;
        }
        if status == Status::BUSY {
            self.busy += 1;
            let pause = progress.pause;
            progress.pause = (pause * 2).min(LONGEST_PAUSE);
            // The new number makes the timeout of the answered request stale.
            progress.request_number += 1;
            let again = progress.request_number + 1;
            self.deadlines.push(Reverse((now() + pause, index, again)));
            return false;
        }
        assert_eq!(status, Status::OK, "{:?}", MadHeader::of(mad));
        let latency = now() - progress.first_attempt;
        progress.first_attempt = now();
        progress.pause = ANSWER_TIMEOUT;
        match progress.next {
            NextRequest::Group => {
                self.latencies[0].push(latency);
                progress.next = NextRequest::Path;
                self.ask(index);
                false
            }
            _ => {
                self.latencies[1].push(latency);
                progress.next = NextRequest::Nothing;
                true
            }
        }
    }
}

/// The record with which a host joins and leaves the broadcast group, with its component mask.
#[must_use]
pub fn membership(host: &Host) -> (ComponentMask, McMemberRecord) {
    let mut record = McMemberRecord::default();
    record
        .set_mgid(BROADCAST)
        .set_port_gid(Gid::new(PREFIX, host.guid))
        .set_p_key(PKey::DEFAULT_FULL)
        .set_join_state(JoinState::FULL_MEMBER);
    let mask = McMemberRecord::MGID
        | McMemberRecord::PORT_GID
        | McMemberRecord::P_KEY
        | McMemberRecord::JOIN_STATE;
    (mask, record)
}

/// The request with which a host joins the broadcast group.
fn join(host: &Host) -> SaMad {
    let (mask, record) = membership(host);
    SaMad::request(Method::SET, Tid(1), mask, &record)
}

/// The request for a path between two hosts.
fn path(from: &Host, to: &Host) -> SaMad {
    let mut record = PathRecord::default();
    record
        .set_sgid(Gid::new(PREFIX, from.guid))
        .set_dgid(Gid::new(PREFIX, to.guid))
        .set_p_key(PKey::DEFAULT_FULL)
        .set_numb_path(1);
    let mask = PathRecord::SGID | PathRecord::DGID | PathRecord::P_KEY | PathRecord::NUMB_PATH;
    SaMad::request(Method::GET, Tid(2), mask, &record)
}
