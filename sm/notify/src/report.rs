//! Troubles of receivers, for the findings of the daemon.

use std::sync::Arc;

/// A failure of a receiver that an operator should know, in words: what is wrong and where, what it
/// means, what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The receiver takes no events.
    Undelivered(String),
    /// The disk does not take events that wait.
    Disk(String),
}

/// Called with the kind of a receiver and all its present troubles, when they change.
pub type Report = Arc<dyn Fn(&'static str, Vec<Trouble>) + Send + Sync>;
