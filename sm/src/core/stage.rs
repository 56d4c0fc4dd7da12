//! The way of work through the stages.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_ids::{Guid, PortNum};
use rsm_mad::Time;
use rsm_mad::wire::attr::PortState;

use super::convergence::{Convergence, Part, Pushed};
use super::damping::Damping;
use super::event::Effect;
use super::role::{self, Role};
use super::work::Next;
use super::{Context, Core, HISTORY, Remembered};
use crate::diff::{Changes, diff, diff_multicast};
use crate::fabric::{Delta, Fabric};
use crate::findings::{Finding, FindingKind, Severity, Subject};
use crate::plan::groups::GroupSet;
use crate::plan::multicast::HeldMasks;
use crate::plan::{Held, Job, Outcome, Plan, PlanError};
use crate::push::{Cause, Failure, Push, Task};
use crate::sweep::inventory::PortKey;
use crate::sweep::{Scope, Sweep};

/// Where the work is.
#[derive(Debug)]
pub(super) enum Stage {
    Idle,
    Sweeping(Box<Sweep>),
    Planning { generation: u64 },
    Pushing(Box<Push>),
}

impl Stage {
    pub(super) fn is_idle(&self) -> bool {
        matches!(self, Stage::Idle)
    }

    /// If a push is under way, it sends nothing more.
    pub(super) fn stop_push(&mut self) {
        if let Stage::Pushing(push) = self {
            push.stop();
        }
    }
}

impl Core {
    /// Goes on by one stage if that is possible now.
    pub(super) fn advance(&mut self, now: Time) -> bool {
        match &mut self.stage {
            Stage::Idle => {
                let next = if self.port_up { self.work.take() } else { None };
                match next {
                    Some(next) => {
                        self.begin(next, now);
                        true
                    }
                    None => {
                        self.schedule_light(now);
                        false
                    }
                }
            }
            Stage::Sweeping(sweep) => {
                let (switches, ports) = self.work.take_targets();
                let mut joined = false;
                for guid in switches {
                    if sweep.add_target(&self.inventory, guid) {
                        joined = true;
                    } else {
                        self.work.look_at(guid, "changed again");
                    }
                }
                for port in ports {
                    joined |= sweep.add_port(&self.inventory, port);
                }
                if !joined && sweep.is_done() {
                    self.end_sweep(now);
                    return true;
                }
                joined
            }
            Stage::Planning { .. } => false,
            Stage::Pushing(push) => {
                if !push.was_stopped() && self.work.is_urgent() {
                    push.stop();
                    let taken_back = self
                        .client
                        .cancel_queued(|context| matches!(context, Context::Push(_)));
                    push.taken_back(taken_back);
                }
                if push.is_done() {
                    self.end_push(now);
                    return true;
                }
                false
            }
        }
    }

    fn begin(&mut self, next: Next, now: Time) {
        let cause = match next {
            Next::Lightly => "light sweep".to_owned(),
            Next::Master => "polling the master".to_owned(),
            Next::Groups => "multicast groups changed".to_owned(),
            _ => self.work.take_cause(),
        };
        self.meter.start(cause, now, self.client.stats());
        self.groups_only = false;
        let inventory = &mut self.inventory;
        let sweep = match next {
            Next::Plan => {
                self.start_plan(now);
                return;
            }
            Next::Groups => {
                self.start_groups(now);
                return;
            }
            Next::Everything { audit } => Sweep::start(Scope::Full { audit }, inventory),
            Next::Lightly => Sweep::start(Scope::Light, inventory),
            Next::Master => {
                let mut sweep = Sweep::start(Scope::Targets, inventory);
                if let Role::Standby { master } = &self.role {
                    sweep.add_manager(master.port);
                }
                sweep
            }
            Next::Targets {
                switches,
                ports,
                unread,
                repair,
            } => {
                let mut sweep = Sweep::start(Scope::Targets, inventory);
                for guid in switches {
                    sweep.add_target(inventory, guid);
                }
                for port in ports {
                    sweep.add_port(inventory, port);
                }
                for port in unread {
                    sweep.read_again(port);
                }
                if repair {
                    sweep.ask_again(inventory);
                }
                sweep
            }
        };
        self.stage = Stage::Sweeping(Box::new(sweep));
    }

