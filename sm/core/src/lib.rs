//! The core: one state machine from events to effects, without I/O, clock or thread.
//!
//! ```text
//! Event ─▶ handle ─▶ [ Idle ─▶ Sweeping ─▶ Planning ─▶ Pushing ─▶ Idle ] ─▶ poll_effect ─▶ Effect
//! ```
//!
//! Events (start-up, a trap, an operator's request, a missing answer) become [`work::Work`]. When
//! the core is idle, it takes the waiting work through the stages. Work that arrives during a pass
//! joins a sweep under way, or waits for the end of the pass. Urgent work interrupts a push if the
//! remaining Sets would take longer than another discovery and plan; the next comparison then
//! includes these Sets.
//!
//! A run depends only on the events and their times.
//!
//! Input: an [`Event`] and its time. Output: an [`Effect`] for each datagram to send, plan to
//! compute, snapshot to publish and state to store; the daemon carries them out. The core sends a
//! Set only while it is sure to be master, and only for a difference from the plan.
//!
//! The core must never do I/O, wait, start a thread, or decide a route.

mod adaptive;
mod congestion;
mod convergence;
mod dry_run;
pub mod event;
mod events;
mod first_sweep;
mod foreign_writes;
mod hostile;
mod links;
mod local_port;
mod m_keys;
mod mastership;
pub mod members;
mod missing_parts;
mod outbox;
mod passes;
mod planning;
mod plans;
mod pushing;
mod rebalancing;
mod reports;
mod requests;
mod saved_state;
mod settings;
mod silences;
mod silent_nodes;
mod snapshot;
mod stage;
mod traps;
mod trials;
pub mod work;
mod writing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rsm_config::m_keys::KeyHolder;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_mad::client::{Client, Completion, Request, RequestFailure};
use rsm_mad::transport::{Datagram, Inbound, SendFailure};
use rsm_mad::wire::attr::NodeType;
use rsm_mad::wire::header::MadHeader;
use rsm_mastership::Mastership;
pub use rsm_mastership::{EpochRequest, MastershipPolicy};
use rsm_model::fabric::Fabric;
use rsm_plan::Plan;
use rsm_state::{Activity, Convergence, Following, PassProgress, Role};

use self::congestion::CongestionState;
use self::convergence::ConvergenceRecorder;
pub use self::event::{Effect, EpochEvent, Event};
use self::first_sweep::FirstSweep;
use self::foreign_writes::ForeignWrites;
pub use self::hostile::Hostility;
use self::links::Links;
use self::links::damping::Released;
use self::local_port::LocalPort;
use self::m_keys::KeyRotation;
use self::members::Members;
use self::missing_parts::MissingParts;
use self::outbox::Outbox;
use self::plans::Plans;
use self::plans::assigned::Assigned;
use self::reports::Reports;
use self::requests::Context;
pub use self::saved_state::SavedCoreState;
pub use self::settings::{CoreConfig, Mode};
use self::silent_nodes::{Silence, Situation};
use self::stage::Stage;
use self::traps::TrapHandler;
use self::trials::Trials;
use self::work::{FullSweep, Work};
use self::writing::Writing;

/// The part of the plan that a pass through the stages may change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pass {
    /// Everything.
    Full,
    /// Multicast tables.
    Multicast,
    /// Entries that lead to the fullest links. This pass starts when no other work waits, and
    /// urgent work discards it.
    Rebalance,
    /// Routes and PortInfo: a standby that has read the subnet takes over, and writes before it
    /// has read the whole subnet again.
    Succession,
}

