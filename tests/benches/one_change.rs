//! Measures the cost of one change on the core's thread.
//!
//! `cargo bench -p rsm-tests --bench one_change [-- [--spec SPEC] [--rounds N] [--only CHANGE]]`;
//! the default fabrics are two trees with equal leaves and 11,264 and 45,056 hosts. A cost that
//! grows with the fabric is four times as high on the second tree.
//!
//! This process simulates the fabric, and rsm reaches it by umad. All hosts except the hosts of the
//! rounds are in the broadcast group. `core_ms` is the processor time of the thread that runs the
//! core, from before the change until the wire has been quiet for a second. `nothing` is the same
//! measurement without a change. `rsm_ms` is the processor time of all threads. `smps` counts the
//! Gets and Sets that reached agents.

mod options;

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::header::{Method, Status};
use rsm_tests::answering;
use rsm_tests::binaries;
use rsm_tests::managed::Managed;
use rsm_tests::measure::{Comparison, milliseconds};
use rsm_tests::sm::Rsm;
use rsm_tests::storm::{self, Crowd, Ports};

use options::Options;

/// The fabrics without `--spec`: 11,264 and 45,056 hosts.
const DEFAULT_SPECS: [&str; 2] = [
    "pgft:3;32,32,11;1,32,16;1,1,2",
    "pgft:3;32,32,44;1,32,16;1,1,2",
];

/// The time limit for bringing the subnet up.
const LIMIT: Duration = Duration::from_secs(600);

/// The time without packets after which a change counts as complete.
const QUIET: Duration = Duration::from_secs(1);

/// The changes in their order; each happens once in each round. The first of a kind also pays for
/// work that the change before it left to the next plan.
const CHANGES: [Change; 9] = [
    Change::Nothing,
    Change::Description,
    Change::Join,
    Change::Leave,
    Change::LeafLinkDown,
    Change::LeafLinkUp,
    Change::OtherLinkDown,
    Change::OtherLinkUp,
    Change::Sweep,
];

/// A change of the fabric or of its registrations.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Nothing,
    /// The NodeDescription of a host changes, and the host reports it with trap 144.
    Description,
    /// A host joins the broadcast group.
    Join,
    /// A host leaves the broadcast group.
    Leave,
    /// A link between a switch with hosts and another switch goes down or comes up.
    LeafLinkDown,
    LeafLinkUp,
    /// A link between two switches without hosts goes down or comes up.
    OtherLinkDown,
    OtherLinkUp,
    /// The operator requests a sweep.
    Sweep,
}

impl Change {
    fn name(self) -> &'static str {
        match self {
            Change::Nothing => "nothing",
            Change::Description => "description",
            Change::Join => "join",
            Change::Leave => "leave",
            Change::LeafLinkDown => "leaf link down",
            Change::LeafLinkUp => "leaf link up",
            Change::OtherLinkDown => "other link down",
            Change::OtherLinkUp => "other link up",
            Change::Sweep => "sweep",
        }
    }
}

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let options = Options::from_arguments(5)?;
    let mut out = std::io::stdout();
    for spec in options.specs(&DEFAULT_SPECS) {
        let mut site = Site::start(spec, options.rounds())?;
        writeln!(out, "{spec}, {} hosts", site.fabric.hosts.len())?;
        let mut comparison = Comparison::default();
        let changes = CHANGES
            .iter()
            .filter(|change| options.takes_part(change.name()));
        for &change in changes {
            for round in 0..options.rounds() {
                site.measure(change, round, &mut comparison)?;
            }
        }
        writeln!(out, "{}", comparison.table())?;
        writeln!(out, "{}", comparison.json(spec, Change::Nothing.name()))?;
    }
    Ok(())
}

/// A fabric with a resident rsm.
struct Site {
    // The manager is dropped before its fabric.
    rsm: Rsm,
    fabric: Managed,
    /// The host of each round.
    round_hosts: Vec<storm::Host>,
    /// For each round, a link at a leaf.
    leaf_links: Vec<(Guid, PortNum)>,
    /// For each round, a link between two switches without hosts.
    other_links: Vec<(Guid, PortNum)>,
}

impl Site {
    /// Starts rsm, and joins all hosts to the broadcast group, except one host for each round.
    fn start(spec: &str, rounds: usize) -> Result<Site, Failure> {
        let fabric = Managed::start(spec);
        // Without periodic sweeps, only the change is measured.
        let config = fabric.fabric.directory().join("rsm.toml");
        std::fs::write(&config, "[sweep]\nlight_interval_ms = 0\n")?;
        let config = config.to_string_lossy().into_owned();
        let client = fabric.fabric.client(binaries::rsm())?;
        let rsm = Rsm::run(client, &fabric.state(), &["--config", &config], LIMIT)?;
        let hosts = storm::Host::all_of(&fabric)?;
        let round_hosts = spread(&hosts, rounds, "hosts other than the manager's host")?;
        let is_early = |host: &&storm::Host| {
            round_hosts
                .iter()
                .all(|round_host| round_host.guid != host.guid)
        };
        let early: Vec<storm::Host> = hosts.iter().filter(is_early).copied().collect();
        join_all(&fabric, &early)?;
        let [leaf_links, other_links] = links(&fabric, rounds)?;
        let site = Site {
            rsm,
            fabric,
            round_hosts,
            leaf_links,
            other_links,
        };
        site.wait_quiet()?;
        Ok(site)
    }

