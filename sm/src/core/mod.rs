//! The heart: one state machine from events to effects, without I/O, clock or thread.
//!
//! ```text
//! Event ─▶ handle ─▶ [ Idle ─▶ Sweeping ─▶ Planning ─▶ Pushing ─▶ Idle ] ─▶ poll_effect ─▶ Effect
//! ```
//!
//! Whatever happens (start-up, a trap, a request of an operator, an answer that never came) becomes
//! [`work::Work`]; when the core is idle it takes the work that waits through the stages. Work that comes in the
//! middle joins a sweep under way, waits for a plan, and cuts a push short: what is left of the push is
//! simply part of the next difference.
//!
//! A run is a function of the events and their times.

mod conclusion;
pub mod convergence;
pub mod damping;
mod doubts;
mod dry_run;
mod election;
pub mod event;
mod expecting;
mod first_sweep;
pub mod found;
mod inert;
mod inquiry;
mod patience;
mod planning;
mod pushing;
mod rebalancing;
pub mod role;
pub mod snapshot;
mod stage;
mod takeover;
mod traps;
mod trial;
pub mod work;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rsm_ids::{Guid, Lid};
use rsm_mad::Time;
use rsm_mad::client::{Client, ClientConfig, Completion, Failure, Handled, Request, Route, Routes};
use rsm_mad::ids::DirectedPath;
use rsm_mad::transport::{Datagram, Inbound, PortEvent};
use rsm_routing::gdr::hosts::Inventory as GpuInventory;
use rsm_routing::gdr::seats::Seats;

use self::convergence::{Convergence, Meter};
use self::damping::Damping;
use self::election::Election;
pub use self::event::{Command, Effect, Event};
use self::first_sweep::{FirstSweep, Told};
use self::found::Found;
use self::inquiry::Question;
use self::role::{Identity, Role};
use self::snapshot::Snapshot;
use self::stage::Stage;
use self::traps::TrapDesk;
use self::trial::Trial;
use self::work::Work;
use crate::config::Takeover;
use crate::diff::{NotKept, Reregister, differing_guids};
use crate::expected::{Cabling, Expected};
use crate::fabric::Fabric;
use crate::findings::Finding;
use crate::habits::DeviceHabits;
use crate::plan::groups::GroupSet;
use crate::plan::guids::AliasGuids;
use crate::plan::lids::Claims;
use crate::plan::policy::{DampingPolicy, Policy, RebalancePolicy};
use crate::plan::ports::LinkMismatch;
use crate::plan::{Outcome, Plan, RefusedPlan};
use crate::push::{Order, Task};
use crate::sweep::inventory::{Inventory, PortKey};
use crate::sweep::{Answer, Ask, Query};

/// How many requests are handed to the client ahead of their being sent.
///
/// Several times the largest window at the default keeps the window full between two rounds of the event loop, and bounds
/// what a stopped push still sends.
const AHEAD: usize = 1024;

/// How many times over the retries of a request are spent, as long as losses alone explain the silence. At 50 % of SMPs
/// lost, one of eight requests stays unanswered after seven attempts, and one of 3000 after four times as many.
const LOSSY_ROUNDS: u8 = 4;

/// How many convergences are remembered.
pub const HISTORY: usize = 256;

/// What is done with a plan.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Mode {
    /// The hardware is made to hold it.
    #[default]
    Manage,
    /// What would be set is listed ([`Effect::Foreseen`]). Nothing is set, other subnet managers are told nothing, and traps are
    /// left to the master.
    DryRun,
}

/// What the operator decides, as far as the core itself depends on it.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whether hardware is managed.
    pub mode: Mode,
    /// Goes into every plan.
    pub policy: Arc<Policy>,
    /// How link flaps are damped.
    pub damping: DampingPolicy,
    /// How load is taken off the fullest links.
    pub rebalance: RebalancePolicy,
    /// Which tables count that another manager left.
    pub takeover: Takeover,
    /// This subnet manager among others.
    pub identity: Identity,
    /// Time between light sweeps; zero: none.
    pub light_sweep: Duration,
    /// Time between questions to the master while standing by.
    pub standby_poll: Duration,
    /// How SMPs are sent.
    pub client: ClientConfig,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            mode: Mode::default(),
            policy: Arc::default(),
            damping: DampingPolicy::default(),
            rebalance: RebalancePolicy::default(),
            takeover: Takeover::default(),
            identity: Identity::default(),
            light_sweep: Duration::from_secs(10),
            standby_poll: Duration::from_secs(2),
            client: ClientConfig::default(),
        }
    }
}

