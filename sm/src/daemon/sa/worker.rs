//! The thread that answers.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::time::Duration;

use parking_lot::Mutex;
use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_mad::client::rmpp::Refused;
use rsm_mad::transport::{Delivery, Left, Message, Messenger, NotSent, SendError};
use rsm_mad::wire::header::Status;
use rsm_mad::wire::sa::{SaHeader, SaStatus};
use tokio::sync::mpsc;

use super::gate::{Arrival, Call, refusal};
use super::inbox::Calls;
use super::outgoing::outgoing;
use super::searches::{Searches, Taken};
use super::state_reader::StateRequest;
use super::{AckJournal, Clock, CoreSink, HELD_AT_MOST, SaveSink};
use crate::core::Event;
use crate::plan::groups::GroupSet;
use crate::plan::guids::AliasGuids;
use crate::sa::{Answer, Request, Sa, SaSnapshot, Statistics};

/// How many messages are taken before what is ready is sent, and how many datagrams are sent before
/// messages are taken again.
const AT_ONCE: usize = 64;

/// The longest that the thread sleeps; it is woken up for everything.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// Everything that the thread has.
pub(super) struct Worker {
    pub(super) sa: Sa,
    pub(super) messenger: Messenger,
    pub(super) searches: Searches,
    pub(super) calls: Calls,
    /// What to answer from, when there is something new.
    pub(super) sa_snapshot: Arc<Mutex<Option<SaSnapshot>>>,
    pub(super) closing: Arc<AtomicBool>,
    pub(super) statistics: Arc<Statistics>,
    /// Whether requests are answered at all, for the gate.
    pub(super) serving: Arc<AtomicBool>,
    pub(super) clock: Clock,
    /// Where it is told who takes part in multicast.
    pub(super) core: CoreSink,
    /// Where it is told what is to be remembered.
    pub(super) save: SaveSink,
    /// Where it is written what was changed.
    pub(super) journal: Option<Arc<dyn AckJournal>>,
    /// Answers that wait for that, in the order of their numbers.
    pub(super) held: VecDeque<Held>,
    /// Who wants to know what hosts have told.
    pub(super) state_requests: mpsc::Receiver<StateRequest>,
    /// What the core had no room for.
    pub(super) pending_groups: Option<Arc<GroupSet>>,
    /// The same of the names of ports.
    pub(super) pending_alias_guids: Option<Arc<AliasGuids>>,
    /// Who is to register anew, and the core was not told for want of room.
    pub(super) unregistered: BTreeSet<Guid>,
}

/// How many answers wait for the disk at once: those to a whole subnet. Beyond it they do not wait.
const MAX_HELD: usize = 1 << 16;

/// An answer that acknowledges what is being written.
pub(super) struct Held {
    /// What the journal has to come to.
    number: u64,
    answer: Answer,
    /// When the question came.
    at: Time,
    /// Until when it waits at most.
    until: Time,
}

/// How long it takes until the core is told again what it had no room for.
const TELL_AGAIN: Duration = Duration::from_millis(10);

