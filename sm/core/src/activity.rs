//! The core's stage and its waiting work, for operators.

use rsm_state::{Activity, PassProgress};

use super::Core;
use super::stage::Stage;

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

    /// SMInfo.ActCount: the requests that were answered. It has 32 bits and wraps.
    pub fn act_count(&self) -> u32 {
        self.client.stats().answered as u32
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
