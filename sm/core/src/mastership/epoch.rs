//! The epoch of a store that several managers share: a manager writes hardware only as its holder.
//!
//! ```text
//!        a sweep finds no other master             granted
//!  Free ──────────────────────────────▶ Claimed ────────────▶ Held
//!   ▲ ▲                                   │  │ store away       │
//!   │ └──── a second later ─── Refused ◀──┘  ▼                  │ deposed, or stands by
//!   │            after five: ────▶ Without ─────────────────────▶ Free
//!   └─────────────────────────────────────── stands by
//! ```
//!
//! SMInfo decides which manager is master. The epoch ensures that only one of them writes. A store
//! that does not answer never stops the fabric: the manager is then master without the epoch, as a
//! manager without a shared store is. The same applies if claims have been refused for
//! [`REFUSED_FOR`] while no other master is found: the fabric is cut in two, and each part needs a
//! manager.
//!
//! `may_set` requires the epoch before each push.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rsm_config::overlay::Overlay;
use rsm_hardware::sweep::SweepScope;
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::Time;
use rsm_model::alias_guids::AliasGuids;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_plan::lids::{Claim, Claims, LidRights};
use rsm_state::Role;
use rsm_store::Epoch;

use super::inquiry::MastershipDoubt;
use super::lost_registrations::LostRegistrations;
use super::news::SharedNews;
use super::role::{self, ElectionOutcome};
use super::taken_over_tables;
use crate::event::{Effect, EpochEvent, EpochRequest};
use crate::plans::assigned::Assigned;
use crate::requests::Context;
use crate::stage::Stage;
use crate::trials::Answers;
use crate::{Core, SavedCoreState};

/// Time between two claims after a refusal.
const AGAIN: Duration = Duration::from_secs(1);

/// Time of successive refusals, with no other master in sight, after which this manager manages its
/// part without the epoch: longer than a dead holder's epoch lasts
/// ([`STALE`](rsm_store::replica::STALE)).
const REFUSED_FOR: Duration = Duration::from_secs(5);

/// Limit of waiting for the answer to a claim, which includes the state of a whole subnet.
const CLAIM_LIMIT: Duration = Duration::from_secs(15);

/// Limit of waiting, for a master that was paused, for the answer whether it still holds the epoch.
pub(crate) const CHECK_LIMIT: Duration = Duration::from_secs(1);

/// How this manager stands to the epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Holding {
    /// No store is shared.
    #[default]
    Unshared,
    /// This manager neither holds nor claims the epoch.
    Free,
    /// The claim is open, until an answer or this time.
    Claimed(Time),
    /// Another manager holds the epoch and is alive; the time of the next claim.
    Refused(Time),
    /// This manager holds the epoch.
    Held(Epoch),
    /// This manager is master without the epoch. `Some` if another manager holds it and is alive,
    /// with the time of the next claim; `None` if the store does not answer, and its thread repeats
    /// the claim.
    Without(Option<Time>),
}

/// State of the epoch, and its past.
#[derive(Debug, Default)]
pub(crate) struct EpochState {
    pub(crate) holding: Holding,
    /// Number of the last epoch of another manager that deposed this one.
    deposed_by: u64,
    /// Holder at the last refusal, and the time since when claims were refused.
    refused: Option<(Epoch, Time)>,
    /// Last epoch in the store while another manager held it.
    pub(crate) seen: Option<Epoch>,
    /// Checksums of the settings of managers that share the store, by their GUID.
    pub(crate) configurations: BTreeMap<Guid, String>,
    /// Whether the store does not answer.
    pub(crate) is_silent: bool,
    /// Registrations that the former master acknowledged and this manager lacks.
    pub(crate) lost: LostRegistrations,
    /// LIDs given while another manager may give some, too.
    pub(crate) partitioned: LidRights,
    /// State that other managers read in the store.
    pub(crate) news: SharedNews,
}

