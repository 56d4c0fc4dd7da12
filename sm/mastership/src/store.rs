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
use crate::epoch::{CLAIM_LIMIT, CLAIM_PAUSE, Holding, REFUSED_FOR};
use crate::inquiry::MastershipDoubt;
use crate::role::ElectionOutcome;
use crate::view::{StageView, View};

impl Mastership {
    /// Whether the sweep under way must stay open, because an inquiry or a claim is open. Claims
    /// the epoch first if this manager would become master at the end of the sweep.
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
                    && view.inventory.hardware.local.is_some() =>
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

    /// Whether the epoch permits an early bring-up during the first sweep, now or after a claim.
    pub fn may_claim_early(&self) -> bool {
        self.epoch.permits() || self.epoch.is_free()
    }

    /// Whether the last claim was refused because another manager holds the epoch, and the next
    /// claim is not due yet.
    pub fn is_refused(&self) -> bool {
        matches!(self.epoch.holding, Holding::Refused(_))
    }

    /// Claims the epoch before the end of the first sweep, unless this manager holds or claims it.
    pub fn claim_early(&mut self, view: &View<'_>, now: Time) {
        if self.epoch.is_free() {
            self.claim_epoch(None, view, now);
        }
    }

    /// Claims the epoch. `over` is the GUID of the silent or former master, if there is one; the
    /// claim ignores signs of life of that master in the store.
    pub(crate) fn claim_epoch(&mut self, over: Option<Guid>, view: &View<'_>, now: Time) {
        self.claim_with(over, true, view, now);
    }

    /// Claims the epoch. Unless the claim `insists`, the master `over` keeps the epoch if it shows
    /// signs of life in the store.
    fn claim_with(&mut self, over: Option<Guid>, insists: bool, view: &View<'_>, now: Time) {
        if !matches!(self.epoch.holding, Holding::Without(_)) {
            self.epoch.holding = Holding::Claimed(now + CLAIM_LIMIT);
        }
        let is_master = self.is_master();
        self.queue_action(Action::Store(EpochRequest::Claim {
            own: view.inventory.own_guid(),
            over,
            insists,
            is_master,
        }));
    }

    /// Claims the epoch in place of the silent master of this standby; a grant makes this manager
    /// master. Unless the claim `insists`, a master that shows signs of life in the store keeps the
    /// epoch.
    pub(crate) fn claim_over_master(&mut self, insists: bool, view: &View<'_>, now: Time) {
        if let (Role::Standby { master }, Holding::Free) = (&self.election.role, self.epoch.holding)
        {
            let silent = master.guid;
            self.claim_with(Some(silent), insists, view, now);
        }
    }

    /// Withdraws an open claim over the master, because the master answers again.
    pub(crate) fn withdraw_claim(&mut self) {
        if self.is_standby() && matches!(self.epoch.holding, Holding::Claimed(_)) {
            self.epoch.holding = Holding::Free;
            self.queue_action(Action::Store(EpochRequest::Release));
        }
    }

    /// Checks whether this manager still holds the epoch. Returns whether there is an answer to
    /// wait for.
    pub(crate) fn check_epoch(&mut self) -> bool {
        let is_held = self.epoch.is_held();
        if is_held {
            self.queue_action(Action::Store(EpochRequest::Check));
        }
        is_held
    }

    /// Gives the epoch up, because another manager is master.
    pub(crate) fn release_epoch(&mut self) {
        self.epoch.refused = None;
        if !matches!(self.epoch.holding, Holding::Unshared | Holding::Free) {
            self.epoch.holding = Holding::Free;
            self.queue_action(Action::Store(EpochRequest::Release));
        }
    }

