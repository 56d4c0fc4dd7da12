//! Events: hosts subscribe to notices, and get reports of them (IBA 13.4.8.3, 13.4.9, 15.2.5.12).
//!
//! [`Events`] is a state machine without I/O. It handles requests with InformInfo (`Events::set`),
//! shows subscriptions to queries in a [`SubscriptionsView`], handles notices
//! ([`Events::publish`]), and returns the reports to send (`Events::poll_report`).
//!
//! Each queue pair that subscribed gets one report of each notice, however many of its
//! subscriptions match. The next report is sent after the previous report was answered. An
//! unanswered report is sent again; after [`limits::ATTEMPTS`] attempts, the subscriptions of the
//! queue pair end. A slow subscriber misses superseded notices instead of getting all notices late
//! (module `journal`). An absent port gets no reports, and its subscriptions end after
//! `limits::KEEP`.

mod interest;
mod journal;
pub mod limits;
mod presence;
mod published_notice;
mod reports;
mod saved;
mod subscribe;
mod subscription;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_ids::Guid;
use rsm_mad::Time;

pub use self::interest::{Interest, Sources};
use self::journal::NoticeJournal;
pub use self::published_notice::{Audience, PublishedNotice};
pub use self::reports::NoticeReport;
use self::reports::Reports;
pub use self::saved::SavedSubscription;
pub(crate) use self::subscribe::SubscriptionRequester;
pub use self::subscription::{SubscriberId, Subscription, SubscriptionId};
pub use self::view::SubscriptionsView;

/// Counts of notices and reports.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReportCounters {
    /// Notices accepted.
    pub notices: u64,
    /// Notices superseded by later notices about the same subject.
    pub(crate) coalesced: u64,
    /// Notices dropped for lack of room; slow subscribers may have missed them.
    pub dropped: u64,
    /// Reports sent, not counting repetitions.
    pub reports: u64,
    /// Reports sent again.
    pub repeated: u64,
    /// Reports answered.
    pub answered: u64,
    /// Answers that match no pending report, because they are late or come from another port.
    pub stray: u64,
    /// Reports without an answer, which ended their subscriptions.
    pub unanswered: u64,
}

/// All subscriptions, and the reports to their subscribers.
#[derive(Debug, Default)]
pub struct Events {
    /// Subscriptions, shared with views; a change copies the map while a view holds it.
    subscriptions: Arc<BTreeMap<SubscriptionId, Subscription>>,
    journal: NoticeJournal,
    reports: Reports,
    /// Absent ports with subscriptions, each with the time at which its subscriptions end.
    absent_ports: BTreeMap<Guid, Time>,
    /// Whether anything has changed since the last [`Events::take_unsaved`].
    unsaved: bool,
    counters: ReportCounters,
}

impl Events {
    /// Accepts a notice, and queues the subscribers that may get reports of it.
    pub fn publish(&mut self, published: PublishedNotice, now: Time) {
        self.counters.notices += 1;
        if self.reports.is_empty() {
            // There are no subscribers.
            return;
        }
        if self.journal.publish(published, now) {
            self.reports.wake_all(&self.journal);
        }
    }

    /// All subscriptions at this moment.
    pub fn view(&self) -> SubscriptionsView {
        SubscriptionsView::of(self.subscriptions.clone())
    }

    /// Number of subscriptions.
    pub fn len(&self) -> usize {
        self.subscriptions.len()
    }

    /// Whether there are no subscriptions.
    pub fn is_empty(&self) -> bool {
        self.subscriptions.is_empty()
    }

    /// Counts of notices and reports.
    pub fn counters(&self) -> ReportCounters {
        ReportCounters {
            coalesced: self.journal.coalesced(),
            dropped: self.journal.dropped(),
            ..self.counters
        }
    }

    /// Whether there are changes to save.
    pub(crate) fn is_unsaved(&self) -> bool {
        self.unsaved
    }

    /// Whether there are changes to save; marks them as saved.
    pub(crate) fn take_unsaved(&mut self) -> bool {
        std::mem::take(&mut self.unsaved)
    }

    /// Time at which `Events::handle_deadline` next has work, or `Events::poll_report` may have
    /// another report; `None` if no work is pending.
    pub fn next_deadline(&self) -> Option<Time> {
        let absent_ports = self.absent_ports.values().copied().min();
        [
            self.journal.next_deadline(),
            self.reports.next_deadline(),
            absent_ports,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Ends all subscriptions of a subscriber.
    fn end_all_of(&mut self, subscriber: SubscriberId) {
        for number in self.reports.remove(subscriber) {
            let id = SubscriptionId {
                port: subscriber.port,
                number,
            };
            Arc::make_mut(&mut self.subscriptions).remove(&id);
        }
        self.unsaved = true;
    }

    /// Ends a single subscription.
    fn end_subscription(&mut self, id: SubscriptionId) {
        if let Some(ended) = Arc::make_mut(&mut self.subscriptions).remove(&id) {
            self.reports.unsubscribe(ended.subscriber(id), id.number);
            self.unsaved = true;
        }
    }

    /// The subscriptions of a port, in the order of their numbers.
    fn of_port(&self, port: Guid) -> impl Iterator<Item = (SubscriptionId, &Subscription)> {
        let id = |number| SubscriptionId { port, number };
        let range = self.subscriptions.range(id(0)..=id(u16::MAX));
        range.map(|(&id, subscription)| (id, subscription))
    }

    /// GUIDs of the ports that have subscriptions.
    fn ports(&self) -> BTreeSet<Guid> {
        self.reports.ports().collect()
    }
}