impl EpochState {
    /// State at the start. `is_pushing` says whether an earlier run had announced that it was
    /// writing hardware.
    pub(crate) fn new(is_shared: bool, is_pushing: bool) -> EpochState {
        EpochState {
            holding: if is_shared {
                Holding::Free
            } else {
                Holding::Unshared
            },
            news: SharedNews::new(is_shared && is_pushing),
            ..EpochState::default()
        }
    }

    /// Whether the epoch permits a master to write hardware.
    pub(crate) fn permits(&self) -> bool {
        match self.holding {
            Holding::Unshared | Holding::Held(_) | Holding::Without(_) => true,
            Holding::Free | Holding::Claimed(_) | Holding::Refused(_) => false,
        }
    }

    /// Time at which [`Core::mind_epoch`] has something to do; `None` if never.
    pub(crate) fn deadline(&self) -> Option<Time> {
        match self.holding {
            Holding::Claimed(at) | Holding::Refused(at) => Some(at),
            Holding::Without(at) => at,
            Holding::Unshared | Holding::Free | Holding::Held(_) => None,
        }
    }
}

impl Core {
    /// Whether the end of the sweep under way, after which this manager would be master, must wait
    /// for the epoch; claims it if necessary.
    pub(crate) fn waits_for_epoch(&mut self, scope: SweepScope, now: Time) -> bool {
        match self.epoch.holding {
            Holding::Claimed(_) => true,
            Holding::Free
                if self.election.role == Role::Discovering
                    && matches!(scope, SweepScope::Full { .. })
                    && !self.election.starts_inactive
                    && self.inventory.local.is_some() =>
            {
                if self.is_shut_out() {
                    return false;
                }
                let identity = self.identity();
                let predecessor = self.election.predecessor;
                let others = self.other_managers();
                let outcome = role::decide(
                    &self.election.role,
                    &others,
                    identity,
                    self.own_guid(),
                    predecessor,
                );
                if outcome != ElectionOutcome::Be(Role::Master) {
                    return false;
                }
                self.claim_epoch(predecessor, now);
                true
            }
            _ => false,
        }
    }

    /// Claims the epoch; `over` is the silent or former master, if there is one.
    pub(crate) fn claim_epoch(&mut self, over: Option<Guid>, now: Time) {
        self.claim_with(over, true, now);
    }

    fn claim_with(&mut self, over: Option<Guid>, insists: bool, now: Time) {
        if !matches!(self.epoch.holding, Holding::Without(_)) {
            self.epoch.holding = Holding::Claimed(now + CLAIM_LIMIT);
        }
        let is_master = self.election.role == Role::Master;
        self.ask_store(EpochRequest::Claim {
            own: self.own_guid(),
            over,
            insists,
            is_master,
        });
    }

    /// Claims the epoch over the master that this standby finds silent; a grant makes this manager
    /// master. Unless it `insists`, a master that shows signs of life in the store keeps the epoch.
    pub(crate) fn claim_over_master(&mut self, insists: bool, now: Time) {
        if let (Role::Standby { master }, Holding::Free) = (&self.election.role, self.epoch.holding)
        {
            let silent = master.guid;
            self.claim_with(Some(silent), insists, now);
        }
    }

    /// Withdraws an open claim over the master, because it answers after all.
    pub(crate) fn withdraw_claim(&mut self) {
        let is_standby = matches!(self.election.role, Role::Standby { .. });
        if is_standby && matches!(self.epoch.holding, Holding::Claimed(_)) {
            self.epoch.holding = Holding::Free;
            self.ask_store(EpochRequest::Release);
        }
    }

    fn ask_store(&mut self, request: EpochRequest) {
        self.outbox.push(Effect::Epoch(request));
    }

    /// Checks whether this manager still holds the epoch. Returns whether there is an answer to
    /// wait for.
    pub(crate) fn check_epoch(&mut self) -> bool {
        let is_held = matches!(self.epoch.holding, Holding::Held(_));
        if is_held {
            self.ask_store(EpochRequest::Check);
        }
        is_held
    }

