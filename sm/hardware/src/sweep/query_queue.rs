//! The queries of a sweep: waiting, under way and settled.

use std::collections::{HashSet, VecDeque};

use rsm_ids::PortKey;

use super::Query;

/// The queries of one sweep. A query is sent at most once unless it is pushed again.
#[derive(Debug, Default)]
pub(super) struct QueryQueue {
    /// Ports behind which NodeInfo is asked for. Probes go first, because each answer leads to more
    /// queries.
    probes: VecDeque<PortKey>,
    /// Other queries, sent when no probe waits. In this order, the sweep has probed nearly every
    /// cable from one end before PortInfo of the other end suggests another probe of the cable.
    others: VecDeque<Query>,
    /// Queries of this sweep that wait or were sent, except forgotten queries.
    asked: HashSet<Query>,
    /// Queries of `asked` that are not sent yet.
    waiting: HashSet<Query>,
    /// Number of queries sent and not yet settled or withdrawn.
    outstanding: usize,
    /// Number of queries settled, by an answer or by silence.
    settled: usize,
}

impl QueryQueue {
    /// Adds `query`, even if it was sent before: a query under way may show an old state. Does
    /// nothing if `query` still waits, because its answer will show the new state.
    pub(super) fn push(&mut self, query: Query) {
        self.asked.insert(query);
        if self.waiting.insert(query) {
            match query {
                Query::Node(Some(port)) => self.probes.push_back(port),
                _ => self.others.push_back(query),
            }
        }
    }

    /// Removes and returns the next query; `None` if none waits.
    pub(super) fn pop(&mut self) -> Option<Query> {
        let query = match self.probes.pop_front() {
            Some(port) => Query::Node(Some(port)),
            None => self.others.pop_front()?,
        };
        self.waiting.remove(&query);
        Some(query)
    }

    /// Whether `query` waits or was sent, and was not forgotten since.
    pub(super) fn has_asked(&self, query: Query) -> bool {
        self.asked.contains(&query)
    }

    /// The queries that wait or were sent, except forgotten queries, in no order.
    pub(super) fn asked(&self) -> impl Iterator<Item = Query> + '_ {
        self.asked.iter().copied()
    }

    /// Forgets that `query` was asked, so that it may be asked again. Returns whether it was asked.
    pub(super) fn forget(&mut self, query: Query) -> bool {
        self.asked.remove(&query)
    }

    /// Takes back the waiting queries for which `is_needless` returns true, probes excepted, and
    /// forgets that they were asked.
    pub(super) fn take_back(&mut self, is_needless: impl Fn(Query) -> bool) -> Vec<Query> {
        let others = std::mem::take(&mut self.others).into_iter();
        let (taken, others): (Vec<Query>, Vec<Query>) =
            others.partition(|&query| is_needless(query));
        self.others = others.into();
        for query in &taken {
            self.waiting.remove(query);
            self.asked.remove(query);
        }
        taken
    }

    /// Counts a query taken by [`QueryQueue::pop`] as under way.
    pub(super) fn sent(&mut self) {
        self.outstanding += 1;
    }

    /// Counts a query under way as settled, by an answer or by silence.
    pub(super) fn settle(&mut self) {
        self.withdraw();
        self.settled += 1;
    }

    /// Counts a query as no longer under way, without counting it as settled.
    pub(super) fn withdraw(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
    }

    /// Empties the queue: no query counts as asked or waiting any more; queries under way still
    /// count as open. Returns the queries that waited, probes first.
    pub(super) fn start_over(&mut self) -> Vec<Query> {
        self.asked.clear();
        self.waiting.clear();
        let probes = std::mem::take(&mut self.probes).into_iter();
        let probes = probes.map(|port| Query::Node(Some(port)));
        probes.chain(std::mem::take(&mut self.others)).collect()
    }

    /// Whether no query waits; queries may be under way.
    pub(super) fn all_sent(&self) -> bool {
        self.probes.is_empty() && self.others.is_empty()
    }

    /// Number of queries that wait or are under way.
    pub(super) fn open(&self) -> usize {
        self.outstanding + self.probes.len() + self.others.len()
    }

    /// Number of queries settled.
    pub(super) fn settled(&self) -> usize {
        self.settled
    }
}

#[cfg(test)]
mod tests {
    use rsm_ids::{Guid, PortNum};

    use super::*;

    #[test]
    fn probes_go_first_and_a_query_pushed_twice_is_sent_once() {
        let mut queue = QueryQueue::default();
        let port = PortKey::new(Guid(1), PortNum(1));
        let (switch, probe) = (Query::Switch(Guid(1)), Query::Node(Some(port)));
        for query in [switch, probe, switch] {
            queue.push(query);
        }
        assert_eq!(queue.open(), 2);
        assert_eq!(queue.pop(), Some(probe));
        assert_eq!(queue.pop(), Some(switch));
        assert_eq!(queue.pop(), None);
        assert!(queue.has_asked(switch) && queue.all_sent());
        queue.push(switch);
        assert_eq!(queue.pop(), Some(switch), "sent before, asked again");
    }

    #[test]
    fn a_queue_is_open_until_its_last_query_is_settled() {
        let mut queue = QueryQueue::default();
        queue.push(Query::Switch(Guid(1)));
        assert!(queue.pop().is_some());
        queue.sent();
        assert_eq!(queue.open(), 1);
        queue.settle();
        assert_eq!((queue.open(), queue.settled()), (0, 1));
        assert!(queue.forget(Query::Switch(Guid(1))));
        assert!(!queue.has_asked(Query::Switch(Guid(1))));
    }
}