impl Worker {
    /// Answers until it is told to end.
    pub(super) fn run(mut self) {
        while !self.closing.load(Ordering::Acquire) {
            let sa_snapshot = self.sa_snapshot.lock().take();
            if let Some(sa_snapshot) = sa_snapshot {
                self.sa.answer_from(sa_snapshot);
                let serving = self.sa.is_serving();
                self.serving.store(serving, Ordering::Relaxed);
            }
            let now = (self.clock)();
            self.sa.handle_deadline(now);
            self.messenger.handle_deadline(now);
            self.deliver(now);
            self.release((self.clock)());
            if let Some((answer, at)) = self.searches.go_on(&mut self.sa) {
                self.send(answer, at);
            }
            self.tell((self.clock)());
            self.report((self.clock)());
            while let Ok(state_request) = self.state_requests.try_recv() {
                // Who has gone meanwhile needs no answer.
                let _ = state_request.send(self.sa.holdings());
            }
            let left = match self.messenger.transmit(AT_ONCE, now) {
                Ok(left) => left,
                Err(SendError::Closed) => {
                    tracing::info!("the port is closed; nobody is answered any more");
                    return;
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
                return;
            }
        }
        self.release(Time::MAX);
        // What cannot be sent any more is asked again.
        let _ = self.messenger.transmit(usize::MAX, (self.clock)());
        // What would have waited for its time is remembered now.
        if let Some(unsaved) = self.sa.poll_save(Time::MAX) {
            (self.save)(unsaved);
        }
    }

    /// Takes what has come; waits for it where nothing is left to be done. Whether there is anybody
    /// who could send more.
    fn receive(&mut self, left: Left) -> bool {
        let first = match left {
            Left::More => match self.calls.try_take() {
                Ok(call) => call,
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            },
            Left::Blocked => {
                // Who asks meanwhile waits in the inbox, or is told to come back.
                std::thread::sleep(self.sleep());
                return true;
            }
            Left::Nothing => match self.calls.take_within(self.sleep()) {
                Ok(call) => call,
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            },
        };
        self.take(first);
        for _ in 1..AT_ONCE {
            match self.calls.try_take() {
                Ok(call) => self.take(call),
                Err(_) => break,
            }
        }
        true
    }

    fn sleep(&self) -> Duration {
        let now = (self.clock)();
        let owes = self.pending_groups.is_some()
            || self.pending_alias_guids.is_some()
            || !self.unregistered.is_empty();
        let again = owes.then(|| now + TELL_AGAIN);
        let deadlines = [
            self.messenger.next_deadline(),
            self.sa.next_deadline(),
            again,
            self.held.front().map(|held| held.until),
        ];
        let deadline = deadlines.into_iter().flatten().min();
        deadline.map_or(LONGEST_SLEEP, |deadline| {
            deadline.since(now).min(LONGEST_SLEEP)
        })
    }

    /// Tells the core who takes part in multicast and how ports are called, and the store what is
    /// to be remembered. The core is not waited for: of what it has no room for the last is told
    /// later.
    fn tell(&mut self, now: Time) {
        let groups = self.sa.poll_groups(now).or(self.pending_groups.take());
        if let Some(groups) = groups
            && !(self.core)(Event::Groups(groups.clone()))
        {
            self.pending_groups = Some(groups);
        }
        if let Some(guids) = self.sa.poll_guids() {
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
    }

    /// Sends what subscribers are to be told.
    fn report(&mut self, now: Time) {
        while let Some(report) = self.sa.poll_report(now) {
            let message = Message {
                bytes: report.mad.to_vec(),
                remote: report.remote,
            };
            if let Err(error) = self.messenger.send(message, report.patience, now) {
                // It counts as not answered, and is tried again.
                let error: &dyn std::error::Error = &error;
                tracing::debug!(error, "a report was not sent");
                self.statistics.failed();
            }
        }
    }

    fn take(&mut self, call: Call) {
        let Arrival { what, at } = match call {
            Call::Arrival(arrival) => arrival,
            Call::Notice(notice) => return self.sa.notice(&notice, (self.clock)()),
            Call::Wake => return,
        };
        self.messenger.handle(what, (self.clock)());
        self.deliver(at);
    }

    /// Answers what has arrived whole. `at` is when.
    fn deliver(&mut self, at: Time) {
        while let Some(delivery) = self.messenger.poll() {
            match delivery {
                Delivery::Message(message) => self.answer(&message, at),
                Delivery::Unanswered { tid } => self.sa.unanswered(tid),
                Delivery::TooLong { header, remote } => {
                    let header = SaHeader::split(&header).map(|(header, _)| *header);
                    if self.sa.is_serving() {
                        self.refuse(header, remote, SaStatus::NO_RESOURCES);
                    } else {
                        self.statistics.unserved();
                    }
                }
            }
        }
    }

    fn answer(&mut self, message: &Message, at: Time) {
        let request = Request {
            bytes: &message.bytes,
            requester: message.remote,
        };
        let Some(answer) = self.sa.handle(request, (self.clock)()) else {
            return;
        };
        if !answer.is_open() {
            return self.hold(answer, at);
        }
        match self.searches.take(answer, at) {
            Taken::InTurn | Taken::Again => {}
            Taken::Refused(answer) => {
                self.statistics.busy();
                self.refuse(Some(*answer.header()), answer.remote, Status::BUSY);
            }
        }
    }

    /// Sends an answer; one that acknowledges a change waits until that is on the disk.
    fn hold(&mut self, answer: Answer, at: Time) {
        let touched = self.sa.take_touched();
        let journal = self.journal.as_ref().filter(|_| !touched.is_empty());
        let number = journal.and_then(|journal| journal.append(&touched, &self.sa));
        match number {
            Some(number) if self.held.len() < MAX_HELD => self.held.push_back(Held {
                number,
                answer,
                at,
                until: (self.clock)() + HELD_AT_MOST,
            }),
            _ => self.send(answer, at),
        }
    }

    /// Sends the answers that have waited for long enough.
    fn release(&mut self, now: Time) {
        let Some(journal) = &self.journal else {
            return;
        };
        let durable = journal.durable();
        while let Some(first) = self.held.front()
            && (first.number <= durable || first.until <= now)
            && let Some(held) = self.held.pop_front()
        {
            self.send(held.answer, held.at);
        }
    }

    /// Sends the answer to a question that came at `at`.
    fn send(&mut self, answer: Answer, at: Time) {
        let (header, remote) = (*answer.header(), answer.remote);
        let now = (self.clock)();
        match self.messenger.send(outgoing(answer), Duration::ZERO, now) {
            Ok(()) => self.statistics.answered((self.clock)().since(at)),
            // The answer is on its way, from when the question came for the first time.
            Err(NotSent::Refused(Refused::UnderWay)) => {}
            Err(NotSent::Refused(_)) => {
                self.statistics.busy();
                self.refuse(Some(header), remote, Status::BUSY);
            }
            Err(NotSent::Transport(error)) => {
                let error: &dyn std::error::Error = &error;
                tracing::debug!(error, "an answer was not sent");
                self.statistics.failed();
            }
        }
    }

    /// Says with a status why there is no record.
    fn refuse(
        &mut self,
        header: Option<SaHeader>,
        remote: rsm_mad::transport::RemoteAddress,
        status: Status,
    ) {
        let mad = header.and_then(|header| refusal(&header, status));
        let Some(mad) = mad else {
            return;
        };
        let message = Message {
            bytes: mad.to_vec(),
            remote,
        };
        let now = (self.clock)();
        if self.messenger.send(message, Duration::ZERO, now).is_err() {
            self.statistics.failed();
        }
    }
}
