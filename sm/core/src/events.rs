//! The core's handlers of events, one for each kind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_hardware::diff::differing_blocks;
use rsm_hardware::link_step::LinkStep;
use rsm_hardware::sweep::port_states::PortStateProofs;
use rsm_hardware::sweep::{AgentAnswer, Query};
use rsm_ids::{Guid, PortKey};
use rsm_mad::Time;
use rsm_mad::client::{Completion, Handled, RequestFailure};
use rsm_mad::transport::{Datagram, PortEvent};
use rsm_mad::wire::attr::{Attribute, Notice, SmInfo};
use rsm_mad::wire::header::Method;
use rsm_mad::wire::smp::Smp;
use rsm_mastership::MastershipRequest;
use rsm_model::alias_guids::AliasGuids;
use rsm_model::findings::Finding;
use rsm_model::habits::DeviceHabits;
use rsm_model::managed::Origin;
use rsm_monitor::health::PortErrors;
use rsm_plan::Outcome;
use rsm_plan::groups::GroupSet;
use rsm_plan::managed::Source;
use rsm_state::{Command, Ticket};

use super::event::Effect;
use super::links::HealthNews;
use super::requests::Context;
use super::settings::{CoreConfig, Mode};
use super::stage::Stage;
use super::traps::{TrapContext, TrapWork};
use super::trials::Answers;
use super::work::FullSweep;
use super::{Core, m_keys};

impl Core {
    /// Handles a received datagram.
    pub(super) fn on_datagram(&mut self, datagram: &Datagram, now: Time) {
        match self.client.handle(&datagram.mad, now) {
            Handled::Completed(completion) => self.on_completion(completion, now),
            Handled::Unsolicited => self.on_unsolicited(datagram, now),
            // Nothing to do for a deferred request: the client sends it again.
            Handled::Stale | Handled::Deferred => {}
        }
    }

    /// Handles an event of the local port.
    pub(super) fn on_port_event(&mut self, event: PortEvent, now: Time) {
        match event {
            PortEvent::Up => {
                self.local_port.came_up();
                let sweep = FullSweep::before_writing(true);
                self.work.sweep_everything(sweep, "the local port came up");
                self.on_mastership(now, |mastership, view| mastership.on_port_up(view, now));
            }
            PortEvent::Down | PortEvent::Gone => {
                self.local_port.went_down();
                self.stage.stop_push();
                self.publish(now);
            }
            PortEvent::Retrained => self.on_retrained(now),
            PortEvent::LidChanged
            | PortEvent::SmChanged
            | PortEvent::ClientReregister
            | PortEvent::PkeyChanged => {
                if let Some(local) = self.inventory.hardware.local {
                    self.work.read_port(local);
                }
            }
        }
    }

    /// Handles a datagram that answers no request of this manager.
    fn on_unsolicited(&mut self, datagram: &Datagram, now: Time) {
        let smp = Smp::from_bytes(&datagram.mad);
        if !smp.header().class().is_subnet_management() || self.config.mode == Mode::DryRun {
            return;
        }
        match (smp.header().method(), smp.header().attribute()) {
            // Only the master handles traps: if a standby repressed a trap, the master would not
            // get it.
            (Method::TRAP, Notice::ID) if self.mastership.is_master() => {
                self.on_trap(datagram, now);
            }
            (Method::GET | Method::SET, SmInfo::ID) => {
                self.on_mastership(now, |mastership, view| {
                    mastership.on_sm_info(datagram, view, now);
                });
            }
            _ => {}
        }
    }

    /// Handles a trap, and starts the work that it causes.
    fn on_trap(&mut self, datagram: &Datagram, now: Time) {
        let mut context = TrapContext {
            inventory: &mut self.inventory,
            config: &self.config,
            plan: self.plans.in_force(),
            is_pushing: matches!(self.stage, Stage::Pushing(_)),
        };
        self.traps.handle(datagram, &mut context, now);
        while let Some(work) = self.traps.poll() {
            match work {
                TrapWork::Repress(reply) => self.outbox.reply(*reply),
                TrapWork::Notify(notice) => self.outbox.push(Effect::Notice(notice)),
                TrapWork::AskSwitches => self.work.sweep_lightly(),
                TrapWork::Read(switch) => {
                    let name = self.inventory.hardware.name(switch);
                    self.work
                        .sweep_switch(switch, format!("trap 128 from {name}"));
                }
                TrapWork::ReadLater(switch, when) => {
                    if !self.joins_sweep(switch) {
                        self.work.sweep_switch_at(switch, when);
                    }
                }
                TrapWork::ReadPort(port) => self.work.read_port(port),
                TrapWork::CountErrors(port) => {
                    if self.links.report(port, now) {
                        self.health_changed(now);
                    }
                }
                TrapWork::DisableLink => {
                    self.writing.leave_open();
                    self.work
                        .plan_again("a host sends traps without an end: its link is disabled");
                }
                TrapWork::Publish => self.publish_findings(now),
            }
        }
    }

