//! Claims of the epoch of a shared store, and the store's answers.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_hardware::sweep::SweepScope;
use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_model::fabric::Fabric;
use rsm_model::footprint::Footprints;
use rsm_plan::lids::{Claims, LidRights};
use rsm_state::Role;
use rsm_store::Epoch;

use crate::Mastership;
use crate::action::{Action, EpochRequest};
use crate::epoch::{AGAIN, CLAIM_LIMIT, Holding, REFUSED_FOR};
use crate::inquiry::MastershipDoubt;
use crate::role::ElectionOutcome;
use crate::view::{StageView, View};

impl Mastership {
    /// Whether the end of the sweep under way, after which this manager would be master, must wait
    /// for an inquiry or for the epoch; claims that if necessary.
    pub fn holds_sweep_open(&mut self, scope: SweepScope, view: &View<'_>, now: Time) -> bool {
        // The inquiry first decides whether this manager is still the master.
        if self.is_inquiring() {
            return true;
        }
        match self.epoch.holding {
            Holding::Claimed(_) => true,
            Holding::Free
                if self.election.role == Role::Discovering
                    && matches!(scope, SweepScope::Full { .. })
                    && !self.election.starts_inactive
                    && view.inventory.local.is_some() =>
            {
                if view.is_shut_out() {
                    return false;
                }
                let predecessor = self.election.predecessor;
                let outcome = self.elect(view.inventory, predecessor);
                if outcome != ElectionOutcome::Be(Role::Master) {
                    return false;
                }
                self.claim_epoch(predecessor, view, now);
                true
            }
            _ => false,
        }
    }

    /// Whether the core may bring up what a first sweep has found so far, as far as the epoch is
    /// concerned, now or after a claim.
    pub fn may_claim_early(&self) -> bool {
        self.epoch.permits() || self.epoch.is_free()
    }

    /// Whether another manager holds the epoch, so that nothing is claimed until its time.
    pub fn is_refused(&self) -> bool {
        matches!(self.epoch.holding, Holding::Refused(_))
    }

    /// Claims the epoch before the end of the first sweep, unless a claim is open.
    pub fn claim_early(&mut self, view: &View<'_>, now: Time) {
        if self.epoch.is_free() {
            self.claim_epoch(None, view, now);
        }
    }

    /// Claims the epoch; `over` is the silent or former master, if there is one.
    pub(crate) fn claim_epoch(&mut self, over: Option<Guid>, view: &View<'_>, now: Time) {
        self.claim_with(over, true, view, now);
    }

    fn claim_with(&mut self, over: Option<Guid>, insists: bool, view: &View<'_>, now: Time) {
        if !matches!(self.epoch.holding, Holding::Without(_)) {
            self.epoch.holding = Holding::Claimed(now + CLAIM_LIMIT);
        }
        let is_master = self.is_master();
        self.act(Action::Store(EpochRequest::Claim {
            own: view.inventory.own_guid(),
            over,
            insists,
            is_master,
        }));
    }

    /// Claims the epoch over the master that this standby finds silent; a grant makes this manager
    /// master. Unless it `insists`, a master that shows signs of life in the store keeps the epoch.
    pub(crate) fn claim_over_master(&mut self, insists: bool, view: &View<'_>, now: Time) {
        if let (Role::Standby { master }, Holding::Free) = (&self.election.role, self.epoch.holding)
        {
            let silent = master.guid;
            self.claim_with(Some(silent), insists, view, now);
        }
    }

    /// Withdraws an open claim over the master, because it answers after all.
    pub(crate) fn withdraw_claim(&mut self) {
        if self.is_standby() && matches!(self.epoch.holding, Holding::Claimed(_)) {
            self.epoch.holding = Holding::Free;
            self.act(Action::Store(EpochRequest::Release));
        }
    }

    /// Checks whether this manager still holds the epoch. Returns whether there is an answer to
    /// wait for.
    pub(crate) fn check_epoch(&mut self) -> bool {
        let is_held = self.epoch.is_held();
        if is_held {
            self.act(Action::Store(EpochRequest::Check));
        }
        is_held
    }

