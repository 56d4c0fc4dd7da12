//! Measures failovers: the time from the death of the master until hosts get answers, and until a
//! broken cable is repaired.
//!
//! Usage: `cargo bench -p rsm-tests --bench failover [-- [--spec SPEC] [--rounds N] [--only NAME]
//! [--loss PERCENT]]`. Two managers of one kind run at the first and the last host of a fabric that
//! this process simulates. Managers of rsm share an etcd with three members on this machine.
//! Managers of OpenSM ask for SMInfo every 100 ms, and give up after three requests without an
//! answer. Each round kills the master with SIGKILL, and restarts it once the other manager is
//! quiet. A cable between switches breaks at the same moment, except in one round of six. Without
//! `--spec`, the benchmark runs on fabrics of 3,456 and 11,664 hosts. With `--loss`, each packet
//! between nodes is lost with that probability once the subnet is up.
//!
//! Figures of a round:
//!
//! - `answer_ms`: the time until the SA answers a Get of PathRecord that a host sends to the
//!   MasterSMLID of its port;
//! - `repaired_ms`: the time until no forwarding table leads to the broken cable;
//! - `sets`: in rounds without a broken cable, the number of Sets until the new master is quiet;
//! - `lids_moved`: the number of hosts with another LID, the managers' hosts excepted;
//! - `told_again`: the number of requests to the four observed hosts to register again;
//! - `members_lost`, `services_lost`, `subscriptions_lost`, `aliases_lost`: the number of multicast
//!   members, services, subscriptions and alias GUIDs that the SA or the port no longer has.

mod options;

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::{InformInfoRecord, McMemberRecord, PathRecord, ServiceRecord};
use rsm_tests::answering::Host;
use rsm_tests::clock::{Stopwatch, wait_for_every};
use rsm_tests::managed::Managed;
use rsm_tests::measure::{Comparison, milliseconds, percentile};
use rsm_tests::served;
use rsm_tests::sharing::{Manager, Site, all, gids, register};
use rsm_tests::sm::OpenSm;

use options::Options;

/// The fabrics of a run without `--spec`: 3,456 and 11,664 hosts.
const SPECS: [&str; 2] = ["fat-tree:k=24,levels=3", "fat-tree:k=36,levels=3"];

/// The default number of rounds: 50 with a broken cable, and 10 without.
const ROUNDS: usize = 60;

/// One round in this many has no broken cable: round 0 and every sixth round after it.
const UNBROKEN: usize = 6;

/// The time limit for each wait for a manager.
const LIMIT: Duration = Duration::from_secs(300);

/// The time between two checks of a condition.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// The time for which a host waits for an answer before it repeats the request.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(20);

/// The time without a request, Gets of SMInfo excepted, after which the managers count as quiet.
const QUIET: Duration = Duration::from_secs(2);

/// The indices of the observed hosts, which register with the SA: the third to the sixth host.
const OBSERVED: std::ops::Range<usize> = 2..6;

/// The settings of OpenSM. OpenSM accepts polling times from 10 ms on; 100 ms is the polling time
/// of rsm.
const OPENSM_KEYS: &str = "sminfo_polling_timeout 100\npolling_retry_number 3\n";

type Failure = Box<dyn std::error::Error>;

enum Resident {
    Rsm(Manager),
    OpenSm(OpenSm),
}

impl Resident {
    fn kill(self) -> Result<(), Failure> {
        match self {
            Resident::Rsm(manager) => manager.process.kill()?,
            Resident::OpenSm(opensm) => opensm.kill()?,
        };
        Ok(())
    }
}

/// A fabric for managers of one kind.
enum ManagedFabric {
    Rsm(Site),
    OpenSm(Managed),
}

/// Two managers on one fabric.
struct Pair {
    // The managers are dropped before the fabric.
    managers: [Option<Resident>; 2],
    host_indices: [usize; 2],
    master: usize,
    start_count: usize,
    hosts: Vec<Host>,
    managed: ManagedFabric,
}

/// The figures of one round.
struct Failover {
    answer: Duration,
    /// `None` in rounds without a broken cable.
    repaired: Option<Duration>,
    sets: usize,
    lids_moved: usize,
    told_again: usize,
    /// The numbers of lost multicast members, services, subscriptions and alias GUIDs.
    lost: [usize; 4],
}

/// The registrations of hosts, each as text: members, services, subscriptions, alias GUIDs.
type Registered = [BTreeSet<String>; 4];

/// The names of the figures about lost registrations, in the order of [`Registered`].
const LOST: [&str; 4] = [
    "members_lost",
    "services_lost",
    "subscriptions_lost",
    "aliases_lost",
];

fn main() -> Result<(), Failure> {
    let options = Options::from_arguments(ROUNDS)?;
    let specs = options
        .given_spec()
        .map_or(SPECS.to_vec(), |spec| vec![spec]);
    for spec in specs {
        compare(&options, spec)?;
    }
    Ok(())
}

