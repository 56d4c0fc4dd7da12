//! Powers off switches and cuts cables, one or many at the same time, and measures the time until
//! packets arrive again and the time until the last Set.
//!
//! `cargo bench -p rsm-tests --bench power_off [-- [--spec SPEC] [--rounds N] [--only NAME]
//! [--faults PART] [--loss PERCENT]]`. This process simulates one fabric for each manager. The
//! manager stays resident, and reaches its fabric through the shim. In each round, each fault
//! occurs on the fabric, and is repaired once the manager sends no more Sets. The number of the
//! round is the seed of all random choices.
//!
//! `delivered_ms` is the time from the fault until packets arrive between all hosts that still have
//! a path of links to the manager. A walker checks this every few milliseconds by following the
//! tables of the switches. `last_block_ms` is the time until the last block of a forwarding table
//! is written, and `last_set_ms` the time until the last Set. For a fault of the manager's own
//! leaf, the times begin with the return of the leaf.
//!
//! With `--loss`, each packet between nodes is lost with that probability once the subnet is up.
//! Runs "without traps" lose every trap, and have only single faults. The managers then find the
//! faults by sweeps: rsm sweeps twice a second, OpenSM once a second, its shortest interval.

mod options;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use rsm_ids::{Guid, PortNum};
use rsm_mad::Time;
use rsm_mad::wire::header::AttrId;
use rsm_routing::netlist::{Netlist, NodeKind};
use rsm_sim::{Sim, SimError};
use rsm_tests::binaries;
use rsm_tests::clock::now;
use rsm_tests::hosted::Hosted;
use rsm_tests::measure::{Comparison, milliseconds};
use rsm_tests::sm::{OpenSm, Rsm};
use rsm_tests::virtual_time::{Dice, Walker};

use options::Options;

const DEFAULT_SPECS: [&str; 2] = ["superpod", "fat-tree:k=8,levels=3"];

/// The time limit for a manager to bring the subnet up, or to react to a fault.
const LIMIT: Duration = Duration::from_secs(300);

/// The time without a Set after which a manager counts as quiet. It is longer than OpenSM waits in
/// one phase for a node that does not answer.
const QUIET: Duration = Duration::from_secs(4);

/// The time for which the manager's own leaf is off before it returns.
const OFF_TIME: Duration = Duration::from_secs(6);

/// The pause between two checks by the walker.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// The capacity of the journal: more than the Sets of any reaction.
const JOURNAL: usize = 1 << 20;

type Failure = Box<dyn std::error::Error>;

/// Switches and cables that fail at the same time.
struct Fault {
    name: String,
    switches: Vec<Guid>,
    /// One end of each cable.
    cables: Vec<(Guid, PortNum)>,
    /// The time after which the parts return and the measurement begins; `None` if the measurement
    /// begins with the fault.
    off_for: Option<Duration>,
}

impl Fault {
    /// A fault of `switches`, measured from its beginning.
    fn of_switches(name: &str, switches: Vec<Guid>) -> Fault {
        Fault {
            name: name.to_owned(),
            switches,
            cables: Vec::new(),
            off_for: None,
        }
    }
}

/// The process of a resident subnet manager.
enum Resident {
    Rsm { _process: Rsm },
    OpenSm { _process: OpenSm },
}

/// A manager in the comparison, with its fabric.
struct Contender {
    name: &'static str,
    // The manager is dropped before its fabric.
    _resident: Resident,
    fabric: Hosted,
}

/// The times of a manager's reaction, since the fault or the return of its parts. `None` means that
/// the event did not occur within the time limit.
struct Reaction {
    delivered: Option<Duration>,
    last_block: Option<Duration>,
    last_set: Option<Duration>,
    /// The number of Sets of blocks of linear forwarding tables.
    blocks: usize,
}

