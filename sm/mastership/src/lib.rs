//! Mastership: decides which subnet manager is master and whether this one may write hardware, and
//! prepares takeovers. A state machine without I/O, clock or thread.
//!
//! ```text
//!  SMInfo, sweeps ─▶ election ─▶ role ◀── inquiry (is this one still the master?)
//!                                  │
//!  shared store ─▶ epoch ──────────┴─▶ takeover: from readings as the standby (following,
//!                                      plan ahead, reading ahead), or from a full sweep
//! ```
//!
//! Input: SMInfo of other managers, answers to questions of this manager, the end of a sweep,
//! events of the shared store, pauses of the process, and the time; each with a [`View`] of the
//! subnet and of the core. Output: [`Action`]s, which the core takes by [`Mastership::poll`] after
//! each call and carries out in order: questions and orders to other managers, requests to the
//! store, work for the stages. The core runs a reading ahead like any other sweep, and a plan ahead
//! like any other job; only their state is here.
//!
//! Mastership must never send a Set other than SubnSet(SMInfo), decide a route or a LID, or know
//! the core.
//!
//! Invariants:
//!
//! * [`Mastership::may_set`] is true only for a master without an open inquiry. If a store is
//!   shared, the master must also hold the epoch, or have found that it may write without it. A
//!   master that may have been replaced first withdraws all Sets.
//! * SMInfo decides which manager is master; the epoch only permits it to write. A store that does
//!   not answer never stops the fabric.
//! * Every queue has a bound: deferred requests, senders of refused orders, the rate of handovers.

mod action;
mod doubts;
mod election;
mod epoch;
mod exchange;
mod floating_lid;
mod following;
mod handover;
mod inquiry;
mod lost_registrations;
mod managers;
mod news;
mod orders;
mod partitioned;
mod peer_polls;
mod plan_ahead;
mod policy;
mod reading_ahead;
mod role;
mod silent_managers;
mod store;
mod succession;
pub mod taken_over_tables;
mod takeover;
mod view;

use std::collections::{BTreeSet, VecDeque};

use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::{Guid, PortKey};
use rsm_mad::Time;
use rsm_mad::client::{RequestFailure, Response};
use rsm_state::{Following, Role};

pub use self::action::{Action, EpochRequest, MastershipRequest, PassRequest};
use self::election::Election;
use self::epoch::EpochState;
pub use self::floating_lid::exchange_lids;
use self::following::Follower;
pub use self::following::{MASTER_CHANGED, STANDBY_QUEUE_LIMIT};
pub use self::handover::HandingOver;
use self::inquiry::Doubts;
pub use self::inquiry::Question;
pub use self::news::{PushEnd, SharedNews};
use self::peer_polls::PeerPolls;
pub use self::plan_ahead::Basis;
use self::plan_ahead::Preparation;
pub use self::policy::MastershipPolicy;
pub use self::role::others;
use self::succession::Succession;
pub use self::succession::Verdict;
pub use self::view::{StageView, View};

/// The state machine of mastership.
#[derive(Debug)]
pub struct Mastership {
    /// The settings of mastership.
    policy: MastershipPolicy,
    /// The role of this manager, and the state of the election.
    election: Election,
    /// Signs of another master, and the inquiry about them.
    doubts: Doubts,
    /// The right to write, which a shared store grants.
    epoch: EpochState,
    /// The state that this manager publishes to other managers in the store.
    news: SharedNews,
    /// Polls of a master that shares the store.
    polls: PeerPolls,
    /// The readings by which a standby follows the master.
    follower: Follower,
    /// The plan made ahead of a takeover.
    preparation: Preparation,
    /// The first pass of a takeover by a standby that had read the subnet.
    succession: Succession,
    /// Actions that wait for the core.
    actions: VecDeque<Action>,
}

impl Mastership {
    /// State at the start. `is_pushing` says whether an earlier run had announced in the shared
    /// store that it was writing hardware.
    pub fn new(policy: MastershipPolicy, is_pushing: bool) -> Mastership {
        Mastership {
            election: Election::new(policy.starts_inactive),
            doubts: Doubts::default(),
            epoch: EpochState::new(policy.shares_store),
            news: SharedNews::new(policy.shares_store && is_pushing),
            polls: PeerPolls::default(),
            follower: Follower::default(),
            preparation: Preparation::default(),
            succession: Succession::default(),
            actions: VecDeque::new(),
            policy,
        }
    }

    /// Uses another configuration from now on.
    pub fn configure(&mut self, policy: MastershipPolicy) {
        self.policy = policy;
    }

    /// The settings in force.
    pub fn policy(&self) -> &MastershipPolicy {
        &self.policy
    }

    /// The next action for the core; `None` if there is none. After each method that takes a
    /// [`View`], the core must take actions until `None`.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The role of this manager.
    pub fn role(&self) -> &Role {
        &self.election.role
    }

    /// Whether this manager is master.
    pub fn is_master(&self) -> bool {
        self.election.role == Role::Master
    }

