use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::config::RmppConfig;
use super::receiver::Receiver;
use super::sender::{Polled, Sender};
use super::transfers::{Phase, Transfer, Transfers};
use super::{
    Failed, MAX_CONTROL, MAX_UNANSWERED, Refused, RmppStats, TransactionKey, TransferFailure,
};
use crate::Time;
use crate::client::Transmit;
use crate::transport::{Datagram, Message, Outgoing, RemoteAddress, SA_HEADER_LEN, Source, Whole};
use crate::wire::header::{MadHeader, Method};
use crate::wire::rmpp::{RmppStatus, RmppType};
use crate::wire::segment::Segment;
use crate::wire::{MAD_LEN, MadBytes};

/// RMPP for one port; the [module](super) describes it.
#[derive(Debug)]
pub struct Rmpp {
    config: Arc<RmppConfig>,
    transfers: Transfers,
    /// Whole datagrams that wait to be sent: datagrams without RMPP, and packets other than DATA.
    control: VecDeque<Transmit>,
    /// The transfers with segments to send, which take turns.
    ready: VecDeque<TransactionKey>,
    /// The last delivered requests of one datagram, kept until they are answered.
    unanswered: VecDeque<(TransactionKey, Box<MadBytes>)>,
    /// The received messages that wait for [`Rmpp::poll_message`].
    messages: VecDeque<Message>,
    /// The failures that wait for [`Rmpp::poll_failure`].
    failures: VecDeque<Failed>,
    stats: RmppStats,
}

impl Rmpp {
    /// An RMPP without transfers.
    pub fn new(config: RmppConfig) -> Rmpp {
        Rmpp {
            config: Arc::new(config),
            transfers: Transfers::default(),
            control: VecDeque::new(),
            ready: VecDeque::new(),
            unanswered: VecDeque::new(),
            messages: VecDeque::new(),
            failures: VecDeque::new(),
            stats: RmppStats::default(),
        }
    }

    /// Accepts a message to send. A request (R clear) with a timeout ends in one message or one
    /// failure; `patience` is that timeout, counted from the arrival of the request, and zero for
    /// answers and for messages without an answer.
    ///
    /// # Errors
    /// The message was not sent; see [`Refused`].
    pub fn send(
        &mut self,
        outgoing: impl Into<Outgoing>,
        patience: Duration,
        now: Time,
    ) -> Result<(), Refused> {
        let outgoing = outgoing.into();
        let remote = *outgoing.remote();
        let (headers, source): (_, Box<dyn Source>) = match outgoing {
            Outgoing::Streamed(streamed) => (streamed.header, streamed.data),
            Outgoing::Whole(message) => {
                let Some(headers) = message.bytes.first_chunk::<SA_HEADER_LEN>() else {
                    return Err(Refused::TooShort);
                };
                if !message.is_rmpp() {
                    let mut mad: MadBytes = [0; MAD_LEN];
                    let room = mad.get_mut(..message.bytes.len());
                    room.ok_or(Refused::TooLong)?
                        .copy_from_slice(&message.bytes);
                    return self.send_datagram(Datagram { mad, remote }, patience, now);
                }
                let headers = *headers;
                (headers, Box::new(Whole::new(message.bytes, SA_HEADER_LEN)))
            }
        };
        let mut mad: MadBytes = [0; MAD_LEN];
        mad[..SA_HEADER_LEN].copy_from_slice(&headers);
        let header = MadHeader::of(&mad);
        let key = key_of(&remote, header, header.method().is_response());
        let (mut window, mut request_ack) = (1, None);
        match self
            .transfers
            .get_mut(&key)
            .map(|transfer| &mut transfer.phase)
        {
            Some(Phase::Received {
                ack, window: open, ..
            }) if key.answers => {
                (window, request_ack) = (*open, Some(ack.clone()));
            }
            Some(Phase::Received { .. }) | None => {}
            Some(Phase::Sending(_) | Phase::Receiving(_) | Phase::Awaiting { .. }) => {
                return Err(Refused::UnderWay);
            }
        }
        let sender = Sender::new(Arc::clone(&self.config), headers, source, window, now);
        let mut transfer = Transfer::new(remote, Phase::Sending(Box::new(sender)));
        transfer.patience = patience;
        transfer.request_ack = request_ack;
        transfer.request = self.take_request(&key);
        transfer.is_queued = true;
        self.transfers.insert(key, transfer, self.bounds())?;
        self.ready.push_back(key);
        Ok(())
    }

