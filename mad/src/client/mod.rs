//! Requests and their answers: a transaction client without clock, thread or socket.
//!
//! The owner submits [requests](Request), sends the datagrams of [`Client::poll_transmit`], passes
//! on inbound datagrams, and calls [`Client::handle_deadline`] at [`Client::next_deadline`]. Every
//! request ends in exactly one [`Completion`], unless its owner withdraws it. Equal calls at equal
//! times produce equal datagrams.
//!
//! * **Order**: three priorities; within a priority, targets take turns. At most
//!   [`target_cap`](ClientConfig::target_cap) requests are out to one target, because an agent is a
//!   small processor with a small queue, and at most a window of requests over all targets. The
//!   window grows while round trips stay constant and halves on loss, unless the smallest window
//!   loses as much.
//! * **Slow targets**: a target that answers later than the others, or loses more requests, has
//!   timeouts that follow its own round trips, and gets one request at a time. The other targets
//!   are not affected.
//! * **Lost and slow answers**: timeouts follow the measured round trip and double with every
//!   attempt, each of which takes the next of the request's [routes](Routes). An answer to any
//!   attempt completes the request.
//! * **Excused attempts**: an attempt is excused if it was out when the owner handled a timer 10
//!   ms late or more, or if the owner [excuses](Client::excuse) it. An excused attempt is sent
//!   again when it times out. It counts neither as unanswered nor against the retries, and its
//!   answer is not used as a round trip. At most eight attempts of a request are excused, and none
//!   of a request with several keys.
//! * **Several keys**: a request may have several [M_Keys](MKeys). Its target accepts one key,
//!   and drops requests with other keys without an answer. Attempts try the keys in turn on each
//!   route; a missing answer then does not count as a loss.
//! * **Wrong answers**: every attempt has its own transaction identifier, so that a stale answer
//!   never completes a newer request. An answer must also have the request's class, attribute and
//!   modifier.

mod config;
mod engine;
mod list;
mod loss;
mod m_keys;
mod outliers;
mod request;
pub mod rmpp;
mod rtt;
mod scheduler;
mod slab;
mod stats;
mod tids;
mod timers;
mod window;

pub use config::{ClientConfig, ClientConfigError};
pub use engine::{Client, Handled};
pub use m_keys::MKeys;
pub use request::{
    Completion, Priority, Rejected, Request, RequestFailure, Response, Route, Routes, Transmit,
    Withdrawn,
};
pub use stats::ClientStats;

/// The maximum number of requests that a client holds, waiting and out.
///
/// At about half a kilobyte each, they take 16 MB. A sweep keeps far fewer requests pending than
/// the fabric has ports; a full client returns the request from [`Client::submit`] for a later
/// attempt.
pub const MAX_PENDING: usize = 32_768;
