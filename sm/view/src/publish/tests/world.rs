//! A small fabric, a core that manages it, and a view of both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rsm_api::Subnet;
use rsm_api::model::Selector;
use rsm_api::v1::Event as ApiEvent;
use rsm_api::v1::event::Change;
use rsm_config::{HealthPolicy, Isolate};
use rsm_core::{Core, CoreConfig, Effect, Event, SavedCoreState};
use rsm_ids::{Guid, PortNum};
use rsm_mad::Time;
use rsm_mad::transport::{Inbound, PortEvent};
use rsm_plan::avoid::Drained;
use rsm_routing::netlist::{Cable, LinkSpeed, LinkWidth, Netlist, Node, NodeKind};
use rsm_sim::{AttachId, Sim, SimConfig};
use rsm_state::{ChangeEffect, Convergence, Snapshot, Ticket};
use tokio::sync::mpsc;

use crate::publish::{Controller, UnixClock, View};

pub(super) const SPINE_A: Guid = Guid(0x100);
pub(super) const SPINE_B: Guid = Guid(0x200);
pub(super) const LEAF_1: Guid = Guid(0x300);
pub(super) const LEAF_2: Guid = Guid(0x400);
/// GUIDs of the hosts: 1 and 2 are at the first leaf, 3 and 4 at the second.
pub(super) const HOSTS: [Guid; 4] = [Guid(0x1000), Guid(0x1010), Guid(0x1020), Guid(0x1030)];

/// Unix time, in milliseconds, at which virtual time starts.
pub(super) const BEGIN_UNIX_MS: u64 = 1_000_000;

fn node(kind: NodeKind, guid: Guid, num_ports: u8, description: &str) -> Node {
    Node {
        kind,
        guid,
        system_image_guid: Guid::ZERO,
        vendor_id: 0x2c9,
        device_id: 0xd2f0,
        description: description.as_bytes().to_vec(),
        num_ports,
        enhanced_port0: false,
        ports: BTreeMap::new(),
    }
}

/// Two leaves with two hosts each (ports 1 and 2) under two spines (ports 3 and 4); the last two
/// hosts have the same description.
pub(super) fn netlist() -> Netlist {
    let cable = |a: (usize, u8), b: (usize, u8)| Cable {
        a: (a.0, PortNum(a.1)),
        b: (b.0, PortNum(b.1)),
        width: LinkWidth::X4,
        speed: LinkSpeed::Hdr,
    };
    let nodes = vec![
        node(NodeKind::Switch, SPINE_A, 2, "spine-a"),
        node(NodeKind::Switch, SPINE_B, 2, "spine-b"),
        node(NodeKind::Switch, LEAF_1, 5, "leaf-1"),
        node(NodeKind::Switch, LEAF_2, 5, "leaf-2"),
        node(NodeKind::Ca, HOSTS[0], 1, "host-1"),
        node(NodeKind::Ca, HOSTS[1], 1, "host-2"),
        node(NodeKind::Ca, HOSTS[2], 1, "twin"),
        node(NodeKind::Ca, HOSTS[3], 1, "twin"),
    ];
    let cables = vec![
        cable((0, 1), (2, 3)),
        cable((0, 2), (3, 3)),
        cable((1, 1), (2, 4)),
        cable((1, 2), (3, 4)),
        cable((2, 1), (4, 1)),
        cable((2, 2), (5, 1)),
        cable((3, 1), (6, 1)),
        cable((3, 2), (7, 1)),
    ];
    Netlist::new(nodes, cables).unwrap()
}

/// The time of a [`World`], as the view sees it.
#[derive(Clone, Default)]
pub(super) struct VirtualClock(Arc<AtomicU64>);

impl UnixClock for VirtualClock {
    fn now(&self) -> Time {
        Time::from_nanos(self.0.load(Ordering::Relaxed))
    }

    fn unix_ms(&self, at: Time) -> u64 {
        BEGIN_UNIX_MS + at.as_nanos() / 1_000_000
    }
}

