//! A fabric with subnet managers, and the changes that a test schedules.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rsm_config::m_keys::KeyHolder;
use rsm_core::{CoreConfig, Event};
use rsm_gdr::hosts::GpuInventory;
use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::Time;
use rsm_mad::transport::{Datagram, Inbound, PortEvent};
use rsm_mad::wire::attr::{PortState, SmControl};
use rsm_model::alias_guids::AliasGuids;
use rsm_monitor::health::PortErrors;
use rsm_plan::groups::{GroupMembers, GroupSet};
use rsm_routing::generate::generate;
use rsm_routing::netlist::{Netlist, NodeKind};
use rsm_sim::{AttachId, Sim};
use rsm_state::Command;

use super::deliveries::Deliveries;
use super::expect;
use super::foreign::ForeignManager;
use super::ledger::Ledger;
use super::manager::{AfterStall, Manager, Memory};
use super::settings::Settings;
use super::shared::SharedStore;
use super::watch::{BlockWrite, Watch};

/// The number of consecutive deadlines at one moment without any change after which a run counts as
/// stuck.
const IDLE_DEADLINES: usize = 1000;

/// The maximum time for the bring-up of a small fabric without faults.
const BRING_UP_LIMIT: Duration = Duration::from_secs(60);

/// The capacity of the journal: twice the number of Sets that can take effect between two readings,
/// which is a window of requests.
const JOURNAL_CAPACITY: usize = 1 << 16;

/// A scheduled change of the world.
type Change = Box<dyn FnOnce(&mut World)>;

/// A fabric with subnet managers, in virtual time.
pub struct World {
    /// The hardware. Tests inject faults into it directly.
    pub sim: Sim,
    settings: Settings,
    pub(super) managers: Vec<Manager>,
    /// The store that all managers share, if their configuration names one.
    pub(super) shared: Option<SharedStore>,
    foreign: BTreeMap<AttachId, ForeignManager>,
    /// The events of the ports at which hosts without a program listen.
    heard: BTreeMap<AttachId, Vec<PortEvent>>,
    /// The scheduled changes, by time and then in the order of scheduling.
    agenda: BTreeMap<(Time, u64), Change>,
    /// The number of changes scheduled so far.
    scheduled: u64,
    pub(super) now: Time,
    watch: Option<Watch>,
    deliveries: Option<Deliveries>,
    ledger: Option<Ledger>,
    pub(super) groups: GroupSet,
    /// The states of the managers' ports at the last poll.
    port_states: BTreeMap<AttachId, PortState>,
}

impl World {
    /// Creates the fabric of `netlist`, powered and without a subnet manager.
    ///
    /// # Panics
    ///
    /// The settings do not fit the netlist.
    #[must_use]
    pub fn new(netlist: &Netlist, settings: Settings) -> World {
        World {
            shared: settings
                .core
                .mastership
                .shares_store
                .then(SharedStore::default),
            sim: Sim::new(netlist, settings.sim.clone(), settings.seed)
                .expect("the settings fit the netlist"),
            settings,
            managers: Vec::new(),
            foreign: BTreeMap::new(),
            heard: BTreeMap::new(),
            agenda: BTreeMap::new(),
            scheduled: 0,
            now: Time::ZERO,
            watch: None,
            deliveries: None,
            ledger: None,
            groups: GroupSet::default(),
            port_states: BTreeMap::new(),
        }
    }

    /// Creates a generated fabric with a subnet manager at its first host, which has not brought
    /// the subnet up yet.
    ///
    /// # Panics
    ///
    /// `spec` does not specify a fabric with a cabled host.
    #[must_use]
    pub fn generated(spec: &str, settings: Settings) -> World {
        let netlist = generate(spec).expect("the specification is valid");
        let mut world = World::new(&netlist, settings);
        let (host, port) = first_host(&netlist);
        world.add_manager(host, port);
        world
    }