/// What survived from an earlier run.
#[derive(Clone, Default, Debug)]
pub struct Remembered {
    /// LIDs given out.
    pub claims: Claims,
    /// Where compute ports sit in the order that routes are spread by.
    pub seats: Arc<Seats>,
    /// What hosts with GPUs told of themselves; whoever takes it in keeps it.
    pub gpus: Arc<GpuInventory>,
    /// What devices do not keep.
    pub not_kept: NotKept,
    /// What devices do in their own way.
    pub habits: DeviceHabits,
    /// What was there, and what was missing.
    pub cabling: Cabling,
    /// Number of the last plan.
    pub generation: u64,
    /// What hosts registered with subnet administration before is not among what is remembered: they are to do it again, once.
    pub reregister: bool,
}

/// What is under way, for progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    /// Nothing.
    Idle,
    /// A sweep.
    Sweeping {
        /// Nodes known so far.
        nodes: usize,
    },
    /// A plan is computed.
    Planning,
    /// The hardware is written.
    Pushing {
        /// Sets acknowledged so far.
        done: usize,
    },
}

/// What is under way, and what waits, for those who wait for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The stage.
    pub activity: Activity,
    /// What set off the pass that is under way; empty where there is none.
    pub cause: String,
    /// When it began.
    pub since: Option<Time>,
    /// Nodes known.
    pub nodes: usize,
    /// SMPs without an answer so far, those that wait to be sent included.
    pub outstanding: usize,
    /// What waits until the pass is over, in a few words; empty where nothing does.
    pub next: String,
    /// Until when it waits beyond that.
    pub not_before: Option<Time>,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress {
            activity: Activity::Idle,
            cause: String::new(),
            since: None,
            nodes: 0,
            outstanding: 0,
            next: String::new(),
            not_before: None,
        }
    }
}

/// Why a request was sent.
#[derive(Clone, Copy, Debug)]
enum Context {
    Sweep(Query),
    Push(Task),
    HandOver,
    /// Whether another manager is master.
    Inquiry(Question),
    /// Another manager that shows itself and did not answer before.
    Manager(PortKey),
    /// Another manager is told something, and need not answer.
    Courtesy,
}

/// The subnet manager, without the world around it.
pub struct Core {
    config: Config,
    client: Client<Context>,
    inventory: Inventory,
    fabric: Arc<Fabric>,
    plan: Option<Arc<Plan>>,
    claims: Arc<Claims>,
    seats: Arc<Seats>,
    gpus: Arc<GpuInventory>,
    not_kept: NotKept,
    /// Who takes part in multicast, once that is known.
    groups: Option<Arc<GroupSet>>,
    /// Who takes part beside them.
    found: Found,
    /// Whose hosts are to register anew.
    reregister: Reregister,
    generation: u64,
    role: Role,
    election: Election,
    stage: Stage,
    work: Work,
    meter: Meter,
    traps: TrapDesk,
    damping: Damping,
    /// Links that routes are kept off; each by one of its ends, or both.
    damped: Arc<BTreeSet<PortKey>>,
    first_sweep: FirstSweep,
    told: Told,
    /// Those of them that do not become Active.
    inert: BTreeSet<PortKey>,
    /// The last full sweep did not come to all known nodes; whether it was to read tables back.
    uncovered: Option<bool>,
    /// The last push was cut short: the hardware is not as planned, although no answer says so.
    unfinished: bool,
    /// The last push was cut short for what was urgent. The next one is not, so that tables get written however fast links
    /// come and go.
    hurried: bool,
    /// Attempts without an answer in time, when the sweep was last told of them.
    timeouts_seen: u64,
    /// Suspects of the sweep under way were published; what became of them is when it ends.
    suspicion_shown: bool,
    /// Nodes (by port 0) that owed an answer or were not written as planned, and ports behind which no node answered, when the
    /// last repair was scheduled.
    debtors: BTreeSet<PortKey>,
    /// What the last plan and push left undone; faults of the inventory are added when published.
    residue: Vec<Finding>,
    /// The last plan, where it was refused: the one before stays in force on a fabric that it was not made for.
    refused_plan: Option<Arc<RefusedPlan>>,
    /// What was there before and is not in `fabric`.
    expected: Arc<Expected>,
    /// The findings about that.
    missing: Vec<Finding>,
    /// When something came or went last, until the next plan.
    lost_at: Option<Time>,
    /// Nodes or cables have come or gone since what is there was last handed out to be remembered.
    cabling_changed: bool,
    /// What was wrong with the configuration that was offered last.
    refused: Vec<Finding>,
    /// What the parts of the daemon around the core report.
    daemon_findings: Vec<Finding>,
    history: VecDeque<Arc<Convergence>>,
    next_light: Option<Time>,
    /// When load is to be taken off the fullest links, unless something changes before.
    rebalance_at: Option<Time>,
    effects: VecDeque<Effect>,
    /// Responses and traps' answers, sent before anything else.
    replies: VecDeque<Datagram>,
    port_up: bool,
    /// Hosts are answered from a plan: it was served or published while this SM is master.
    serving: bool,
    /// The local port fell back to Init, and no pass ended since.
    port_retrained: bool,
    /// The pass under way concerns multicast alone.
    groups_only: bool,
    /// The plan being made is only to take load off links: it waits for nothing, and nothing waits for it.
    rebalancing: bool,
    /// An engine that was asked for, and has not made a plan yet.
    trial: Option<Trial>,
    /// Active ports whose MTU or VLs are not as planned.
    mismatches: BTreeMap<PortKey, LinkMismatch>,
    /// From the next sweep of everything on, tables that switches hold do not count.
    rewrite_requested: bool,
}

