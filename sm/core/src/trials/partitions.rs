//! Changes of the partition overlay, which first wait, are then on trial, and then in force.
//!
//! A change is checked when it arrives, and waits for the next plan. All waiting changes go into
//! one plan. If the plan is refused, none of the changes comes into force. If the plan is accepted,
//! the changes are stored, and their callers are informed when the hardware holds the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_config::Partitions;
use rsm_config::overlay::{Action, Change, ChangeError, Overlay, WhenCutOff};
use rsm_ids::Guid;
use rsm_mad::wire::attr::PKey;
use rsm_model::fabric::Fabric;
use rsm_model::findings::Finding;
use rsm_plan::partitions::{loss_between, overfull};
use rsm_plan::policy::Policy;
use rsm_state::{ChangeEffect, Ticket};

use super::Answers;
use crate::event::Effect;

/// The partitions of the configuration file and of the overlay.
#[derive(Debug)]
pub(in super::super) struct PartitionChanges {
    /// Partitions of the file.
    file: Arc<Partitions>,
    /// The overlay in the policy, which may have changes on trial.
    current: Arc<Overlay>,
    /// Findings about conflicts between file and overlay.
    conflicts: Vec<Finding>,
    /// The changes on trial; `None` if there are none.
    trial: Option<ChangesOnTrial>,
    /// Changes that no job includes yet; at most one for each waiting caller.
    waiting: Vec<(Ticket, Change)>,
    /// `current` with the waiting changes applied.
    next: Arc<Overlay>,
    /// Whether `next` and the checks of the waiting changes consider dropped changes.
    after_drops: AfterDrops,
}

/// The work that remains because waiting changes were dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AfterDrops {
    /// No change: all waiting changes have been checked since.
    Checked,
    /// `next` lacks the dropped changes; the waiting changes must still be checked without them.
    Applied,
    /// `next` still has the dropped changes; it must be computed, and the waiting changes checked.
    Behind,
}

/// Changes that are in a job under way.
#[derive(Debug)]
struct ChangesOnTrial {
    /// Tickets of the changes.
    tickets: Vec<Ticket>,
    /// Overlay to restore.
    before: Arc<Overlay>,
    /// Generation of the job.
    generation: u64,
}

impl PartitionChanges {
    /// State with `overlay` and the partitions of `policy`, which come from the file. Puts the
    /// combination of both into `policy`.
    pub(in super::super) fn new(
        overlay: Arc<Overlay>,
        policy: &mut Arc<Policy>,
    ) -> PartitionChanges {
        let mut state = PartitionChanges {
            file: policy.partitions.clone(),
            current: overlay.clone(),
            conflicts: Vec::new(),
            trial: None,
            waiting: Vec::new(),
            next: overlay,
            after_drops: AfterDrops::Checked,
        };
        state.combine(policy);
        state
    }

    /// Puts the partitions of the file and of the current overlay, combined, into `policy`.
    fn combine(&mut self, policy: &mut Arc<Policy>) {
        let combined = self.current.over(&self.file);
        self.conflicts = combined.findings;
        if policy.partitions != combined.partitions {
            Arc::make_mut(policy).partitions = combined.partitions;
        }
    }

    /// The overlay in force, without changes on trial.
    pub(in super::super) fn in_force(&self) -> &Arc<Overlay> {
        let trial = self.trial.as_ref();
        trial.map_or(&self.current, |trial| &trial.before)
    }

    /// Checks a change together with the waiting changes. Makes it wait for the next plan, or
    /// refuses it.
    pub(in super::super) fn change(
        &mut self,
        change: Change,
        ticket: Ticket,
        fabric: &Fabric,
        answers: &mut Answers,
    ) {
        self.update_next();
        match self.check(&change, fabric) {
            Ok((next, effect)) => {
                self.queue(next, effect, change, ticket, answers);
                answers.queue_plan(ticket, "partitions were changed through the API");
            }
            Err(error) => answers
                .outbox
                .push(Effect::PartitionRefused { ticket, error }),
        }
    }

    /// Adds a checked change to the waiting changes. `next` is the overlay with this change.
    fn queue(
        &mut self,
        next: Overlay,
        effect: ChangeEffect,
        change: Change,
        ticket: Ticket,
        answers: &mut Answers,
    ) {
        self.next = Arc::new(next);
        self.waiting.push((ticket, change));
        let effect = Box::new(effect);
        answers
            .outbox
            .push(Effect::PartitionTaken { ticket, effect });
    }

