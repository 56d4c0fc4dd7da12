//! Mastership in the core: carries out the actions that mastership decides, passes events of the
//! shared store to it, and follows the M_Keys that managers share.

use std::sync::Arc;

use rsm_config::m_keys::Generations;
use rsm_config::overlay::Overlay;
use rsm_hardware::diff::Changes;
use rsm_hardware::sweep::Sweep;
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::Time;
use rsm_mad::client::Request;
use rsm_mastership::{
    Action, Basis, HandingOver, Mastership, MastershipRequest, PassRequest, Verdict, View,
    exchange_lids,
};
use rsm_model::alias_guids::AliasGuids;
use rsm_plan::{Outcome, PlanJob};
use rsm_state::{Role, Ticket};

use super::event::{Effect, EpochEvent};
use super::m_keys::{Rotation, RotationRequest, RotationStep, set_key_generations};
use super::plans::assigned::Assigned;
use super::requests::Context;
use super::saved_state::SavedCoreState;
use super::stage::Stage;
use super::trials::Answers;
use super::work::FullSweep;
use super::{Core, Pass};

impl Core {
    /// Calls mastership with a view of the core, and carries out the actions that it decides.
    /// Returns the result of `call`.
    pub(super) fn on_mastership<T>(
        &mut self,
        now: Time,
        call: impl FnOnce(&mut Mastership, &mut View<'_>) -> T,
    ) -> T {
        let mut view = View {
            inventory: &mut self.inventory,
            policy: &self.config.policy,
            plan: self.plans.in_force().map(Arc::as_ref),
            claims: &self.plans.assigned.claims,
            positions: &self.plans.assigned.positions,
            stage: self.stage.view(),
            act_count: self.client.stats().answered as u32,
            is_push_open: self.writing.is_open(),
            is_port_up: self.local_port.is_up(),
        };
        let result = call(&mut self.mastership, &mut view);
        self.carry_out_actions(now);
        result
    }

    /// Carries out the actions that mastership has decided.
    pub(super) fn carry_out_actions(&mut self, now: Time) {
        while let Some(action) = self.mastership.poll() {
            self.carry_out(action, now);
        }
    }

    /// Carries out one action.
    fn carry_out(&mut self, action: Action, now: Time) {
        match action {
            Action::Ask(request) => {
                let context = Context::Mastership(request.context);
                self.submit(Request::with_context(*request, context), now);
            }
            Action::Reply(datagram) => self.outbox.reply(*datagram),
            Action::Withdraw(covers) => {
                self.client.withdraw(
                    |context| matches!(context, Context::Mastership(asked) if covers(*asked)),
                );
            }
            Action::Store(request) => self.outbox.push(Effect::Epoch(request)),
            Action::HaltPush => self.halt_push(),
            Action::RepeatGets => self.repeat_gets(now),
            Action::DropStage => self.drop_stage(),
            Action::DiscardPass => self.recorder.discard(),
            Action::HandOver(handing_over) => self.begin_hand_over(handing_over),
            Action::ContinueAsSuccession(cause) => self.turn_into_succession(cause),
            Action::Work(request) => self.queue(request, now),
            Action::KeepLids => self.plans.keep_lids(),
            Action::ForgetForeignWrites => self.foreign_writes.forget_all(),
            Action::AbandonCommands(reason) => self.abandon_commands(reason),
            Action::InheritMembers => self.members.inherit_again(),
            Action::ReregisterHosts => self.writing.reregister_everybody(),
            Action::FenceSwitches => self.fence_switches(),
            Action::FollowGenerations => self.follow_generations(),
            Action::FollowComparison(comparison) => self.writing.start_comparison_from(*comparison),
            Action::PlanAhead => self.plan_ahead(),
            Action::Publish => self.publish(now),
        }
    }

    /// Queues the work that mastership requests.
    fn queue(&mut self, request: PassRequest, now: Time) {
        match request {
            PassRequest::Everything { audit, cause } => {
                self.work
                    .sweep_everything(FullSweep::before_writing(audit), cause);
            }
            PassRequest::Plan(cause) => self.work.plan_again(cause),
            PassRequest::Switch(switch, cause) => self.work.sweep_switch(switch, cause),
            PassRequest::Master => self.work.poll_master(),
            PassRequest::MasterAt(when) => self.work.poll_master_at(when),
            PassRequest::Succession(cause) => self.work.queue_succession(cause),
            PassRequest::ReadAhead => self.work.read_ahead(),
            PassRequest::Following => self.work.follow(),
            PassRequest::Postpone => self.work.postpone(now),
        }
    }

    fn begin_hand_over(&mut self, handing_over: Box<HandingOver>) {
        self.stage = Stage::HandingOver(handing_over);
    }

    /// Ends a push under way at once: withdraws all its Sets, including Sets that were sent and not
    /// answered. Mastership records the nodes that may have executed an unanswered Set.
    fn halt_push(&mut self) {
        let Stage::Pushing(push) = &mut self.stage else {
            return;
        };
        push.stop();
        let sets = self
            .client
            .withdraw(|context| matches!(context, Context::Push(_)));
        for set in sets {
            let Context::Push(task) = set.request.context else {
                continue;
            };
            if set.attempts == 0 {
                push.taken_back(1);
            } else {
                push.abandon(&mut self.inventory, task);
                self.mastership
                    .record_unsure_device(Guid(set.request.target));
            }
        }
    }

    /// Repeats the open Gets of sweeps: silence during a pause of this process proves nothing.
    fn repeat_gets(&mut self, now: Time) {
        let questions = self
            .client
            .withdraw(|context| matches!(context, Context::Sweep(_)));
        for question in questions {
            self.submit(question.request, now);
        }
    }

    /// Drops the stage under way, and its requests. A first sweep in the background loses its Gets
    /// as well: a new full sweep follows.
    pub(super) fn drop_stage(&mut self) {
        self.halt_push();
        if matches!(self.stage, Stage::Pushing(_)) {
            self.writing.leave_open();
        }
        self.client.withdraw(|context| {
            matches!(
                context,
                Context::Sweep(_) | Context::Mastership(MastershipRequest::HandOver)
            )
        });
        self.stage = Stage::Idle;
        self.mastership.take_reading();
        self.recorder.discard();
        if self.first_sweep.give_up() {
            let cause = "the first sweep was given up";
            self.work
                .sweep_everything(FullSweep::before_writing(true), cause);
        }
    }

    /// Declines all waiting commands for `reason`, so that a later takeover carries out none.
    fn abandon_commands(&mut self, reason: &str) {
        let policy = &mut self.config.policy;
        let trials = &mut self.trials;
        trials.abandon(
            reason,
            policy,
            &self.fabric,
            &mut Answers::to(&mut self.work, &mut self.outbox),
        );
        self.inventory.link_orders.clear();
        for ticket in self.work.take_tickets() {
            self.outbox.decline(ticket, reason.to_owned());
        }
    }

    /// Turns the reading ahead of a takeover that is under way into the sweep of the succession.
    fn turn_into_succession(&mut self, cause: &str) {
        if let Stage::Sweeping(sweep) = &mut self.stage {
            for switch in sweep.take_reported() {
                sweep.add_target(&self.inventory, switch);
            }
            self.recorder.join(cause);
            self.pass = Pass::Succession;
        }
    }

    /// Continues after the sweep of a succession; `rewires` says whether the model has changed.
    pub(super) fn end_succession_sweep(&mut self, sweep: &Sweep, rewires: bool, now: Time) {
        if sweep.found_stale() || sweep.owes_more(&self.inventory) {
            return self.give_up_succession(now);
        }
        let was_planned = self.mastership.record_succession_planned();
        match self.plans.in_force().cloned() {
            Some(plan) if was_planned && !rewires && !self.work.wants_plan() => {
                self.start_push(plan, now);
            }
            _ => self.start_plan(now),
        }
    }

    /// Whether the pass may write `changes` now. If a succession may not, it first reads missing
    /// parts, or ends in favor of a full sweep.
    pub(super) fn succession_may_write(&mut self, changes: &Changes, now: Time) -> bool {
        if self.pass != Pass::Succession {
            return true;
        }
        match self.mastership.decide_succession(changes) {
            Verdict::Push => return true,
            Verdict::Read(queries) => {
                let sweep =
                    Sweep::start_reading(&mut self.inventory, self.config.sweep_policy(), queries);
                self.stage = Stage::Sweeping(Box::new(sweep));
            }
            Verdict::Outdated => self.give_up_succession(now),
        }
        false
    }

    /// Ends the succession without a push: mastership then reads the whole subnet before the first
    /// Set.
    fn give_up_succession(&mut self, now: Time) {
        self.pass = Pass::Full;
        self.stage = Stage::Idle;
        // The plan may assume tables that switches do not hold.
        self.plans.drop_in_force();
        self.writing.forget_comparison();
        self.recorder.discard();
        self.mastership.end_succession(true);
        self.carry_out_actions(now);
    }

    /// Ends a succession, if the pass is one.
    pub(super) fn end_succession(&mut self, now: Time) {
        if self.pass == Pass::Succession {
            self.pass = Pass::Full;
            self.mastership.end_succession(false);
            self.carry_out_actions(now);
        }
    }

    /// Begins a plan ahead of a takeover, with the LIDs that this manager would assign after the
    /// takeover.
    fn plan_ahead(&mut self) {
        let Role::Standby { master } = self.mastership.role() else {
            return;
        };
        let mut claims = self.plans.assigned.claims.clone();
        exchange_lids(
            &self.inventory,
            &self.config.policy,
            master.guid,
            &mut claims,
        );
        let positions = self.plans.assigned.positions.clone();
        let previous = self.mastership.begin_plan_ahead(Basis {
            claims: claims.clone(),
            positions: positions.clone(),
        });
        let job = PlanJob {
            claims,
            positions,
            gpus: self.plans.gpus().clone(),
            damped: Arc::new(self.links.bad_for_routes(&self.inventory, &self.fabric)),
            avoid: self.trials.detours.planned().clone(),
            previous,
            hardware: self.plans.held_tables(&self.inventory),
            ..PlanJob::first(self.fabric.clone(), self.config.policy.clone())
        };
        self.outbox.push(Effect::Prepare(Box::new(job)));
    }

    /// Handles the outcome of the plan ahead.
    pub(super) fn on_prepared(&mut self, outcome: Outcome, now: Time) {
        let (inventory, not_kept) = (&self.inventory, self.writing.not_kept());
        self.mastership
            .on_prepared(outcome, inventory, &self.fabric, not_kept);
        self.carry_out_actions(now);
    }
}

/// Events of the shared store.
impl Core {
    /// Handles an event of the shared store.
    pub(super) fn on_epoch(&mut self, event: EpochEvent, now: Time) {
        let is_master = self.mastership.is_master();
        match event {
            EpochEvent::Granted {
                epoch,
                state,
                unseen,
            } => {
                let read = state.as_ref();
                let read = read.map(|state| (state.generation, state.is_pushing));
                let is_taken = self.mastership.on_granted(epoch, read, unseen, now);
                self.carry_out_actions(now);
                if is_taken {
                    self.begin_granted(state, now);
                }
            }
            EpochEvent::Unreachable(state) => {
                if self.mastership.on_unreachable() {
                    if let Some(state) = state.filter(|_| !is_master) {
                        self.adopt(*state);
                    }
                    self.on_mastership(now, |mastership, view| {
                        mastership.begin_without_epoch(view, now)
                    });
                }
            }
            EpochEvent::Refused(by) => self.on_mastership(now, |mastership, view| {
                mastership.on_refused(by, view, now);
            }),
            EpochEvent::Deposed { ended, by } => self.on_mastership(now, |mastership, view| {
                mastership.on_deposed(ended, by, view, now);
            }),
            EpochEvent::Held => self.mastership.end_epoch_check(),
            EpochEvent::Seen(epoch) => self.mastership.on_epoch_seen(epoch, now),
            EpochEvent::Planned(plan) => self.mastership.on_planned_elsewhere(plan, now),
            EpochEvent::Footprints(footprints) => self.mastership.set_footprints(footprints),
            EpochEvent::Silent(is_silent) => self.mastership.set_store_silent(is_silent),
            EpochEvent::Configurations(configurations) => {
                self.mastership.set_configurations(configurations);
            }
            // Ignore the remaining events: this manager's own state is newer.
            _ if self.mastership.has_own_state() => {}
            EpochEvent::Claims(claims) => self.plans.assigned.adopt_stored(claims, is_master),
            EpochEvent::Positions(positions) => {
                if !is_master {
                    self.plans.assigned.positions = positions;
                }
            }
            EpochEvent::Cabling(cabling) => {
                self.inventory.stored_cabling = cabling;
                self.sweep_behind_guarded_ports();
            }
            EpochEvent::MKeys {
                generations,
                is_pushing,
            } => self.on_stored_keys(generations, is_pushing, now),
        }
        self.carry_out_actions(now);
    }

