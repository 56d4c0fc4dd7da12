//! Switches lose power and cables are cut, one or many at one instant: how long until packets arrive
//! again, and until the last Set.
//!
//! `cargo bench -p rsm-tests --bench power_off [-- [--spec SPEC] [--rounds N] [--only NAME]
//! [--faults PART] [--loss PERCENT]]`.
//! Each manager runs resident on a fabric of its own, which this process simulates, and reaches it
//! through the shim. In each round every fault strikes one manager after the other, and ends when
//! the manager rests. The number of the round is the seed of what is chosen at random.
//!
//! `delivered_ms` is the time from the fault until packets between all hosts that links still join
//! to the manager arrive, by the tables of the switches, which a walker follows every few
//! milliseconds; `last_block_ms` is that until the last block of a forwarding table is written,
//! `last_set_ms` until the last Set. The times of the manager's own leaf count from its return.
//! With `--loss`, each packet between nodes is lost with that probability once the subnet is up.
//! "without traps" loses every trap, and single faults strike alone; the managers then notice by
//! sweeping, rsm twice a second, OpenSM once (its least).

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

/// Longest a manager may take to bring the subnet up, or to deal with a fault.
const LIMIT: Duration = Duration::from_secs(300);

/// How long a manager must send no Set to count as resting: longer than OpenSM waits for a silent
/// node in one phase.
const QUIET: Duration = Duration::from_secs(4);

/// How long the manager's own leaf is dead before it returns.
const DEAD: Duration = Duration::from_secs(6);

/// The pause between two looks of the walker.
const LOOK: Duration = Duration::from_millis(2);

/// Room for every Set of a reaction.
const JOURNAL: usize = 1 << 20;

type Failure = Box<dyn std::error::Error>;

/// Switches and cables that die together.
struct Fault {
    name: String,
    switches: Vec<Guid>,
    /// One end of each cable.
    cables: Vec<(Guid, PortNum)>,
    /// How long the parts are dead before the measurement begins, with their return; `None`: it
    /// begins with the fault.
    dead_for: Option<Duration>,
}

impl Fault {
    fn of_switches(name: &str, switches: Vec<Guid>) -> Fault {
        Fault {
            name: name.to_owned(),
            switches,
            cables: Vec::new(),
            dead_for: None,
        }
    }
}

/// A resident subnet manager.
enum Resident {
    Rsm { _process: Rsm },
    OpenSm { _process: OpenSm },
}

/// A manager with its fabric.
struct Contender {
    name: &'static str,
    // Drops before its fabric.
    _resident: Resident,
    fabric: Hosted,
}

/// The times of a manager's reaction, from the fault on. `None`: not within the limit, or without
/// any Set.
struct Reaction {
    delivered: Option<Duration>,
    last_block: Option<Duration>,
    last_set: Option<Duration>,
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
                        let reaction = contender.strike(fault)?;
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

/// The switches and cables of a fabric that faults choose from.
struct Layout<'a> {
    netlist: &'a Netlist,
    /// The switches, by their distance from the hosts.
    tiers: BTreeMap<usize, Vec<usize>>,
    /// The switch of the manager's host.
    own_leaf: usize,
    neighbours: Vec<Vec<usize>>,
}

impl Layout<'_> {
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

    /// Switches at the top, one next to the manager's leaf, a leaf other than the manager's.
    fn single_faults(&self) -> Vec<Fault> {
        let spines = self.top();
        let in_tier = |tier: usize| self.tiers.get(&tier).map_or(&[][..], Vec::as_slice);
        let in_own_pod = self.neighbours[self.own_leaf]
            .iter()
            .find(|node| in_tier(2).contains(node));
        let leaves = in_tier(1).iter().rev();
        let other_leaf = leaves.copied().find(|&leaf| leaf != self.own_leaf);
        let middle = spines.len() / 2;
        let (one, two) = ([spines[middle]], [spines[middle], spines[spines.len() - 1]]);
        let named = [
            ("a spine", Some(one.to_vec())),
            ("two spines", Some(two.to_vec())),
            ("a leaf", other_leaf.map(|leaf| vec![leaf])),
            (
                "a spine of the manager's pod",
                in_own_pod.map(|&spine| vec![spine]),
            ),
        ];
        named
            .into_iter()
            .filter_map(|(name, nodes)| Some(Fault::of_switches(name, self.guids(&nodes?))))
            .collect()
    }

    /// Half of the top tier, an eighth to a half of all switches, most cables between switches, and
    /// the manager's leaf, which no other of these faults includes.
    fn mass_faults(&self, dice: &mut Dice) -> Vec<Fault> {
        let spines = self.top();
        let (first, last) = spines.split_at(spines.len() / 2);
        let mut faults = vec![
            Fault::of_switches("mass: first half of the top tier", self.guids(first)),
            Fault::of_switches("mass: last half of the top tier", self.guids(last)),
        ];
        let switches = self.tiers.values().flatten().copied();
        let switches: Vec<usize> = switches.filter(|&node| node != self.own_leaf).collect();
        for parts in [8, 4, 2] {
            let count = (switches.len() + 1) / parts;
            let dead = some(switches.clone(), count, dice);
            let name = format!("mass: {count} random switches");
            faults.push(Fault::of_switches(&name, self.guids(&dead)));
        }
        let is_switch = |node: usize| self.netlist.nodes()[node].kind == NodeKind::Switch;
        let trunks = self.netlist.cables().iter();
        let trunks: Vec<(Guid, PortNum)> = trunks
            .filter(|cable| is_switch(cable.a.0) && is_switch(cable.b.0))
            .map(|cable| (self.netlist.nodes()[cable.a.0].guid, cable.a.1))
            .collect();
        let count = trunks.len() * 25 / 32;
        faults.push(Fault {
            name: format!("mass: {count} of {} cables between switches", trunks.len()),
            switches: Vec::new(),
            cables: some(trunks, count, dice),
            dead_for: None,
        });
        faults.push(Fault {
            dead_for: Some(DEAD),
            ..Fault::of_switches(
                "the manager's leaf, after its return",
                self.guids(&[self.own_leaf]),
            )
        });
        faults
    }
}