/// Measures all kinds of managers on the fabric of `spec`.
fn compare(options: &Options, spec: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    let mut comparison = Comparison::default();
    for name in ["rsm", "opensm"] {
        if !options.takes_part(name) {
            continue;
        }
        let mut pair = Pair::start(name, spec, options.loss())?;
        let mut failovers = Vec::new();
        for round in 0..options.rounds() {
            let failover = pair.measure_failover(round)?;
            failover.add_to(&mut comparison, name);
            failovers.push(failover);
        }
        let answers: Vec<f64> = failovers
            .iter()
            .map(|failover| milliseconds(failover.answer))
            .collect();
        write!(
            out,
            "{spec}, {name}: p95 of answer_ms {:.0}",
            percentile(&answers, 95)
        )?;
        let repairs = failovers.iter().filter_map(|failover| failover.repaired);
        let repairs: Vec<f64> = repairs.map(milliseconds).collect();
        if !repairs.is_empty() {
            write!(out, ", of repaired_ms {:.0}", percentile(&repairs, 95))?;
        }
        writeln!(out)?;
    }
    writeln!(out, "{}", comparison.table())?;
    writeln!(out, "{}", comparison.json(spec, "rsm"))?;
    Ok(())
}

impl Failover {
    fn add_to(&self, comparison: &mut Comparison, name: &'static str) {
        let figures = comparison.of(name);
        figures.add("answer_ms", milliseconds(self.answer));
        match self.repaired {
            Some(repaired) => figures.add("repaired_ms", milliseconds(repaired)),
            None => figures.add("sets", self.sets as f64),
        }
        figures.add("lids_moved", self.lids_moved as f64);
        figures.add("told_again", self.told_again as f64);
        for (name, lost) in LOST.into_iter().zip(self.lost) {
            figures.add(name, lost as f64);
        }
    }
}

impl ManagedFabric {
    fn fabric(&self) -> &Managed {
        match self {
            ManagedFabric::Rsm(site) => &site.fabric,
            ManagedFabric::OpenSm(fabric) => fabric,
        }
    }

    /// Starts a manager at the host with the index `host_index`, and waits until the manager is
    /// master, or standby if `stands_by`.
    fn manager(&self, host_index: usize, name: &str, stands_by: bool) -> Result<Resident, Failure> {
        match self {
            ManagedFabric::Rsm(site) => {
                let manager = site.rsm(host_index, name, "");
                manager.wait_state(if stands_by { "standby" } else { "up" });
                Ok(Resident::Rsm(manager))
            }
            ManagedFabric::OpenSm(fabric) => {
                let hosted = &fabric.fabric;
                let socket = hosted.directory().join("fabric.sock");
                let host = fabric.hosts[host_index].0.to_string();
                let opensm = served::client(hosted.directory(), &socket, &host, "opensm")?;
                let file = opensm.directory().join("opensm.conf");
                std::fs::write(&file, OPENSM_KEYS)?;
                let file = file.display().to_string();
                let arguments = ["-F", file.as_str()];
                let opensm = match stands_by {
                    true => OpenSm::enter(opensm, &arguments, "STANDBY", LIMIT)?,
                    false => OpenSm::run(opensm, &arguments, LIMIT)?,
                };
                Ok(Resident::OpenSm(opensm))
            }
        }
    }
}

impl Pair {
    fn start(name: &str, spec: &str, loss: f64) -> Result<Pair, Failure> {
        let managed = match name {
            "rsm" => ManagedFabric::Rsm(Site::start(spec, 3)),
            _ => ManagedFabric::OpenSm(Managed::start(spec)),
        };
        let host_indices = [0, managed.fabric().hosts.len() - 1];
        let first = managed.manager(host_indices[0], "0", false)?;
        let second = managed.manager(host_indices[1], "1", true)?;
        let hosts = OBSERVED
            .map(|host_index| managed.fabric().host(host_index))
            .collect();
        let mut pair = Pair {
            managers: [Some(first), Some(second)],
            host_indices,
            master: 0,
            start_count: 2,
            hosts,
            managed,
        };
        pair.wait_answer();
        // On a large fabric, OpenSM's SA does not answer during the first sweeps, for over half a
        // minute.
        pair.wait_until_quiet()?;
        register(pair.managed.fabric(), &mut pair.hosts);
        pair.wait_until_quiet()?;
        let sim = &pair.managed.fabric().fabric.sim;
        sim.with(move |sim| sim.set_loss(loss))??;
        Ok(pair)
    }

