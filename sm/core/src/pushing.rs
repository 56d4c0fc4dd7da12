//! From a plan to the hardware: writing the difference and reporting failures.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_hardware::diff::{Changes, Comparison, Looked, VPortChanges};
use rsm_hardware::push::{Cause, FailedSet, Push, Task};
use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_model::whole::{Step, Whole};
use rsm_plan::Plan;
use rsm_routing::tables::Tables;
use rsm_state::{Forthcoming, Role, TablesWritten};

use super::convergence::{Part, Pushed};
use super::event::Effect;
use super::stage::Stage;
use super::{Core, Mode, Pass};

impl Core {
    /// Writes the difference to the plan in force, which was made for an earlier state of the
    /// hardware. If tables differ, plans again: the interim tables need a new proof.
    pub(super) fn resume_push(&mut self, now: Time) {
        let Some(plan) = self.plans.in_force().cloned() else {
            return;
        };
        let changes = self.differing(&plan, &[]);
        if changes.blocks() > 0 {
            self.start_plan(now);
        } else {
            self.push(plan, changes, now);
        }
    }

    /// Writes the difference to `plan`, which was just made for the tables that the hardware holds.
    pub(super) fn start_push(&mut self, plan: Arc<Plan>, now: Time) {
        let changes = self.differing(&plan, &plan.transition.interim);
        self.push(plan, changes, now);
    }

    fn differing(&mut self, plan: &Arc<Plan>, interim: &[Tables]) -> Changes {
        self.inventory.disabling = self.babbling_links();
        let comparison = self.comparison(plan, interim);
        let scope = match &self.looked {
            Some(looked) => looked.scope(&comparison),
            None => Err("nothing was compared before"),
        };
        let mut changes = comparison.changes(scope.as_ref().ok());
        debug_assert!(scope.is_err() || changes == comparison.changes(None));
        self.looked = Some(Looked::new(&changes, &comparison));
        if let Err(why) = scope {
            self.meter.note([Whole::new(Step::Difference, why)]);
        }
        if self.pass != Pass::Succession {
            self.compare_multicast(plan, &mut changes);
        }
        self.adaptive_put_off = changes.fit_adaptive(plan, &self.inventory);
        changes
    }

