//! Pushes in the core: from the comparison with the plan to the end of the pass.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_hardware::diff::{Changes, Comparison, Reregister, VPortChanges};
use rsm_hardware::push::{FailedSet, Push, rehearse};
use rsm_hardware::sweep::Query;
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::Time;
use rsm_mad::wire::attr::{PortPhysicalState, PortState};
use rsm_mastership::PushEnd;
use rsm_plan::Plan;
use rsm_routing::tables::Tables;
use rsm_state::{Convergence, Forthcoming, Handover, Role, Snapshot, TablesWritten, Unwritten};

use super::convergence::{Pushed, TimedStage};
use super::event::Effect;
use super::saved_state::SavedCoreState;
use super::stage::Stage;
use super::writing::{drop_verified, failures, mark_overdue, unverified_ports};
use super::{Core, Mode, Pass, adaptive, dry_run, rebalancing, snapshot};

impl Core {
    /// Writes the differences from the plan in force, which was made for an earlier state of the
    /// hardware. If forwarding tables differ, plans again instead: interim tables are proved only
    /// for the tables that switches held at the time of planning.
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

    /// Writes the differences from `plan`, which was just made for the tables that the hardware
    /// holds.
    pub(super) fn start_push(&mut self, plan: Arc<Plan>, now: Time) {
        let changes = self.differing(&plan, &plan.transition.interim);
        self.push(plan, changes, now);
    }

    /// Compares the hardware with `plan` and its interim tables. Returns the differences that this
    /// pass may write.
    fn differing(&mut self, plan: &Arc<Plan>, interim: &[Tables]) -> Changes {
        let babbling = self.traps.babbling_links(&self.inventory, &self.config);
        let ordered = self.trials.detours.in_force().disabled();
        self.inventory.disabling = babbling.iter().copied().chain(ordered).collect();
        let compared = self
            .writing
            .compare(&self.inventory, &self.fabric, plan, interim);
        let (mut changes, whole) = compared;
        self.recorder.record_whole(whole);
        if self.pass != Pass::Succession {
            self.compare_multicast(plan, &mut changes);
        }
        self.writing
            .defer_adaptive_sets(&mut changes, plan, &self.inventory);
        if changes.blocks() > 0 {
            // Routes must first leave the links that operators' orders take down.
            changes.links.retain(|port, _| babbling.contains(port));
        }
        changes
    }

