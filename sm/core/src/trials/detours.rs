//! Nodes and cables that routes avoid, because an operator drained them or they are unhealthy. A
//! drain is on trial until its first plan. If that plan would cut ports off, routes use the drained
//! parts again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rsm_ids::PortKey;
use rsm_model::fabric::Fabric;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_plan::PlanError;
use rsm_plan::avoid::{Avoid, Drained, NodeOrCable, Reason};
use rsm_state::Ticket;

use super::{Answers, Trial};
use crate::event::Effect;

/// Maximum number of drained parts that have a finding of their own; one finding counts the rest.
const FINDINGS: usize = 64;

/// The parts to avoid, including drained parts on trial.
#[derive(Debug)]
pub(in super::super) struct Detours {
    /// The parts to avoid in the next job, including the parts of `trial`.
    avoid: Arc<Avoid>,
    /// The drain on trial; `None` if every drain was in an accepted plan.
    trial: Option<Trial<BeforeDrain>>,
    /// Drains that begin after the drain on trial, in the order of their requests.
    waiting: VecDeque<WaitingDrain>,
}

/// A drain that waits for the end of another drain's trial.
#[derive(Debug)]
struct WaitingDrain {
    parts: BTreeMap<NodeOrCable, Reason>,
    forced: bool,
    ticket: Ticket,
}

/// The state before a drain.
#[derive(Clone, Debug)]
struct BeforeDrain {
    /// The parts to restore.
    avoid: Arc<Avoid>,
    /// Whether the drained parts stay drained even if that cuts ports off.
    forced: bool,
}

impl Detours {
    pub(in super::super) fn new(avoid: Arc<Avoid>) -> Detours {
        Detours {
            avoid,
            trial: None,
            waiting: VecDeque::new(),
        }
    }

    /// The parts to avoid in the next job, including parts on trial.
    pub(in super::super) fn planned(&self) -> &Arc<Avoid> {
        &self.avoid
    }

    /// The parts to avoid, without parts on trial.
    pub(in super::super) fn in_force(&self) -> &Arc<Avoid> {
        let trial = self.trial.as_ref();
        trial.map_or(&self.avoid, |trial| &trial.before.avoid)
    }

    /// The parts to avoid before the drain on trial: the next job is refused if it cuts off ports
    /// that these parts do not cut off. `None` without a drain on trial, or if it is forced.
    pub(in super::super) fn refusable(&self) -> Option<Arc<Avoid>> {
        let before = self.trial.as_ref().map(|trial| &trial.before);
        let refusable = before.filter(|before| !before.forced);
        refusable.map(|before| before.avoid.clone())
    }

    /// Continues with the parts of the former master.
    pub(in super::super) fn adopt(&mut self, avoid: Arc<Avoid>, answers: &mut Answers) {
        self.abandon("another subnet manager was master meanwhile", answers);
        self.avoid = avoid;
    }

    /// Adds the drained parts that another manager has stored and this master lacks: an operator
    /// drained them before, or while, this master did not reach the store. None is added if the set
    /// would have too many parts. Returns whether a new plan is needed.
    pub(in super::super) fn add_stored(&mut self, stored: &Avoid) -> bool {
        let is_missing = |part| !matches!(self.avoid.reason(part), Some(Reason::Drained(_)));
        let missing = stored.drained().filter(|&(part, _)| is_missing(part));
        let missing: BTreeMap<NodeOrCable, Reason> = missing
            .map(|(part, drained)| (part, Reason::Drained(drained.clone())))
            .collect();
        if missing.is_empty() || Arc::make_mut(&mut self.avoid).add(&missing).is_err() {
            return false;
        }
        if let Some(trial) = &mut self.trial {
            // There is room: the set with the parts on trial is larger.
            let _ = Arc::make_mut(&mut trial.before.avoid).add(&missing);
        }
        true
    }

    /// Drains `parts`: makes the next plan avoid them. They stay drained if that plan cuts no port
    /// off, or if the drain is `forced`. The drain waits while another drain is on trial.
    pub(in super::super) fn drain(
        &mut self,
        parts: BTreeMap<NodeOrCable, Reason>,
        forced: bool,
        ticket: Ticket,
        answers: &mut Answers,
    ) {
        self.waiting.push_back(WaitingDrain {
            parts,
            forced,
            ticket,
        });
        self.begin_next(answers);
    }

    /// Begins the next possible drain that waits, unless a drain is on trial.
    fn begin_next(&mut self, answers: &mut Answers) {
        while self.trial.is_none()
            && let Some(drain) = self.waiting.pop_front()
        {
            let WaitingDrain {
                parts,
                forced,
                ticket,
            } = drain;
            let mut next = Avoid::clone(&self.avoid);
            if let Err(error) = next.add(&parts) {
                answers.outbox.decline(ticket, error.to_string());
                continue;
            }
            let avoid = std::mem::replace(&mut self.avoid, Arc::new(next));
            self.trial = Some(Trial::new(ticket, BeforeDrain { avoid, forced }));
            answers.queue_plan(ticket, "parts are drained");
        }
    }