impl Core {
    /// A subnet manager that will sweep at once.
    pub fn new(config: Config, remembered: Remembered) -> Core {
        let mut work = Work::default();
        work.sweep_everything(false, "start");
        let mut inventory = Inventory::default();
        inventory.habits = remembered.habits;
        Core {
            client: Client::new(config.client.clone()),
            inventory,
            fabric: Arc::default(),
            plan: None,
            claims: Arc::new(remembered.claims),
            seats: remembered.seats,
            gpus: remembered.gpus,
            not_kept: remembered.not_kept,
            groups: None,
            found: Found::default(),
            reregister: if remembered.reregister {
                Reregister::everybody()
            } else {
                Reregister::default()
            },
            generation: remembered.generation,
            role: Role::Discovering,
            election: Election::default(),
            stage: Stage::Idle,
            work,
            meter: Meter::default(),
            traps: TrapDesk::default(),
            damping: Damping::new(config.damping),
            damped: Arc::default(),
            first_sweep: FirstSweep::default(),
            told: Told::default(),
            inert: BTreeSet::new(),
            uncovered: None,
            unfinished: false,
            hurried: false,
            timeouts_seen: 0,
            suspicion_shown: false,
            debtors: BTreeSet::new(),
            residue: Vec::new(),
            refused_plan: None,
            expected: Arc::new(remembered.cabling.recalled()),
            missing: Vec::new(),
            lost_at: None,
            cabling_changed: false,
            refused: Vec::new(),
            daemon_findings: Vec::new(),
            history: VecDeque::new(),
            next_light: None,
            rebalance_at: None,
            effects: VecDeque::new(),
            replies: VecDeque::new(),
            port_up: true,
            serving: false,
            port_retrained: false,
            groups_only: false,
            rebalancing: false,
            trial: None,
            mismatches: BTreeMap::new(),
            rewrite_requested: false,
            config,
        }
    }

    /// Takes an event that happened at `now`.
    pub fn handle(&mut self, event: Event, now: Time) {
        match event {
            Event::Inbound(Inbound::Mad(datagram)) => self.on_datagram(&datagram, now),
            Event::Inbound(Inbound::SendFailed { tid, kind, .. }) => {
                self.client.handle_send_failed(tid, kind, now)
            }
            Event::Inbound(Inbound::Port(port)) => self.on_port_event(port, now),
            Event::Planned {
                generation,
                outcome,
            } => self.on_planned(generation, outcome, now),
            Event::Groups(groups) => self.on_groups(groups),
            Event::Guids(guids) => self.on_guids(guids),
            Event::GpuHosts(gpus) => {
                self.gpus = gpus;
                self.work.plan_again("GPU hosts told of themselves");
            }
            Event::Reregister(ports) => self.on_reregister(&ports),
            Event::Paused(_) => self.on_pause(),
            Event::Command(command) => self.on_command(command, now),
        }
        self.run(now);
    }

