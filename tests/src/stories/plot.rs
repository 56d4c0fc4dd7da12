//! The plot of a story: events, and the truth about them.

use std::collections::BTreeSet;
use std::time::Duration;

use rsm_ids::{Guid, LinkRate, PortNum};
use rsm_mad::wire::perf::Counter;

use super::kind::Kind;
use super::site::{Paths, Port, Site, Topology};
use crate::virtual_time::Dice;

/// The time for which a cable is out when it flaps.
const OUT: Duration = Duration::from_millis(400);

/// The time between two flaps of a cable.
const BETWEEN: Duration = Duration::from_secs(2);

/// Something that is done to the fabric.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// A counter of a port moves by so many a second.
    Count(Port, Counter, f64),
    /// A cable goes out and in again, so many times.
    Flap(Port, usize),
    /// A cable is pulled out.
    Unplug(Port),
    /// A cable falls to a lower rate.
    Degrade(Port, LinkRate),
    /// A node restarts.
    Reboot(Guid),
    /// A node dies.
    PowerOff(Guid),
    /// An operator drains a cable.
    Drain(Port),
}

impl Act {
    /// The ports at which the act can be noticed.
    fn touches(&self, topology: &Topology) -> BTreeSet<Port> {
        let ports: Vec<Port> = match *self {
            Act::Count(port, ..)
            | Act::Flap(port, _)
            | Act::Unplug(port)
            | Act::Degrade(port, _)
            | Act::Drain(port) => vec![port],
            Act::Reboot(node) | Act::PowerOff(node) => topology.ports(node).collect(),
        };
        let both = ports.iter().flat_map(|port| [*port, topology.peers[port]]);
        both.collect()
    }

    /// Whether a link goes down.
    pub(super) fn is_change(&self) -> bool {
        !matches!(self, Act::Count(..) | Act::Drain(_))
    }

    /// The act, for people.
    pub(super) fn text(&self, site: &Site) -> String {
        let topology = &site.topology;
        match *self {
            Act::Count(port, counter, rate) => {
                format!("{counter} of {} by {rate:.3}/s", topology.label(port))
            }
            Act::Flap(port, times) => format!("{} flaps {times} times", topology.label(port)),
            Act::Unplug(port) => format!("{} unplugged", topology.label(port)),
            Act::Degrade(port, rate) => format!("{} falls to {rate}", topology.label(port)),
            Act::Reboot(node) => format!("{} restarts", topology.names[&node]),
            Act::PowerOff(node) => format!("{} dies", topology.names[&node]),
            Act::Drain(port) => format!("{} drained", topology.label(port)),
        }
    }

    /// Does the act.
    pub(super) fn run(&self, site: &Site) {
        let guid = |port: Port| format!("{}:{}", port.0, port.1.0);
        match *self {
            Act::Count((node, port), counter, rate) => {
                let set = site.act(move |sim| sim.set_errors(node, port, counter, rate));
                set.expect("the port exists");
            }
            Act::Flap(port, times) => {
                for _ in 0..times {
                    Act::Unplug(port).run(site);
                    std::thread::sleep(OUT);
                    Act::Unplug(port).undo(site);
                    std::thread::sleep(BETWEEN);
                }
            }
            Act::Unplug((node, port)) => {
                let done = site.act(move |sim| sim.unlink(node, port));
                done.expect("the port has a cable");
            }
            Act::Degrade((node, port), rate) => {
                let done =
                    site.act(move |sim| sim.set_cable_rate(node, port, rate.width, rate.speed));
                done.expect("the port has a cable");
            }
            Act::Reboot(node) => site
                .act(move |sim| sim.reboot(node))
                .expect("the node exists"),
            Act::PowerOff(node) => {
                site.act(move |sim| sim.power_off(node))
                    .expect("the node exists");
            }
            Act::Drain(port) => {
                let drained = site.rsmctl(&["drain", &guid(port), "--note", "transceiver"]);
                drained.success().expect("a spare cable can be drained");
            }
        }
    }