    fn wait_quiet(&self) -> Result<(), Failure> {
        match self.fabric.fabric.wait_quiet(QUIET, LIMIT)? {
            true => Ok(()),
            false => Err("rsm still sends SMPs after the time limit".into()),
        }
    }

    fn measure(
        &mut self,
        change: Change,
        round: usize,
        comparison: &mut Comparison,
    ) -> Result<(), Failure> {
        // The start of the host's program is not part of the change.
        let mut host = self.host(round);
        let before = self.usage()?;
        self.apply_change(change, round, &mut host)?;
        self.wait_quiet()?;
        let after = self.usage()?;
        let figures = comparison.of(change.name());
        figures.add("core_ms", milliseconds(after.core - before.core));
        figures.add("rsm_ms", milliseconds(after.process - before.process));
        figures.add("smps", (after.smps - before.smps) as f64);
        Ok(())
    }

    fn host(&self, round: usize) -> answering::Host {
        let at = self.round_hosts[round];
        answering::Host::at(
            &self.fabric.fabric.sim,
            (at.node, at.port),
            self.fabric.lid(0),
        )
    }

    fn apply_change(
        &self,
        change: Change,
        round: usize,
        host: &mut answering::Host,
    ) -> Result<(), Failure> {
        let at = self.round_hosts[round];
        match change {
            Change::Nothing => {}
            Change::Description => {
                let text = format!("renamed in round {round}");
                let sim = &self.fabric.fabric.sim;
                sim.with(move |sim| sim.set_description(at.node, text.as_bytes()))??;
            }
            Change::Join => set_membership(host, Method::SET, &at)?,
            Change::Leave => set_membership(host, Method::DELETE, &at)?,
            Change::LeafLinkDown => self.fabric.set_link(self.leaf_links[round], false),
            Change::LeafLinkUp => self.fabric.set_link(self.leaf_links[round], true),
            Change::OtherLinkDown => self.fabric.set_link(self.other_links[round], false),
            Change::OtherLinkUp => self.fabric.set_link(self.other_links[round], true),
            Change::Sweep => drop(self.rsm.ask(&["sweep"])?),
        }
        Ok(())
    }

    fn usage(&mut self) -> Result<Usage, Failure> {
        let smps = self.fabric.fabric.sim.with(|sim| {
            let counters = sim.counters();
            counters.gets() + counters.sets()
        })?;
        let process = self.rsm.process();
        Ok(Usage {
            core: process.first_thread_time(),
            process: process.processor_time(),
            smps,
        })
    }
}

/// The processor time and the SMPs of rsm so far.
struct Usage {
    /// The processor time of the core's thread.
    core: Duration,
    /// The processor time of all threads.
    process: Duration,
    smps: u64,
}

/// Chooses `count` items of `all`, evenly spread. Fails if there are too few; `what` names the
/// items in the error.
fn spread<T: Copy>(all: &[T], count: usize, what: &str) -> Result<Vec<T>, Failure> {
    if all.len() < count {
        let available = all.len();
        return Err(
            format!("{count} rounds need {count} {what}, the fabric has {available}").into(),
        );
    }
    let place = |number: usize| all[(2 * number + 1) * all.len() / (2 * count)];
    Ok((0..count).map(place).collect())
}

/// Joins the hosts to the broadcast group, all at once.
fn join_all(fabric: &Managed, hosts: &[storm::Host]) -> Result<(), Failure> {
    let (ports, answers) = Ports::attach(&fabric.fabric.sim, hosts, fabric.lid(0))?;
    let send = |index: usize, mad: &_| ports.send(index, mad);
    let mut crowd = Crowd::new(hosts, send, answers);
    crowd.wait_until_answered();
    let outcome = crowd.run();
    assert_eq!(outcome.latencies[0].len(), hosts.len());
    Ok(())
}

/// Joins or leaves the broadcast group.
fn set_membership(
    host: &mut answering::Host,
    method: Method,
    at: &storm::Host,
) -> Result<(), Failure> {
    let (mask, record) = storm::membership(at);
    match host.ask(method, mask, &record).status() {
        Status::OK => Ok(()),
        status => Err(format!("{method:?}: {status}").into()),
    }
}

/// Chooses `count` links at leaves and `count` links between switches without hosts, each group
/// spread over the fabric. No link is at the manager's own leaf.
fn links(fabric: &Managed, count: usize) -> Result<[Vec<(Guid, PortNum)>; 2], Failure> {
    let (cables, hosts) = (fabric.cables(), fabric.hosts.clone());
    let (ends, leaves, own_leaf) = fabric.fabric.sim.with(move |sim| {
        let peer = |(node, port)| sim.peer(node, port).ok().flatten().map(|peer| peer.0);
        let ends: Vec<_> = cables
            .iter()
            .map(|&cable| (cable, [Some(cable.0), peer(cable)]))
            .collect();
        let leaves: BTreeSet<Guid> = hosts.iter().filter_map(|&host| peer(host)).collect();
        (ends, leaves, peer(hosts[0]))
    })?;
    let choose = |at_leaf: bool| {
        let is_leaf = |end: &Option<Guid>| end.is_some_and(|guid| leaves.contains(&guid));
        let links: Vec<(Guid, PortNum)> = ends
            .iter()
            .filter(|(_, ends)| ends.iter().any(is_leaf) == at_leaf && !ends.contains(&own_leaf))
            .map(|(cable, _)| *cable)
            .collect();
        let what = match at_leaf {
            true => "links between leaves and other switches",
            false => "links between switches without hosts",
        };
        spread(&links, count, what)
    };
    Ok([choose(true)?, choose(false)?])
}
