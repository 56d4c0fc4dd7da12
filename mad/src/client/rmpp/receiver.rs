use std::fmt;
use std::sync::Arc;

use super::TransferFailure;
use super::config::RmppConfig;
use crate::Time;
use crate::transport::SA_DATA_LEN;
use crate::wire::MadBytes;
use crate::wire::rmpp::{RmppStatus, RmppType};
use crate::wire::segment::{CLASS_HEADER_LEN, Headers, MAX_PAYLOAD, Segment, data_of};

/// The receiving side of one transfer (IBA 13.6.6.3): it joins the segments in order and
/// acknowledges every half window.
///
/// The receiver drops a segment that arrives too early: on one path packets do not overtake each
/// other, so a gap is a loss, and repeated acknowledgements make the sender go back to the gap.
pub(super) struct Receiver {
    config: Arc<RmppConfig>,
    /// The headers of the message, from its first segment.
    headers: Headers,
    /// The headers of packets to the sender.
    headers_back: Headers,
    /// The data of all segments received in order.
    data: Vec<u8>,
    /// PayloadLength of the first segment, 0 if the segment does not state it.
    announced: u32,
    /// The number of the last segment received in order; 0 at first.
    received: u32,
    /// The number of the last segment that was acknowledged.
    acked: u32,
    /// The number of the last segment that the window allows.
    window_last: u32,
    /// The number of repeated acknowledgements since the last progress.
    retries: u8,
    /// The time of the next repeated acknowledgement.
    deadline: Time,
    /// The time at which the whole transfer fails.
    give_up_at: Time,
    /// The packet that waits to be sent: ACK, STOP or ABORT.
    control: Option<MadBytes>,
    /// The end of the transfer; `None` while it continues.
    outcome: Option<Result<(), TransferFailure>>,
}

impl Receiver {
    /// The receiver of a message, created from its first segment. `open` is the number of segments
    /// that the sender may send without an acknowledgement.
    pub(super) fn start(
        config: Arc<RmppConfig>,
        first: &Segment,
        open: u32,
        now: Time,
    ) -> Receiver {
        let mut receiver = Receiver {
            headers: first.headers(),
            headers_back: first.headers_back(),
            data: Vec::new(),
            announced: 0,
            received: 0,
            acked: 0,
            window_last: open.max(1),
            retries: 0,
            deadline: now + config.timeout_after(1),
            give_up_at: config.deadline_from(now),
            config,
            control: None,
            outcome: None,
        };
        receiver.handle(first, now);
        receiver
    }

    /// The result of the transfer; `None` while the transfer continues.
    pub(super) fn outcome(&self) -> Option<Result<(), TransferFailure>> {
        self.outcome
    }

    /// The next packet to send: ACK, STOP or ABORT. A later packet replaces one that was not sent
    /// yet.
    pub(super) fn take_control(&mut self) -> Option<MadBytes> {
        self.control.take()
    }

    /// The message in the form of [`Message`](crate::transport::Message), complete if the outcome
    /// is `Ok`.
    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.headers.len() + self.data.len());
        bytes.extend_from_slice(&self.headers);
        bytes.append(&mut self.data);
        bytes
    }

    /// Handles a packet from the sender.
    pub(super) fn handle(&mut self, segment: &Segment, now: Time) {
        if self.outcome.is_some() {
            return;
        }
        if let Some(fault) = segment.fault() {
            return self.abort_for_violation(fault);
        }
        match segment.rmpp.rmpp_type() {
            RmppType::Data => self.data(segment, now),
            RmppType::Stop => self.outcome = Some(Err(TransferFailure::Stopped)),
            RmppType::Abort => {
                self.outcome = Some(Err(TransferFailure::Aborted(segment.rmpp.status())));
            }
            // An ACK travels in the other direction.
            _ => {}
        }
    }

    /// Handles DATA.
    fn data(&mut self, segment: &Segment, now: Time) {
        let number = segment.rmpp.segment_number();
        if segment.is_first() != (number == 1) {
            return self.abort_for_violation(RmppStatus::InconsistentFirst);
        }
        if number > self.window_last {
            return self.abort_for_violation(RmppStatus::SegmentNumberTooBig);
        }
        if number != self.received + 1 {
            // The segment is old, because the acknowledgement was lost or is still under way; or
            // the segment is early, and repeated acknowledgements report the gap to the sender.
            return self.acknowledge();
        }
        let payload = segment.rmpp.payload_length();
        let max_len = self.config.max_received;
        if number == 1 {
            self.announced = payload;
            if data_of(payload) > max_len as u64 {
                return self.stop();
            }
        }
        let length = if segment.is_last() {
            if !(CLASS_HEADER_LEN..=MAX_PAYLOAD).contains(&payload) {
                return self.abort_for_violation(RmppStatus::InconsistentLast);
            }
            (payload - CLASS_HEADER_LEN) as usize
        } else {
            SA_DATA_LEN
        };
        if self.data.len() + length > max_len {
            return self.stop();
        }
        self.data.extend_from_slice(&segment.data[..length]);
        self.received = number;
        self.retries = 0;
        self.deadline = now + self.config.timeout_after(1);
        if self.contradicts_announced_length(segment.is_last()) {
            return self.abort_for_violation(RmppStatus::InconsistentLast);
        }
        if segment.is_last() {
            self.window_last = number;
            self.outcome = Some(Ok(()));
            self.acknowledge();
        } else if number == 1
            || number == self.window_last
            || number - self.acked >= self.config.window.div_ceil(2)
        {
            // The first segment is acknowledged too, because the window of the sender may have only
            // this segment.
            self.acknowledge();
        }
    }

    /// Whether the received length differs from the length that the first segment announced.
    fn contradicts_announced_length(&self, ended: bool) -> bool {
        if self.announced == 0 {
            return false;
        }
        let payload =
            u64::from(self.received) * u64::from(CLASS_HEADER_LEN) + self.data.len() as u64;
        let announced = u64::from(self.announced);
        if ended {
            payload != announced
        } else {
            payload >= announced
        }
    }

    /// Acknowledges the received segments and, before the end, opens the window.
    fn acknowledge(&mut self) {
        if self.outcome.is_none() {
            let ahead = self.received.saturating_add(self.config.window.max(1));
            self.window_last = self.window_last.max(ahead);
        }
        self.acked = self.received;
        let ack = Segment::ack(&self.headers_back, self.received, self.window_last);
        self.control = Some(ack.mad());
    }

    /// Ends the transfer with STOP, because the message is too long.
    fn stop(&mut self) {
        let status = RmppStatus::ResourcesExhausted;
        let stop = Segment::control(&self.headers_back, RmppType::Stop, status);
        self.control = Some(stop.mad());
        self.outcome = Some(Err(TransferFailure::TooLong));
    }

    fn abort_for_violation(&mut self, status: RmppStatus) {
        self.abort(status, TransferFailure::Violation(status));
    }

    fn abort(&mut self, status: RmppStatus, failure: TransferFailure) {
        let abort = Segment::control(&self.headers_back, RmppType::Abort, status);
        self.control = Some(abort.mad());
        self.outcome = Some(Err(failure));
    }

    /// The next time to call [`Receiver::handle_deadline`].
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
            if self.retries >= self.config.retries {
                return self.abort(RmppStatus::TooManyRetries, TransferFailure::Silence);
            }
            self.retries += 1;
            self.deadline = now + self.config.timeout_after(self.retries.saturating_add(1));
            self.acknowledge();
        }
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("received", &self.received)
            .field("window_last", &self.window_last)
            .field("bytes", &self.data.len())
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}