    /// The comparison of the hardware, as last read and written, with `plan`.
    pub(super) fn comparison<'a>(
        &'a self,
        plan: &'a Arc<Plan>,
        interim: &'a [Tables],
    ) -> Comparison<'a> {
        self.writing
            .comparison(&self.inventory, &self.fabric, plan, interim)
    }

    /// Adds the differences of multicast tables from `plan` to `changes`.
    pub(super) fn compare_multicast(&mut self, plan: &Plan, changes: &mut Changes) {
        let whole = self
            .writing
            .compare_multicast(&self.inventory, plan, changes);
        self.recorder.record_whole(whole);
    }

    /// Begins the push of `changes`, and ends the pass if there is nothing to write. A dry run
    /// lists the Sets instead. Without the right to write, the changes stay open.
    pub(super) fn push(&mut self, plan: Arc<Plan>, changes: Changes, now: Time) {
        if self.config.mode == Mode::DryRun {
            self.list_sets_of_dry_run(plan, changes, now);
            return;
        }
        if !self.succession_may_write(&changes, now) {
            return;
        }
        if self.pass != Pass::Multicast {
            self.writing.begin(&changes);
            drop_verified(&mut self.inventory, &changes);
        }
        if changes.blocks() == 0 {
            // Drop link orders that are not due now: operators would not expect their effect later.
            // Due orders stay until their Sets are answered, because urgent work may stop the push
            // before the Sets are sent.
            let due = &changes.links;
            let orders = &mut self.inventory.link_orders;
            orders.retain(|port, _| due.contains_key(port));
        }
        if changes.is_empty() {
            self.writing.record_nothing_to_write();
            if self.pass != Pass::Multicast {
                self.reports.forget_failed_sets();
            }
            self.continue_adaptive(true, now);
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
            // All changes wait until the master is decided, including changes that operators
            // ordered.
            self.end_succession(now);
            self.writing.leave_open();
            self.stage = Stage::Idle;
            self.recorder.discard();
            return;
        }
        self.announce_push();
        self.writing
            .record_bounce(&mut self.inventory, &changes, now);
        self.silence.begin_push();
        self.serve(&changes, now);
        self.stage = Stage::Pushing(Box::new(Push::start(plan, changes, &self.inventory)));
    }

    /// Lets the SA answer from the plan before the push makes an end port Active. Does nothing if
    /// the SA already has a plan of this master and the push makes no end port Active: the push
    /// then adds no host that the SA does not know.
    fn serve(&mut self, changes: &Changes, now: Time) {
        let mut ports = changes.ports.values();
        let brings_hosts = ports.any(|change| change.activates_end_port())
            || changes.vports.values().any(VPortChanges::activates);
        if self.pass == Pass::Multicast
            || !self.mastership.is_master()
            || (self.reports.sa_has_plan && !brings_hosts)
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
        self.reports.sa_has_plan = true;
        self.outbox.push(Effect::Serve(Arc::new(forthcoming)));
    }

    /// Handles the end of a push: reports failures, queues the work that follows, and ends the
    /// pass.
    pub(super) fn end_push(&mut self, now: Time) {
        let Stage::Pushing(push) = std::mem::replace(&mut self.stage, Stage::Idle) else {
            return;
        };
        self.recorder.mark(TimedStage::Push, now);
        let report = push.report();
        let (progress, failures) = (report.progress(), report.failures());
        if self.pass != Pass::Multicast {
            self.reports.forget_failed_sets();
        }
        let failed = failures::findings(&self.inventory, failures);
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
                false => TablesWritten::AllBut(report.without_tables()),
            },
            unwritten: Unwritten {
                ended: push
                    .was_stopped()
                    .then(|| "the push was stopped".to_owned()),
                ports: failures.iter().map(|failed| failed.task.port()).collect(),
                ..Unwritten::default()
            },
        };
        let nodes: BTreeSet<Guid> = failures.iter().map(FailedSet::node).collect();
        failures::count_misses(&mut self.inventory, failures);
        let nodes: Vec<Guid> = nodes.into_iter().collect();
        adaptive::count_failures(&mut self.inventory, failures);
        self.plan_for_adaptive_switches();
        self.continue_adaptive(push.is_complete(), now);
        self.work.read_again(report.unread());
        self.work.read_again(unverified_ports(&self.inventory));
        self.plan_next_bounce();
        self.plan_waiting_link_orders(progress.blocks > 0);
        self.read_disabled_ports();
        let cause = self
            .links
            .update_unopened(&push, &self.inventory, &self.fabric);
        if let Some(cause) = cause {
            self.work.plan_again(cause);
        }
        if report.learned() | self.inventory.hardware.habits.take_news() {
            self.remember();
        }
        // Free the push before the new model is built, to keep the peak of memory low.
        drop(push);
        self.conclude(pushed, &nodes, now);
        // The next plan needs the tables that this push has written. Collect them now, while no
        // work waits.
        drop(self.plans.held_tables(&self.inventory));
    }

    /// Plans again to bounce the next mismatched link, if there is one and the operator allows
    /// bounces.
    fn plan_next_bounce(&mut self) {
        let allowed = self.config.policy.ports.links.bounce;
        if allowed && self.writing.has_to_bounce(&self.inventory) {
            self.writing.leave_open();
            self.work
                .plan_again("a link has another MTU or number of VLs than planned");
        }
    }

    /// Goes on with the next bounce if the last bounced link has not come up in time.
    pub(super) fn give_bounce_up(&mut self, now: Time) {
        if self.writing.take_bounce_due(now) && mark_overdue(&mut self.inventory) {
            self.plan_next_bounce();
            self.publish(now);
        }
    }

    /// Queues a reading of switches with ports that were just disabled. The answer to the Set may
    /// still show the state before the Set, and the operator's command completes once a reading
    /// shows the link down.
    fn read_disabled_ports(&mut self) {
        let disabled = self.trials.detours.in_force().disabled();
        let answered = disabled.filter(|&port| {
            let port = self.inventory.hardware.port(port);
            port.is_some_and(|port| {
                let info = port.info.as_ref();
                info.is_some_and(|info| {
                    info.port_physical_state() == PortPhysicalState::Disabled
                        && (info.port_state() != PortState::Down || port.peer.is_some())
                })
            })
        });
        let switches: Vec<Guid> = answered.map(|port| port.node).collect();
        for switch in switches {
            self.work.sweep_switch(switch, "a port was disabled");
        }
    }

    /// Plans again if orders to take links down or up waited for the tables of this push.
    fn plan_waiting_link_orders(&mut self, wrote_tables: bool) {
        let waits = {
            let is_up = |port| {
                let state = self
                    .inventory
                    .hardware
                    .port(port)
                    .and_then(|port| port.state());
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

    /// After a `complete` push, or if there was nothing to write: queues the waiting Sets of
    /// adaptive routing, and reads back the tables of switches on trial.
    fn continue_adaptive(&mut self, complete: bool, now: Time) {
        if !complete {
            return;
        }
        if self.writing.take_adaptive_sets_wait() {
            self.work.route_adaptively();
        }
        let Some(plan) = self.plans.in_force() else {
            return;
        };
        if let Some(planned) = plan.adaptive.as_deref() {
            adaptive::read_back(plan, planned, &mut self.inventory, &mut self.work, now);
            self.plan_for_adaptive_switches();
        }
    }

    /// Plans again if the set of switches that can route adaptively has changed.
    pub(super) fn plan_for_adaptive_switches(&mut self) {
        if self.inventory.adaptive_trials.take_plan_outdated() && self.plans.in_force().is_some() {
            self.work
                .plan_again("other switches can route adaptively than before");
        }
    }

    /// Lists the Sets of the push of a dry run, and ends the pass.
    fn list_sets_of_dry_run(&mut self, plan: Arc<Plan>, changes: Changes, now: Time) {
        self.writing.record_mismatches(&changes);
        let sets = rehearse(plan, changes, &self.inventory);
        self.outbox.push(Effect::Foreseen(sets));
        self.conclude(Pushed::default(), &[], now);
    }
}

/// The end of a pass.
impl Core {
    /// Ends a pass: records its cost, publishes its result, completes commands, and schedules the
    /// repair of its failures. `failed` are the nodes with failed Sets.
    pub(super) fn conclude(&mut self, mut pushed: Pushed, failed: &[Guid], now: Time) {
        self.stage = Stage::Idle;
        pushed.unwritten.unread = self.unanswered_ports();
        let is_multicast = self.pass == Pass::Multicast;
        if self.mute_switch_answers() {
            self.work
                .plan_again("a switch that routes were planned around answers again");
        }
        self.end_succession(now);
        if !is_multicast {
            self.local_port.record_reading();
            let fabric = self.model();
            if self.first_sweep.is_in_background() {
                self.missing.record_partial(&self.fabric, &fabric, now);
            }
            self.fabric = fabric;
            if pushed.complete
                && let Some(plan) = self.plans.in_force()
            {
                self.writing
                    .compare_written(&self.inventory, &self.fabric, plan);
            }
        }
        // While the first sweep continues, no repair is needed: the comparison at its end includes
        // the failures of the early bring-up.
        if !self.first_sweep.is_in_background() {
            self.schedule_repair(failed, now);
        }
        self.announce_end_of_push();
        if !is_multicast {
            let plan = self.plans.in_force();
            let plan = plan.filter(|_| self.mastership.is_master());
            let due =
                plan.and_then(|plan| rebalancing::next_step(plan, &self.config.rebalance, now));
            self.work.rebalance_at(due);
            let came_up = pushed.ports_activated > 0;
            if (self.missing.differs_from_stored() || came_up)
                && self.mastership.is_master()
                && !self.first_sweep.is_in_background()
            {
                self.missing.set_stored(&self.fabric);
                self.remember();
            }
        }
        self.recorder
            .record_whole(self.inventory.take_full_search_reason());
        if let Some(convergence) = self.recorder.finish(pushed, now, &self.client.stats()) {
            let convergence = Arc::new(convergence);
            // Thousands of joins cause as many multicast passes, which would fill the history.
            if !is_multicast {
                self.recorder.record(convergence.clone());
            }
            self.publish(now);
            self.outbox.push(Effect::Converged(convergence.clone()));
            self.complete_commands(&convergence);
        }
    }

    /// Completes the waiting commands, unless a full sweep follows. Urgent work that follows may
    /// belong to them, so they wait for it, but not for the reports of ever more changes.
    pub(super) fn complete_commands(&mut self, convergence: &Arc<Convergence>) {
        if self.work.owes_full_sweep() || self.first_sweep.is_in_background() {
            return;
        }
        let tickets = match self.work.is_urgent() {
            true => self.work.take_overdue_tickets(),
            false => self.work.take_tickets(),
        };
        for ticket in tickets {
            self.outbox.push(Effect::Done {
                ticket,
                convergence: convergence.clone(),
            });
        }
    }

    /// The missing answers, as ports: port 0 stands for its node, another port for the unknown node
    /// behind it.
    fn unanswered_ports(&self) -> BTreeSet<PortKey> {
        let faults = &self.inventory.faults;
        let unasked = faults.owed().filter_map(|query| match query {
            Query::Node(from) => from.or(self.inventory.hardware.local),
            _ => None,
        });
        let behind_ports = faults.to_ask_again().chain(unasked);
        let nodes = faults.owed().filter_map(Query::node);
        let whole = nodes.map(|node| PortKey::new(node, PortNum::ZERO));
        behind_ports.chain(whole).collect()
    }

    /// Schedules a repair of missing answers and of the nodes in `failed`.
    pub(super) fn schedule_repair(&mut self, failed: &[Guid], now: Time) {
        let mut awaiting_answer = self.unanswered_ports();
        let failing = failed.iter();
        awaiting_answer.extend(failing.map(|&node| PortKey::new(node, PortNum::ZERO)));
        let has_failed_sets = self.reports.failed_sets().next().is_some();
        self.work
            .repair_pass(awaiting_answer, failed, has_failed_sets, now);
    }

    /// Announces to the managers that share the store that hardware is being written. Called before
    /// the first Set.
    pub(super) fn announce_push(&mut self) {
        if self.mastership.policy().shares_store
            && self.pass != Pass::Multicast
            && self.mastership.news_mut().begin_push()
        {
            self.remember();
        }
    }

    /// Announces to the managers that share the store that the hardware holds the plan, and which
    /// parts have changed since the former plan. At the end of a push, the number of the plan is
    /// incremented: a reading during the push must not count as a reading of its result.
    pub(super) fn announce_end_of_push(&mut self) {
        if !self.mastership.policy().shares_store
            || self.writing.is_open()
            || self.rotation.is_announced()
        {
            return;
        }
        let news = self.mastership.news_mut();
        match news.end_push(self.pass == Pass::Multicast) {
            PushEnd::NoNews => return,
            PushEnd::Pushed => {
                self.plans.advance();
            }
            PushEnd::Changed => {}
        }
        let generation = self.plans.generation();
        news.conclude(generation, &self.fabric);
        self.remember();
    }

    /// Stores the state of the core, if this manager has the right to write.
    pub(super) fn remember(&mut self) {
        if !self.mastership.has_right() {
            // Only the master stores the state.
            return;
        }
        self.links.record_stored();
        self.mastership
            .news_mut()
            .record_stored(self.plans.generation());
        let generations = self.config.policy.ports.m_keys.generations;
        self.outbox.push(Effect::Remember(Box::new(SavedCoreState {
            claims: self.plans.assigned.claims.clone(),
            positions: self.plans.assigned.positions.clone(),
            group_ids: self.plans.assigned.group_ids.clone(),
            generations: self.rotation.stored(generations),
            local: self
                .inventory
                .hardware
                .local
                .or(self.inventory.local_before),
            gpus: Arc::default(),
            alias_guids: Arc::default(),
            cabling: self.missing.stored().clone(),
            avoid: self.trials.detours.in_force().clone(),
            health: Arc::new(self.links.saved_health(self.trials.detours.in_force())),
            overlay: self.trials.partitions.in_force().clone(),
            not_kept: self.writing.not_kept().clone(),
            habits: self.inventory.hardware.habits.clone(),
            capabilities: self.inventory.hardware.capabilities.clone(),
            generation: self.plans.generation(),
            footprints: self.mastership.news().footprints().clone(),
            is_pushing: self.mastership.news().is_pushing(),
            reregister: false,
        })));
    }

    /// Whether a convergence is under way or waiting.
    pub(super) fn is_converging(&self) -> bool {
        !self.stage.is_idle() || self.first_sweep.is_in_background() || self.work.is_urgent()
    }

    /// The ports that a takeover writes besides the differences from the plan in force; `None` if
    /// there is no plan.
    pub fn handover(&self) -> Option<Handover> {
        let plan = self.plans.in_force()?;
        let everybody = Reregister::everybody();
        let comparison = Comparison {
            reregister: &everybody,
            ..self.comparison(plan, &plan.transition.interim)
        };
        Some(dry_run::handover(&comparison))
    }

    /// The present state, whether or not it was published. A sweep that found no change affects
    /// only the counters.
    pub fn snapshot(&self, now: Time) -> Snapshot {
        snapshot::build(self, now)
    }

    /// Publishes the present findings unless the last snapshot is too recent, and stores the health
    /// of ports if it has changed.
    pub(super) fn publish_findings(&mut self, now: Time) {
        if self.reports.may_publish_at(now) {
            if std::mem::take(&mut self.reports.has_unpublished_health)
                && self.mastership.is_master()
            {
                self.remember();
            }
            self.publish(now);
        }
    }

    /// Publishes a snapshot of the present state.
    pub(super) fn publish(&mut self, now: Time) {
        let is_sweeping = matches!(self.stage, Stage::Sweeping(_));
        let silences = &mut self.silence.silences;
        silences.follow(&self.inventory, is_sweeping, now);
        let avoid = self.trials.detours.in_force();
        self.missing.set_disabled(avoid, &self.fabric);
        let snapshot = Arc::new(self.snapshot(now));
        (self.reports.published_at, self.reports.publish_at) = (Some(now), None);
        self.reports.shows_converging = snapshot.converging;
        self.reports.sa_has_plan = snapshot.role == Role::Master && snapshot.plan.is_some();
        self.outbox.push(Effect::Publish(snapshot));
    }
}
