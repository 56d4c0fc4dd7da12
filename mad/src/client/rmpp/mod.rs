//! Reliable multi-packet transactions, RMPP version 1 (IBA 13.6), without clock, thread or socket.
//!
//! [`Rmpp`] stands between datagrams and [messages](crate::transport::Message) of the SA. The owner
//! passes inbound datagrams to [`Rmpp::handle`] and outgoing messages to [`Rmpp::send`], sends the
//! datagrams of [`Rmpp::poll_transmit`], polls the results with [`Rmpp::poll_message`] and
//! [`Rmpp::poll_failure`], and calls [`Rmpp::handle_deadline`] at [`Rmpp::next_deadline`]. Equal
//! calls at equal times produce equal datagrams.
//!
//! * **Both sides**: a server that answers GetTable with many segments, a server that receives a
//!   GetMulti with many segments, and the client of both. After a request of many segments the
//!   direction of the transfer changes (IBA 13.6.4): the client acknowledges segment 0, with the
//!   number of segments of the answer that it accepts without further acknowledgement.
//! * **Lost packets**: a sender goes back to the first unacknowledged segment, at once if the
//!   receiver reports a gap and otherwise after a timeout; a receiver repeats its last
//!   acknowledgement. Both give up after a number of attempts without progress, and when the whole
//!   transfer takes too long.
//! * **Wrong packets** end the transfer to which they belong with the ABORT of the specification.
//!   Packets that belong to no transfer are counted; DATA packets are also answered, so that their
//!   sender stops.
//! * **Bounds**: on transfers in total and with one LID, on the length of a received message, on
//!   the window of either side. A [streamed](crate::transport::Streamed) answer of any length
//!   takes the memory of one window.
//!
//! Datagrams without RMPP pass through as messages, so that an owner has one interface for both.
//! Any request with a timeout ends in one message or one failure.

mod config;
mod mux;
mod receiver;
mod refused;
mod sender;
mod stats;
mod transfers;

use rsm_ids::Lid;

use crate::ids::Tid;
use crate::wire::header::Class;
use crate::wire::rmpp::RmppStatus;

pub use config::RmppConfig;
pub use mux::Rmpp;
pub use refused::Refused;
pub use stats::RmppStats;

/// The maximum number of segments that a sender sends without an acknowledgement, even if the
/// receiver opens a wider window: 32, which need 6.5 kB for resending.
pub const MAX_SEND_WINDOW: u32 = 32;

/// The maximum number of single-datagram requests that are kept until their answers: 64, which take
/// 18 kB. An owner that answers at once needs one. Repeats of older requests are recognised less
/// well; see [`Rmpp::handle`].
const MAX_UNANSWERED: usize = 64;

/// The number of consecutive attempts without an acknowledgement after which a repeated request
/// means that the requester has given up on the answer: 2, which take 1.5 s by default.
const STALLED_AFTER: u8 = 2;

/// The maximum number of packets other than DATA that wait for [`Rmpp::poll_transmit`]: 8192, 2.6
/// MB. An owner that polls after each call never sees more than two; further packets are dropped
/// and counted, as if lost on the wire.
pub const MAX_CONTROL: usize = 8192;

/// The reason why a transfer or a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransferFailure {
    /// The other side sent ABORT.
    Aborted(RmppStatus),
    /// The other side sent STOP, because it lacks resources.
    Stopped,
    /// The other side broke the protocol; this side sent ABORT with this status.
    Violation(RmppStatus),
    /// The message is longer than [`RmppConfig::max_received`]; this side sent STOP.
    TooLong,
    /// No answer or acknowledgement arrived after all retries.
    Silence,
    /// The transfer took longer than [`RmppConfig::total_time`].
    TotalTime,
}

/// The key of a transfer between this side and another side, or of a request that waits for its
/// answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionKey {
    /// The LID of the other side.
    pub lid: Lid,
    /// The queue pair of the other side.
    pub qpn: u32,
    /// The transaction ID, all 64 bits.
    pub tid: Tid,
    /// The management class.
    pub class: Class,
    /// Whether this side answers a request of the other side.
    pub answers: bool,
}

/// A transfer that failed, or a request without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed {
    /// The transfer or request that failed.
    pub key: TransactionKey,
    /// The reason for the failure.
    pub failure: TransferFailure,
}
