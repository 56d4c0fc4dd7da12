//! Starts all hosts at once: each joins the broadcast group of IP over InfiniBand, and then
//! requests a path.
//!
//! `cargo bench -p rsm-tests --bench join_storm [-- --spec SPEC]`; the default fabric
//! has 45,056 hosts.
//!
//! The subnet comes up in virtual time. The SA then answers hosts in real time, on its own threads
//! and through its own gate; a queue carries all first requests within milliseconds. A host that
//! gets BUSY, or no answer for a second, repeats its request after a second, then after two, four
//! and up to sixteen seconds, as IP over InfiniBand does. The benchmark then replays the SA's
//! membership changes to the core in virtual time, at their times since the first request. It
//! counts the SMPs and measures the time until the switches have all masks.

mod options;

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use options::Options;
use parking_lot::Mutex;
use rsm::daemon::sa::{SaConnections, SaSetup, TimeSource};
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

/// The fabric without `--spec`: 45,056 hosts.
const DEFAULT_SPEC: &str = "pgft:3;32,32,44;1,32,16;1,1,2";

/// The time limit for bringing the subnet up and for writing multicast tables.
const LIMIT: Duration = Duration::from_secs(600);

/// The virtual time that planning takes, which is about the real time for a subnet of this size.
/// Changes during this time wait for the next plan.
const PLANNING: Duration = Duration::from_millis(500);

/// The number of members that send a packet to the group.
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
        let bringup_time = started.elapsed();
        let hosts = hosts(&world);
        writeln!(
            out,
            "{spec}: {} hosts up after {:.1} s of simulation",
            hosts.len(),
            bringup_time.as_secs_f64()
        )?;
        let storm = Storm::run(&world, &hosts)?;
        storm.report(&mut out)?;
        let (smps, spread_time) = spread(&mut world, &storm.group_changes);
        writeln!(
            out,
            "core: {} membership changes, {smps} multicast blocks written, \
             the last {:.1} ms after the first join",
            storm.group_changes.len(),
            milliseconds(spread_time)
        )?;
        assert_delivered(&world, &hosts);
        writeln!(
            out,
            "a packet of each of {SENDERS} members reaches all other members"
        )?;
    }
    Ok(())
}

fn hosts(world: &World) -> Vec<Host> {
    let snapshot = world.manager().snapshot().expect("the subnet is up");
    let fabric = &snapshot.fabric;
    let end_ports = fabric.end_ports();
    end_ports
        .filter(|(at, _)| fabric.node(at.node).kind() == NodeType::Ca)
        .map(|(at, port)| Host {
            node: fabric.node(at.node).guid,
            port: at.port,
            guid: port.guid,
            lid: port.lid(),
        })
        .collect()
}

/// The port of the SA, which sends to the hosts.
struct SaWire(Sender<(Lid, MadBytes)>);

impl SaPort for SaWire {
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
    /// The resident memory before the storm and its maximum during the storm, in bytes.
    memory: [u64; 2],
    /// The membership changes for the core, each with its time since the first request.
    group_changes: Vec<(Duration, Arc<GroupSet>)>,
}

impl Storm {
    fn run(world: &World, hosts: &[Host]) -> Result<Storm, Box<dyn std::error::Error>> {
        let snapshot = world
            .manager()
            .snapshot()
            .expect("the subnet is up")
            .clone();
        let origin = now();
        let clock: TimeSource = Arc::new(move || Time::ZERO + origin.elapsed());
        let sa_setup = SaSetup::new(clock);
        let mut sink = sa_setup.sink();
        let (sender, answers) = channel();
        let group_changes = Arc::new(Mutex::new(Vec::new()));
        let core = {
            let group_changes = Arc::clone(&group_changes);
            Box::new(move |event: Event| {
                if let Event::Groups(groups) = event {
                    group_changes.lock().push((now(), groups));
                }
                true
            })
        };
        let connections = SaConnections {
            saved: rsm_sa::SavedSaState::default(),
            core,
            save: Box::new(|_| ()),
            findings: Box::new(|_| ()),
            journal: None,
        };
        let port: Arc<dyn SaPort> = Arc::new(SaWire(sender));
        let sa_handle = sa_setup.start(
            rsm_sa::SaConfig {
                sm_key: 0,
                ..rsm_sa::SaConfig::default()
            },
            port,
            connections,
        )?;
        sa_handle.publish(snapshot);
        let send = |index: usize, mad: &SaMad| {
            let remote = RemoteAddress::gsi(hosts[index].lid, 0);
            let mad = *mad.as_bytes();
            sink(SaInbound::Datagram(Box::new(Datagram { mad, remote })));
        };
        let mut crowd = Crowd::new(hosts, send, answers);
        crowd.wait_until_answered();
        let before = sa_handle.statistics().counters();
        reset_peak("self");
        let resident = memory("self", "VmRSS:");
        let started = now();
        let outcome = crowd.run();
        let peak = memory("self", "VmHWM:");
        // The last membership change reaches the core a little later than the last answer.
        let has_all_members = || {
            let group_changes = group_changes.lock();
            let last = group_changes.last().map(|(_, groups)| groups);
            let members = last.and_then(|groups| groups.by_mlid.get(&BROADCAST_LID));
            members.is_some_and(|members| members.ports.len() == hosts.len())
        };
        let complete = wait_for(LIMIT, || has_all_members().then_some(()));
        complete.ok_or("the core did not learn of all members")?;
        let counts = sa_handle.statistics().counters();
        assert_eq!((counts.dropped, counts.failed), (0, 0));
        let answered = counts.latencies.count() - before.latencies.count();
        assert!(answered >= 2 * hosts.len() as u64);
        sa_handle.stop();
        let group_changes = std::mem::take(&mut *group_changes.lock());
        Ok(Storm {
            outcome,
            counts,
            memory: [resident, peak],
            group_changes: group_changes
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
            "  99 % of the requests were answered within {} us of their arrival; \
             memory {:.1} MiB, at most {:.1} MiB more",
            self.counts.latencies.quantile(0.99).unwrap_or_default() / 1_000,
            mib(before),
            mib(peak.saturating_sub(before)),
        )
    }
}

/// Replays the membership changes to the core. Returns the number of written blocks of multicast
/// tables, and the time from the first join until the last block.
fn spread(world: &mut World, group_changes: &[(Duration, Arc<GroupSet>)]) -> (u64, Duration) {
    let blocks = |world: &World| {
        let counters = world.sim.counters();
        counters.received(AttrId::MULTICAST_FORWARDING_TABLE, Method::SET)
    };
    let (before, start) = (blocks(world), world.now());
    for (at, groups) in group_changes {
        let due = start + *at;
        world.run_for(due.since(world.now()));
        world.tell_groups(Arc::clone(groups));
    }
    world.settle(LIMIT);
    (blocks(world) - before, world.now().since(start))
}

/// Checks that a packet from each of [`SENDERS`] members reaches every other member once.
fn assert_delivered(world: &World, hosts: &[Host]) {
    for index in 0..SENDERS {
        let host = hosts[index * hosts.len() / SENDERS];
        let probe = world
            .sim
            .probe_multicast((host.node, host.port), BROADCAST_LID, 0)
            .expect("the port exists");
        let other_members = probe
            .delivered
            .iter()
            .filter(|((node, _), _)| *node != host.node);
        let reached_once = other_members.filter(|&(_, &copies)| copies == 1).count();
        assert_eq!((reached_once, probe.loops), (hosts.len() - 1, false));
    }
}
