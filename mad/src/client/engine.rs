use std::collections::VecDeque;
use std::time::Duration;

use super::loss::LossRate;
use super::outliers::Outliers;
use super::rtt::RoundTrip;
use super::scheduler::Scheduler;
use super::slab::Slab;
use super::tids::{Owner, Tids};
use super::timers::Timers;
use super::window::Window;
use super::{
    ClientConfig, ClientStats, Completion, MAX_PENDING, MKeys, Rejected, Request, RequestFailure,
    Response, Transmit, Withdrawn,
};
use crate::Time;
use crate::ids::Tid;
use crate::transport::SendFailure;
use crate::wire::MadBytes;
use crate::wire::header::{MadHeader, Method};
use crate::wire::smp::{Smp, SmpRequest};

/// The delay in handling a timer from which the owner of the client counts as late: less than the
/// shortest timeout, and more than a busy processor needs to schedule the owner.
const LATE_AFTER: Duration = Duration::from_millis(10);

/// The maximum number of excused attempts of a request: with this limit a request ends even if the
/// owner is always late.
const MAX_EXCUSED: u8 = 8;

/// The state of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TransactionState {
    /// The request is in the scheduler's queues: it was never sent, or is due for another attempt.
    Waiting,
    /// The request is out: it has a timer, and counts in the window and against its target.
    Out,
    /// The request is deferred: it has a timer, and counts only against its target, because a busy
    /// target gets no other request meanwhile.
    Deferred,
}

/// A pending request.
#[derive(Debug)]
struct Transaction<C> {
    request: Request<C>,
    /// The scheduler's number of the target.
    target: u32,
    state: TransactionState,
    /// The number of attempts sent.
    attempts: u8,
    /// The number of attempts whose missing answers say nothing about the target. Such attempts do
    /// not count as retries.
    excused: u8,
    /// The slot of the request among the transaction identifiers, `None` before the first attempt.
    slot: Option<u16>,
    /// The time at which the first attempt was sent.
    begun: Time,
    /// The time at which the last attempt was sent.
    sent: Time,
    /// The time at which the attempt before the last one was sent.
    sent_before: Time,
    /// The time at which the last timed-out attempt was sent; `None` once the client knows whether
    /// that attempt was lost.
    unanswered: Option<Time>,
    /// The epoch of the window to which the count in `timeouts` belongs.
    epoch: Time,
    /// The number of attempts sent in that epoch that timed out.
    timeouts: u8,
}

impl<C> Transaction<C> {
    /// The number of attempts sent that are not excused.
    fn counted(&self) -> u8 {
        self.attempts - self.excused
    }

    /// Whether one more attempt may be excused. Attempts of a request with several keys are never
    /// excused: the next attempt has the next key, and sending that key without need would be a key
    /// violation.
    fn may_be_excused(&self) -> bool {
        self.excused < MAX_EXCUSED && self.request.m_keys.count() <= 1
    }
}

/// The result of [`Client::handle`] for a datagram.
#[derive(Debug, Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all of them are completions; a box each would cost more than the copy"
)]
pub enum Handled<C> {
    /// The datagram answers a request, which is complete.
    Completed(Completion<C>),
    /// The datagram says that the target is busy. The client will send the request again.
    Deferred,
    /// The datagram is a response, but no pending request accepts it. The client only counts it.
    Stale,
    /// The datagram is not a response to a subnet management request. It is a trap, a request of
    /// another subnet manager, or a datagram of another class, which the caller handles.
    Unsolicited,
}

/// The transaction client, described in the [module](super).
#[derive(Debug)]
pub struct Client<C> {
    config: ClientConfig,
    transactions: Slab<Transaction<C>>,
    scheduler: Scheduler,
    timers: Timers,
    tids: Tids,
    window: Window,
    /// The round trip of all targets except outliers.
    round_trip: RoundTrip,
    outliers: Outliers,
    loss: LossRate,
    /// The completions that wait for [`Client::poll_completion`].
    completions: VecDeque<Completion<C>>,
    /// The number of requests that are out.
    in_flight: u32,
    /// The number of pending requests that were sent more than once, see [`Client::repeated`].
    repeated: usize,
    /// The time of the last answer to a pending request; `None` before the first one.
    last_answer: Option<Time>,
    /// The end of the excused time: late or missing answers to attempts sent earlier say nothing
    /// about their targets and the fabric.
    excused_before: Time,
    /// The counters. [`Client::stats`] fills in the other fields.
    counters: ClientStats,
}