    /// Continues as the holder of the epoch, with the state of the store.
    fn begin_granted(&mut self, state: Option<Box<SavedCoreState>>, now: Time) {
        match (state, self.mastership.role()) {
            (Some(state), Role::Master) => {
                self.plans.assigned.add_claims(&state.claims);
                if self.trials.detours.add_stored(&state.avoid) {
                    self.work.plan_again("the shared store has drained parts");
                }
                self.remember();
                self.adopt_generations(state.generations);
                if self.trials.partitions.in_force().is_empty() && !state.overlay.is_empty() {
                    // This manager started while the store did not answer.
                    self.adopt_partitions(state.overlay);
                    self.work
                        .plan_again("the shared store has partitions of the API");
                    self.publish(now);
                }
            }
            (Some(state), role) => {
                let is_discovering = *role == Role::Discovering;
                self.adopt(*state);
                if is_discovering && self.sweep_behind_guarded_ports() {
                    self.drop_stage();
                }
            }
            (None, _) => {}
        }
        self.inventory.stored_cabling = Arc::default();
        self.float_lid();
        self.on_mastership(now, |mastership, view| mastership.begin_granted(view, now));
    }

    /// If the manager's LID floats, exchanges the LIDs of this manager's port and the former
    /// manager's port.
    fn float_lid(&mut self) {
        if let Some(before) = self.mastership.former_holder() {
            let (policy, claims) = (&self.config.policy, &mut self.plans.assigned.claims);
            if exchange_lids(&self.inventory, policy, before, claims) {
                self.remember();
            }
        }
    }

