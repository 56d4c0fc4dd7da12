//! Settings that operators request while rsm runs: another engine, drained parts, and changes of
//! partitions. A setting is on trial until the first plan with it is accepted or refused.
//!
//! If the plan is accepted, the setting stays. If it is refused, the former setting is in force
//! again, and the issuer of the request gets the reason.

mod detours;
mod engine;
mod partitions;

use std::sync::Arc;

use rsm_config::overlay::{ChangeError, Overlay};
use rsm_model::fabric::Fabric;
use rsm_plan::PlanError;
use rsm_plan::avoid::Avoid;
use rsm_plan::policy::Policy;
use rsm_state::Ticket;

use super::event::Effect;
use super::outbox::Outbox;
use super::work::Work;
pub(super) use detours::Detours;
use engine::EngineTrial;
pub(super) use partitions::PartitionChanges;

/// The settings on trial, and the settings in force that trials change.
pub(super) struct Trials {
    pub(super) engine: EngineTrial,
    pub(super) detours: Detours,
    pub(super) partitions: PartitionChanges,
}

/// Access to the parts of the core through which requests are answered: the waiting work completes
/// tickets, and the outbox declines them.
pub(super) struct Answers<'a> {
    work: &'a mut Work,
    outbox: &'a mut Outbox,
}

/// A requested setting, until its first plan.
#[derive(Clone, Copy, Debug)]
struct Trial<T> {
    ticket: Ticket,
    /// Setting to restore.
    before: T,
    /// Generation of the first job with the requested setting, so that plans of earlier jobs do not
    /// end the trial; `None` before that job.
    generation: Option<u64>,
}

impl<T> Trial<T> {
    /// A trial whose setting no job has yet.
    fn new(ticket: Ticket, before: T) -> Trial<T> {
        Trial {
            ticket,
            before,
            generation: None,
        }
    }

    /// Records the generation of the first job with the requested setting.
    fn record_job(&mut self, generation: u64) {
        self.generation.get_or_insert(generation);
    }

    /// Takes the trial if the job of this generation has the requested setting. The job may be a
    /// later one than the first: the first may have been discarded, for example because mastership
    /// was in doubt.
    fn end(trial: &mut Option<Trial<T>>, generation: u64) -> Option<Trial<T>> {
        trial.take_if(|trial| trial.generation.is_some_and(|first| first <= generation))
    }

    /// Takes the trial of `ticket` if no job has its setting yet.
    fn withdraw(trial: &mut Option<Trial<T>>, ticket: Ticket) -> Option<Trial<T>> {
        trial.take_if(|trial| trial.ticket == ticket && trial.generation.is_none())
    }
}

impl Trials {
    /// State without trials; `avoid` and `overlay` are in force.
    pub(super) fn new(
        avoid: Arc<Avoid>,
        overlay: Arc<Overlay>,
        policy: &mut Arc<Policy>,
    ) -> Trials {
        Trials {
            engine: EngineTrial::default(),
            detours: Detours::new(avoid),
            partitions: PartitionChanges::new(overlay, policy),
        }
    }

    /// Puts the waiting settings into the policy of the job with this `generation`, which begins
    /// now.
    pub(super) fn begin(&mut self, generation: u64, policy: &mut Arc<Policy>) {
        self.partitions.begin(generation, policy);
        self.engine.begin(generation);
        self.detours.begin(generation);
    }

    /// Keeps the settings of the job with this `generation`, whose plan was accepted. Returns
    /// whether they must be stored.
    pub(super) fn pass(&mut self, generation: u64, answers: &mut Answers) -> bool {
        self.engine.pass(generation);
        self.detours.pass(generation, answers) | self.partitions.pass(generation)
    }

    /// Restores the former settings after the job with this `generation` was refused. Returns
    /// whether the job had settings on trial.
    pub(super) fn fail(
        &mut self,
        generation: u64,
        error: &PlanError,
        policy: &mut Arc<Policy>,
        fabric: &Fabric,
        answers: &mut Answers,
    ) -> bool {
        let reason = error.with_causes();
        self.detours.fail(generation, error, answers)
            | self.engine.fail(generation, error, policy, answers)
            | self
                .partitions
                .end(&ChangeError::Plan { reason }, policy, fabric, answers)
    }

    /// Handles that the issuer of `ticket` no longer waits. Drops the setting if no job has it yet;
    /// otherwise the plan of that job still decides about it.
    pub(super) fn withdraw(
        &mut self,
        ticket: Ticket,
        policy: &mut Arc<Policy>,
        answers: &mut Answers,
    ) {
        self.detours.withdraw(ticket, answers);
        self.partitions.withdraw(ticket);
        self.engine.withdraw(ticket, policy);
    }

    /// Ends all trials, and declines their requests for `reason`. The former engine, drained parts
    /// and partitions are restored.
    pub(super) fn abandon(
        &mut self,
        reason: &str,
        policy: &mut Arc<Policy>,
        fabric: &Fabric,
        answers: &mut Answers,
    ) {
        self.engine.abandon(reason, policy, answers);
        self.detours.abandon(reason, answers);
        self.partitions.abandon(reason, policy, fabric, answers);
    }
}

impl<'a> Answers<'a> {
    pub(super) fn to(work: &'a mut Work, outbox: &'a mut Outbox) -> Answers<'a> {
        Answers { work, outbox }
    }

    /// Queues a plan, which completes `ticket`.
    fn queue_plan(&mut self, ticket: Ticket, cause: impl Into<String>) {
        self.work.plan_again(cause);
        self.work.add_ticket(ticket);
    }

    /// Reports that the plan with the request of `ticket` was refused.
    fn refuse(&mut self, ticket: Ticket, error: &PlanError) {
        let ports = match error {
            PlanError::CutOff(cut_off) => cut_off.ports.len(),
            PlanError::Interrupted(interrupted) => interrupted.ports.len(),
            _ => return self.decline(ticket, error.with_causes()),
        };
        self.work.withdraw(ticket);
        let reason = error.to_string();
        self.outbox.push(Effect::CutOff {
            ticket,
            ports,
            reason,
        });
    }

    /// Declines the request of `ticket`, for `reason`.
    fn decline(&mut self, ticket: Ticket, reason: String) {
        self.work.withdraw(ticket);
        self.outbox.decline(ticket, reason);
    }

    /// Reports that the change of a partition that `ticket` requested was refused.
    fn refuse_change(&mut self, ticket: Ticket, error: ChangeError) {
        self.work.withdraw(ticket);
        self.outbox.push(Effect::PartitionRefused { ticket, error });
    }
}