    /// Creates a generated fabric with two managers that share a store, under a [`Watch`]: the
    /// master at the first host, and a standby at the last host that has just started.
    ///
    /// # Panics
    ///
    /// `spec` does not specify a fabric with two hosts, or the master is not at rest within
    /// `limit`.
    #[must_use]
    pub fn shared(spec: &str, floating_lid: bool, limit: Duration) -> World {
        let mut world = World::generated(spec, Settings::sharing(floating_lid));
        world.watch();
        world.settle(limit);
        let last = *world
            .nodes(NodeKind::Ca)
            .last()
            .expect("the fabric has hosts");
        world.add_manager(last, PortNum(1));
        world
    }

    /// Creates a generated fabric that a subnet manager at its first host has brought up, with a
    /// [`Watch`] from the beginning.
    ///
    /// # Panics
    ///
    /// `spec` does not specify a fabric with a cabled host, or the subnet does not come up without
    /// violations.
    #[must_use]
    pub fn brought_up(spec: &str, settings: Settings) -> World {
        let mut world = World::generated(spec, settings);
        world.bring_up();
        world
    }

    /// Brings the subnet up for the first time, under a [`Watch`].
    ///
    /// # Panics
    ///
    /// The subnet does not come up as it should.
    pub fn bring_up(&mut self) {
        self.watch();
        self.settle(BRING_UP_LIMIT);
        expect::assert_up(self);
        expect::assert_no_findings(self);
        self.watched().assert_harmless();
    }

    /// Starts a subnet manager at a port. Returns its index; the first manager has index 0.
    ///
    /// # Panics
    ///
    /// The port does not exist or is taken.
    pub fn add_manager(&mut self, node: Guid, port: PortNum) -> usize {
        self.add_manager_with(node, port, self.settings.core.clone())
    }

    /// Starts a subnet manager like [`World::add_manager`], with its own configuration.
    ///
    /// # Panics
    ///
    /// The port does not exist or is taken.
    pub fn add_manager_with(&mut self, node: Guid, port: PortNum, config: CoreConfig) -> usize {
        let attach = self.sim.attach(node, port).expect("the port is free");
        self.managers.push(Manager::new(attach, config));
        let index = self.managers.len() - 1;
        self.start(index, Memory::Lost);
        index
    }

    /// Attaches a foreign subnet manager to a port.
    ///
    /// # Panics
    ///
    /// The port does not exist or is taken.
    pub fn add_foreign(&mut self, node: Guid, port: PortNum, manager: ForeignManager) -> AttachId {
        let attach = self.sim.attach(node, port).expect("the port is free");
        self.sim.set_is_sm(attach, true);
        self.foreign.insert(attach, manager);
        attach
    }

    /// The foreign subnet manager at a port.
    ///
    /// # Panics
    ///
    /// No foreign subnet manager is at the port.
    #[must_use]
    pub fn foreign(&self, attach: AttachId) -> &ForeignManager {
        &self.foreign[&attach]
    }

    /// Records the events of a port as the host at the port receives them.
    ///
    /// # Panics
    ///
    /// The port does not exist or is taken.
    pub fn listen(&mut self, node: Guid, port: PortNum) -> AttachId {
        let attach = self.sim.attach(node, port).expect("the port is free");
        self.heard.insert(attach, Vec::new());
        attach
    }

    /// The events that a host has received since the last call.
    ///
    /// # Panics
    ///
    /// The host does not listen.
    pub fn take_heard(&mut self, attach: AttachId) -> Vec<PortEvent> {
        let heard = self.heard.get_mut(&attach).expect("the host listens");
        std::mem::take(heard)
    }

    /// The foreign subnet manager at a port, to change its answers.
    ///
    /// # Panics
    ///
    /// No foreign subnet manager is at the port.
    pub fn foreign_mut(&mut self, attach: AttachId) -> &mut ForeignManager {
        self.foreign
            .get_mut(&attach)
            .expect("the foreign manager is attached")
    }

    /// Sends SubnSet(SMInfo) from a foreign subnet manager to the first manager of rsm.
    ///
    /// # Panics
    ///
    /// No foreign subnet manager is at the port, or rsm has no LID.
    pub fn order(&mut self, attach: AttachId, control: SmControl) {
        let inventory = self.manager().core().inventory();
        let own = inventory
            .hardware
            .local
            .and_then(|local| inventory.hardware.port(local));
        let lid = own
            .and_then(|port| port.info.as_ref())
            .expect("rsm has read its own port")
            .lid();
        let order = self.foreign(attach).order(lid, control);
        self.sim.send(attach, &order, self.now);
    }

