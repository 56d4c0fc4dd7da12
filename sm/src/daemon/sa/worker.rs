//! Answers the SA's messages on its own thread.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::time::Duration;

use parking_lot::Mutex;
use rsm_core::Event;
use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_mad::client::rmpp::Refused;
use rsm_mad::messenger::{Delivery, Left, Messenger, NotSent};
use rsm_mad::transport::{Message, RemoteAddress, SendError};
use rsm_mad::wire::header::Status;
use rsm_mad::wire::sa::{SaHeader, SaStatus};
use rsm_model::alias_guids::AliasGuids;
use rsm_plan::groups::GroupSet;
use rsm_sa::{Offence, Sa, SaAnswer, SaRequest, SaSnapshot, SearchAdmission, Searches, Statistics};
use tokio::sync::mpsc;

use super::gate::{Arrival, Call, refusal};
use super::inbox::Calls;
use super::outgoing::outgoing;
use super::state_reader::StateRequest;
use super::table_budget::TableBudget;
use super::{AckJournal, CoreSink, FindingsSink, HELD_AT_MOST, Restoration, SaveSink, TimeSource};
use crate::daemon::compute;

/// Number of messages that the thread takes before it sends, and of datagrams that it sends before
/// it takes messages again.
const AT_ONCE: usize = 64;

/// Number of parts of tables that the thread makes for a port with RMPP before it takes messages
/// again. A part has about a hundred records, and takes as long as a hundred short answers.
const PARTS_AT_ONCE: usize = 2;

/// Number of messages that the thread reads from its port before it answers. The number exceeds
/// [`AT_ONCE`], so that under overload the inbox fills and the gate answers BUSY; reading that many
/// messages takes less than a millisecond.
pub(super) const READ_AT_ONCE: usize = 4 * AT_ONCE;

/// Longest sleep of the thread; every call wakes it.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// State of the thread.
pub(super) struct Worker {
    pub(super) sa: Sa,
    pub(super) messenger: Messenger,
    pub(super) searches: Searches,
    pub(super) table_budget: TableBudget,
    pub(super) calls: Calls,
    /// New snapshot for answers; `None` without a new one.
    pub(super) sa_snapshot: Arc<Mutex<Option<SaSnapshot>>>,
    /// Whether the thread must end.
    pub(super) is_closing: Arc<AtomicBool>,
    pub(super) statistics: Arc<Statistics>,
    /// Tells the gate whether the SA answers requests.
    pub(super) is_serving: Arc<AtomicBool>,
    pub(super) clock: TimeSource,
    /// Passes multicast groups and alias GUIDs to the core.
    pub(super) core: CoreSink,
    /// Passes state to the store.
    pub(super) save: SaveSink,
    /// Receives findings.
    pub(super) findings: FindingsSink,
    /// Journal for changes before their acknowledgement; `None` if acknowledgements do not wait.
    pub(super) journal: Option<Arc<dyn AckJournal>>,
    /// Answers that wait for the journal, in ascending order of entry number.
    pub(super) held: VecDeque<HeldAnswer>,
    /// State that will replace all registrations; `None` without such a state.
    pub(super) restoration: Arc<Mutex<Option<Restoration>>>,
    /// Requests of the API for the registrations.
    pub(super) state_requests: mpsc::Receiver<StateRequest>,
    /// Groups for which the core had no room.
    pub(super) pending_groups: Option<Arc<GroupSet>>,
    /// Alias GUIDs for which the core had no room.
    pub(super) pending_alias_guids: Option<Arc<AliasGuids>>,
    /// Ports that must register again, and for which the core had no room.
    pub(super) unregistered: BTreeSet<Guid>,
}

/// Number of answers that may wait for the disk: the answers to a whole subnet. Further answers do
/// not wait.
const MAX_HELD: usize = 1 << 16;

