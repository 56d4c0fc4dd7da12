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

/// The time limit for each step of a manager.
const LIMIT: Duration = Duration::from_secs(300);

/// The time between two checks of a condition.
const LOOK: Duration = Duration::from_millis(2);

/// The time for which a host waits for an answer before it repeats the request.
const PATIENCE: Duration = Duration::from_millis(20);

/// The time without a request, Gets of SMInfo excepted, after which the managers count as quiet.
const QUIET: Duration = Duration::from_secs(2);

/// The indices of the observed hosts, which register with the SA: the third to the sixth host.
const OBSERVED: std::ops::Range<usize> = 2..6;

/// The settings of OpenSM. OpenSM accepts polling times from 10 ms on; 100 ms is rsm's own.
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
enum Field {
    Rsm(Site),
    OpenSm(Managed),
}

/// Two managers on one fabric.
struct Pair {
    // Drop before the fabric.
    managers: [Option<Resident>; 2],
    places: [usize; 2],
    master: usize,
    started: usize,
    hosts: Vec<Host>,
    field: Field,
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
            let failover = pair.fail(round)?;
            failover.add_to(&mut comparison, name);
            failovers.push(failover);
        }
        let answers: Vec<f64> = failovers.iter().map(|f| milliseconds(f.answer)).collect();
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

impl Field {
    fn fabric(&self) -> &Managed {
        match self {
            Field::Rsm(site) => &site.fabric,
            Field::OpenSm(fabric) => fabric,
        }
    }

