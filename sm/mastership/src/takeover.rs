//! Takeovers: the standby polls the master, follows the master's changes, reads ahead while the
//! master is silent, and succeeds it.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_hardware::diff::{Changes, NotKept};
use rsm_hardware::sweep::inventory::Inventory;
use rsm_hardware::sweep::{Query, Sweep, SweepPolicy, SweepScope};
use rsm_ids::{Lid, PortKey};
use rsm_mad::Time;
use rsm_mad::client::{Priority, Request, RequestFailure, Response, Routes};
use rsm_mad::wire::attr::{Attribute, SmInfo, SmState};
use rsm_model::Parts;
use rsm_model::fabric::Fabric;
use rsm_model::lft_image::LFT_BLOCK;
use rsm_plan::{Outcome, Plan};
use rsm_state::Role;

use crate::Mastership;
use crate::action::{Action, MastershipRequest, PassRequest};
use crate::following::MASTER_CHANGED;
use crate::plan_ahead::Basis;
use crate::reading_ahead::ReadingAhead;
use crate::succession::{CAUSE, Succession, Verdict};
use crate::taken_over_tables;
use crate::view::{StageView, View};

/// Polls of the master.
impl Mastership {
    /// Begins to poll the master ten times per second if the master holds the epoch of the shared
    /// store; else ends these polls.
    pub(crate) fn begin_peer_polls(&mut self, now: Time) {
        let is_peer = match &self.election.role {
            Role::Standby { master } => {
                self.policy.shares_store && self.former_holder() == Some(master.guid)
            }
            _ => false,
        };
        self.polls.follow(is_peer, now);
    }

    /// Forgets the unanswered polls, because they prove nothing about the master.
    pub(crate) fn forget_silence(&mut self) {
        self.election.silent_polls = 0;
        self.polls.end_silence();
    }

    /// Polls the master if a poll is due. Claims the epoch if the master counts as gone.
    pub(crate) fn poll_peer(&mut self, view: &mut View<'_>, now: Time) {
        if !self.polls.is_due(now) {
            return;
        }
        self.begin_peer_polls(now);
        let Role::Standby { master } = &self.election.role else {
            return;
        };
        if !self.polls.is_on() {
            return;
        }
        let (port, lid) = (master.port, master.lid);
        if self.polls.begin(now) {
            self.queue_action(Action::Withdraw(|request| {
                request == MastershipRequest::PeerPoll
            }));
        }
        if self.polls.unanswered() > 0 {
            self.start_reading_ahead(view, now);
        }
        if self.polls.is_gone() && view.is_port_up && self.epoch.is_free() {
            let insists = self.polls.exceeds_patience(now);
            self.claim_over_master(insists, view, now);
        }
        let silent = self.polls.unanswered() as usize;
        let m_keys = view.inventory.m_keys_to_manager(port, silent);
        let Some((path, alternate)) = view.inventory.hardware.paths_to(port) else {
            return;
        };
        let routes = Routes::to_agent(self.polls.lid_for_poll(lid), path, alternate);
        self.queue_action(Action::Ask(Box::new(Request {
            m_keys,
            priority: Priority::Urgent,
            ..Request::get(
                port.node.0,
                routes,
                SmInfo::ID,
                0,
                MastershipRequest::PeerPoll,
            )
        })));
    }

    /// Handles the answer to a poll, or its time-out; `m_key` is the M_Key of the request.
    pub(crate) fn on_peer_poll(
        &mut self,
        outcome: &Result<Response, RequestFailure>,
        m_key: u64,
        view: &mut View<'_>,
    ) {
        let Ok(response) = outcome else {
            // The next poll counts this poll as unanswered.
            return;
        };
        let info = SmInfo::from_data(&response.data);
        // A master hides its SM_Key (0) from a request with an old key (IBA 14.2.4.2).
        let shows_other_key = ![0, self.policy.identity.sm_key].contains(&info.sm_key());
        if !response.status.is_ok() || shows_other_key {
            return;
        }
        if let Role::Standby { master } = &self.election.role {
            if info.guid() != master.guid {
                // The LID now belongs to another manager.
                return;
            }
            // The master may have rotated its keys: further polls try keys of the new generation.
            view.inventory.key_answered(master.port, m_key);
            self.queue_action(Action::FollowGenerations);
        }
        self.polls.end_silence();
        if info.sm_state() == SmState::Master {
            self.withdraw_claim();
        } else if self.is_standby() {
            // The polled manager is no longer master: the usual poll finds the present one.
            self.poll_master();
        }
    }
}