    /// Makes the next plan use drained parts again. Waiting drains begin afterwards, and may drain
    /// the parts once more. Returns whether the parts are used again: not if one of them is a port
    /// that is disabled, and not drained as well.
    pub(in super::super) fn undrain(
        &mut self,
        parts: &BTreeSet<NodeOrCable>,
        ticket: Ticket,
        answers: &mut Answers,
    ) -> bool {
        let is_only_disabled = |drained: &Drained| drained.orders().all(|order| order.disabled);
        for part in parts {
            if let Some(Reason::Drained(drained)) = self.avoid.reason(*part)
                && is_only_disabled(drained)
            {
                let reason = format!("{} is disabled: enable the port first", drained.name);
                answers.decline(ticket, reason);
                return false;
            }
        }
        self.end_orders(|avoid| avoid.undrain(parts));
        answers.queue_plan(ticket, "drained parts are used again");
        true
    }

    /// Ends the orders that keep a port disabled, for the operator `by`; `None` also ends orders of
    /// others. Returns whether they have ended.
    pub(in super::super) fn enable(
        &mut self,
        port: PortKey,
        by: Option<&str>,
        ticket: Ticket,
        answers: &mut Answers,
    ) -> bool {
        if let Some(order) = by.and_then(|by| self.avoid.disabled_by_another(port, by)) {
            let order = Box::new(order.clone());
            answers.outbox.push(Effect::OfAnother { ticket, order });
            return false;
        }
        self.end_orders(|avoid| avoid.enable(port));
        answers.queue_plan(ticket, "an operator enables a port");
        true
    }

    /// Ends orders in force, and those on trial.
    fn end_orders(&mut self, end: impl Fn(&mut Avoid)) {
        if let Some(trial) = &mut self.trial {
            end(Arc::make_mut(&mut trial.before.avoid));
        }
        end(Arc::make_mut(&mut self.avoid));
    }

    /// Replaces the unhealthy parts to avoid. Returns whether a new plan is needed.
    pub(in super::super) fn isolate(&mut self, parts: &BTreeMap<NodeOrCable, String>) -> bool {
        let is_unhealthy =
            |(_, reason): (NodeOrCable, &Reason)| matches!(reason, Reason::Unhealthy(_));
        if parts.is_empty() && !self.avoid.parts().any(is_unhealthy) {
            // Nothing changes: avoid copying the set.
            return false;
        }
        if let Some(trial) = &mut self.trial {
            Arc::make_mut(&mut trial.before.avoid).replace_unhealthy(parts);
        }
        Arc::make_mut(&mut self.avoid).replace_unhealthy(parts)
    }

    /// Records that a job with the drain on trial begins.
    pub(super) fn begin(&mut self, generation: u64) {
        if let Some(trial) = &mut self.trial {
            trial.record_job(generation);
        }
    }

    /// Keeps the drain on trial if the accepted job includes it, and begins the next drain. Returns
    /// whether a trial has passed, so that the parts must be stored.
    pub(super) fn pass(&mut self, generation: u64, answers: &mut Answers) -> bool {
        let has_passed = Trial::end(&mut self.trial, generation).is_some();
        self.begin_next(answers);
        has_passed
    }

