//! The core's stage and its waiting work, as shown to operators.

use rsm_mad::Time;

/// The stage that the core is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    /// The core is idle.
    Idle,
    /// A sweep is under way.
    Sweeping {
        /// Number of known nodes.
        nodes: usize,
        /// Number of queries settled, by an answer or by silence.
        settled: usize,
        /// Number of open queries; answers may add queries.
        open: usize,
    },
    /// A plan is being computed.
    Planning,
    /// The hardware is being written.
    Pushing {
        /// Number of Sets acknowledged.
        done: usize,
        /// Approximate number of all Sets; never below `done`.
        expected: usize,
    },
}

/// The pass under way and the work that waits for its end, for operators who wait for their
/// request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PassProgress {
    /// The stage.
    pub activity: Activity,
    /// Whether the pass under way or the waiting work follows a change of the subnet or a request,
    /// so that the state in the last snapshot may no longer hold. A light sweep does not.
    pub is_converging: bool,
    /// Cause of the pass under way; empty if there is none.
    pub cause: String,
    /// Start of the pass under way; `None` if there is none.
    pub since: Option<Time>,
    /// Number of known nodes.
    pub nodes: usize,
    /// Number of SMPs without an answer, including SMPs not sent yet.
    pub outstanding: usize,
    /// Causes of the waiting work, as one phrase; empty if no work waits.
    pub next: String,
    /// Time before which waiting work does not start, because of a failure; `None` if it may start
    /// at once.
    pub not_before: Option<Time>,
}

impl Default for PassProgress {
    fn default() -> PassProgress {
        PassProgress {
            activity: Activity::Idle,
            is_converging: false,
            cause: String::new(),
            since: None,
            nodes: 0,
            outstanding: 0,
            next: String::new(),
            not_before: None,
        }
    }
}