    /// Starts a manager at the host with the index `place`, and waits until the manager is master,
    /// or standby if `stands_by`.
    fn manager(&self, place: usize, name: &str, stands_by: bool) -> Result<Resident, Failure> {
        match self {
            Field::Rsm(site) => {
                let manager = site.rsm(place, name, "");
                manager.wait_state(if stands_by { "standby" } else { "up" });
                Ok(Resident::Rsm(manager))
            }
            Field::OpenSm(fabric) => {
                let hosted = &fabric.fabric;
                let socket = hosted.directory().join("fabric.sock");
                let host = fabric.hosts[place].0.to_string();
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
        let field = match name {
            "rsm" => Field::Rsm(Site::start(spec, 3)),
            _ => Field::OpenSm(Managed::start(spec)),
        };
        let places = [0, field.fabric().hosts.len() - 1];
        let first = field.manager(places[0], "0", false)?;
        let second = field.manager(places[1], "1", true)?;
        let hosts = OBSERVED.map(|place| field.fabric().host(place)).collect();
        let mut pair = Pair {
            managers: [Some(first), Some(second)],
            places,
            master: 0,
            started: 2,
            hosts,
            field,
        };
        pair.wait_answer();
        // On a large fabric, OpenSM's SA does not answer during the first sweeps, for over half a
        // minute.
        pair.rest()?;
        register(pair.field.fabric(), &mut pair.hosts);
        pair.rest()?;
        let sim = &pair.field.fabric().fabric.sim;
        sim.with(move |sim| sim.set_loss(loss))??;
        Ok(pair)
    }

    /// Kills the master, measures the failover, and restarts the killed manager.
    fn fail(&mut self, round: usize) -> Result<Failover, Failure> {
        let lids = self.field.fabric().lids();
        let registered = self.registered();
        let told: u32 = self.hosts.iter().map(Host::reregistrations).sum();
        let cables = self.field.fabric().cables();
        let cable = cables[round * 31 % cables.len()];
        let breaks = !round.is_multiple_of(UNBROKEN);
        self.field.fabric().sets_by_sender();

        let watch = Stopwatch::start();
        let killed = self.managers[self.master].take();
        killed.ok_or("there is a master")?.kill()?;
        if breaks {
            self.field.fabric().set_link(cable, false);
        }
        self.wait_answer();
        let answer = watch.elapsed();
        let repaired = match breaks {
            true => Some(self.wait_repaired(cable, &watch)?),
            false => None,
        };
        self.rest()?;
        let sets = self.field.fabric().sets_by_sender();
        let managers = self.places;
        let after = self.field.fabric().lids();
        let moved = lids.iter().zip(&after).enumerate();
        let moved = moved.filter(|(place, (old, new))| !managers.contains(place) && old != new);
        let kept = self.registered();
        let failover = Failover {
            answer,
            repaired,
            sets: sets.values().sum(),
            lids_moved: moved.count(),
            told_again: {
                let again: u32 = self.hosts.iter().map(Host::reregistrations).sum();
                (again - told) as usize
            },
            lost: std::array::from_fn(|kind| registered[kind].difference(&kept[kind]).count()),
        };
        if breaks {
            self.field.fabric().set_link(cable, true);
            self.rest()?;
        }
        self.replace_master()?;
        Ok(failover)
    }

    /// Restarts the killed manager. A restarted rsm becomes standby. If two OpenSM
    /// managers have equal priority, the manager with the lower GUID becomes master.
    fn replace_master(&mut self) -> Result<(), Failure> {
        let old = self.master;
        let name = self.started.to_string();
        self.started += 1;
        let takes_over = matches!(self.field, Field::OpenSm(_)) && old == 0;
        let manager = self.field.manager(self.places[old], &name, !takes_over)?;
        self.managers[old] = Some(manager);
        if !takes_over {
            self.master = 1 - old;
        }
        self.rest()
    }

    /// Waits until the first observed host gets a PathRecord.
    fn wait_answer(&mut self) {
        let fabric = self.field.fabric();
        let [from, to] = [OBSERVED.start, OBSERVED.end].map(|place| fabric.lid(place));
        let mut wanted = PathRecord::default();
        wanted.set_slid(from).set_dlid(to);
        let mask = PathRecord::SLID | PathRecord::DLID;
        let host = &mut self.hosts[0];
        let answered = wait_for_every(LOOK, LIMIT, || {
            host.ask_lid(fabric.master_lid(OBSERVED.start));
            let question = (Method::GET, mask, 0);
            let answer = host.try_ask(PATIENCE, question, &wanted)?;
            (answer.status() == Status::OK).then_some(())
        });
        assert!(answered.is_some(), "no SA answers");
    }

    /// Waits until the forwarding tables at both ends of a cable have no entry for it. Returns the
    /// time on `watch`.
    fn wait_repaired(
        &self,
        (node, port): (Guid, PortNum),
        watch: &Stopwatch,
    ) -> Result<Duration, Failure> {
        let sim = &self.field.fabric().fabric.sim;
        let far = sim.with(move |sim| sim.peer(node, port))??;
        let ends: BTreeSet<(Guid, PortNum)> =
            [Some((node, port)), far].into_iter().flatten().collect();
        let repaired = wait_for_every(LOOK, LIMIT, || {
            let ends = ends.clone();
            let leads = sim.with(move |sim| {
                ends.iter()
                    .any(|&(node, port)| sim.lft(node).is_ok_and(|lft| lft.contains(&port.0)))
            });
            leads.is_ok_and(|leads| !leads).then_some(())
        });
        repaired.ok_or("the fault is not repaired")?;
        Ok(watch.elapsed())
    }

    fn registered(&mut self) -> Registered {
        let lid = self.field.fabric().master_lid(OBSERVED.start);
        let host = &mut self.hosts[0];
        host.ask_lid(lid);
        let members = gids(&all::<McMemberRecord>(host));
        let services = all::<ServiceRecord>(host).into_iter();
        let subscriptions = all::<InformInfoRecord>(host).into_iter();
        let fabric = self.field.fabric();
        let guids = OBSERVED.flat_map(|place| fabric.guids(place));
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

    fn rest(&self) -> Result<(), Failure> {
        match self.field.fabric().fabric.wait_quiet(QUIET, LIMIT)? {
            true => Ok(()),
            false => Err("the managers do not come to rest".into()),
        }
    }
}
