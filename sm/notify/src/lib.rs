//! Sends events to systems outside the fabric: a webhook (JSON), a syslog daemon (RFC 5424) and an
//! OpenTelemetry collector (OTLP).
//!
//! Input: the events of the history, the role of this manager, settings. Output: messages to
//! receivers, counts, and faults for findings. The daemon passes events to a [`Notifier`], which
//! passes the events of a master through each receiver's [`filter`] to the receiver's thread. The
//! thread writes them to a [`queue`] on the disk and sends them from there, so that a receiver gets
//! each event at least once, in order, across restarts of both sides.
//!
//! [`described`], [`filter`], [`json`], [`syslog`], [`otlp`], [`backoff`] and [`queue`] use no
//! clock and no socket; `receiver` uses both. No code of this crate makes the daemon wait, or is
//! required to manage the subnet.

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
pub use report::{ReceiverFault, Report};

#[cfg(test)]
mod tests;