/// Answer that waits until its change is on the disk.
pub(super) struct HeldAnswer {
    /// Number of the journal entry that must be on the disk.
    number: u64,
    answer: SaAnswer,
    /// Time when the request arrived.
    at: Time,
    /// Latest time at which the answer is sent.
    until: Time,
}

/// Pause before the core is offered the same data again after it had no room.
const RETRY_AFTER: Duration = Duration::from_millis(10);

impl Worker {
    /// Answers until [`Worker::is_closing`] is set.
    pub(super) fn run(mut self) {
        compute::raise_priority();
        while !self.is_closing.load(Ordering::Acquire) {
            let sa_snapshot = self.sa_snapshot.lock().take();
            if let Some(sa_snapshot) = sa_snapshot {
                self.sa.answer_from(sa_snapshot);
                let is_serving = self.sa.is_serving();
                self.is_serving.store(is_serving, Ordering::Relaxed);
            }
            let now = (self.clock)();
            self.restore(now);
            self.sa.handle_deadline(now);
            self.messenger.handle_deadline(now);
            self.deliver(now, now);
            self.release(now, now);
            if let Some((answer, at)) = self.searches.continue_search(&mut self.sa) {
                self.send(answer, at, now);
            }
            self.pass_on_changes(now);
            self.report(now);
            while let Ok(state_request) = self.state_requests.try_recv() {
                // A request whose connection was closed needs no answer.
                let _ = state_request.send(self.sa.holdings());
            }
            let at_once = match self.messenger.port().does_rmpp() {
                true => PARTS_AT_ONCE,
                false => AT_ONCE,
            };
            let left = match self.messenger.transmit(at_once, now) {
                Ok(left) => left,
                Err(SendError::Closed) => {
                    tracing::info!("the port is closed; requests get no more answers");
                    break;
                }
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::debug!(error, "nothing can be sent");
                    Left::Nothing
                }
            };
            let left = match left {
                Left::Nothing if !self.searches.is_empty() => Left::More,
                left => left,
            };
            if !self.receive(left) {
                break;
            }
        }
        let now = (self.clock)();
        self.release(Time::MAX, now);
        // A requester repeats its request if its answer can no longer be sent.
        let _ = self.messenger.transmit(usize::MAX, now);
        // Saves state that is not due yet.
        if let Some(unsaved) = self.sa.poll_save(Time::MAX) {
            (self.save)(unsaved);
        }
    }

    /// Replaces all registrations, if another manager was master meanwhile.
    fn restore(&mut self, now: Time) {
        let Some(Restoration {
            saved,
            after_restore,
        }) = self.restoration.lock().take()
        else {
            return;
        };
        let left_out = self.sa.restore_anew(saved, now);
        if left_out > 0 {
            tracing::warn!(
                left_out,
                "registrations of the shared store are invalid, and are left out"
            );
        }
        (self.pending_groups, self.pending_alias_guids) = (None, None);
        self.unregistered.clear();
        after_restore();
    }

    /// Takes arrived calls; waits for a call if no other work is left. Returns whether a sender is
    /// left.
    fn receive(&mut self, left: Left) -> bool {
        if self.messenger.port().is_polled() {
            return self.receive_from_port(left);
        }
        let first = match left {
            Left::More => match self.calls.try_take() {
                Ok(call) => call,
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            },
            Left::Blocked => {
                // Messages that arrive meanwhile wait in the inbox, or get BUSY.
                std::thread::sleep(self.sleep());
                return true;
            }
            Left::Nothing => match self.calls.take_within(self.sleep()) {
                Ok(call) => call,
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            },
        };
        let now = (self.clock)();
        self.handle_call(first, now);
        for _ in 1..AT_ONCE {
            match self.calls.try_take() {
                Ok(call) => self.handle_call(call, now),
                Err(_) => break,
            }
        }
        true
    }

    /// Takes calls like [`Worker::receive`], from a port that no other thread reads.
    fn receive_from_port(&mut self, left: Left) -> bool {
        let timeout = match left {
            Left::Nothing if self.calls.is_empty() => self.sleep(),
            Left::Nothing | Left::More => Duration::ZERO,
            Left::Blocked => {
                // Messages that arrive meanwhile wait at the port.
                std::thread::sleep(self.sleep());
                return true;
            }
        };
        self.messenger.port().receive(READ_AT_ONCE, timeout);
        let now = (self.clock)();
        for _ in 0..AT_ONCE {
            match self.calls.try_take() {
                Ok(call) => self.handle_call(call, now),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        true
    }

    /// Time until the next deadline, at most [`LONGEST_SLEEP`].
    fn sleep(&self) -> Duration {
        let now = (self.clock)();
        let has_pending = self.pending_groups.is_some()
            || self.pending_alias_guids.is_some()
            || !self.unregistered.is_empty();
        let retry = has_pending.then(|| now + RETRY_AFTER);
        let deadlines = [
            self.messenger.next_deadline(),
            self.sa.next_deadline(),
            retry,
            self.held.front().map(|held| held.until),
        ];
        let deadline = deadlines.into_iter().flatten().min();
        deadline.map_or(LONGEST_SLEEP, |deadline| {
            deadline.since(now).min(LONGEST_SLEEP)
        })
    }

    /// Passes multicast groups and alias GUIDs to the core, state to the store, and findings to
    /// their receiver. Does not wait: if the core has no room, it gets the latest groups and alias
    /// GUIDs later.
    fn pass_on_changes(&mut self, now: Time) {
        let groups = self.sa.poll_groups(now).or(self.pending_groups.take());
        if let Some(groups) = groups
            && !(self.core)(Event::Groups(groups.clone()))
        {
            self.pending_groups = Some(groups);
        }
        if let Some(guids) = self.sa.poll_guids(now) {
            self.pending_alias_guids = Some(guids);
        }
        if let Some(guids) = self.pending_alias_guids.take()
            && !(self.core)(Event::Guids(guids.clone()))
        {
            self.pending_alias_guids = Some(guids);
        }
        self.unregistered
            .extend(self.sa.poll_reregister().into_iter().flatten());
        if !self.unregistered.is_empty()
            && (self.core)(Event::Reregister(self.unregistered.clone()))
        {
            self.unregistered.clear();
        }
        if let Some(unsaved) = self.sa.poll_save(now) {
            (self.save)(unsaved);
        }
        if let Some(findings) = self.sa.poll_findings(now) {
            (self.findings)(findings);
        }
    }

    /// Sends due reports to subscribers.
    fn report(&mut self, now: Time) {
        while let Some(report) = self.sa.poll_report(now) {
            let sent =
                self.messenger
                    .send_datagram(&report.mad, &report.remote, report.patience, now);
            if let Err(error) = sent {
                // The SA counts the report as unanswered, and repeats it.
                let error: &dyn std::error::Error = &error;
                tracing::debug!(error, "a report was not sent");
                self.statistics.failed();
            }
        }
    }

    /// Handles a call. `now` is the time when the thread began to take calls: one reading of the
    /// clock serves up to [`AT_ONCE`] calls, which take less than a millisecond.
    fn handle_call(&mut self, call: Call, now: Time) {
        let Arrival { message, at } = match call {
            Call::Arrival(arrival) => arrival,
            Call::Notice(notice) => return self.sa.notice(&notice, now),
            Call::Refused(lid, refused) => {
                return self.sa.record_excess(lid, Offence::Requests, refused, now);
            }
            Call::Wake => return,
        };
        self.messenger.handle(message, now);
        self.deliver(at, now);
    }

    /// Answers complete messages. `at` is their time of arrival.
    fn deliver(&mut self, at: Time, now: Time) {
        while let Some(delivery) = self.messenger.poll() {
            match delivery {
                Delivery::Message(message) => self.answer(&message, at, now),
                Delivery::Unanswered { tid } => self.sa.unanswered(tid),
                Delivery::TooLong { header, remote } => {
                    let header = SaHeader::split(&header).map(|(header, _)| *header);
                    if self.sa.is_serving() {
                        self.refuse(header, remote, SaStatus::NO_RESOURCES, now);
                    } else {
                        self.statistics.unserved();
                    }
                }
            }
        }
    }

    /// Answers a complete message that arrived at `at`. A long search takes turns with others.
    fn answer(&mut self, message: &Message, at: Time, now: Time) {
        let request = SaRequest {
            bytes: &message.bytes,
            requester: message.remote,
        };
        let Some(answer) = self.sa.handle(request, now) else {
            return;
        };
        if !answer.is_open() {
            return self.hold(answer, at, now);
        }
        match self.searches.admit(answer, at) {
            SearchAdmission::Queued | SearchAdmission::Repeated => {}
            SearchAdmission::Refused(answer) => {
                self.statistics.busy();
                self.refuse(Some(*answer.header()), answer.remote, Status::BUSY, now);
            }
        }
    }

    /// Sends an answer. An answer that acknowledges a change waits until the change is on the disk.
    fn hold(&mut self, answer: SaAnswer, at: Time, now: Time) {
        let touched = self.sa.take_touched();
        let journal = self.journal.as_ref().filter(|_| !touched.is_empty());
        let number = journal.and_then(|journal| journal.append(&touched, &self.sa));
        match number {
            Some(number) if self.held.len() < MAX_HELD => self.held.push_back(HeldAnswer {
                number,
                answer,
                at,
                until: now + HELD_AT_MOST,
            }),
            _ => self.send(answer, at, now),
        }
    }

    /// Sends the answers whose changes are on the disk, or whose wait ends by `deadline`.
    fn release(&mut self, deadline: Time, now: Time) {
        let Some(journal) = &self.journal else {
            return;
        };
        let durable = journal.durable();
        while let Some(first) = self.held.front()
            && (first.number <= durable || first.until <= deadline)
            && let Some(held) = self.held.pop_front()
        {
            self.send(held.answer, held.at, now);
        }
    }

    /// Sends the answer to a request that arrived at `at`.
    fn send(&mut self, answer: SaAnswer, at: Time, now: Time) {
        let (header, remote) = (*answer.header(), answer.remote);
        let messenger = &mut self.messenger;
        let sent = match answer.datagram() {
            Some(mad) => messenger.send_datagram(mad, &remote, Duration::ZERO, now),
            None => match self.table_budget.admit(remote.lid, now) {
                Some(meter) => messenger.send(outgoing(answer, meter), Duration::ZERO, now),
                None => Err(NotSent::Refused(Refused::ClientFull)),
            },
        };
        match sent {
            Ok(()) => self.statistics.answered((self.clock)().since(at)),
            // The answer is being sent; its latency counts from the first request.
            Err(NotSent::Refused(Refused::UnderWay)) => {}
            Err(NotSent::Refused(refused)) => {
                if refused == Refused::ClientFull {
                    self.sa.record_excess(remote.lid, Offence::Tables, 1, now);
                }
                self.statistics.busy();
                self.refuse(Some(header), remote, Status::BUSY, now);
            }
            Err(NotSent::Transport(error)) => {
                let error: &dyn std::error::Error = &error;
                tracing::debug!(error, "an answer was not sent");
                self.statistics.failed();
            }
        }
    }

    /// Sends an answer without records, with `status`.
    fn refuse(
        &mut self,
        header: Option<SaHeader>,
        remote: RemoteAddress,
        status: Status,
        now: Time,
    ) {
        let mad = header.and_then(|header| refusal(&header, status));
        let Some(mad) = mad else {
            return;
        };
        let sent = self
            .messenger
            .send_datagram(&mad, &remote, Duration::ZERO, now);
        if sent.is_err() {
            self.statistics.failed();
        }
    }
}
