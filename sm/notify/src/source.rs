//! The manager that sends events, and events in the form that receivers get.

use std::sync::Arc;

use rsm_proto::v1;

/// The manager that sends events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Name of this machine.
    pub host: String,
    /// Version of rsm.
    pub version: String,
    /// Name of the fabric, as given by `--fabric`.
    pub fabric: String,
    /// Start of this run, in milliseconds since the Unix epoch.
    pub run: u64,
}

/// An event that waits for a receiver.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Number in the queue; numbers are consecutive.
    pub number: u64,
    /// Start of the run that the event belongs to, in milliseconds since the Unix epoch.
    pub run: u64,
    /// The event.
    pub event: Arc<v1::Event>,
}

impl Record {
    /// Identifier of the event among all events of this machine, the same in every attempt.
    pub fn id(&self) -> String {
        format!("{:x}-{}", self.run, self.event.sequence)
    }
}

/// Time as RFC 3339 in UTC, to the millisecond; the epoch for a time out of range.
pub fn timestamp(unix_ms: u64) -> String {
    let ms = i64::try_from(unix_ms).unwrap_or_default();
    let at = jiff::Timestamp::from_millisecond(ms).unwrap_or_default();
    format!("{at:.3}")
}
