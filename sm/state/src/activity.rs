//! The core's stage and its waiting work, for operators.

use rsm_mad::Time;

/// The stage that the core is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    /// Nothing.
    Idle,
    /// A sweep.
    Sweeping {
        /// Nodes known so far.
        nodes: usize,
        /// Questions settled so far, by an answer or by silence.
        settled: usize,
        /// Questions that are open; answers add more.
        open: usize,
    },
    /// A plan is computed.
    Planning,
    /// The hardware is written.
    Pushing {
        /// Sets acknowledged so far.
        done: usize,
        /// About how many Sets there are in all; never below `done`.
        expected: usize,
    },
}

/// The pass under way and the work that waits behind it, for operators whose request waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PassProgress {
    /// The stage.
    pub activity: Activity,
    /// The cause of the pass under way; empty without one.
    pub cause: String,
    /// When it began.
    pub since: Option<Time>,
    /// Nodes known.
    pub nodes: usize,
    /// SMPs without an answer so far, those that wait to be sent included.
    pub outstanding: usize,
    /// The causes of the work that waits behind the pass, as one phrase; empty without any.
    pub next: String,
    /// The time before which waiting work does not start, after a failure.
    pub not_before: Option<Time>,
}

impl Default for PassProgress {
    fn default() -> PassProgress {
        PassProgress {
            activity: Activity::Idle,
            cause: String::new(),
            since: None,
            nodes: 0,
            outstanding: 0,
            next: String::new(),
            not_before: None,
        }
    }
}
