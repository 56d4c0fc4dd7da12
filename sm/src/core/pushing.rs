//! From a plan to the hardware: what differs is written, and what failed is told.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_ids::{Guid, PortNum};
use rsm_mad::Time;
use rsm_routing::tables::Tables;

use super::Core;
use super::convergence::{Part, Pushed};
use super::stage::Stage;
use crate::diff::{Changes, diff};
use crate::findings::{Finding, FindingKind, Severity, Subject};
use crate::plan::Plan;
use crate::push::{Cause, Failure, Push, Task};

impl Core {
    /// Writes what differs from the plan in force, which was not made for what the hardware holds now.
    ///
    /// Where tables differ the way there has to be judged anew, so that the plan is made again.
    pub(super) fn resume_push(&mut self, now: Time) {
        let Some(plan) = self.plan.clone() else {
            return;
        };
        let changes = self.differing(&plan, None);
        if changes.blocks() > 0 {
            self.start_plan(now);
        } else {
            self.push(plan, changes, now);
        }
    }

    /// Writes what differs from `plan`, which was just made for what the hardware holds.
    pub(super) fn start_push(&mut self, plan: Arc<Plan>, now: Time) {
        let waypoint = plan.waypoint.as_deref();
        let changes = self.differing(&plan, waypoint);
        self.push(plan, changes, now);
    }

    fn differing(&self, plan: &Plan, waypoint: Option<&Tables>) -> Changes {
        diff(
            &self.inventory,
            &self.fabric,
            plan,
            &self.not_kept,
            &self.reregister,
            waypoint,
        )
    }

    pub(super) fn push(&mut self, plan: Arc<Plan>, changes: Changes, now: Time) {
        if !self.groups_only {
            self.reregister.begin(&changes);
        }
        if changes.is_empty() {
            self.unfinished = false;
            self.hurried = false;
            self.conclude(
                Pushed {
                    complete: true,
                    ..Pushed::default()
                },
                &[],
                now,
            );
            return;
        }
        for (key, change) in &changes.ports {
            if key.port != PortNum::ZERO || !change.info {
                continue;
            }
            let node = self.inventory.node_mut(key.node);
            if let Some(switch) = node.and_then(|node| node.switch.as_mut()) {
                switch.unheard = true;
            }
        }
        self.stage = Stage::Pushing(Box::new(Push::start(plan, changes, &self.inventory)));
    }

    pub(super) fn end_push(&mut self, now: Time) {
        let Stage::Pushing(push) = std::mem::replace(&mut self.stage, Stage::Idle) else {
            return;
        };
        self.meter.mark(Part::Push, now);
        let progress = push.progress();
        for &port in push.reregistered() {
            self.reregister.done(port);
        }
        self.residue.retain(|finding| {
            !matches!(
                finding.kind,
                FindingKind::SetFailed | FindingKind::FieldNotKept
            )
        });
        let failed = self.word_failures(push.failures());
        self.residue.extend(failed);
        self.unfinished = push.was_stopped() || push.owes_multicast();
        self.hurried &= push.was_stopped();
        let pushed = Pushed {
            lft_blocks: progress.blocks as u64,
            mft_blocks: progress.multicast_blocks as u64,
            switches_written: progress.switches as u64,
            ports_activated: progress.activated as u64,
            complete: push.is_complete(),
        };
        let nodes: BTreeSet<Guid> = push.failures().iter().map(Failure::node).collect();
        self.count_misses(push.failures());
        let nodes: Vec<Guid> = nodes.into_iter().collect();
        self.work.read_again(push.unread());
        if push.learned() {
            self.remember();
        }
        self.conclude(pushed, &nodes, now);
    }

    /// A node that did not answer Sets of this push has missed once, however many there were.
    fn count_misses(&mut self, failures: &[Failure]) {
        let silent: BTreeSet<Guid> = failures
            .iter()
            .filter(|failure| failure.cause == Cause::Silence)
            .map(Failure::node)
            .collect();
        for guid in silent {
            if let Some(node) = self.inventory.node_mut(guid) {
                node.missed = node.missed.saturating_add(1);
            }
        }
    }

    fn word_failures(&self, failures: &[Failure]) -> Vec<Finding> {
        let mut findings: Vec<Finding> = failures
            .iter()
            .map(|failure| {
                let (subject, what) = match failure.task {
                    Task::Switch(guid) => (Subject::Node(guid), "SwitchInfo".to_owned()),
                    Task::Block { switch, .. } => {
                        (Subject::Node(switch), "its forwarding table".to_owned())
                    }
                    Task::Lanes { switch, .. } => {
                        (Subject::Node(switch), "an SLtoVLMappingTable".to_owned())
                    }
                    Task::Multicast { switch, .. } => (
                        Subject::Node(switch),
                        "its multicast forwarding table".to_owned(),
                    ),
                    Task::MulticastTop(guid) => (Subject::Node(guid), "MulticastFDBTop".to_owned()),
                    Task::Port(key, _) => {
                        (Subject::Port(key), format!("PortInfo of port {}", key.port))
                    }
                    Task::Guids(key, _) => {
                        (Subject::Port(key), format!("GUIDInfo of port {}", key.port))
                    }
                    Task::PKeys(key, _) => (
                        Subject::Port(key),
                        format!("the P_Key table of port {}", key.port),
                    ),
                };
                let why = match failure.cause {
                    Cause::Silence => "did not answer".to_owned(),
                    Cause::Refused(status) => format!("refused it: {status}"),
                    Cause::NotHeld => "answered, but does not hold what was set".to_owned(),
                };
                let text = format!(
                    "{} was set on {}, which {why}; it is tried again",
                    what,
                    self.name(failure.node())
                );
                Finding::new(FindingKind::SetFailed, subject, Severity::Error, text)
            })
            .collect();
        findings.sort();
        findings.dedup();
        findings
    }
}