    fn end_sweep(&mut self, now: Time) {
        let Stage::Sweeping(mut sweep) = std::mem::replace(&mut self.stage, Stage::Idle) else {
            return;
        };
        self.meter.mark(Part::Discover, now);
        sweep.finish(&mut self.inventory);
        if self.inventory.local.is_none() {
            self.residue = vec![Finding::new(
                FindingKind::Unanswering,
                Subject::Subnet,
                Severity::Error,
                "the local port does not answer".to_owned(),
            )];
            self.meter.discard();
            self.work
                .sweep_everything(false, "the local port did not answer");
            self.work.postpone(now);
            self.publish(now);
            return;
        }
        self.judge_coverage(&sweep);
        let fabric = Arc::new(Fabric::build(&self.inventory));
        let delta = Delta::between(&self.fabric, &fabric);
        count_flaps(&mut self.damping, &delta, &self.fabric, &fabric, now);
        self.fabric = fabric;
        if !self.settle_role(now) {
            return;
        }
        let damped = self.damping.suppressed();
        let same_links = damped == *self.damped;
        self.damped = Arc::new(damped);
        let plan_holds = self
            .plan
            .as_ref()
            .is_some_and(|plan| Arc::ptr_eq(&plan.policy, &self.config.policy));
        let quiet = delta.is_empty() && same_links && plan_holds;
        match sweep.scope() {
            _ if !quiet => self.start_plan(now),
            Scope::Light | Scope::Targets if !sweep.found_change() && !self.unfinished => {
                self.meter.discard();
                self.schedule_repair(&[], now);
                if let Some(last) = self.history.back().cloned() {
                    self.keep_promises(&last);
                }
            }
            _ => self.resume_push(now),
        }
    }

    /// Remembers a full sweep that somebody's silence kept from a part of the subnet, and has it made up for when somebody
    /// answers again.
    fn judge_coverage(&mut self, sweep: &Sweep) {
        if let Scope::Full { audit } = sweep.scope() {
            let incomplete = sweep.is_incomplete(&self.inventory);
            self.uncovered = incomplete.then_some(audit);
        } else if sweep.found_healed(&self.inventory)
            && let Some(audit) = self.uncovered.take()
        {
            self.work
                .sweep_everything(audit, "nodes answer that a full sweep could not pass");
        }
    }

    /// Decides who is master. Returns whether this subnet manager goes on as master with what it has seen.
    fn settle_role(&mut self, now: Time) -> bool {
        let role = role::decide(
            &self.role,
            &self.inventory,
            self.config.identity,
            self.own_guid(),
        );
        let before = std::mem::replace(&mut self.role, role);
        match (&before, &self.role) {
            (_, Role::Standby { .. }) => {
                self.meter.discard();
                self.next_light = Some(now + self.config.standby_poll);
                if before != self.role {
                    self.publish(now);
                }
                false
            }
            (Role::Standby { .. }, Role::Master) => {
                self.meter.discard();
                self.found.look_again();
                self.work.sweep_everything(true, "the master is gone");
                self.publish(now);
                false
            }
            _ => true,
        }
    }

    fn start_plan(&mut self, now: Time) {
        self.generation += 1;
        let (groups, masks) = self.members(now);
        let job = Job {
            generation: self.generation,
            fabric: self.fabric.clone(),
            claims: self.claims.clone(),
            policy: self.config.policy.clone(),
            damped: self.damped.clone(),
            previous: self.plan.clone(),
            hardware: self
                .inventory
                .switches()
                .map(|(guid, _, switch)| Held {
                    switch: guid,
                    entries: switch.lft.entries().clone(),
                    complete: switch.lft.is_complete(switch.info.linear_fdb_top()),
                })
                .collect(),
            groups,
            masks,
            basis: None,
        };
        self.work.regrouped();
        self.stage = Stage::Planning {
            generation: self.generation,
        };
        self.effects.push_back(Effect::Plan(Box::new(job)));
    }

    /// Plans multicast anew, if there is a plan whose routes it can be planned on. Without one, or while another subnet
    /// manager is master, the next plan has the groups anyway.
    fn start_groups(&mut self, now: Time) {
        let Some(plan) = self.plan.clone().filter(|_| self.role == Role::Master) else {
            self.meter.discard();
            return;
        };
        self.groups_only = true;
        self.generation += 1;
        let (groups, masks) = self.members(now);
        let job = Job {
            generation: self.generation,
            fabric: self.fabric.clone(),
            claims: self.claims.clone(),
            policy: self.config.policy.clone(),
            damped: self.damped.clone(),
            previous: None,
            hardware: Vec::new(),
            groups,
            masks,
            basis: Some(plan),
        };
        self.stage = Stage::Planning {
            generation: self.generation,
        };
        self.effects.push_back(Effect::Plan(Box::new(job)));
    }

    /// Who takes part in multicast, if that is known, and what switches hold of it.
    fn members(&mut self, now: Time) -> (Option<Arc<GroupSet>>, Vec<HeldMasks>) {
        let masks = self.held_masks();
        let Some(groups) = &self.groups else {
            return (None, masks);
        };
        self.found.look(&self.fabric, &masks, groups, now);
        (Some(self.found.with(groups)), masks)
    }

    fn held_masks(&self) -> Vec<HeldMasks> {
        let switches = self.inventory.switches();
        switches
            .map(|(guid, _, switch)| HeldMasks {
                switch: guid,
                masks: switch.mft.masks().clone(),
            })
            .collect()
    }

