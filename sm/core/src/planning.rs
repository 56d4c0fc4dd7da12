//! Planning in the core: the job of a plan, and its outcome.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_hardware::diff::Changes;
use rsm_hardware::link_step::LinkStep;
use rsm_ids::{Guid, PortKey};
use rsm_mad::Time;
use rsm_mad::wire::attr::SmState;
use rsm_model::fabric::Delta;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_plan::lids::LidRights;
use rsm_plan::{JobKind, Outcome, Plan, PlanError, PlanJob};

use super::convergence::{Pushed, TimedStage};
use super::event::Effect;
use super::stage::Stage;
use super::trials::Answers;
use super::{Core, Pass, adaptive};

impl Core {
    /// Starts a plan of the whole subnet on the current model, settings and trials.
    pub(super) fn start_plan(&mut self, now: Time) {
        let next = self.plans.generation() + 1;
        let mut answers = Answers::to(&mut self.work, &mut self.outbox);
        self.trials
            .partitions
            .recheck_after_drops(&self.fabric, &mut answers);
        self.trials.begin(next, &mut self.config.policy);
        // The sweep began with the former keys if a rotation or a reload has come since.
        self.update_m_keys();
        let job = self.job_on_hardware(now);
        if self.work.wants_plan() {
            self.work.record_plan();
            if !self.work.is_due() {
                // No other work waits, so all recorded causes belong to this plan.
                self.recorder.join(&self.work.take_cause());
            }
        }
        self.work.record_multicast_plan();
        self.begin_planning(job);
    }

    /// The job of a plan that replaces the plan in force.
    pub(super) fn job_on_hardware(&mut self, now: Time) -> PlanJob {
        PlanJob {
            previous: self
                .plans
                .in_force()
                .cloned()
                .filter(|_| !self.first_sweep.is_provisional())
                .or_else(|| self.mastership.prepared_plan().cloned()),
            hardware: self.plans.held_tables(&self.inventory),
            adaptive: self
                .config
                .policy
                .adaptive
                .is_on()
                .then(|| adaptive::hardware(&self.inventory, &self.plans.assigned.group_ids)),
            ..self.job(now)
        }
    }

    /// Whether the plan in force leaves out a switch that answers now.
    pub(super) fn mute_switch_answers(&self) -> bool {
        let plan = self.plans.in_force();
        plan.is_some_and(|plan| plan.transition.mute.iter().any(|&guid| !self.is_mute(guid)))
    }

    /// Whether a switch answers no Gets, or has not acknowledged a Set of its forwarding table.
    fn is_mute(&self, guid: Guid) -> bool {
        let switch = self
            .inventory
            .hardware
            .node(guid)
            .and_then(|node| node.switch.as_ref());
        self.inventory.suspects.contains(&guid)
            || switch.is_some_and(|switch| {
                let top = switch.info.linear_fdb_top();
                switch.lft.sent(top).next().is_some()
            })
    }

    /// Plans multicast again on the routes of the plan in force. Does nothing without a plan, or
    /// while another subnet manager is master: the next full plan includes the groups.
    pub(super) fn start_groups(&mut self, now: Time) {
        let Some(plan) = self
            .plans
            .in_force()
            .cloned()
            .filter(|_| self.mastership.is_master())
        else {
            self.recorder.discard();
            return;
        };
        self.pass = Pass::Multicast;
        let job = PlanJob {
            kind: JobKind::Multicast { routes: plan },
            ..self.job(now)
        };
        self.begin_planning(job);
    }

    /// Plans a step of rebalancing, if there still is a plan to start from.
    pub(super) fn start_rebalancing(&mut self, now: Time) {
        if self.plans.in_force().is_none() || !self.mastership.is_master() {
            self.recorder.discard();
            return;
        }
        self.pass = Pass::Rebalance;
        let max_blocks = self.config.rebalance.blocks;
        let job = PlanJob {
            kind: JobKind::Rebalance { max_blocks },
            ..self.job_on_hardware(now)
        };
        self.begin_planning(job);
    }

    /// Creates a job with the inputs that all kinds of jobs share, and the next generation.
    fn job(&mut self, now: Time) -> PlanJob {
        let generation = self.plans.advance();
        let (groups, masks) =
            self.members
                .for_plan(&self.fabric, &self.inventory, &self.config, now);
        let own = self.inventory.own_guid();
        let claims = &self.plans.assigned.claims;
        let rights = LidRights {
            overwritten: Arc::new(self.overwritten_lids()),
            ..self.mastership.lid_rights(own, &self.fabric, claims)
        };
        PlanJob {
            generation,
            claims: self.plans.assigned.claims.clone(),
            rights,
            assigns_lids_anew: self.plans.reassigns_lids(),
            positions: self.plans.assigned.positions.clone(),
            gpus: self.plans.gpus().clone(),
            damped: self.links.left_out().clone(),
            avoid: self.trials.detours.planned().clone(),
            avoided_before: self.trials.detours.refusable(),
            refuses_interruption: self.trials.engine.refuses_interruption(),
            groups,
            masks,
            ..PlanJob::first(self.fabric.clone(), self.config.policy.clone())
        }
    }

    /// GUIDs of the ports whose LID another host has overwritten. Empty while another master is
    /// visible: both masters would rewrite the same LIDs without end.
    fn overwritten_lids(&self) -> BTreeSet<Guid> {
        let others = rsm_mastership::others(&self.inventory);
        let has_rival = others.iter().any(|other| other.state == SmState::Master);
        match has_rival || self.mastership.is_partitioned() {
            true => BTreeSet::new(),
            false => self.foreign_writes.ports_with_other_lids(&self.inventory),
        }
    }

