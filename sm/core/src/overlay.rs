//! Changes of the partition overlay: waiting, on trial, in force.
//!
//! A change is checked when it comes, and waits for the next plan. All that wait go into one plan:
//! if the core refuses it, none of them is in force. Those whose plan is accepted go to the store,
//! and their callers hear of it when the hardware holds the plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_config::Partitions;
use rsm_config::overlay::{Action, Change, ChangeError, Overlay, WhenCutOff};
use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_mad::wire::attr::PKey;
use rsm_model::findings::Finding;
use rsm_plan::PlanError;
use rsm_plan::partitions::{loss_between, overfull};
use rsm_plan::policy::Policy;
use rsm_state::{ChangeEffect, Ticket};

use super::Core;
use super::event::Effect;

/// The partitions of file and overlay.
#[derive(Debug)]
pub(super) struct OverlayState {
    /// The partitions of the file.
    file: Arc<Partitions>,
    /// The overlay in the policy: that in force, or that on trial.
    current: Arc<Overlay>,
    /// Conflicts of the two.
    conflicts: Vec<Finding>,
    trial: Option<OverlayTrial>,
    /// Changes that no job has yet. There are no more of them than callers that wait.
    waiting: Vec<(Ticket, Change)>,
    /// `current` with the waiting changes.
    next: Arc<Overlay>,
}

/// Changes whose job is under way.
#[derive(Debug)]
struct OverlayTrial {
    tickets: Vec<Ticket>,
    /// The overlay to go back to.
    before: Arc<Overlay>,
    /// The job.
    generation: u64,
}

impl OverlayState {
    /// The overlay beside the partitions of `policy`, which gets both.
    pub(super) fn new(overlay: Arc<Overlay>, policy: &mut Arc<Policy>) -> OverlayState {
        let mut state = OverlayState {
            file: policy.partitions.clone(),
            current: overlay.clone(),
            conflicts: Vec::new(),
            trial: None,
            waiting: Vec::new(),
            next: overlay,
        };
        state.lay(policy);
        state
    }

    /// Lays the current overlay over the file, for the next jobs.
    fn lay(&mut self, policy: &mut Arc<Policy>) {
        let laid = self.current.over(&self.file);
        self.conflicts = laid.findings;
        if policy.partitions != laid.partitions {
            Arc::make_mut(policy).partitions = laid.partitions;
        }
    }

    /// The overlay without changes on trial.
    pub(super) fn in_force(&self) -> &Arc<Overlay> {
        let trial = self.trial.as_ref();
        trial.map_or(&self.current, |trial| &trial.before)
    }
}

impl Core {
    /// Takes a change if it can be made on top of those that wait.
    pub(super) fn change_partition(&mut self, change: Change, ticket: Ticket) {
        match self.changed(&change) {
            Ok((next, effect)) => {
                self.take_change(next, effect, change, ticket);
                self.work
                    .plan_again("partitions were changed through the API");
                self.work.promise(ticket);
            }
            Err(error) => self.outbox.push(Effect::PartitionRefused { ticket, error }),
        }
    }

    fn take_change(&mut self, next: Overlay, effect: ChangeEffect, change: Change, ticket: Ticket) {
        self.overlay.next = Arc::new(next);
        self.overlay.waiting.push((ticket, change));
        let effect = Box::new(effect);
        self.outbox.push(Effect::PartitionTaken { ticket, effect });
    }

    /// The overlay with those changes that wait, and this one.
    fn changed(&self, change: &Change) -> Result<(Overlay, ChangeEffect), ChangeError> {
        let state = &self.overlay;
        let next = state.next.apply(change, &state.file)?;
        let before = state.next.over(&state.file).partitions;
        let after = next.over(&state.file).partitions;
        self.check_room(change, &before, &after)?;
        let p_key = change.p_key;
        let loss = loss_between(&self.fabric, PKey(p_key), &before, &after);
        if !loss.is_none() && change.when_cut_off == WhenCutOff::Refuse {
            return Err(ChangeError::CutOff { p_key, loss });
        }
        let memberships = match change.action {
            Action::LimitDefault(_) => loss.changed,
            _ => next.differing(&state.next, p_key),
        };
        Ok((next, ChangeEffect { memberships, loss }))
    }

    /// Checks that the tables of present members hold their keys by the partitions `after`.
    fn check_room(
        &self,
        change: &Change,
        before: &Partitions,
        after: &Partitions,
    ) -> Result<(), ChangeError> {
        let (Action::Create { members, .. } | Action::Add(members) | Action::Replace(members, _)) =
            &change.action
        else {
            return Ok(());
        };
        let guids: BTreeSet<Guid> = members.keys().copied().collect();
        let Some(found) = overfull(&self.fabric, before, after, &guids) else {
            return Ok(());
        };
        let node = self.fabric.node(found.at.node).name();
        Err(ChangeError::TableFull {
            guid: self.fabric.port(found.at).guid,
            place: format!("{node} port {}", found.at.port),
            wanted: found.wanted,
            capacity: found.capacity,
        })
    }