/// A core that manages a simulated fabric in virtual time, and the view of that core.
pub(super) struct World {
    pub(super) core: Core,
    pub(super) sim: Sim,
    pub(super) view: Arc<View>,
    /// Tickets that the core answered.
    pub(super) done: Vec<(Ticket, Arc<Convergence>)>,
    pub(super) declined: Vec<(Ticket, String)>,
    /// Requests that would end an order of another operator, with that order.
    pub(super) of_another: Vec<(Ticket, Box<Drained>)>,
    /// Partition changes that the core accepted.
    pub(super) taken: Vec<(Ticket, ChangeEffect)>,
    client: AttachId,
    clock: VirtualClock,
    now: Time,
}

impl World {
    /// A fabric after power-on, with the core at the first host.
    pub(super) fn new() -> World {
        World::of(&netlist(), HOSTS[0])
    }

    /// The fabric of `netlist` after power-on, with the core at port 1 of a host.
    pub(super) fn of(netlist: &Netlist, host: Guid) -> World {
        let mut sim = Sim::new(netlist, SimConfig::default(), 1).unwrap();
        let client = sim.attach(host, PortNum(1)).unwrap();
        let clock = VirtualClock::default();
        let config = CoreConfig {
            light_sweep: Duration::ZERO,
            health: HealthPolicy {
                isolate: Isolate::On,
                ..HealthPolicy::default()
            },
            ..CoreConfig::default()
        };
        let mut world = World {
            core: Core::new(config, SavedCoreState::default()),
            sim,
            view: Arc::new(View::new(
                "sim:test".to_owned(),
                true,
                Box::new(clock.clone()),
            )),
            done: Vec::new(),
            declined: Vec::new(),
            of_another: Vec::new(),
            taken: Vec::new(),
            client,
            clock,
            now: Time::ZERO,
        };
        world.core.handle_deadline(Time::ZERO);
        world
    }

    /// The fabric after the first convergence.
    pub(super) fn up() -> World {
        let mut world = World::new();
        world.run(Duration::from_secs(2));
        assert!(world.core.is_settled(), "{:?}", world.view.status());
        world
    }

    pub(super) fn handle(&mut self, event: Event) {
        self.core.handle(event, self.now);
    }

    /// Lets `duration` pass.
    pub(super) fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            self.carry_out();
            let due = [self.sim.next_event(), self.core.next_deadline()];
            let next = due.into_iter().flatten().min();
            let Some(next) = next.filter(|&next| next <= end) else {
                break;
            };
            self.pass_to(next);
            while let Some((_, inbound)) = self.sim.poll(self.now) {
                if !is_echo(&inbound) {
                    self.core.handle(Event::Inbound(inbound), self.now);
                    self.carry_out();
                }
            }
            if self.core.next_deadline().is_some_and(|due| due <= self.now) {
                self.core.handle_deadline(self.now);
            }
        }
        self.pass_to(end);
        assert!(self.sim.poll(self.now).is_none());
    }

    fn pass_to(&mut self, time: Time) {
        self.now = self.now.max(time);
        self.clock.0.store(self.now.as_nanos(), Ordering::Relaxed);
    }

    fn carry_out(&mut self) {
        while let Some(effect) = self.core.poll_effect(self.now) {
            match effect {
                Effect::Send { datagram, .. } => self.sim.send(self.client, &datagram, self.now),
                Effect::Plan(job) => {
                    let generation = job.generation;
                    let outcome = rsm_plan::plan(&job);
                    self.handle(Event::Planned {
                        generation,
                        outcome,
                    });
                }
                Effect::Publish(snapshot) => self.view.replace(snapshot),
                Effect::Done {
                    ticket,
                    convergence,
                } => self.done.push((ticket, convergence)),
                Effect::Declined { ticket, reason } => self.declined.push((ticket, reason)),
                Effect::CutOff { ticket, reason, .. } => self.declined.push((ticket, reason)),
                Effect::OfAnother { ticket, order } => self.of_another.push((ticket, order)),
                Effect::PartitionRefused { ticket, error } => {
                    self.declined.push((ticket, error.to_string()));
                }
                Effect::PartitionTaken { ticket, effect } => self.taken.push((ticket, *effect)),
                Effect::Epoch(_)
                | Effect::Prepare(_)
                | Effect::Remember(_)
                | Effect::Converged(_)
                | Effect::Notice(_)
                | Effect::Serve(_)
                | Effect::Foreseen(_) => {}
            }
        }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot::clone(&self.view.snapshot())
    }

    /// The events with numbers above `sequence`.
    pub(super) fn events_after(&self, sequence: u64) -> Vec<Arc<ApiEvent>> {
        self.view.events(sequence, usize::MAX)
    }

    /// The number of the latest event; 0 if there is none.
    pub(super) fn last_event_number(&self) -> u64 {
        self.events_after(0)
            .last()
            .map_or(0, |event| event.sequence)
    }
}