    /// Claims the epoch again before this manager is master again: a handover ended the inquiry
    /// before the store answered whether this manager still holds it.
    pub(crate) fn doubt_epoch(&mut self) {
        if matches!(self.epoch.holding, Holding::Held(_)) {
            self.epoch.holding = Holding::Free;
        }
    }

    /// Gives the epoch up, because another manager is master.
    pub(crate) fn release_epoch(&mut self) {
        self.epoch.refused = None;
        if !matches!(self.epoch.holding, Holding::Unshared | Holding::Free) {
            self.epoch.holding = Holding::Free;
            self.ask_store(EpochRequest::Release);
        }
    }

    /// Does what is due: claims again, or continues without an answer.
    pub(crate) fn mind_epoch(&mut self, now: Time) {
        if self.epoch.deadline().is_none_or(|due| due > now) {
            return;
        }
        match self.epoch.holding {
            Holding::Claimed(_) => {
                self.go_on_without(None, now);
                // The new claim supersedes the open one, whose answer would come too late.
                self.claim_epoch(None, now);
            }
            Holding::Refused(_) => {
                self.epoch.holding = Holding::Free;
                self.work
                    .sweep_everything(false, "the epoch of the shared store is claimed once more");
            }
            Holding::Without(_) => {
                self.epoch.holding = Holding::Without(None);
                self.claim_epoch(None, now);
            }
            Holding::Unshared | Holding::Free | Holding::Held(_) => {}
        }
    }

    /// Handles an event of the shared store.
    pub(crate) fn on_epoch(&mut self, event: EpochEvent, now: Time) {
        match event {
            EpochEvent::Granted {
                epoch,
                state,
                unseen,
            } => {
                let is_standby = matches!(self.election.role, Role::Standby { .. });
                // Without its answers in the fabric, nothing is known of its last moments.
                let silent = self.election.peer_polls.silent_for(now);
                if let Some(silent) = silent.filter(|_| is_standby && state.is_some()) {
                    self.epoch.lost.note_life_without_store(silent, unseen, now);
                }
                self.on_granted(epoch, state, now);
            }
            EpochEvent::Refused(by) => self.on_refused(by, now),
            EpochEvent::Unreachable(state) => {
                self.end_epoch_check();
                if matches!(self.epoch.holding, Holding::Claimed(_)) {
                    if let Some(state) = state.filter(|_| self.election.role != Role::Master) {
                        self.adopt(*state);
                    }
                    self.go_on_without(None, now);
                } else if matches!(self.epoch.holding, Holding::Without(_)) {
                    // The store's thread repeats the claim.
                    self.epoch.holding = Holding::Without(None);
                }
            }
            EpochEvent::Held => self.end_epoch_check(),
            EpochEvent::Deposed(by) => self.on_deposed(by, now),
            EpochEvent::Seen(epoch) => {
                self.epoch.seen = epoch;
                self.begin_peer_polls(now);
            }
            EpochEvent::Planned(plan) => self.on_planned_elsewhere(plan, now),
            EpochEvent::Footprints(footprints) => self.standby.follower.footprints = footprints,
            EpochEvent::Claims(claims) => {
                let is_master = self.election.role == Role::Master;
                let assigned = &mut self.plans.assigned;
                self.epoch.take_claims(claims, is_master, assigned);
            }
            EpochEvent::Positions(positions) => {
                if !self.epoch.has_own_state() && self.election.role != Role::Master {
                    self.plans.assigned.positions = positions;
                }
            }
            EpochEvent::Cabling(cabling) => self.on_stored_cabling(cabling),
            EpochEvent::MKeys {
                generations,
                is_pushing,
            } => self.on_stored_keys(generations, is_pushing, now),
            EpochEvent::Silent(is_silent) => self.epoch.is_silent = is_silent,
            EpochEvent::Configurations(configurations) => {
                self.epoch.configurations = configurations;
                self.publish(now);
            }
        }
    }