    /// Ends the drain on trial if the refused job includes it: restores the former parts, and
    /// refuses the request. Returns whether the job includes a drain on trial.
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
        self.begin_next(answers);
        true
    }

    /// Drops the drain of `ticket` if no job includes it yet.
    pub(super) fn withdraw(&mut self, ticket: Ticket, answers: &mut Answers) {
        self.waiting.retain(|drain| drain.ticket != ticket);
        if let Some(trial) = Trial::withdraw(&mut self.trial, ticket) {
            self.avoid = trial.before.avoid;
            self.begin_next(answers);
        }
    }

    /// Restores the parts before the drain on trial, and declines all drains for `reason`.
    pub(super) fn abandon(&mut self, reason: &str, answers: &mut Answers) {
        if let Some(trial) = self.trial.take() {
            self.avoid = trial.before.avoid;
            answers.decline(trial.ticket, reason.to_owned());
        }
        for drain in self.waiting.drain(..) {
            answers.decline(drain.ticket, reason.to_owned());
        }
    }

    /// Findings about drained parts, so that operators do not forget them.
    pub(in super::super) fn findings(&self, fabric: &Fabric) -> Vec<Finding> {
        let drained = self.in_force().drained();
        let mut findings: Vec<Finding> = drained
            .take(FINDINGS)
            .map(|(part, drained)| {
                let note = match drained.whole_note().as_str() {
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

#[cfg(test)]
mod tests {
    use rsm_ids::{Guid, PortNum};

    use super::*;
    use crate::outbox::Outbox;
    use crate::work::Work;

    /// Detours, with the queues of the core that they write to.
    struct Bench {
        detours: Detours,
        work: Work,
        outbox: Outbox,
    }

    impl Bench {
        fn new() -> Bench {
            Bench {
                detours: Detours::new(Arc::default()),
                work: Work::default(),
                outbox: Outbox::default(),
            }
        }

        fn disable(&mut self, port: PortKey, by: &str, ticket: Ticket) {
            let drained = Drained {
                name: "switch 1 port 2".to_owned(),
                disabled: true,
                ..Drained::new(by, 0)
            };
            let parts = BTreeMap::from([(NodeOrCable::Port(port), Reason::Drained(drained))]);
            self.with(|detours, answers| detours.drain(parts, false, ticket, answers));
        }

        fn drain(&mut self, switch: u64, ticket: Ticket) {
            let drained = Drained {
                forced: true,
                name: format!("switch {switch}"),
                ..Drained::new("an operator", 0)
            };
            let parts =
                BTreeMap::from([(NodeOrCable::Node(Guid(switch)), Reason::Drained(drained))]);
            self.with(|detours, answers| detours.drain(parts, true, ticket, answers));
        }

        fn with<T>(&mut self, call: impl FnOnce(&mut Detours, &mut Answers) -> T) -> T {
            let mut answers = Answers::to(&mut self.work, &mut self.outbox);
            call(&mut self.detours, &mut answers)
        }

        fn drained(&self) -> Vec<NodeOrCable> {
            let drained = self.detours.in_force().drained();
            drained.map(|(part, _)| part).collect()
        }

        fn declined(&mut self) -> Vec<Ticket> {
            let effects = std::iter::from_fn(|| self.outbox.pop());
            let tickets = effects.filter_map(|effect| match effect {
                Effect::Declined { ticket, .. } => Some(ticket),
                _ => None,
            });
            tickets.collect()
        }
    }

    fn switches(guids: &[u64]) -> Vec<NodeOrCable> {
        guids
            .iter()
            .map(|&guid| NodeOrCable::Node(Guid(guid)))
            .collect()
    }

    #[test]
    fn simultaneous_drains_come_into_force_one_after_another() {
        let mut bench = Bench::new();
        for switch in 1..=3 {
            bench.drain(switch, switch);
        }
        bench.with(|detours, answers| detours.withdraw(3, answers));
        bench.detours.begin(10);
        assert!(bench.with(|detours, answers| detours.pass(10, answers)));
        assert_eq!(bench.drained(), switches(&[1]));
        bench.detours.begin(11);
        assert!(bench.with(|detours, answers| detours.pass(11, answers)));
        assert_eq!(bench.drained(), switches(&[1, 2]));
        assert!(!bench.with(|detours, answers| detours.pass(12, answers)));
        assert!(bench.declined().is_empty());
        assert_eq!(bench.work.take_tickets(), [1, 2]);
    }

    #[test]
    fn drain_passes_with_a_later_job_if_its_first_was_discarded() {
        let mut bench = Bench::new();
        bench.drain(1, 1);
        bench.detours.begin(10);
        // The job of generation 10 was dropped, because mastership was in doubt.
        bench.detours.begin(11);
        assert!(bench.with(|detours, answers| detours.pass(11, answers)));
        assert_eq!(bench.drained(), switches(&[1]));
        bench.drain(2, 2);
        assert!(bench.declined().is_empty());
    }

    #[test]
    fn adopting_another_managers_parts_declines_all_drains() {
        let mut bench = Bench::new();
        bench.drain(1, 1);
        bench.drain(2, 2);
        bench.detours.begin(10);
        let stored = Arc::new(Avoid::default());
        bench.with(|detours, answers| detours.adopt(stored, answers));
        assert_eq!(bench.declined(), [1, 2]);
        assert!(!bench.with(|detours, answers| detours.pass(10, answers)));
        assert!(bench.drained().is_empty());
        assert!(bench.work.take_tickets().is_empty());
    }

    #[test]
    fn second_of_two_orders_at_one_instant_meets_the_first() {
        let port = PortKey::new(Guid(1), PortNum(2));
        let mut bench = Bench::new();
        bench.disable(port, "alice", 1);
        // Alice's order waits for its plan, and no snapshot has it yet.
        let enabled = bench.with(|detours, answers| detours.enable(port, Some("bob"), 2, answers));
        assert!(!enabled);
        let refused = std::iter::from_fn(|| bench.outbox.pop()).find_map(|effect| match effect {
            Effect::OfAnother { ticket, order } => Some((ticket, order.by)),
            _ => None,
        });
        assert_eq!(refused, Some((2, "alice".to_owned())));
        let parts = BTreeSet::from([NodeOrCable::Port(port)]);
        assert!(!bench.with(|detours, answers| detours.undrain(&parts, 3, answers)));
        assert_eq!(bench.declined(), [3]);
        assert_eq!(bench.detours.planned().disabled().next(), Some(port));
        assert!(bench.with(|detours, answers| detours.enable(port, None, 4, answers)));
        assert!(bench.detours.planned().is_empty());
    }
}