    /// Accepts a message that is one datagram, to be sent without RMPP. `patience` has the same
    /// meaning as in [`Rmpp::send`].
    ///
    /// # Errors
    /// The errors of [`Rmpp::send`].
    pub fn send_datagram(
        &mut self,
        datagram: Datagram,
        patience: Duration,
        now: Time,
    ) -> Result<(), Refused> {
        if self.control.len() >= MAX_CONTROL {
            return Err(Refused::Congested);
        }
        let (header, remote) = (MadHeader::of(&datagram.mad), datagram.remote);
        let is_answer = header.method().is_response();
        let key = key_of(&remote, header, is_answer);
        if !is_answer && !patience.is_zero() {
            if matches!(
                self.transfers.get(&key).map(|transfer| &transfer.phase),
                Some(Phase::Sending(_) | Phase::Receiving(_))
            ) {
                return Err(Refused::UnderWay);
            }
            let phase = Phase::Awaiting {
                until: now + patience,
                last_request_ack: None,
            };
            let transfer = Transfer::new(remote, phase);
            self.transfers.insert(key, transfer, self.bounds())?;
        }
        let timeout = if is_answer { Duration::ZERO } else { patience };
        self.control.push_back(Transmit { datagram, timeout });
        Ok(())
    }

    /// The next datagram to send; `None` if no datagram may be sent now. Call `poll_transmit` until
    /// it returns `None`.
    ///
    /// The timeout in the result is for the transport, because the transport does not know which
    /// segments get answers.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        if let Some(transmit) = self.control.pop_front() {
            return Some(transmit);
        }
        while let Some(key) = self.ready.pop_front() {
            let Some(transfer) = self.transfers.get_mut(&key) else {
                continue;
            };
            transfer.is_queued = false;
            let Phase::Sending(sender) = &mut transfer.phase else {
                continue;
            };
            let polled = sender.poll_transmit(now);
            if sender.can_send() {
                transfer.is_queued = true;
                self.ready.push_back(key);
            }
            let mad = match polled {
                Polled::Segment(mad) => mad,
                Polled::Working => return None,
                Polled::Nothing => continue,
            };
            let remote = transfer.remote;
            self.transfers.update_timer(&key);
            let datagram = Datagram { mad, remote };
            let timeout = Duration::ZERO;
            return Some(Transmit { datagram, timeout });
        }
        None
    }

    /// Whether [`Rmpp::poll_transmit`] may return a datagram without any new event, although it has
    /// just returned `None`, because a source is still producing data. The owner handles inbound
    /// datagrams and then polls again.
    pub fn is_working(&self) -> bool {
        !self.ready.is_empty() || !self.control.is_empty()
    }

    /// The next received message; `None` if no message waits.
    pub fn poll_message(&mut self) -> Option<Message> {
        self.messages.pop_front()
    }

    /// The next transfer that failed, or request without an answer; `None` if no failure waits.
    pub fn poll_failure(&mut self) -> Option<Failed> {
        self.failures.pop_front()
    }

    /// The next time to call [`Rmpp::handle_deadline`]. Every other call may change it.
    pub fn next_deadline(&self) -> Option<Time> {
        self.transfers.next_deadline()
    }

    /// The counters so far.
    pub fn stats(&self) -> RmppStats {
        RmppStats {
            transactions: self.transfers.len(),
            ..self.stats
        }
    }

    /// Handles an inbound datagram.
    ///
    /// A repeated request is dropped while its answer is being sent. A different request in the
    /// same transaction is a new request, and makes the old answer useless: a restarted program
    /// uses the same transaction identifiers again. An equal request also counts as new if the
    /// answer was not acknowledged for a while.
    pub fn handle(&mut self, datagram: &Datagram, now: Time) {
        let segment = Segment::of(&datagram.mad);
        let key = key_of(
            &datagram.remote,
            &segment.header,
            !segment.header.method().is_response(),
        );
        if !segment.rmpp.is_active() {
            return self.handle_single(datagram, key);
        }
        if self.transfers.get(&key).is_some() {
            self.handle_packet(key, segment, now);
        } else {
            self.handle_stray(key, segment, datagram.remote, now);
        }
        self.update(key, now);
    }

    /// Handles all timers due at `now`.
    pub fn handle_deadline(&mut self, now: Time) {
        while let Some(key) = self.transfers.due(now) {
            let Some(transfer) = self.transfers.get_mut(&key) else {
                return;
            };
            match &mut transfer.phase {
                Phase::Receiving(receiver) => receiver.handle_deadline(now),
                Phase::Sending(sender) => sender.handle_deadline(now),
                Phase::Received { .. } => {
                    self.transfers.remove(&key);
                }
                Phase::Awaiting { .. } => self.fail(key, TransferFailure::Silence),
            }
            self.update(key, now);
        }
    }

    /// Handles a datagram without RMPP, which is a whole message.
    fn handle_single(&mut self, datagram: &Datagram, key: TransactionKey) {
        let transfer = self.transfers.get(&key);
        match transfer.map(|transfer| &transfer.phase) {
            Some(Phase::Sending(sender)) if key.answers => {
                let is_other = |request: &MadBytes| *request != datagram.mad;
                let request = transfer.and_then(|transfer| transfer.request.as_deref());
                if !sender.is_stalled() && !request.is_some_and(is_other) {
                    // The answer is being sent.
                    self.stats.repeated += 1;
                    return;
                }
                // Send no ABORT: the requester would apply it to its new request.
                self.transfers.remove(&key);
            }
            Some(Phase::Sending(_) | Phase::Awaiting { .. }) => {
                self.transfers.remove(&key);
            }
            Some(Phase::Receiving(_) | Phase::Received { .. }) | None => {}
        }
        if key.answers && has_long_answer(MadHeader::of(&datagram.mad).method()) {
            if self.unanswered.len() == MAX_UNANSWERED {
                self.unanswered.pop_front();
            }
            self.unanswered.push_back((key, Box::new(datagram.mad)));
        }
        self.stats.received += 1;
        self.messages.push_back(Message::of(datagram));
    }

    /// Removes and returns the kept single-datagram request that an answer with this key answers.
    fn take_request(&mut self, key: &TransactionKey) -> Option<Box<MadBytes>> {
        let last = self
            .unanswered
            .iter()
            .rposition(|(unanswered, _)| unanswered == key)?;
        self.unanswered.remove(last).map(|(_, request)| request)
    }

    /// Handles a packet of a known transfer.
    fn handle_packet(&mut self, key: TransactionKey, segment: &Segment, now: Time) {
        let Some(transfer) = self.transfers.get_mut(&key) else {
            return;
        };
        let kind = segment.rmpp.rmpp_type();
        let is_data = kind == RmppType::Data;
        let remote = transfer.remote;
        let mut reply = None;
        match &mut transfer.phase {
            Phase::Receiving(receiver) => receiver.handle(segment, now),
            Phase::Received { ack, .. } if is_data => reply = Some(**ack),
            Phase::Received { window, .. } => {
                let rmpp = &segment.rmpp;
                if kind == RmppType::Ack && segment.fault().is_none() && rmpp.segment_number() == 0
                {
                    *window = rmpp.new_window_last().max(1);
                }
            }
            Phase::Sending(_) if is_data && key.answers => {
                // The last acknowledgement of the request was lost.
                reply = transfer.request_ack.as_deref().copied();
            }
            Phase::Sending(_) if is_data => {
                // The answer begins, so the request has arrived, even if its last acknowledgement
                // was lost.
                let receiver = Receiver::start(Arc::clone(&self.config), segment, 1, now);
                transfer.phase = Phase::Receiving(Box::new(receiver));
            }
            Phase::Sending(sender) => sender.handle(segment, now),
            Phase::Awaiting {
                last_request_ack, ..
            } if is_data => {
                let open = last_request_ack.as_ref().map_or(1, |_| self.config.window);
                let receiver = Receiver::start(Arc::clone(&self.config), segment, open, now);
                transfer.phase = Phase::Receiving(Box::new(receiver));
            }
            Phase::Awaiting {
                last_request_ack, ..
            } => match kind {
                // The receiver repeats its last acknowledgement of the request: the packet that
                // started the answer was lost.
                RmppType::Ack => reply = last_request_ack.as_deref().copied(),
                RmppType::Stop => self.fail(key, TransferFailure::Stopped),
                RmppType::Abort => self.fail(key, TransferFailure::Aborted(segment.rmpp.status())),
                _ => {}
            },
        }
        if let Some(mad) = reply {
            self.reply(Datagram { mad, remote });
        }
    }

    /// Handles a packet that belongs to no known transfer.
    fn handle_stray(
        &mut self,
        key: TransactionKey,
        segment: &Segment,
        remote: RemoteAddress,
        now: Time,
    ) {
        let kind = segment.rmpp.rmpp_type();
        if matches!(kind, RmppType::Ack | RmppType::Stop | RmppType::Abort) {
            // Such packets get no answer: otherwise two sides could answer each other endlessly.
            self.stats.stray += 1;
            return;
        }
        let is_first = segment.is_first();
        let is_number_one = segment.rmpp.segment_number() == 1;
        let refusal = match segment.fault() {
            Some(fault) => (RmppType::Abort, fault),
            None if is_first != is_number_one => (RmppType::Abort, RmppStatus::InconsistentFirst),
            // No request waits for this answer, or the requester has given its request up.
            None if !key.answers || !is_number_one => (RmppType::Abort, RmppStatus::Unspecified),
            None => {
                let receiver = Receiver::start(Arc::clone(&self.config), segment, 1, now);
                let transfer = Transfer::new(remote, Phase::Receiving(Box::new(receiver)));
                if self.transfers.insert(key, transfer, self.bounds()).is_ok() {
                    return;
                }
                self.stats.stopped += 1;
                (RmppType::Stop, RmppStatus::ResourcesExhausted)
            }
        };
        self.stats.stray += 1;
        let mad = Segment::control(&segment.headers_back(), refusal.0, refusal.1).mad();
        self.reply(Datagram { mad, remote });
    }

    /// Finishes, fails or continues a transfer after an event.
    fn update(&mut self, key: TransactionKey, now: Time) {
        let Some(transfer) = self.transfers.get_mut(&key) else {
            return;
        };
        let remote = transfer.remote;
        let (control, outcome) = match &mut transfer.phase {
            Phase::Receiving(receiver) => (receiver.take_control(), receiver.outcome()),
            Phase::Sending(sender) => (sender.take_control(), sender.outcome()),
            Phase::Received { .. } | Phase::Awaiting { .. } => (None, None),
        };
        if let Some(mad) = control {
            self.reply(Datagram { mad, remote });
        }
        match outcome {
            None => self.continue_transfer(key),
            Some(Err(failure)) => self.fail(key, failure),
            Some(Ok(())) => self.finish(key, control, now),
        }
    }

    /// Continues a transfer that has not ended: queues it if it can send, and sets its timer.
    fn continue_transfer(&mut self, key: TransactionKey) {
        if let Some(transfer) = self.transfers.get_mut(&key)
            && let Phase::Sending(sender) = &transfer.phase
            && sender.can_send()
            && !transfer.is_queued
        {
            transfer.is_queued = true;
            self.ready.push_back(key);
        }
        self.transfers.update_timer(&key);
    }

    /// Ends a transfer whose message was received completely or acknowledged completely. A sent
    /// request then waits for its answer; a received message leaves its last acknowledgement, to be
    /// repeated.
    fn finish(&mut self, key: TransactionKey, control: Option<MadBytes>, now: Time) {
        let Some(transfer) = self.transfers.remove(&key) else {
            return;
        };
        let remote = transfer.remote;
        let next = match transfer.phase {
            Phase::Receiving(receiver) => {
                self.stats.received += 1;
                let bytes = receiver.into_bytes();
                self.messages.push_back(Message { bytes, remote });
                // The last segment is acknowledged as soon as it arrives.
                control.map(|ack| Phase::Received {
                    ack: Box::new(ack),
                    window: 1,
                    until: now + self.config.linger,
                })
            }
            Phase::Sending(sender) => {
                self.stats.sent += 1;
                let awaits_answer = !key.answers && !transfer.patience.is_zero();
                awaits_answer.then(|| {
                    let last_request_ack =
                        Segment::ack(sender.headers(), 0, self.config.window).mad();
                    self.reply(Datagram {
                        mad: last_request_ack,
                        remote,
                    });
                    Phase::Awaiting {
                        until: now + transfer.patience,
                        last_request_ack: Some(Box::new(last_request_ack)),
                    }
                })
            }
            Phase::Received { .. } | Phase::Awaiting { .. } => None,
        };
        if let Some(phase) = next {
            // The transfer already counted towards the bounds, so that no bound applies.
            let bounds = [usize::MAX; 2];
            let inserted = self
                .transfers
                .insert(key, Transfer::new(remote, phase), bounds);
            debug_assert_eq!(inserted, Ok(()));
        }
    }

    /// Ends a transfer with a failure for the owner, unless the transfer is unknown.
    fn fail(&mut self, key: TransactionKey, failure: TransferFailure) {
        if self.transfers.remove(&key).is_some() {
            self.stats.failed += 1;
            self.failures.push_back(Failed { key, failure });
        }
    }

    /// Queues a datagram of the protocol; drops the datagram if too many wait.
    fn reply(&mut self, datagram: Datagram) {
        if self.control.len() < MAX_CONTROL {
            let timeout = Duration::ZERO;
            self.control.push_back(Transmit { datagram, timeout });
        } else {
            self.stats.dropped += 1;
        }
    }

    /// The maximum numbers of all transfers and of transfers with one LID.
    fn bounds(&self) -> [usize; 2] {
        [self.config.max_transactions, self.config.max_per_client]
    }
}

/// Whether requests with this method have answers that may need many segments.
fn has_long_answer(method: Method) -> bool {
    matches!(
        method,
        Method::GET_TABLE | Method::GET_TRACE_TABLE | Method::GET_MULTI
    )
}

/// The key of a transaction; `answers` states whether this side sends the answer.
fn key_of(remote: &RemoteAddress, header: &MadHeader, answers: bool) -> TransactionKey {
    TransactionKey {
        lid: remote.lid,
        qpn: remote.qpn,
        tid: header.tid(),
        class: header.class(),
        answers,
    }
}