fn main() -> Result<(), Failure> {
    let options = Options::from_arguments(3)?;
    let mut out = std::io::stdout();
    for spec in options.specs(&DEFAULT_SPECS) {
        let netlist = rsm::offline::load(spec)?;
        for with_traps in [true, false] {
            let mut comparisons: BTreeMap<String, Comparison> = BTreeMap::new();
            for name in ["rsm", "opensm"] {
                if !options.takes_part(name) {
                    continue;
                }
                let contender = Contender::start(name, &netlist, with_traps)?;
                let loss = options.loss();
                contender.fabric.sim.with(move |sim| sim.set_loss(loss))??;
                let layout = Layout::of(&netlist, contender.fabric.place.0);
                for round in 0..options.rounds() {
                    let mut faults = layout.single_faults();
                    if with_traps {
                        faults.extend(layout.mass_faults(&mut Dice::new(round as u64)));
                    }
                    for fault in faults
                        .iter()
                        .filter(|fault| options.has_faults(&fault.name))
                    {
                        let reaction = contender.measure_fault(fault)?;
                        let comparison = comparisons.entry(fault.name.clone()).or_default();
                        reaction.add_to(comparison, name);
                    }
                }
            }
            let traps = if with_traps { "with" } else { "without" };
            for (fault, comparison) in comparisons {
                let title = format!("{spec}, {fault}, {traps} traps");
                writeln!(out, "{title}\n{}", comparison.table())?;
                writeln!(out, "{}\n", comparison.json(&title, "rsm"))?;
            }
        }
    }
    Ok(())
}

/// The switches and cables of a fabric, from which faults are chosen.
struct Layout<'a> {
    netlist: &'a Netlist,
    /// The switches, by their distance in hops from the nearest host.
    tiers: BTreeMap<usize, Vec<usize>>,
    /// The switch of the manager's host.
    own_leaf: usize,
    /// The neighbours of each node; a neighbour appears once for each cable.
    neighbours: Vec<Vec<usize>>,
}

impl Layout<'_> {
    /// The layout of `netlist`, with the host of the manager.
    fn of(netlist: &Netlist, manager: Guid) -> Layout<'_> {
        let neighbours = neighbours(netlist);
        let manager = netlist.by_guid(manager).unwrap_or_default();
        let mut by_tier: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (node, tier) in tiers(netlist) {
            by_tier.entry(tier).or_default().push(node);
        }
        Layout {
            netlist,
            tiers: by_tier,
            own_leaf: neighbours[manager].first().copied().unwrap_or_default(),
            neighbours,
        }
    }

    fn guids(&self, nodes: &[usize]) -> Vec<Guid> {
        let nodes = nodes.iter();
        nodes.map(|&node| self.netlist.nodes()[node].guid).collect()
    }

    /// The switches farthest from the hosts.
    fn top(&self) -> &[usize] {
        self.tiers.values().next_back().map_or(&[], Vec::as_slice)
    }

    /// The faults of one or two switches: one and two switches of the top tier, a switch of the
    /// second tier next to the manager's leaf, and a leaf other than the manager's leaf.
    fn single_faults(&self) -> Vec<Fault> {
        let spines = self.top();
        let in_tier = |tier: usize| self.tiers.get(&tier).map_or(&[][..], Vec::as_slice);
        let in_own_pod = self.neighbours[self.own_leaf]
            .iter()
            .find(|node| in_tier(2).contains(node));
        let leaves = in_tier(1).iter().rev();
        let other_leaf = leaves.copied().find(|&leaf| leaf != self.own_leaf);
        let middle = spines.len() / 2;
        let (one_spine, two_spines) =
            ([spines[middle]], [spines[middle], spines[spines.len() - 1]]);
        let switch_faults = [
            ("a spine", Some(one_spine.to_vec())),
            ("two spines", Some(two_spines.to_vec())),
            ("a leaf", other_leaf.map(|leaf| vec![leaf])),
            (
                "a spine of the manager's pod",
                in_own_pod.map(|&spine| vec![spine]),
            ),
        ];
        switch_faults
            .into_iter()
            .filter_map(|(name, nodes)| Some(Fault::of_switches(name, self.guids(&nodes?))))
            .collect()
    }

    /// The faults of many parts: each half of the top tier; an eighth, a quarter and a half of all
    /// switches; and most cables between switches. Also the fault of the manager's leaf, which is
    /// in none of the other faults of switches.
    fn mass_faults(&self, dice: &mut Dice) -> Vec<Fault> {
        let spines = self.top();
        let (first_half, last_half) = spines.split_at(spines.len() / 2);
        let mut faults = vec![
            Fault::of_switches("mass: first half of the top tier", self.guids(first_half)),
            Fault::of_switches("mass: last half of the top tier", self.guids(last_half)),
        ];
        let switches = self.tiers.values().flatten().copied();
        let switches: Vec<usize> = switches.filter(|&node| node != self.own_leaf).collect();
        for divisor in [8, 4, 2] {
            let count = (switches.len() + 1) / divisor;
            let failed_switches = choose_random(switches.clone(), count, dice);
            let name = format!("mass: {count} random switches");
            faults.push(Fault::of_switches(&name, self.guids(&failed_switches)));
        }
        let is_switch = |node: usize| self.netlist.nodes()[node].kind == NodeKind::Switch;
        let switch_cables = self.netlist.cables().iter();
        let switch_cables: Vec<(Guid, PortNum)> = switch_cables
            .filter(|cable| is_switch(cable.a.0) && is_switch(cable.b.0))
            .map(|cable| (self.netlist.nodes()[cable.a.0].guid, cable.a.1))
            .collect();
        let count = switch_cables.len() * 25 / 32;
        faults.push(Fault {
            name: format!(
                "mass: {count} of {} cables between switches",
                switch_cables.len()
            ),
            switches: Vec::new(),
            cables: choose_random(switch_cables, count, dice),
            off_for: None,
        });
        faults.push(Fault {
            off_for: Some(OFF_TIME),
            ..Fault::of_switches(
                "the manager's leaf, after its return",
                self.guids(&[self.own_leaf]),
            )
        });
        faults
    }
}

