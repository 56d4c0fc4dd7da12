//! The effect of the routes in force on a fabric for which planning was refused.
//!
//! After a refusal, the tables that switches hold are verified on the present fabric. Readers see
//! that result, and not the proof for an earlier fabric.

use std::collections::BTreeSet;

use rsm_routing::verify::{Report, verify};

use crate::error::PlanError;
use crate::job::PlanJob;
use crate::{lids, topology, transition};

/// A refused plan, and the routes that switches hold meanwhile.
#[derive(Debug)]
pub struct RefusedPlan {
    /// Reason why there is no plan.
    pub error: PlanError,
    /// Report on the held tables on the fabric of the refused plan; `None` if that fabric has no
    /// valid switch graph.
    pub in_force: Option<Report>,
}

impl RefusedPlan {
    pub(super) fn new(job: &PlanJob, error: PlanError) -> RefusedPlan {
        RefusedPlan {
            error,
            in_force: verify_held(job),
        }
    }

    /// Number of ordered pairs of ports whose packets do not arrive at present, for lack of entries
    /// or cables; `None` if it is not known.
    pub fn cut_off_pairs(&self) -> Option<u64> {
        let report = self.in_force.as_ref()?;
        Some(report.unreachable_pairs + report.disconnected_pairs)
    }

    /// The reason why there is no plan, with all its causes.
    pub fn with_causes(&self) -> String {
        self.error.with_causes()
    }

    /// How well the routes in force fit the fabric, as the end of a sentence about the routes.
    pub fn fit(&self) -> String {
        match self.cut_off_pairs() {
            Some(0) => "all pairs of ports still reach each other by them".to_owned(),
            Some(pairs) => {
                format!("they no longer fit the fabric: {pairs} pairs of ports are cut off")
            }
            None => {
                "they no longer fit the fabric: the number of pairs cut off is not known".to_owned()
            }
        }
    }
}

/// Verifies the tables that switches hold on the fabric of `job`, with all links that carry
/// packets. Takes as long as a whole proof. `None` if the fabric has no valid switch graph.
pub(super) fn verify_held(job: &PlanJob) -> Option<Report> {
    let lids = lids::assign_with_rights(&job.fabric, &job.claims, &job.policy, &job.rights);
    let topology = topology::build(&job.fabric, &lids, &BTreeSet::new()).ok()?;
    let held = transition::tables(&topology, &job.hardware);
    Some(verify(&topology, &held))
}
