//! Queries whose search takes more than one step, such as Gets that name no LID. The searches take
//! turns, so that long searches do not delay short searches.

use std::collections::VecDeque;

use rsm_ids::Lid;
use rsm_mad::Time;

use super::{Sa, SaAnswer};

/// Maximum number of open searches. Each search examines a thousand candidates per turn and some
/// hundred thousand in total, so the last of these searches is answered within seconds, about as
/// long as a host waits.
const MAX_SEARCHES: usize = 64;

/// Maximum number of searches for one LID, so that other LIDs have room.
const MAX_PER_CLIENT: usize = 8;

/// A search for an answer.
#[derive(Debug)]
struct OpenSearch {
    answer: SaAnswer,
    /// Time at which the request arrived.
    at: Time,
}

/// The open searches, in the order of their turns.
#[derive(Debug, Default)]
pub struct Searches(VecDeque<OpenSearch>);

/// The result of [`Searches::admit`].
#[derive(Debug)]
pub enum SearchAdmission {
    /// The search was queued.
    Queued,
    /// The request repeats an earlier request (LID, QP and transaction ID) whose search is still
    /// open.
    Repeated,
    /// There is no room. Contains the answer unchanged, so that the caller can send BUSY.
    Refused(Box<SaAnswer>),
}

impl Searches {
    /// Whether no search is open.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Queues the search of an open answer to a request that arrived at `at`, within the bounds.
    pub fn admit(&mut self, answer: SaAnswer, at: Time) -> SearchAdmission {
        let remote = answer.remote;
        let tid = answer.header().mad().tid();
        let same = |other: &OpenSearch| {
            let (lid, qpn) = (other.answer.remote.lid, other.answer.remote.qpn);
            (lid, qpn) == (remote.lid, remote.qpn) && other.answer.header().mad().tid() == tid
        };
        if self.0.iter().any(same) {
            return SearchAdmission::Repeated;
        }
        if self.0.len() >= MAX_SEARCHES || self.count_of(remote.lid) >= MAX_PER_CLIENT {
            return SearchAdmission::Refused(Box::new(answer));
        }
        self.0.push_back(OpenSearch { answer, at });
        SearchAdmission::Queued
    }

    /// Number of open searches for one LID.
    fn count_of(&self, lid: Lid) -> usize {
        let searches = self.0.iter();
        searches
            .filter(|search| search.answer.remote.lid == lid)
            .count()
    }

    /// Gives the next search its turn. Returns the answer, if the turn completes it, and the time
    /// at which its request arrived.
    pub fn continue_search(&mut self, sa: &mut Sa) -> Option<(SaAnswer, Time)> {
        let OpenSearch { mut answer, at } = self.0.pop_front()?;
        if sa.continue_search(&mut answer) {
            return Some((answer, at));
        }
        self.0.push_back(OpenSearch { answer, at });
        None
    }
}

#[cfg(test)]
mod tests {
    use rsm_mad::ids::Tid;
    use rsm_mad::transport::RemoteAddress;
    use rsm_mad::wire::sa::SaStatus;

    use super::*;
    use crate::{SaConfig, WORK_PER_PULL};

    fn open(lid: u16, tid: u64, turns: usize) -> SaAnswer {
        let remote = RemoteAddress::gsi(Lid(lid), 0);
        let answer = SaAnswer::searched(remote, Tid(tid), (turns + 1) * WORK_PER_PULL - 1);
        assert!(answer.is_open());
        answer
    }

    #[test]
    fn searches_take_turns_and_short_searches_end_first() {
        let mut sa = Sa::new(SaConfig {
            sm_key: 0,
            ..SaConfig::default()
        });
        let mut searches = Searches::default();
        for (lid, turns) in [(1, 3), (2, 1), (3, 2)] {
            let taken = searches.admit(open(lid, 7, turns), Time::from_nanos(lid.into()));
            assert!(matches!(taken, SearchAdmission::Queued));
        }
        let mut order = Vec::new();
        let mut turns = 0;
        while !searches.is_empty() {
            turns += 1;
            if let Some((answer, at)) = searches.continue_search(&mut sa) {
                assert_eq!(answer.status(), SaStatus::NO_RECORDS);
                assert!(answer.datagram().is_some());
                assert_eq!(at, Time::from_nanos(answer.remote.lid.0.into()));
                order.push(answer.remote.lid.0);
            }
        }
        assert_eq!((order, turns), (vec![2, 3, 1], 6));
        let counted = sa.counters().answers;
        assert_eq!(counted.get(&SaStatus::NO_RECORDS), Some(&3));
    }

    #[test]
    fn searches_are_bounded_for_each_lid_and_in_total() {
        let mut searches = Searches::default();
        let mut taken = 0;
        for tid in 0..100 {
            match searches.admit(open(1, tid, 9), Time::ZERO) {
                SearchAdmission::Queued => taken += 1,
                SearchAdmission::Refused(answer) => {
                    assert_eq!(answer.header().mad().tid(), Tid(tid))
                }
                SearchAdmission::Repeated => panic!("{tid} is new"),
            }
        }
        assert_eq!(taken, MAX_PER_CLIENT);
        // The request is repeated before it is answered.
        let again = searches.admit(open(1, 0, 9), Time::ZERO);
        assert!(matches!(again, SearchAdmission::Repeated));
        for lid in 2..100 {
            let is_full = taken == MAX_SEARCHES;
            let took = searches.admit(open(lid, 0, 9), Time::ZERO);
            assert_eq!(matches!(took, SearchAdmission::Refused(_)), is_full);
            taken += usize::from(!is_full);
        }
        assert_eq!(taken, MAX_SEARCHES);
    }
}
