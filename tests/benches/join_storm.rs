//! All hosts start at once: each joins the broadcast group of IP over InfiniBand, and then asks for
//! a path.
//!
//! `cargo bench -p rsm-tests --bench join_storm [-- --spec SPEC]`; by default 45,056 hosts.
//!
//! The subnet comes up in virtual time. The SA then answers hosts in real time, on its own threads
//! behind its own gate, over a queue: all first requests come within milliseconds. A host that gets
//! BUSY, or no answer for a second, asks again after a second, then two, four, up to sixteen, as IP
//! over InfiniBand does. The SA's membership changes go to the core in virtual time, at their times
//! since the first request, to count SMPs and to measure the time until the switches hold all
//! masks.

mod options;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rsm::core::Event;
use rsm::daemon::sa::{SaSetup, Surroundings, TimeSource};
use rsm::plan::groups::GroupSet;
use rsm::sa;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::ids::{Gid, Tid};
use rsm_mad::transport::{
    Datagram, LocalPort, RemoteAddress, SaInbound, SaPort, SaSink, SendError,
};
use rsm_mad::wire::MadBytes;
use rsm_mad::wire::attr::{NodeType, PKey, PortState};
use rsm_mad::wire::header::{AttrId, MadHeader, Method, Status};
use rsm_mad::wire::sa::{JoinState, McMemberRecord, PathRecord, Record as _, SaMad};
use rsm_tests::clock::wait_for;
use rsm_tests::measure::milliseconds;
use rsm_tests::virtual_time::{Settings, World};

use options::Options;

/// 45,056 hosts.
const DEFAULT_SPEC: &str = "pgft:3;32,32,44;1,32,16;1,1,2";

/// The broadcast group of the default partition: ff12:401b:ffff::ffff:ffff.
const BROADCAST: Gid = Gid(0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF);
const BROADCAST_LID: Lid = Lid(0xC000);

const PREFIX: u64 = 0xFE80_0000_0000_0000;

/// How long a host waits for an answer, and the first pause after BUSY.
const PATIENCE: Duration = Duration::from_secs(1);

/// The limit of the doubling pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

/// Longer than it takes to bring the subnet up, and to write multicast tables.
const LIMIT: Duration = Duration::from_secs(600);

/// How long a plan takes in virtual time, about the real time for so large a subnet: changes
/// meanwhile wait for the next plan.
const PLANNING: Duration = Duration::from_millis(500);

/// How many members send a packet to all.
const SENDERS: usize = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::from_arguments(1)?;
    let spec = options.spec(DEFAULT_SPEC);
    let mut out = std::io::stdout();
    for _ in 0..options.rounds() {
        let started = now();
        let settings = Settings {
            planning_time: PLANNING,
            ..Settings::default()
        };
        let mut world = World::generated(spec, settings);
        world.settle(LIMIT);
        let up = started.elapsed();
        let hosts = hosts(&world);
        writeln!(
            out,
            "{spec}: {} hosts up, which took {:.1} s to simulate",
            hosts.len(),
            up.as_secs_f64()
        )?;
        let storm = Storm::run(&world, &hosts)?;
        storm.report(&mut out)?;
        let (smps, settled) = spread(&mut world, &storm.told);
        writeln!(
            out,
            "core: told {} times, {smps} multicast blocks written, all of it {:.1} ms after the first join",
            storm.told.len(),
            milliseconds(settled)
        )?;
        assert_delivered(&world, &hosts);
        writeln!(out, "a packet of {SENDERS} members reaches all others")?;
    }
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a bench is where the clock is read"
)]
fn now() -> Instant {
    Instant::now()
}

/// A host, by its port.
#[derive(Clone, Copy)]
struct Host {
    node: Guid,
    port: PortNum,
    guid: Guid,
    lid: Lid,
}

fn hosts(world: &World) -> Vec<Host> {
    let snapshot = world.manager().snapshot().expect("it is up");
    let fabric = &snapshot.fabric;
    let ends = fabric.end_ports();
    ends.filter(|(at, _)| fabric.node(at.node).kind() == NodeType::Ca)
        .map(|(at, port)| Host {
            node: fabric.node(at.node).guid,
            port: at.port,
            guid: port.guid,
            lid: port.lid(),
        })
        .collect()
}

