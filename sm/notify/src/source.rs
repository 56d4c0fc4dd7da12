//! The manager that events come from, and events as receivers get them.

use std::sync::Arc;

use rsm_proto::v1;

/// The manager that sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Name of this machine.
    pub host: String,
    /// Version of rsm.
    pub version: String,
    /// Fabric, as `--fabric` names it.
    pub fabric: String,
    /// Start of this run, in milliseconds since the Unix epoch.
    pub run: u64,
}

/// An event that waits for a receiver.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Number in the queue; ascends by one.
    pub number: u64,
    /// Start of the run that the event is of, in milliseconds since the Unix epoch.
    pub run: u64,
    /// The event.
    pub event: Arc<v1::Event>,
}

impl Record {
    /// Name of the event among all events of this machine, the same each time it is sent.
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