    /// Hands `job` to the planning threads, and waits for its outcome in stage `Planning`.
    pub(super) fn begin_planning(&mut self, job: PlanJob) {
        self.stage = Stage::Planning {
            generation: job.generation,
        };
        self.outbox.push(Effect::Plan(Box::new(job)));
    }

    /// Orders Sets that disable the ports that operators have disabled and whose links are down:
    /// these links could come up later.
    fn disable_down_ports(&mut self) {
        let disabled = self.trials.detours.in_force().disabled();
        let down = disabled.filter(|&port| self.inventory.may_come_up(port));
        for port in down.collect::<Vec<PortKey>>() {
            self.inventory.link_orders.insert(port, LinkStep::Disable);
        }
    }

    /// Plans again without the settings on trial in the refused job, unless the plan in force was
    /// made for the present cables, settings, drains and links left out.
    fn plan_without_trial(&mut self) {
        let is_current = self.plans.in_force().is_some_and(|plan| {
            !Delta::between(&plan.fabric, &self.fabric).changes_cabling()
                && Arc::ptr_eq(&plan.policy, &self.config.policy)
                && plan.avoided.avoid == *self.trials.detours.in_force()
                && plan.avoided.damped == *self.links.left_out()
        });
        if !is_current {
            self.work
                .plan_again("the settings from before the trial are in force again");
        }
        // The refused job had the latest multicast groups.
        self.work.regroup();
    }

    /// Restores the settings that the trials of the refused job had replaced. Returns whether the
    /// job had trials.
    fn fail_trials(&mut self, error: &PlanError) -> bool {
        let generation = self.plans.generation();
        let policy = &mut self.config.policy;
        let trials = &mut self.trials;
        trials.fail(
            generation,
            error,
            policy,
            &self.fabric,
            &mut Answers::to(&mut self.work, &mut self.outbox),
        )
    }

    /// Puts an accepted plan in force, with its findings and assignments.
    fn put_in_force(&mut self, plan: &Arc<Plan>) {
        self.links.set_slow_siblings(plan);
        let before = self.plans.in_force().cloned();
        let assigned = self.plans.assigned.adopt_plan(plan, before.as_deref());
        for &port in &assigned.moved {
            self.mastership.record_assigned_lid(port);
        }
        match self.pass {
            // The routes stay, and so does all that the last full pass has found about them.
            Pass::Multicast => {
                self.reports.replace_multicast(&plan.findings);
                self.plans.replace_multicast(plan.clone());
            }
            Pass::Full | Pass::Rebalance | Pass::Succession => {
                self.missing.count_moved(plan, &self.fabric);
                self.first_sweep.record_plan();
                self.reports.begin_pass(plan.findings.clone());
                self.plans.accept(plan.clone());
            }
        }
        if self.pass == Pass::Full {
            self.plans.keep_lids();
        }
        if assigned.has_new {
            self.remember();
        }
    }

    /// Handles the outcome of planning: puts a new plan in force and starts its push, or records
    /// why no plan was made. After a refusal, the routes in force stay.
    pub(super) fn accept_plan(&mut self, outcome: Outcome, now: Time) {
        self.recorder.mark(TimedStage::Plan, now);
        match outcome {
            Outcome::Unchanged { .. } => {
                self.stage = Stage::Idle;
                self.recorder.discard();
                self.announce_end_of_push();
            }
            Outcome::Plan(plan) => {
                let mut answers = Answers::to(&mut self.work, &mut self.outbox);
                if self.trials.pass(self.plans.generation(), &mut answers) {
                    self.disable_down_ports();
                    self.remember();
                }
                self.recorder.record_whole(plan.whole.iter().cloned());
                self.put_in_force(&plan);
                match self.pass {
                    Pass::Multicast if !self.writing.is_open() => {
                        let mut changes = Changes::default();
                        self.compare_multicast(&plan, &mut changes);
                        self.push(plan, changes, now);
                    }
                    Pass::Multicast => {
                        // The unfinished Sets of the last push also concern routes, and need
                        // interim tables of their own.
                        self.pass = Pass::Full;
                        self.resume_push(now);
                    }
                    Pass::Full | Pass::Rebalance | Pass::Succession => {
                        self.start_push(plan, now);
                    }
                }
            }
            // The trial has failed: the former engine is in force again, and its findings stay.
            // Without other changes, the hardware still holds the plan in force.
            Outcome::Refused(refused) if self.fail_trials(&refused.error) => {
                self.recorder.join("refused");
                self.plan_without_trial();
                match self.plans.in_force().is_some() && !self.work.wants_plan() {
                    true => self.resume_push(now),
                    false => self.conclude(Pushed::default(), &[], now),
                }
            }
            Outcome::Refused(refused) => {
                let text = format!(
                    "no plan was made for the present fabric: {}; the routes in force stay, and {}",
                    refused.with_causes(),
                    refused.fit()
                );
                self.reports.begin_pass(vec![Finding::new(
                    FindingKind::RoutingRefused,
                    Subject::Subnet,
                    Severity::Error,
                    text,
                )]);
                let reason = format!("no plan was made: {}", refused.with_causes());
                self.plans.refuse(*refused);
                self.conclude(Pushed::nothing(reason), &[], now);
            }
        }
    }
}
