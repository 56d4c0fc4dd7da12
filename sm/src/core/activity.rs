//! The stage that the core is in, and the work that waits, as operators are told of them.

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
    },
    /// A plan is computed.
    Planning,
    /// The hardware is written.
    Pushing {
        /// Sets acknowledged so far.
        done: usize,
    },
}

/// The pass under way and the work that waits behind it, for operators whose request waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The stage.
    pub activity: Activity,
    /// What set off the pass that is under way; empty where there is none.
    pub cause: String,
    /// When it began.
    pub since: Option<Time>,
    /// Nodes known.
    pub nodes: usize,
    /// SMPs without an answer so far, those that wait to be sent included.
    pub outstanding: usize,
    /// What waits until the pass is over, in a few words; empty where nothing does.
    pub next: String,
    /// Until when it waits beyond that.
    pub not_before: Option<Time>,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress {
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

    /// Whether nothing is under way; something may still wait for its time.
    pub fn is_idle(&self) -> bool {
        self.stage.is_idle() && (!self.work.is_due() || self.work.is_postponed())
    }

    /// What is under way.
    pub fn activity(&self) -> Activity {
        match &self.stage {
            // Whoever follows is waited for no longer than one answer takes.
            Stage::Idle | Stage::HandingOver(_) => Activity::Idle,
            Stage::Sweeping(_) => Activity::Sweeping {
                nodes: self.inventory.len(),
            },
            Stage::Planning { .. } => Activity::Planning,
            Stage::Pushing(push) => Activity::Pushing {
                done: push.progress().done,
            },
        }
    }

    /// What is under way, and what waits.
    pub fn progress(&self) -> Progress {
        let (cause, since) = self.meter.running().unzip();
        Progress {
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