    /// Puts the waiting changes into the policy of the job that begins.
    pub(super) fn begin_overlay(&mut self) {
        let state = &mut self.overlay;
        if state.waiting.is_empty() {
            return;
        }
        let before = state.in_force().clone();
        let waiting = std::mem::take(&mut state.waiting);
        let mut tickets: Vec<Ticket> = waiting.into_iter().map(|(ticket, _)| ticket).collect();
        if let Some(trial) = state.trial.take() {
            // Its job was discarded.
            tickets.extend(trial.tickets);
        }
        state.current = state.next.clone();
        state.lay(&mut self.config.policy);
        state.trial = Some(OverlayTrial {
            tickets,
            before,
            // The number of the job that takes this policy.
            generation: self.plans.generation() + 1,
        });
    }

    /// Keeps the changes on trial if the accepted plan has them.
    pub(super) fn pass_overlay(&mut self) {
        let generation = self.plans.generation();
        let ended = self
            .overlay
            .trial
            .take_if(|trial| trial.generation <= generation);
        if ended.is_some() {
            self.remember();
        }
    }

    /// Goes back to the overlay before if the refused job had changes. Returns whether it had.
    pub(super) fn fail_overlay(&mut self, error: &PlanError) -> bool {
        let reason = error.with_causes();
        self.end_overlay_trial(&ChangeError::Plan { reason })
    }

    /// Ends changes on trial and waiting ones without a verdict, for `reason`.
    pub(super) fn drop_overlay(&mut self, reason: &str) {
        let error = ChangeError::Dropped {
            reason: reason.to_owned(),
        };
        for (ticket, _) in std::mem::take(&mut self.overlay.waiting) {
            self.refuse_change(ticket, error.clone());
        }
        self.end_overlay_trial(&error);
        self.overlay.next = self.overlay.current.clone();
    }

    fn end_overlay_trial(&mut self, error: &ChangeError) -> bool {
        let Some(trial) = self.overlay.trial.take() else {
            return false;
        };
        self.overlay.current = trial.before;
        self.overlay.lay(&mut self.config.policy);
        for ticket in trial.tickets {
            self.refuse_change(ticket, error.clone());
        }
        self.recheck_waiting();
        true
    }

    /// Makes the waiting changes anew on the overlay as it is, and refuses those that no longer fit.
    fn recheck_waiting(&mut self) {
        self.overlay.next = self.overlay.current.clone();
        for (ticket, change) in std::mem::take(&mut self.overlay.waiting) {
            match self.changed(&change) {
                Ok((next, effect)) => self.take_change(next, effect, change, ticket),
                Err(error) => self.refuse_change(ticket, error),
            }
        }
    }

    fn refuse_change(&mut self, ticket: Ticket, error: ChangeError) {
        self.work.withdraw(ticket);
        self.outbox.push(Effect::PartitionRefused { ticket, error });
    }

    /// Leaves out the change of `ticket` if no job has it yet: its issuer no longer waits.
    pub(super) fn withdraw_change(&mut self, ticket: Ticket) {
        let before = self.overlay.waiting.len();
        self.overlay
            .waiting
            .retain(|&(waiting, _)| waiting != ticket);
        if self.overlay.waiting.len() < before {
            self.recheck_waiting();
        }
    }

    /// Takes the partitions of a configuration that was read again.
    pub(super) fn reload_partitions(&mut self) {
        self.overlay.file = self.config.policy.partitions.clone();
        self.overlay.lay(&mut self.config.policy);
        self.recheck_waiting();
    }

    /// Continues with the overlay of the master before.
    pub(super) fn adopt_overlay(&mut self, overlay: Arc<Overlay>) {
        self.drop_overlay("another subnet manager was master meanwhile");
        (self.overlay.current, self.overlay.next) = (overlay.clone(), overlay);
        self.overlay.lay(&mut self.config.policy);
    }

    /// The overlay of a manager that held the store before, if this one, which is master, has none:
    /// it began while the store was away.
    pub(super) fn join_overlay(&mut self, overlay: &Arc<Overlay>, now: Time) {
        if self.overlay.in_force().is_empty() && !overlay.is_empty() {
            self.adopt_overlay(overlay.clone());
            self.work
                .plan_again("the shared store has partitions of the API");
            self.publish(now);
        }
    }

    /// Conflicts of overlay and file.
    pub(super) fn findings_of_overlay(&self) -> &[Finding] {
        &self.overlay.conflicts
    }
}