    /// Adds a new report of `switch` to the sweep under way, if the switch already is a target of
    /// the sweep. Returns whether the sweep accepts the report.
    fn joins_sweep(&mut self, switch: Guid) -> bool {
        let inventory = &self.inventory;
        self.stage
            .sweep_mut()
            .is_some_and(|sweep| sweep.is_target(switch) && sweep.add_target(inventory, switch))
    }

    /// Handles the ports whose error counters exceed a limit now.
    pub(super) fn on_port_errors(&mut self, errors: Arc<BTreeMap<PortKey, PortErrors>>, now: Time) {
        match self.links.count_errors(errors, now) {
            HealthNews::Ports => self.health_changed(now),
            HealthNews::Time if self.mastership.is_master() => self.remember(),
            HealthNews::Time | HealthNews::None => {}
        }
    }

    /// Handles a change of the unhealthy ports or of the health policy: isolates ports, and
    /// publishes the findings.
    pub(super) fn health_changed(&mut self, now: Time) {
        if self.mastership.is_master() {
            let detours = &mut self.trials.detours;
            let parts = self.links.to_isolate(&self.fabric, detours.planned());
            if detours.isolate(&parts) {
                self.work.plan_again("the set of unhealthy parts changed");
            }
        }
        self.reports.has_unpublished_health = true;
        self.publish_findings(now);
    }

    /// Replaces the findings of the daemon's other parts (the store, the dumps, the trace), and
    /// publishes them if they differ.
    pub fn set_daemon_findings(&mut self, findings: Vec<Finding>, now: Time) {
        if self.reports.set_daemon_findings(findings) {
            self.publish(now);
        }
    }

    /// Handles the retraining of the local link: reads the switch at the other end. That switch may
    /// have been reset, and without routes it cannot report the reset.
    fn on_retrained(&mut self, now: Time) {
        let Some(local) = self.inventory.hardware.local else {
            return;
        };
        let peer = self
            .inventory
            .hardware
            .port(local)
            .and_then(|port| port.peer);
        if let Some(peer) = peer {
            let cause = format!(
                "the local link to {} trained again",
                self.inventory.hardware.name(peer.node)
            );
            self.work.sweep_switch(peer.node, cause);
        }
        self.work.read_port(local);
        self.local_port.trained_again();
        self.publish(now);
    }

    /// Handles a new set of multicast groups.
    pub(super) fn on_groups(&mut self, groups: Arc<GroupSet>) {
        self.inventory.multicast_top = groups.top();
        self.members.set_registered(groups);
        self.work.regroup();
    }

    /// Replaces the alias GUIDs of ports. Queues a reading of each port whose alias GUIDs have
    /// changed and whose known GUIDInfo differs from them. A push then writes the blocks that still
    /// differ.
    pub(super) fn on_guids(&mut self, guids: Arc<AliasGuids>) {
        let changed = guids.differing(&self.inventory.alias_guids);
        self.inventory.named |= !guids.by_port.is_empty();
        self.inventory.alias_guids = guids;
        if changed.is_empty() {
            return;
        }
        for (at, port) in self.fabric.end_ports() {
            if !changed.contains(&port.guid) {
                continue;
            }
            let key = self.fabric.key(at);
            let differing = differing_blocks(
                &Source::of_hosts(&self.inventory.hardware, &self.inventory.alias_guids),
                key,
                Origin::Hosts,
            );
            if differing.is_empty() {
                continue;
            }
            if let Some(port) = self.inventory.hardware.port_mut(key) {
                for change in differing {
                    if port.managed.is_known(change.key.place) {
                        port.managed.mark_dirty(change.key.place);
                    }
                }
            }
            self.work.read_port(key);
        }
    }