/// Following the master: reading its changes, and planning ahead of a takeover.
impl Mastership {
    /// Handles the number of the master's last plan in the store.
    pub fn on_planned_elsewhere(&mut self, plan: u64, now: Time) {
        if self.follower.record_plan(plan, now) {
            self.follow_master(now);
            if self.following().is_some() {
                self.publish();
            }
        }
    }

    /// Handles M_Keys that the holder of the epoch has stored. `is_pushing` says whether that
    /// manager is writing hardware, `are_news` whether ports that require keys for Gets receive new
    /// keys. During a push that changes keys, this manager does not know which ports have got their
    /// new key, and therefore reads nothing.
    pub fn on_stored_keys(
        &mut self,
        is_pushing: bool,
        are_news: bool,
        view: &mut View<'_>,
        now: Time,
    ) {
        let is_news = are_news && self.is_standby();
        self.follower.is_pushing = is_pushing;
        self.follower.keys_are_changing =
            is_pushing && (self.follower.keys_are_changing || is_news);
        if self.follower.keys_are_changing && self.follower.is_reading() {
            self.drop_stage(view);
        }
        self.follow_master(now);
    }

    /// Time at which a reading is due; `None` if there is none.
    pub(crate) fn following_due(&self) -> Option<Time> {
        self.follower.deadline().filter(|_| self.is_standby())
    }

    /// Queues the reading that is due: of the parts that the master has changed, or of the whole
    /// subnet if the parts are not known.
    pub(crate) fn follow_master(&mut self, now: Time) {
        if self.following_due().is_none_or(|due| due > now) {
            return;
        }
        if self.follower.queue() {
            self.queue_action(Action::Work(PassRequest::Following));
        } else {
            self.sweep_everything(true, MASTER_CHANGED);
        }
    }

    /// Records that a sweep of the whole subnet begins.
    pub fn begin_reading(&mut self, audit: bool) {
        let counts = audit && self.is_standby();
        self.follower.begin_whole(counts);
    }

    /// Begins the reading of the parts that the master has changed, and returns them; `None` if
    /// there is nothing to read.
    pub fn begin_following(&mut self, now: Time) -> Option<&Parts> {
        self.follower.unqueue();
        match self.is_standby() {
            true => self.follower.begin_parts(now),
            false => None,
        }
    }

    /// Ends the reading under way, because its sweep has ended or was dropped. Returns the number
    /// of the master's plan whose result was read; `None` if no reading was under way.
    pub fn take_reading(&mut self) -> Option<u64> {
        self.follower.end_reading()
    }

    /// Handles the end of a standby's sweep. `read` is the result of [`Mastership::take_reading`].
    /// `is_covered` says whether the last full sweep reached all known nodes.
    pub fn end_reading(
        &mut self,
        read: Option<u64>,
        sweep: &Sweep,
        is_covered: bool,
        inventory: &Inventory,
        now: Time,
    ) {
        let Some(read) = read else {
            return self.follower.schedule(now);
        };
        let is_complete = match sweep.scope() {
            SweepScope::Full { .. } => is_covered,
            _ => !sweep.owes_more(inventory),
        };
        if sweep.is_contradicted(inventory) {
            // The answers may come from other nodes. A full sweep is already queued.
            return self.follower.lose_reading(now);
        }
        self.follower.record_reading(read, is_complete, now);
        if is_complete {
            self.prepare();
            self.publish();
        }
    }

    /// Requests a plan ahead, if this standby has read the result of the master's last plan.
    fn prepare(&mut self) {
        if self.is_standby()
            && self.policy.shares_store
            && self.follower.has_caught_up()
            && self.preparation.may_begin()
        {
            self.queue_action(Action::PlanAhead);
        }
    }

    /// Begins a plan ahead with this basis. Returns the earlier plan ahead from which it starts;
    /// `None` without an earlier plan of the same basis.
    pub fn begin_plan_ahead(&mut self, basis: Basis) -> Option<Arc<Plan>> {
        self.preparation.begin(basis)
    }

    /// Handles the outcome of a plan ahead: keeps the plan, and its comparison with the hardware as
    /// last read.
    pub fn on_prepared(
        &mut self,
        outcome: Outcome,
        inventory: &Inventory,
        fabric: &Arc<Fabric>,
        not_kept: &NotKept,
    ) {
        let basis = self.preparation.end().filter(|_| self.is_standby());
        if let (Some(basis), Outcome::Plan(plan)) = (basis, outcome) {
            self.preparation
                .keep(basis, plan, inventory, fabric, not_kept);
        }
        if self.preparation.take_due() {
            self.prepare();
        }
    }
}

