//! Generated stories: faults and innocent causes on three fabrics, each judged without knowledge of
//! the cause.
//!
//! The stories of a fabric follow each other in one world, hours apart, so that each story has the
//! faults of all earlier stories in its history. Paths are found hop by hop with the code of
//! `rsmctl route`, which the assessment does not use.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rsm_api::Subnet;
use rsm_api::v1::{self, BlameVerdict};
use rsm_config::parse_partitions;
use rsm_core::{CoreConfig, Event};
use rsm_ids::{Guid, LinkSpeed, LinkWidth, PortKey, PortNum};
use rsm_mad::wire::perf::Counter;
use rsm_plan::policy::Policy;
use rsm_routing::generate::generate;
use rsm_routing::generate::rng::Rng;
use rsm_routing::netlist::NodeKind;

use super::blame::{Counted, ask};
use super::world::*;

const FABRICS: [(&str, &str); 3] = [
    ("two levels", "pgft:2;4,6;1,4;1,1"),
    ("SuperPOD", "superpod:su=1"),
    ("three levels", "fat-tree:k=4,levels=3"),
];

/// The plot of a story.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Plot {
    // Innocent causes.
    SlowGpu,
    HostPaused,
    WrongPartition,
    ErrorsOffThePaths,
    FlapOffThePaths,
    ErrorsBefore,
    StrangerReboots,
    // Faults of the fabric.
    FlapOnAPath,
    ErrorsOnAPath,
    ReducedWidth,
    Discards,
    CongestedByOthers,
    HostUnplugged,
    SwitchReboots,
}

use Plot::*;

const INNOCENT: [Plot; 7] = [
    SlowGpu,
    HostPaused,
    WrongPartition,
    ErrorsOffThePaths,
    FlapOffThePaths,
    ErrorsBefore,
    StrangerReboots,
];

const FAULTS: [Plot; 7] = [
    FlapOnAPath,
    ErrorsOnAPath,
    ReducedWidth,
    Discards,
    CongestedByOthers,
    HostUnplugged,
    SwitchReboots,
];

/// A fabric with the story under way.
struct Stage {
    world: World,
    rng: Rng,
    /// Nodes of each host, with the host's name.
    hosts: Vec<(String, Vec<Guid>)>,
    counted: Counted,
}

/// The directions between switches that packets of a job pass, and the directions of the cables of
/// the job's hosts.
struct Paths {
    between: Vec<(PortKey, PortKey)>,
    all: BTreeSet<PortKey>,
}

impl Stage {
    fn set(spec: &str) -> Stage {
        let netlist = generate(spec).unwrap();
        let mut hosts: BTreeMap<String, Vec<Guid>> = BTreeMap::new();
        for node in netlist
            .nodes()
            .iter()
            .filter(|node| node.kind == NodeKind::Ca)
        {
            let text = String::from_utf8_lossy(&node.description).into_owned();
            let name = text.split(' ').next().unwrap().to_owned();
            hosts.entry(name).or_default().push(node.guid);
        }
        let hosts: Vec<_> = hosts.into_iter().collect();
        let mut world = World::of(&netlist, hosts[0].1[0]);
        world.run(Duration::from_secs(60));
        assert!(world.core.is_settled());
        Stage {
            world,
            rng: Rng::new(7),
            hosts,
            counted: Counted::default(),
        }
    }

    /// Chooses some hosts, never the manager's, because stories take hosts away.
    fn pick_job(&mut self) -> Vec<usize> {
        let mut job = BTreeSet::new();
        let size = 2 + self.rng.below(5);
        while job.len() < size {
            job.insert(1 + self.rng.below(self.hosts.len() - 1));
        }
        job.into_iter().collect()
    }

    fn nodes(&self, job: &[usize]) -> Vec<Guid> {
        job.iter()
            .flat_map(|&host| self.hosts[host].1.clone())
            .collect()
    }

    fn peer(&self, port: PortKey) -> PortKey {
        let fabric = self.world.snapshot().fabric;
        fabric.port(fabric.find_port(port).unwrap()).peer.unwrap()
    }

