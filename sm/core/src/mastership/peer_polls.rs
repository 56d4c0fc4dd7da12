//! Polls of a master that shares the standby's store.
//!
//! Such a master runs rsm, and the store has all of its state. A takeover from it is cheap, so that
//! the standby polls it ten times per second. Other masters are polled at the interval
//! [`CoreConfig::standby_poll`](super::CoreConfig::standby_poll).
//!
//! With such a standby, the pause after which a master doubts that it is still master is shorter
//! than the time after which the standby replaces it.

use std::time::Duration;

use rsm_mad::Time;
use rsm_mad::client::{Completion, Priority, Request};
use rsm_mad::wire::attr::{Attribute, SmInfo, SmState};
use rsm_state::Role;

use super::epoch::Holding;
use crate::Core;
use crate::requests::{Context, routes};

/// Time between two polls. The client repeats a poll that is not answered within it.
const PEER_POLL: Duration = Duration::from_millis(100);

/// Successive unanswered polls after which the master is gone.
const PEER_POLL_LIMIT: u32 = 3;

/// Time for which the master may be silent here while it shows signs of life in the store: a long
/// computation delays its answers, and a lost cable ends them.
const PATIENCE: Duration = Duration::from_secs(2);

/// The polls, and their answers so far.
#[derive(Debug, Default)]
pub(crate) struct PeerPolls {
    /// Time of the next poll; `None` if there is no master, or it does not share the store.
    next: Option<Time>,
    /// Whether a poll is not answered yet.
    is_open: bool,
    /// Number of successive unanswered polls.
    silent: u32,
    /// Time of the first of these.
    since: Option<Time>,
}

impl PeerPolls {
    /// Time for which the master has not answered; `None` if it has, or is not polled.
    pub(crate) fn silent_for(&self, now: Time) -> Option<Duration> {
        self.since.map(|since| now.since(since))
    }

    /// Time at which [`Core::poll_peer`] has something to do; `None` if never.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.next
    }
}

impl Core {
    /// Begins to poll the master often, if it holds the epoch of the shared store.
    pub(crate) fn begin_peer_polls(&mut self, now: Time) {
        let is_peer = match &self.election.role {
            Role::Standby { master } => {
                let holder = self.epoch.seen.map(|epoch| epoch.holder);
                self.config.shares_store && holder == Some(master.guid)
            }
            _ => false,
        };
        let polls = &mut self.election.peer_polls;
        if !is_peer {
            *polls = PeerPolls::default();
        } else if polls.next.is_none() {
            polls.next = Some(now + PEER_POLL);
        }
    }

    /// Forgets the unanswered polls, which say nothing about the master.
    pub(crate) fn forget_silence(&mut self) {
        self.election.silent_polls = 0;
        let polls = &mut self.election.peer_polls;
        (polls.is_open, polls.silent, polls.since) = (false, 0, None);
    }

    /// Polls the master, if that is due; claims the epoch after its silence.
    pub(crate) fn poll_peer(&mut self, now: Time) {
        if self.election.peer_polls.next.is_none_or(|due| due > now) {
            return;
        }
        self.begin_peer_polls(now);
        let Role::Standby { master } = &self.election.role else {
            return;
        };
        if self.election.peer_polls.next.is_none() {
            return;
        }
        let (port, lid) = (master.port, master.lid);
        let polls = &mut self.election.peer_polls;
        polls.next = Some(now + PEER_POLL);
        if std::mem::replace(&mut polls.is_open, true) {
            polls.silent = polls.silent.saturating_add(1);
            polls.since.get_or_insert(now);
            self.client
                .withdraw(|context| matches!(context, Context::PeerPoll));
        }
        if self.election.peer_polls.silent > 0 {
            self.start_reading_ahead(now);
        }
        let polls = &self.election.peer_polls;
        if polls.silent >= PEER_POLL_LIMIT
            && self.local_port.is_up()
            && self.epoch.holding == Holding::Free
        {
            let insists = polls
                .since
                .is_some_and(|since| now.since(since) >= PATIENCE);
            self.claim_over_master(insists, now);
        }
        let silent = self.election.peer_polls.silent;
        let m_keys = self.inventory.m_keys_to_manager(port, silent as usize);
        let Some((path, alternate)) = self.inventory.way_to(port) else {
            return;
        };
        // The master repairs LID routes sooner than this manager learns about other cables.
        let is_turn = !(silent / 2).is_multiple_of(2);
        let lid = Some(lid).filter(|lid| is_turn && lid.is_unicast());
        self.submit(Request {
            m_keys,
            priority: Priority::Urgent,
            ..Request::get(
                port.node.0,
                routes(lid, path, alternate),
                SmInfo::ID,
                0,
                Context::PeerPoll,
            )
        });
    }

    /// Handles the answer to a poll, or its silence.
    pub(crate) fn on_peer_poll(&mut self, completion: &Completion<Context>) {
        let Ok(response) = &completion.outcome else {
            // The next poll counts this one as unanswered.
            return;
        };
        let info = SmInfo::from_data(&response.data);
        // A master hides its SM_Key (0) from a request with an old key (IBA 14.2.4.2).
        let shows_other_key = ![0, self.config.identity.sm_key].contains(&info.sm_key());
        if !response.status.is_ok() || shows_other_key {
            return;
        }
        if let Role::Standby { master } = &self.election.role {
            if info.guid() != master.guid {
                // The LID now belongs to another manager.
                return;
            }
            // The master may have rotated its keys: others are tried with the new generation.
            self.inventory.key_answered(master.port, completion.m_key);
            self.follow_generations();
        }
        let polls = &mut self.election.peer_polls;
        (polls.is_open, polls.silent, polls.since) = (false, 0, None);
        if info.sm_state() == SmState::Master {
            self.withdraw_claim();
        } else if matches!(self.election.role, Role::Standby { .. }) {
            // The polled manager is no longer master: the usual poll finds out which manager is.
            self.work.poll_master();
        }
    }
}