    pub(super) fn comparison<'a>(
        &'a self,
        plan: &'a Arc<Plan>,
        interim: &'a [Tables],
    ) -> Comparison<'a> {
        Comparison {
            inventory: &self.inventory,
            fabric: &self.fabric,
            plan,
            interim,
            not_kept: &self.not_kept,
            reregister: &self.reregister,
        }
    }

    /// Adds the difference between the held multicast tables and `plan`.
    pub(super) fn compare_multicast(&mut self, plan: &Plan, changes: &mut Changes) {
        let whole = self.looked_multicast.diff(&self.inventory, plan, changes);
        let whole = whole.map(|why| Whole::new(Step::Difference, why));
        self.meter.note(whole);
    }

    /// Compares the ports and switches that a push has written with the plan once more, so that the
    /// next change does not have to: the push of a bring-up writes everything, and the first fault
    /// after it concerns a few ports and switches.
    pub(super) fn compare_what_was_written(&mut self) {
        let (Some(looked), Some(plan)) = (&self.looked, self.plans.in_force()) else {
            return;
        };
        let comparison = self.comparison(plan, &[]);
        if let Ok(scope) = looked.scope(&comparison) {
            let changes = comparison.changes_in(&scope);
            self.looked = Some(Looked::new(&changes, &comparison));
        }
    }

    pub(super) fn push(&mut self, plan: Arc<Plan>, changes: Changes, now: Time) {
        if self.config.mode == Mode::DryRun {
            self.foresee(plan, changes, now);
            return;
        }
        if !self.may_succeed(&changes) {
            return;
        }
        if self.pass != Pass::Multicast {
            self.reregister.begin(&changes);
            self.note_changes(&changes);
        }
        if changes.is_empty() {
            self.unfinished = false;
            self.last_push_interrupted = false;
            if self.pass != Pass::Multicast {
                self.reports.forget_failed_sets();
            }
            self.go_on_with_adaptive(true, now);
            self.conclude(
                Pushed {
                    complete: true,
                    tables: TablesWritten::AllBut(BTreeSet::new()),
                    ..Pushed::default()
                },
                &[],
                now,
            );
            return;
        }
        if !self.may_set() {
            self.end_succession();
            self.unfinished = true;
            self.stage = Stage::Idle;
            self.meter.discard();
            return;
        }
        self.tell_push();
        self.serve(&changes, now);
        self.stage = Stage::Pushing(Box::new(Push::start(plan, changes, &self.inventory)));
    }

    /// Lets the SA answer from the plan before a port goes Active by it. A push that makes no end
    /// port Active needs this only once: it brings no host that the SA does not know.
    fn serve(&mut self, changes: &Changes, now: Time) {
        let mut ports = changes.ports.values();
        let brings_hosts = ports.any(|change| change.activates_end_port())
            || changes.vports.values().any(VPortChanges::activates);
        if self.pass == Pass::Multicast
            || self.role != Role::Master
            || (self.reports.serve && !brings_hosts)
        {
            return;
        }
        let fabric = &self.fabric;
        let written = changes.ports.iter().filter(|(_, change)| change.info);
        let ports = written.filter_map(|(&key, change)| {
            let held = fabric.port(fabric.find_port(key)?).info?;
            Some((key, change.expected(&held)))
        });
        let forthcoming = Forthcoming::new(self.snapshot(now), ports.collect());
        self.reports.serve = true;
        self.outbox.push(Effect::Serve(Arc::new(forthcoming)));
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
        self.reports.forget_failed_sets();
        let failed = self.word_failures(push.failures());
        self.reports.add(failed);
        self.unfinished = push.was_stopped() || push.owes_multicast() || push.left_out_nodes();
        self.last_push_interrupted &= push.was_stopped();
        let pushed = Pushed {
            lft_blocks: progress.blocks as u64,
            mft_blocks: progress.multicast_blocks as u64,
            switches_written: progress.switches as u64,
            ports_activated: progress.activated as u64,
            complete: push.is_complete(),
            tables: match push.was_stopped() {
                true => TablesWritten::Unknown,
                false => TablesWritten::AllBut(push.without_tables()),
            },
        };
        let nodes: BTreeSet<Guid> = push.failures().iter().map(FailedSet::node).collect();
        self.count_misses(push.failures());
        let nodes: Vec<Guid> = nodes.into_iter().collect();
        self.count_adaptive_failures(push.failures());
        self.go_on_with_adaptive(push.is_complete(), now);
        self.work.read_again(push.unread());
        self.work.read_again(self.ports_in_doubt());
        self.bounce_on();
        let cause = self.links.note_push(&push, &self.inventory, &self.fabric);
        if let Some(cause) = cause {
            self.work.plan_again(cause);
        }
        if push.learned() | self.inventory.habits.take_news() {
            self.remember();
        }
        // After a bring-up, its records take more memory than the new model does.
        drop(push);
        self.conclude(pushed, &nodes, now);
        // The next plan takes what this push has written; now nothing waits for it.
        drop(self.plans.held_tables(&self.inventory));
    }

    /// Counts one miss for a node that left Sets of this push unanswered, however many.
    fn count_misses(&mut self, failures: &[FailedSet]) {
        let silent: BTreeSet<Guid> = failures
            .iter()
            .filter(|failure| failure.cause == Cause::Silence && !failure.task.is_of_vports())
            .map(FailedSet::node)
            .collect();
        for guid in silent {
            if let Some(node) = self.inventory.node_mut(guid) {
                node.missed = node.missed.saturating_add(1);
            }
        }
    }

    fn word_failures(&self, failures: &[FailedSet]) -> Vec<Finding> {
        let mut findings: Vec<Finding> = failures
            .iter()
            .map(|failure| {
                let (subject, what) = match failure.task {
                    Task::Switch(guid) => (Subject::Node(guid), "SwitchInfo".to_owned()),
                    Task::AdaptiveRouting(guid) => (Subject::Node(guid), "ARInfo".to_owned()),
                    Task::Adaptive(guid, step) => {
                        (Subject::Node(guid), format!("its {}", step.attribute()))
                    }
                    Task::Block { switch, .. } => {
                        (Subject::Node(switch), "its forwarding table".to_owned())
                    }
                    Task::SlToVl { switch, .. } => {
                        (Subject::Node(switch), "an SLtoVLMappingTable".to_owned())
                    }
                    Task::Multicast { switch, .. } => (
                        Subject::Node(switch),
                        "its multicast forwarding table".to_owned(),
                    ),
                    Task::MulticastTop(guid) => (Subject::Node(guid), "MulticastFDBTop".to_owned()),
                    Task::Port(key, _) | Task::Bounce(key) | Task::Disable(key) => {
                        (Subject::Port(key), format!("PortInfo of port {}", key.port))
                    }
                    Task::Managed(key) => (
                        Subject::Port(key.port),
                        format!("{} of port {}", key.attribute(), key.port.port),
                    ),
                    Task::Virtualization(key) => (
                        Subject::Port(key),
                        format!("VirtualizationInfo of port {}", key.port),
                    ),
                    Task::VPort(key, index) => (
                        Subject::Port(key),
                        format!("VPortInfo of vport {index} of port {}", key.port),
                    ),
                    Task::VPortPKeys(key, index, _) => (
                        Subject::Port(key),
                        format!("the P_Key table of vport {index} of port {}", key.port),
                    ),
                    Task::PKeys(key, _) => (
                        Subject::Port(key),
                        format!("the P_Key table of port {}", key.port),
                    ),
                };
                let why = match failure.cause {
                    Cause::Silence => "did not answer".to_owned(),
                    Cause::NotSent => "did not answer another Set before".to_owned(),
                    Cause::Refused(status) => format!("refused it: {status}"),
                    Cause::NotHeld => "answered, but does not hold what was set".to_owned(),
                    Cause::NotKept(fields) => {
                        format!(
                            "accepted it, but keeps another {}",
                            fields.names().join(", ")
                        )
                    }
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
