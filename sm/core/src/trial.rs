//! Another engine at run time: tried, and taken back if the proof refutes its routes.
//!
//! Drains and changes of the partition overlay are on trial in the same way, until their first
//! plan. An engine on trial has no other engines after it.

use std::sync::Arc;

use rsm_config::overlay::WhenCutOff;
use rsm_plan::PlanError;
use rsm_routing::engine::EngineKind;
use rsm_state::Ticket;

use super::Core;
use super::event::Effect;

/// A requested setting of routes, until its first plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial<T> {
    pub(super) ticket: Ticket,
    /// The setting to go back to.
    pub(super) before: T,
    /// The first job with the requested setting; plans of earlier jobs do not concern it.
    generation: Option<u64>,
}

impl<T> Trial<T> {
    /// A trial that no job has yet.
    pub(super) fn new(ticket: Ticket, before: T) -> Trial<T> {
        Trial {
            ticket,
            before,
            generation: None,
        }
    }

    /// Notes the generation of the first job with the requested setting.
    pub(super) fn note(&mut self, generation: u64) {
        self.generation.get_or_insert(generation);
    }

    /// Ends the trial if the job of this generation is its own.
    pub(super) fn end(trial: &mut Option<Trial<T>>, generation: u64) -> Option<Trial<T>> {
        trial.take_if(|trial| trial.generation == Some(generation))
    }

    /// Ends the trial of `ticket` if no job has its setting yet.
    pub(super) fn withdraw(trial: &mut Option<Trial<T>>, ticket: Ticket) -> Option<Trial<T>> {
        trial.take_if(|trial| trial.ticket == ticket && trial.generation.is_none())
    }
}

/// The state before another engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct BeforeEngine {
    /// The engine to go back to.
    engine: EngineKind,
    /// Whether the new engine's tables may drop packets while they are written.
    when_cut_off: WhenCutOff,
}

impl Core {
    /// Plans with `engine`, and keeps it if its plan is proved, and interrupts no port that the
    /// operator has not accepted to be.
    pub(super) fn try_engine(
        &mut self,
        engine: EngineKind,
        when_cut_off: WhenCutOff,
        ticket: Ticket,
    ) {
        if self.trial.is_some() {
            let reason = "another engine is being tried".to_owned();
            self.outbox.decline(ticket, reason);
            return;
        }
        let policy = Arc::make_mut(&mut self.config.policy);
        let before = BeforeEngine {
            engine: std::mem::replace(&mut policy.engine, engine),
            when_cut_off,
        };
        self.trial = Some(Trial::new(ticket, before));
        self.work.plan_again(format!("engine {engine} requested"));
        self.work.promise(ticket);
    }

    /// Whether the next job is refused if its tables drop packets while they are written.
    pub(super) fn refuses_interruption(&self) -> bool {
        let before = self.trial.as_ref().map(|trial| trial.before);
        before.is_some_and(|before| before.when_cut_off == WhenCutOff::Refuse)
    }

    /// Notes the generation of the first job with the engine under trial.
    pub(super) fn note_trial(&mut self) {
        if let Some(trial) = &mut self.trial {
            trial.note(self.plans.generation());
        }
    }

    /// Ends the trial with success if the plan is of its job.
    pub(super) fn pass_trial(&mut self) {
        Trial::end(&mut self.trial, self.plans.generation());
    }

    /// Goes back to the engine before if the refused job was the trial's. Returns whether it was.
    pub(super) fn fail_trial(&mut self, error: &PlanError) -> bool {
        let Some(trial) = Trial::end(&mut self.trial, self.plans.generation()) else {
            return false;
        };
        Arc::make_mut(&mut self.config.policy).engine = trial.before.engine;
        self.refuse(trial.ticket, error);
        true
    }

    /// The issuer of `ticket` no longer waits. An engine that no job has yet is not tried; one that
    /// a job has already is kept or taken back by its plan.
    pub(super) fn withdraw(&mut self, ticket: Ticket) {
        self.work.withdraw(ticket);
        self.withdraw_drain(ticket);
        self.withdraw_change(ticket);
        self.withdraw_rotation(ticket);
        if let Some(trial) = Trial::withdraw(&mut self.trial, ticket) {
            Arc::make_mut(&mut self.config.policy).engine = trial.before.engine;
        }
    }

    /// Ends the trial without a verdict, for `reason`. The engine in the configuration stays.
    pub(super) fn drop_trial(&mut self, reason: &str) {
        if let Some(trial) = self.trial.take() {
            self.decline(trial.ticket, reason.to_owned());
        }
    }

    /// The plan with the request of `ticket` was refused.
    pub(super) fn refuse(&mut self, ticket: Ticket, error: &PlanError) {
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

    pub(super) fn decline(&mut self, ticket: Ticket, reason: String) {
        self.work.withdraw(ticket);
        self.outbox.decline(ticket, reason);
    }
}
