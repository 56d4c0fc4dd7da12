//! Events to systems outside the fabric: a webhook (JSON), a syslog daemon (RFC 5424) and a
//! collector of OpenTelemetry (OTLP).
//!
//! In: the events that the history gets, the standing of this manager, settings. Out: messages to
//! receivers, counts, troubles for findings. The daemon hands events to a [`Notifier`], which
//! passes those of a master through each receiver's [`filter`] to its thread. The thread writes
//! them to a [`queue`] on the disk and sends them from there, so that a receiver gets each event at
//! least once, in order, over restarts of both sides.
//!
//! [`described`], [`filter`], [`json`], [`syslog`], [`otlp`], [`backoff`] and the queue's order
//! have no clock and no socket; `receiver` has both. Nothing here makes the daemon wait, or is
//! needed to manage the subnet.

pub mod backoff;
pub mod described;
pub mod filter;
pub mod json;
mod notifier;
pub mod otlp;
pub mod queue;
mod receiver;
mod report;
pub mod settings;
pub mod source;
pub mod syslog;

pub use notifier::Notifier;
pub use report::{Report, Trouble};

#[cfg(test)]
mod tests;