/// Reading ahead.
impl Mastership {
    /// Queues a reading ahead, because the master does not answer. Does nothing if a fresh reading
    /// ahead exists, or this standby has not read the result of the master's last plan.
    fn start_reading_ahead(&mut self, view: &mut View<'_>, now: Time) {
        let reading_ahead = self.follower.reading_ahead.as_ref();
        // A takeover marks ARInfo as unverified, and reads it again.
        let routes_adaptively =
            view.policy.adaptive.is_on() || view.inventory.hardware.adaptive().next().is_some();
        if reading_ahead.is_some_and(|reading_ahead| reading_ahead.is_fresh(now))
            || !self.follower.has_caught_up()
            || routes_adaptively
        {
            return;
        }
        match view.stage {
            StageView::Idle => {}
            // The usual poll would wait for the same silent manager for seconds.
            StageView::Sweeping {
                asks_managers_only: true,
            } => self.drop_stage(view),
            _ => return,
        }
        self.follower.reading_ahead = None;
        self.queue_action(Action::Work(PassRequest::ReadAhead));
    }

    /// Starts the sweep of the reading ahead; `None` if this manager is no longer a standby.
    pub fn begin_reading_ahead(
        &mut self,
        inventory: &mut Inventory,
        policy: SweepPolicy,
        now: Time,
    ) -> Option<Sweep> {
        let Role::Standby { master } = &self.election.role else {
            return None;
        };
        let blocks = managers_blocks(inventory, Some(master.port));
        let (sweep, blocks) = Sweep::start_ahead(inventory, policy, &blocks);
        self.follower.reading_ahead =
            Some(ReadingAhead::new(blocks, inventory.hardware.epoch, now));
        Some(sweep)
    }

    /// Handles the end of a sweep. If the sweep belongs to a reading ahead and this manager is
    /// still a standby, ends the pass and returns `true`.
    pub fn end_reading_ahead(
        &mut self,
        sweep: &mut Sweep,
        inventory: &Inventory,
        now: Time,
    ) -> bool {
        let is_standby = self.is_standby();
        let reading_ahead = self.follower.reading_ahead.as_mut();
        let Some(reading_ahead) = reading_ahead.filter(|one| one.is_of(inventory.hardware.epoch))
        else {
            return false;
        };
        if !is_standby {
            self.follower.reading_ahead = None;
            return false;
        }
        reading_ahead.end(sweep.take_reported());
        self.discard_pass();
        if sweep.found_stale() || sweep.owes_more(inventory) {
            self.follower.reading_ahead = None;
            // The subnet differs from the last reading: read it again, as standby or as master.
            self.follower.lose_reading(now);
        }
        true
    }

    /// Takes the reading ahead if its sweep has ended and it is still fresh.
    fn take_reading_ahead(&mut self, now: Time) -> Option<ReadingAhead> {
        let reading_ahead = self.follower.reading_ahead.take()?;
        (reading_ahead.is_complete() && reading_ahead.is_fresh(now)).then_some(reading_ahead)
    }

    /// Whether a reading ahead is under way that can continue as the first reading of a takeover.
    fn can_continue_reading_ahead(&self, view: &View<'_>, now: Time) -> bool {
        let reading_ahead = self.follower.reading_ahead.as_ref();
        let is_open = reading_ahead.is_some_and(|one| {
            !one.is_complete() && one.is_of(view.inventory.hardware.epoch) && one.is_fresh(now)
        });
        self.follower.is_current && is_open && matches!(view.stage, StageView::Sweeping { .. })
    }
}

/// The takeover itself.
impl Mastership {
    /// Takes over from the silent master, if this manager is its standby.
    pub(crate) fn take_over_if_standby(&mut self, view: &mut View<'_>, now: Time) {
        if self.is_standby() {
            if !self.can_continue_reading_ahead(view, now) {
                self.drop_stage(view);
            }
            self.begin_as_successor(view, now);
        }
    }

    /// Becomes master in place of a silent master.
    pub(crate) fn begin_as_successor(&mut self, view: &mut View<'_>, now: Time) {
        let before = std::mem::replace(&mut self.election.role, Role::Master);
        self.follower.keys_are_changing = false;
        self.news.begin();
        // Further attempts of open requests would try other M_Keys at the former master's port, and
        // a wrong key would start the lease of the port's key.
        self.queue_action(Action::Withdraw(|request| {
            matches!(
                request,
                MastershipRequest::PeerPoll | MastershipRequest::Manager(_)
            )
        }));
        self.queue_action(Action::InheritMembers);
        taken_over_tables::begin(view.inventory, view.policy.adaptive.is_on());
        self.begin_to_manage(&before, view, now);
        self.publish();
    }

