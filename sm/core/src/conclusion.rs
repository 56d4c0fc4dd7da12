//! The end of a pass: its record, the commands that it completes, and the repairs that follow.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rsm_hardware::sweep::Query;
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::Time;
use rsm_state::{Convergence, Role};

use super::convergence::Pushed;
use super::event::Effect;
use super::mastership::news::PushEnd;
use super::stage::Stage;
use super::{Core, Pass, SavedCoreState, rebalancing};

impl Core {
    /// Ends a pass: records its cost, publishes its result, and schedules a repair of its failures.
    pub(super) fn conclude(&mut self, pushed: Pushed, failed: &[Guid], now: Time) {
        self.stage = Stage::Idle;
        let is_multicast = self.pass == Pass::Multicast;
        self.end_succession();
        if !is_multicast {
            self.local_port.was_served();
            let fabric = self.model();
            if self.first_sweep.goes_on() {
                self.missing.meet(&self.fabric, &fabric, now);
            }
            self.fabric = fabric;
            if pushed.complete
                && let Some(plan) = self.plans.in_force()
            {
                self.writing
                    .compare_written(&self.inventory, &self.fabric, plan);
            }
        }
        // The difference at the end of the first sweep includes the failures from before that end.
        if !self.first_sweep.goes_on() {
            self.schedule_repair(failed, now);
        }
        self.tell_end_of_push();
        if !is_multicast {
            let plan = self.plans.in_force();
            let plan = plan.filter(|_| self.election.role == Role::Master);
            let due = plan.and_then(|plan| rebalancing::due(plan, &self.config.rebalance, now));
            self.work.rebalance_at(due);
            let came_up = pushed.ports_activated > 0;
            if (self.missing.has_news() || came_up)
                && self.election.role == Role::Master
                && !self.first_sweep.goes_on()
            {
                self.missing.keep(&self.fabric);
                self.remember();
            }
        }
        self.meter.note(self.inventory.take_searched());
        if let Some(convergence) = self.meter.finish(pushed, now, &self.client.stats()) {
            let convergence = Arc::new(convergence);
            // Multicast passes come by the thousand, one for each join, and would fill the history.
            if !is_multicast {
                self.meter.record(convergence.clone());
            }
            self.publish(now);
            self.outbox.push(Effect::Converged(convergence.clone()));
            self.keep_promises(&convergence);
        }
    }

    /// Completes the commands that wait, unless urgent work follows at once.
    pub(super) fn keep_promises(&mut self, convergence: &Arc<Convergence>) {
        if self.work.is_urgent() || self.first_sweep.goes_on() {
            return;
        }
        for ticket in self.work.take_tickets() {
            self.outbox.push(Effect::Done {
                ticket,
                convergence: convergence.clone(),
            });
        }
    }

    pub(super) fn schedule_repair(&mut self, failed: &[Guid], now: Time) {
        let faults = &self.inventory.faults;
        let unasked = faults.owed().filter_map(|query| match query {
            Query::Node(from) => from,
            _ => None,
        });
        let behind_ports = faults.to_ask_again().chain(unasked);
        let nodes = faults.owed().filter_map(Query::node);
        let nodes = nodes.chain(failed.iter().copied());
        let whole = nodes.map(|node| PortKey::new(node, PortNum::ZERO));
        let awaiting_answer: BTreeSet<PortKey> = behind_ports.chain(whole).collect();
        let has_failed_sets = self.reports.failed_sets().next().is_some();
        self.work
            .repair_pass(awaiting_answer, failed, has_failed_sets, now);
    }

    pub(super) fn schedule_light(&mut self, now: Time) {
        let pause = match self.election.role {
            Role::NotActive => Duration::ZERO,
            Role::Standby { .. } => self.config.standby_poll,
            Role::Discovering | Role::Master => self.config.light_sweep,
        };
        if !pause.is_zero() {
            self.work.sweep_lightly_at(now + pause);
        }
    }

    /// Announces to managers that share the store that hardware is being written, before the first
    /// Set.
    pub(super) fn tell_push(&mut self) {
        if self.config.shares_store && self.pass != Pass::Multicast && self.epoch.news.begin_push()
        {
            self.remember();
        }
    }

    /// Announces to managers that share the store that ports get other M_Keys soon. Increments the
    /// number of the plan, so that they read the store at once.
    pub(super) fn tell_rotation(&mut self) {
        // A job under way has a new number already, which its plan must have, too.
        if !matches!(self.stage, Stage::Planning { .. }) {
            self.plans.advance();
        }
        self.remember();
    }

    /// Announces to managers that share the store that the hardware holds the plan, and what has
    /// changed since the plan before. Increments the number of the plan at the end of a push, so
    /// that a reading made during the push does not count as one of its result.
    pub(super) fn tell_end_of_push(&mut self) {
        if !self.config.shares_store
            || self.writing.is_open()
            || self.epoch.news.rotation().is_some()
        {
            return;
        }
        match self.epoch.news.end_push(self.pass == Pass::Multicast) {
            PushEnd::NoNews => return,
            PushEnd::Pushed => {
                self.plans.advance();
            }
            PushEnd::Changed => {}
        }
        self.epoch
            .news
            .conclude(self.plans.generation(), &self.fabric);
        self.remember();
    }

    pub(super) fn remember(&mut self) {
        if !self.epoch.permits() {
            // Only the master stores the state.
            return;
        }
        self.links.note_stored();
        self.epoch.news.tell(self.plans.generation());
        self.outbox.push(Effect::Remember(Box::new(SavedCoreState {
            claims: self.plans.assigned.claims.clone(),
            positions: self.plans.assigned.positions.clone(),
            group_ids: self.plans.assigned.group_ids.clone(),
            generations: self.stored_generations(),
            local: self.inventory.local.or(self.inventory.local_before),
            gpus: Arc::default(),
            alias_guids: Arc::default(),
            cabling: self.missing.kept().clone(),
            avoid: self.trials.detours.in_force().clone(),
            health: Arc::new(self.links.saved_health(self.trials.detours.in_force())),
            overlay: self.trials.partitions.in_force().clone(),
            not_kept: self.writing.not_kept().clone(),
            habits: self.inventory.habits.clone(),
            capabilities: self.inventory.capabilities.clone(),
            generation: self.plans.generation(),
            footprints: self.epoch.news.footprints().clone(),
            is_pushing: self.epoch.news.is_pushing(),
            reregister: false,
        })));
    }
}
