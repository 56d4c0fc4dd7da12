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
const PATIENCE: Duration = Duration::from_secs(1);

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
                guid: sim.port_guid(node, port).expect("it is there"),
                lid: sim.port_info(node, port).expect("it is there").lid(),
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

    /// Sends a request of the host with the index `index`. The crowd repeats lost requests.
    pub fn send(&self, index: usize, mad: &SaMad) {
        let port = self.ports[index].sa();
        let _ = port.send(mad.as_bytes(), &self.server, PATIENCE);
    }
}

/// The result of a storm.
#[derive(Debug)]
pub struct Outcome {
    /// The time from the first request to the last answer.
    pub elapsed: Duration,
    /// The times from a host's first request to its answer with status OK, sorted: for joins, and
    /// for paths.
    pub took: [Vec<Duration>; 2],
    /// The number of requests, including repetitions.
    pub questions: u64,
    /// The number of answers with status BUSY.
    pub busy: u64,
    /// The number of requests without an answer within a second.
    pub late: u64,
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
            "storm: everybody has joined and has a path after {:.1} ms; {} questions, {} told BUSY, {} not answered in time",
            milliseconds(self.elapsed),
            self.questions,
            self.busy,
            self.late,
        )?;
        for (name, took) in ["join", "path"].into_iter().zip(&self.took) {
            let at = |share: f64| {
                let index = ((took.len() - 1) as f64 * share) as usize;
                milliseconds(took[index])
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
enum Wants {
    Group,
    Path,
    Nothing,
}

/// The progress of a host.
#[derive(Clone, Copy)]
struct Progress {
    wants: Wants,
    /// The pause after the next BUSY.
    pause: Duration,
    /// The number of requests so far, which identifies stale timeouts.
    asked: u64,
    /// The time of the first attempt of the current request.
    since: Instant,
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
    due: BinaryHeap<Reverse<(Instant, usize, u64)>>,
    took: [Vec<Duration>; 2],
    questions: u64,
    busy: u64,
    late: u64,
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
            due: BinaryHeap::new(),
            took: [Vec::new(), Vec::new()],
            questions: 0,
            busy: 0,
            late: 0,
        }
    }

    /// Waits until the SA answers the first host; the SA answers after its first snapshot.
    pub fn wait_until_it_answers(&mut self) {
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
            wants: Wants::Group,
            pause: PATIENCE,
            asked: 0,
            since: started,
        };
        self.progress = vec![first; self.hosts.len()];
        for index in 0..self.hosts.len() {
            self.ask(index);
        }
        let mut left = self.hosts.len();
        while left > 0 {
            let next = self.due.peek().map(|Reverse((at, ..))| *at);
            let wait = next.map_or(PATIENCE, |at| at.saturating_duration_since(now()));
            match self.answers.recv_timeout(wait) {
                Ok((lid, mad)) => left -= usize::from(self.take(by_lid[lid.index()], &mad)),
                Err(RecvTimeoutError::Timeout) => self.wake(),
                Err(RecvTimeoutError::Disconnected) => panic!("sa has ended"),
            }
        }
        for took in &mut self.took {
            took.sort_unstable();
        }
        Outcome {
            elapsed: started.elapsed(),
            took: self.took,
            questions: self.questions,
            busy: self.busy,
            late: self.late,
        }
    }

    /// Sends the next request of a host, and sets the time to repeat it.
    fn ask(&mut self, index: usize) {
        let host = self.hosts[index];
        let progress = &mut self.progress[index];
        progress.asked += 1;
        let (wants, asked) = (progress.wants, progress.asked);
        self.due.push(Reverse((now() + PATIENCE, index, asked)));
        self.questions += 1;
        let other = self.hosts[(index + self.hosts.len() / 2) % self.hosts.len()];
        match wants {
            Wants::Group => (self.send)(index, &join(&host)),
            Wants::Path => (self.send)(index, &path(&host, &other)),
            Wants::Nothing => {}
        }
    }

    /// Handles the hosts whose deadline has passed.
    fn wake(&mut self) {
        let now = now();
        while let Some(Reverse((at, index, asked))) = self.due.peek().copied() {
            if at > now {
                return;
            }
            self.due.pop();
            let progress = &self.progress[index];
            if progress.asked == asked && progress.wants != Wants::Nothing {
                self.late += 1;
                self.ask(index);
            } else if progress.asked + 1 == asked {
                // The pause after BUSY is over.
                self.ask(index);
            }
        }
    }

    /// Handles an answer. Returns whether it was the last answer of the host.
    fn take(&mut self, index: usize, mad: &MadBytes) -> bool {
        let status = MadHeader::of(mad).status();
        let attribute = MadHeader::of(mad).attribute();
        let progress = &mut self.progress[index];
        let wanted = match progress.wants {
            Wants::Group => McMemberRecord::ID,
            Wants::Path => PathRecord::ID,
            Wants::Nothing => return false,
        };
        if attribute != wanted {
            // This is a second answer, to a repeated request.
            return false;
        }
        if status == Status::BUSY {
            self.busy += 1;
            let pause = progress.pause;
            progress.pause = (pause * 2).min(LONGEST_PAUSE);
            // The timeout of that request is now stale.
            progress.asked += 1;
            let again = progress.asked + 1;
            self.due.push(Reverse((now() + pause, index, again)));
            return false;
        }
        assert_eq!(status, Status::OK, "{:?}", MadHeader::of(mad));
        let took = now() - progress.since;
        progress.since = now();
        progress.pause = PATIENCE;
        match progress.wants {
            Wants::Group => {
                self.took[0].push(took);
                progress.wants = Wants::Path;
                self.ask(index);
                false
            }
            _ => {
                self.took[1].push(took);
                progress.wants = Wants::Nothing;
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