/// Time for which a test waits for a command.
pub(super) const WAIT: Duration = Duration::from_secs(5);

/// Has a controller ask the core, and lets the core work until there is an answer.
pub(super) async fn carry_out<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    world: &mut World,
    ask: impl FnOnce(Arc<Controller>) -> F,
) -> T {
    let (sender, mut events) = mpsc::channel::<Event>(8);
    let controller = Arc::new(Controller::new(sender, world.view.clone()));
    let asked = tokio::spawn(ask(controller.clone()));
    while !asked.is_finished() {
        tokio::task::yield_now().await;
        while let Ok(event) = events.try_recv() {
            world.handle(event);
        }
        world.run(WAIT);
        for (ticket, effect) in std::mem::take(&mut world.taken) {
            controller.partition_taken(ticket, effect);
        }
        for (ticket, convergence) in std::mem::take(&mut world.done) {
            controller.request_done(ticket, &convergence);
        }
        for (ticket, reason) in std::mem::take(&mut world.declined) {
            controller.request_declined(ticket, reason);
        }
        for (ticket, order) in std::mem::take(&mut world.of_another) {
            controller.of_another(ticket, &order);
        }
    }
    asked.await.unwrap()
}

/// Whether a datagram is a trap of the local port about Sets that the core itself made. Such traps
/// may cause a convergence of their own, and the tests count convergences.
fn is_echo(inbound: &Inbound) -> bool {
    matches!(
        inbound,
        Inbound::Port(PortEvent::LidChanged | PortEvent::SmChanged | PortEvent::ClientReregister)
    )
}

/// A view without a snapshot, whose clock stands still.
pub(super) fn blank_view() -> View {
    View::new(
        "sim:test".to_owned(),
        true,
        Box::new(VirtualClock::default()),
    )
}

pub(super) fn named(text: &str) -> Selector {
    text.parse().unwrap()
}

pub(super) fn change_of(event: &ApiEvent) -> &Change {
    event.change.as_ref().unwrap()
}

/// The kind of a change, for comparisons of lists.
pub(super) fn kind_of(change: &Change) -> &'static str {
    match change {
        Change::StateChanged(_) => "state changed",
        Change::NodeAppeared(_) => "node appeared",
        Change::NodeVanished(_) => "node vanished",
        Change::NodeChanged(_) => "node changed",
        Change::PortAppeared(_) => "port appeared",
        Change::PortVanished(_) => "port vanished",
        Change::PortChanged(_) => "port changed",
        Change::LinkAppeared(_) => "link appeared",
        Change::LinkVanished(_) => "link vanished",
        Change::LinkChanged(_) => "link changed",
        Change::RoutesChanged(_) => "routes changed",
        Change::FindingRaised(_) => "finding raised",
        Change::FindingCleared(_) => "finding cleared",
        Change::ConvergenceFinished(_) => "convergence finished",
        Change::ManagerStarted(_) => "manager started",
        Change::OperatorActed(_) => "operator acted",
        Change::EventsUnrecorded(_) => "events unrecorded",
    }
}
