//! Changes of the partition overlay: waiting, on trial, in force.
//!
//! A change is checked when it arrives, and waits for the next plan. All waiting changes go into
//! one plan: if the core refuses it, none of them comes into force. If it is accepted, the changes
//! are stored, and their callers are informed when the hardware holds the plan.

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

/// The partitions of file and overlay.
#[derive(Debug)]
pub(in super::super) struct PartitionChanges {
    /// Partitions of the file.
    file: Arc<Partitions>,
    /// Overlay in the policy: in force, or on trial.
    current: Arc<Overlay>,
    /// Conflicts between file and overlay.
    conflicts: Vec<Finding>,
    trial: Option<ChangesOnTrial>,
    /// Changes that no job has yet; at most one for each waiting caller.
    waiting: Vec<(Ticket, Change)>,
    /// `current` with the waiting changes applied.
    next: Arc<Overlay>,
    after_drops: AfterDrops,
}

/// How far the waiting changes and `next` follow the last dropped change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AfterDrops {
    /// All waiting changes are checked.
    Checked,
    /// `next` lacks the dropped changes; the waiting ones are not checked without them.
    Applied,
    /// `next` has dropped changes.
    Behind,
}

/// Changes whose job is under way.
#[derive(Debug)]
struct ChangesOnTrial {
    tickets: Vec<Ticket>,
    /// Overlay to restore.
    before: Arc<Overlay>,
    /// Generation of the job.
    generation: u64,
}

impl PartitionChanges {
    /// State with the overlay and the partitions of `policy`, which gets both combined.
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
        state.lay(policy);
        state
    }

    /// Combines the current overlay with the file, for the next jobs.
    fn lay(&mut self, policy: &mut Arc<Policy>) {
        let laid = self.current.over(&self.file);
        self.conflicts = laid.findings;
        if policy.partitions != laid.partitions {
            Arc::make_mut(policy).partitions = laid.partitions;
        }
    }

    /// The overlay without changes on trial.
    pub(in super::super) fn in_force(&self) -> &Arc<Overlay> {
        let trial = self.trial.as_ref();
        trial.map_or(&self.current, |trial| &trial.before)
    }

    /// Accepts a change if it fits after the waiting ones.
    pub(in super::super) fn change(
        &mut self,
        change: Change,
        ticket: Ticket,
        fabric: &Fabric,
        answers: &mut Answers,
    ) {
        self.catch_up();
        match self.changed(&change, fabric) {
            Ok((next, effect)) => {
                self.take(next, effect, change, ticket, answers);
                answers.promise(ticket, "partitions were changed through the API");
            }
            Err(error) => answers
                .outbox
                .push(Effect::PartitionRefused { ticket, error }),
        }
    }

    fn take(
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

    /// The overlay with the waiting changes and this one.
    fn changed(
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

    /// Puts the waiting changes into the policy of the job of `generation`.
    pub(super) fn begin(&mut self, generation: u64, policy: &mut Arc<Policy>) {
        if self.waiting.is_empty() {
            return;
        }
        let before = self.in_force().clone();
        let waiting = std::mem::take(&mut self.waiting);
        let mut tickets: Vec<Ticket> = waiting.into_iter().map(|(ticket, _)| ticket).collect();
        if let Some(trial) = self.trial.take() {
            // The former job was discarded.
            tickets.extend(trial.tickets);
        }
        self.current = self.next.clone();
        self.lay(policy);
        self.trial = Some(ChangesOnTrial {
            tickets,
            before,
            generation,
        });
    }

    /// Keeps the changes on trial, if the accepted plan has them. Returns whether it has any.
    pub(super) fn pass(&mut self, generation: u64) -> bool {
        let ended = self.trial.take_if(|trial| trial.generation <= generation);
        ended.is_some()
    }

    /// Restores the overlay from before the trial, because of `error`. Returns whether changes were
    /// on trial.
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
        self.lay(policy);
        for ticket in trial.tickets {
            answers.refuse_change(ticket, error.clone());
        }
        self.recheck(fabric, answers);
        true
    }

    /// Applies the waiting changes again to the present overlay, and refuses those that no longer
    /// fit.
    fn recheck(&mut self, fabric: &Fabric, answers: &mut Answers) {
        self.after_drops = AfterDrops::Checked;
        self.next = self.current.clone();
        for (ticket, change) in std::mem::take(&mut self.waiting) {
            match self.changed(&change, fabric) {
                Ok((next, effect)) => self.take(next, effect, change, ticket, answers),
                Err(error) => answers.refuse_change(ticket, error),
            }
        }
    }

    /// Drops the change of `ticket`, whose issuer no longer waits, if no job has it yet. The changes
    /// that wait are checked again with the next job, once for all that were dropped until then:
    /// each check looks at the whole fabric.
    pub(super) fn withdraw(&mut self, ticket: Ticket) {
        let before = self.waiting.len();
        self.waiting.retain(|&(waiting, _)| waiting != ticket);
        if self.waiting.len() == before {
            return;
        }
        self.after_drops = AfterDrops::Behind;
    }

    /// Applies the waiting changes to the present overlay, if others were dropped. A change that
    /// does not fit any more is left out, and refused by the next check.
    fn catch_up(&mut self) {
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

    /// Checks the waiting changes again, before a job takes them, if others were dropped.
    pub(in super::super) fn settle(&mut self, fabric: &Fabric, answers: &mut Answers) {
        if self.after_drops != AfterDrops::Checked {
            self.recheck(fabric, answers);
        }
    }

    /// Ends changes on trial and waiting ones without a decision, for `reason`.
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

    /// Uses the partitions of a reloaded configuration, with its `policy`.
    pub(in super::super) fn reload(
        &mut self,
        policy: &mut Arc<Policy>,
        fabric: &Fabric,
        answers: &mut Answers,
    ) {
        self.file = policy.partitions.clone();
        self.lay(policy);
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
        self.lay(policy);
    }

    /// Findings about conflicts between overlay and file.
    pub(in super::super) fn findings(&self) -> &[Finding] {
        &self.conflicts
    }
}

/// Checks that no port has more keys of a tenant in the overlay `next` than the tenant's share of
/// its table.
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

/// Checks that the P_KeyTables of present members hold their keys in the partitions `after`.
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
    let Some(found) = overfull(fabric, before, after, &guids) else {
        return Ok(());
    };
    Err(ChangeError::TableFull {
        guid: fabric.port(found.at).guid,
        place: fabric.port_name(fabric.key(found.at)),
        wanted: found.wanted,
        capacity: found.capacity,
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

    /// Number of accepted changes, again or for the first time, and the refused tickets.
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
    fn dropped_changes_cost_one_check_of_the_others_at_the_next_job() {
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
            changes.settle(&fabric, &mut answers);
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