    /// Continues with the former master's state, in place of this machine's.
    fn adopt(&mut self, state: SavedCoreState) {
        self.plans.assigned = Assigned {
            claims: state.claims,
            positions: state.positions,
            group_ids: state.group_ids,
        };
        self.plans.set_gpus(state.gpus);
        self.adopt_generations(state.generations);
        self.writing.adopt(state.not_kept, state.reregister);
        self.inventory.hardware.habits = state.habits;
        self.inventory.hardware.capabilities = state.capabilities;
        let mut avoid = state.avoid;
        self.links.restore_health(&self.config, &state.health);
        self.links.isolate_again(&state.health, &mut avoid);
        let mut answers = Answers::to(&mut self.work, &mut self.outbox);
        self.trials.detours.adopt(avoid, &mut answers);
        self.adopt_partitions(state.overlay);
        self.plans.advance_to(state.generation);
        let shares_store = self.mastership.policy().shares_store;
        let news = self.mastership.news_mut();
        news.begin();
        // Until the end of a pass, the hardware may differ from every plan.
        if shares_store {
            news.mark_uncertain();
        }
        // The SA will report the registered members again.
        self.members.forget_registered();
        self.adopt_alias_guids(state.alias_guids);
        // A plan from an earlier time as master may have other LIDs.
        self.plans.clear();
        self.missing.adopt(state.cabling, &self.fabric);
    }