    pub(super) fn accept_plan(&mut self, outcome: Outcome, now: Time) {
        self.meter.mark(Part::Plan, now);
        match outcome {
            Outcome::Plan(plan) => {
                self.residue.clone_from(&plan.findings);
                let claims = Arc::make_mut(&mut self.claims);
                let mut news = false;
                for (&at, &claim) in &plan.lids.lids {
                    news |= claims.insert(plan.fabric.port(at).guid, claim) != Some(claim);
                }
                self.plan = Some(plan.clone());
                if news {
                    self.remember();
                }
                if self.groups_only && !self.unfinished {
                    let changes = diff_multicast(&self.inventory, &plan);
                    self.push(plan, changes, now);
                } else if self.groups_only {
                    // What the last push left undone is still to do, and not on a way that this plan could know.
                    self.groups_only = false;
                    self.resume_push(now);
                } else {
                    self.start_push(plan, now);
                }
            }
            Outcome::Refused(error) => {
                let text = format!("{}; the routes in force stay", chain(&error));
                self.residue = vec![Finding::new(
                    FindingKind::RoutingRefused,
                    Subject::Subnet,
                    Severity::Error,
                    text,
                )];
                self.conclude(Pushed::default(), &[], now);
            }
        }
    }

    /// Writes what differs from the plan in force, which was not made for what the hardware holds now.
    ///
    /// Where tables differ the way there has to be judged anew, so that the plan is made again.
    fn resume_push(&mut self, now: Time) {
        let Some(plan) = self.plan.clone() else {
            return;
        };
        let changes = diff(&self.inventory, &self.fabric, &plan, &self.not_kept, None);
        if changes.blocks() > 0 {
            self.start_plan(now);
        } else {
            self.push(plan, changes, now);
        }
    }

    /// Writes what differs from `plan`, which was just made for what the hardware holds.
    fn start_push(&mut self, plan: Arc<Plan>, now: Time) {
        let waypoint = plan.waypoint.as_deref();
        let changes = diff(
            &self.inventory,
            &self.fabric,
            &plan,
            &self.not_kept,
            waypoint,
        );
        self.push(plan, changes, now);
    }

    fn push(&mut self, plan: Arc<Plan>, changes: Changes, now: Time) {
        if changes.is_empty() {
            self.unfinished = false;
            self.conclude(
                Pushed {
                    complete: true,
                    ..Pushed::default()
                },
                &[],
                now,
            );
            return;
        }
        for (key, change) in &changes.ports {
            if key.port != PortNum::ZERO || !change.info {
                continue;
            }
            let node = self.inventory.node_mut(key.node);
            if let Some(switch) = node.and_then(|node| node.switch.as_mut()) {
                switch.unheard = true;
            }
        }
        self.stage = Stage::Pushing(Box::new(Push::start(plan, changes, &self.inventory)));
    }

    fn end_push(&mut self, now: Time) {
        let Stage::Pushing(push) = std::mem::replace(&mut self.stage, Stage::Idle) else {
            return;
        };
        self.meter.mark(Part::Push, now);
        let progress = push.progress();
        self.residue.retain(|finding| {
            !matches!(
                finding.kind,
                FindingKind::SetFailed | FindingKind::FieldNotKept
            )
        });
        let failed = self.word_failures(push.failures());
        self.residue.extend(failed);
        self.unfinished = push.was_stopped() || push.owes_multicast();
        let pushed = Pushed {
            lft_blocks: progress.blocks as u64,
            mft_blocks: progress.multicast_blocks as u64,
            switches_written: progress.switches as u64,
            ports_activated: progress.activated as u64,
            complete: push.is_complete(),
        };
        let nodes: BTreeSet<Guid> = push.failures().iter().map(Failure::node).collect();
        self.count_misses(push.failures());
        let nodes: Vec<Guid> = nodes.into_iter().collect();
        self.work.read_again(push.unread());
        if push.learned() {
            self.remember();
        }
        self.conclude(pushed, &nodes, now);
    }

    /// Ends a pass: its cost is recorded, its result published, what failed is scheduled to be repaired.
    fn conclude(&mut self, pushed: Pushed, failed: &[Guid], now: Time) {
        self.stage = Stage::Idle;
        if !self.groups_only {
            self.fabric = Arc::new(Fabric::build(&self.inventory));
        }
        self.schedule_repair(failed, now);
        let generation = self.plan.as_ref().map_or(0, |plan| plan.generation);
        if let Some(convergence) = self
            .meter
            .finish(generation, pushed, now, &self.client.stats())
        {
            let convergence = Arc::new(convergence);
            // Joins come by the thousand, and are not what anybody looks for in the history.
            if !self.groups_only {
                if self.history.len() == HISTORY {
                    self.history.pop_front();
                }
                self.history.push_back(convergence.clone());
            }
            self.publish(now);
            self.effects
                .push_back(Effect::Converged(convergence.clone()));
            self.keep_promises(&convergence);
        }
    }

