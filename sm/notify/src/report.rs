//! Faults of receivers, for the findings of the daemon.

use std::sync::Arc;

/// A fault of a receiver that an operator should know, as text: what is wrong and where, the
/// consequence, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiverFault {
    /// The receiver takes no events.
    Undelivered(String),
    /// The disk does not take waiting events.
    Disk(String),
}

/// Callback with the kind of a receiver and all its present faults, called when these change.
pub type Report = Arc<dyn Fn(&'static str, Vec<ReceiverFault>) + Send + Sync>;
