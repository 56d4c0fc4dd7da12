//! The queries of a sweep: those that wait, the number of those under way, and all that were asked.

use std::collections::{HashSet, VecDeque};

use rsm_ids::PortKey;

use super::Query;

/// The queries of a sweep, each at most once unless it is put again.
#[derive(Default, Debug)]
pub(super) struct Queries {
    /// Ports behind which NodeInfo is asked for. These come first, because each answer opens more
    /// queries.
    probes: VecDeque<PortKey>,
    /// Other queries, sent when no probe waits. So the sweep crosses nearly every cable from one
    /// end before PortInfo of the other end suggests to probe it again.
    others: VecDeque<Query>,
    /// Queries of this sweep, sent or waiting.
    asked: HashSet<Query>,
    /// Queries of `asked` that are not sent yet.
    waiting: HashSet<Query>,
    outstanding: usize,
    /// Number of queries settled, by an answer or by silence.
    settled: usize,
}

impl Queries {
    /// Whether `query` was asked in this sweep, or waits.
    pub(super) fn has(&self, query: Query) -> bool {
        self.asked.contains(&query)
    }

    /// All queries asked in this sweep, in no particular order.
    pub(super) fn asked(&self) -> impl Iterator<Item = Query> + '_ {
        self.asked.iter().copied()
    }

    /// Queues `query`, unless it waits already.
    pub(super) fn put(&mut self, query: Query) {
        self.asked.insert(query);
        if self.waiting.insert(query) {
            match query {
                Query::Node(Some(port)) => self.probes.push_back(port),
                _ => self.others.push_back(query),
            }
        }
    }

    /// Takes the next query that waits; `None` if none does.
    pub(super) fn next(&mut self) -> Option<Query> {
        let query = match self.probes.pop_front() {
            Some(port) => Query::Node(Some(port)),
            None => self.others.pop_front()?,
        };
        self.waiting.remove(&query);
        Some(query)
    }

    /// Forgets that `query` was asked, so that it may be asked again. Returns whether it was.
    pub(super) fn forget(&mut self, query: Query) -> bool {
        self.asked.remove(&query)
    }

    /// Takes all queries that wait, and forgets which ones were asked.
    pub(super) fn take_waiting(&mut self) -> impl Iterator<Item = Query> + use<> {
        self.asked.clear();
        self.waiting.clear();
        let probes = std::mem::take(&mut self.probes).into_iter();
        let others = std::mem::take(&mut self.others);
        probes.map(|port| Query::Node(Some(port))).chain(others)
    }

    /// Records that a query is under way.
    pub(super) fn begin(&mut self) {
        self.outstanding += 1;
    }

    /// Records that a query is no longer under way.
    pub(super) fn end(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
    }

    /// Records that a query is settled.
    pub(super) fn settle(&mut self) {
        self.settled += 1;
    }

    /// Number of queries settled.
    pub(super) fn settled(&self) -> usize {
        self.settled
    }

    /// Number of queries that wait or are under way.
    pub(super) fn open(&self) -> usize {
        self.outstanding + self.probes.len() + self.others.len()
    }

    /// Whether no query waits to be sent.
    pub(super) fn are_sent(&self) -> bool {
        self.probes.is_empty() && self.others.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use rsm_ids::{Guid, PortNum};

    use super::*;

    #[test]
    fn probes_go_first_and_a_waiting_query_is_sent_once() {
        let mut queries = Queries::default();
        let port = PortKey::new(Guid(1), PortNum(1));
        let (switch, probe) = (Query::Switch(Guid(1)), Query::Node(Some(port)));
        for query in [switch, probe, switch] {
            queries.put(query);
        }
        assert_eq!(queries.open(), 2);
        assert_eq!(queries.next(), Some(probe));
        assert_eq!(queries.next(), Some(switch));
        assert_eq!(queries.next(), None);
        assert!(queries.has(switch) && queries.are_sent());
        queries.put(switch);
        assert_eq!(queries.next(), Some(switch), "sent before, asked again");
    }

    #[test]
    fn a_sweep_is_open_until_the_last_query_ends() {
        let mut queries = Queries::default();
        queries.put(Query::Switch(Guid(1)));
        assert!(queries.next().is_some());
        queries.begin();
        assert_eq!(queries.open(), 1);
        queries.end();
        queries.settle();
        assert_eq!((queries.open(), queries.settled()), (0, 1));
        assert!(queries.forget(Query::Switch(Guid(1))));
        assert!(!queries.has(Query::Switch(Guid(1))));
    }
}
