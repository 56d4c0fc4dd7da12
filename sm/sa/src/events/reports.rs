//! Reports to subscribers, and their answers (IBA 13.4.9).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_mad::ids::Tid;
use rsm_mad::transport::{Grh, RemoteAddress};
use rsm_mad::wire::MadBytes;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::header::Method;
use rsm_mad::wire::sa::{ComponentMask, SaMad};

use super::journal::NoticeJournal;
use super::limits::{
    ATTEMPTS, LONGEST_WAIT, MAX_REPORTS, MAX_REPORTS_PER_PORT, SHORTEST_WAIT, WORK_PER_POLL,
};
use super::published_notice::PublishedNotice;
use super::subscription::Verdict;
use super::{Events, SubscriberId, Subscription, SubscriptionId};
use crate::directory::Directory;
use crate::ends::EndIx;

/// Time by which the wait for an answer exceeds the transport's wait, because the transport must
/// give up first.
const GRACE: Duration = Duration::from_millis(100);

/// A report to send.
#[derive(Clone, Debug)]
pub struct NoticeReport {
    /// The datagram.
    pub mad: MadBytes,
    /// Address of the subscriber.
    pub remote: RemoteAddress,
    /// Time for which the transport waits for the answer.
    pub patience: Duration,
}

/// The subscribers, their positions in the journal, and the reports in flight.
#[derive(Debug, Default)]
pub(super) struct Reports {
    subscribers: BTreeMap<SubscriberId, Subscriber>,
    /// Subscribers that may have notices to receive, in the order of their turns.
    ready_queue: VecDeque<SubscriberId>,
    /// Subscribers whose report must be sent again.
    resend_queue: VecDeque<SubscriberId>,
    /// Subscribers with a pending report, by its transaction ID.
    by_tid: BTreeMap<u32, SubscriberId>,
    /// Physical ports with reports in flight, by GUID.
    busy_ports: BTreeMap<Guid, BusyPort>,
    /// Ends of the waits for answers.
    timers: BTreeSet<(Time, SubscriberId)>,
    last_tid: u32,
}

/// A physical port with reports in flight, to itself or its virtual ports.
#[derive(Debug, Default)]
struct BusyPort {
    in_flight: usize,
    /// Subscribers that wait until fewer reports are in flight, in the order of their turns.
    parked: Vec<SubscriberId>,
}

/// A queue pair that subscribed, with its position in the journal.
#[derive(Debug)]
struct Subscriber {
    address: RemoteAddress,
    /// See [`Subscription::p_key`].
    p_key: Option<PKey>,
    patience: Duration,
    /// Numbers of the subscriber's subscriptions.
    numbers: BTreeSet<u16>,
    /// Number of the next notice to examine.
    next: u64,
    pending: Option<PendingReport>,
    /// Whether the subscriber is in `ready_queue`, or parked at its port.
    is_queued: bool,
}

/// A report without an answer so far.
#[derive(Debug)]
struct PendingReport {
    tid: u32,
    /// GUID of the physical port that the report counts for.
    physical: Guid,
    /// Number of the notice.
    number: u64,
    published: Arc<PublishedNotice>,
    /// Number of times that the report was sent.
    attempts: u32,
    /// End of the wait for the answer; `None` while the report waits to be sent.
    until: Option<Time>,
}

impl Subscriber {
    /// The address for reports sent now. LIDs and indices in the tables of this manager's port may
    /// differ from those of the request, which another manager may have received.
    fn address_now(&self, at: EndIx, directory: &Directory) -> RemoteAddress {
        let p_key = self.p_key.map(|p_key| directory.own_p_key_index(p_key));
        RemoteAddress {
            lid: directory.end(at).lid,
            pkey_index: p_key.unwrap_or(self.address.pkey_index),
            // Index 0 is the port's own GID, which every port has.
            grh: self.address.grh.map(|grh| Grh {
                gid_index: 0,
                ..grh
            }),
            ..self.address
        }
    }
}

impl Reports {
    /// Whether there are no subscribers.
    pub(super) fn is_empty(&self) -> bool {
        self.subscribers.is_empty()
    }

    /// The ports that subscribed, one for each subscribing queue pair.
    pub(super) fn ports(&self) -> impl Iterator<Item = Guid> {
        self.subscribers.keys().map(|id| id.port)
    }