/// The state machine of the subnet manager.
///
/// The effect of each event in each stage:
///
/// ```text
///            answer          silence         trap, command      plan          urgent work
/// Idle       –               –               work waits         dropped       begins a pass
/// Sweeping   into inventory  suspects, other joins the sweep,   dropped       ends the wait for
///                            paths           or work waits; a full            silent nodes
///                                            sweep gives way
/// Planning   –               –               work waits         ends it: push drops a rebalancing
/// Pushing    into inventory  Set repeated    work waits         dropped       stops a push whose rest
///                                                                             takes longer than a plan
/// HandingOver ends it        ends it         work waits         dropped       –
/// ```
///
/// Each field is a state machine; `Core` passes results between them.
pub struct Core {
    /// The settings.
    config: CoreConfig,
    /// The MAD client with the requests under way.
    client: Client<Context>,
    /// State of the hardware, as read and written.
    inventory: Inventory,
    /// Model after the last sweep.
    fabric: Arc<Fabric>,
    /// Nodes and cables that were present before and are missing.
    missing: MissingParts,
    /// Members of multicast groups.
    members: Members,
    /// Settings on trial, until their first plan.
    trials: Trials,
    /// The plan in force, and assignments that later plans keep.
    plans: Plans,
    /// State of writing plans to the hardware.
    writing: Writing,
    /// Stage under way.
    stage: Stage,
    /// The changes that the pass under way may make.
    pass: Pass,
    /// Work that waits for the core to be idle.
    work: Work,
    /// Cost of the pass under way, and of past passes.
    recorder: ConvergenceRecorder,
    /// State of the first sweep, and of an early bring-up.
    first_sweep: FirstSweep,
    /// State that decides how long the core waits for nodes that do not answer.
    silence: Silence,
    /// Traps received so far.
    traps: TrapHandler,
    /// Bad links, and the links that routes leave out.
    links: Links,
    /// Nodes whose content differed from the content that this manager had written.
    foreign_writes: ForeignWrites,
    /// Congestion control.
    congestion: CongestionState,
    /// The announced rotation of M_Keys, if there is one.
    rotation: KeyRotation,
    /// The role among other managers, the right to write, and takeovers.
    mastership: Mastership,
    /// State of this manager's own port.
    local_port: LocalPort,
    /// Findings, and the times at which snapshots are published.
    reports: Reports,
    /// Effects that wait for the daemon.
    outbox: Outbox,
}

impl Core {
    /// A subnet manager that begins with a full sweep. `remembered` is the state that an earlier
    /// run has stored.
    pub fn new(mut config: CoreConfig, remembered: SavedCoreState) -> Core {
        let mut work = Work::default();
        work.sweep_everything(FullSweep::before_writing(false), "start");
        let mut inventory = Inventory::default();
        inventory.hardware.habits = remembered.habits;
        let links = Links::new(&config, &remembered.health);
        let mut avoid = remembered.avoid;
        links.isolate_again(&remembered.health, &mut avoid);
        inventory.hardware.capabilities = remembered.capabilities;
        inventory.local_before = remembered.local;
        m_keys::set_key_generations(&mut config.policy, remembered.generations);
        Core {
            client: Client::new(config.client.clone()),
            inventory,
            fabric: Arc::default(),
            missing: MissingParts::restored(remembered.cabling, config.design.clone()),
            members: Members::default(),
            writing: Writing::new(remembered.not_kept, remembered.reregister),
            trials: Trials::new(avoid, remembered.overlay, &mut config.policy),
            plans: Plans::new(
                remembered.generation,
                config.reassigns_lids,
                remembered.gpus,
                Assigned {
                    claims: remembered.claims,
                    positions: remembered.positions,
                    group_ids: remembered.group_ids,
                },
            ),
            congestion: CongestionState::new(&config),
            rotation: KeyRotation::default(),
            mastership: Mastership::new(config.mastership.clone(), remembered.is_pushing),
            stage: Stage::Idle,
            work,
            recorder: ConvergenceRecorder::default(),
            traps: TrapHandler::default(),
            links,
            foreign_writes: ForeignWrites::default(),
            first_sweep: FirstSweep::new(!config.mastership.starts_inactive),
            silence: Silence::default(),
            reports: Reports::default(),
            outbox: Outbox::default(),
            local_port: LocalPort::default(),
            pass: Pass::Full,
            config,
        }
    }

    /// Sets the manager's own port, as the host's driver reports it. Requests to this port then
    /// have the right M_Key from the start.
    pub fn attach(&mut self, port: KeyHolder) {
        self.inventory.attached = Some(port);
    }

