//! Counters of requests to the SA and of its answers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rsm_mad::wire::header::{AttrId, Method, Status};
use rsm_mad::wire::sa::SaStatus;

use super::latencies::{Latencies, LatencyCounts};
use super::query::{ATTRIBUTES, METHODS};

/// Statuses with counters of their own: the statuses common to all classes, and the statuses of the
/// class SubnAdm (IBA 15.2.3).
const STATUSES: [Status; 15] = [
    Status::OK,
    Status::BUSY,
    Status::REDIRECT,
    Status::BAD_VERSION,
    Status::UNSUPPORTED_METHOD,
    Status::UNSUPPORTED_METHOD_ATTRIBUTE,
    Status::INVALID_FIELD,
    SaStatus::NO_RESOURCES,
    SaStatus::REQ_INVALID,
    SaStatus::NO_RECORDS,
    SaStatus::TOO_MANY_RECORDS,
    SaStatus::REQ_INVALID_GID,
    SaStatus::REQ_INSUFFICIENT_COMPONENTS,
    SaStatus::REQ_DENIED,
    SaStatus::REQ_PRIORITY_SUGGESTED,
];

/// Counters since the start of the daemon. Several threads may count while others read.
#[derive(Debug)]
pub struct Statistics {
    /// Requests, by index in [`ATTRIBUTES`] and [`METHODS`].
    requests: [[AtomicU64; METHODS.len()]; ATTRIBUTES.len()],
    other_requests: AtomicU64,
    /// Answers, by index in [`STATUSES`].
    answers: [AtomicU64; STATUSES.len()],
    other_answers: AtomicU64,
    latencies: Latencies,
    busy: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
    ignored: AtomicU64,
    wrong_keys: AtomicU64,
    unknown_issuers: AtomicU64,
    unserved: AtomicU64,
    act_count: AtomicU32,
}

/// Values of the counters. Each value is exact, but the values are not all of the same moment.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SaCounters {
    /// Accepted requests by attribute and method, without zeroes. Unknown attributes and methods
    /// count under [`SaCounters::OTHER`].
    pub requests: BTreeMap<(AttrId, Method), u64>,
    /// Answers by status, without zeroes.
    pub answers: BTreeMap<Status, u64>,
    /// Answer times: from the reading of a request at the port until its answer, or the first
    /// datagram of a table, is passed to the transport.
    pub latencies: LatencyCounts,
    /// Requests refused with BUSY for lack of room before they were examined, and tables refused
    /// for lack of room.
    pub busy: u64,
    /// Messages dropped without an answer for lack of room: answers, and packets of longer
    /// messages, which the sender repeats. Includes refusals that could not be sent.
    pub dropped: u64,
    /// Answers that could not be sent.
    pub failed: u64,
    /// Messages that get no answer: responses, and bytes that are not a message of the class.
    pub ignored: u64,
    /// Requests with a wrong SM_Key, which get no answer.
    pub wrong_keys: u64,
    /// Traps of ports that the directory lacks, which go to no subscriber.
    pub unknown_issuers: u64,
    /// Requests that are not answered, because this manager is not master, has no plan yet, or does
    /// not have the requester's LID in its directory yet, or because no port has the GID in the
    /// global route header while trust is enforced.
    pub unserved: u64,
}

impl SaCounters {
    /// Key of unknown attributes and methods, so that a requester cannot fill the table with
    /// numbers.
    pub const OTHER: (AttrId, Method) = (AttrId(0), Method(0));

    /// Key of statuses that the class does not define.
    pub const OTHER_STATUS: Status = Status(u16::MAX);
}

fn zeroes<const N: usize>() -> [AtomicU64; N] {
    std::array::from_fn(|_| AtomicU64::new(0))
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics {
            requests: std::array::from_fn(|_| zeroes()),
            other_requests: AtomicU64::new(0),
            answers: zeroes(),
            other_answers: AtomicU64::new(0),
            latencies: Latencies::default(),
            busy: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            ignored: AtomicU64::new(0),
            wrong_keys: AtomicU64::new(0),
            unknown_issuers: AtomicU64::new(0),
            unserved: AtomicU64::new(0),
            act_count: AtomicU32::new(0),
        }
    }
}