    /// Records a subscription of a queue pair, which receives notices from now on.
    pub(super) fn subscribe(
        &mut self,
        subscription: &Subscription,
        id: SubscriptionId,
        journal: &NoticeJournal,
    ) {
        let patience = wait_of(subscription.info.resp_time_value());
        let subscriber = self
            .subscribers
            .entry(subscription.subscriber(id))
            .or_insert_with(|| Subscriber {
                address: subscription.address,
                p_key: subscription.p_key,
                patience,
                numbers: BTreeSet::new(),
                next: journal.end(),
                pending: None,
                is_queued: false,
            });
        subscriber.address = subscription.address;
        subscriber.p_key = subscription.p_key;
        subscriber.patience = patience;
        subscriber.numbers.insert(id.number);
    }

    /// Records that a subscription has ended.
    pub(super) fn unsubscribe(&mut self, id: SubscriberId, number: u16) {
        let Some(subscriber) = self.subscribers.get_mut(&id) else {
            return;
        };
        subscriber.numbers.remove(&number);
        if subscriber.numbers.is_empty() {
            self.remove(id);
        }
    }

    /// Removes a subscriber. Returns the numbers of its subscriptions.
    pub(super) fn remove(&mut self, id: SubscriberId) -> BTreeSet<u16> {
        self.end_wait(id);
        for port in self.busy_ports.values_mut() {
            port.parked.retain(|&parked| parked != id);
        }
        let removed = self.subscribers.remove(&id);
        removed.map_or_else(BTreeSet::new, |subscriber| subscriber.numbers)
    }

    /// Queues all idle subscribers that have notices to examine.
    pub(super) fn wake_all(&mut self, journal: &NoticeJournal) {
        self.wake(&all_of(Guid(0), Guid(u64::MAX)), journal);
    }

    /// Queues the idle subscribers of one port that have notices to examine.
    pub(super) fn wake_port(&mut self, port: Guid, journal: &NoticeJournal) {
        self.wake(&all_of(port, port), journal);
    }

    fn wake(&mut self, subscribers: &RangeInclusive<SubscriberId>, journal: &NoticeJournal) {
        for (&id, subscriber) in self.subscribers.range_mut(subscribers.clone()) {
            let idle = !subscriber.is_queued && subscriber.pending.is_none();
            if idle && subscriber.next < journal.end() {
                subscriber.is_queued = true;
                self.ready_queue.push_back(id);
            }
        }
    }

    /// The subscribers of a port.
    pub(super) fn of_port(&self, port: Guid) -> Vec<SubscriberId> {
        let own = self.subscribers.range(all_of(port, port));
        own.map(|(&id, _)| id).collect()
    }

