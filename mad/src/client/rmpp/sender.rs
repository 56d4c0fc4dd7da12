//! The sending side of one RMPP transfer (IBA 13.6.6.2).

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use super::config::RmppConfig;
use super::{MAX_SEND_WINDOW, STALLED_AFTER, TransferFailure};
use crate::Time;
use crate::transport::{SA_DATA_LEN, Source};
use crate::wire::MadBytes;
use crate::wire::rmpp::{RmppStatus, RmppType};
use crate::wire::segment::{Headers, Segment, payload_of_all};

/// The data of one segment: the first `len` bytes of `data`.
#[derive(Clone)]
struct SegmentData {
    data: [u8; SA_DATA_LEN],
    len: usize,
}

/// The result of [`Sender::poll_transmit`].
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart where it is returned"
)]
pub(super) enum Polled {
    /// A segment to send.
    Segment(MadBytes),
    /// The source is still producing the data of the next segment; poll again after other
    /// transfers.
    Working,
    /// Nothing may be sent now.
    Nothing,
}

/// The sending side of one transfer (IBA 13.6.6.2). The sender cuts a message into segments, and
/// sends as many segments as the receiver's window allows. If an acknowledgement is late, it
/// resends all segments from the first unacknowledged segment on.
pub(super) struct Sender {
    config: Arc<RmppConfig>,
    headers: Headers,
    source: Box<dyn Source>,
    /// PayloadLength of the first segment, which counts the payload of all segments; 0 if it is
    /// unknown.
    announced: u32,
    /// The segments in memory, from segment number `acked` + 1 on.
    window: VecDeque<SegmentData>,
    /// The data that follow the window. Only data after a segment show that the segment is not the
    /// last, so the buffer holds two segments.
    produced: [u8; 2 * SA_DATA_LEN],
    /// The number of bytes of data in `produced`.
    filled: usize,
    /// Whether the source has no more data than `produced` holds.
    has_ended: bool,
    /// The number of the last segment; `None` while it is unknown.
    last: Option<u32>,
    /// The number of the last segment that the receiver has acknowledged; 0 at first.
    acked: u32,
    /// The number of the last segment sent; after a loss, the number of the segment before the
    /// first segment to resend.
    sent: u32,
    /// The highest number of a segment ever sent.
    highest: u32,
    /// The number of the last segment that the receiver's window allows.
    window_last: u32,
    /// The value of `acked` when a repeated acknowledgement last caused resending.
    repeated_at: Option<u32>,
    /// The number of retries since the last progress.
    retries: u8,
    /// The time of the next retry.
    deadline: Time,
    /// The time at which the whole transfer fails.
    give_up_at: Time,
    /// The ABORT that waits to be sent.
    control: Option<MadBytes>,
    /// The end of the transfer; `None` while it continues.
    outcome: Option<Result<(), TransferFailure>>,
}

impl Sender {
    /// The sender of a message with these headers and this data, to a receiver that accepts
    /// `window` segments without an acknowledgement: 1, or the number that the receiver allowed for
    /// the answer to its request.
    pub(super) fn new(
        config: Arc<RmppConfig>,
        headers: Headers,
        source: Box<dyn Source>,
        window: u32,
        now: Time,
    ) -> Sender {
        let announced = source.remaining().map_or(0, payload_of_all);
        let deadline = now + config.timeout_after(0);
        let give_up_at = config.deadline_from(now);
        Sender {
            config,
            headers,
            source,
            announced,
            window: VecDeque::new(),
            produced: [0; 2 * SA_DATA_LEN],
            filled: 0,
            has_ended: false,
            last: None,
            acked: 0,
            sent: 0,
            highest: 0,
            window_last: window.max(1),
            repeated_at: None,
            retries: 0,
            deadline,
            give_up_at,
            control: None,
            outcome: None,
        }
    }

    /// The headers of the message.
    pub(super) fn headers(&self) -> &Headers {
        &self.headers
    }

    /// Whether the sender has resent at least [`STALLED_AFTER`] times without progress.
    pub(super) fn is_stalled(&self) -> bool {
        self.retries >= STALLED_AFTER
    }

    /// The result of the transfer; `None` while the transfer continues.
    pub(super) fn outcome(&self) -> Option<Result<(), TransferFailure>> {
        self.outcome
    }

    /// Takes the next packet that is not DATA: the ABORT that ends the transfer; `None` if no ABORT
    /// waits.
    pub(super) fn take_control(&mut self) -> Option<MadBytes> {
        self.control.take()
    }

    /// Whether the window allows another segment.
    pub(super) fn can_send(&self) -> bool {
        let next = self.sent.saturating_add(1);
        let limit = self
            .window_last
            .min(self.acked.saturating_add(MAX_SEND_WINDOW));
        self.outcome.is_none() && next <= limit && self.last.is_none_or(|last| next <= last)
    }