/// `count` of `all`, by the dice.
fn some<T>(mut all: Vec<T>, count: usize, dice: &mut Dice) -> Vec<T> {
    (0..count)
        .map(|_| all.swap_remove(dice.below(all.len())))
        .collect()
}

/// Each switch's distance from the nearest host.
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
        contender.wait_until_it_rests()?;
        Ok(contender)
    }

    fn strike(&self, fault: &Fault) -> Result<Reaction, Failure> {
        let manager = self.fabric.place;
        let walker = self.fabric.sim.with(move |sim| Walker::new(sim, manager))?;
        self.fabric.sim.with(Sim::take_journal)?;
        let mut struck = self.break_parts(fault)?;
        if let Some(dead_for) = fault.dead_for {
            std::thread::sleep(dead_for);
            self.fabric.sim.with(Sim::take_journal)?;
            struck = self.mend_parts(fault)?;
        }
        let delivered = self.wait_until_delivered(walker)?;
        let sets = self.wait_until_it_rests()?;
        let since = |time: Time| time.since(struck);
        let blocks = sets
            .iter()
            .filter(|set| set.1 == AttrId::LINEAR_FORWARDING_TABLE);
        let reaction = Reaction {
            delivered: delivered.map(since),
            last_block: blocks.clone().map(|set| set.0).max().map(since),
            last_set: sets.iter().map(|set| set.0).max().map(since),
            blocks: blocks.count(),
        };
        if fault.dead_for.is_none() {
            self.mend_parts(fault)?;
        }
        self.wait_until_it_rests()?;
        Ok(reaction)
    }

    /// Breaks all parts of the fault at one instant, and says when.
    fn break_parts(&self, fault: &Fault) -> Result<Time, Failure> {
        self.change_parts(fault, Sim::power_off, Sim::unlink)
    }

    /// Brings all parts of the fault back at one instant, and says when.
    fn mend_parts(&self, fault: &Fault) -> Result<Time, Failure> {
        self.change_parts(fault, Sim::power_on, Sim::relink)
    }

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

    /// When packets between all hosts that links join arrived again.
    fn wait_until_delivered(&self, walker: Walker) -> Result<Option<Time>, Failure> {
        let last = now() + LIMIT;
        let walker = Arc::new(walker);
        // The host that was unreached last first: a look costs little until it is reached.
        let mut first = 0;
        while now() < last {
            let walker = walker.clone();
            let look = move |sim: &mut Sim| (sim.now(), walker.first_lost(sim, first));
            match self.fabric.sim.with(look)? {
                (time, None) => return Ok(Some(time)),
                (_, Some(lost)) => first = lost,
            }
            std::thread::sleep(LOOK);
        }
        Ok(None)
    }

    /// Waits until no Set has been sent for a while, and takes the Sets since the last call: time
    /// and attribute.
    fn wait_until_it_rests(&self) -> Result<Vec<(Time, AttrId)>, Failure> {
        let mut sets = Vec::new();
        let last = now() + LIMIT;
        let mut quiet_since = now();
        while now() < last {
            let journal = self.fabric.sim.with(Sim::take_journal)?;
            let journal = journal.ok_or("the simulation keeps no journal")?;
            if journal.overwritten > 0 {
                return Err("more Sets than the journal holds".into());
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
        Err(format!("{} does not rest", self.name).into())
    }
}

impl Reaction {
    fn add_to(&self, comparison: &mut Comparison, name: &'static str) {
        // A missing reaction counts as the limit: it must not vanish from the figures.
        let of = |time: Option<Duration>| milliseconds(time.unwrap_or(LIMIT));
        let figures = comparison.of(name);
        figures.add("delivered_ms", of(self.delivered));
        figures.add("last_block_ms", of(self.last_block));
        figures.add("last_set_ms", of(self.last_set));
        figures.add("blocks", self.blocks as f64);
    }
}