    /// Gives the epoch up, because another manager is master.
    pub(crate) fn release_epoch(&mut self) {
        self.epoch.refused = None;
        if !matches!(self.epoch.holding, Holding::Unshared | Holding::Free) {
            self.epoch.holding = Holding::Free;
            self.act(Action::Store(EpochRequest::Release));
        }
    }

    /// Does what is due: claims again, or continues without an answer.
    pub(crate) fn mind_epoch(&mut self, view: &mut View<'_>, now: Time) {
        if self.epoch.deadline().is_none_or(|due| due > now) {
            return;
        }
        match self.epoch.holding {
            Holding::Claimed(_) => {
                self.go_on_without(None, view, now);
                // The new claim supersedes the open one, whose answer would come too late.
                self.claim_epoch(None, view, now);
            }
            Holding::Refused(_) => {
                self.epoch.holding = Holding::Free;
                self.sweep_everything(false, "the epoch of the shared store is claimed once more");
            }
            Holding::Without(_) => {
                self.epoch.holding = Holding::Without(None);
                self.claim_epoch(None, view, now);
            }
            Holding::Unshared | Holding::Free | Holding::Held(_) => {}
        }
    }

    /// Handles the grant of the epoch, with the state in the store that the core will continue
    /// with: the number of its last plan and whether hardware was being written; `None` if there is
    /// no other manager's. `unseen` is the time since the former manager's last sign of life in the
    /// store. Returns whether this manager takes the grant; [`Mastership::begin_granted`] follows
    /// once the core has adopted the state.
    pub fn on_granted(
        &mut self,
        epoch: Epoch,
        state: Option<(u64, bool)>,
        unseen: Duration,
        now: Time,
    ) -> bool {
        // Without its answers in the fabric, nothing is known of its last moments.
        let silent = self.polls.silent_for(now);
        if let Some(silent) = silent.filter(|_| self.is_standby() && state.is_some()) {
            self.epoch.lost.note_life_without_store(silent, unseen, now);
        }
        if epoch.number <= self.epoch.deposed_by {
            // The event that the epoch has ended came first.
            return false;
        }
        if self.epoch.is_free() {
            // Another manager became master meanwhile.
            self.act(Action::Store(EpochRequest::Release));
            return false;
        }
        self.epoch.holding = Holding::Held(epoch);
        self.epoch.refused = None;
        self.check_granted(now);
        self.follower.is_current = state.is_some_and(|(plan, is_pushing)| {
            !is_pushing && self.follower.state.read == Some(plan)
        });
        true
    }

    /// Continues after a grant: a standby takes over.
    pub fn begin_granted(&mut self, view: &mut View<'_>, now: Time) {
        self.follower.keys_change = false;
        self.take_over_if_standby(view, now);
        if self.is_master() {
            self.publish();
        }
    }

    /// The holder of the last epoch in the store that was another manager's.
    pub fn former_holder(&self) -> Option<Guid> {
        self.epoch.seen.map(|epoch| epoch.holder)
    }

    /// Handles a refused claim: another manager holds the epoch and is alive, though no other
    /// master was found.
    pub fn on_refused(&mut self, by: Epoch, view: &mut View<'_>, now: Time) {
        let since = self.epoch.refused.map_or(now, |(_, since)| since);
        if let (Role::Standby { master }, Holding::Claimed(_)) =
            (&self.election.role, self.epoch.holding)
            && master.guid == by.holder
        {
            // The master is busy, and alive: it continues to be polled.
            self.epoch.holding = Holding::Free;
            return;
        }
        match self.epoch.holding {
            Holding::Without(_) => self.epoch.holding = Holding::Without(Some(now + AGAIN)),
            Holding::Claimed(_) if now.since(since) >= REFUSED_FOR => {
                self.go_on_without(Some(now + AGAIN), view, now);
            }
            Holding::Claimed(_) => {
                self.epoch.holding = Holding::Refused(now + AGAIN);
                self.drop_stage(view);
                if self.election.role != Role::NotActive {
                    self.election.role = Role::Discovering;
                }
            }
            Holding::Unshared | Holding::Free | Holding::Refused(_) | Holding::Held(_) => return,
        }
        self.epoch.refused = Some((by, since));
        self.epoch.seen = Some(by);
        self.publish();
    }