    /// Begins to manage the subnet; `before` is the former role. A standby with a current reading
    /// of the subnet reads only the parts that the first push needs. Otherwise, a full sweep
    /// follows.
    fn begin_to_manage(&mut self, before: &Role, view: &mut View<'_>, now: Time) {
        let continues_reading = self.can_continue_reading_ahead(view, now);
        let is_current = std::mem::take(&mut self.follower.is_current);
        match before {
            Role::Standby { master } if is_current && view.inventory.hardware.local.is_some() => {
                let prepared = self.preparation.take(view.claims, view.positions);
                let (prepared, comparison) = prepared.unzip();
                if let Some(comparison) = comparison {
                    self.queue_action(Action::FollowComparison(Box::new(comparison)));
                }
                self.succession = Succession::after(master.port, prepared);
                // The former master's SMInfo is from the time when it answered.
                view.inventory.hardware.put_manager(master.port, None);
                let reading_ahead = match continues_reading {
                    true => self.follower.reading_ahead.take(),
                    false => None,
                };
                match reading_ahead {
                    Some(reading_ahead) => {
                        let local = view.inventory.hardware.local;
                        self.succession.begin(reading_ahead.blocks, local);
                        self.queue_action(Action::ContinueAsSuccession(CAUSE));
                    }
                    None => self.queue_action(Action::Work(PassRequest::Succession(CAUSE))),
                }
            }
            _ => {
                if continues_reading {
                    self.drop_stage(view);
                }
                self.follower.reading_ahead = None;
                self.preparation.forget();
                self.sweep_everything(true, "the master is gone");
                self.queue_action(Action::FenceSwitches);
                self.request_reregistration();
            }
        }
    }

    /// Starts the sweep of a succession. It reads SwitchInfo, which shows changes, and the blocks
    /// with the managers' LIDs, unless a reading ahead has just read both.
    pub fn begin_succession(
        &mut self,
        inventory: &mut Inventory,
        policy: SweepPolicy,
        now: Time,
    ) -> Sweep {
        let before = self.succession.before;
        let (sweep, blocks) = match (self.take_reading_ahead(now), inventory.hardware.local) {
            (Some(reading_ahead), Some(local)) => {
                let own = vec![Query::Port(local)];
                let mut sweep = Sweep::start_reading(inventory, policy, own);
                for switch in reading_ahead.reported {
                    sweep.add_target(inventory, switch);
                }
                (sweep, reading_ahead.blocks)
            }
            _ => {
                let blocks = managers_blocks(inventory, before);
                Sweep::start_succession(inventory, policy, &blocks)
            }
        };
        self.succession.begin(blocks, inventory.hardware.local);
        sweep
    }

    /// The plan made ahead, which the first plan of a succession follows; `None` if there is none.
    pub fn prepared_plan(&self) -> Option<&Arc<Plan>> {
        self.succession.prepared.as_ref()
    }

    /// Records that the plan of a succession is made. Returns `true` if that was already recorded,
    /// so that the pass has only read further parts since.
    pub fn record_succession_planned(&mut self) -> bool {
        self.succession.record_planned()
    }

    /// Decides whether a succession may write these changes now, must read parts first, or ends.
    pub fn decide_succession(&mut self, changes: &Changes) -> Verdict {
        self.succession.decide(changes)
    }

    /// Ends a succession, after its push or because the subnet differs from the last reading
    /// (`is_outdated`). Queues a full sweep, to find changes of the former master that the store
    /// did not show.
    pub fn end_succession(&mut self, is_outdated: bool) {
        self.succession = Succession::default();
        let cause = match is_outdated {
            true => "the subnet is not as this manager had read it before the master was gone",
            false => "the whole subnet is read after the takeover",
        };
        self.sweep_everything(true, cause);
        // Only now, because hosts must get answers first.
        self.queue_action(Action::FenceSwitches);
        self.request_reregistration();
    }
}

/// The blocks of forwarding tables with the LIDs of this manager's port and of `before`, the former
/// manager's port.
fn managers_blocks(inventory: &Inventory, before: Option<PortKey>) -> BTreeSet<u16> {
    let lid = |key: PortKey| Some(inventory.hardware.port(key)?.info.as_ref()?.lid());
    let lids = [inventory.hardware.local, before].into_iter().flatten();
    let lids = lids.filter_map(lid).filter(|&lid| lid != Lid::NONE);
    lids.map(|lid| (lid.index() / LFT_BLOCK) as u16).collect()
}