    /// Undoes what lasts of the act.
    pub(super) fn undo(&self, site: &Site) {
        match *self {
            Act::Count(port, counter, _) => Act::Count(port, counter, 0.0).run(site),
            Act::Degrade(port, _) => Act::Degrade(port, site.topology.rate).run(site),
            Act::Unplug((node, port)) => {
                let done = site.act(move |sim| sim.relink(node, port));
                done.expect("the port has a cable");
            }
            Act::PowerOff(node) => {
                site.act(move |sim| sim.power_on(node))
                    .expect("the node exists");
            }
            Act::Drain(port) => {
                let undrained = site.rsmctl(&["undrain", &format!("{}:{}", port.0, port.1.0)]);
                undrained
                    .success()
                    .expect("a drained cable can be used again");
            }
            Act::Flap(..) | Act::Reboot(_) => {}
        }
    }
}

/// The truth of a story.
#[derive(Clone, Debug)]
pub(super) enum Truth {
    /// The fabric slows the job: a cable, named by one of its ports.
    Cable(Port),
    /// The fabric slows the job: a node.
    Node(Guid),
    /// The fabric is not at fault.
    NotFabric,
    /// Hosts of the job have no common partition.
    Partition,
}

/// The events of a story.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    /// Events before T that last, as damage of a cable or an operator's command does.
    pub(super) lasting: Vec<Act>,
    /// Events that begin and end before T.
    pub(super) before: Vec<Act>,
    /// Events after T.
    pub(super) during: Vec<Act>,
    pub(super) truth: Truth,
    /// Whether no packet of the job may cross what the acts touch.
    pub(super) is_elsewhere: bool,
}

impl Plot {
    fn of(truth: Truth, during: Vec<Act>) -> Plot {
        Plot {
            lasting: Vec::new(),
            before: Vec::new(),
            during,
            truth,
            is_elsewhere: false,
        }
    }

    fn elsewhere(during: Vec<Act>) -> Plot {
        Plot {
            is_elsewhere: true,
            ..Plot::of(Truth::NotFabric, during)
        }
    }

    fn before(before: Vec<Act>) -> Plot {
        Plot {
            before,
            ..Plot::of(Truth::NotFabric, Vec::new())
        }
    }

    /// Whether a link goes down after T.
    pub(super) fn changes_links(&self) -> bool {
        self.during.iter().any(Act::is_change)
    }

    /// The ports at which something happens.
    pub(super) fn touches(&self, topology: &Topology) -> BTreeSet<Port> {
        let acts = self.lasting.iter().chain(&self.before).chain(&self.during);
        acts.flat_map(|act| act.touches(topology)).collect()
    }
}

/// The parts that a plot can use: the job and its paths.
pub(super) struct Scene<'a> {
    pub(super) site: &'a Site,
    /// The indices of the hosts of the job.
    pub(super) job: &'a [usize],
    pub(super) paths: &'a Paths,
}