    /// Handles an event that happened at `now`.
    pub fn handle(&mut self, event: Event, now: Time) {
        match event {
            Event::Inbound(inbound) => self.on_inbound(inbound, now),
            Event::Planned {
                generation,
                outcome,
            } => self.on_planned(generation, outcome, now),
            Event::Prepared(outcome) => self.on_prepared(outcome, now),
            Event::Groups(groups) => self.on_groups(groups),
            Event::Guids(guids) => self.on_guids(guids),
            Event::GpuHosts(gpus) => {
                self.plans.set_gpus(gpus);
                self.work.plan_again("GPU hosts reported inventories");
            }
            Event::Reregister(ports) => self.on_reregister(&ports),
            Event::PortErrors(errors) => self.on_port_errors(errors, now),
            Event::Paused(_) => {
                self.on_mastership(now, |mastership, view| mastership.on_pause(view, now));
            }
            Event::Epoch(event) => self.on_epoch(event, now),
            Event::Command(command) => self.on_command(command, now),
            Event::Reload(config) => self.on_reload(*config, now),
            Event::Refused(findings) => {
                self.reports.set_configuration_findings(findings);
                self.publish(now);
            }
        }
        self.run(now);
    }

    /// Handles an event of the transport.
    fn on_inbound(&mut self, inbound: Inbound, now: Time) {
        if self.congestion.on_inbound(&inbound, now) {
            return;
        }
        match inbound {
            Inbound::Mad(datagram) => self.on_datagram(&datagram, now),
            Inbound::SendFailed { tid, kind, .. } => {
                self.client.handle_send_failed(tid, kind, now);
            }
            Inbound::Port(port) => self.on_port_event(port, now),
        }
    }

    /// Does the work that is due at `now`.
    pub fn handle_deadline(&mut self, now: Time) {
        self.client.handle_deadline(now);
        self.congestion.handle_deadline(now);
        if self.work.take_light(now) {
            match self.mastership.role() {
                Role::Standby { .. } => self.work.poll_master(),
                Role::NotActive => {}
                Role::Discovering | Role::Master => self.work.sweep_lightly(),
            }
        }
        match self.links.release_quiet(now) {
            Released::None => {}
            Released::OfHosts => self.publish(now),
            Released::OfRoutes => self.work.plan_again("a flapping link is quiet"),
        }
        let ends_finding = self.traps.release(now) | self.links.note_ended_errors(now);
        if self.links.release_healthy(now) {
            self.health_changed(now);
        } else if ends_finding {
            self.publish(now);
        }
        if self.members.expire(now) {
            self.work.regroup();
        }
        self.on_mastership(now, |mastership, view| {
            mastership.handle_deadline(view, now)
        });
        self.begin_due_rotation(now);
        self.give_bounce_up(now);
        if self.reports.publish_at.is_some_and(|when| when <= now) {
            self.publish_findings(now);
        }
        if self.silence.silences.take_change_due(now) {
            self.publish_findings(now);
        }
        self.work.wake(now);
        self.run(now);
    }

