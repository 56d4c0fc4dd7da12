//! The questions of a standby to a master that shares its store.
//!
//! Such a master runs rsm, and all that it knows is in the store: to take over from it is cheap, so
//! the standby asks it ten times a second. Other masters are asked at the pace of
//! [`CoreConfig::standby_poll`](super::CoreConfig::standby_poll).
//!
//! The pause after which a master doubts itself is shorter beside such a standby than the time
//! after which the standby replaces it.

use std::time::Duration;

use rsm_mad::Time;
use rsm_mad::client::{Completion, Priority, Request};
use rsm_mad::wire::attr::{Attribute, SmInfo, SmState};
use rsm_state::Role;

use super::epoch::Holding;
use crate::Core;
use crate::requests::{Context, routes};

/// Time between two questions. The client repeats one that is not answered within it.
const PEER_POLL: Duration = Duration::from_millis(100);

/// Questions in a row without an answer after which the master is gone.
const PEER_POLL_LIMIT: u32 = 3;

/// How long the master may be silent here while it shows signs of life in the store: a long
/// computation delays its answers, and a cable that is gone ends them.
const PATIENCE: Duration = Duration::from_secs(2);

/// The questions, and their answers so far.
#[derive(Debug, Default)]
pub(crate) struct PeerPolls {
    /// When the next question is due; `None`: the master shares no store, or there is none.
    next: Option<Time>,
    /// A question is not answered yet.
    is_open: bool,
    /// Questions in a row without an answer.
    silent: u32,
    /// When the first of them was sent.
    since: Option<Time>,
}

impl PeerPolls {
    /// For how long the master has not answered; `None` if it has, or is not asked.
    pub(crate) fn silent_for(&self, now: Time) -> Option<Duration> {
        self.since.map(|since| now.since(since))
    }

    /// When [`Core::poll_peer`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.next
    }
}

impl Core {
    /// Begins to ask the master often, if it holds the epoch of the shared store.
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

    /// Questions without an answer so far say nothing about the master.
    pub(crate) fn forget_silence(&mut self) {
        self.election.silent_polls = 0;
        let polls = &mut self.election.peer_polls;
        (polls.is_open, polls.silent, polls.since) = (false, 0, None);
    }

    /// Asks the master, if that is due; after its silence claims the epoch over it.
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
        // The master repairs routes by LID sooner than this manager learns of other cables.
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

    /// Takes the answer to a question, or its silence.
    pub(crate) fn on_peer_poll(&mut self, completion: &Completion<Context>) {
        let Ok(response) = &completion.outcome else {
            // The next question counts this one as unanswered.
            return;
        };
        let info = SmInfo::from_data(&response.data);
        // A master hides its SM_Key (0) from a question with a key of before (IBA 14.2.4.2).
        let shows_other_key = ![0, self.config.identity.sm_key].contains(&info.sm_key());
        if !response.status.is_ok() || shows_other_key {
            return;
        }
        if let Role::Standby { master } = &self.election.role {
            if info.guid() != master.guid {
                // Its LID has gone to another manager.
                return;
            }
            // The master may have rotated its keys: all others are tried with the new generation.
            self.inventory.key_answered(master.port, completion.m_key);
            self.follow_generations();
        }
        let polls = &mut self.election.peer_polls;
        (polls.is_open, polls.silent, polls.since) = (false, 0, None);
        if info.sm_state() == SmState::Master {
            self.withdraw_claim();
        } else if matches!(self.election.role, Role::Standby { .. }) {
            // It is no longer master: the usual question decides which manager is.
            self.work.poll_master();
        }
    }
}
