//! The core's stage and its waiting work, for operators.

use rsm_mad::Time;

use super::Core;
use super::stage::Stage;

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

impl Core {
    /// Whether the core is at rest: nothing under way, nothing waiting, nothing to be repaired.
    pub fn is_settled(&self) -> bool {
        self.stage.is_idle() && self.work.is_empty()
    }

    /// Whether this master is finding out if another one has replaced it. Until then it sets nothing,
    /// and goes on afterwards.
    pub fn is_inquiring(&self) -> bool {
        self.election.inquiry.is_some()
    }

    /// Whether nothing is under way; something may still wait for its time.
    pub fn is_idle(&self) -> bool {
        self.stage.is_idle() && (!self.work.is_due() || self.work.is_postponed())
    }

    /// The stage under way, for operators.
    pub fn activity(&self) -> Activity {
        match &self.stage {
            // `HandingOver` lasts no longer than one answer of the other manager.
            Stage::Idle | Stage::HandingOver(_) => Activity::Idle,
            Stage::Sweeping(sweep) => Activity::Sweeping {
                nodes: self.inventory.len(),
                settled: sweep.settled(),
                open: sweep.open(),
            },
            Stage::Planning { .. } => Activity::Planning,
            Stage::Pushing(push) => {
                let progress = push.progress();
                Activity::Pushing {
                    done: progress.done,
                    expected: progress.expected.max(progress.done),
                }
            }
        }
    }

    /// The pass under way and the work that waits.
    pub fn progress(&self) -> PassProgress {
        let (cause, since) = self.meter.running().unzip();
        PassProgress {
            activity: self.activity(),
            cause: cause.unwrap_or_default().to_owned(),
            since,
            nodes: self.inventory.len(),
            outstanding: self.client.pending(),
            next: self.work.next_cause(),
            not_before: self.work.not_before(),
        }
    }
}
