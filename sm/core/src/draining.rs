//! Parts that an operator drains: tried, and taken back if ports would be cut off.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_plan::PlanError;
use rsm_plan::avoid::{Avoid, Part, Reason};
use rsm_state::Ticket;

use super::Core;
use super::trial::Trial;

/// How many drained parts have findings of their own; the rest share one.
const FINDINGS: usize = 64;

/// The state before a drain.
#[derive(Clone, Debug)]
pub(super) struct BeforeDrain {
    /// The parts to go back to.
    avoid: Arc<Avoid>,
    /// Whether the new parts are drained whatever they cut off.
    forced: bool,
}

impl Core {
    /// Plans around `parts` as well, and keeps them if no port would be cut off without them, or
    /// if the operator insists.
    pub(super) fn drain(&mut self, parts: &BTreeMap<Part, Reason>, forced: bool, ticket: Ticket) {
        let mut next = Avoid::clone(&self.avoid);
        let reason = match next.add(parts) {
            Ok(()) if self.drain_trial.is_none() => None,
            Ok(()) => Some("another drain is under way: repeat this one after it".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(reason) = reason {
            self.outbox.decline(ticket, reason);
            return;
        }
        let avoid = std::mem::replace(&mut self.avoid, Arc::new(next));
        self.drain_trial = Some(Trial::new(ticket, BeforeDrain { avoid, forced }));
        self.work.plan_again("parts are drained");
        self.work.promise(ticket);
    }

    /// Plans with drained parts again.
    pub(super) fn undrain(&mut self, parts: &BTreeSet<Part>, ticket: Ticket) {
        let trial = self.drain_trial.as_mut();
        if let Some(trial) = trial {
            Arc::make_mut(&mut trial.before.avoid).undrain(parts);
        }
        Arc::make_mut(&mut self.avoid).undrain(parts);
        self.remember();
        self.work.plan_again("drained parts are used again");
        self.work.promise(ticket);
    }

    /// Plans around these unhealthy parts, and no other ones.
    pub(super) fn isolate(&mut self, parts: &BTreeMap<Part, String>) {
        let is_unhealthy = |(_, reason): (Part, &Reason)| matches!(reason, Reason::Unhealthy(_));
        if parts.is_empty() && !self.avoid.parts().any(is_unhealthy) {
            // Nothing is copied for it.
            return;
        }
        if let Some(trial) = &mut self.drain_trial {
            Arc::make_mut(&mut trial.before.avoid).replace_unhealthy(parts);
        }
        if Arc::make_mut(&mut self.avoid).replace_unhealthy(parts) {
            self.work.plan_again("the set of unhealthy parts changed");
        }
    }

    /// The avoided parts without those of a drain under way.
    pub(super) fn avoid_in_force(&self) -> &Arc<Avoid> {
        let trial = self.drain_trial.as_ref();
        trial.map_or(&self.avoid, |trial| &trial.before.avoid)
    }

    /// The parts that the next job is judged against, if it may be refused for cutting ports off.
    pub(super) fn avoided_before(&self) -> Option<Arc<Avoid>> {
        let before = self.drain_trial.as_ref().map(|trial| &trial.before);
        let refusable = before.filter(|before| !before.forced);
        refusable.map(|before| before.avoid.clone())
    }

    /// Notes the generation of the first job around the parts under trial.
    pub(super) fn note_drain(&mut self) {
        if let Some(trial) = &mut self.drain_trial {
            trial.note(self.plans.generation());
        }
    }

    /// Keeps the drained parts if the plan is of their job.
    pub(super) fn pass_drain(&mut self) {
        if Trial::end(&mut self.drain_trial, self.plans.generation()).is_some() {
            self.remember();
        }
    }

    /// Goes back to the parts before if the refused job was the trial's. Returns whether it was.
    pub(super) fn fail_drain(&mut self, error: &PlanError) -> bool {
        let Some(trial) = Trial::end(&mut self.drain_trial, self.plans.generation()) else {
            return false;
        };
        self.avoid = trial.before.avoid;
        self.refuse(trial.ticket, error);
        true
    }

    /// Goes back to the parts before if the issuer of `ticket` leaves before a job has begun.
    pub(super) fn withdraw_drain(&mut self, ticket: Ticket) {
        if let Some(trial) = Trial::withdraw(&mut self.drain_trial, ticket) {
            self.avoid = trial.before.avoid;
        }
    }

    /// Ends a drain under way without a verdict, for `reason`: its parts are not drained.
    pub(super) fn drop_drain(&mut self, reason: &str) {
        if let Some(trial) = self.drain_trial.take() {
            self.avoid = trial.before.avoid;
            self.decline(trial.ticket, reason.to_owned());
        }
    }

    /// The findings about drained parts, so that none is forgotten.
    pub(super) fn findings_of_drains(&self) -> Vec<Finding> {
        let drained = self.avoid_in_force().drained();
        let mut findings: Vec<Finding> = drained
            .take(FINDINGS)
            .map(|(part, drained)| {
                let note = match drained.note.as_str() {
                    "" => String::new(),
                    note => format!(" ({note})"),
                };
                let away = match part.is_there(&self.fabric) {
                    true => "",
                    false => ", which is not there now",
                };
                let text = format!(
                    "{} drained {}{away}{note}: routes go around it until `rsmctl undrain`",
                    drained.by, drained.name
                );
                let subject = match part {
                    Part::Node(guid) => Subject::Node(guid),
                    Part::Port(key) => Subject::Port(key),
                };
                Finding::new(FindingKind::Drained, subject, Severity::Info, text)
            })
            .collect();
        let more = self.avoid_in_force().drained().skip(FINDINGS).count();
        if more > 0 {
            let text = format!("{more} more parts are drained: `rsmctl drained` lists all");
            let subject = Subject::Subnet;
            findings.push(Finding::new(
                FindingKind::Drained,
                subject,
                Severity::Info,
                text,
            ));
        }
        findings
    }
}