/// Chooses `count` items at random, each at most once.
fn choose_random<T>(mut items: Vec<T>, count: usize, dice: &mut Dice) -> Vec<T> {
    (0..count)
        .map(|_| items.swap_remove(dice.below(items.len())))
        .collect()
}

/// The distance of each switch from the nearest host, in hops, by the index of the node.
fn tiers(netlist: &Netlist) -> BTreeMap<usize, usize> {
    let neighbours = neighbours(netlist);
    let is_switch = |node: usize| netlist.nodes()[node].kind == NodeKind::Switch;
    let mut tiers = BTreeMap::new();
    let hosts = (0..netlist.nodes().len()).filter(|&node| !is_switch(node));
    let mut reached: BTreeSet<usize> = hosts.collect();
    for tier in 1.. {
        let next: BTreeSet<usize> = reached
            .iter()
            .flat_map(|&node| neighbours[node].iter().copied())
            .filter(|&node| is_switch(node) && !tiers.contains_key(&node))
            .collect();
        if next.is_empty() {
            break;
        }
        tiers.extend(next.iter().map(|&node| (node, tier)));
        reached = next;
    }
    tiers
}

/// The neighbours of each node; a neighbour appears once for each cable.
fn neighbours(netlist: &Netlist) -> Vec<Vec<usize>> {
    let mut neighbours = vec![Vec::new(); netlist.nodes().len()];
    for cable in netlist.cables() {
        let ((a, _), (b, _)) = (cable.a, cable.b);
        neighbours[a].push(b);
        neighbours[b].push(a);
    }
    neighbours
}

impl Contender {
    /// Starts the manager on a new fabric, and waits until the subnet is up.
    fn start(
        name: &'static str,
        netlist: &Netlist,
        with_traps: bool,
    ) -> Result<Contender, Failure> {
        let fabric = Hosted::start(netlist)?;
        let resident = match name {
            "rsm" => {
                let state = fabric.directory().join("state");
                let config = fabric.directory().join("rsm.toml");
                let interval = if with_traps { 0 } else { 500 };
                std::fs::write(
                    &config,
                    format!("[sweep]\nlight_interval_ms = {interval}\n"),
                )?;
                let config = config.to_string_lossy().into_owned();
                let client = fabric.client(binaries::rsm())?;
                let process = Rsm::run(client, &state, &["--config", &config], LIMIT)?;
                Resident::Rsm { _process: process }
            }
            _ => {
                let interval = if with_traps { "0" } else { "1" };
                let client = fabric.client("opensm")?;
                let process = OpenSm::run(client, &["-s", interval], LIMIT)?;
                Resident::OpenSm { _process: process }
            }
        };
        if !with_traps {
            fabric
                .sim
                .with(|sim| sim.set_attribute_loss(AttrId::NOTICE, 1.0))??;
        }
        fabric.sim.with(|sim| sim.start_journal(JOURNAL))?;
        let contender = Contender {
            name,
            _resident: resident,
            fabric,
        };
        contender.wait_until_quiet()?;
        Ok(contender)
    }