    /// Removes a foreign subnet manager.
    pub fn remove_foreign(&mut self, attach: AttachId) {
        self.foreign.remove(&attach);
        self.sim.detach(attach);
    }

    /// Restarts a killed subnet manager.
    pub fn start(&mut self, index: usize, memory: Memory) {
        let manager = &mut self.managers[index];
        self.sim.set_is_sm(manager.attach, manager.manages());
        let local = self.sim.local_port(manager.attach);
        let at = local.map(|local| KeyHolder {
            port: PortKey::new(local.node_guid, local.port),
            guid: local.port_guid,
            is_switch: local.port == PortNum::ZERO,
        });
        let own = at.map(|port| port.guid);
        let shared = self.shared.as_ref();
        let stored = shared.and_then(|shared| shared.stored_by_another(index, own));
        manager.start(memory, at, stored, self.now);
        self.forget_held(index);
        self.schedule_first_read(index);
    }

    /// Kills a subnet manager at once. Its packets on the wire stay there.
    pub fn kill(&mut self, index: usize) {
        self.record_signs_of_life();
        let manager = &mut self.managers[index];
        manager.kill();
        self.sim.set_is_sm(manager.attach, false);
    }

    /// Stops a subnet manager for `pause`, as SIGSTOP and SIGCONT do: its port stays up, and
    /// arriving packets wait.
    pub fn pause_for(&mut self, index: usize, pause: Duration) {
        self.record_signs_of_life();
        self.managers[index].pause();
        self.schedule(pause, move |world| {
            let now = world.now;
            world.managers[index].resume(pause, now);
        });
    }

    /// Denies a subnet manager the processor for `stall`: its port stays up, arriving packets wait,
    /// and the manager is not notified.
    pub fn stall_for(&mut self, index: usize, stall: Duration, order: AfterStall) {
        self.managers[index].pause();
        self.schedule(stall, move |world| {
            let now = world.now;
            world.managers[index].resume_late(order, now);
        });
    }

    /// Keeps the findings of all snapshots of the first subnet manager; see [`Manager::shown`].
    pub fn keep_findings(&mut self) {
        self.managers[0].keep_findings();
    }

    /// The subnet manager that was added first.
    #[must_use]
    pub fn manager(&self) -> &Manager {
        &self.managers[0]
    }

    /// All subnet managers in the order in which they were added.
    #[must_use]
    pub fn managers(&self) -> &[Manager] {
        &self.managers
    }

    /// The nodes of a kind in the order of the netlist, including nodes without power.
    #[must_use]
    pub fn nodes(&self, kind: NodeKind) -> Vec<Guid> {
        let nodes = self.sim.nodes().filter(|&(_, other)| other == kind);
        nodes.map(|(guid, _)| guid).collect()
    }

    /// The current virtual time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Checks every further state on the wire; see [`Watch`].
    pub fn watch(&mut self) {
        self.observe();
        self.sim.start_journal(JOURNAL_CAPACITY);
        self.watch = Some(Watch::start(&self.sim));
    }

    /// Follows packets from every switch with hosts to every LID at every further Set; see
    /// [`Deliveries`]. Forgets earlier losses.
    pub fn follow_deliveries(&mut self) {
        self.observe();
        self.sim.start_journal(JOURNAL_CAPACITY);
        self.deliveries = Some(Deliveries::start(&self.sim));
    }

    /// The record of the followed packets.
    ///
    /// # Panics
    ///
    /// [`World::follow_deliveries`] was not called.
    #[must_use]
    pub fn deliveries(&self) -> &Deliveries {
        self.deliveries.as_ref().expect("packets are followed")
    }

    /// The findings of the watch.
    ///
    /// # Panics
    ///
    /// [`World::watch`] was not called.
    #[must_use]
    pub fn watched(&self) -> &Watch {
        self.watch.as_ref().expect("the watch was started")
    }

    /// Keeps all further changes of forwarding tables, and returns the changes kept so far; see
    /// [`World::watch`].
    ///
    /// # Panics
    ///
    /// [`World::watch`] was not called.
    pub fn keep_writes(&mut self) -> Vec<BlockWrite> {
        self.watch
            .as_mut()
            .expect("the watch was started")
            .keep_writes()
    }