    /// Checks a change. Returns the overlay with the waiting changes and this change, and the
    /// effect of this change.
    ///
    /// # Errors
    ///
    /// Why the change is refused.
    fn check(
        &self,
        change: &Change,
        fabric: &Fabric,
    ) -> Result<(Overlay, ChangeEffect), ChangeError> {
        let next = self.next.apply(change, &self.file)?;
        let before = self.next.over(&self.file).partitions;
        let after = next.over(&self.file).partitions;
        check_shares(change, &self.next, &next, fabric)?;
        check_room(change, &before, &after, fabric)?;
        let p_key = change.p_key;
        let loss = loss_between(fabric, PKey(p_key), &before, &after);
        if !loss.is_none() && change.when_cut_off == WhenCutOff::Refuse {
            return Err(ChangeError::CutOff { p_key, loss });
        }
        let mut concerned = next.differing(&self.next, p_key);
        let memberships = match change.action {
            Action::LimitDefault(_) => loss.changed,
            _ => concerned.len(),
        };
        concerned.extend(change.action.named());
        let effect = ChangeEffect {
            memberships,
            concerned,
            loss,
        };
        Ok((next, effect))
    }

    /// Puts the waiting changes into the policy of the job with this `generation`.
    pub(super) fn begin(&mut self, generation: u64, policy: &mut Arc<Policy>) {
        if self.waiting.is_empty() {
            return;
        }
        let before = self.in_force().clone();
        let waiting = std::mem::take(&mut self.waiting);
        let mut tickets: Vec<Ticket> = waiting.into_iter().map(|(ticket, _)| ticket).collect();
        if let Some(trial) = self.trial.take() {
            // The former job was discarded: its changes go into this job.
            tickets.extend(trial.tickets);
        }
        self.current = self.next.clone();
        self.combine(policy);
        self.trial = Some(ChangesOnTrial {
            tickets,
            before,
            generation,
        });
    }

    /// Keeps the changes on trial if the accepted job, of this `generation`, includes them. Returns
    /// whether it includes any.
    pub(super) fn pass(&mut self, generation: u64) -> bool {
        let ended = self.trial.take_if(|trial| trial.generation <= generation);
        ended.is_some()
    }

    /// Ends the trial: restores the overlay in force before, and refuses the changes on trial with
    /// `error`. Returns whether changes were on trial.
    pub(super) fn end(
        &mut self,
        error: &ChangeError,
        policy: &mut Arc<Policy>,
        fabric: &Fabric,
        answers: &mut Answers,
    ) -> bool {
        let Some(trial) = self.trial.take() else {
            return false;
        };
        self.current = trial.before;
        self.combine(policy);
        for ticket in trial.tickets {
            answers.refuse_change(ticket, error.clone());
        }
        self.recheck(fabric, answers);
        true
    }

    /// Checks the waiting changes again on top of the current overlay, and refuses changes that no
    /// longer pass.
    fn recheck(&mut self, fabric: &Fabric, answers: &mut Answers) {
        self.after_drops = AfterDrops::Checked;
        self.next = self.current.clone();
        for (ticket, change) in std::mem::take(&mut self.waiting) {
            match self.check(&change, fabric) {
                Ok((next, effect)) => self.queue(next, effect, change, ticket, answers),
                Err(error) => answers.refuse_change(ticket, error),
            }
        }
    }

    /// Drops the change of `ticket`, whose issuer no longer waits, if no job includes it yet. The
    /// other waiting changes are checked again only before the next job, because each check
    /// examines the whole fabric.
    pub(super) fn withdraw(&mut self, ticket: Ticket) {
        let before = self.waiting.len();
        self.waiting.retain(|&(waiting, _)| waiting != ticket);
        if self.waiting.len() == before {
            return;
        }
        self.after_drops = AfterDrops::Behind;
    }

    /// Computes `next` again if waiting changes were dropped. Leaves out a waiting change that can
    /// no longer be applied; the next check refuses it.
    fn update_next(&mut self) {
        if self.after_drops != AfterDrops::Behind {
            return;
        }
        self.after_drops = AfterDrops::Applied;
        let mut next = Overlay::clone(&self.current);
        for (_, change) in &self.waiting {
            if let Ok(changed) = next.apply(change, &self.file) {
                next = changed;
            }
        }
        self.next = Arc::new(next);
    }

    /// Checks the waiting changes again if some were dropped. Called before a job includes them.
    pub(in super::super) fn recheck_after_drops(&mut self, fabric: &Fabric, answers: &mut Answers) {
        if self.after_drops != AfterDrops::Checked {
            self.recheck(fabric, answers);
        }
    }

    /// Refuses the changes on trial and the waiting changes, for `reason`, and restores the overlay
    /// in force.
    pub(super) fn abandon(
        &mut self,
        reason: &str,
        policy: &mut Arc<Policy>,
        fabric: &Fabric,
        answers: &mut Answers,
    ) {
        let error = ChangeError::Dropped {
            reason: reason.to_owned(),
        };
        for (ticket, _) in std::mem::take(&mut self.waiting) {
            answers.refuse_change(ticket, error.clone());
        }
        self.end(&error, policy, fabric, answers);
        self.next = self.current.clone();
    }

    /// Uses the partitions of a reloaded configuration; `policy` is its policy.
    pub(in super::super) fn reload(
        &mut self,
        policy: &mut Arc<Policy>,
        fabric: &Fabric,
        answers: &mut Answers,
    ) {
        self.file = policy.partitions.clone();
        self.combine(policy);
        self.recheck(fabric, answers);
    }