    /// Continues with the partitions that another manager has stored.
    fn adopt_partitions(&mut self, overlay: Arc<Overlay>) {
        let mut answers = Answers::to(&mut self.work, &mut self.outbox);
        let policy = &mut self.config.policy;
        let partitions = &mut self.trials.partitions;
        partitions.adopt(overlay, policy, &self.fabric, &mut answers);
    }

    /// Uses stored alias GUIDs before the SA reports them. Queues a reading of the ports with alias
    /// GUIDs, because the sweep that waited for the grant did not read their GUIDInfo.
    fn adopt_alias_guids(&mut self, aliases: Arc<AliasGuids>) {
        let mut ports = Vec::new();
        for (guid, node) in self.inventory.hardware.nodes() {
            let named = (0_u8..).zip(&node.ports);
            let named = named.filter(|(_, port)| aliases.by_port.contains_key(&port.guid));
            ports.extend(named.map(|(number, _)| PortKey::new(guid, PortNum(number))));
        }
        self.inventory.named |= !ports.is_empty();
        self.inventory.alias_guids = aliases;
        for port in ports {
            self.work.read_port(port);
        }
    }
}

/// M_Keys that managers share.
impl Core {
    /// Rotates the keys of all ports, at an operator's request.
    pub(super) fn rotate_m_keys(&mut self, forced: bool, ticket: Ticket, now: Time) {
        let request = RotationRequest {
            policy: &self.config.policy.ports,
            behind: self.inventory.ports_behind().len(),
            forced,
            may_be_followed: self.mastership.may_be_followed(),
            ticket,
        };
        match self.rotation.request(&request, now) {
            RotationStep::Joined => {}
            RotationStep::Declined(reason) => self.outbox.decline(ticket, reason),
            RotationStep::Announce => self.announce_rotation(),
            RotationStep::Begin(rotation) => self.begin_rotation(rotation),
        }
    }