    /// Keeps the snapshot of the SA beside each subnet manager; see [`Manager::sa_snapshot`].
    pub fn keep_sa_snapshot(&mut self) {
        self.managers.iter_mut().for_each(Manager::keep_sa_snapshot);
    }

    /// Counts all further requests, by target node. Forgets earlier counts.
    pub fn count_requests(&mut self) {
        self.ledger = Some(Ledger::default());
    }

    /// The counted requests.
    ///
    /// # Panics
    ///
    /// [`World::count_requests`] was not called.
    #[must_use]
    pub fn requests(&self) -> &Ledger {
        self.ledger.as_ref().expect("requests are counted")
    }

    /// Calls `change` after `delay`.
    pub fn schedule(&mut self, delay: Duration, change: impl FnOnce(&mut World) + 'static) {
        self.scheduled += 1;
        self.agenda
            .insert((self.now + delay, self.scheduled), Box::new(change));
    }

    /// Drops datagrams with the probability `loss` during an interval, which begins after `delay`
    /// and ends after `over`, both measured from now.
    ///
    /// # Panics
    ///
    /// Panics at the scheduled time if `loss` is not a probability.
    pub fn schedule_loss(&mut self, delay: Duration, over: Duration, loss: f64) {
        for (when, loss) in [(delay, loss), (over, 0.0)] {
            self.schedule(when, move |world| {
                world.sim.set_loss(loss).expect("the loss is a probability");
            });
        }
    }

    /// Kills the first subnet manager after `delay`, and restarts it after `over` unless it runs
    /// then; both times are measured from now.
    pub fn schedule_kill(&mut self, delay: Duration, over: Duration, memory: Memory) {
        self.schedule(delay, |world| world.kill(0));
        self.schedule(over, move |world| {
            if !world.manager().is_alive() {
                world.start(0, memory);
            }
        });
    }

    /// Sends a datagram from the port of a foreign subnet manager, which receives the answer.
    pub fn send_from(&mut self, attach: AttachId, datagram: &Datagram) {
        self.sim.send(attach, datagram, self.now);
    }

    /// Gives the first subnet manager a command.
    pub fn command(&mut self, command: Command) {
        self.command_to(0, command);
    }

    /// Gives the subnet manager with the index `index` a command.
    pub fn command_to(&mut self, index: usize, command: Command) {
        self.event_to(index, Event::Command(command));
    }

    /// Gives the first subnet manager an event.
    pub fn event(&mut self, event: Event) {
        self.event_to(0, event);
    }

    /// Gives the subnet manager with the index `index` an event.
    pub fn event_to(&mut self, index: usize, event: Event) {
        let now = self.now;
        self.managers[index].handle(event, now);
    }

    /// Makes the first subnet manager sweep the whole subnet again, and waits for the end.
    ///
    /// # Panics
    ///
    /// The subnet managers are not at rest within `limit`.
    pub fn resweep(&mut self, limit: Duration) {
        self.command(Command::Resweep {
            full: true,
            ticket: 0,
        });
        self.settle(limit);
    }

    /// Passes the ports whose counters exceed a limit to the first subnet manager. These ports
    /// replace the ports of earlier calls.
    pub fn port_errors(&mut self, errors: BTreeMap<PortKey, PortErrors>) {
        let now = self.now;
        self.managers[0].handle(Event::PortErrors(Arc::new(errors)), now);
    }

    /// The multicast groups and their members.
    #[must_use]
    pub fn groups(&self) -> &GroupSet {
        &self.groups
    }

    /// Changes the members of a multicast LID (port GUIDs, and whether they receive), and passes
    /// the groups to the first subnet manager.
    pub fn regroup(&mut self, mlid: Lid, change: impl FnOnce(&mut BTreeMap<Guid, bool>)) {
        let members = self.groups.by_mlid.get(&mlid);
        let mut ports = members.map_or_else(BTreeMap::new, |members| members.ports.clone());
        change(&mut ports);
        if ports.is_empty() {
            self.groups.by_mlid.remove(&mlid);
        } else {
            let members = Arc::new(GroupMembers { ports });
            self.groups.by_mlid.insert(mlid, members);
            Arc::make_mut(&mut self.groups.levels)
                .entry(mlid)
                .or_insert(1);
        }
        self.tell_groups(Arc::new(self.groups.clone()));
    }