    /// Handles a store that does not answer. Returns whether this manager becomes or stays master
    /// without the epoch: [`Mastership::begin_without`] follows, once the core has adopted the last
    /// state that it knows.
    pub fn on_unreachable(&mut self) -> bool {
        self.end_epoch_check();
        if matches!(self.epoch.holding, Holding::Without(_)) {
            // The store's thread repeats the claim.
            self.epoch.holding = Holding::Without(None);
        }
        matches!(self.epoch.holding, Holding::Claimed(_))
    }

    /// Becomes or stays master without the epoch, because the store does not answer.
    pub fn begin_without(&mut self, view: &mut View<'_>, now: Time) {
        self.go_on_without(None, view, now);
    }

    /// Handles the loss of the epoch to another manager: this one sets nothing from now on, and
    /// looks for the other.
    pub fn on_deposed(&mut self, by: Epoch, view: &mut View<'_>, now: Time) {
        self.epoch.deposed_by = self.epoch.deposed_by.max(by.number);
        self.epoch.seen = Some(by);
        let Holding::Held(held) = self.epoch.holding else {
            return;
        };
        if held.number >= by.number {
            return;
        }
        self.epoch.holding = Holding::Free;
        if !self.is_master() {
            return;
        }
        if view.stage == StageView::HandingOver {
            self.drop_stage(view);
        }
        self.inquire(MastershipDoubt::Paused, None, view, now);
        match &mut self.doubts.inquiry {
            Some(inquiry) => inquiry.is_deposed = true,
            None => {
                self.discover_again("another manager holds the epoch of the shared store", view);
            }
        }
    }

    /// Handles the answer that this manager still holds the epoch, or that the store has none.
    pub fn end_epoch_check(&mut self) {
        if let Some(inquiry) = &mut self.doubts.inquiry {
            inquiry.epoch_until = None;
        }
    }

    /// Handles the epoch in the store, which this manager does not hold.
    pub fn on_epoch_seen(&mut self, epoch: Option<Epoch>, now: Time) {
        self.epoch.seen = epoch;
        self.begin_peer_polls(now);
    }

    /// Records whether the store has stopped answering this manager, which holds the epoch as far
    /// as it knows.
    pub fn note_store_silent(&mut self, is_silent: bool) {
        self.epoch.is_silent = is_silent;
    }

    /// Records the checksums of the settings of all managers that share the store, by their GUID.
    pub fn note_configurations(&mut self, configurations: BTreeMap<Guid, String>) {
        self.epoch.configurations = configurations;
        self.publish();
    }

    /// Records the footprints of the master's last plans in the store.
    pub fn note_footprints(&mut self, footprints: Footprints) {
        self.follower.footprints = footprints;
    }

    /// Whether a standby can follow this manager's pushes in the store: it holds the epoch, and the
    /// store answers.
    pub fn may_be_followed(&self) -> bool {
        self.epoch.is_held() && !self.epoch.is_silent
    }

    /// How this manager assigns LIDs now.
    pub fn lid_rights(&mut self, own: Guid, fabric: &Fabric, claims: &Claims) -> LidRights {
        self.epoch.partitioned(own, fabric, claims)
    }

    /// Records that a port has got a new LID.
    pub fn note_given_lid(&mut self, port: Guid) {
        self.epoch.note_given(port);
    }

    /// Becomes or stays master without the epoch; `again` is the time of the next claim.
    fn go_on_without(&mut self, again: Option<Time>, view: &mut View<'_>, now: Time) {
        self.epoch.holding = Holding::Without(again);
        (self.follower.is_current, self.follower.keys_change) = (false, false);
        let is_standby = self.is_standby();
        if is_standby || self.election.role == Role::Discovering && follows_another(view) {
            self.epoch.lost.note_takeover_without_store(now);
        }
        if !is_standby {
            self.ask_hosts_again();
        }
        self.take_over_if_standby(view, now);
        self.publish();
    }

    /// Asks all hosts to register again, if registrations are missing.
    pub(crate) fn ask_hosts_again(&mut self) {
        if self.epoch.lost.take_due() {
            self.act(Action::ReregisterHosts);
        }
    }
}

/// Whether the own port, as last read, follows another master.
fn follows_another(view: &View<'_>) -> bool {
    view.inventory.own_info().is_some_and(|info| {
        let master = info.master_sm_lid();
        master.is_unicast() && master != info.lid()
    })
}
