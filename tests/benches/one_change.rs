//! The cost of one change on the core's thread.
//!
//! `cargo bench -p rsm-tests --bench one_change [-- [--spec SPEC] [--rounds N] [--only CHANGE]]`; by
//! default on two trees of the same leaves, 11,264 and 45,056 hosts: what grows with the fabric
//! takes four times as long on the second.
//!
//! The fabric is simulated in this process, rsm reaches it by umad. All hosts but those that join
//! later are in the broadcast group. `core_ms` is the processor time of the thread that runs the
//! core, from before the change until the wire has been quiet for a second; `nothing` is such a
//! time without a change. `rsm_ms` is that of all threads. `smps` counts Gets and Sets that reached
//! agents.

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

/// 11,264 and 45,056 hosts.
const DEFAULT_SPECS: [&str; 2] = [
    "pgft:3;32,32,11;1,32,16;1,1,2",
    "pgft:3;32,32,44;1,32,16;1,1,2",
];

/// Longer than it takes to bring the subnet up.
const LIMIT: Duration = Duration::from_secs(600);

/// How long the wire must be quiet before a change counts as taken in.
const QUIET: Duration = Duration::from_secs(1);

/// The changes in their order, each once for each round: the first of a kind also pays for what the
/// one before it has left to the next plan.
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

/// Something that happens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Nothing,
    /// A host has another NodeDescription, and says so by trap 144.
    Description,
    /// A host joins the broadcast group.
    Join,
    /// It leaves the group.
    Leave,
    /// Of a link between a switch with hosts and another one.
    LeafLinkDown,
    LeafLinkUp,
    /// Of a link between two switches without hosts.
    OtherLinkDown,
    OtherLinkUp,
    /// The operator asks for a sweep.
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
        let changes = CHANGES.iter().filter(|one| options.takes_part(one.name()));
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
    // Drops before its fabric.
    rsm: Rsm,
    fabric: Managed,
    /// The host of each round.
    late: Vec<storm::Host>,
    /// The link of each round at a leaf, and elsewhere.
    leaf_links: Vec<(Guid, PortNum)>,
    other_links: Vec<(Guid, PortNum)>,
}

impl Site {
    /// With rsm up, and all hosts but one for each round in the broadcast group.
    fn start(spec: &str, rounds: usize) -> Result<Site, Failure> {
        let fabric = Managed::start(spec);
        // Only what a change brings is measured.
        let config = fabric.fabric.directory().join("rsm.toml");
        std::fs::write(&config, "[sweep]\nlight_interval_ms = 0\n")?;
        let config = config.to_string_lossy().into_owned();
        let client = fabric.fabric.client(binaries::rsm())?;
        let rsm = Rsm::run(client, &fabric.state(), &["--config", &config], LIMIT)?;
        let hosts = storm::Host::all_of(&fabric)?;
        let late = spread(&hosts, rounds, "hosts beside the manager's")?;
        let is_early = |host: &&storm::Host| late.iter().all(|late| late.guid != host.guid);
        let early: Vec<storm::Host> = hosts.iter().filter(is_early).copied().collect();
        join_all(&fabric, &early)?;
        let [leaf_links, other_links] = links(&fabric, rounds)?;
        let site = Site {
            rsm,
            fabric,
            late,
            leaf_links,
            other_links,
        };
        site.wait_quiet()?;
        Ok(site)
    }

    fn wait_quiet(&self) -> Result<(), Failure> {
        match self.fabric.fabric.wait_quiet(QUIET, LIMIT)? {
            true => Ok(()),
            false => Err("rsm does not calm down".into()),
        }
    }

    fn measure(
        &mut self,
        change: Change,
        round: usize,
        comparison: &mut Comparison,
    ) -> Result<(), Failure> {
        // Not the change's: the program of a host, before it asks.
        let mut host = self.host(round);
        let before = self.spent()?;
        self.make(change, round, &mut host)?;
        self.wait_quiet()?;
        let after = self.spent()?;
        let figures = comparison.of(change.name());
        figures.add("core_ms", milliseconds(after.core - before.core));
        figures.add("rsm_ms", milliseconds(after.process - before.process));
        figures.add("smps", (after.smps - before.smps) as f64);
        Ok(())
    }

    fn host(&self, round: usize) -> answering::Host {
        let at = self.late[round];
        answering::Host::at(
            &self.fabric.fabric.sim,
            (at.node, at.port),
            self.fabric.lid(0),
        )
    }

