//! Reliable multi-packet transactions, RMPP version 1 (IBA 13.6), without clock, thread or socket.
//!
//! [`Rmpp`] stands between datagrams and [messages](crate::transport::Message) of the
//! SA. The owner passes on what arrives with [`Rmpp::handle`], gives it what to send
//! with [`Rmpp::send`], sends what [`Rmpp::poll_transmit`] hands out, takes what
//! [`Rmpp::poll_message`] and [`Rmpp::poll_failure`] hand out, and calls [`Rmpp::handle_deadline`]
//! when [`Rmpp::next_deadline`] has come. The same calls with the same times give the same
//! datagrams.
//!
//! * **Either way**: a server that answers GetTable with many segments, a server that is asked by
//!   GetMulti with many, and the client of both. After a question of many segments the transfer
//!   turns round (IBA 13.6.4): the client says with an acknowledgement of segment 0 how many
//!   segments of the answer it takes unasked.
//! * **Lost packets**: a sender goes back to the first segment that was not acknowledged, at once
//!   where the receiver reports a gap and otherwise after a timeout; a receiver repeats its last
//!   acknowledgement. Both give up after a number of attempts without progress, and when the whole
//!   takes too long.
//! * **Wrong packets** end the transfer they belong to with the ABORT that the specification has
//!   for them. Packets that belong to none are counted; DATA of them is answered, so that its
//!   sender stops.
//! * **Bounds**: on transfers in total and with one LID, on what a receiver puts together, on the
//!   window of either side. An answer that is [streamed](crate::transport::Streamed) takes the
//!   memory of one window whatever its length.
//!
//! Datagrams that RMPP does not carry pass through as messages, so that one owner has one way in
//! and one way out. A request of any kind that is given a time to wait ends in one message or one
//! failure.

mod config;
mod mux;
mod receiver;
mod refused;
mod segment;
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
pub(crate) use segment::complete_header;
pub use segment::segments;
pub use stats::RmppStats;

/// How many segments a sender sends without an acknowledgement, however wide the receiver opens its
/// window: 32, 6.5 kB that are kept to be sent again.
pub const MAX_SEND_WINDOW: u32 = 32;

/// How many questions of one datagram are remembered for their answers to come: 18 kB. An owner
/// that answers at once needs one. What is beyond is only told apart less well; see
/// [`Rmpp::handle`].
const MAX_ASKED: usize = 64;

/// After how many attempts in a row without an acknowledgement an answer counts as given up by who
/// asked for it, if he asks again: 1.5 s at the default.
const STALLED: u8 = 2;

/// How many packets other than DATA wait to be fetched by [`Rmpp::poll_transmit`]: 8192, 2.6 MB. An
/// owner that fetches after each call never sees more than two; what is beyond is dropped as if it
/// were lost on the way, and counted.
pub const MAX_CONTROL: usize = 8192;

/// Why a transfer or a request ended without what it was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The other side sent ABORT.
    Aborted(RmppStatus),
    /// The other side sent STOP: it has run out of something.
    Stopped,
    /// The other side broke the protocol; it was sent ABORT with this status.
    Violation(RmppStatus),
    /// The message is longer than [`RmppConfig::max_received`]; the other side was sent STOP.
    TooLong,
    /// Nothing came back, however often it was tried.
    Silence,
    /// The transfer took longer than [`RmppConfig::total_time`].
    TotalTime,
}

/// A transfer between this side and another, or a request that waits for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionKey {
    /// The LID of the other side.
    pub lid: Lid,
    /// The queue pair of the other side.
    pub qpn: u32,
    /// The transaction, all 64 bits.
    pub tid: Tid,
    /// The management class.
    pub class: Class,
    /// Whether the other side asks and this one answers.
    pub answers: bool,
}

/// A transfer that failed, or a request without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed {
    /// Which.
    pub key: TransactionKey,
    /// Why.
    pub failure: Failure,
}
