//! Messages that are sent in segments (IBA 13.6).

use std::time::Duration;

use rsm_mad::wire::MAD_LEN;
use rsm_mad::wire::MadBytes;

use super::{Flags, Kind, PAYLOAD_LEN, RmppHeader, RmppStatusCode};

/// The maximum number of segments that are sent at once, even if the other end opens a wider
/// window: the capacity of a kernel's send queue.
const MAX_BURST: u32 = 64;

/// The time between two bursts of segments: the time in which the simulated adapter sends a burst.
pub(in crate::layer) const BURST_PAUSE: Duration = Duration::from_micros(64);

/// A message to send in segments.
#[derive(Debug)]
pub(in crate::layer) struct Sender {
    /// The message: all headers, then the data.
    message: Vec<u8>,
    /// The offset in bytes at which the data begin.
    offset: usize,
    /// The number of segments, at least 1.
    count: u32,
    /// The last segment that was sent.
    sent: u32,
    /// The last segment that was acknowledged.
    acknowledged: u32,
    /// The last segment that may be sent.
    window: u32,
}

/// The meaning of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::layer) enum Acknowledged {
    /// The acknowledgement is older than another and changes nothing.
    Nothing,
    /// More segments can be sent. `is_progress` is true if the acknowledgement covers new segments.
    More { is_progress: bool },
    /// All segments have arrived.
    All,
    /// All segments had arrived before, and the reply to the last acknowledgement was lost.
    AllAgain,
    /// The acknowledgement is invalid; the value is the status for the ABORT.
    Wrong(u8),
}

impl Sender {
    /// A sender of `message`, which begins with the headers of its class, `offset` bytes long.
    /// `window` is 1 unless the other end opened a wider window.
    pub(in crate::layer) fn new(message: Vec<u8>, offset: usize, window: u32) -> Sender {
        let data = message.len() - offset;
        Sender {
            // The length of a message is bounded far below 2^32.
            count: data.div_ceil(MAD_LEN - offset).max(1) as u32,
            message,
            offset,
            sent: 0,
            acknowledged: 0,
            window,
        }
    }

    /// Whether every segment has been acknowledged.
    pub(in crate::layer) fn is_acknowledged(&self) -> bool {
        self.acknowledged == self.count
    }

    /// The segments to send now, at most [`MAX_BURST`], and whether the window allows more.
    pub(in crate::layer) fn burst(&mut self) -> (Vec<MadBytes>, bool) {
        let last = self.window.min(self.count);
        let burst_end = last.min(self.sent.saturating_add(MAX_BURST));
        let segments = (self.sent + 1..=burst_end)
            .map(|number| self.segment(number))
            .collect();
        self.sent = self.sent.max(burst_end);
        (segments, burst_end < last)
    }

    /// Marks all unacknowledged segments to be sent again: the other end repeats an acknowledgement
    /// only for a segment that it has acknowledged before.
    pub(in crate::layer) fn rewind(&mut self) {
        self.sent = self.acknowledged;
    }

    /// Handles an acknowledgement.
    pub(in crate::layer) fn acknowledge(&mut self, ack: &RmppHeader) -> Acknowledged {
        let (segment, window) = (ack.segment.get(), ack.length_or_window.get());
        if self.is_acknowledged() {
            return Acknowledged::AllAgain;
        }
        if segment > self.count || segment > self.window {
            return Acknowledged::Wrong(RmppStatusCode::SEGMENT_TOO_BIG);
        }
        if window < self.window || segment < self.acknowledged {
            return Acknowledged::Nothing;
        }
        let is_progress = segment > self.acknowledged;
        self.acknowledged = segment;
        self.sent = self.sent.max(segment);
        self.window = window;
        if self.is_acknowledged() {
            Acknowledged::All
        } else {
            Acknowledged::More { is_progress }
        }
    }

    /// The datagram of segment number `number`, counted from 1.
    fn segment(&self, number: u32) -> MadBytes {
        let data_len = MAD_LEN - self.offset;
        let from = self.offset + data_len * (number as usize - 1);
        let data = &self.message[from..self.message.len().min(from + data_len)];
        let mut mad = [0; MAD_LEN];
        mad[..self.offset].copy_from_slice(&self.message[..self.offset]);
        mad[self.offset..self.offset + data.len()].copy_from_slice(data);
        let mut flags = Flags::ACTIVE.0;
        let padding = self.offset + data_len * self.count as usize - self.message.len();
        let mut length = 0;
        if number == 1 {
            flags |= Flags::FIRST.0;
            // The length of the payload of all segments, including the class header in each.
            length = PAYLOAD_LEN * self.count as usize - padding;
        }
        if number == self.count {
            flags |= Flags::LAST.0;
            length = PAYLOAD_LEN - padding;
        }
        RmppHeader {
            version: 1,
            kind: Kind::DATA,
            time_and_flags: flags,
            status: 0,
            segment: number.into(),
            length_or_window: (length as u32).into(),
        }
        .write_into(&mut mad);
        mad
    }
}