    /// Announces an imminent rotation to the managers that share the store: a higher plan number
    /// makes them read the store at once.
    fn announce_rotation(&mut self) {
        self.mastership.news_mut().mark_uncertain();
        // A job under way already has a new number, which must stay the number of its plan.
        if !matches!(self.stage, Stage::Planning { .. }) {
            self.plans.advance();
        }
        self.remember();
    }

    /// Begins the announced rotation if it is due at `now`; declines it if another manager is
    /// master.
    pub(super) fn begin_due_rotation(&mut self, now: Time) {
        let Some(rotation) = self.rotation.take_due(now) else {
            return;
        };
        if self.mastership.is_master() {
            return self.begin_rotation(rotation);
        }
        let reason = "another subnet manager is master now";
        for ticket in rotation.tickets {
            self.outbox.decline(ticket, reason.to_owned());
        }
    }

    /// Changes the key generations, and queues the plan whose push writes the new keys.
    fn begin_rotation(&mut self, rotation: Rotation) {
        let later = self.generations().later(rotation.generations);
        self.set_generations(later);
        self.work.plan_again("the M_Keys of all ports are rotated");
        for ticket in rotation.tickets {
            self.work.add_ticket(ticket);
        }
    }

    /// The generations in use.
    fn generations(&self) -> Generations {
        self.config.policy.ports.m_keys.generations
    }

    /// Changes the key generations, and stores them if they are new.
    fn set_generations(&mut self, generations: Generations) {
        if set_key_generations(&mut self.config.policy, generations) {
            self.remember();
        }
    }

    /// Gives switches M_Keys that the former master does not know: if that master runs again, its
    /// Sets cannot change forwarding tables.
    fn fence_switches(&mut self) {
        if self.config.policy.ports.m_keys.secret().is_some() {
            self.set_generations(self.generations().fenced());
            self.work
                .plan_again("switches get M_Keys that the manager before does not know");
        }
    }

    /// Continues with the later of this manager's generations and `others`.
    fn adopt_generations(&mut self, others: Generations) {
        let later = self.generations().later(others);
        if later != self.generations() {
            self.set_generations(later);
            self.inventory.distrust_m_keys();
            if self.mastership.is_master() {
                self.work
                    .plan_again("another manager had rotated the M_Keys of ports");
            }
        }
    }

    /// Continues with the key generations that ports show, if they are later: another manager has
    /// rotated keys, and this manager's store does not show it.
    pub(super) fn follow_generations(&mut self) {
        if let Some(ahead) = self.inventory.generations_ahead() {
            self.adopt_generations(ahead);
        }
    }

    /// Handles the key generations that the holder of the epoch has stored; `is_pushing` says
    /// whether the holder is writing hardware.
    fn on_stored_keys(&mut self, stored: Generations, is_pushing: bool, now: Time) {
        let before = self.generations();
        self.adopt_generations(stored);
        let are_news = self.generations() != before && self.config.policy.ports.guards_gets();
        self.on_mastership(now, |mastership, view| {
            mastership.on_stored_keys(is_pushing, are_news, view, now);
        });
    }

    /// Queues a full sweep if the stored or expected cabling shows which node is behind a silent
    /// port, so that the M_Key of that node can be derived. Returns whether a sweep is queued.
    fn sweep_behind_guarded_ports(&mut self) -> bool {
        let mut silent = self.inventory.faults.to_ask_again();
        let (stored, expected) = (&self.inventory.stored_cabling, self.missing.expected());
        let is_known = |port: PortKey| stored.port(port).or(expected.port(port)).is_some();
        let finds_more = self.config.policy.ports.guards_gets() && silent.any(is_known);
        if finds_more {
            let cause = "the shared store shows which ports are behind cables";
            self.work
                .sweep_everything(FullSweep::before_writing(true), cause);
            self.work.end_postponement();
        }
        finds_more
    }
}