impl<C> Client<C> {
    /// A client without requests.
    ///
    /// # Panics
    /// `config` is not [valid](ClientConfig::validate).
    pub fn new(config: ClientConfig) -> Client<C> {
        if let Err(error) = config.validate() {
            panic!("{error}");
        }
        Client {
            transactions: Slab::new(),
            scheduler: Scheduler::new(config.target_cap),
            timers: Timers::default(),
            tids: Tids::new(config.first_generation),
            window: Window::new(&config),
            round_trip: RoundTrip::new(&config),
            outliers: Outliers::new(&config),
            loss: LossRate::default(),
            completions: VecDeque::new(),
            in_flight: 0,
            repeated: 0,
            last_answer: None,
            excused_before: Time::ZERO,
            counters: ClientStats::default(),
            config,
        }
    }

    /// Accepts a request.
    ///
    /// # Errors
    /// [`MAX_PENDING`] requests are pending. The error returns the request, and the caller may
    /// submit it again after a completion.
    pub fn submit(&mut self, request: Request<C>) -> Result<(), Rejected<C>> {
        if self.transactions.len() >= MAX_PENDING {
            self.counters.rejected += 1;
            return Err(Rejected(Box::new(request)));
        }
        let (key, priority) = (request.target, request.priority);
        let index = self.transactions.insert(Transaction {
            request,
            target: 0,
            state: TransactionState::Waiting,
            attempts: 0,
            excused: 0,
            slot: None,
            begun: Time::ZERO,
            sent: Time::ZERO,
            sent_before: Time::ZERO,
            unanswered: None,
            epoch: Time::ZERO,
            timeouts: 0,
        });
        let target = self.scheduler.enqueue(key, priority, index);
        self.transactions[index].target = target;
        if self.outliers.gets_one_at_a_time(key) {
            self.scheduler.set_one_at_a_time(target, true);
        }
        Ok(())
    }

