//! Requests and their answers: a transaction client without clock, thread or socket.
//!
//! The owner submits [requests](Request), sends what [`Client::poll_transmit`] hands out, passes on
//! what arrives, and calls [`Client::handle_deadline`] when [`Client::next_deadline`] has come.
//! Every request ends in exactly one [`Completion`], or is taken back. The same calls with the same
//! times give the same datagrams.
//!
//! * **Whose turn it is**: three priorities; within one, targets take turns. At most
//!   [`target_cap`](ClientConfig::target_cap) requests are out to one target, for an agent is a
//!   small processor with a small queue, and at most a window of requests over all, which grows
//!   while answers come as fast as ever and halves on loss, unless as much gets lost with the
//!   smallest window.
//! * **Slow targets**: a target that answers later than the others, or drops what others take, is
//!   waited for by its own round trips and asked one thing at a time. It changes nothing for the
//!   others.
//! * **Lost and slow answers**: timeouts follow the measured round trip and double with every
//!   attempt, each of which takes the next of the request's [routes](Routes). An answer to any
//!   attempt completes the request.
//! * **Wrong answers**: every attempt has its own transaction identifier, so that a stale answer
//!   never completes a newer request. An answer must also have the class, attribute and modifier
//!   that were asked for.

mod config;
mod engine;
mod list;
mod loss;
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

pub use config::{ClientConfig, ConfigError};
pub use engine::{Client, Handled};
pub use request::{
    Completion, Failure, Priority, Rejected, Request, Response, Route, Routes, Transmit, Withdrawn,
};
pub use stats::ClientStats;

/// How many requests a client holds at most, waiting and out.
///
/// At about half a kilobyte each that is 16 MB. A sweep keeps far fewer pending than the fabric has
/// ports; a caller that fills this gets its request back, and goes on after the next completion.
pub const MAX_PENDING: usize = 32_768;