/// The SA's port: sends to the hosts.
struct Wire(Sender<(Lid, MadBytes)>);

impl SaPort for Wire {
    fn does_rmpp(&self) -> bool {
        false
    }

    fn send(&self, bytes: &[u8], remote: &RemoteAddress, _: Duration) -> Result<(), SendError> {
        let mad = bytes.try_into().map_err(|_| SendError::Closed)?;
        self.0
            .send((remote.lid, mad))
            .map_err(|_| SendError::Closed)
    }

    fn local_port(&self) -> LocalPort {
        LocalPort {
            ca: "storm".to_owned(),
            port: PortNum(1),
            node_guid: Guid::ZERO,
            port_guid: Guid::ZERO,
            lid: Lid(1),
            sm_lid: Lid(1),
            state: PortState::Active,
        }
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
    /// The number of requests, to recognize stale time-outs.
    asked: u64,
    /// The time of the first attempt of the present request.
    since: Instant,
}

/// The result of the storm.
struct Storm {
    elapsed: Duration,
    /// From the first request to the answer OK, sorted: joins and paths.
    took: [Vec<Duration>; 2],
    questions: u64,
    busy: u64,
    late: u64,
    counts: sa::SaCounters,
    /// Resident memory before, and at its highest, in bytes.
    memory: [u64; 2],
    /// The membership changes to the core, by the time since the first request.
    told: Vec<(Duration, Arc<GroupSet>)>,
}

impl Storm {
    fn run(world: &World, hosts: &[Host]) -> Result<Storm, Box<dyn std::error::Error>> {
        let snapshot = world.manager().snapshot().expect("it is up").clone();
        let origin = now();
        let clock: TimeSource = Arc::new(move || Time::ZERO + origin.elapsed());
        let sa_setup = SaSetup::new(clock);
        let sink = sa_setup.sink();
        let (sender, answers) = channel();
        let told = Arc::new(Mutex::new(Vec::new()));
        let core = {
            let told = Arc::clone(&told);
            Box::new(move |event: Event| {
                if let Event::Groups(groups) = event {
                    told.lock().push((now(), groups));
                }
                true
            })
        };
        let surroundings = Surroundings {
            remembered: sa::SavedSaState::default(),
            core,
            save: Box::new(|_| ()),
            journal: None,
        };
        let port: Arc<dyn SaPort> = Arc::new(Wire(sender));
        let sa_handle = sa_setup.start(
            sa::SaConfig {
                sm_key: 0,
                ..sa::SaConfig::default()
            },
            port,
            surroundings,
        )?;
        sa_handle.publish(snapshot);
        let mut crowd = Crowd {
            hosts,
            sink,
            answers,
            progress: Vec::new(),
            due: BinaryHeap::new(),
            took: [Vec::new(), Vec::new()],
            questions: 0,
            busy: 0,
            late: 0,
        };
        crowd.wait_until_it_answers();
        let before = sa_handle.statistics().counters();
        reset_peak();
        let resident = status("VmRSS:");
        let started = now();
        crowd.run(started);
        let elapsed = started.elapsed();
        let peak = status("VmHWM:");
        // The last membership change reaches the core a little later.
        let everybody = || {
            let told = told.lock();
            let last = told.last().map(|(_, groups)| groups);
            let members = last.and_then(|groups| groups.by_mlid.get(&BROADCAST_LID));
            members.is_some_and(|members| members.ports.len() == hosts.len())
        };
        let all = wait_for(LIMIT, || everybody().then_some(()));
        all.ok_or("the core is not told of everybody")?;
        let counts = sa_handle.statistics().counters();
        assert_eq!((counts.dropped, counts.failed), (0, 0));
        let answered = counts.latencies.count() - before.latencies.count();
        assert!(answered >= 2 * hosts.len() as u64);
        sa_handle.stop();
        let told = std::mem::take(&mut *told.lock());
        for took in &mut crowd.took {
            took.sort_unstable();
        }
        Ok(Storm {
            elapsed,
            took: crowd.took,
            questions: crowd.questions,
            busy: crowd.busy,
            late: crowd.late,
            counts,
            memory: [resident, peak],
            told: told
                .into_iter()
                .map(|(at, groups)| (at.saturating_duration_since(started), groups))
                .collect(),
        })
    }

