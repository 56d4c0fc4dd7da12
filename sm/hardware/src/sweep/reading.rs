//! The part of a sweep that the code for single attributes uses: queues queries, and records
//! whether an answer showed a change.

use std::collections::BTreeSet;

use rsm_ids::PortKey;
use rsm_model::capabilities::DeviceType;

use super::query_queue::QueryQueue;
use super::read_back::ReadBack;
use super::{Query, SweepPolicy, SweepScope};

/// The part of a [`Sweep`](super::Sweep) that reads attributes of known nodes, without paths and
/// suspects.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) scope: SweepScope,
    pub(super) policy: SweepPolicy,
    pub(super) queries: QueryQueue,
    pub(super) read_back: ReadBack,
    /// Ports whose known tables this sweep reads again, as an audit does for all ports; port 0
    /// stands for the tables of its node.
    pub(super) audited: BTreeSet<PortKey>,
    /// Device types whose capabilities this sweep has requested from a node.
    pub(super) asked_capabilities: BTreeSet<DeviceType>,
    /// Whether a report or answer showed a change.
    pub(super) changed: bool,
}

impl Reading {
    pub(super) fn new(scope: SweepScope, policy: SweepPolicy) -> Reading {
        Reading {
            scope,
            policy,
            queries: QueryQueue::default(),
            read_back: ReadBack::default(),
            audited: BTreeSet::new(),
            asked_capabilities: BTreeSet::new(),
            changed: false,
        }
    }

    /// Whether the sweep also reads known tables of the port.
    pub(super) fn audits(&self, key: PortKey) -> bool {
        matches!(self.scope, SweepScope::Full { audit: true }) || self.audited.contains(&key)
    }

    /// Queues a query, unless it waits or this sweep has sent it.
    pub(super) fn ask(&mut self, query: Query) {
        if self.queries.has_asked(query) {
            self.read_back.record_needed(query);
        } else {
            self.again(query);
        }
    }

    /// Queues a query even if this sweep has sent it, because the answer to a query under way may
    /// show an old state.
    pub(super) fn again(&mut self, query: Query) {
        self.read_back.record_needed(query);
        self.queries.push(query);
    }
}