    /// The next segment, if a segment may be sent now.
    pub(super) fn poll_transmit(&mut self, now: Time) -> Polled {
        if !self.can_send() {
            return Polled::Nothing;
        }
        let number = self.sent + 1;
        let index = (number - self.acked - 1) as usize;
        if self.window.len() <= index && !self.fill_window() {
            return Polled::Working;
        }
        let segment_data = &self.window[index];
        let is_last = self.last == Some(number);
        let data = &segment_data.data[..segment_data.len];
        let segment = Segment::data(&self.headers, number, self.announced, is_last, data);
        self.sent = number;
        self.highest = self.highest.max(number);
        self.deadline = now + self.config.timeout_after(self.retries);
        Polled::Segment(segment.mad())
    }

    /// Puts the next segment into the window, after one call of the source. Returns whether the
    /// source had enough data for the segment.
    fn fill_window(&mut self) -> bool {
        if !self.has_ended && self.filled <= SA_DATA_LEN {
            let filled = self.source.fill(&mut self.produced[self.filled..]);
            self.filled = (self.filled + filled.bytes).min(self.produced.len());
            self.has_ended = filled.ended;
        }
        if !self.has_ended && self.filled <= SA_DATA_LEN {
            return false;
        }
        let number = self.acked + self.window.len() as u32 + 1;
        let len = self.filled.min(SA_DATA_LEN);
        let mut data = [0; SA_DATA_LEN];
        data[..len].copy_from_slice(&self.produced[..len]);
        self.produced.copy_within(len..self.filled, 0);
        self.filled -= len;
        // If the segment numbers are used up before the data end, the message stays incomplete:
        // sending it would take years.
        if self.has_ended && self.filled == 0 || number == u32::MAX {
            self.last = Some(number);
        }
        self.window.push_back(SegmentData { data, len });
        true
    }

    /// Handles a packet from the receiver.
    pub(super) fn handle(&mut self, segment: &Segment, now: Time) {
        if self.outcome.is_some() {
            return;
        }
        if let Some(fault) = segment.fault() {
            return self.abort_for_violation(fault);
        }
        match segment.rmpp.rmpp_type() {
            RmppType::Ack => self.handle_ack(segment, now),
            RmppType::Stop => self.outcome = Some(Err(TransferFailure::Stopped)),
            RmppType::Abort => {
                self.outcome = Some(Err(TransferFailure::Aborted(segment.rmpp.status())));
            }
            // DATA travels in the other direction; the caller has handled it.
            _ => {}
        }
    }

    /// Handles an ACK: moves the window forward, or resends if the receiver repeats its ACK.
    fn handle_ack(&mut self, segment: &Segment, now: Time) {
        let (number, window_last) = (
            segment.rmpp.segment_number(),
            segment.rmpp.new_window_last(),
        );
        if window_last < number {
            return self.abort_for_violation(RmppStatus::NewWindowLastTooSmall);
        }
        if number > self.highest {
            return self.abort_for_violation(RmppStatus::SegmentNumberTooBig);
        }
        if number < self.acked {
            // A later acknowledgement has overtaken this one.
            return;
        }
        let (has_progress, has_wider_window) =
            (number > self.acked, window_last > self.window_last);
        if has_progress {
            self.window.drain(..(number - self.acked) as usize);
            self.acked = number;
            self.sent = self.sent.max(number);
        }
        self.window_last = self.window_last.max(window_last);
        if self.last == Some(number) {
            self.outcome = Some(Ok(()));
        } else if has_progress || has_wider_window {
            self.retries = 0;
            self.deadline = now + self.config.timeout_after(0);
        } else if self.sent > self.acked && self.repeated_at != Some(number) {
            // The receiver repeats its acknowledgement although more was sent: the next segment is
            // missing.
            self.repeated_at = Some(number);
            self.sent = self.acked;
        }
    }

    /// Aborts the transfer, because the receiver violated the protocol.
    fn abort_for_violation(&mut self, status: RmppStatus) {
        self.abort(status, TransferFailure::Violation(status));
    }

    /// Ends the transfer with `failure`, and an ABORT with `status` to the receiver.
    fn abort(&mut self, status: RmppStatus, failure: TransferFailure) {
        let abort = Segment::control(&self.headers, RmppType::Abort, status);
        self.control = Some(abort.mad());
        self.outcome = Some(Err(failure));
    }

    /// The next time to call [`Sender::handle_deadline`]; `None` after the end of the transfer.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        (self.outcome.is_none()).then(|| self.deadline.min(self.give_up_at))
    }

    /// Handles the timers due at `now`.
    pub(super) fn handle_deadline(&mut self, now: Time) {
        if self.outcome.is_some() {
            return;
        }
        if now >= self.give_up_at {
            self.abort(RmppStatus::TotalTimeTooLong, TransferFailure::TotalTime);
        } else if now >= self.deadline {
            if self.sent == self.acked && self.can_send() {
                // The other side has all segments so far; the source is producing the remaining
                // data.
                self.deadline = now + self.config.timeout_after(0);
                return;
            }
            if self.retries >= self.config.retries {
                return self.abort(RmppStatus::TooManyRetries, TransferFailure::Silence);
            }
            self.retries += 1;
            self.sent = self.acked;
            self.deadline = now + self.config.timeout_after(self.retries);
        }
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("acked", &self.acked)
            .field("sent", &self.sent)
            .field("window_last", &self.window_last)
            .field("last", &self.last)
            .field("retries", &self.retries)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}
