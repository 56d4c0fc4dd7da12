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

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use options::Options;
use parking_lot::Mutex;
use rsm::daemon::sa::{SaSetup, Surroundings, TimeSource};
use rsm_core::Event;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::transport::{Datagram, LocalPort, RemoteAddress, SaInbound, SaPort, SendError};
use rsm_mad::wire::MadBytes;
use rsm_mad::wire::attr::{NodeType, PortState};
use rsm_mad::wire::header::{AttrId, Method};
use rsm_mad::wire::sa::SaMad;
use rsm_plan::groups::GroupSet;
use rsm_tests::clock::{now, wait_for};
use rsm_tests::measure::{memory, milliseconds, reset_peak};
use rsm_tests::storm::{BROADCAST_LID, Crowd, Host, Outcome};
use rsm_tests::virtual_time::{Settings, World};

/// 45,056 hosts.
const DEFAULT_SPEC: &str = "pgft:3;32,32,44;1,32,16;1,1,2";

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

/// The result of the storm.
struct Storm {
    outcome: Outcome,
    counts: rsm_sa::SaCounters,
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
        let mut sink = sa_setup.sink();
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
            remembered: rsm_sa::SavedSaState::default(),
            core,
            save: Box::new(|_| ()),
            findings: Box::new(|_| ()),
            journal: None,
        };
        let port: Arc<dyn SaPort> = Arc::new(Wire(sender));
        let sa_handle = sa_setup.start(
            rsm_sa::SaConfig {
                sm_key: 0,
                ..rsm_sa::SaConfig::default()
            },
            port,
            surroundings,
        )?;
        sa_handle.publish(snapshot);
        let send = |index: usize, mad: &SaMad| {
            let remote = RemoteAddress::gsi(hosts[index].lid, 0);
            let mad = *mad.as_bytes();
            sink(SaInbound::Datagram(Box::new(Datagram { mad, remote })));
        };
        let mut crowd = Crowd::new(hosts, send, answers);
        crowd.wait_until_it_answers();
        let before = sa_handle.statistics().counters();
        reset_peak("self");
        let resident = memory("self", "VmRSS:");
        let started = now();
        let outcome = crowd.run();
        let peak = memory("self", "VmHWM:");
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
        Ok(Storm {
            outcome,
            counts,
            memory: [resident, peak],
            told: told
                .into_iter()
                .map(|(at, groups)| (at.saturating_duration_since(started), groups))
                .collect(),
        })
    }

    fn report(&self, out: &mut impl Write) -> std::io::Result<()> {
        self.outcome.report(out)?;
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