    /// Continues with the former master's overlay.
    pub(in super::super) fn adopt(
        &mut self,
        overlay: Arc<Overlay>,
        policy: &mut Arc<Policy>,
        fabric: &Fabric,
        answers: &mut Answers,
    ) {
        let reason = "another subnet manager was master meanwhile";
        self.abandon(reason, policy, fabric, answers);
        (self.current, self.next) = (overlay.clone(), overlay);
        self.combine(policy);
    }

    /// Findings about conflicts between overlay and file.
    pub(in super::super) fn findings(&self) -> &[Finding] {
        &self.conflicts
    }
}

/// Checks that no port gets more keys of a tenant in the overlay `next` than the tenant's share of
/// the port's table.
fn check_shares(
    change: &Change,
    before: &Overlay,
    next: &Overlay,
    fabric: &Fabric,
) -> Result<(), ChangeError> {
    if !change.is_of_tenant() {
        return Ok(());
    }
    let named = change.action.named();
    let ports = fabric.end_ports();
    let ports = ports.filter(|(_, port)| named.contains(&port.guid));
    let keys: BTreeMap<Guid, usize> = ports
        .map(|(at, port)| (port.guid, usize::from(fabric.p_key_capacity(at))))
        .collect();
    next.check_shares(change, before, |guid| keys.get(&guid).copied())
}

/// Checks that the P_KeyTables of present members are large enough for the partitions `after`.
fn check_room(
    change: &Change,
    before: &Partitions,
    after: &Partitions,
    fabric: &Fabric,
) -> Result<(), ChangeError> {
    let (Action::Create { members, .. } | Action::Add(members) | Action::Replace(members, _)) =
        &change.action
    else {
        return Ok(());
    };
    let guids: BTreeSet<Guid> = members.keys().copied().collect();
    let Some(overfull) = overfull(fabric, before, after, &guids) else {
        return Ok(());
    };
    Err(ChangeError::TableFull {
        guid: fabric.port(overfull.at).guid,
        place: fabric.port_name(fabric.key(overfull.at)),
        wanted: overfull.wanted,
        capacity: overfull.capacity,
    })
}

#[cfg(test)]
mod tests {
    use rsm_config::overlay::{Existing, PartitionSettings};
    use rsm_model::Hardware;

    use super::*;
    use crate::outbox::Outbox;
    use crate::work::Work;

    fn create(p_key: u16, existing: Existing) -> Change {
        Change {
            p_key,
            action: Action::Create {
                settings: PartitionSettings::plain(p_key),
                members: BTreeMap::new(),
                existing,
            },
            by: "blue".to_owned(),
            at_unix_ms: 1,
            may_change: vec![0x10..=0x4f],
            when_cut_off: WhenCutOff::Refuse,
        }
    }

    /// Empties the outbox. Returns the number of reports that a change was accepted, including
    /// repeated reports, and the refused tickets.
    fn drain(outbox: &mut Outbox) -> (usize, Vec<Ticket>) {
        let (mut taken, mut refused) = (0, Vec::new());
        while let Some(effect) = outbox.pop() {
            match effect {
                Effect::PartitionTaken { .. } => taken += 1,
                Effect::PartitionRefused { ticket, .. } => refused.push(ticket),
                _ => {}
            }
        }
        (taken, refused)
    }

    #[test]
    fn waiting_changes_are_checked_once_before_the_next_job_after_others_were_dropped() {
        let fabric = Fabric::build(&Hardware::default());
        let (mut work, mut outbox) = (Work::default(), Outbox::default());
        let mut policy = Arc::default();
        let mut changes = PartitionChanges::new(Arc::default(), &mut policy);
        for ticket in 0..40_u16 {
            let change = create(0x10 + ticket, Existing::Refuse);
            let mut answers = Answers::to(&mut work, &mut outbox);
            changes.change(change, ticket.into(), &fabric, &mut answers);
        }
        // The partition exists only as long as the first one of the requests waits.
        let late = create(0x10, Existing::Refuse);
        let mut answers = Answers::to(&mut work, &mut outbox);
        changes.change(late.clone(), 100, &fabric, &mut answers);
        assert_eq!(drain(&mut outbox), (40, vec![100]));
        for ticket in 0..30 {
            changes.withdraw(ticket);
        }
        assert_eq!(drain(&mut outbox), (0, Vec::new()));
        let mut answers = Answers::to(&mut work, &mut outbox);
        changes.change(late, 101, &fabric, &mut answers);
        assert_eq!(
            drain(&mut outbox),
            (1, Vec::new()),
            "the first one was dropped"
        );
        for _ in 0..2 {
            let mut answers = Answers::to(&mut work, &mut outbox);
            changes.recheck_after_drops(&fabric, &mut answers);
        }
        assert_eq!(drain(&mut outbox), (11, Vec::new()));
        changes.begin(1, &mut policy);
        let in_job: Vec<u16> = changes
            .current
            .partitions()
            .map(|(p_key, _)| p_key)
            .collect();
        assert_eq!(
            in_job,
            Vec::from_iter([0x10].into_iter().chain(0x2e..=0x37))
        );
    }
}