    /// Passes the multicast groups to the first subnet manager. These groups replace the groups of
    /// earlier calls.
    pub fn tell_groups(&mut self, groups: Arc<GroupSet>) {
        self.groups = GroupSet::clone(&groups);
        let now = self.now;
        self.managers[0].regroup(groups, now);
    }

    /// Assigns the alias GUIDs to ports, and passes them to the first subnet manager.
    pub fn set_alias_guids(&mut self, guids: AliasGuids) {
        let now = self.now;
        self.managers[0].set_alias_guids(Arc::new(guids), now);
    }

    /// Passes the inventory of GPU hosts to the first subnet manager.
    pub fn set_gpus(&mut self, gpus: Arc<GpuInventory>) {
        let now = self.now;
        self.managers[0].set_gpus(gpus, now);
    }

    /// Removes the multicast members for good: subnet managers get only members that join again.
    pub fn lose_groups(&mut self) {
        self.groups = GroupSet {
            partial: true,
            ..GroupSet::default()
        };
        self.forget_groups();
    }

    /// Withholds the multicast members: subnet managers that start later get no groups.
    pub fn forget_groups(&mut self) {
        for manager in &mut self.managers {
            manager.forget_groups();
        }
    }

    /// Polls the state of every subnet manager's port, as a transport without port events does, and
    /// delivers the changes since the last poll.
    pub fn poll_ports(&mut self) {
        let clients: Vec<AttachId> = self.managers.iter().map(|one| one.attach).collect();
        for client in clients {
            let Some(local) = self.sim.local_port(client) else {
                continue;
            };
            let before = self.port_states.insert(client, local.state);
            let before = before.unwrap_or(local.state);
            let is_up = |state| !matches!(state, PortState::Down | PortState::NoChange);
            let event = match (is_up(before), is_up(local.state)) {
                (true, false) => PortEvent::Down,
                (false, true) => PortEvent::Up,
                (true, true) if before != PortState::Init && local.state == PortState::Init => {
                    PortEvent::Retrained
                }
                _ => continue,
            };
            let now = self.now;
            let manager = self.managers.iter_mut().find(|one| one.attach == client);
            if let Some(manager) = manager {
                manager.handle(Event::Inbound(Inbound::Port(event)), now);
            }
        }
    }

    /// Advances the time by `duration`.
    pub fn run_for(&mut self, duration: Duration) {
        let until = self.now + duration;
        self.run(until, |_| false);
    }

    /// Runs until every subnet manager is at rest and no packet is on the wire.
    ///
    /// # Panics
    ///
    /// The subnet managers are not at rest within `limit`.
    pub fn settle(&mut self, limit: Duration) {
        let until = self.now + limit;
        let quiet = self.run(until, World::is_quiet);
        assert!(
            quiet,
            "not quiet after {limit:?}: {}",
            self.describe_unrest()
        );
    }