    fn on_granted(&mut self, epoch: Epoch, state: Option<Box<SavedCoreState>>, now: Time) {
        if epoch.number <= self.epoch.deposed_by {
            // The event that the epoch has ended came first.
            return;
        }
        if matches!(self.epoch.holding, Holding::Free) {
            // Another manager became master meanwhile.
            self.ask_store(EpochRequest::Release);
            return;
        }
        self.epoch.holding = Holding::Held(epoch);
        self.epoch.refused = None;
        self.check_granted(now);
        self.standby.follower.is_current = state
            .as_ref()
            .is_some_and(|state| self.standby.follower.has_read(state));
        match (state, &self.election.role) {
            (Some(state), Role::Master) => {
                self.plans.assigned.add_claims(&state.claims);
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
            (Some(state), _) => {
                self.adopt(*state);
                if self.election.role == Role::Discovering && self.look_behind_guarded_ports() {
                    self.drop_stage();
                }
            }
            (None, _) => {}
        }
        (
            self.inventory.stored_cabling,
            self.standby.follower.keys_change,
        ) = (Arc::default(), false);
        self.float_lid();
        self.take_over_if_standby(now);
        if self.election.role == Role::Master {
            self.publish(now);
        }
    }

    /// Exchanges claims: this manager's port gets the LID of the former manager's port, and that
    /// port gets this one's, if the LID moves with the manager.
    fn float_lid(&mut self) {
        if let Some(before) = self.epoch.seen.map(|epoch| epoch.holder) {
            let mut claims = std::mem::take(&mut self.plans.assigned.claims);
            let is_news = self.exchange_lids(before, &mut claims);
            self.plans.assigned.claims = claims;
            if is_news {
                self.remember();
            }
        }
    }

    /// Exchanges the LIDs in `claims`. Returns whether these changed.
    pub(crate) fn exchange_lids(&self, before: Guid, claims: &mut Arc<Claims>) -> bool {
        let own = self.own_guid();
        let Some(local) = self.local_port().filter(|_| before != own) else {
            return false;
        };
        let held = Claim {
            base: local.lid(),
            lmc: local.lmc(),
        };
        let theirs = claims.get(&before).copied().filter(|theirs| {
            theirs.base == local.master_sm_lid()
                && theirs.lmc == held.lmc
                && theirs.base != held.base
        });
        let Some(theirs) = theirs.filter(|_| self.config.policy.floating_lid) else {
            return false;
        };
        let claims = Arc::make_mut(claims);
        let ours = claims.insert(own, theirs).unwrap_or(held);
        claims.insert(before, ours);
        true
    }

    /// Handles a refused claim: another manager holds the epoch and is alive, though no other
    /// master was found.
    fn on_refused(&mut self, by: Epoch, now: Time) {
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
                self.go_on_without(Some(now + AGAIN), now);
            }
            Holding::Claimed(_) => {
                self.epoch.holding = Holding::Refused(now + AGAIN);
                self.drop_stage();
                if self.election.role != Role::NotActive {
                    self.election.role = Role::Discovering;
                }
            }
            Holding::Unshared | Holding::Free | Holding::Refused(_) | Holding::Held(_) => return,
        }
        self.epoch.refused = Some((by, since));
        self.epoch.seen = Some(by);
        self.publish(now);
    }

    /// Handles the loss of the epoch to another manager: this one sets nothing from now on, and
    /// looks for the other.
    fn on_deposed(&mut self, by: Epoch, now: Time) {
        self.epoch.deposed_by = self.epoch.deposed_by.max(by.number);
        self.epoch.seen = Some(by);
        let Holding::Held(held) = self.epoch.holding else {
            return;
        };
        if held.number >= by.number {
            return;
        }
        self.epoch.holding = Holding::Free;
        if self.election.role != Role::Master {
            return;
        }
        if matches!(self.stage, Stage::HandingOver(_)) {
            self.drop_stage();
        }
        self.inquire(MastershipDoubt::Paused, None, now);
        match &mut self.election.inquiry {
            Some(inquiry) => inquiry.is_deposed = true,
            None => self.discover_again("another manager holds the epoch of the shared store", now),
        }
    }

    fn end_epoch_check(&mut self) {
        if let Some(inquiry) = &mut self.election.inquiry {
            inquiry.epoch_until = None;
        }
    }

    /// Becomes or stays master without the epoch.
    fn go_on_without(&mut self, again: Option<Time>, now: Time) {
        self.epoch.holding = Holding::Without(again);
        (
            self.standby.follower.is_current,
            self.standby.follower.keys_change,
        ) = (false, false);
        let is_standby = matches!(self.election.role, Role::Standby { .. });
        if is_standby || self.election.role == Role::Discovering && self.follows_another() {
            self.epoch.lost.note_takeover_without_store(now);
        }
        if !is_standby {
            self.ask_hosts_again();
        }
        self.take_over_if_standby(now);
        self.publish(now);
    }

    /// Whether the own port, as last read, follows another master.
    fn follows_another(&self) -> bool {
        self.local_port().is_some_and(|info| {
            let master = info.master_sm_lid();
            master.is_unicast() && master != info.lid()
        })
    }

    /// Asks all hosts to register again, if registrations are missing.
    pub(crate) fn ask_hosts_again(&mut self) {
        if self.epoch.lost.take_due() {
            self.writing.reregister_everybody();
        }
    }

    /// Takes over from a silent master, if the epoch was claimed for that.
    fn take_over_if_standby(&mut self, now: Time) {
        if matches!(self.election.role, Role::Standby { .. }) {
            if !self.goes_on_reading_ahead(now) {
                self.drop_stage();
            }
            self.begin_as_successor(now);
        }
    }

    /// Becomes master after a silent one.
    pub(crate) fn begin_as_successor(&mut self, now: Time) {
        let before = std::mem::replace(&mut self.election.role, Role::Master);
        self.standby.follower.keys_change = false;
        self.epoch.news.begin();
        // Further attempts of open requests would try other keys at that master's port, and start
        // the lease of its key.
        self.client
            .withdraw(|context| matches!(context, Context::PeerPoll | Context::Manager(_)));
        self.members.inherit_again();
        taken_over_tables::begin(&mut self.inventory, self.config.policy.adaptive.is_on());
        self.succeed(&before, now);
        self.publish(now);
    }

    /// Continues with the former master's state, in place of this machine's.
    fn adopt(&mut self, state: SavedCoreState) {
        self.plans.assigned = Assigned {
            claims: state.claims,
            positions: state.positions,
            group_ids: state.group_ids,
        };
        self.plans.note_gpus(state.gpus);
        self.adopt_generations(state.generations);
        self.writing.adopt(state.not_kept, state.reregister);
        self.inventory.habits = state.habits;
        self.inventory.capabilities = state.capabilities;
        let mut avoid = state.avoid;
        self.links.restore_health(&self.config, &state.health);
        self.links.isolate_again(&state.health, &mut avoid);
        self.trials.detours.replace(avoid);
        self.adopt_partitions(state.overlay);
        self.plans.advance_to(state.generation);
        self.epoch.news.begin();
        // Until the end of a pass, the hardware may hold something that no plan has.
        if self.config.shares_store {
            self.epoch.news.doubt();
        }
        // The SA will report the registered members again.
        self.members.forget_registered();
        self.adopt_alias_guids(state.alias_guids);
        // A plan from an earlier time as master may have other LIDs.
        self.plans.clear();
        self.missing.adopt(state.cabling, &self.fabric);
    }

    /// Findings about managers of this subnet whose settings differ from this one's.
    pub(crate) fn findings_of_configurations(&self) -> impl Iterator<Item = Finding> + '_ {
        let others = role::others(&self.inventory).into_iter();
        others.filter_map(|other| {
            let theirs = self.epoch.configurations.get(&other.guid)?;
            let differing = differing_sections(&self.config.checksums, theirs);
            if differing.is_empty() {
                return None;
            }
            let text = format!(
                "the settings of the manager at {} ({}) differ from those of this one in [{}]: a takeover changes the subnet \
                 accordingly; give both the same configuration and the same files that it names",
                other.name,
                other.guid,
                differing.join("], [")
            );
            let subject = Subject::Node(other.port.node);
            let kind = FindingKind::ConfigDiffers;
            Some(Finding::new(kind, subject, Severity::Warning, text))
        })
    }

    /// Continues with the partitions that another manager has stored.
    fn adopt_partitions(&mut self, overlay: Arc<Overlay>) {
        let mut answers = Answers::to(&mut self.work, &mut self.outbox);
        let policy = &mut self.config.policy;
        let partitions = &mut self.trials.partitions;
        partitions.adopt(overlay, policy, &self.fabric, &mut answers);
    }

    /// Uses the alias GUIDs before the SA reports them, and has the blocks with them read: the
    /// sweep that waited for the grant did not know them.
    fn adopt_alias_guids(&mut self, aliases: Arc<AliasGuids>) {
        let mut ports = Vec::new();
        for (guid, node) in self.inventory.nodes() {
            let named = (0_u8..).zip(&node.ports);
            let named = named.filter(|(_, port)| aliases.by_port.contains_key(&port.guid));
            ports.extend(named.map(|(number, _)| PortKey::new(guid, PortNum(number))));
        }
        self.inventory.named |= !ports.is_empty();
        self.inventory.alias_guids = aliases;
        for port in ports {
            self.work.look_at_port(port);
        }
    }

    /// The finding about a manager that holds the epoch and cannot be reached; `None` if there is
    /// none.
    pub(crate) fn finding_of_epoch(&self) -> Option<Finding> {
        let (by, _) = self.epoch.refused?;
        let (severity, effect) = match self.epoch.holding {
            Holding::Without(_) => (
                Severity::Error,
                format!(
                    "this one manages the part of the fabric that it reaches, stores nothing in the shared store, and gives new \
                     ports LIDs {}, so that none moves when the parts meet again",
                    match self.epoch.partitioned.block {
                        Some(block) => format!("from {block} on"),
                        None => "of a block of its own".to_owned(),
                    }
                ),
            ),
            _ => (
                Severity::Warning,
                "this one sets nothing until that manager has given no sign of life for three seconds, or for five seconds in all"
                    .to_owned(),
            ),
        };
        let text = format!(
            "the manager {} holds the shared store ({by}) and is alive, but is not to be met in the fabric: {effect}; look for \
             cables that cut the fabric in two, or for a manager of another fabric with the same store.prefix and sm.subnet_prefix",
            by.holder
        );
        let kind = FindingKind::EpochHeld;
        Some(Finding::new(kind, Subject::Subnet, severity, text))
    }
}

/// Sections in which two texts of checksums (`sm=0123… sweep=…`) differ. A section that only one of
/// them has belongs to another version, and is ignored.
fn differing_sections(own: &str, other: &str) -> Vec<String> {
    let sections = |text: &str| -> BTreeMap<String, String> {
        let words = text.split_whitespace();
        words
            .filter_map(|word| word.split_once('='))
            .map(|(section, sum)| (section.to_owned(), sum.to_owned()))
            .collect()
    };
    let other = sections(other);
    let differs = |section: &str, sum: &str| other.get(section).is_some_and(|theirs| theirs != sum);
    let own = sections(own).into_iter();
    own.filter(|(section, sum)| differs(section, sum))
        .map(|(section, _)| section)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_settings_are_named_by_section_and_unknown_sections_do_not_count() {
        let own = "sm=1 sweep=2 new=3";
        assert_eq!(differing_sections(own, "sm=1 sweep=2 old=9"), [""; 0]);
        assert_eq!(differing_sections(own, "sm=7 sweep=8"), ["sm", "sweep"]);
        assert_eq!(differing_sections(own, "\0 = sweep == ="), [""; 0]);
    }
}