    /// Time of the next action; zero if a report can be sent now.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let has_room = self.by_tid.len() < MAX_REPORTS;
        let can_send = !self.resend_queue.is_empty() || has_room && !self.ready_queue.is_empty();
        if can_send {
            return Some(Time::ZERO);
        }
        self.timers.first().map(|&(due, _)| due)
    }

    /// Ends the wait for the answer of this subscriber. Returns the pending report, if there was
    /// one.
    fn end_wait(&mut self, id: SubscriberId) -> Option<PendingReport> {
        let pending = self.subscribers.get_mut(&id)?.pending.take()?;
        self.by_tid.remove(&pending.tid);
        if let Some(until) = pending.until {
            self.timers.remove(&(until, id));
        }
        if let Some(port) = self.busy_ports.get_mut(&pending.physical) {
            port.in_flight -= 1;
            self.ready_queue.extend(port.parked.drain(..));
            if port.in_flight == 0 {
                self.busy_ports.remove(&pending.physical);
            }
        }
        Some(pending)
    }

    /// Parks a subscriber if its physical port has as many reports in flight as it may have.
    /// Returns whether it did.
    fn park(&mut self, id: SubscriberId, physical: Guid) -> bool {
        let Some(port) = self.busy_ports.get_mut(&physical) else {
            return false;
        };
        let is_full = port.in_flight >= MAX_REPORTS_PER_PORT;
        if is_full && let Some(subscriber) = self.subscribers.get_mut(&id) {
            subscriber.is_queued = true;
            port.parked.push(id);
        }
        is_full
    }

    /// Records a report of the notice with this number as pending.
    fn begin(
        &mut self,
        id: SubscriberId,
        physical: Guid,
        (number, published): (u64, Arc<PublishedNotice>),
    ) {
        let tid = self.free_tid();
        let Some(subscriber) = self.subscribers.get_mut(&id) else {
            return;
        };
        subscriber.pending = Some(PendingReport {
            tid,
            physical,
            number,
            published,
            attempts: 0,
            until: None,
        });
        self.by_tid.insert(tid, id);
        self.busy_ports.entry(physical).or_default().in_flight += 1;
    }

    /// Queues a subscriber for a turn.
    fn enqueue(&mut self, id: SubscriberId) {
        if let Some(subscriber) = self.subscribers.get_mut(&id)
            && !subscriber.is_queued
        {
            subscriber.is_queued = true;
            self.ready_queue.push_back(id);
        }
    }

    /// Whether a subscriber's report must be sent again.
    fn is_due_again(&self, id: SubscriberId) -> bool {
        let subscriber = self.subscribers.get(&id);
        let pending = subscriber.and_then(|subscriber| subscriber.pending.as_ref());
        pending.is_some_and(|pending| pending.until.is_none())
    }

    /// A transaction ID that is not in use.
    fn free_tid(&mut self) -> u32 {
        loop {
            self.last_tid = self.last_tid.wrapping_add(1);
            // At most MAX_REPORTS transaction IDs are in use, so this loop ends.
            if self.last_tid != 0 && !self.by_tid.contains_key(&self.last_tid) {
                return self.last_tid;
            }
        }
    }

    /// Sends the pending report of a subscriber, for the first time or again.
    fn send(
        &mut self,
        id: SubscriberId,
        at: EndIx,
        directory: &Directory,
        now: Time,
    ) -> Option<NoticeReport> {
        let subscriber = self.subscribers.get_mut(&id)?;
        let pending = subscriber.pending.as_mut()?;
        let until = now + subscriber.patience + GRACE;
        if let Some(before) = pending.until.replace(until) {
            self.timers.remove(&(before, id));
        }
        self.timers.insert((until, id));
        pending.attempts += 1;
        let tid = Tid(u64::from(pending.tid));
        let notice = &pending.published.notice;
        let mad = SaMad::request(Method::REPORT, tid, ComponentMask::NONE, notice);
        Some(NoticeReport {
            mad: *mad.as_bytes(),
            remote: subscriber.address_now(at, directory),
            patience: subscriber.patience,
        })
    }
}

impl Events {
    /// The next report to send; `None` if no report can be sent at present. If
    /// [`Events::next_deadline`] is already due after `None`, the caller must call this method
    /// again after other work had its turn.
    pub(crate) fn poll_report(&mut self, directory: &Directory, now: Time) -> Option<NoticeReport> {
        while let Some(id) = self.reports.resend_queue.pop_front() {
            if !self.reports.is_due_again(id) {
                continue;
            }
            let at = directory.by_guid(id.port);
            if let Some(report) = at.and_then(|at| self.reports.send(id, at, directory, now)) {
                self.counters.repeated += 1;
                return Some(report);
            }
            self.postpone(id);
        }
        let mut work = WORK_PER_POLL;
        while work > 0 && self.reports.by_tid.len() < MAX_REPORTS {
            let id = self.reports.ready_queue.pop_front()?;
            work -= 1;
            let Some(subscriber) = self.reports.subscribers.get_mut(&id) else {
                continue;
            };
            subscriber.is_queued = false;
            if subscriber.pending.is_some() {
                // Its former subscription left a second place in the queue.
                continue;
            }
            let Some(at) = directory.by_guid(id.port) else {
                // The subscriber gets its turn once its port is back.
                continue;
            };
            let physical = directory.physical_guid(at);
            if self.reports.park(id, physical) {
                continue;
            }
            match self.next_notice(id, at, directory, &mut work) {
                Some(notice) => {
                    self.reports.begin(id, physical, notice);
                    self.counters.reports += 1;
                    return self.reports.send(id, at, directory, now);
                }
                None if work == 0 => self.reports.enqueue(id),
                None => {}
            }
        }
        None
    }

