//! Switches lose power: how long until packets arrive again, and until the last Set.
//!
//! `cargo bench -p rsm-tests --bench power_off [-- [--spec SPEC] [--rounds N] [--only NAME] [--faults PART]]`.
//! Each manager runs resident on a fabric of its own, which this process simulates, and reaches it
//! through the shim. In each round every fault strikes one manager after the other: the switches
//! lose power, so that their links go down and they stop answering, and get it back when the
//! manager rests.
//!
//! `delivered_ms` is the time from the fault until a sample of packets between all hosts that are
//! still cabled arrives, `last_block_ms` that until the last block of a forwarding table is
//! written, `last_set_ms` until the last Set. "without traps" loses every trap; the managers then
//! notice by sweeping, rsm twice a second, OpenSM once (its least).

mod options;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_mad::wire::header::AttrId;
use rsm_routing::netlist::{Netlist, NodeKind};
use rsm_sim::Sim;
use rsm_sim::live::LiveError;
use rsm_tests::binaries;
use rsm_tests::clock::now;
use rsm_tests::hosted::Hosted;
use rsm_tests::load::Place;
use rsm_tests::measure::{Comparison, milliseconds};
use rsm_tests::sm::{OpenSm, Rsm};

use options::Options;

const DEFAULT_SPECS: [&str; 2] = ["superpod", "fat-tree:k=8,levels=3"];

/// Longest a manager may take to bring the subnet up, or to deal with a fault.
const LIMIT: Duration = Duration::from_secs(300);

/// How long a manager must send no Set to count as resting: longer than OpenSM waits for a silent
/// node in one phase.
const QUIET: Duration = Duration::from_secs(4);

/// The interval of the sample of packets.
const LOOK: Duration = Duration::from_millis(2);

/// The number of hosts that each host sends to.
const DESTINATIONS: usize = 4;

/// Room for every Set of a reaction.
const JOURNAL: usize = 1 << 20;

type Failure = Box<dyn std::error::Error>;

/// The switches that lose power together.
struct Fault {
    name: &'static str,
    switches: Vec<Guid>,
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
    hosts: Vec<Place>,
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
            let mut comparisons: BTreeMap<&str, Comparison> = BTreeMap::new();
            for name in ["rsm", "opensm"] {
                if !options.takes_part(name) {
                    continue;
                }
                let contender = Contender::start(name, &netlist, with_traps)?;
                let faults = faults(&netlist, contender.fabric.place.0);
                for fault in faults.iter().filter(|fault| options.has_faults(fault.name)) {
                    for _ in 0..options.rounds() {
                        let reaction = contender.strike(fault)?;
                        let comparison = comparisons.entry(fault.name).or_default();
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

/// The faults: switches at the top, one next to the manager's leaf, a leaf other than the
/// manager's.
fn faults(netlist: &Netlist, manager: Guid) -> Vec<Fault> {
    let tiers = tiers(netlist);
    let top = tiers.values().copied().max().unwrap_or(0);
    let in_tier = |tier| {
        let of_tier = tiers.iter().filter(move |&(_, &own)| own == tier);
        of_tier.map(|(&node, _)| node).collect::<Vec<usize>>()
    };
    let (leaves, spines) = (in_tier(1), in_tier(top));
    let neighbours = neighbours(netlist);
    let manager = netlist.by_guid(manager).unwrap_or_default();
    let own_leaf = neighbours[manager].first().copied().unwrap_or_default();
    let in_own_pod = neighbours[own_leaf]
        .iter()
        .find(|node| tiers.get(node) == Some(&2))
        .copied();
    let other_leaf = leaves.iter().rev().find(|&&leaf| leaf != own_leaf).copied();
    let guids = |nodes: &[usize]| {
        nodes
            .iter()
            .map(|&node| netlist.nodes()[node].guid)
            .collect()
    };
    let middle = spines.len() / 2;
    let mut faults = vec![
        Fault {
            name: "a spine",
            switches: guids(&spines[middle..=middle]),
        },
        Fault {
            name: "two spines",
            switches: guids(&[spines[middle], spines[spines.len() - 1]]),
        },
    ];
    let single = [
        ("a leaf", other_leaf),
        ("a spine of the manager's pod", in_own_pod),
    ];
    faults.extend(single.into_iter().filter_map(|(name, node)| {
        Some(Fault {
            name,
            switches: guids(&[node?]),
        })
    }));
    faults
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
        let (hosts, _) = fabric.hosts()?;
        let contender = Contender {
            name,
            _resident: resident,
            fabric,
            hosts,
        };
        contender.wait_until_it_rests()?;
        Ok(contender)
    }

    fn strike(&self, fault: &Fault) -> Result<Reaction, Failure> {
        let pairs = self.sample(&fault.switches)?;
        let victims = fault.switches.clone();
        let struck = self.fabric.sim.with(move |sim| {
            sim.take_journal();
            for switch in victims {
                sim.power_off(switch)?;
            }
            Ok::<Time, rsm_sim::SimError>(sim.now())
        })??;
        let delivered = self.wait_until_delivered(pairs)?;
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
        let victims = fault.switches.clone();
        self.fabric.sim.with(move |sim| {
            let mut powered = victims.into_iter();
            powered.try_for_each(|switch| sim.power_on(switch))
        })??;
        self.wait_until_it_rests()?;
        Ok(reaction)
    }

    /// Pairs of hosts that keep a cable to a switch with power.
    fn sample(&self, victims: &[Guid]) -> Result<Vec<(Place, Place)>, LiveError> {
        let victims = victims.to_vec();
        let hosts = self.hosts.clone();
        self.fabric.sim.with(move |sim| {
            let stays = |host: &&Place| {
                let peer = sim.peer(host.node, host.port);
                !matches!(peer, Ok(Some((leaf, _))) if victims.contains(&leaf))
            };
            let hosts: Vec<Place> = hosts.iter().filter(stays).copied().collect();
            let stride = hosts.len() / (DESTINATIONS + 1);
            let pair = |index: usize, step: usize| {
                let other = hosts[(index + step * stride + 1) % hosts.len()];
                (hosts[index], other)
            };
            (0..hosts.len())
                .flat_map(|index| (0..DESTINATIONS).map(move |step| (index, step)))
                .map(|(index, step)| pair(index, step))
                .collect()
        })
    }

    /// When all packets between `pairs` arrived again, after some were lost.
    fn wait_until_delivered(&self, pairs: Vec<(Place, Place)>) -> Result<Option<Time>, Failure> {
        let last = now() + LIMIT;
        let pairs = std::sync::Arc::new(pairs);
        // Try the pair that lost a packet last first: a poll costs one packet until that one
        // arrives.
        let mut first = 0;
        while now() < last {
            let pairs = pairs.clone();
            let (time, lost) = self
                .fabric
                .sim
                .with(move |sim| (sim.now(), first_lost(sim, &pairs, first)))?;
            match lost {
                None => return Ok(Some(time)),
                Some(lost) => first = lost,
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

/// The first pair from `first` on, all around, between which a packet is lost.
fn first_lost(sim: &Sim, pairs: &[(Place, Place)], first: usize) -> Option<usize> {
    let order = (first..pairs.len()).chain(0..first);
    order.into_iter().find(|&index| {
        let (from, to) = pairs[index];
        let packet = sim.probe((from.node, from.port), to.lid, 0);
        !packet.is_ok_and(|probe| probe.is_delivered())
    })
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