    /// Tells whether every subnet manager is at rest, no packet is on the wire and no change is
    /// scheduled.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.agenda.is_empty()
            && self.managers.iter().all(Manager::is_settled)
            && self.sim.next_event().is_none()
    }

    /// Runs until the time `until`, or until `enough` returns true. Returns whether `enough`
    /// returned true.
    pub fn run(&mut self, until: Time, enough: impl Fn(&World) -> bool) -> bool {
        // The test may have changed the hardware since the last run.
        if let Some(watch) = &mut self.watch {
            watch.hardware_changed(&self.sim);
        }
        let mut idle = 0;
        loop {
            let mut effects = 0;
            for manager in &mut self.managers {
                let observers = (&mut self.ledger, &mut self.watch);
                effects += manager.take_effects(&mut self.sim, &self.settings, observers, self.now);
            }
            if effects > 0 {
                idle = 0;
            }
            self.carry_out_requests();
            if enough(self) {
                return true;
            }
            let due = self.next_deadline().map(|due| due.max(self.now));
            // The run advances step by step, to stop at the exact moment when `enough` returns
            // true.
            let limit = due
                .into_iter()
                .chain(self.sim.next_event())
                .fold(until, Time::min)
                .max(self.now);
            let before = self.now;
            match self.sim.poll(limit) {
                Some((client, inbound)) => {
                    self.now = self.sim.now();
                    self.observe();
                    self.deliver(client, inbound);
                }
                None => {
                    self.now = limit;
                    self.observe();
                    if due.is_some_and(|due| due <= limit) {
                        self.wake();
                    } else if limit >= until {
                        return enough(self);
                    }
                }
            }
            idle = if self.now > before { 0 } else { idle + 1 };
            assert!(
                idle < IDLE_DEADLINES,
                "a deadline at {limit:?} recurs without any change: {}",
                self.describe_unrest()
            );
        }
    }

    /// The time of the next deadline of a manager, or of the next scheduled change.
    fn next_deadline(&self) -> Option<Time> {
        self.managers
            .iter()
            .filter_map(Manager::next_deadline)
            .chain(self.agenda.keys().next().map(|&(when, _)| when))
            .min()
    }

    /// Makes the scheduled changes that are due, and lets managers handle their deadlines.
    fn wake(&mut self) {
        let now = self.now;
        while let Some(entry) = self.agenda.first_entry() {
            if entry.key().0 > now {
                break;
            }
            entry.remove()(self);
            self.observe();
            if let Some(watch) = &mut self.watch {
                watch.hardware_changed(&self.sim);
            }
        }
        for manager in &mut self.managers {
            manager.wake(now);
        }
    }

    /// Replays the Sets since the last call to the watch.
    fn observe(&mut self) {
        if self.watch.is_none() && self.deliveries.is_none() {
            // Without a watch, the journal belongs to the test.
            return;
        }
        let Some(journal) = self.sim.take_journal() else {
            return;
        };
        assert_eq!(journal.overwritten, 0, "the journal is too small");
        for entry in journal.entries() {
            if let Some(watch) = &mut self.watch {
                watch.replay(&self.sim, entry);
            }
            if let Some(deliveries) = &mut self.deliveries {
                deliveries.replay(entry);
            }
        }
    }

    /// Passes an output of the fabric to the listening host or the manager at its port.
    fn deliver(&mut self, client: AttachId, inbound: Inbound) {
        let now = self.now;
        let of_link = matches!(inbound, Inbound::Port(PortEvent::Up | PortEvent::Down));
        if of_link && !self.settings.port_events {
            return;
        }
        if let Some(heard) = self.heard.get_mut(&client) {
            if let Inbound::Port(event) = inbound {
                heard.push(event);
            }
        } else if let Some(foreign) = self.foreign.get_mut(&client) {
            if let Some(reply) = foreign.answer(&inbound) {
                self.sim.send(client, &reply, now);
            }
        } else if let Some(manager) = self
            .managers
            .iter_mut()
            .find(|manager| manager.attach == client)
        {
            manager.handle(Event::Inbound(inbound), now);
        }
    }

    /// The reasons why the world is not at rest, for messages.
    fn describe_unrest(&self) -> String {
        let managers: Vec<String> = self
            .managers
            .iter()
            .map(|manager| {
                let repairs = manager.is_alive().then(|| manager.core().repairs());
                format!(
                    "settled {}, repairs {repairs:?}, next deadline {:?}, findings {:?}",
                    manager.is_settled(),
                    manager.next_deadline(),
                    manager.findings()
                )
            })
            .collect();
        format!(
            "at {:?}, {} on the agenda, next on the wire {:?}; {}",
            self.now,
            self.agenda.len(),
            self.sim.next_event(),
            managers.join("; ")
        )
    }
}

/// The first port of a channel adapter that has a cable.
///
/// # Panics
///
/// No channel adapter has a cable.
#[must_use]
pub fn first_host(netlist: &Netlist) -> (Guid, PortNum) {
    netlist
        .nodes()
        .iter()
        .enumerate()
        .filter(|(_, node)| node.kind == NodeKind::Ca)
        .find_map(|(index, node)| {
            let port = node
                .end_ports()
                .find(|&port| netlist.peer((index, port)).is_some())?;
            Some((node.guid, port))
        })
        .expect("the fabric has a cabled host")
}
