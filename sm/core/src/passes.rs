//! The beginning of a pass, and the decision at the end of its sweep: plan, push, or nothing.

use std::sync::Arc;
use std::time::Duration;

use rsm_hardware::sweep::read_back::Samples;
use rsm_hardware::sweep::{Sweep, SweepScope};
use rsm_mad::Time;
use rsm_mastership::MASTER_CHANGED;
use rsm_mastership::taken_over_tables::{self, Trust};
use rsm_model::fabric::{Delta, Fabric};
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_state::Role;

use super::convergence::TimedStage;
use super::requests::Context;
use super::silent_nodes::leave_silent_nodes_out;
use super::stage::Stage;
use super::work::{FullSweep, Next, Reporter};
use super::{Core, Mode, Pass, dry_run};

/// One in this many successive repair sweeps waits for all attempts at silent nodes. Other repair
/// sweeps end once there is a change to plan for, and so miss the answers of slow nodes.
const REPAIRS_PER_WAIT: u32 = 4;

impl Core {
    /// Makes progress in the current stage, or enters the next stage, if that is possible now.
    /// Returns whether the state changed; the caller must then call again.
    pub(super) fn advance(&mut self, now: Time) -> bool {
        match &self.stage {
            Stage::Idle => self.resume_first_sweep(now) || self.begin_next(now),
            Stage::Sweeping(_) => self.advance_sweep(now),
            Stage::Planning { .. } => {
                if self.pass == Pass::Rebalance && self.work.is_urgent() {
                    // The core discards the plan when it arrives: no stage waits for its
                    // generation.
                    self.stage = Stage::Idle;
                    self.recorder.discard();
                    return true;
                }
                false
            }
            Stage::HandingOver(handing_over) => {
                let Some((to, accepted)) = handing_over.outcome() else {
                    return false;
                };
                self.stage = Stage::Idle;
                self.mastership.end_hand_over(to, accepted, now);
                self.carry_out_actions(now);
                true
            }
            Stage::Pushing(_) => self.advance_push(now),
        }
    }

    /// Begins the next pass, if work waits. Returns whether it did.
    fn begin_next(&mut self, now: Time) -> bool {
        let is_active = *self.mastership.role() != Role::NotActive && self.local_port.is_up();
        let next = if is_active {
            self.work.take_next()
        } else {
            None
        };
        let Some(next) = next else {
            self.silence.silences.end(&self.inventory);
            self.schedule_light(now);
            return false;
        };
        self.begin(next, now);
        true
    }

    /// Passes reports to the sweep under way, and ends it if it is done. Returns whether the state
    /// changed.
    fn advance_sweep(&mut self, now: Time) -> bool {
        if self.full_sweep_gives_way() {
            return true;
        }
        let Stage::Sweeping(sweep) = &mut self.stage else {
            return false;
        };
        // A switch that reports a change while the sweep waits for silent nodes is urgent work, and
        // ends the wait.
        let takes_switches = !sweep.waits_for_silent_nodes();
        let joined = self.work.offer(|reporter| match reporter {
            Reporter::Switch(guid) => takes_switches && sweep.add_target(&self.inventory, guid),
            Reporter::Port(port) => sweep.add_port(&self.inventory, port),
        });
        if !joined && sweep.is_done() {
            if sweep.retry_stale_paths(&mut self.inventory)
                || sweep.ask_left_out_again(&mut self.inventory)
            {
                return true;
            }
            let scope = sweep.scope();
            let is_held_open = self.on_mastership(now, |mastership, view| {
                mastership.holds_sweep_open(scope, view, now)
            });
            if !is_held_open {
                self.end_sweep(now);
            }
            return !is_held_open;
        }
        let urgent = self.work.is_urgent();
        let (client, inventory) = (&mut self.client, &mut self.inventory);
        joined
            || leave_silent_nodes_out(sweep, urgent, client, inventory)
            || self.bring_up_found_part(now)
    }