    /// Whoever waits for what is done now is told, unless there is more to do at once.
    fn keep_promises(&mut self, convergence: &Arc<Convergence>) {
        if self.work.is_urgent() {
            return;
        }
        for ticket in self.work.take_tickets() {
            self.effects.push_back(Effect::Done {
                ticket,
                convergence: convergence.clone(),
            });
        }
    }

    fn schedule_repair(&mut self, failed: &[Guid], now: Time) {
        let faults = &self.inventory.faults;
        let owes = faults.to_ask_again().next().is_some() || faults.owed().next().is_some();
        if failed.is_empty() && !owes {
            self.work.repaired();
        } else {
            self.work.repair(failed.iter().copied(), now);
        }
    }

    fn schedule_light(&mut self, now: Time) {
        let pause = match self.role {
            Role::Standby { .. } => self.config.standby_poll,
            _ => self.config.light_sweep,
        };
        if self.next_light.is_none() && !pause.is_zero() {
            self.next_light = Some(now + pause);
        }
    }

    fn remember(&mut self) {
        self.effects
            .push_back(Effect::Remember(Box::new(Remembered {
                claims: (*self.claims).clone(),
                not_kept: self.not_kept.clone(),
                generation: self.generation,
            })));
    }

    /// A node that did not answer Sets of this push has missed once, however many there were.
    fn count_misses(&mut self, failures: &[Failure]) {
        let silent: BTreeSet<Guid> = failures
            .iter()
            .filter(|failure| failure.cause == Cause::Silence)
            .map(Failure::node)
            .collect();
        for guid in silent {
            if let Some(node) = self.inventory.node_mut(guid) {
                node.missed = node.missed.saturating_add(1);
            }
        }
    }

    fn word_failures(&self, failures: &[Failure]) -> Vec<Finding> {
        let mut findings: Vec<Finding> = failures
            .iter()
            .map(|failure| {
                let (subject, what) = match failure.task {
                    Task::Switch(guid) => (Subject::Node(guid), "SwitchInfo".to_owned()),
                    Task::Block { switch, .. } => {
                        (Subject::Node(switch), "its forwarding table".to_owned())
                    }
                    Task::Multicast { switch, .. } => (
                        Subject::Node(switch),
                        "its multicast forwarding table".to_owned(),
                    ),
                    Task::MulticastTop(guid) => (Subject::Node(guid), "MulticastFDBTop".to_owned()),
                    Task::Port(key, _) => {
                        (Subject::Port(key), format!("PortInfo of port {}", key.port))
                    }
                    Task::Guids(key, _) => {
                        (Subject::Port(key), format!("GUIDInfo of port {}", key.port))
                    }
                    Task::PKeys(key, _) => (
                        Subject::Port(key),
                        format!("the P_Key table of port {}", key.port),
                    ),
                };
                let why = match failure.cause {
                    Cause::Silence => "did not answer".to_owned(),
                    Cause::Refused(status) => format!("refused it: {status}"),
                    Cause::NotHeld => "answered, but does not hold what was set".to_owned(),
                };
                let text = format!(
                    "{} was set on {}, which {why}; it is tried again",
                    what,
                    self.name(failure.node())
                );
                Finding::new(FindingKind::SetFailed, subject, Severity::Error, text)
            })
            .collect();
        findings.sort();
        findings.dedup();
        findings
    }
}

/// Links between switches that came, went or were retrained since the last model count as having flapped.
fn count_flaps(damping: &mut Damping, delta: &Delta, old: &Fabric, new: &Fabric, now: Time) {
    if old.nodes.is_empty() {
        return;
    }
    let between_switches = |fabric: &Fabric, key: PortKey| {
        fabric
            .find(key.node)
            .is_some_and(|ix| fabric.node(ix).is_switch())
    };
    for &(a, b) in &delta.links_vanished {
        if between_switches(old, a) && between_switches(old, b) {
            damping.flapped(a, now);
        }
    }
    for &key in &delta.ports_changed {
        let state = |fabric: &Fabric| {
            fabric
                .find_port(key)
                .map(|at| (fabric.port(at).state(), fabric.port(at).peer))
        };
        let (Some((before, Some(_))), Some((PortState::Init, Some(peer)))) =
            (state(old), state(new))
        else {
            continue;
        };
        let peer = new.key(peer);
        // Both ends fell back; it counts once, for the lower end.
        if before == PortState::Active
            && key < peer
            && between_switches(new, key)
            && between_switches(new, peer)
        {
            damping.flapped(key, now);
        }
    }
}

/// An error with all of its causes.
fn chain(error: &PlanError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