    /// Makes the hosts behind the ports with these GUIDs register again.
    pub(super) fn on_reregister(&mut self, ports: &BTreeSet<Guid>) {
        for (at, port) in self.fabric.end_ports() {
            if ports.contains(&port.guid) {
                let key = self.fabric.key(at);
                self.writing.reregister(key);
                self.work.read_port(key);
            }
        }
    }

    /// Queues a plan whose push takes the link at `port` down or up.
    fn order_link(&mut self, port: PortKey, step: LinkStep, cause: &str) {
        self.inventory.link_orders.insert(port, step);
        self.writing.leave_open();
        self.work.plan_again(cause);
    }

    /// Enables a port that rsm or another program has disabled, and completes `ticket` afterwards.
    fn enable_port(&mut self, port: PortKey, by: Option<&str>, ticket: Ticket) {
        let detours = &mut self.trials.detours;
        let mut answers = Answers::to(&mut self.work, &mut self.outbox);
        // A port that rsm only drained stays drained: another program has disabled it.
        if detours
            .planned()
            .disabled()
            .all(|disabled| disabled != port)
        {
            self.work.add_ticket(ticket);
        } else if detours.enable(port, by, ticket, &mut answers) {
            self.remember();
        } else {
            return;
        }
        self.order_link(port, LinkStep::Enable, "an operator enables a port");
    }

    /// Handles a command of an operator or a signal.
    pub(super) fn on_command(&mut self, command: Command, now: Time) {
        match command {
            Command::Resweep { full, ticket } => {
                self.work
                    .sweep_everything(FullSweep::in_use(full), "requested");
                self.work.add_ticket(ticket);
            }
            Command::Rewrite { ticket } => {
                self.work.rewrite();
                self.work.add_ticket(ticket);
            }
            Command::Engine {
                engine,
                when_cut_off,
                ticket,
            } => {
                let policy = &mut self.config.policy;
                let trial = &mut self.trials.engine;
                trial.request(
                    engine,
                    when_cut_off,
                    ticket,
                    policy,
                    &mut Answers::to(&mut self.work, &mut self.outbox),
                );
            }
            Command::Withdraw { ticket } => self.withdraw(ticket),
            Command::Drain {
                parts,
                forced,
                ticket,
            } => {
                let detours = &mut self.trials.detours;
                detours.drain(
                    parts,
                    forced,
                    ticket,
                    &mut Answers::to(&mut self.work, &mut self.outbox),
                );
            }
            Command::Undrain { parts, ticket } => {
                let detours = &mut self.trials.detours;
                let mut answers = Answers::to(&mut self.work, &mut self.outbox);
                if detours.undrain(&parts, ticket, &mut answers) {
                    self.remember();
                }
            }
            Command::ResetPort { port, ticket } => {
                self.order_link(port, LinkStep::Bounce, "an operator resets a port");
                self.work.add_ticket(ticket);
            }
            Command::EnablePort {
                port,
                by,
                accepts_other,
                ticket,
            } => self.enable_port(port, Some(&*by).filter(|_| !accepts_other), ticket),
            Command::Partition { change, ticket } => {
                let partitions = &mut self.trials.partitions;
                partitions.change(
                    *change,
                    ticket,
                    &self.fabric,
                    &mut Answers::to(&mut self.work, &mut self.outbox),
                );
            }
            Command::RotateMKeys { forced, ticket } => self.rotate_m_keys(forced, ticket, now),
            Command::Accept(accepts) => {
                if self.missing.accept(accepts, &self.fabric) {
                    self.missing.set_stored(&self.fabric);
                    self.remember();
                    self.publish(now);
                }
            }
        }
    }

    /// Handles that the issuer of `ticket` no longer waits.
    fn withdraw(&mut self, ticket: Ticket) {
        self.work.withdraw(ticket);
        let mut answers = Answers::to(&mut self.work, &mut self.outbox);
        let policy = &mut self.config.policy;
        self.trials.withdraw(ticket, policy, &mut answers);
        self.rotation.withdraw(ticket);
    }

