//! Reliable multi-packet transactions, version 1 (IBA 13.6), with the constants of Linux: a window
//! of 64 segments, which the receiver extends when all of its segments have arrived; 2 s to wait
//! for an acknowledgement; 40 s for a message to arrive; and 10 s in which the segments of a
//! received message are acknowledged again.

mod header;
mod receiver;
mod sender;

pub(super) use header::{ABORT_CODES, Flags, Kind, RmppHeader, RmppStatusCode};
pub(super) use receiver::{Reception, SegmentOutcome, reply_headers};
pub(super) use sender::{Acknowledged, BURST_PAUSE, Sender};

/// The length of a segment without the common and the RMPP header, in bytes, as PayloadLength
/// counts it.
const PAYLOAD_LEN: usize = 220;