impl Statistics {
    /// Counts an accepted request.
    pub fn count_request(&self, attribute: AttrId, method: Method) {
        let row = ATTRIBUTES.iter().position(|&known| known == attribute);
        let column = METHODS.iter().position(|&known| known == method);
        add(match row.zip(column) {
            Some((row, column)) => &self.requests[row][column],
            None => &self.other_requests,
        });
    }

    /// Counts an answer by its status.
    pub fn count_answer(&self, status: Status) {
        let index = STATUSES.iter().position(|&known| known == status);
        add(index.map_or(&self.other_answers, |index| &self.answers[index]));
    }

    /// Counts an answer that was passed to the transport, with the time since its request was read.
    pub fn answered(&self, latency: Duration) {
        self.latencies.add(latency);
    }

    /// Counts a request refused for lack of room.
    pub fn busy(&self) {
        add(&self.busy);
    }

    /// Counts a message dropped without an answer.
    pub fn dropped(&self) {
        add(&self.dropped);
    }

    /// Counts an answer that could not be sent.
    pub fn failed(&self) {
        add(&self.failed);
    }

    /// Counts a message that gets no answer.
    pub fn ignored(&self) {
        add(&self.ignored);
    }

    /// Counts a request with a wrong SM_Key.
    pub(crate) fn wrong_key(&self) {
        add(&self.wrong_keys);
    }

    /// Counts a trap of an unknown port.
    pub(crate) fn unknown_issuer(&self) {
        add(&self.unknown_issuers);
    }

    /// Counts a request that the SA cannot answer yet.
    pub fn unserved(&self) {
        add(&self.unserved);
    }

    /// Sets ActCount in this manager's SMInfo. The core counts it, without the work of the SA.
    pub fn show_act_count(&self, act_count: u32) {
        self.act_count.store(act_count, Ordering::Relaxed);
    }

    /// ActCount in this manager's SMInfo.
    pub(crate) fn act_count(&self) -> u32 {
        self.act_count.load(Ordering::Relaxed)
    }

    /// Values of the counters so far.
    pub fn counters(&self) -> SaCounters {
        let rows = ATTRIBUTES.into_iter().zip(&self.requests);
        let known = rows.flat_map(|(attribute, row)| {
            let cells = METHODS.into_iter().zip(row);
            cells.map(move |(method, count)| ((attribute, method), read(count)))
        });
        let statuses = STATUSES.into_iter().zip(self.answers.iter().map(read));
        SaCounters {
            requests: known
                .chain([(SaCounters::OTHER, read(&self.other_requests))])
                .filter(|&(_, count)| count > 0)
                .collect(),
            answers: statuses
                .chain([(SaCounters::OTHER_STATUS, read(&self.other_answers))])
                .filter(|&(_, count)| count > 0)
                .collect(),
            latencies: self.latencies.counts(),
            busy: read(&self.busy),
            dropped: read(&self.dropped),
            failed: read(&self.failed),
            ignored: read(&self.ignored),
            wrong_keys: read(&self.wrong_keys),
            unknown_issuers: read(&self.unknown_issuers),
            unserved: read(&self.unserved),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_attributes_and_unknown_statuses_are_each_counted_together() {
        let statistics = Statistics::default();
        assert_eq!(statistics.counters(), SaCounters::default());
        let path = AttrId(0x35);
        for (attribute, method) in [
            (path, Method::GET),
            (path, Method::GET),
            (path, Method::GET_TABLE),
            (path, Method(0x40)),
            (AttrId(0xFF90), Method::GET),
        ] {
            statistics.count_request(attribute, method);
        }
        let expected = [
            (SaCounters::OTHER, 2),
            ((path, Method::GET), 2),
            ((path, Method::GET_TABLE), 1),
        ];
        assert_eq!(statistics.counters().requests, expected.into());

        for status in [Status::OK, SaStatus::REQ_DENIED, Status::OK, Status(0x0900)] {
            statistics.count_answer(status);
        }
        let expected = [
            (Status::OK, 2),
            (SaStatus::REQ_DENIED, 1),
            (SaCounters::OTHER_STATUS, 1),
        ];
        assert_eq!(statistics.counters().answers, expected.into());
    }
}