    /// Makes a fault occur, measures the reaction, repairs the fault, and waits until the manager
    /// is quiet.
    fn measure_fault(&self, fault: &Fault) -> Result<Reaction, Failure> {
        let manager = self.fabric.place;
        let walker = self.fabric.sim.with(move |sim| Walker::new(sim, manager))?;
        self.fabric.sim.with(Sim::take_journal)?;
        let mut start = self.break_parts(fault)?;
        if let Some(off_for) = fault.off_for {
            std::thread::sleep(off_for);
            self.fabric.sim.with(Sim::take_journal)?;
            start = self.restore_parts(fault)?;
        }
        let delivered = self.wait_until_delivered(walker)?;
        let sets = self.wait_until_quiet()?;
        let since = |time: Time| time.since(start);
        let blocks = sets
            .iter()
            .filter(|set| set.1 == AttrId::LINEAR_FORWARDING_TABLE);
        let reaction = Reaction {
            delivered: delivered.map(since),
            last_block: blocks.clone().map(|set| set.0).max().map(since),
            last_set: sets.iter().map(|set| set.0).max().map(since),
            blocks: blocks.count(),
        };
        if fault.off_for.is_none() {
            self.restore_parts(fault)?;
        }
        self.wait_until_quiet()?;
        Ok(reaction)
    }

    /// Breaks all parts of the fault at the same time, and returns that time.
    fn break_parts(&self, fault: &Fault) -> Result<Time, Failure> {
        self.change_parts(fault, Sim::power_off, Sim::unlink)
    }

    /// Restores all parts of the fault at the same time, and returns that time.
    fn restore_parts(&self, fault: &Fault) -> Result<Time, Failure> {
        self.change_parts(fault, Sim::power_on, Sim::relink)
    }

    /// Changes all switches and cables of the fault at the same time, and returns that time.
    fn change_parts(
        &self,
        fault: &Fault,
        change_switch: fn(&mut Sim, Guid) -> Result<(), SimError>,
        change_cable: fn(&mut Sim, Guid, PortNum) -> Result<(), SimError>,
    ) -> Result<Time, Failure> {
        let (switches, cables) = (fault.switches.clone(), fault.cables.clone());
        Ok(self.fabric.sim.with(move |sim| {
            for switch in switches {
                change_switch(sim, switch)?;
            }
            for (node, port) in cables {
                change_cable(sim, node, port)?;
            }
            Ok::<Time, SimError>(sim.now())
        })??)
    }

    /// The time at which packets between all connected hosts arrived again; `None` if that took
    /// longer than the time limit.
    fn wait_until_delivered(&self, walker: Walker) -> Result<Option<Time>, Failure> {
        let deadline = now() + LIMIT;
        let walker = Arc::new(walker);
        // Each check begins with the host that the previous check did not reach, so that a check is
        // cheap until that host is reached.
        let mut start_host = 0;
        while now() < deadline {
            let walker = walker.clone();
            let check = move |sim: &mut Sim| (sim.now(), walker.first_lost(sim, start_host));
            match self.fabric.sim.with(check)? {
                (time, None) => return Ok(Some(time)),
                (_, Some(lost)) => start_host = lost,
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        Ok(None)
    }

    /// Waits until no Set has been sent for [`QUIET`]. Returns the time and attribute of each Set
    /// since the journal was last taken.
    fn wait_until_quiet(&self) -> Result<Vec<(Time, AttrId)>, Failure> {
        let mut sets = Vec::new();
        let deadline = now() + LIMIT;
        let mut quiet_since = now();
        while now() < deadline {
            let journal = self.fabric.sim.with(Sim::take_journal)?;
            let journal = journal.ok_or("the simulation records no journal")?;
            if journal.overwritten > 0 {
                return Err(
                    "the journal overflowed: it is too small for the Sets of the reaction".into(),
                );
            }
            if !journal.is_empty() {
                quiet_since = now();
            }
            sets.extend(journal.entries().map(|entry| (entry.time, entry.attribute)));
            if quiet_since.elapsed() >= QUIET {
                return Ok(sets);
            }
            std::thread::sleep(QUIET / 16);
        }
        Err(format!("{} still sends Sets after the time limit", self.name).into())
    }
}

impl Reaction {
    /// Adds the figures of this reaction to those of the manager `name`.
    fn add_to(&self, comparison: &mut Comparison, name: &'static str) {
        // An event that did not occur counts with the time limit, so that the figures show it.
        let ms = |time: Option<Duration>| milliseconds(time.unwrap_or(LIMIT));
        let figures = comparison.of(name);
        figures.add("delivered_ms", ms(self.delivered));
        figures.add("last_block_ms", ms(self.last_block));
        figures.add("last_set_ms", ms(self.last_set));
        figures.add("blocks", self.blocks as f64);
    }
}