    fn paths(&self, job: &[usize]) -> Paths {
        let nodes = self.nodes(job);
        let mut between = BTreeSet::new();
        let mut all = BTreeSet::new();
        for &from in &nodes {
            for &to in nodes.iter().filter(|&&to| to != from) {
                let (from, to) = (named(&from.to_string()), named(&to.to_string()));
                let route = self.world.view.route(&from, &to).unwrap().route.unwrap();
                for (at, hop) in route.hops.iter().enumerate() {
                    let Some(out) = hop.out_port else { continue };
                    let port = PortKey::new(hop.node_guid.parse().unwrap(), PortNum(out as u8));
                    all.insert(port);
                    if at > 0 && at + 2 < route.hops.len() {
                        between.insert(port);
                    }
                }
            }
        }
        Paths {
            between: between
                .into_iter()
                .map(|port| (port, self.peer(port)))
                .collect(),
            all,
        }
    }

    fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.rng.below(from.len())]
    }

    /// A cable between switches that no packet of the job passes in either direction.
    fn unused_cable(&mut self, paths: &Paths) -> Option<(PortKey, PortKey)> {
        let fabric = self.world.snapshot().fabric;
        let cables = fabric.links().map(|(a, b)| (fabric.key(a), fabric.key(b)));
        let is_between = |key: PortKey| fabric.is_switch(key.node);
        let free: Vec<_> = cables
            .filter(|&(a, b)| is_between(a) && is_between(b))
            .filter(|(a, b)| !paths.all.contains(a) && !paths.all.contains(b))
            .collect();
        (!free.is_empty()).then(|| self.choose(&free))
    }

    fn seconds(&mut self, seconds: u64) {
        self.world.run(Duration::from_secs(seconds));
    }

    fn flap(&mut self, port: PortKey) {
        self.world.sim.unlink(port.node, port.port).unwrap();
        self.seconds(8);
        self.world.sim.relink(port.node, port.port).unwrap();
    }

    /// Makes all hosts but `excluded` full members of a partition, and all hosts limited members of
    /// the default partition, so that `excluded` reaches no other host. `None` restores full
    /// membership for all.
    fn divide(&mut self, excluded: Option<Guid>) {
        let fabric = self.world.snapshot().fabric;
        let guid = |node| fabric.node_of(node).unwrap().ports[1].guid;
        let text = match excluded {
            None => "Default=0x7fff : ALL=full ;".to_owned(),
            Some(_) => {
                let others = self.hosts.iter().flat_map(|(_, nodes)| nodes);
                let others = others.filter(|&&node| Some(node) != excluded);
                let others: Vec<String> =
                    others.map(|&node| format!("{}=full", guid(node))).collect();
                format!(
                    "Default=0x7fff : ALL=limited, ALL_SWITCHES=full, SELF=full ;\nA=0x10 : {} ;",
                    others.join(", ")
                )
            }
        };
        let (partitions, findings) = parse_partitions(Path::new("p"), &text, true);
        assert_eq!(findings, []);
        let policy = Policy {
            partitions: Arc::new(partitions),
            ..Policy::default()
        };
        let config = CoreConfig {
            policy: Arc::new(policy),
            light_sweep: Duration::ZERO,
            ..CoreConfig::default()
        };
        self.world.handle(Event::Reload(Box::new(config)));
        self.seconds(20);
    }

    /// Plays the story for a job. Returns the nodes or ports at fault, and the repair.
    fn play(&mut self, plot: Plot, job: &[usize]) -> Option<(BTreeSet<String>, Repair)> {
        let paths = self.paths(job);
        match INNOCENT.contains(&plot) {
            true => Some((BTreeSet::new(), self.play_innocent(plot, job, &paths)?)),
            false => self.play_fault(plot, job, &paths),
        }
    }

    fn play_innocent(&mut self, plot: Plot, job: &[usize], paths: &Paths) -> Option<Repair> {
        let at = self.world.view.unix_ms();
        let nodes = self.nodes(job);
        match plot {
            SlowGpu => {
                for node in self.nodes(&job[..1]) {
                    self.counted.idle(self.peer(PortKey::new(node, PortNum(1))));
                }
            }
            HostPaused => {
                let node = self.choose(&nodes);
                let leaf = self.peer(PortKey::new(node, PortNum(1)));
                self.counted.waits(leaf, 0.97, 0.03);
                // All ports that lead to that leaf wait as well.
                let victims = paths.between.iter().filter(|(_, to)| to.node == leaf.node);
                for &(victim, _) in victims {
                    self.counted.waits(victim, 0.4, 0.1);
                }
                self.counted.errors(leaf, Counter::XmitDiscards, 900, at);
            }
            WrongPartition => {
                let excluded = self.choose(&nodes);
                self.divide(Some(excluded));
                return Some(Repair::Partitions);
            }
            ErrorsOffThePaths => {
                let (a, b) = self.unused_cable(paths)?;
                for end in [a, b] {
                    self.counted.errors(end, Counter::SymbolError, 9000, at);
                    self.counted.errors(end, Counter::LinkErrorRecovery, 50, at);
                }
            }
            FlapOffThePaths => {
                let (a, _) = self.unused_cable(paths)?;
                self.flap(a);
            }
            ErrorsBefore => {
                let &(_, to) = paths.between.first()?;
                self.counted
                    .errors(to, Counter::SymbolError, 9000, at - 600_000);
            }
            StrangerReboots => {
                let strangers = 1..self.hosts.len();
                let strangers: Vec<usize> = strangers.filter(|host| !job.contains(host)).collect();
                let host = self.choose(&strangers);
                for node in self.hosts[host].1.clone() {
                    self.world.sim.reboot(node).unwrap();
                }
            }
            _ => unreachable!("{plot:?} is a fault"),
        }
        Some(Repair::Nothing)
    }

    fn play_fault(
        &mut self,
        plot: Plot,
        job: &[usize],
        paths: &Paths,
    ) -> Option<(BTreeSet<String>, Repair)> {
        let at = self.world.view.unix_ms();
        let mut guilty = BTreeSet::new();
        let mut repair = Repair::Nothing;
        let fabric = self.world.snapshot().fabric;
        let name = |key: PortKey| format!("{}:{}", fabric.name(key.node), key.port);
        let nodes = self.nodes(job);
        let (port, to) = self.choose(&paths.between);
        if matches!(
            plot,
            FlapOnAPath | ReducedWidth | Discards | CongestedByOthers
        ) {
            guilty.extend([name(port), name(to)]);
        }
        match plot {
            FlapOnAPath => {
                self.flap(port);
            }
            ErrorsOnAPath => {
                let all: Vec<PortKey> = paths.all.iter().copied().collect();
                let port = self.choose(&all);
                let to = self.peer(port);
                guilty.extend([name(port), name(to)]);
                let counters = [
                    Counter::SymbolError,
                    Counter::RcvErrors,
                    Counter::LinkErrorRecovery,
                ];
                let counter = self.choose(&counters);
                self.counted.errors(to, counter, 400, at + 5000);
            }
            ReducedWidth => {
                let sim = &mut self.world.sim;
                sim.set_cable_rate(port.node, port.port, LinkWidth::X1, LinkSpeed::Sdr)
                    .unwrap();
                repair = Repair::Rate(port);
            }
            Discards => {
                self.counted.errors(port, Counter::XmitDiscards, 200, at);
            }
            CongestedByOthers => {
                self.counted.waits(port, 0.5, 0.98);
                for node in nodes {
                    let own = PortKey::new(node, PortNum(1));
                    if self.peer(own).node == port.node {
                        self.counted.waits(own, 0.3, 0.3);
                    }
                }
            }
            HostUnplugged => {
                let node = self.choose(&nodes);
                let own = PortKey::new(node, PortNum(1));
                let leaf = self.peer(own);
                guilty.extend([name(own), name(leaf), fabric.name(node)]);
                self.world.sim.unlink(leaf.node, leaf.port).unwrap();
                repair = Repair::Plug(leaf);
            }
            SwitchReboots => {
                let own = self.peer(PortKey::new(self.hosts[0].1[0], PortNum(1))).node;
                let others = paths.between.iter().filter(|(_, to)| to.node != own);
                let others: Vec<_> = others.copied().collect();
                if others.is_empty() {
                    return None;
                }
                let (_, to) = self.choose(&others);
                // Neighbours lose their link, so that their cables count as well.
                let node = fabric.node_of(to.node).unwrap();
                guilty.insert(node.name());
                for (near, far) in node.cables() {
                    guilty.extend([name(near), name(far), fabric.name(far.node)]);
                }
                self.world.sim.reboot(to.node).unwrap();
            }
            _ => unreachable!("{plot:?} is innocent"),
        }
        Some((guilty, repair))
    }

    fn undo(&mut self, repair: Repair) {
        match repair {
            Repair::Nothing => {}
            Repair::Partitions => self.divide(None),
            Repair::Rate(port) => {
                let sim = &mut self.world.sim;
                sim.set_cable_rate(port.node, port.port, LinkWidth::X4, LinkSpeed::Xdr)
                    .unwrap();
            }
            Repair::Plug(port) => self.world.sim.relink(port.node, port.port).unwrap(),
        }
        self.counted = Counted::default();
        self.seconds(3 * 3600);
        assert!(self.world.core.is_settled());
    }

    /// Adds errors and waits that every fabric has.
    fn add_noise(&mut self) {
        let fabric = self.world.snapshot().fabric;
        let ports: Vec<PortKey> = fabric.links().map(|(a, _)| fabric.key(a)).collect();
        let at = self.world.view.unix_ms();
        for _ in 0..10 {
            let port = self.choose(&ports);
            let count = 1 + self.rng.below(12) as u64;
            self.counted
                .errors(port, Counter::SymbolError, count, at + 1000);
            let port = self.choose(&ports);
            self.counted.waits(port, 0.06, 0.3);
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Repair {
    Nothing,
    Partitions,
    Rate(PortKey),
    Plug(PortKey),
}

/// Returns whether the judgement is right, and whether it blames a part without a fault.
fn grade(judgement: &v1::Judgement, guilty: &BTreeSet<String>) -> (bool, bool) {
    let is_guilty = |one: &v1::BlameEvidence| {
        let ends = one.place.split(" - ");
        ends.into_iter().any(|end| guilty.contains(end))
    };
    let blamed = judgement.evidence.iter().filter(|one| one.weight >= 60);
    let blames_good = blamed.clone().any(|one| !is_guilty(one));
    let is_right = match guilty.is_empty() {
        true => matches!(
            judgement.verdict(),
            BlameVerdict::No | BlameVerdict::Unlikely
        ),
        false => {
            judgement.verdict() == BlameVerdict::Likely
                && judgement.evidence.first().is_some_and(is_guilty)
        }
    };
    (is_right, blames_good)
}

/// Plays `count` stories on a fabric. Returns the number of right judgements, the number of
/// judgements that blame a good part, and the rows of the table by plot: right judgements of all.
#[expect(clippy::print_stdout, reason = "the table of stories")]
fn stories(spec: &str, count: usize, seed: u64) -> (usize, usize, BTreeMap<Plot, (usize, usize)>) {
    let mut stage = Stage::set(spec);
    stage.rng = Rng::new(seed);
    let (mut right, mut wronged) = (0, 0);
    let mut rows: BTreeMap<Plot, (usize, usize)> = BTreeMap::new();
    let mut played = 0;
    while played < count {
        let plots = if played % 2 == 0 { INNOCENT } else { FAULTS };
        let plot = stage.choose(&plots);
        let job = stage.pick_job();
        if stage.paths(&job).between.is_empty() {
            continue;
        }
        stage.add_noise();
        let since = stage.world.view.unix_ms();
        stage.seconds(20);
        let Some((guilty, repair)) = stage.play(plot, &job) else {
            continue;
        };
        stage.seconds(120);
        let names: Vec<String> = job
            .iter()
            .map(|&host| stage.hosts[host].0.clone())
            .collect();
        let judgement = ask(&stage.world, &names, since, &stage.counted);
        let (is_right, blames_good) = grade(&judgement, &guilty);
        if !is_right || blames_good {
            println!("{spec}, {plot:?}, {names:?}, guilty {guilty:?}: {judgement:#?}");
        }
        right += usize::from(is_right);
        wronged += usize::from(blames_good);
        let row = rows.entry(plot).or_default();
        *row = (row.0 + usize::from(is_right), row.1 + 1);
        played += 1;
        stage.undo(repair);
    }
    (right, wronged, rows)
}

#[test]
#[expect(clippy::print_stdout, reason = "the table of stories")]
fn of_two_hundred_stories_nearly_all_are_judged_right_and_no_good_part_is_blamed() {
    let (mut right, mut wronged, mut all) = (0, 0, 0);
    for ((name, spec), count) in FABRICS.into_iter().zip([67, 66, 67]) {
        let (of_fabric, blamed, rows) = stories(spec, count, count as u64);
        println!("{name} ({spec}): {of_fabric} of {count} right");
        for (plot, (good, of)) in rows {
            let kind = if INNOCENT.contains(&plot) {
                "innocent"
            } else {
                "fault"
            };
            println!(
                "  {kind:<9} {:<20} {good:>3} of {of:>3}",
                format!("{plot:?}")
            );
        }
        right += of_fabric;
        wronged += blamed;
        all += count;
    }
    println!("{right} of {all} right, {wronged} blame a good part");
    assert!(100 * right >= 95 * all, "{right} of {all}");
    assert_eq!(wronged, 0);
}