    /// Does what is due at `now`.
    pub fn handle_deadline(&mut self, now: Time) {
        self.client.handle_deadline(now);
        if self.next_light.is_some_and(|due| due <= now) {
            self.next_light = None;
            match self.role {
                Role::Standby { .. } => self.work.poll_master(),
                Role::NotActive => {}
                Role::Discovering | Role::Master => self.work.sweep_lightly(),
            }
        }
        if self.damping.release(now) {
            self.work.plan_again("a flapping link is quiet");
        }
        if self.rebalance_at.is_some_and(|due| due <= now) {
            self.rebalance_at = None;
            self.work.rebalance();
        }
        if self.found.expire(now) {
            self.work.regroup();
        }
        self.inquire_again(now);
        self.work.wake(now);
        self.run(now);
    }

    /// When [`Core::handle_deadline`] has something to do next.
    pub fn next_deadline(&self) -> Option<Time> {
        let light = self.next_light.filter(|_| self.stage.is_idle());
        [
            self.client.next_deadline(),
            light,
            self.damping.next_release(),
            self.rebalance_at,
            self.found.deadline(),
            self.election.deadline(),
            self.first_sweep_due(),
            self.work.next_wake(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The next thing to be done outside, if any. Call it until there is none after each `handle…`.
    pub fn poll_effect(&mut self, now: Time) -> Option<Effect> {
        if let Some(datagram) = self.replies.pop_front() {
            return Some(Effect::Send {
                datagram,
                timeout: Duration::ZERO,
            });
        }
        if let Some(effect) = self.effects.pop_front() {
            return Some(effect);
        }
        let transmit = self.client.poll_transmit(now)?;
        Some(Effect::Send {
            datagram: transmit.datagram,
            timeout: transmit.timeout,
        })
    }

    /// The transport could not send what [`Effect::Send`] said.
    pub fn send_failed(&mut self, datagram: &Datagram, now: Time) {
        let tid = rsm_mad::wire::header::MadHeader::of(&datagram.mad).tid();
        self.client
            .handle_send_failed(tid, rsm_mad::transport::SendFailure::Flushed, now);
        self.run(now);
    }

    /// Whether the core is at rest: nothing under way, nothing waiting, nothing to be repaired.
    pub fn is_settled(&self) -> bool {
        self.stage.is_idle() && self.work.is_empty()
    }

    /// Whether nothing is under way; something may still wait for its time.
    pub fn is_idle(&self) -> bool {
        self.stage.is_idle() && (!self.work.is_due() || self.work.is_postponed())
    }

    /// What is under way.
    pub fn activity(&self) -> Activity {
        match &self.stage {
            // Whoever follows is waited for no longer than one answer takes.
            Stage::Idle | Stage::HandingOver(_) => Activity::Idle,
            Stage::Sweeping(_) => Activity::Sweeping {
                nodes: self.inventory.len(),
            },
            Stage::Planning { .. } => Activity::Planning,
            Stage::Pushing(push) => Activity::Pushing {
                done: push.progress().done,
            },
        }
    }

    /// What is under way, and what waits.
    pub fn progress(&self) -> Progress {
        let (cause, since) = self.meter.running().unzip();
        Progress {
            activity: self.activity(),
            cause: cause.unwrap_or_default().to_owned(),
            since,
            nodes: self.inventory.len(),
            outstanding: self.client.pending(),
            next: self.work.next_cause(),
            not_before: self.work.not_before(),
        }
    }

    /// How often in a row a repair was tried without success; 0 after a clean convergence.
    pub fn repairs(&self) -> u32 {
        self.work.repairs()
    }

    /// What is known of the hardware.
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// The plan in force.
    pub fn plan(&self) -> Option<&Arc<Plan>> {
        self.plan.as_ref()
    }

    /// What this subnet manager is among others.
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// Counters of the MAD client.
    pub fn client_stats(&self) -> rsm_mad::client::ClientStats {
        self.client.stats()
    }

    /// The past convergences, oldest first.
    pub fn history(&self) -> impl Iterator<Item = &Arc<Convergence>> {
        self.history.iter()
    }

    fn on_datagram(&mut self, datagram: &Datagram, now: Time) {
        match self.client.handle(&datagram.mad, now) {
            Handled::Completed(completion) => self.on_completion(completion),
            Handled::Unsolicited => self.on_unsolicited(datagram, now),
            // Deferred: the attempt will be made again.
            Handled::Stale | Handled::Deferred => {}
        }
    }

    fn on_port_event(&mut self, event: PortEvent, now: Time) {
        match event {
            PortEvent::Up => {
                self.port_up = true;
                self.port_retrained = false;
                self.work.sweep_everything(true, "the local port came up");
            }
            PortEvent::Down | PortEvent::Gone => {
                self.port_up = false;
                self.stage.stop_push();
                self.publish(now);
            }
            PortEvent::Retrained => self.on_retrained(now),
            PortEvent::LidChanged
            | PortEvent::SmChanged
            | PortEvent::ClientReregister
            | PortEvent::PkeyChanged => {
                if let Some(local) = self.inventory.local {
                    self.work.look_at_port(local);
                }
            }
        }
    }

    /// The local link trained again. The switch there may have been reset, and cannot report it: it has no way to this port.
    fn on_retrained(&mut self, now: Time) {
        let Some(local) = self.inventory.local else {
            return;
        };
        let peer = self.inventory.port(local).and_then(|port| port.peer);
        if let Some(peer) = peer {
            let cause = format!("the local link to {} trained again", self.name(peer.node));
            self.work.look_at(peer.node, cause);
        }
        self.work.look_at_port(local);
        self.port_retrained = true;
        self.publish(now);
    }

    fn on_groups(&mut self, groups: Arc<GroupSet>) {
        self.inventory.multicast_top = groups.top();
        self.found.heard(&groups);
        self.groups = Some(groups);
        self.work.regroup();
    }

    /// Looks at every port that is not as it is to be: what is written is what differs from what was read.
    fn on_guids(&mut self, guids: Arc<AliasGuids>) {
        self.inventory.named |= !guids.by_port.is_empty();
        self.inventory.alias_guids = guids;
        for (at, _) in self.fabric.end_ports() {
            let key = self.fabric.key(at);
            let differing = differing_guids(&self.inventory, key);
            if differing.is_empty() {
                continue;
            }
            if let Some(image) = self
                .inventory
                .port_mut(key)
                .and_then(|port| port.guids.as_mut())
            {
                for part in differing {
                    image.doubt(part.block);
                }
            }
            self.work.look_at_port(key);
        }
    }

    fn on_reregister(&mut self, ports: &BTreeSet<Guid>) {
        for (at, port) in self.fabric.end_ports() {
            if ports.contains(&port.guid) {
                self.reregister.add(port.guid);
                self.work.look_at_port(self.fabric.key(at));
            }
        }
    }

    fn on_command(&mut self, command: Command, now: Time) {
        match command {
            Command::Resweep { full, ticket } => {
                if full {
                    self.work.sweep_everything(true, "requested");
                } else {
                    self.work.sweep_everything(false, "requested");
                }
                self.work.promise(ticket);
            }
            Command::Rewrite { ticket } => {
                self.rewrite_requested = true;
                self.work
                    .sweep_everything(true, "every forwarding table is to be written");
                self.work.promise(ticket);
            }
            Command::Engine { engine, ticket } => self.try_engine(engine, ticket),
            Command::Withdraw { ticket } => self.withdraw(ticket),
            Command::Reload(config) => {
                self.drop_trial("the configuration was read again meanwhile");
                self.config = *config;
                self.refused.clear();
                self.damping.configure(self.config.damping);
                // What a device did not keep under the old settings, or refused with its old firmware, is tried once more.
                self.not_kept = NotKept::default();
                self.inventory.habits = DeviceHabits::default();
                self.work.sweep_everything(false, "configuration reloaded");
            }
            Command::Accept(accept) => self.accept_missing(accept, now),
            Command::Refused(findings) => {
                self.refused = findings;
                self.publish(now);
            }
        }
    }

    fn on_completion(&mut self, completion: Completion<Context>) {
        match (completion.context, &mut self.stage) {
            (Context::Courtesy, _) => return,
            (Context::Inquiry(question), _) => {
                return self.on_inquiry(question, &completion.outcome);
            }
            (Context::Manager(key), _) => {
                return self.on_silent_manager(key, &completion.outcome);
            }
            (Context::HandOver, Stage::HandingOver(handing_over)) => {
                return handing_over.handle(&completion.outcome);
            }
            _ => {}
        }
        let data;
        let answer = match completion.outcome {
            Ok(response) if response.status.is_ok() => {
                data = response.data;
                Answer::Data(&data)
            }
            Ok(response) if completion.attempts > 1 => Answer::RefusedRepetition(response.status),
            Ok(response) => Answer::Refused(response.status),
            Err(Failure::Rejected(status)) => Answer::Refused(status),
            Err(Failure::TimedOut | Failure::SendFailed) => Answer::Silence,
        };
        if let (Context::Sweep(query), Answer::Data(data)) = (completion.context, answer) {
            self.suspect_another_master(query, data);
        }
        match (completion.context, &mut self.stage) {
            (Context::Sweep(query), Stage::Sweeping(sweep)) => {
                sweep.handle(&mut self.inventory, query, answer)
            }
            (Context::Sweep(query), _) if self.first_sweep.goes_on() => {
                if let Some(sweep) = self.first_sweep.aside_mut() {
                    sweep.handle(&mut self.inventory, query, answer);
                }
            }
            (Context::Push(task), Stage::Pushing(push)) => {
                push.handle(&mut self.inventory, &mut self.not_kept, task, answer);
            }
            // A stage ends only when all of its requests have.
            (context, _) => debug_assert!(false, "{context:?} completed in another stage"),
        }
    }

    fn on_planned(&mut self, generation: u64, outcome: Outcome, now: Time) {
        if matches!(&self.stage, Stage::Planning { generation: expected } if *expected == generation)
        {
            self.accept_plan(outcome, now);
        }
    }

    /// Takes the stages as far as they go now, and hands the client what they ask.
    fn run(&mut self, now: Time) {
        loop {
            while let Some(completion) = self.client.poll_completion() {
                self.on_completion(completion);
            }
            self.settle_doubts(now);
            self.heed_silence(now);
            self.feed_client();
            if !self.advance(now) {
                break;
            }
        }
        self.tell_early(now);
    }

    fn feed_client(&mut self) {
        while self.client.pending() < AHEAD {
            let request = match &mut self.stage {
                Stage::Sweeping(sweep) => sweep.poll_ask(&self.inventory).map(|ask| self.get(ask)),
                Stage::Pushing(push) => push
                    .poll_order(&mut self.inventory)
                    .map(|order| self.set(&order)),
                Stage::Idle | Stage::Planning { .. } | Stage::HandingOver(_) => None,
            };
            let request = request.or_else(|| {
                let ask = self.first_sweep.aside_mut()?.poll_ask(&self.inventory)?;
                Some(self.get(ask))
            });
            let Some(request) = request else { break };
            self.submit(request);
        }
    }

    fn submit(&mut self, request: Request<Context>) {
        if let Err(rejected) = self.client.submit(request) {
            // The client holds far more than AHEAD; should that change, the request is answered by silence.
            debug_assert!(false, "{rejected}");
            let completion = Completion {
                context: rejected.0.context,
                outcome: Err(Failure::SendFailed),
                attempts: 0,
                route_index: 0,
                rtt: Duration::ZERO,
                modifier: rejected.0.modifier,
            };
            self.on_completion(completion);
        }
    }

    fn get(&self, ask: Ask) -> Request<Context> {
        let routes = routes(ask.lid, ask.path, ask.alternate);
        Request {
            m_key: self.config.policy.ports.m_key,
            rounds: LOSSY_ROUNDS,
            ..Request::get(
                ask.target,
                routes,
                ask.attribute,
                ask.modifier,
                Context::Sweep(ask.query),
            )
        }
    }

    fn set(&self, order: &Order) -> Request<Context> {
        let routes = routes(order.lid, order.path, order.alternate);
        let Guid(target) = order.target;
        Request {
            m_key: self.config.policy.ports.m_key,
            rounds: LOSSY_ROUNDS,
            ..Request::set(
                target,
                routes,
                order.attribute,
                order.modifier,
                order.data,
                Context::Push(order.task),
            )
        }
    }

    /// Publishes `findings` from now on as those of the parts around the core: the store, the dumps, the trace. They replace
    /// those before.
    pub fn set_daemon_findings(&mut self, findings: Vec<Finding>, now: Time) {
        if self.daemon_findings != findings {
            self.daemon_findings = findings;
            self.publish(now);
        }
    }

    /// What there is to see now, published or not: questions that found nothing new are in its counters only.
    pub fn snapshot(&self, now: Time) -> Snapshot {
        Snapshot::take(self, now)
    }

    fn publish(&mut self, now: Time) {
        let snapshot = Arc::new(self.snapshot(now));
        self.serving = snapshot.role == Role::Master && snapshot.plan.is_some();
        self.effects.push_back(Effect::Publish(snapshot));
    }
}

/// The ways to an agent in the order in which they are tried.
fn routes(lid: Option<Lid>, path: DirectedPath, alternate: Option<DirectedPath>) -> Routes {
    let directed = [Some(path), alternate]
        .into_iter()
        .flatten()
        .map(Route::from);
    let mut ways = lid.map(Route::from).into_iter().chain(directed);
    let mut routes = Routes::new(ways.next().unwrap_or(Route::Directed(path)));
    for way in ways {
        routes.push(way);
    }
    routes
}