    fn make(
        &self,
        change: Change,
        round: usize,
        host: &mut answering::Host,
    ) -> Result<(), Failure> {
        let at = self.late[round];
        match change {
            Change::Nothing => {}
            Change::Description => {
                let text = format!("renamed in round {round}");
                let sim = &self.fabric.fabric.sim;
                sim.with(move |sim| sim.set_description(at.node, text.as_bytes()))??;
            }
            Change::Join => ask(host, Method::SET, &at)?,
            Change::Leave => ask(host, Method::DELETE, &at)?,
            Change::LeafLinkDown => self.fabric.set_link(self.leaf_links[round], false),
            Change::LeafLinkUp => self.fabric.set_link(self.leaf_links[round], true),
            Change::OtherLinkDown => self.fabric.set_link(self.other_links[round], false),
            Change::OtherLinkUp => self.fabric.set_link(self.other_links[round], true),
            Change::Sweep => drop(self.rsm.ask(&["sweep"])?),
        }
        Ok(())
    }

    fn spent(&mut self) -> Result<Spent, Failure> {
        let smps = self.fabric.fabric.sim.with(|sim| {
            let counters = sim.counters();
            counters.gets() + counters.sets()
        })?;
        let process = self.rsm.process();
        Ok(Spent {
            core: process.first_thread_time(),
            process: process.processor_time(),
            smps,
        })
    }
}

/// The processor time and the SMPs of rsm so far.
struct Spent {
    /// Processor time of the core's thread.
    core: Duration,
    /// Of all threads.
    process: Duration,
    smps: u64,
}

/// So many of `all`, from everywhere among them. `what` they are called in the error that there are
/// too few.
fn spread<T: Copy>(all: &[T], count: usize, what: &str) -> Result<Vec<T>, Failure> {
    if all.len() < count {
        let found = all.len();
        return Err(format!("{count} rounds need {count} {what}, the fabric has {found}").into());
    }
    let place = |number: usize| all[(2 * number + 1) * all.len() / (2 * count)];
    Ok((0..count).map(place).collect())
}

/// Has the hosts join the broadcast group, all at once.
fn join_all(fabric: &Managed, hosts: &[storm::Host]) -> Result<(), Failure> {
    let (ports, answers) = Ports::attach(&fabric.fabric.sim, hosts, fabric.lid(0))?;
    let send = |index: usize, mad: &_| ports.send(index, mad);
    let mut crowd = Crowd::new(hosts, send, answers);
    crowd.wait_until_it_answers();
    let outcome = crowd.run();
    assert_eq!(outcome.took[0].len(), hosts.len());
    Ok(())
}

/// Joins or leaves the broadcast group.
fn ask(host: &mut answering::Host, method: Method, at: &storm::Host) -> Result<(), Failure> {
    let (mask, record) = storm::membership(at);
    match host.ask(method, mask, &record).status() {
        Status::OK => Ok(()),
        status => Err(format!("{method:?}: {status}").into()),
    }
}

/// So many links at leaves and so many elsewhere, each group spread over the fabric. The manager's
/// own leaf is none of the leaves.
fn links(fabric: &Managed, count: usize) -> Result<[Vec<(Guid, PortNum)>; 2], Failure> {
    let (cables, hosts) = (fabric.cables(), fabric.hosts.clone());
    let (ends, leaves, own) = fabric.fabric.sim.with(move |sim| {
        let peer = |(node, port)| sim.peer(node, port).ok().flatten().map(|peer| peer.0);
        let ends: Vec<_> = cables
            .iter()
            .map(|&cable| (cable, [Some(cable.0), peer(cable)]))
            .collect();
        let leaves: BTreeSet<Guid> = hosts.iter().filter_map(|&host| peer(host)).collect();
        (ends, leaves, peer(hosts[0]))
    })?;
    let picked = |at_leaf: bool| {
        let is_leaf = |end: &Option<Guid>| end.is_some_and(|guid| leaves.contains(&guid));
        let links: Vec<(Guid, PortNum)> = ends
            .iter()
            .filter(|(_, ends)| ends.iter().any(is_leaf) == at_leaf && !ends.contains(&own))
            .map(|(cable, _)| *cable)
            .collect();
        let what = match at_leaf {
            true => "links between leaves and other switches",
            false => "links between switches without hosts",
        };
        spread(&links, count, what)
    };
    Ok([picked(true)?, picked(false)?])
}
