//! The result of planning.

use std::sync::Arc;

use rsm_routing::engine::Unmoved;

use crate::plan::Plan;
use crate::refused::RefusedPlan;

/// The result of a [`PlanJob`](crate::PlanJob).
#[derive(Debug)]
pub enum Outcome {
    /// A proved plan.
    Plan(Arc<Plan>),
    /// Rebalancing would move no entry.
    Unchanged {
        /// The plan in force, which stays.
        plan: Arc<Plan>,
        /// The reason why no entry moves.
        why: Unmoved,
    },
    /// No plan was made; the plan in force stays.
    Refused(Box<RefusedPlan>),
}

impl Outcome {
    /// The plan that is in force after the job.
    ///
    /// # Errors
    /// The refusal, if there is no plan for the job's fabric.
    pub fn plan(self) -> Result<Arc<Plan>, Box<RefusedPlan>> {
        match self {
            Outcome::Plan(plan) | Outcome::Unchanged { plan, .. } => Ok(plan),
            Outcome::Refused(refused) => Err(refused),
        }
    }
}
