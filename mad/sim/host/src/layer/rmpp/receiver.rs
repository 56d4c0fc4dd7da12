//! Messages that arrive in segments (IBA 13.6).

use std::collections::BTreeMap;

use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::header::{MadHeader, Method};
use rsm_mad::wire::{MAD_LEN, MadBytes};

use super::{Flags, Kind, PAYLOAD_LEN, RmppHeader};
use crate::layer::class;
use crate::protocol::MAX_MESSAGE;

/// The number of segments by which the window opens: an eighth of a receive queue of 512.
const WINDOW: u32 = 64;

/// A message that is arriving, or arrived recently.
#[derive(Debug)]
pub(in crate::layer) struct Reception {
    pub(in crate::layer) remote: RemoteAddress,
    /// The first segment as received, then the data of the following segments. Empty after the
    /// message was delivered.
    message: Vec<u8>,
    /// The first segment, the basis of acknowledgements.
    first: MadBytes,
    /// The number of segments appended to [`Self::message`].
    segments: u32,
    /// The segments beyond a gap, as they were received; fewer than [`WINDOW`].
    beyond_gap: BTreeMap<u32, MadBytes>,
    /// The last segment that was acknowledged.
    acknowledged: u32,
    /// The last segment that the sender may send.
    window: u32,
    /// Whether the last segment has arrived.
    is_complete: bool,
    /// The number of segments of the answer that may be sent before its first acknowledgement: the
    /// window that the other end opened when the request was complete.
    pub(in crate::layer) answer_window: u32,
}

/// The result of handling a segment.
#[derive(Debug)]
pub(in crate::layer) enum SegmentOutcome {
    /// The segment needs no reply.
    Nothing,
    /// An acknowledgement to send.
    Acknowledge(MadBytes),
    /// The message is complete; an acknowledgement to send, and the message.
    Complete(MadBytes, Vec<u8>),
    /// The message is too long.
    TooLong,
}

impl Reception {
    /// Starts a reception with the first segment.
    pub(in crate::layer) fn start(
        first: &MadBytes,
        remote: RemoteAddress,
    ) -> (Reception, SegmentOutcome) {
        let mut reception = Reception {
            remote,
            message: first.to_vec(),
            first: *first,
            segments: 1,
            beyond_gap: BTreeMap::new(),
            acknowledged: 0,
            window: 1,
            is_complete: false,
            answer_window: 1,
        };
        let header = RmppHeader::of(first);
        let outcome = if header.has(Flags::LAST) {
            reception.complete(&header)
        } else {
            reception.window += WINDOW;
            SegmentOutcome::Acknowledge(reception.acknowledgement(first))
        };
        (reception, outcome)
    }

    /// Whether the whole message has arrived.
    pub(in crate::layer) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Handles a later segment or a repeated segment.
    pub(in crate::layer) fn handle_segment(&mut self, mad: &MadBytes) -> SegmentOutcome {
        let header = RmppHeader::of(mad);
        let number = header.segment.get();
        if number > self.window {
            return SegmentOutcome::Nothing;
        }
        if self.is_complete || number <= self.acknowledged {
            return SegmentOutcome::Acknowledge(self.acknowledgement(mad));
        }
        if number != self.segments + 1 {
            if number > self.segments {
                self.beyond_gap.entry(number).or_insert(*mad);
            }
            return SegmentOutcome::Nothing;
        }
        let mut last = header;
        self.append(mad);
        while let Some(next) = self.beyond_gap.remove(&(self.segments + 1)) {
            last = RmppHeader::of(&next);
            self.append(&next);
        }
        if self.message.len() > MAX_MESSAGE {
            return SegmentOutcome::TooLong;
        }
        if last.has(Flags::LAST) {
            self.complete(&last)
        } else if self.segments == self.window {
            self.window = self.window.saturating_add(WINDOW);
            SegmentOutcome::Acknowledge(self.acknowledgement(mad))
        } else {
            SegmentOutcome::Nothing
        }
    }

    /// Appends the data of the next segment to the message.
    fn append(&mut self, mad: &MadBytes) {
        let offset = class::data_offset(MadHeader::of(mad).class());
        self.message.extend_from_slice(&mad[offset..]);
        self.segments += 1;
    }

    /// Ends the message after its last segment, whose header is `last`.
    fn complete(&mut self, last: &RmppHeader) -> SegmentOutcome {
        self.is_complete = true;
        self.beyond_gap.clear();
        let mut message = std::mem::take(&mut self.message);
        // An invalid length counts as a full segment, as in Linux.
        let payload = last.length_or_window.get() as usize;
        let padding = PAYLOAD_LEN.saturating_sub(payload);
        message.truncate(message.len() - padding);
        SegmentOutcome::Complete(self.acknowledgement(&self.first.clone()), message)
    }

    /// The acknowledgement of all segments so far, with the headers of `mad`.
    fn acknowledgement(&mut self, mad: &MadBytes) -> MadBytes {
        self.acknowledged = self.segments;
        let mut ack = reply_headers(mad);
        RmppHeader {
            version: 1,
            kind: Kind::ACK,
            time_and_flags: Flags::ACTIVE.0,
            status: 0,
            segment: self.segments.into(),
            length_or_window: self.window.into(),
        }
        .write_into(&mut ack);
        ack
    }

    /// The first segment, the basis of the ABORT after a time-out.
    pub(in crate::layer) fn first(&self) -> &MadBytes {
        &self.first
    }
}

/// A packet to the sender of `mad`: its headers with the R bit inverted, and no data.
pub(in crate::layer) fn reply_headers(mad: &MadBytes) -> MadBytes {
    let header = MadHeader::of(mad);
    let offset = class::data_offset(header.class());
    let mut reply = [0; MAD_LEN];
    reply[..offset].copy_from_slice(&mad[..offset]);
    reply[3] = header.method().0 ^ Method::RESPONSE_BIT;
    reply
}