    /// The next datagram to send; `None` if no datagram may be sent now. Call `poll_transmit` until
    /// it returns `None`.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        if self.in_flight >= self.window.limit() {
            if self.scheduler.waiting() > 0 {
                self.window.record_limited();
            }
            return None;
        }
        let index = self.scheduler.take()?;
        let transaction = &mut self.transactions[index];
        let attempt = transaction.attempts;
        let counted = transaction.counted();
        let slot = *transaction
            .slot
            .get_or_insert_with(|| self.tids.open(index));
        transaction.attempts += 1;
        transaction.state = TransactionState::Out;
        if attempt == 0 {
            transaction.begun = now;
        }
        transaction.sent_before = transaction.sent;
        transaction.sent = now;

        let request = &self.transactions[index].request;
        match request.method {
            Method::GET => self.counters.sent_get += 1,
            Method::SET => self.counters.sent_set += 1,
            _ => self.counters.sent_other += 1,
        }
        self.counters.retries += u64::from(attempt > 0);
        self.repeated += usize::from(attempt == 1);
        let datagram = request.route(attempt).datagram(&SmpRequest {
            method: request.method,
            attribute: request.attribute,
            modifier: request.modifier,
            tid: Tid(u64::from(self.tids.next(slot))),
            m_key: request.m_keys.of_attempt(attempt),
            data: request.data,
        });
        let (key, response_time) = (request.target, request.response_time);
        let max_attempts = self.max_attempts_of(request.rounds, request.m_keys);
        // An answer within the target's own response time is in time.
        let wait = |attempt: u8| match self.attempt_timeout(key, attempt) {
            attempt_timeout if attempt + 1 < max_attempts => attempt_timeout,
            attempt_timeout => attempt_timeout.max(response_time),
        };
        let attempt_timeout = wait(counted);
        let timeout = if counted + 1 < max_attempts {
            attempt_timeout + wait(counted + 1)
        } else {
            attempt_timeout
        };
        self.in_flight += 1;
        self.timers.set(index, now + attempt_timeout);
        Some(Transmit { datagram, timeout })
    }

    /// Handles an inbound datagram.
    pub fn handle(&mut self, mad: &MadBytes, now: Time) -> Handled<C> {
        let header = MadHeader::of(mad);
        if !header.class().is_subnet_management() || !header.method().is_response() {
            return Handled::Unsolicited;
        }
        self.excuse_if_late(now);
        let (index, age) = match self.tids.owner(header.tid().low()) {
            Owner::Live { index, age } => (index, age),
            Owner::Answered => {
                self.counters.duplicate += 1;
                return Handled::Stale;
            }
            Owner::Unknown => {
                self.counters.late += 1;
                return Handled::Stale;
            }
        };
        let transaction = &self.transactions[index];
        let request = &transaction.request;
        let attempt = transaction.attempts - 1 - age;
        if Some(header.method()) != request.method.response()
            || header.class() != request.route(attempt).class()
            || header.attribute() != request.attribute
            || header.modifier() != request.modifier
        {
            self.counters.mismatched += 1;
            return Handled::Stale;
        }
        self.last_answer = Some(now);
        let status = Smp::from_bytes(mad).status();
        if status.is_busy() {
            if age > 0 || transaction.state != TransactionState::Out {
                // A BUSY answer counts only if it answers the present attempt.
                self.counters.slow += 1;
                return Handled::Stale;
            }
            self.counters.busy += 1;
            return match self.defer(index, RequestFailure::Rejected(status), now) {
                Some(completion) => Handled::Completed(completion),
                None => Handled::Deferred,
            };
        }
        Handled::Completed(self.handle_answer(index, age, mad, now))
    }

    /// Handles a failure of the transport to send the datagram with the transaction identifier
    /// `tid`, or to receive its answer in time. [`Client::poll_completion`] returns any completion.
    pub fn handle_send_failed(&mut self, tid: Tid, kind: SendFailure, now: Time) {
        self.excuse_if_late(now);
        // The failure matters only if it concerns the present attempt, and only while that attempt
        // is out.
        let Owner::Live { index, age: 0 } = self.tids.owner(tid.low()) else {
            return;
        };
        if self.transactions[index].state != TransactionState::Out {
            return;
        }
        let completion = match kind {
            SendFailure::TimedOut => {
                self.timers.cancel(index);
                self.handle_timeout(index, now)
            }
            SendFailure::Flushed | SendFailure::Other(_) => {
                self.counters.send_failures += 1;
                self.defer(index, RequestFailure::SendFailed, now)
            }
        };
        self.completions.extend(completion);
    }

    /// Handles all timers due at `now`. [`Client::poll_completion`] returns any completions.
    ///
    /// Pass all datagrams that have arrived to [`Client::handle`] first. If the first timer is
    /// overdue by 10 ms or more, the owner was short of processor time: attempts sent before are
    /// repeated when they time out, and do not count as unanswered.
    pub fn handle_deadline(&mut self, now: Time) {
        self.excuse_if_late(now);
        while let Some(index) = self.timers.pop_due(now) {
            let transaction = &mut self.transactions[index];
            if transaction.state == TransactionState::Out {
                let completion = self.handle_timeout(index, now);
                self.completions.extend(completion);
            } else {
                transaction.state = TransactionState::Waiting;
                let (target, priority) = (transaction.target, transaction.request.priority);
                self.scheduler.requeue(target, priority, index);
            }
        }
    }

    /// Excuses all attempts so far: no target could answer before `now`, so that missing answers
    /// say nothing about the targets. Requests that are out are sent again after the shortest
    /// timeout.
    pub fn excuse(&mut self, now: Time) {
        self.excused_before = now;
        for index in 0..self.transactions.end() {
            if self.transactions.get(index).is_none() {
                continue;
            }
            let transaction = &mut self.transactions[index];
            if !transaction.may_be_excused() {
                continue;
            }
            let is_out = transaction.state == TransactionState::Out;
            let timed_out = transaction.attempts - u8::from(is_out);
            transaction.excused = transaction.excused.max(timed_out.min(MAX_EXCUSED));
            let key = transaction.request.target;
            if is_out {
                let again = now + self.attempt_timeout(key, 0);
                self.timers.bring_forward(index, again);
            }
        }
    }

    /// The next time to call [`Client::handle_deadline`]. Every other call may change it.
    pub fn next_deadline(&self) -> Option<Time> {
        self.timers.next()
    }

    /// The next completion that [`Client::handle`] did not return.
    pub fn poll_completion(&mut self) -> Option<Completion<C>> {
        self.completions.pop_front()
    }

    /// Cancels the requests that were never sent and whose context satisfies `unwanted`; they get
    /// no completion. Returns the number of cancelled requests.
    pub fn cancel_queued(&mut self, mut unwanted: impl FnMut(&C) -> bool) -> usize {
        let before = self.transactions.len();
        for index in 0..self.transactions.end() {
            let Some(transaction) = self.transactions.get(index) else {
                continue;
            };
            if transaction.attempts == 0 && unwanted(&transaction.request.context) {
                let (target, priority) = (transaction.target, transaction.request.priority);
                self.scheduler.withdraw(target, priority, index);
                self.transactions.remove(index);
            }
        }
        let cancelled = before - self.transactions.len();
        self.counters.cancelled += cancelled as u64;
        cancelled
    }

    /// Withdraws the requests whose context satisfies `unwanted`, sent or not: they get no further
    /// attempt and no completion, and an answer to them counts as late. Returns the requests in the
    /// order of the slab index, which is roughly the order of submission.
    pub fn withdraw(&mut self, mut unwanted: impl FnMut(&C) -> bool) -> Vec<Withdrawn<C>> {
        let mut withdrawn = Vec::new();
        for index in 0..self.transactions.end() {
            let Some(transaction) = self.transactions.get(index) else {
                continue;
            };
            if unwanted(&transaction.request.context) {
                let transaction = self.retire(index, false);
                withdrawn.push(Withdrawn {
                    request: transaction.request,
                    attempts: transaction.attempts,
                });
            }
        }
        let sent = withdrawn.iter().filter(|one| one.attempts > 0).count();
        self.counters.withdrawn += sent as u64;
        self.counters.cancelled += withdrawn.len() as u64;
        withdrawn
    }

    /// The context of every pending request, with the number of its attempts that timed out or
    /// could not be sent, without [excused](Client::excuse) attempts.
    pub fn pending_requests(&self) -> impl Iterator<Item = (&C, u8)> {
        (0..self.transactions.end()).filter_map(|index| {
            let transaction = self.transactions.get(index)?;
            let is_out = transaction.state == TransactionState::Out;
            let unanswered = transaction.counted().saturating_sub(u8::from(is_out));
            Some((&transaction.request.context, unanswered))
        })
    }

    /// The number of pending requests: waiting, out, or deferred.
    pub fn pending(&self) -> usize {
        self.transactions.len()
    }

    /// The number of pending requests that were sent more than once.
    pub fn repeated(&self) -> usize {
        self.repeated
    }

    /// Whether no request is pending and no completion waits to be polled.
    pub fn is_idle(&self) -> bool {
        self.pending() == 0 && self.completions.is_empty()
    }

    /// The counters since the client was created, and its present state.
    pub fn stats(&self) -> ClientStats {
        ClientStats {
            in_flight: self.in_flight,
            queued: self.scheduler.waiting() as u32,
            window: self.window.size(),
            window_halvings: self.window.halvings(),
            srtt: Duration::from_nanos(self.round_trip.smoothed().unwrap_or(0)),
            timeout: self.round_trip.timeout(0),
            loss_permille: self.loss.permille(),
            outliers: self.outliers.len() as u32,
            ..self.counters
        }
    }

    /// Handles an answer to the attempt that `age` later attempts followed.
    fn handle_answer(&mut self, index: u32, age: u8, mad: &MadBytes, now: Time) -> Completion<C> {
        let transaction = &self.transactions[index];
        let (sent, is_exact) = match age {
            0 => (transaction.sent, true),
            1 => (transaction.sent_before, true),
            // The time of that attempt is no longer known, but is not later than this time.
            _ => (transaction.sent_before, false),
        };
        let rtt = now.since(sent);
        let (key, target) = (transaction.request.target, transaction.target);
        let is_out = transaction.state == TransactionState::Out;
        let is_late = transaction.unanswered.is_some() && !(age == 0 && is_out);
        let usual = self.round_trip.smoothed().map(Duration::from_nanos);
        let of_the_fabric = sent >= self.excused_before
            && self
                .outliers
                .record_answer(key, rtt, is_late, usual, &self.config, now);
        if is_exact && of_the_fabric {
            self.round_trip.sample(rtt);
        }
        match transaction.unanswered {
            // The present attempt was answered. The earlier attempt was lost, or had a wrong key.
            Some(_) if !is_late && transaction.request.m_keys.is_guess() => {}
            Some(lost_at) if !is_late => self.record_losses(index, lost_at, now),
            unanswered => {
                // The attempt that timed out was slow, not lost.
                self.counters.slow += u64::from(unanswered.is_some());
                self.loss.resolved(0);
                self.window.record_resolved(0, now);
            }
        }
        let is_outlier = self.outliers.gets_one_at_a_time(key);
        self.scheduler.set_one_at_a_time(target, is_outlier);
        if let Some(smoothed) = self.round_trip.smoothed() {
            self.window.record_answer(smoothed);
        }
        self.counters.answered += 1;
        self.finish(index, age, Ok(Response::new(mad)), rtt, now)
    }

    /// Records losses after the target answered the present attempt: the earlier attempts were
    /// lost, the last of them sent at `sent`.
    fn record_losses(&mut self, index: u32, sent: Time, now: Time) {
        self.counters.losses += 1;
        let transaction = &self.transactions[index];
        let before = u32::from(transaction.counted().saturating_sub(1));
        let in_epoch = if transaction.epoch == self.window.epoch() {
            u32::from(transaction.timeouts)
        } else {
            0
        };
        let general_loss = self.loss.permille();
        let target = transaction.request.target;
        if self.outliers.record_loss(target, general_loss, now) {
            self.loss.resolved(before);
            self.window.record_loss_among(self.in_flight, sent, now);
            self.window.record_resolved(in_epoch, now);
        }
    }

    /// Excuses the attempts before `now` if the owner is late, that is, if a timer has been due for
    /// [`LATE_AFTER`].
    fn excuse_if_late(&mut self, now: Time) {
        if self
            .timers
            .next()
            .is_some_and(|due| due + LATE_AFTER <= now)
        {
            self.excused_before = now;
        }
    }

    /// The timeout of an attempt to the target `key`; `attempt` counts from 0, without excused
    /// attempts.
    fn attempt_timeout(&self, key: u64, attempt: u8) -> Duration {
        let in_round = attempt % (self.config.retries + 1);
        match self.outliers.round_trip(key) {
            Some(own) => own.timeout(in_round),
            None => {
                let plain = self.window.plain_retries(self.config.retries);
                self.round_trip.timeout(in_round.saturating_sub(plain))
            }
        }
    }

    /// The maximum number of attempts of a request at the recent loss rate. A request with several
    /// keys has at least two attempts for each key.
    fn max_attempts_of(&self, rounds: u8, m_keys: MKeys) -> u8 {
        let attempts = self.config.retries + 1;
        let rounds = self.loss.rounds(u32::from(attempts), rounds);
        let max_attempts = attempts.saturating_mul(rounds);
        match m_keys.is_guess() {
            true => max_attempts.max(2 * m_keys.count()),
            false => max_attempts,
        }
    }

    /// Handles the timeout of the present attempt.
    fn handle_timeout(&mut self, index: u32, now: Time) -> Option<Completion<C>> {
        let transaction = &mut self.transactions[index];
        if transaction.sent < self.excused_before && transaction.may_be_excused() {
            transaction.excused += 1;
            self.counters.excused += 1;
            self.send_again(index);
            return None;
        }
        self.counters.timeouts += 1;
        let sent = transaction.sent;
        // The cause of the missing answer may lie at this target alone. If no target has answered
        // since, and the window is in use, the client assumes that the fabric is flooded.
        let is_silent = self.last_answer.is_none_or(|answer| answer < sent);
        let is_guess = transaction.request.m_keys.is_guess();
        if is_silent && !is_guess && self.in_flight.saturating_mul(2) >= self.window.size() {
            self.window.record_silence(sent, self.in_flight, now);
        }
        let epoch = self.window.epoch();
        if transaction.epoch != epoch {
            (transaction.epoch, transaction.timeouts) = (epoch, 0);
        }
        if sent >= epoch && !is_guess {
            transaction.timeouts = transaction.timeouts.saturating_add(1);
        }
        let (counted, request) = (transaction.counted(), &transaction.request);
        let (rounds, m_keys) = (request.rounds, request.m_keys);
        let is_last = transaction.attempts == u8::MAX;
        if is_last || counted >= self.max_attempts_of(rounds, m_keys) {
            self.counters.failed += 1;
            let outcome = Err(RequestFailure::TimedOut);
            return Some(self.finish(index, 0, outcome, now.since(sent), now));
        }
        self.transactions[index].unanswered = Some(sent);
        self.send_again(index);
        None
    }

    /// Ends the present attempt of a request that is out, and queues the request for another
    /// attempt.
    fn send_again(&mut self, index: u32) {
        let transaction = &mut self.transactions[index];
        transaction.state = TransactionState::Waiting;
        self.in_flight -= 1;
        let (target, priority) = (transaction.target, transaction.request.priority);
        self.scheduler.requeue(target, priority, index);
    }

    /// Defers a request that is out, or ends the request with `failure` if its present attempt was
    /// the last attempt.
    fn defer(&mut self, index: u32, failure: RequestFailure, now: Time) -> Option<Completion<C>> {
        let request = &self.transactions[index].request;
        let max_attempts = self.max_attempts_of(request.rounds, request.m_keys);
        let transaction = &mut self.transactions[index];
        if transaction.attempts == u8::MAX || transaction.counted() >= max_attempts {
            self.counters.failed += 1;
            let waited = now.since(transaction.sent);
            return Some(self.finish(index, 0, Err(failure), waited, now));
        }
        let doublings = u32::from(transaction.counted().saturating_sub(1))
            .min(u32::from(ClientConfig::MAX_RETRIES));
        let delay = self
            .config
            .busy_delay
            .saturating_mul(1 << doublings)
            .min(self.config.timeout_ceiling);
        transaction.state = TransactionState::Deferred;
        self.in_flight -= 1;
        self.timers.cancel(index);
        self.timers.set(index, now + delay);
        None
    }

    /// Ends a request that was sent, with the result `outcome`.
    fn finish(
        &mut self,
        index: u32,
        age: u8,
        outcome: Result<Response, RequestFailure>,
        rtt: Duration,
        now: Time,
    ) -> Completion<C> {
        let transaction = self.retire(index, outcome.is_ok());
        let request = transaction.request;
        let attempt = transaction.attempts - 1 - age;
        Completion {
            lid_route_lost: outcome.is_ok() && request.left_lid_route(attempt),
            outcome,
            attempts: transaction.attempts,
            m_key: request.m_keys.of_attempt(attempt),
            rtt,
            waited: now.since(transaction.begun),
            modifier: request.modifier,
            context: request.context,
        }
    }

    /// Removes a request in any state and updates the counts.
    fn retire(&mut self, index: u32, is_answered: bool) -> Transaction<C> {
        let transaction = self.transactions.remove(index);
        self.repeated -= usize::from(transaction.attempts > 1);
        match transaction.state {
            TransactionState::Waiting => {
                let priority = transaction.request.priority;
                self.scheduler.withdraw(transaction.target, priority, index);
            }
            TransactionState::Out => {
                self.in_flight -= 1;
                self.timers.cancel(index);
                self.scheduler.release(transaction.target);
            }
            TransactionState::Deferred => {
                self.timers.cancel(index);
                self.scheduler.release(transaction.target);
            }
        }
        if let Some(slot) = transaction.slot {
            self.tids.close(slot, is_answered);
        }
        transaction
    }
}
