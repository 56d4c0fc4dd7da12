//! Taking load off the fullest links while a fault stays.
//!
//! A repair moves as few paths as it can, at once. When the subnet has not changed for a while and
//! parts of it are still missing, rebalancing relieves the fullest links step by step. Other work
//! comes first: urgent work discards a step in planning, and cuts one that is being written short
//! like any other push.

use std::time::Duration;

use rsm_mad::Time;
use rsm_plan::{JobKind, PlanJob};
use rsm_routing::engine::misses_parts;
use rsm_state::Role;

use super::{Core, Pass};

/// Pause between two steps.
const PAUSE: Duration = Duration::from_secs(1);

impl Core {
    /// Plans a step, if there still is a plan to make it from.
    pub(super) fn start_rebalancing(&mut self, now: Time) {
        if self.plans.in_force().is_none() || self.election.role != Role::Master {
            self.meter.discard();
            return;
        }
        self.pass = Pass::Rebalance;
        let max_blocks = self.config.rebalance.blocks;
        let job = PlanJob {
            kind: JobKind::Rebalance { max_blocks },
            ..self.job_on_hardware(now)
        };
        self.begin_planning(job);
    }

    /// Decides when the next step is due: at the end of a pass, when its effect is known.
    pub(super) fn schedule_rebalancing(&mut self, now: Time) {
        let after = self.config.rebalance.after;
        let plan = self
            .plans
            .in_force()
            .filter(|_| self.election.role == Role::Master);
        let wanted = plan.filter(|plan| {
            let ranking = plan.routing.ranking.as_ref();
            !after.is_zero() && ranking.is_some_and(misses_parts)
        });
        let due = wanted.map(|plan| match plan.relieved {
            None => now + after,
            Some(_) => now + PAUSE,
        });
        self.work.rebalance_at(due);
    }
}
