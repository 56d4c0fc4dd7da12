//! Another engine on trial. The former engine is restored if the plan with the new one is refused.
//! While an engine is on trial, requests for other engines are declined.

use std::sync::Arc;

use rsm_config::overlay::WhenCutOff;
use rsm_plan::PlanError;
use rsm_plan::policy::Policy;
use rsm_routing::engine::EngineKind;
use rsm_state::Ticket;

use super::{Answers, Trial};

/// The engine on trial, if there is one.
#[derive(Default, Debug)]
pub(in super::super) struct EngineTrial(Option<Trial<BeforeEngine>>);

/// The state before the engine on trial.
#[derive(Clone, Copy, Debug)]
struct BeforeEngine {
    /// The engine to restore.
    engine: EngineKind,
    /// Whether packets may be dropped while the new engine's tables are written.
    when_cut_off: WhenCutOff,
}

impl EngineTrial {
    /// Requests a plan with `engine`. The engine stays if the plan is accepted. `when_cut_off` says
    /// whether writing the plan's tables may drop packets.
    pub(in super::super) fn request(
        &mut self,
        engine: EngineKind,
        when_cut_off: WhenCutOff,
        ticket: Ticket,
        policy: &mut Arc<Policy>,
        answers: &mut Answers,
    ) {
        if self.0.is_some() {
            let reason = "another engine is being tried".to_owned();
            answers.outbox.decline(ticket, reason);
            return;
        }
        let policy = Arc::make_mut(policy);
        let before = BeforeEngine {
            engine: std::mem::replace(&mut policy.engine, engine),
            when_cut_off,
        };
        self.0 = Some(Trial::new(ticket, before));
        answers.queue_plan(ticket, format!("engine {engine} requested"));
    }

    /// Whether the next job is refused if packets are dropped while its tables are written.
    pub(in super::super) fn refuses_interruption(&self) -> bool {
        let before = self.0.as_ref().map(|trial| trial.before);
        before.is_some_and(|before| before.when_cut_off == WhenCutOff::Refuse)
    }

    /// Records that a job with the engine on trial begins.
    pub(super) fn begin(&mut self, generation: u64) {
        if let Some(trial) = &mut self.0 {
            trial.record_job(generation);
        }
    }

    /// Keeps the engine on trial if the accepted job uses it.
    pub(super) fn pass(&mut self, generation: u64) {
        Trial::end(&mut self.0, generation);
    }

    /// Restores the former engine if the refused job uses the engine on trial. Returns whether it
    /// uses that engine.
    pub(super) fn fail(
        &mut self,
        generation: u64,
        error: &PlanError,
        policy: &mut Arc<Policy>,
        answers: &mut Answers,
    ) -> bool {
        let Some(trial) = Trial::end(&mut self.0, generation) else {
            return false;
        };
        Arc::make_mut(policy).engine = trial.before.engine;
        answers.refuse(trial.ticket, error);
        true
    }

    /// Restores the former engine if `ticket` requested the engine on trial and no job uses it yet.
    pub(super) fn withdraw(&mut self, ticket: Ticket, policy: &mut Arc<Policy>) {
        if let Some(trial) = Trial::withdraw(&mut self.0, ticket) {
            Arc::make_mut(policy).engine = trial.before.engine;
        }
    }

    /// Ends the trial, declines its request for `reason`, and restores the former engine. Returns
    /// whether there was a trial.
    pub(in super::super) fn abandon(
        &mut self,
        reason: &str,
        policy: &mut Arc<Policy>,
        answers: &mut Answers,
    ) -> bool {
        let Some(trial) = self.0.take() else {
            return false;
        };
        Arc::make_mut(policy).engine = trial.before.engine;
        answers.decline(trial.ticket, reason.to_owned());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::outbox::Outbox;
    use super::super::super::work::Work;
    use super::*;

    /// Another manager becomes master before the plan of the trial: this manager must not plan with
    /// the untried engine when it is master again.
    #[test]
    fn abandoned_trial_restores_the_former_engine() {
        let (mut work, mut outbox) = (Work::default(), Outbox::default());
        let mut answers = Answers::to(&mut work, &mut outbox);
        let mut policy = Arc::new(Policy::default());
        let before = policy.engine;
        assert_ne!(before, EngineKind::MinHop);
        let mut trial = EngineTrial::default();
        trial.request(
            EngineKind::MinHop,
            WhenCutOff::Refuse,
            1,
            &mut policy,
            &mut answers,
        );
        assert_eq!(policy.engine, EngineKind::MinHop);
        assert!(trial.abandon("another master", &mut policy, &mut answers));
        assert_eq!(policy.engine, before);
        assert!(!trial.refuses_interruption());
    }
}