    /// The next notice that a subscriber requested and may receive, with its number. `None` if no
    /// such notice exists yet, or if `work`, the number of remaining comparisons, reached zero
    /// first. Ends the subscriptions that the subscriber's P_Keys no longer permit.
    fn next_notice(
        &mut self,
        id: SubscriberId,
        at: EndIx,
        directory: &Directory,
        work: &mut usize,
    ) -> Option<(u64, Arc<PublishedNotice>)> {
        let p_keys = directory.p_keys(at);
        let mut barred = Vec::new();
        let mut found = None;
        if let Some(subscriber) = self.reports.subscribers.get_mut(&id) {
            let mut next = subscriber.next.max(self.journal.start());
            while found.is_none() && *work > 0 && next < self.journal.end() {
                let published = self.journal.get(next);
                *work = work.saturating_sub(subscriber.numbers.len());
                if let Some(published) = published {
                    let wanted = subscriber.numbers.iter().any(|&number| {
                        let port = id.port;
                        let id = SubscriptionId { port, number };
                        let Some(subscription) = self.subscriptions.get(&id) else {
                            return false;
                        };
                        match subscription.verdict(published, p_keys) {
                            Verdict::Report => true,
                            Verdict::Barred => {
                                barred.push(id);
                                false
                            }
                            Verdict::NoReport => false,
                        }
                    });
                    found = wanted.then(|| (next, published.clone()));
                }
                next += 1;
            }
            subscriber.next = next;
        }
        for subscription in barred {
            self.end_subscription(subscription);
        }
        found
    }

    /// Handles an answer to a report, from the queue pair `qpn` of port `from`.
    pub(crate) fn answered(&mut self, tid: Tid, from: Guid, qpn: u32) {
        let id = SubscriberId { port: from, qpn };
        if self.reports.by_tid.get(&tid.low()) != Some(&id) {
            self.counters.stray += 1;
            return;
        }
        self.counters.answered += 1;
        self.reports.end_wait(id);
        self.reports.enqueue(id);
    }

    /// Records that the transport gave up waiting for the answer to a report.
    pub(crate) fn unanswered(&mut self, tid: Tid) {
        if let Some(&id) = self.reports.by_tid.get(&tid.low()) {
            self.handle_unanswered(id);
        }
    }

    /// Handles the reports whose wait for an answer has ended.
    pub(super) fn handle_reports(&mut self, now: Time) {
        while let Some(&(due, id)) = self.reports.timers.first()
            && due <= now
        {
            self.handle_unanswered(id);
        }
    }

    /// Handles a report that was not answered in time. The report is sent again, or postponed until
    /// the port is back; after [`ATTEMPTS`], the subscriber's subscriptions end.
    fn handle_unanswered(&mut self, id: SubscriberId) {
        let subscriber = self.reports.subscribers.get_mut(&id);
        let Some(pending) = subscriber.and_then(|subscriber| subscriber.pending.as_mut()) else {
            return;
        };
        let Some(until) = pending.until.take() else {
            // The report already waits to be sent again.
            return;
        };
        self.reports.timers.remove(&(until, id));
        if pending.attempts < ATTEMPTS {
            self.reports.resend_queue.push_back(id);
        } else if self.absent_ports.contains_key(&id.port) {
            self.postpone(id);
        } else {
            self.counters.unanswered += 1;
            self.end_all_of(id);
        }
    }

    /// Cancels a report that cannot be sent. The subscriber receives it when its port is back.
    fn postpone(&mut self, id: SubscriberId) {
        if let Some(pending) = self.reports.end_wait(id)
            && let Some(subscriber) = self.reports.subscribers.get_mut(&id)
        {
            subscriber.next = pending.number;
        }
    }
}

/// The range of all subscribers at the ports from `first` to `last`.
fn all_of(first: Guid, last: Guid) -> RangeInclusive<SubscriberId> {
    let id = |port, qpn| SubscriberId { port, qpn };
    id(first, 0)..=id(last, u32::MAX)
}

/// Time to wait for an answer of a subscriber whose stated response time is 4.096 µs ×
/// 2^`resp_time_value`.
fn wait_of(resp_time_value: u8) -> Duration {
    // The longest stated time is 2^31 × 4.096 µs, which fits.
    let stated = Duration::from_nanos(4096u64 << resp_time_value.min(31));
    stated.clamp(SHORTEST_WAIT, LONGEST_WAIT)
}