impl Scene<'_> {
    fn topology(&self) -> &Topology {
        &self.site.topology
    }

    fn peer(&self, port: Port) -> Port {
        self.topology().peers[&port]
    }

    fn is_switch(&self, port: Port) -> bool {
        self.topology().switches.contains(&port.0)
    }

    /// An exit of a switch to another one, on the paths of a rail of the job.
    fn inner_exit(&self, dice: &mut Dice) -> Option<Port> {
        let exits = self.paths.rails.iter().copied();
        let exits: Vec<Port> = exits
            .filter(|&exit| self.is_switch(exit) && self.is_switch(self.peer(exit)))
            .collect();
        (!exits.is_empty()).then(|| dice.pick(&exits))
    }

    /// The exit of a leaf to an adapter of the job.
    fn host_exit(&self, dice: &mut Dice) -> Port {
        let host = &self.topology().hosts[dice.pick(self.job)];
        self.peer((dice.pick(&host.adapters), PortNum(1)))
    }

    /// Any exit on the paths of the job, often between switches.
    fn exit(&self, dice: &mut Dice) -> Port {
        let inner = self.inner_exit(dice);
        inner
            .filter(|_| !dice.one_in(4))
            .unwrap_or_else(|| self.host_exit(dice))
    }

    /// A port of a cable between switches that no packet of the job crosses.
    fn spare(&self, dice: &mut Dice) -> Option<Port> {
        let peers = self.topology().peers.iter().map(|(&port, _)| port);
        let spares: Vec<Port> = peers
            .filter(|&port| {
                self.is_switch(port)
                    && self.is_switch(self.peer(port))
                    && !self.paths.exits.contains(&port)
                    && !self.paths.exits.contains(&self.peer(port))
            })
            .collect();
        (!spares.is_empty()).then(|| dice.pick(&spares))
    }

    /// A switch on the paths of the job, or elsewhere; never the leaf of rsm itself.
    fn switch(&self, is_leaf: bool, on_paths: bool, dice: &mut Dice) -> Option<Guid> {
        let topology = self.topology();
        let (rails, all): (BTreeSet<Guid>, BTreeSet<Guid>) = (
            self.paths.rails.iter().map(|exit| exit.0).collect(),
            self.paths.exits.iter().map(|exit| exit.0).collect(),
        );
        let switches: Vec<Guid> = topology
            .switches
            .iter()
            .copied()
            .filter(|&node| {
                let crossed = if on_paths {
                    rails.contains(&node)
                } else {
                    !all.contains(&node)
                };
                crossed && topology.leaves.contains(&node) == is_leaf && node != topology.home()
            })
            .collect();
        (!switches.is_empty()).then(|| dice.pick(&switches))
    }

    /// The number of PortXmitWait a second if data waits for this share of the time: a tick is the
    /// time in which the link carries four bytes.
    fn waits(&self, share: f64) -> f64 {
        share * self.topology().rate.gbps() * 1e9 / 32.0
    }

    /// Data flows at all adapters of the job, at `share` of the rate for one of its hosts and at a
    /// third for the others.
    fn traffic(&self, slow: usize, share: f64) -> Vec<Act> {
        let words = |share| self.waits(share);
        let mut acts = Vec::new();
        for &host in self.job {
            let share = if host == slow { share } else { 0.33 };
            for &adapter in &self.topology().hosts[host].adapters {
                let port = (adapter, PortNum(1));
                acts.push(Act::Count(port, Counter::XmitData, words(share)));
                acts.push(Act::Count(port, Counter::RcvData, words(share)));
                acts.push(Act::Count(self.peer(port), Counter::XmitData, words(share)));
                acts.push(Act::Count(self.peer(port), Counter::RcvData, words(share)));
            }
        }
        acts
    }
}

/// A number between two bounds.
fn between(dice: &mut Dice, low: f64, high: f64) -> f64 {
    low + (high - low) * dice.below(1001) as f64 / 1000.0
}

/// Draws what happens in a story of this kind; `None` if the job has no fitting part.
pub(super) fn draw(kind: Kind, scene: &Scene<'_>, dice: &mut Dice) -> Option<Plot> {
    match kind {
        Kind::SymbolErrors
        | Kind::ReceiveErrors
        | Kind::LinkRecoveries
        | Kind::IntegrityErrors
        | Kind::BufferOverruns
        | Kind::HostPortErrors
        | Kind::Discards
        | Kind::Congestion => draw_counts(kind, scene, dice),
        _ if kind.is_guilty() => draw_changes(kind, scene, dice),
        Kind::ErrorsElsewhere
        | Kind::WaitsElsewhere
        | Kind::FlapsElsewhere
        | Kind::NarrowElsewhere
        | Kind::RebootElsewhere
        | Kind::OtherHostGone
        | Kind::DrainedSpare => draw_elsewhere(kind, scene, dice),
        _ => draw_harmless(kind, scene, dice),
    }
}

