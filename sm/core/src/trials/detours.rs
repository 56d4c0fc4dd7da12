//! Parts that routes avoid: drained by an operator, or unhealthy. Drained parts are on trial at
//! first, and used again if ports would be cut off.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_model::fabric::Fabric;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_plan::PlanError;
use rsm_plan::avoid::{Avoid, NodeOrCable, Reason};
use rsm_state::Ticket;

use super::{Answers, Trial};

/// Maximum number of drained parts with a finding each; the others share one.
const FINDINGS: usize = 64;

/// The parts to avoid, including those on trial.
#[derive(Debug)]
pub(in super::super) struct Detours {
    avoid: Arc<Avoid>,
    /// A drain that has no plan yet.
    trial: Option<Trial<BeforeDrain>>,
}

/// The state before a drain.
#[derive(Clone, Debug)]
struct BeforeDrain {
    /// The parts to restore.
    avoid: Arc<Avoid>,
    /// Whether the new parts stay drained even if that cuts ports off.
    forced: bool,
}

impl Detours {
    pub(in super::super) fn new(avoid: Arc<Avoid>) -> Detours {
        Detours { avoid, trial: None }
    }

    /// The parts for the next job, including those of a drain under way.
    pub(in super::super) fn planned(&self) -> &Arc<Avoid> {
        &self.avoid
    }

    /// The parts without those of a drain under way.
    pub(in super::super) fn in_force(&self) -> &Arc<Avoid> {
        let trial = self.trial.as_ref();
        trial.map_or(&self.avoid, |trial| &trial.before.avoid)
    }

    /// The former parts, for the check that the next job cuts no further ports off; `None` unless
    /// the next job may be refused.
    pub(in super::super) fn refusable(&self) -> Option<Arc<Avoid>> {
        let before = self.trial.as_ref().map(|trial| &trial.before);
        let refusable = before.filter(|before| !before.forced);
        refusable.map(|before| before.avoid.clone())
    }

    /// Replaces the parts by those of another manager.
    pub(in super::super) fn replace(&mut self, avoid: Arc<Avoid>) {
        self.avoid = avoid;
    }

    /// Requests a plan that also avoids `parts`. They stay drained if no port is cut off, or if the
    /// operator insists.
    pub(in super::super) fn drain(
        &mut self,
        parts: &BTreeMap<NodeOrCable, Reason>,
        forced: bool,
        ticket: Ticket,
        answers: &mut Answers,
    ) {
        let mut next = Avoid::clone(&self.avoid);
        let reason = match next.add(parts) {
            Ok(()) if self.trial.is_none() => None,
            Ok(()) => Some("another drain is under way: repeat this one after it".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(reason) = reason {
            answers.outbox.decline(ticket, reason);
            return;
        }
        let avoid = std::mem::replace(&mut self.avoid, Arc::new(next));
        self.trial = Some(Trial::new(ticket, BeforeDrain { avoid, forced }));
        answers.promise(ticket, "parts are drained");
    }

    /// Plans with drained parts again.
    pub(in super::super) fn undrain(
        &mut self,
        parts: &BTreeSet<NodeOrCable>,
        ticket: Ticket,
        answers: &mut Answers,
    ) {
        if let Some(trial) = &mut self.trial {
            Arc::make_mut(&mut trial.before.avoid).undrain(parts);
        }
        Arc::make_mut(&mut self.avoid).undrain(parts);
        answers.promise(ticket, "drained parts are used again");
    }

    /// Replaces the unhealthy parts to avoid. Returns whether that needs a plan.
    pub(in super::super) fn isolate(&mut self, parts: &BTreeMap<NodeOrCable, String>) -> bool {
        let is_unhealthy =
            |(_, reason): (NodeOrCable, &Reason)| matches!(reason, Reason::Unhealthy(_));
        if parts.is_empty() && !self.avoid.parts().any(is_unhealthy) {
            // An unchanged set is not copied.
            return false;
        }
        if let Some(trial) = &mut self.trial {
            Arc::make_mut(&mut trial.before.avoid).replace_unhealthy(parts);
        }
        Arc::make_mut(&mut self.avoid).replace_unhealthy(parts)
    }

    pub(super) fn begin(&mut self, generation: u64) {
        if let Some(trial) = &mut self.trial {
            trial.note(generation);
        }
    }

    pub(super) fn pass(&mut self, generation: u64) -> bool {
        Trial::end(&mut self.trial, generation).is_some()
    }

    pub(super) fn fail(
        &mut self,
        generation: u64,
        error: &PlanError,
        answers: &mut Answers,
    ) -> bool {
        let Some(trial) = Trial::end(&mut self.trial, generation) else {
            return false;
        };
        self.avoid = trial.before.avoid;
        answers.refuse(trial.ticket, error);
        true
    }

    pub(super) fn withdraw(&mut self, ticket: Ticket) {
        if let Some(trial) = Trial::withdraw(&mut self.trial, ticket) {
            self.avoid = trial.before.avoid;
        }
    }

    pub(super) fn abandon(&mut self, reason: &str, answers: &mut Answers) {
        if let Some(trial) = self.trial.take() {
            self.avoid = trial.before.avoid;
            answers.decline(trial.ticket, reason.to_owned());
        }
    }

    /// Findings about drained parts, so that none is forgotten.
    pub(in super::super) fn findings(&self, fabric: &Fabric) -> Vec<Finding> {
        let drained = self.in_force().drained();
        let mut findings: Vec<Finding> = drained
            .take(FINDINGS)
            .map(|(part, drained)| {
                let note = match drained.note.as_str() {
                    "" => String::new(),
                    note => format!(" ({note})"),
                };
                let away = match part.is_there(fabric) {
                    true => "",
                    false => ", which is not there now",
                };
                let (by, name) = (&drained.by, &drained.name);
                let text = match drained.disabled {
                    true => format!(
                        "{by} disabled {name}{note}: its link is down, and routes go around it, until `rsmctl port enable`"
                    ),
                    false => format!(
                        "{by} drained {name}{away}{note}: routes go around it until `rsmctl undrain`"
                    ),
                };
                let subject = match part {
                    NodeOrCable::Node(guid) => Subject::Node(guid),
                    NodeOrCable::Port(key) => Subject::Port(key),
                };
                Finding::new(FindingKind::Drained, subject, Severity::Info, text)
            })
            .collect();
        let more = self.in_force().drained().skip(FINDINGS).count();
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
