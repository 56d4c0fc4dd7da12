//! Polls of a master that shares the standby's store.
//!
//! A master that shares the store runs rsm, and the store has all of its state. A takeover from
//! this master is cheap, so the standby polls it ten times per second. Other masters are polled at
//! the interval [`MastershipPolicy::standby_poll`](crate::MastershipPolicy::standby_poll).
//!
//! The standby replaces the master after three unanswered polls. A master with such a standby
//! already doubts its own mastership after a pause shorter than that.

use std::time::Duration;

use rsm_ids::Lid;
use rsm_mad::Time;

/// Time between two polls. A poll that is not answered by then is withdrawn and counts as
/// unanswered.
const PEER_POLL: Duration = Duration::from_millis(100);

/// Number of successive unanswered polls after which the master counts as gone.
const PEER_POLL_LIMIT: u32 = 3;

/// Time for which the master may leave polls unanswered while it shows signs of life in the store.
/// A long computation only delays answers, and may take this long; a lost cable ends them.
const PATIENCE: Duration = Duration::from_secs(2);

/// The polls, and their answers so far.
#[derive(Debug, Default)]
pub(crate) struct PeerPolls {
    /// Time of the next poll; `None` if there is no master, or it does not share the store.
    next: Option<Time>,
    /// Whether a poll is not answered yet.
    is_open: bool,
    /// Number of successive unanswered polls.
    unanswered: u32,
    /// Time at which the first of them counted as unanswered; `None` without any.
    silent_since: Option<Time>,
}

impl PeerPolls {
    /// Begins or continues the polls if the master shares the store (`is_peer`); else ends the
    /// polls.
    pub(crate) fn follow(&mut self, is_peer: bool, now: Time) {
        if !is_peer {
            *self = PeerPolls::default();
        } else if self.next.is_none() {
            self.next = Some(now + PEER_POLL);
        }
    }

    /// Whether a poll is due at `now`.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.next.is_some_and(|due| due <= now)
    }

    /// Whether a master is polled.
    pub(crate) fn is_on(&self) -> bool {
        self.next.is_some()
    }

    /// Begins a poll at `now`. Returns whether the former poll is unanswered and must be withdrawn.
    pub(crate) fn begin(&mut self, now: Time) -> bool {
        self.next = Some(now + PEER_POLL);
        let is_unanswered = std::mem::replace(&mut self.is_open, true);
        if is_unanswered {
            self.unanswered = self.unanswered.saturating_add(1);
            self.silent_since.get_or_insert(now);
        }
        is_unanswered
    }

    /// Ends the series of unanswered polls: the master answered, or the polls prove nothing.
    pub(crate) fn end_silence(&mut self) {
        (self.is_open, self.unanswered, self.silent_since) = (false, 0, None);
    }

    /// Number of successive unanswered polls.
    pub(crate) fn unanswered(&self) -> u32 {
        self.unanswered
    }

    /// Whether the master is gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.unanswered >= PEER_POLL_LIMIT
    }

    /// Whether the master has been silent for so long that a claim ignores its signs of life in the
    /// store.
    pub(crate) fn exceeds_patience(&self, now: Time) -> bool {
        self.silent_since
            .is_some_and(|since| now.since(since) >= PATIENCE)
    }

    /// Destination LID for this poll; `None` if the poll takes a directed route. Some polls are
    /// LID-routed, because the master repairs LID routes sooner than this manager learns about
    /// changed cables.
    pub(crate) fn lid_for_poll(&self, lid: Lid) -> Option<Lid> {
        let is_turn = !(self.unanswered / 2).is_multiple_of(2);
        Some(lid).filter(|lid| is_turn && lid.is_unicast())
    }

    /// Time since the first of the successive unanswered polls; `None` without any.
    pub(crate) fn silent_for(&self, now: Time) -> Option<Duration> {
        self.silent_since.map(|since| now.since(since))
    }

    /// Time of the next poll; `None` if there is none.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends this number of polls, each when it is due. Returns the time of the last one.
    fn poll(polls: &mut PeerPolls, times: u32) -> Time {
        let mut now = Time::ZERO;
        for _ in 0..times {
            now = polls.deadline().unwrap();
            assert!(polls.is_due(now));
            polls.begin(now);
        }
        now
    }

    #[test]
    fn three_unanswered_polls_mean_that_the_master_is_gone_and_an_answer_ends_the_series() {
        let mut polls = PeerPolls::default();
        polls.follow(true, Time::ZERO);
        // The first poll is unanswered when the second one begins.
        poll(&mut polls, PEER_POLL_LIMIT);
        assert!(!polls.is_gone());
        let now = poll(&mut polls, 1);
        assert!(polls.is_gone());
        assert!(!polls.exceeds_patience(now));
        let now = poll(&mut polls, 20);
        assert!(polls.exceeds_patience(now));
        polls.end_silence();
        assert!(!polls.is_gone());
        assert_eq!(polls.silent_for(now), None);
    }

    #[test]
    fn a_master_that_does_not_share_the_store_is_not_polled() {
        let mut polls = PeerPolls::default();
        polls.follow(true, Time::ZERO);
        polls.follow(false, Time::ZERO);
        assert_eq!(polls.deadline(), None);
    }
}