/// Draws a cable of the job whose counters move.
fn draw_counts(kind: Kind, scene: &Scene<'_>, dice: &mut Dice) -> Option<Plot> {
    // Errors count where packets arrive, discards and waits where they should leave.
    let (counter, low, high) = match kind {
        Kind::SymbolErrors | Kind::HostPortErrors => (Counter::SymbolError, 3.0, 300.0),
        Kind::ReceiveErrors => (Counter::RcvErrors, 1.0, 30.0),
        Kind::LinkRecoveries => (Counter::LinkErrorRecovery, 0.3, 3.0),
        Kind::IntegrityErrors => (Counter::LocalLinkIntegrityErrors, 0.3, 3.0),
        Kind::BufferOverruns => (Counter::ExcessiveBufferOverrunErrors, 0.3, 3.0),
        Kind::Discards => (Counter::XmitDiscards, 5.0, 500.0),
        Kind::Congestion => (Counter::XmitWait, scene.waits(0.3), scene.waits(0.9)),
        _ => unreachable!("{kind:?} moves no counter"),
    };
    let exit = match kind {
        Kind::Discards | Kind::Congestion => scene.inner_exit(dice)?,
        Kind::HostPortErrors => {
            // What the adapter sends, or what the leaf sends to it.
            let exit = scene.host_exit(dice);
            dice.pick(&[exit, scene.peer(exit)])
        }
        _ => scene.exit(dice),
    };
    let counting = match kind {
        Kind::Discards | Kind::Congestion => exit,
        _ => scene.peer(exit),
    };
    let mut acts = vec![Act::Count(counting, counter, between(dice, low, high))];
    if kind == Kind::Congestion {
        // The link is full of the traffic of another job.
        let words = scene.waits(between(dice, 0.9, 0.98));
        acts.push(Act::Count(exit, Counter::XmitData, words));
        acts.push(Act::Count(scene.peer(exit), Counter::RcvData, words));
    }
    Some(Plot::of(Truth::Cable(exit), acts))
}

/// Draws a cable or a switch of the job that goes down, restarts or falls to a lower rate.
fn draw_changes(kind: Kind, scene: &Scene<'_>, dice: &mut Dice) -> Option<Plot> {
    let cable = |exit: Port, act: Act| Plot::of(Truth::Cable(exit), vec![act]);
    let node = |node: Guid, act: Act| Plot::of(Truth::Node(node), vec![act]);
    let degraded = |exit: Port, narrow: bool, dice: &mut Dice| {
        Act::Degrade(exit, scene.site.lower_rate(narrow, dice.below(2)))
    };
    Some(match kind {
        Kind::Flaps => {
            let exit = scene.inner_exit(dice)?;
            cable(exit, Act::Flap(exit, 2 + dice.below(2)))
        }
        Kind::HostLinkFlaps => {
            let exit = scene.host_exit(dice);
            cable(exit, Act::Flap(exit, 2 + dice.below(2)))
        }
        Kind::HostUnplugged => {
            let exit = scene.host_exit(dice);
            cable(exit, Act::Unplug(exit))
        }
        Kind::NarrowCable | Kind::SlowCable => {
            let exit = scene.exit(dice);
            cable(exit, degraded(exit, kind == Kind::NarrowCable, dice))
        }
        Kind::NarrowBefore => {
            let exit = scene.exit(dice);
            Plot {
                lasting: vec![degraded(exit, true, dice)],
                ..Plot::of(Truth::Cable(exit), Vec::new())
            }
        }
        Kind::LeafReboot | Kind::SpineReboot => {
            let switch = scene.switch(kind == Kind::LeafReboot, true, dice)?;
            node(switch, Act::Reboot(switch))
        }
        Kind::LeafLost | Kind::SpineLost => {
            let switch = scene.switch(kind == Kind::LeafLost, true, dice)?;
            node(switch, Act::PowerOff(switch))
        }
        _ => unreachable!("{kind:?} changes no link of the job"),
    })
}

/// Draws a fault where no packet of the job passes.
fn draw_elsewhere(kind: Kind, scene: &Scene<'_>, dice: &mut Dice) -> Option<Plot> {
    if kind == Kind::OtherHostGone {
        let topology = scene.topology();
        let hosts: Vec<usize> = (1..topology.hosts.len())
            .filter(|host| !scene.job.contains(host))
            .collect();
        let adapters = topology.hosts[dice.pick(&hosts)].adapters.iter();
        let acts = adapters.map(|&adapter| Act::PowerOff(adapter));
        return Some(Plot::elsewhere(acts.collect()));
    }
    if kind == Kind::RebootElsewhere {
        let switch = scene.switch(dice.one_in(2), false, dice)?;
        return Some(Plot::elsewhere(vec![Act::Reboot(switch)]));
    }
    let spare = scene.spare(dice)?;
    let error = dice.pick(&[Counter::SymbolError, Counter::RcvErrors]);
    let errors = Act::Count(spare, error, between(dice, 3.0, 300.0));
    let act = match kind {
        Kind::ErrorsElsewhere | Kind::DrainedSpare => errors,
        Kind::WaitsElsewhere => {
            let waits = scene.waits(between(dice, 0.3, 0.9));
            Act::Count(spare, Counter::XmitWait, waits)
        }
        Kind::FlapsElsewhere => Act::Flap(spare, 2),
        Kind::NarrowElsewhere => Act::Degrade(spare, scene.site.lower_rate(true, dice.below(2))),
        _ => unreachable!("{kind:?} is no fault elsewhere"),
    };
    let mut plot = Plot::elsewhere(vec![act]);
    if kind == Kind::DrainedSpare {
        plot.lasting.push(Act::Drain(spare));
    }
    Some(plot)
}