    /// Repeats the claim if that is due. If the time limit for an answer has passed, becomes or
    /// stays master without the epoch.
    pub(crate) fn retry_claim(&mut self, view: &mut View<'_>, now: Time) {
        if self.epoch.deadline().is_none_or(|due| due > now) {
            return;
        }
        match self.epoch.holding {
            Holding::Claimed(_) => {
                self.continue_without_epoch(None, view, now);
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

    /// Handles the grant of the epoch. If the core continues with another manager's state from the
    /// store, `state` is the number of that manager's last plan and whether it was writing
    /// hardware. `unseen` is the time since the former manager's last sign of life in the store.
    /// Returns whether this manager takes the grant; if so, the core adopts the state and then
    /// calls [`Mastership::begin_granted`].
    pub fn on_granted(
        &mut self,
        epoch: Epoch,
        state: Option<(u64, bool)>,
        unseen: Duration,
        now: Time,
    ) -> bool {
        // Only polls of the former master show when it died.
        let silent = self.polls.silent_for(now);
        if let Some(silent) = silent.filter(|_| self.is_standby() && state.is_some()) {
            self.epoch
                .lost
                .record_master_without_store(silent, unseen, now);
        }
        if self.epoch.ended == Some(epoch) {
            // The event that this epoch has ended arrived before the grant.
            return false;
        }
        if self.epoch.is_free() {
            // Another manager has become master since the claim.
            self.queue_action(Action::Store(EpochRequest::Release));
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
        self.follower.keys_are_changing = false;
        if self.election.role == Role::Discovering {
            self.request_reregistration();
        }
        self.take_over_if_standby(view, now);
        if self.is_master() {
            self.publish();
        }
    }

    /// GUID of the manager that held the last epoch seen in the store, if it is another manager.
    pub fn former_holder(&self) -> Option<Guid> {
        self.epoch.seen.map(|epoch| epoch.holder)
    }

    /// Handles a refused claim: another manager holds the epoch and is alive, although no other
    /// master was found.
    pub fn on_refused(&mut self, by: Epoch, view: &mut View<'_>, now: Time) {
        let since = self.epoch.refused.map_or(now, |(_, since)| since);
        if let (Role::Standby { master }, Holding::Claimed(_)) =
            (&self.election.role, self.epoch.holding)
            && master.guid == by.holder
        {
            // The master is alive, and too busy to answer: this manager continues to poll it.
            self.epoch.holding = Holding::Free;
            return;
        }
        match self.epoch.holding {
            Holding::Without(_) => self.epoch.holding = Holding::Without(Some(now + CLAIM_PAUSE)),
            Holding::Claimed(_) if now.since(since) >= REFUSED_FOR => {
                self.continue_without_epoch(Some(now + CLAIM_PAUSE), view, now);
            }
            Holding::Claimed(_) => {
                self.epoch.holding = Holding::Refused(now + CLAIM_PAUSE);
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
    /// without the epoch. The core then adopts the last known state and calls
    /// [`Mastership::begin_without_epoch`].
    pub fn on_unreachable(&mut self) -> bool {
        self.end_epoch_check();
        if matches!(self.epoch.holding, Holding::Without(_)) {
            // The store's thread repeats the claim.
            self.epoch.holding = Holding::Without(None);
        }
        matches!(self.epoch.holding, Holding::Claimed(_))
    }

    /// Becomes or stays master without the epoch, because the store does not answer.
    pub fn begin_without_epoch(&mut self, view: &mut View<'_>, now: Time) {
        self.continue_without_epoch(None, view, now);
    }

    /// Handles the end of this manager's epoch `ended`: the store has the epoch `by`, of another
    /// manager or from an older copy of the store. This manager sends no Set from now on, and
    /// starts an inquiry or a new discovery to find the other manager.
    pub fn on_deposed(&mut self, ended: Epoch, by: Epoch, view: &mut View<'_>, now: Time) {
        self.epoch.ended = Some(ended);
        self.epoch.seen = Some(by);
        if self.epoch.holding != Holding::Held(ended) {
            return;
        }
        self.epoch.holding = Holding::Free;
        if !self.is_master() {
            return;
        }
        if self.epoch.is_silent && by.number > ended.number {
            self.epoch.lost.record_epoch_missed(now);
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

    /// Handles the answer that this manager still holds the epoch, or that the store has no epoch.
    pub fn end_epoch_check(&mut self) {
        if let Some(inquiry) = &mut self.doubts.inquiry {
            inquiry.epoch_until = None;
        }
    }

    /// Handles the epoch that the store shows while this manager does not hold it; `None` if the
    /// store has no epoch.
    pub fn on_epoch_seen(&mut self, epoch: Option<Epoch>, now: Time) {
        self.epoch.seen = epoch;
        self.begin_peer_polls(now);
    }

    /// Records whether the store has stopped answering this manager, the presumed holder of the
    /// epoch.
    pub fn set_store_silent(&mut self, is_silent: bool) {
        self.epoch.is_silent = is_silent;
    }

    /// Records the checksums of the settings of all managers that share the store, by their GUID.
    pub fn set_configurations(&mut self, configurations: BTreeMap<Guid, String>) {
        self.epoch.configurations = configurations;
        self.publish();
    }

    /// Records the footprints of the master's last plans in the store.
    pub fn set_footprints(&mut self, footprints: Footprints) {
        self.follower.footprints = footprints;
    }

    /// Whether a standby can follow this manager's pushes in the store: this manager holds the
    /// epoch, and the store answers.
    pub fn may_be_followed(&self) -> bool {
        self.epoch.is_held() && !self.epoch.is_silent
    }

    /// Constraints under which this manager assigns LIDs now.
    pub fn lid_rights(&mut self, own: Guid, fabric: &Fabric, claims: &Claims) -> LidRights {
        self.epoch.lid_rights(own, fabric, claims)
    }

    /// Records that a plan has assigned a new LID to the port with this GUID.
    pub fn record_assigned_lid(&mut self, port: Guid) {
        self.epoch.record_assigned(port);
    }

    /// Becomes or stays master without the epoch; `again` is the time of the next claim.
    fn continue_without_epoch(&mut self, again: Option<Time>, view: &mut View<'_>, now: Time) {
        self.epoch.holding = Holding::Without(again);
        (self.follower.is_current, self.follower.keys_are_changing) = (false, false);
        let is_standby = self.is_standby();
        if is_standby || self.election.role == Role::Discovering && follows_another(view) {
            self.epoch.lost.record_takeover_without_store(now);
        }
        if !is_standby {
            self.request_reregistration();
        }
        self.take_over_if_standby(view, now);
        self.publish();
    }

    /// Asks all hosts to register again, if registrations are missing.
    pub(crate) fn request_reregistration(&mut self) {
        if self.epoch.lost.take_due() {
            self.queue_action(Action::ReregisterHosts);
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