    /// Gives up a full sweep of a subnet in use if a switch reports a change, and queues the full
    /// sweep again after the report. At 10,000 hosts, a full sweep takes seconds, in which packets
    /// would be lost. Returns whether the sweep was given up.
    fn full_sweep_gives_way(&mut self) -> bool {
        let is_in_use = self.mastership.is_master() && self.plans.in_force().is_some();
        if !is_in_use || self.first_sweep.is_under_way() || !self.work.full_sweep_gives_way() {
            return false;
        }
        let sweep = match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Sweeping(sweep) if sweep.may_give_way() => sweep,
            stage => {
                self.stage = stage;
                return false;
            }
        };
        self.work.sweep_everything_after_reports();
        let (switches, ports) = sweep.give_way(&mut self.inventory);
        for switch in switches {
            self.work.sweep_switch(switch, format!("{switch} changed"));
        }
        for port in ports {
            self.work.read_port(port);
        }
        self.drop_stage();
        true
    }

    /// Ends the push if it is done. Interrupts the push for urgent work if the remaining Sets would
    /// take longer than a new plan. Returns whether the state changed.
    fn advance_push(&mut self, now: Time) -> bool {
        let Stage::Pushing(push) = &mut self.stage else {
            return false;
        };
        if !self.writing.was_interrupted()
            && !push.was_stopped()
            && self.work.is_urgent()
            && self
                .recorder
                .rest_outlasts_plan(push.report().progress(), now)
        {
            self.writing.record_interruption();
            push.stop();
            let taken_back = self
                .client
                .cancel_queued(|context| matches!(context, Context::Push(_)));
            push.taken_back(taken_back);
        }
        if push.is_done() {
            self.end_push(now);
            return true;
        }
        let delays_work = push.was_stopped() || self.work.is_urgent();
        delays_work && self.abandon_silent_nodes(now)
    }

    /// Begins the pass that `next` requests, with a sweep or with the present model.
    fn begin(&mut self, next: Next, now: Time) {
        let needs_sweep = !matches!(
            next,
            Next::Plan | Next::Groups | Next::Rebalance | Next::RouteAdaptively
        );
        if !needs_sweep && !self.mastership.is_master() && self.config.mode == Mode::Manage {
            // A manager that becomes master plans at the end of its sweep, and then considers all
            // events until that time.
            drop(self.work.take_cause());
            return;
        }
        let cause = self.cause_of(&next);
        self.recorder.start(cause, now, self.client.stats());
        self.pass = Pass::Full;
        if matches!(next, Next::Everything { .. }) && self.work.take_rewrite() {
            taken_over_tables::distrust_all(&mut self.inventory);
        }
        self.update_inventory_policy();
        match next {
            Next::Plan => self.start_plan(now),
            Next::Groups => self.start_groups(now),
            Next::Rebalance => self.start_rebalancing(now),
            Next::RouteAdaptively => self.resume_push(now),
            _ => match self.begin_sweep(next, now) {
                Some(sweep) => self.stage = Stage::Sweeping(Box::new(sweep)),
                None => self.recorder.discard(),
            },
        }
    }

    /// The cause of a pass, for its record.
    fn cause_of(&mut self, next: &Next) -> String {
        let cause = match next {
            Next::Lightly => "light sweep",
            Next::Master => "polling the master",
            Next::Groups => "multicast groups changed",
            Next::ReadAhead => "the master does not answer",
            Next::Following => MASTER_CHANGED,
            Next::Rebalance => "load taken off the fullest links",
            Next::RouteAdaptively => "adaptive routing beside the forwarding tables",
            _ => return self.work.take_cause(),
        };
        cause.to_owned()
    }

    /// Passes the settings for the next pass to the inventory: M_Keys, names, and the parts that
    /// are missing.
    fn update_inventory_policy(&mut self) {
        self.inventory.use_vports(self.config.manages_vports);
        self.update_m_keys();
        self.inventory.expected.clone_from(self.missing.expected());
        self.inventory.hardware.use_names(&self.config.names);
    }

    /// Passes the M_Keys of the settings to the inventory.
    pub(super) fn update_m_keys(&mut self) {
        let ports = &self.config.policy.ports;
        self.inventory
            .use_m_keys(&ports.m_keys, ports.m_key_protect);
    }

    /// Starts the sweep of a pass; `None` if the sweep is no longer needed, or the pass has none.
    fn begin_sweep(&mut self, next: Next, now: Time) -> Option<Sweep> {
        Some(match next {
            Next::Plan | Next::Groups | Next::Rebalance | Next::RouteAdaptively => return None,
            Next::Everything { audit } => {
                let sweep = self.start_sweep(SweepScope::Full { audit });
                self.mastership.begin_reading(audit);
                sweep
            }
            Next::Succession => {
                self.pass = Pass::Succession;
                let (inventory, policy) = (&mut self.inventory, self.config.sweep_policy());
                self.mastership.begin_succession(inventory, policy, now)
            }
            Next::ReadAhead => {
                let (inventory, policy) = (&mut self.inventory, self.config.sweep_policy());
                return self.mastership.begin_reading_ahead(inventory, policy, now);
            }
            Next::Following => {
                let parts = self.mastership.begin_following(now)?;
                Sweep::start_following(&mut self.inventory, self.config.sweep_policy(), parts)
            }
            Next::Lightly => {
                let samples = self.next_samples(now);
                let mut sweep = self.start_sweep(SweepScope::Light);
                sweep.read_back_mut().set_samples(samples);
                let silent = self.mastership.silent_managers();
                silent.for_each(|port| sweep.read_again(port));
                self.on_mastership(now, |mastership, view| mastership.ask_silent_managers(view));
                sweep
            }
            Next::Master => {
                let mut sweep = self.start_sweep(SweepScope::Targets);
                if let Role::Standby { master } = self.mastership.role() {
                    sweep.add_manager(master.port);
                }
                sweep
            }
            Next::Targets {
                switches,
                ports,
                unread,
                repair,
            } => {
                let mut sweep = self.start_sweep(SweepScope::Targets);
                for guid in switches {
                    sweep.add_target(&self.inventory, guid);
                }
                for port in ports {
                    sweep.add_port(&self.inventory, port);
                }
                sweep.read_all_again(&self.inventory, unread);
                if repair {
                    sweep.ask_again(&self.inventory);
                    if self.work.repairs().is_multiple_of(REPAIRS_PER_WAIT) {
                        sweep.wait_for_silent_nodes();
                    }
                }
                sweep
            }
        })
    }

    /// Starts a sweep with the settings in force.
    fn start_sweep(&mut self, scope: SweepScope) -> Sweep {
        Sweep::start(scope, &mut self.inventory, self.config.sweep_policy())
    }

    /// Handles the result of the sweep, and continues with a plan, with a push, or with nothing.
    fn end_sweep(&mut self, now: Time) {
        let Stage::Sweeping(mut sweep) = std::mem::replace(&mut self.stage, Stage::Idle) else {
            return;
        };
        let reading = self.mastership.take_reading();
        self.complete_inventory(&mut sweep, now);
        if self.inventory.hardware.local.is_none() {
            return self.wait_for_own_port(now);
        }
        self.first_sweep.end();
        if sweep.scope() == SweepScope::Light {
            // Now, because the core may not become idle for a long time.
            self.schedule_light(now);
        }
        self.ask_for_moved_parts(&mut sweep);
        self.check_coverage(&sweep);
        let delta = self.follow_model(now);
        if self.on_mastership(now, |mastership, view| {
            mastership.end_reading_ahead(&mut sweep, view.inventory, now)
        }) {
            return;
        }
        if !self.is_elected_master(sweep.scope(), now) {
            if self.mastership.is_standby() {
                let is_covered = self.work.is_covered();
                self.on_mastership(now, |mastership, view| {
                    mastership.end_reading(reading, &sweep, is_covered, view.inventory, now);
                });
                if self.local_port.record_reading() {
                    self.publish(now);
                }
            }
            return;
        }
        self.decide_tables();
        self.record_foreign_writes(&mut sweep, now);
        self.plan_for_adaptive_switches();
        let verified = self.writing.verify_readings(&mut self.inventory);
        if verified.learned {
            self.remember();
        }
        let same_links = self.links.leave_out(&self.inventory, &self.fabric);
        let is_unchanged = delta.is_empty() && same_links;
        if self.pass == Pass::Succession {
            return self.end_succession_sweep(&sweep, !is_unchanged, now);
        }
        if !is_unchanged || !self.plan_still_holds() {
            return self.start_plan(now);
        }
        let is_partial = !matches!(sweep.scope(), SweepScope::Full { .. });
        let has_nothing_to_write = !sweep.found_change()
            && !self.writing.is_open()
            && !verified.were_read
            && !self.writing.reregisters_any();
        if is_partial && has_nothing_to_write {
            self.end_without_push(now);
        } else {
            self.resume_push(now);
        }
    }

    /// Completes the inventory with the answers of the sweep, and stores new habits and
    /// capabilities of devices.
    fn complete_inventory(&mut self, sweep: &mut Sweep, now: Time) {
        self.recorder.mark(TimedStage::Discover, now);
        if !self.work.is_due() {
            // All reports received during the sweep have joined it.
            let cause = self.work.take_cause();
            self.recorder.join(&cause);
        }
        sweep.finish(&mut self.inventory);
        self.inventory.rights.stamp_and_expire(now);
        self.follow_generations();
        let new_capabilities = self.inventory.hardware.take_new_capabilities();
        if new_capabilities && self.config.policy.adaptive.is_on() {
            // The capabilities of hosts matter as well: they show which hosts accept packets out
            // of order.
            self.inventory.adaptive_trials.record_capable_switch();
        }
        if self.inventory.hardware.habits.take_news() | new_capabilities {
            self.remember();
        }
        if std::mem::take(&mut self.reports.shows_suspects) {
            self.publish(now);
        }
    }

    /// Handles the silence of the own port, without which rsm cannot manage the subnet: reports a
    /// finding, and sweeps again later.
    fn wait_for_own_port(&mut self, now: Time) {
        self.reports.begin_pass(vec![Finding::new(
            FindingKind::Unanswering,
            Subject::Subnet,
            Severity::Error,
            "the local port does not answer, and no part of the subnet is managed: its adapter hangs, or holds an M_Key \
             other than sm.m_key with protection level 2 or 3; set sm.m_key to the key of the subnet manager before, or \
             reset the adapter"
                .to_owned(),
        )]);
        self.recorder.discard();
        let sweep = FullSweep::before_writing(false);
        self.work
            .sweep_everything(sweep, "the local port did not answer");
        self.work.postpone(now);
        self.publish(now);
    }

    /// Queues a reading of the hosts that moved during the sweep, and a full sweep if cables moved.
    fn ask_for_moved_parts(&mut self, sweep: &mut Sweep) {
        for host in sweep.moved_hosts() {
            self.work.read_port(host);
        }
        if sweep.is_contradicted(&self.inventory) {
            // A standby's full sweep counts as a reading of the master's plan only if it reads
            // known tables again.
            let audit = self.mastership.following().is_some();
            let cause = "cables were moved while they were read";
            self.work.sweep_everything(FullSweep::in_use(audit), cause);
        }
    }

    /// Puts the model of the inventory in force. Returns its difference from the former model.
    fn follow_model(&mut self, now: Time) -> Delta {
        let mut fabric = self.model();
        if self.config.mode == Mode::DryRun {
            fabric = dry_run::at_masters_port(&fabric, &self.inventory);
        }
        let delta = Delta::between(&self.fabric, &fabric);
        self.traps.record_changes(&delta);
        self.links.follow(&delta, &self.fabric, &fabric, now);
        self.missing.follow(&delta, &self.fabric, &fabric, now);
        self.fabric = fabric;
        delta
    }

    /// Records foreign writes that the samples of a light sweep show.
    fn record_foreign_writes(&mut self, sweep: &mut Sweep, now: Time) {
        let plan = self.plans.in_force();
        let comparison = plan.map(|plan| {
            self.writing
                .comparison(&self.inventory, &self.fabric, plan, &[])
        });
        let inventory = &self.inventory;
        let is_news = self.foreign_writes.record_differences(
            sweep.read_back_mut(),
            inventory,
            comparison.as_ref(),
            now,
        );
        if is_news {
            self.publish(now);
        }
    }

    /// The parts that the next light sweep reads back; empty unless this manager writes the subnet.
    fn next_samples(&mut self, now: Time) -> Samples {
        if self.foreign_writes.expire(now) {
            self.publish(now);
        }
        if !self.mastership.is_master() || self.config.mode != Mode::Manage {
            return Samples::default();
        }
        let failed = self.reports.failed_sets();
        let failing = failed.filter_map(|finding| match finding.subject {
            Subject::Port(port) => Some(port),
            _ => None,
        });
        let failing = failing.collect();
        self.foreign_writes
            .next_samples(&self.inventory, failing, now)
    }

    /// Decides whether the tables of switches count as held, for each switch written since the last
    /// decision.
    fn decide_tables(&mut self) {
        let trust = Trust {
            takeover: self.config.takeover,
            routes_adaptively: self.config.policy.adaptive.is_on(),
            remembers: self.plans.generation() > 0,
        };
        taken_over_tables::decide(&mut self.inventory, self.writing.tables_decided(), trust);
        self.writing
            .set_tables_decided(self.inventory.hardware.mark());
    }

    /// Whether the plan in force still applies to an unchanged model.
    fn plan_still_holds(&self) -> bool {
        let is_of_policy = self
            .plans
            .in_force()
            .is_some_and(|plan| Arc::ptr_eq(&plan.policy, &self.config.policy));
        is_of_policy
            && !self.work.wants_plan()
            && !self.mute_switch_answers()
            && !self.first_sweep.is_provisional()
    }

    /// Ends a pass that found no change.
    fn end_without_push(&mut self, now: Time) {
        self.recorder.discard();
        self.schedule_repair(&[], now);
        let last = self.recorder.history().next_back().cloned();
        if let Some(last) = last {
            self.complete_commands(&last);
        }
    }

    /// The model of the inventory: the model in force, updated by the nodes written since.
    pub(super) fn model(&mut self) -> Arc<Fabric> {
        let touched = self.inventory.hardware.take_touched();
        let fabric = self.fabric.follow(&self.inventory.hardware, &touched);
        debug_assert!(
            fabric == Fabric::build(&self.inventory.hardware),
            "a written node is not among the touched ones: {touched:?}"
        );
        Arc::new(fabric)
    }

    /// Records the nodes that a full sweep did not reach. When one of them answers in a later
    /// sweep, the core repeats the full sweep: it may have changed, and hidden other changes.
    fn check_coverage(&mut self, sweep: &Sweep) {
        if let SweepScope::Full { audit } = sweep.scope() {
            let unreached = sweep.unreached(&self.inventory).collect();
            self.work.record_coverage(audit, unreached);
        } else if sweep.found_healed(&self.inventory) {
            let hardware = &self.inventory.hardware;
            let has_answered = |node| {
                let node = hardware.node(node);
                node.is_some_and(|node| node.epoch == hardware.epoch)
            };
            self.work.repeat_uncovered_sweep(has_answered);
        }
    }

    /// Runs the election. Returns whether this subnet manager continues the pass as master; always
    /// true in a dry run, which plans as if this manager were master.
    fn is_elected_master(&mut self, scope: SweepScope, now: Time) -> bool {
        self.config.mode == Mode::DryRun
            || self.on_mastership(now, |mastership, view| {
                mastership.run_election(scope, view, now)
            })
    }

    /// Time at which an early bring-up begins; `None` if there will be no early bring-up.
    pub(super) fn first_sweep_due(&self) -> Option<Time> {
        match &self.stage {
            Stage::Sweeping(sweep)
                if self.may_bring_up_early() && self.mastership.may_claim_early() =>
            {
                self.first_sweep.bring_up_time(sweep, &self.client.stats())
            }
            _ => None,
        }
    }

    /// Whether an early bring-up is possible: the first sweep is under way, the manager may send
    /// Sets, and no inquiry is open.
    fn may_bring_up_early(&self) -> bool {
        self.first_sweep.is_under_way()
            && self.config.mode == Mode::Manage
            && !self.mastership.is_inquiring()
    }

    /// Begins an early bring-up of the part that the first sweep has found so far, if the sweep is
    /// slow and no part of the subnet is in use. Returns whether the bring-up begins.
    fn bring_up_found_part(&mut self, now: Time) -> bool {
        let Stage::Sweeping(sweep) = &self.stage else {
            return false;
        };
        if !self.may_bring_up_early() || self.mastership.is_refused() {
            return false;
        }
        let stats = self.client.stats();
        if !self.first_sweep.is_bring_up_due(sweep, &stats, now) {
            return false;
        }
        if !self.is_unmanaged(now) {
            self.first_sweep.wait_for_end();
            return false;
        }
        if !self.mastership.has_right() {
            self.on_mastership(now, |mastership, view| mastership.claim_early(view, now));
            return false;
        }
        let Stage::Sweeping(sweep) = std::mem::replace(&mut self.stage, Stage::Idle) else {
            return false;
        };
        self.first_sweep.move_to_background(sweep);
        self.mastership.become_master_early();
        self.recorder.mark(TimedStage::Discover, now);
        let fabric = self.model();
        self.missing.record_partial(&self.fabric, &fabric, now);
        self.fabric = fabric;
        self.start_plan(now);
        true
    }

    /// Whether no other manager is in charge of the part found so far: every switch that forwards
    /// has tables of this manager's plan, and no manager found so far has precedence.
    fn is_unmanaged(&mut self, now: Time) -> bool {
        let is_ours = |guid| {
            let plan = self.plans.in_force();
            plan.is_some_and(|plan| plan.table(guid).is_some())
        };
        let in_use = self
            .inventory
            .hardware
            .switches()
            .any(|(guid, _, switch)| switch.info.linear_fdb_top().0 != 0 && !is_ours(guid));
        !in_use && self.on_mastership(now, |mastership, view| mastership.would_be_master(view))
    }

    /// Continues the first sweep after an early bring-up. Returns whether there was an early
    /// bring-up.
    fn resume_first_sweep(&mut self, now: Time) -> bool {
        let Some(sweep) = self.first_sweep.resume(now) else {
            return false;
        };
        self.recorder.start(
            "answers that came late".to_owned(),
            now,
            self.client.stats(),
        );
        self.stage = Stage::Sweeping(sweep);
        true
    }

    /// Makes the push continue without silent nodes, because work waits for its end. Returns
    /// whether there are silent nodes.
    fn abandon_silent_nodes(&mut self, now: Time) -> bool {
        let Stage::Pushing(push) = &mut self.stage else {
            return false;
        };
        let (client, inventory) = (&mut self.client, &mut self.inventory);
        let silent = self.silence.abandon(push, client, inventory, now);
        for &node in &silent {
            self.foreign_writes.record_late_set(node);
        }
        !silent.is_empty()
    }

    /// Schedules the next light sweep or poll of the master, after the pause of the present role.
    pub(super) fn schedule_light(&mut self, now: Time) {
        let pause = match self.mastership.role() {
            Role::NotActive => Duration::ZERO,
            Role::Standby { .. } => self.mastership.policy().standby_poll,
            Role::Discovering | Role::Master => self.config.light_sweep,
        };
        if !pause.is_zero() {
            self.work.sweep_lightly_at(now + pause);
        }
    }
}
