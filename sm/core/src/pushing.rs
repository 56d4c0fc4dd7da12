//! Pushes in the core: writing the difference, and reporting failures.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_hardware::diff::{Changes, Comparison, VPortChanges};
use rsm_hardware::push::{FailedSet, Push, rehearse};
use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_mad::wire::attr::PortState;
use rsm_plan::Plan;
use rsm_routing::tables::Tables;
use rsm_state::{Forthcoming, Role, TablesWritten};

use super::convergence::{Part, Pushed};
use super::event::Effect;
use super::stage::Stage;
use super::writing::{drop_verified, failures, unverified_ports};
use super::{Core, Mode, Pass, adaptive};

impl Core {
    /// Writes the difference to the plan in force, which was made for an earlier state of the
    /// hardware. If tables differ, plans again, because the interim tables need a new proof.
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
        let babbling = self.babbling_links();
        let ordered = self.trials.detours.in_force().disabled();
        self.inventory.disabling = babbling.iter().copied().chain(ordered).collect();
        let compared = self
            .writing
            .compare(&self.inventory, &self.fabric, plan, interim);
        let (mut changes, whole) = compared;
        self.meter.note(whole);
        if self.pass != Pass::Succession {
            self.compare_multicast(plan, &mut changes);
        }
        self.writing
            .fit_adaptive(&mut changes, plan, &self.inventory);
        if changes.blocks() > 0 {
            // Routes leave a link before an operator's order takes it down.
            changes.links.retain(|port, _| babbling.contains(port));
        }
        changes
    }

    /// `plan` with the hardware as last read and written.
    pub(super) fn comparison<'a>(
        &'a self,
        plan: &'a Arc<Plan>,
        interim: &'a [Tables],
    ) -> Comparison<'a> {
        self.writing
            .comparison(&self.inventory, &self.fabric, plan, interim)
    }

    /// Adds the difference between the held multicast tables and `plan`.
    pub(super) fn compare_multicast(&mut self, plan: &Plan, changes: &mut Changes) {
        let whole = self
            .writing
            .compare_multicast(&self.inventory, plan, changes);
        self.meter.note(whole);
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
            self.writing.begin(&changes);
            drop_verified(&mut self.inventory, &changes);
        }
        if changes.blocks() == 0 {
            // An order that is not due now must surprise no operator later. Others stay until their
            // Sets are answered: urgent work may stop the push before they leave.
            let due = &changes.links;
            let orders = &mut self.inventory.link_orders;
            orders.retain(|port, _| due.contains_key(port));
        }
        if changes.is_empty() {
            self.writing.settle();
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
            self.inventory.link_orders.clear();
            self.end_succession();
            self.writing.leave_open();
            self.stage = Stage::Idle;
            self.meter.discard();
            return;
        }
        self.tell_push();
        self.serve(&changes, now);
        self.stage = Stage::Pushing(Box::new(Push::start(plan, changes, &self.inventory)));
    }

    /// Lets the SA answer from the plan before a port becomes Active by it. A push that makes no
    /// end port Active needs this only once, because it brings no host that the SA does not know.
    fn serve(&mut self, changes: &Changes, now: Time) {
        let mut ports = changes.ports.values();
        let brings_hosts = ports.any(|change| change.activates_end_port())
            || changes.vports.values().any(VPortChanges::activates);
        if self.pass == Pass::Multicast
            || self.election.role != Role::Master
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
        self.reports.forget_failed_sets();
        let failed = failures::findings(&self.inventory, push.failures());
        self.reports.add(failed);
        self.writing.end(&push);
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
        failures::count_misses(&mut self.inventory, push.failures());
        let nodes: Vec<Guid> = nodes.into_iter().collect();
        adaptive::count_failures(&mut self.inventory, push.failures());
        self.plan_by_adaptive_news();
        self.go_on_with_adaptive(push.is_complete(), now);
        self.work.read_again(push.unread());
        self.work.read_again(unverified_ports(&self.inventory));
        self.bounce_on();
        self.order_links(progress.blocks > 0);
        let cause = self.links.note_push(&push, &self.inventory, &self.fabric);
        if let Some(cause) = cause {
            self.work.plan_again(cause);
        }
        if push.learned() | self.inventory.habits.take_news() {
            self.remember();
        }
        // After a bring-up, the records of the push take more memory than the new model does.
        drop(push);
        self.conclude(pushed, &nodes, now);
        // The next plan needs the tables that this push has written; they are collected now, when
        // nothing waits.
        drop(self.plans.held_tables(&self.inventory));
    }

    /// Plans again to bounce the next mismatched link, if the operator allows it and there is one.
    fn bounce_on(&mut self) {
        let allowed = self.config.policy.ports.links.bounce;
        if allowed && self.writing.has_to_bounce(&self.inventory) {
            self.writing.leave_open();
            self.work
                .plan_again("a link has another MTU or number of VLs than planned");
        }
    }

    /// Plans again to take links down or up that waited for the tables of this push.
    fn order_links(&mut self, wrote_tables: bool) {
        let waits = {
            let is_up = |port| {
                let state = self.inventory.port(port).and_then(|port| port.state());
                state.is_some_and(|state| state != PortState::Down)
            };
            let mut disabled = self.trials.detours.in_force().disabled();
            !self.inventory.link_orders.is_empty() || disabled.any(is_up)
        };
        if wrote_tables && waits {
            self.writing.leave_open();
            self.work
                .plan_again("links that operators take down or up have no routes any more");
        }
    }

    /// After a push, or where there was nothing to write: Sets of adaptive routing that waited
    /// follow, and tables of switches on trial are read back.
    fn go_on_with_adaptive(&mut self, complete: bool, now: Time) {
        if !complete {
            return;
        }
        if self.writing.take_adaptive() {
            self.work.route_adaptively();
        }
        let Some(plan) = self.plans.in_force() else {
            return;
        };
        if let Some(planned) = plan.adaptive.as_deref() {
            adaptive::read_back(plan, planned, &mut self.inventory, &mut self.work, now);
            self.plan_by_adaptive_news();
        }
    }

    /// Plans again, if switches turned out to be able to route adaptively, or not to.
    pub(super) fn plan_by_adaptive_news(&mut self) {
        if self.inventory.adaptive_trials.take_news() && self.plans.in_force().is_some() {
            self.work
                .plan_again("other switches can route adaptively than before");
        }
    }

    /// Lists the Sets of the push of a dry run, and ends the pass.
    fn foresee(&mut self, plan: Arc<Plan>, changes: Changes, now: Time) {
        self.writing.note_mismatches(&changes);
        let sets = rehearse(plan, changes, &self.inventory);
        self.outbox.push(Effect::Foreseen(sets));
        self.conclude(Pushed::default(), &[], now);
    }
}