    /// Uses another configuration from now on.
    pub(super) fn on_reload(&mut self, config: CoreConfig, now: Time) {
        let reason = "the configuration was read again meanwhile";
        let mut answers = Answers::to(&mut self.work, &mut self.outbox);
        let policy = &mut self.config.policy;
        if self.trials.engine.abandon(reason, policy, &mut answers)
            && matches!(self.stage, Stage::Planning { .. })
        {
            // The plan under way may use the engine whose trial has ended.
            self.stage = Stage::Idle;
            self.recorder.discard();
        }
        let generations = self.config.policy.ports.m_keys.generations;
        self.config = config;
        m_keys::set_key_generations(&mut self.config.policy, generations);
        self.mastership.configure(self.config.mastership.clone());
        let policy = &mut self.config.policy;
        let partitions = &mut self.trials.partitions;
        partitions.reload(
            policy,
            &self.fabric,
            &mut Answers::to(&mut self.work, &mut self.outbox),
        );
        self.reports.set_configuration_findings(Vec::new());
        self.links.configure(&self.config);
        self.health_changed(now);
        self.congestion.configure(&self.config.congestion);
        self.missing.use_design(self.config.design.clone());
        self.writing.retry_not_kept();
        self.inventory.hardware.habits = DeviceHabits::default();
        self.inventory.hardware.capabilities = Arc::default();
        self.inventory.port_state_proofs = PortStateProofs::default();
        self.work
            .sweep_everything(FullSweep::in_use(false), "configuration reloaded");
    }

    /// Handles the outcome of a request: passes it to the stage that sent it.
    pub(super) fn on_completion(&mut self, completion: Completion<Context>, now: Time) {
        match (completion.context, &mut self.stage) {
            (Context::FabricProbe, _) => return,
            (
                Context::Mastership(MastershipRequest::HandOver),
                Stage::HandingOver(handing_over),
            ) => {
                return handing_over.handle(&completion.outcome);
            }
            (Context::Mastership(asked), _) => {
                return self.on_mastership(now, |mastership, view| {
                    let m_key = completion.m_key;
                    mastership.on_answer(asked, &completion.outcome, m_key, view);
                });
            }
            _ => {}
        }
        let data;
        let answer = match completion.outcome {
            Ok(response) if response.status.is_ok() => {
                data = response.data;
                AgentAnswer::Data(&data)
            }
            Ok(response) if completion.attempts > 1 => {
                AgentAnswer::RefusedRepetition(response.status)
            }
            Ok(response) => AgentAnswer::Refused(response.status),
            Err(RequestFailure::Rejected(status)) => AgentAnswer::Refused(status),
            Err(RequestFailure::TimedOut | RequestFailure::SendFailed) => AgentAnswer::Silence,
        };
        if let (Context::Sweep(query), AgentAnswer::Data(data)) = (completion.context, answer) {
            self.mastership
                .suspect_another_master(query, data, &self.inventory);
        }
        if let Context::Sweep(Query::Sm(key)) = completion.context {
            let answered = !matches!(answer, AgentAnswer::Silence);
            self.mastership.record_manager_answer(key, answered);
        }
        if let Context::Push(task) = completion.context
            && completion.attempts > 1
        {
            self.foreign_writes.record_late_set(task.node());
        }
        if completion.lid_route_lost
            && let Some(switch) = completion.context.switch_by_lid()
        {
            self.inventory.hardware.record_lost_by_lid(switch);
        }
        match (completion.context, &mut self.stage) {
            (Context::Sweep(query), Stage::Sweeping(sweep)) => {
                sweep.handle(&mut self.inventory, query, answer)
            }
            (Context::Sweep(query), _) if self.first_sweep.is_in_background() => {
                if let Some(sweep) = self.first_sweep.background_sweep_mut() {
                    sweep.handle(&mut self.inventory, query, answer);
                }
            }
            (Context::Push(task), Stage::Pushing(push)) => {
                push.handle(
                    &mut self.inventory,
                    self.writing.not_kept_mut(),
                    task,
                    answer,
                );
            }
            // A stage ends only after each of its requests has completed or was withdrawn.
            (context, _) => debug_assert!(false, "{context:?} completed in another stage"),
        }
    }

    /// Handles the outcome of the job with this generation, unless its stage was dropped.
    pub(super) fn on_planned(&mut self, generation: u64, outcome: Outcome, now: Time) {
        if matches!(&self.stage, Stage::Planning { generation: expected } if *expected == generation)
        {
            self.accept_plan(outcome, now);
        }
    }
}