    /// Whether this manager stands by for a master.
    pub fn is_standby(&self) -> bool {
        matches!(self.election.role, Role::Standby { .. })
    }

    /// Whether an inquiry is open: this manager asks whether another manager is master.
    pub fn is_inquiring(&self) -> bool {
        self.doubts.inquiry.is_some()
    }

    /// Whether this manager may write hardware now: it is master, no inquiry is open, and the epoch
    /// permits it.
    pub fn may_set(&self) -> bool {
        self.is_master() && !self.is_inquiring() && self.epoch.permits()
    }

    /// Whether the epoch permits a master to write hardware.
    pub fn has_right(&self) -> bool {
        self.epoch.permits()
    }

    /// Whether this manager's own state is valid: it holds the epoch, or shares no store.
    pub fn has_own_state(&self) -> bool {
        self.epoch.has_own_state()
    }

    /// Whether another manager may assign LIDs as well.
    pub fn is_partitioned(&self) -> bool {
        self.epoch.is_partitioned()
    }

    /// The state that this manager publishes to other managers in the store.
    pub fn news(&self) -> &SharedNews {
        &self.news
    }

    /// Like [`Mastership::news`], mutable.
    pub fn news_mut(&mut self) -> &mut SharedNews {
        &mut self.news
    }

    /// How far this standby has followed the master; `None` unless this manager is a standby and
    /// shares a store.
    pub fn following(&self) -> Option<Following> {
        (self.is_standby() && self.policy.shares_store).then_some(self.follower.state)
    }

    /// Time at which [`Mastership::handle_deadline`] has something to do; `None` if never.
    pub fn next_deadline(&self) -> Option<Time> {
        [
            self.doubts.deadline(),
            self.polls.deadline(),
            self.election.orders.deadline(),
            self.epoch.deadline(),
            self.epoch.lost.deadline(),
            self.following_due(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Handles all deadlines that are due at `now`.
    pub fn handle_deadline(&mut self, view: &mut View<'_>, now: Time) {
        self.inquire_again(view, now);
        self.retry_claim(view, now);
        if self.epoch.lost.release(now) | self.election.orders.release(now) {
            self.publish();
        }
        self.poll_peer(view, now);
        self.follow_master(now);
    }

    /// Handles the answer to an [`Action::Ask`], or its failure; `m_key` is the M_Key of the last
    /// attempt.
    pub fn on_answer(
        &mut self,
        request: MastershipRequest,
        outcome: &Result<Response, RequestFailure>,
        m_key: u64,
        view: &mut View<'_>,
    ) {
        match request {
            MastershipRequest::PeerPoll => self.on_peer_poll(outcome, m_key, view),
            MastershipRequest::Inquiry(question) => self.on_inquiry(question, outcome, view),
            MastershipRequest::Manager(port) => self.on_silent_manager(port, outcome, view),
            // The stage of the handover takes its answer, and announcements need none.
            MastershipRequest::HandOver | MastershipRequest::Announcement => {}
        }
    }

    /// Records whether the manager behind `port` answered a sweep.
    pub fn record_manager_answer(&mut self, port: PortKey, answered: bool) {
        self.election.silent.record(port, answered);
    }

    /// Ports with IsSM whose manager does not answer.
    pub fn silent_managers(&self) -> impl Iterator<Item = PortKey> + '_ {
        self.election.silent.ports()
    }

    /// Forgets silent managers whose port no longer shows IsSM. Returns whether the set of silent
    /// managers differs from the published one.
    pub fn follow_silent(&mut self, inventory: &Inventory) -> bool {
        self.election.silent.follow(inventory)
    }

    /// Records a device that may have executed a withdrawn Set.
    pub fn record_unsure_device(&mut self, device: Guid) {
        self.doubts.unsure.insert(device);
    }

    /// Becomes master before the end of the first sweep, of a subnet that no manager has
    /// programmed.
    pub fn become_master_early(&mut self) {
        self.election.role = Role::Master;
    }

    /// Queues an action for the core.
    fn queue_action(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    fn publish(&mut self) {
        self.queue_action(Action::Publish);
    }

    fn discard_pass(&mut self) {
        self.queue_action(Action::DiscardPass);
    }

    fn sweep_everything(&mut self, audit: bool, cause: impl Into<String>) {
        let cause = cause.into();
        self.queue_action(Action::Work(PassRequest::Everything { audit, cause }));
    }

    fn plan_again(&mut self, cause: impl Into<String>) {
        self.queue_action(Action::Work(PassRequest::Plan(cause.into())));
    }

    fn poll_master(&mut self) {
        self.queue_action(Action::Work(PassRequest::Master));
    }

    /// Drops the stage under way, and with it a reading of the standby.
    fn drop_stage(&mut self, view: &mut View<'_>) {
        self.follower.end_reading();
        view.stage = StageView::Idle;
        self.queue_action(Action::DropStage);
    }

    /// Takes the devices that may have executed withdrawn Sets.
    fn take_unsure_devices(&mut self) -> BTreeSet<Guid> {
        std::mem::take(&mut self.doubts.unsure)
    }
}

#[cfg(test)]
mod tests;