    fn report(&self, out: &mut impl Write) -> std::io::Result<()> {
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
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let [before, peak] = self.memory;
        writeln!(
            out,
            "  answered within {} us of their arrival: 99 %; memory {:.1} MiB, at most {:.1} MiB more",
            self.counts.latencies.quantile(0.99).unwrap_or_default() / 1_000,
            mib(before),
            mib(peak.saturating_sub(before)),
        )
    }
}

/// All hosts.
struct Crowd<'a> {
    hosts: &'a [Host],
    sink: SaSink,
    answers: Receiver<(Lid, MadBytes)>,
    progress: Vec<Progress>,
    /// Deadlines of hosts to ask again or to time out; with the number of their request.
    due: BinaryHeap<Reverse<(Instant, usize, u64)>>,
    took: [Vec<Duration>; 2],
    questions: u64,
    busy: u64,
    late: u64,
}

impl Crowd<'_> {
    /// The first snapshot takes a moment.
    fn wait_until_it_answers(&mut self) {
        let own = self.hosts[0];
        loop {
            self.send(&own, &path(&own, &own));
            // The SA does not answer before the first snapshot.
            let answer = self.answers.recv_timeout(Duration::from_millis(10));
            if answer.is_ok_and(|(_, mad)| MadHeader::of(&mad).status() == Status::OK) {
                return;
            }
        }
    }

    fn send(&mut self, host: &Host, mad: &SaMad) {
        let remote = RemoteAddress::gsi(host.lid, 0);
        let mad = *mad.as_bytes();
        (self.sink)(SaInbound::Datagram(Datagram { mad, remote }));
    }

    fn run(&mut self, started: Instant) {
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
    }

    /// Sends the next request of a host, and sets the time to ask again.
    fn ask(&mut self, index: usize) {
        let host = self.hosts[index];
        let progress = &mut self.progress[index];
        progress.asked += 1;
        let (wants, asked) = (progress.wants, progress.asked);
        self.due.push(Reverse((now() + PATIENCE, index, asked)));
        self.questions += 1;
        let other = self.hosts[(index + self.hosts.len() / 2) % self.hosts.len()];
        match wants {
            Wants::Group => self.send(&host, &join(&host)),
            Wants::Path => self.send(&host, &path(&host, &other)),
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

    /// Takes an answer. Returns whether that was the last one of its host.
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
            // A second answer to a repeated request.
            return false;
        }
        if status == Status::BUSY {
            self.busy += 1;
            let pause = progress.pause;
            progress.pause = (pause * 2).min(LONGEST_PAUSE);
            // The time-out of that request is now stale.
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

fn join(host: &Host) -> SaMad {
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
    SaMad::request(Method::SET, Tid(1), mask, &record)
}

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

/// A field of /proc/self/status in kibibytes, as bytes.
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or_default() * 1024
}

/// Resets the kernel's peak memory of this process.
fn reset_peak() {
    if let Err(error) = std::fs::write("/proc/self/clear_refs", "5") {
        panic!("the peak of memory cannot be reset: {error}");
    }
}

/// Replays the membership changes to the core. Returns the number of written blocks of multicast
/// tables, and the time from the first join until the last of them.
fn spread(world: &mut World, told: &[(Duration, Arc<GroupSet>)]) -> (u64, Duration) {
    let blocks = |world: &World| {
        let counters = world.sim.counters();
        counters.received(AttrId::MULTICAST_FORWARDING_TABLE, Method::SET)
    };
    let (before, start) = (blocks(world), world.now());
    for (at, groups) in told {
        let due = start + *at;
        world.run_for(due.since(world.now()));
        world.tell_groups(Arc::clone(groups));
    }
    world.settle(LIMIT);
    (blocks(world) - before, world.now().since(start))
}

/// A packet from some of the members reaches all others.
fn assert_delivered(world: &World, hosts: &[Host]) {
    for index in 0..SENDERS {
        let host = hosts[index * hosts.len() / SENDERS];
        let probe = world
            .sim
            .probe_multicast((host.node, host.port), BROADCAST_LID, 0)
            .expect("there is such a port");
        let others = probe
            .delivered
            .iter()
            .filter(|((node, _), _)| *node != host.node);
        let once = others.filter(|&(_, &copies)| copies == 1).count();
        assert_eq!((once, probe.loops), (hosts.len() - 1, false));
    }
}