    /// Time at which [`Core::handle_deadline`] next has something to do; `None` if never.
    pub fn next_deadline(&self) -> Option<Time> {
        let light = self.work.light_due().filter(|_| self.stage.is_idle());
        [
            self.client.next_deadline(),
            light,
            self.links.next_release(),
            self.traps.next_release(),
            self.members.deadline(),
            self.mastership.next_deadline(),
            self.rotation.deadline(),
            self.writing.bounce_due(),
            self.first_sweep_due(),
            self.silence.silences.deadline(),
            self.reports.publish_at,
            self.work.next_wake(),
            self.congestion.deadline(self.may_control_congestion()),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The next effect; `None` if there is none. After each `handle…`, the caller must take effects
    /// until `None`.
    pub fn poll_effect(&mut self, now: Time) -> Option<Effect> {
        if let Some(effect) = self.outbox.pop() {
            return Some(effect);
        }
        let Some(transmit) = self.client.poll_transmit(now) else {
            let may_send = self.may_control_congestion();
            return self.congestion.poll(may_send, now);
        };
        Some(Effect::Send {
            datagram: transmit.datagram,
            timeout: transmit.timeout,
        })
    }

    /// Handles a datagram of [`Effect::Send`] that the transport could not send.
    pub fn send_failed(&mut self, datagram: &Datagram, now: Time) {
        if self.congestion.not_sent(datagram, now) {
            return self.run(now);
        }
        let tid = MadHeader::of(&datagram.mad).tid();
        self.client
            .handle_send_failed(tid, SendFailure::Flushed, now);
        self.run(now);
    }

    /// Whether no stage is under way, no work waits, and no repair is scheduled.
    pub fn is_settled(&self) -> bool {
        self.stage.is_idle() && self.work.is_empty()
    }

    /// Whether this manager is finding out whether another master has replaced it. It sends no Set
    /// until it knows.
    pub fn is_inquiring(&self) -> bool {
        self.mastership.is_inquiring()
    }

    /// Whether no stage is under way and no work may start now. Work for a later time may wait.
    pub fn is_idle(&self) -> bool {
        self.stage.is_idle() && (!self.work.is_due() || self.work.is_postponed())
    }

    /// ActCount in this manager's SMInfo (IBA 14.2.5.13): the number of SMPs from other agents
    /// answered so far, modulo 2^32.
    pub fn act_count(&self) -> u32 {
        self.client.stats().answered as u32
    }

    /// The stage under way, for operators.
    pub fn activity(&self) -> Activity {
        self.stage.activity(self.inventory.hardware.len())
    }

    /// The pass under way, and the causes of the waiting work.
    pub fn progress(&self) -> PassProgress {
        let (cause, since) = self.recorder.running().unzip();
        PassProgress {
            activity: self.activity(),
            is_converging: self.work.is_urgent() || self.stage.follows_a_change(),
            cause: cause.unwrap_or_default().to_owned(),
            since,
            nodes: self.inventory.hardware.len(),
            outstanding: self.client.pending(),
            next: self.work.next_cause(),
            not_before: self.work.not_before(),
        }
    }

    /// Number of successive repairs that left a fault to repair; 0 after a clean convergence.
    pub fn repairs(&self) -> u32 {
        self.work.repairs()
    }

    /// The state of the hardware, as last read.
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// The plan in force; `None` if there is none.
    pub fn plan(&self) -> Option<&Arc<Plan>> {
        self.plans.in_force()
    }

    /// The role of this subnet manager.
    pub fn role(&self) -> &Role {
        self.mastership.role()
    }

    /// How far this standby has followed the master ([`Mastership::following`]).
    pub fn following(&self) -> Option<Following> {
        self.mastership.following()
    }

    /// The past convergences, oldest first.
    pub fn history(&self) -> impl Iterator<Item = &Arc<Convergence>> {
        self.recorder.history()
    }

    /// Whether this manager may write hardware now: it is not a dry run, and
    /// [`Mastership::may_set`] permits it.
    fn may_set(&self) -> bool {
        self.config.mode == Mode::Manage && self.mastership.may_set()
    }

    /// Whether this manager is the master and has a plan in force.
    fn manages(&self) -> bool {
        self.mastership.is_master() && self.plans.in_force().is_some()
    }

    /// Runs the stages as far as possible now, and hands their requests to the client.
    fn run(&mut self, now: Time) {
        loop {
            while let Some(completion) = self.client.poll_completion() {
                self.silence.record_completion(&completion, now);
                self.on_completion(completion, now);
            }
            if self.mastership.has_doubts() {
                self.on_mastership(now, |mastership, view| mastership.resolve_doubts(view, now));
            }
            self.process_silence(now);
            self.feed_client(now);
            if !self.advance(now) {
                break;
            }
        }
        self.follow_congestion(now);
        let locked = self.inventory.hardware.count_locked();
        let is_news = self
            .first_sweep
            .take_snapshot_due(&self.client.stats(), locked, now);
        if is_news | self.mastership.follow_silent(&self.inventory) {
            self.publish(now);
        }
        // A pass that changes nothing publishes nothing, unless a snapshot from within it shows
        // that the subnet is converging.
        if self.reports.shows_converging && !self.is_converging() {
            self.publish(now);
        }
    }

    /// Passes overdue queries to the sweep under way, and publishes nodes that become suspect.
    fn process_silence(&mut self, now: Time) {
        let situation = Situation {
            is_converging: self.is_converging(),
            is_idle: self.stage.is_idle(),
            awaits_answers: self.plans.in_force().is_some()
                || self.first_sweep.is_under_way() && !self.mastership.is_standby(),
        };
        let (client, inventory) = (&mut self.client, &mut self.inventory);
        let sweep = self.stage.sweep_mut();
        if self
            .silence
            .process_overdue(sweep, client, inventory, situation, now)
        {
            self.reports.shows_suspects = true;
            self.publish(now);
        }
    }

    /// Hands the next Gets or Sets of the stage under way to the client.
    fn feed_client(&mut self, now: Time) {
        let limit = match self.mastership.is_standby() {
            true => rsm_mastership::STANDBY_QUEUE_LIMIT,
            false => requests::QUEUE_LIMIT,
        };
        while self.client.pending() < limit {
            let inventory = &mut self.inventory;
            let request = match &mut self.stage {
                Stage::Sweeping(sweep) => sweep.poll_ask(inventory).map(|ask| {
                    let is_sample = sweep.read_back().is_sample(ask.query);
                    requests::get(ask, is_sample)
                }),
                Stage::Pushing(push) => push.poll_order(inventory).map(|order| {
                    if self.mastership.policy().shares_store {
                        let part = order.task.written_part();
                        self.mastership.news_mut().record_set(part);
                    }
                    requests::set(&order, inventory)
                }),
                Stage::Idle | Stage::Planning { .. } | Stage::HandingOver(_) => None,
            };
            let request = request.or_else(|| {
                let ask = self
                    .first_sweep
                    .background_sweep_mut()?
                    .poll_ask(inventory)?;
                Some(requests::get(ask, false))
            });
            let Some(request) = request else { break };
            self.submit(request, now);
        }
    }

    /// Hands `request` to the client.
    fn submit(&mut self, request: Request<Context>, now: Time) {
        if let Err(rejected) = self.client.submit(request) {
            // This cannot happen: the client accepts far more requests than `QUEUE_LIMIT`. If that
            // ever changes, the request ends as unanswered.
            debug_assert!(false, "{rejected}");
            let completion = Completion {
                context: rejected.0.context,
                outcome: Err(RequestFailure::SendFailed),
                attempts: 0,
                lid_route_lost: false,
                rtt: Duration::ZERO,
                waited: Duration::ZERO,
                modifier: rejected.0.modifier,
                m_key: rejected.0.m_keys.first(),
            };
            self.on_completion(completion, now);
        }
    }

    /// Whether datagrams of congestion control may be sent: only while no other work is under way.
    fn may_control_congestion(&self) -> bool {
        self.stage.is_idle()
            && self.local_port.is_up()
            && self.plans.in_force().is_some()
            && self.may_set()
    }

    /// Passes the present model and plan to congestion control, and publishes the result of a
    /// round.
    fn follow_congestion(&mut self, now: Time) {
        let is_master = self.mastership.is_master();
        let plan = self.plans.in_force();
        let is_news = self.congestion.follow(&self.fabric, plan, is_master, now);
        if is_news {
            self.publish(now);
        }
    }

    /// Ports whose hosts act against the subnet, each with the latest act and its time. The time is
    /// zero for a host that runs a foreign manager, which is a state and not an act.
    pub fn hostile_ports(&self, now: Time) -> BTreeMap<PortKey, (Hostility, Time)> {
        let managers = self.mastership.foreign_managers(&self.inventory);
        let managers = managers.into_iter();
        let managers = managers.map(|port| (port, Hostility::Manages, Time::ZERO));
        let orders = self.mastership.senders_of_orders();
        let orders = orders.map(|(port, last)| (port, Hostility::OrdersManager, last));
        let acts = managers.chain(orders).chain(self.traps.hostile(now));
        let mut ports: BTreeMap<PortKey, (Hostility, Time)> = BTreeMap::new();
        for (port, act, last) in acts.filter(|&(port, ..)| self.is_of_other_host(port)) {
            let latest = ports.entry(port).or_insert((act, last));
            if last > latest.1 {
                *latest = (act, last);
            }
        }
        ports
    }

    /// Whether a port belongs to a host other than this manager's.
    fn is_of_other_host(&self, port: PortKey) -> bool {
        let own = self.inventory.hardware.local.map(|local| local.node);
        let node = self.inventory.hardware.node(port.node);
        let is_ca = node.is_some_and(|node| node.kind() == NodeType::Ca);
        is_ca && own != Some(port.node)
    }
}