    /// Kills the master, measures the failover, and restarts the killed manager.
    fn measure_failover(&mut self, round: usize) -> Result<Failover, Failure> {
        let lids = self.managed.fabric().lids();
        let registered = self.registered();
        let reregistrations_before: u32 = self.hosts.iter().map(Host::reregistrations).sum();
        let cables = self.managed.fabric().cables();
        let cable = cables[round * 31 % cables.len()];
        let breaks_cable = !round.is_multiple_of(UNBROKEN);
        self.managed.fabric().sets_by_sender();

        let stopwatch = Stopwatch::start();
        let killed = self.managers[self.master].take();
        killed.ok_or("there is a master")?.kill()?;
        if breaks_cable {
            self.managed.fabric().set_link(cable, false);
        }
        self.wait_answer();
        let answer = stopwatch.elapsed();
        let repaired = match breaks_cable {
            true => Some(self.wait_repaired(cable, &stopwatch)?),
            false => None,
        };
        self.wait_until_quiet()?;
        let sets = self.managed.fabric().sets_by_sender();
        let managers = self.host_indices;
        let lids_after = self.managed.fabric().lids();
        let moved_lids = lids.iter().zip(&lids_after).enumerate();
        let moved_lids = moved_lids
            .filter(|(host_index, (old, new))| !managers.contains(host_index) && old != new);
        let registered_after = self.registered();
        let failover = Failover {
            answer,
            repaired,
            sets: sets.values().sum(),
            lids_moved: moved_lids.count(),
            told_again: {
                let reregistrations: u32 = self.hosts.iter().map(Host::reregistrations).sum();
                (reregistrations - reregistrations_before) as usize
            },
            lost: std::array::from_fn(|kind| {
                registered[kind].difference(&registered_after[kind]).count()
            }),
        };
        if breaks_cable {
            self.managed.fabric().set_link(cable, true);
            self.wait_until_quiet()?;
        }
        self.replace_master()?;
        Ok(failover)
    }

    /// Restarts the killed manager. A restarted rsm becomes standby. If two OpenSM
    /// managers have equal priority, the manager with the lower GUID becomes master.
    fn replace_master(&mut self) -> Result<(), Failure> {
        let old = self.master;
        let name = self.start_count.to_string();
        self.start_count += 1;
        let becomes_master = matches!(self.managed, ManagedFabric::OpenSm(_)) && old == 0;
        let manager = self
            .managed
            .manager(self.host_indices[old], &name, !becomes_master)?;
        self.managers[old] = Some(manager);
        if !becomes_master {
            self.master = 1 - old;
        }
        self.wait_until_quiet()
    }

    /// Waits until the first observed host gets a PathRecord.
    fn wait_answer(&mut self) {
        let fabric = self.managed.fabric();
        let [source, destination] =
            [OBSERVED.start, OBSERVED.end].map(|host_index| fabric.lid(host_index));
        let mut record = PathRecord::default();
        record.set_slid(source).set_dlid(destination);
        let mask = PathRecord::SLID | PathRecord::DLID;
        let host = &mut self.hosts[0];
        let answered = wait_for_every(CHECK_INTERVAL, LIMIT, || {
            host.ask_lid(fabric.master_lid(OBSERVED.start));
            let request = (Method::GET, mask, 0);
            let answer = host.try_ask(ANSWER_TIMEOUT, request, &record)?;
            (answer.status() == Status::OK).then_some(())
        });
        assert!(answered.is_some(), "no SA answered within the time limit");
    }

    /// Waits until the forwarding tables at both ends of a cable have no entry for it. Returns the
    /// time on `stopwatch`.
    fn wait_repaired(
        &self,
        (node, port): (Guid, PortNum),
        stopwatch: &Stopwatch,
    ) -> Result<Duration, Failure> {
        let sim = &self.managed.fabric().fabric.sim;
        let other_end = sim.with(move |sim| sim.peer(node, port))??;
        let ends: BTreeSet<(Guid, PortNum)> = [Some((node, port)), other_end]
            .into_iter()
            .flatten()
            .collect();
        let repaired = wait_for_every(CHECK_INTERVAL, LIMIT, || {
            let ends = ends.clone();
            let leads_to_cable = sim.with(move |sim| {
                ends.iter()
                    .any(|&(node, port)| sim.lft(node).is_ok_and(|lft| lft.contains(&port.0)))
            });
            leads_to_cable
                .is_ok_and(|leads_to_cable| !leads_to_cable)
                .then_some(())
        });
        repaired.ok_or("the fault was not repaired within the time limit")?;
        Ok(stopwatch.elapsed())
    }

    fn registered(&mut self) -> Registered {
        let lid = self.managed.fabric().master_lid(OBSERVED.start);
        let host = &mut self.hosts[0];
        host.ask_lid(lid);
        let members = gids(&all::<McMemberRecord>(host));
        let services = all::<ServiceRecord>(host).into_iter();
        let subscriptions = all::<InformInfoRecord>(host).into_iter();
        let fabric = self.managed.fabric();
        let guids = OBSERVED.flat_map(|host_index| fabric.guids(host_index));
        [
            members.iter().map(ToString::to_string).collect(),
            services
                .map(|service| service.service_id().to_string())
                .collect(),
            subscriptions
                .map(|subscription| subscription.subscriber_gid().to_string())
                .collect(),
            guids.map(|guid| guid.to_string()).collect(),
        ]
    }

    fn wait_until_quiet(&self) -> Result<(), Failure> {
        match self.managed.fabric().fabric.wait_quiet(QUIET, LIMIT)? {
            true => Ok(()),
            false => Err("the managers still send requests after the time limit".into()),
        }
    }
}