/// Draws what slows no job, or slows it in its hosts.
fn draw_harmless(kind: Kind, scene: &Scene<'_>, dice: &mut Dice) -> Option<Plot> {
    let nothing = Plot::of(Truth::NotFabric, Vec::new());
    let count = |port: Port, counter: Counter, rate: f64| {
        Plot::of(Truth::NotFabric, vec![Act::Count(port, counter, rate)])
    };
    Some(match kind {
        Kind::Nothing => nothing,
        Kind::SlowGpu => {
            let (slow, share) = (dice.pick(scene.job), between(dice, 0.02, 0.15));
            Plot::of(Truth::NotFabric, scene.traffic(slow, share))
        }
        Kind::PausedHost => paused_host(scene, dice),
        Kind::WrongPartition => Plot::of(Truth::Partition, Vec::new()),
        Kind::ErrorsBefore => {
            let error = dice.pick(&[Counter::SymbolError, Counter::RcvErrors]);
            let port = scene.peer(scene.exit(dice));
            let errors = Act::Count(port, error, between(dice, 3.0, 300.0));
            Plot::before(vec![errors])
        }
        Kind::FlapsBefore => Plot::before(vec![Act::Flap(scene.exit(dice), 2)]),
        Kind::StandingCounters => {
            let crossed = scene.paths.cross(scene.topology(), &scene.site.scarred);
            return crossed.then_some(nothing);
        }
        Kind::ReverseErrors => {
            // What arrives at an exit came against the direction of the job's packets, if none of
            // them leaves the other end of the cable.
            let exits = scene.paths.rails.iter().copied();
            let one_way: Vec<Port> = exits
                .filter(|&exit| !scene.paths.exits.contains(&scene.peer(exit)))
                .collect();
            let exit = (!one_way.is_empty()).then(|| dice.pick(&one_way))?;
            count(exit, Counter::SymbolError, between(dice, 3.0, 300.0))
        }
        Kind::OneSymbolError => {
            // One error: the first after 33 to 40 seconds, the second after the question.
            let port = scene.peer(scene.exit(dice));
            count(port, Counter::SymbolError, between(dice, 0.025, 0.03))
        }
        Kind::SmallWaits => {
            let waits = scene.waits(between(dice, 0.01, 0.03));
            count(scene.exit(dice), Counter::XmitWait, waits)
        }
        Kind::ManagementDrops => {
            let port = scene.peer(scene.exit(dice));
            count(port, Counter::Vl15Dropped, between(dice, 0.2, 3.0))
        }
        _ => unreachable!("{kind:?} harms a job"),
    })
}

/// A leaf cannot deliver to a host that takes nothing, and data waits at the switch before, too.
fn paused_host(scene: &Scene<'_>, dice: &mut Dice) -> Plot {
    let exit = scene.host_exit(dice);
    let waits = scene.waits(between(dice, 0.5, 0.95));
    let mut acts = vec![Act::Count(exit, Counter::XmitWait, waits)];
    let to_leaf = scene.paths.rails.iter().copied();
    let to_leaf = to_leaf.filter(|&port| scene.peer(port).0 == exit.0 && scene.is_switch(port));
    let victims: Vec<Port> = to_leaf.collect();
    if !victims.is_empty() && dice.one_in(2) {
        let waits = scene.waits(between(dice, 0.15, 0.4));
        acts.push(Act::Count(dice.pick(&victims), Counter::XmitWait, waits));
    }
    Plot::of(Truth::NotFabric, acts)
}
