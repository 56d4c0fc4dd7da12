//! Plans that go around avoided parts.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_ids::{Guid, Lid, PortKey};
use rsm_model::fabric::Fabric;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_routing::tables::Lft;

use super::{JobKind, Outcome, Plan, PlanError, PlanJob, try_plan};
use crate::avoid::{Avoid, Over, Part, Reason, over};

impl Plan {
    /// The LIDs that the tables of switches, given by `table`, lead over a part, other than those of
    /// drained nodes and hosts' ports; `None` if the part is not there, or one of its neighbours has
    /// no table.
    pub fn lids_over<'a>(
        &self,
        part: Part,
        table: impl Fn(Guid) -> Option<&'a Lft>,
    ) -> Option<Over> {
        over(
            part,
            &self.fabric,
            self.top(),
            &self.lids_of_drained(),
            table,
        )
    }

    /// The LIDs of drained nodes and of drained ports of hosts.
    fn lids_of_drained(&self) -> BTreeSet<Lid> {
        let mut own = BTreeSet::new();
        for (part, _) in self.avoided.avoid.drained() {
            let Some(node) = self.fabric.node_of(part.node()) else {
                continue;
            };
            for (number, _) in node.end_ports() {
                let is_meant = match part {
                    Part::Node(_) => true,
                    Part::Port(key) => !node.is_switch() && key.port == number,
                };
                let claim = self.claim(PortKey::new(node.guid, number));
                if let Some(claim) = claim.filter(|_| is_meant) {
                    let lids = 0..claim.lmc.lids();
                    own.extend(lids.map(|at| Lid(claim.base.0.saturating_add(at))));
                }
            }
        }
        own
    }
}

/// The parts that the routes of a plan go around.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Avoided {
    /// The parts to go around.
    pub avoid: Arc<Avoid>,
    /// Cables that routes avoid for other reasons, by either end.
    pub damped: Arc<BTreeSet<PortKey>>,
    /// Parts that routes use all the same: ports would be cut off otherwise.
    pub in_use: BTreeSet<Part>,
    /// Why routes use all of these parts; `None` if they go around them.
    pub(crate) suspended: Option<String>,
}

impl Avoided {
    /// Whether routes use a part that they should go around.
    pub fn uses(&self, part: Part) -> bool {
        self.suspended.is_some() || self.in_use.contains(&part)
    }

    /// The findings about parts in use on `fabric`.
    pub(super) fn findings(&self, fabric: &Fabric) -> Vec<Finding> {
        let parts = self.avoid.parts();
        let used = parts.filter(|&(part, _)| self.uses(part) && part.is_there(fabric));
        used.map(|(part, reason)| self.finding(part, reason, fabric))
            .collect()
    }

    fn finding(&self, part: Part, reason: &Reason, fabric: &Fabric) -> Finding {
        let (name, subject) = match part {
            Part::Node(guid) => (fabric.name(guid), Subject::Node(guid)),
            Part::Port(key) => (fabric.port_name(key), Subject::Port(key)),
        };
        let why = match &self.suspended {
            Some(why) => format!("no routes go around it ({why})"),
            None => "ports would be cut off otherwise".to_owned(),
        };
        let text = match reason {
            Reason::Drained(_) => format!(
                "{name} is drained and routes use it all the same: {why}; do not unplug it, and repair the other faults first"
            ),
            Reason::Unhealthy(fault) => format!(
                "{name} is unhealthy ({fault}) and routes use it all the same: {why}; repair the other faults first"
            ),
        };
        Finding::new(FindingKind::DrainedInUse, subject, Severity::Warning, text)
    }
}

/// Makes the plan of a job, around the parts that it is to avoid. If no routes go around them, the
/// routes use them, unless the parts are on trial.
pub(super) fn plan(job: &PlanJob) -> Result<Outcome, PlanError> {
    let mut avoided = Avoided {
        avoid: job.avoid.clone(),
        damped: job.damped.clone(),
        ..Avoided::default()
    };
    // Multicast is planned on the routes in force.
    if job.avoid.is_empty() || matches!(job.kind, JobKind::Multicast { .. }) {
        return try_plan(job, &Arc::new(avoided));
    }
    if let Some(before) = &job.avoided_before {
        job.avoid.check(before, &job.fabric, &job.damped)?;
    }
    let resolved = job.avoid.resolve(&job.fabric, &job.damped);
    if resolved.out.is_empty() {
        avoided.in_use = resolved.in_use;
        return try_plan(job, &Arc::new(avoided));
    }
    let damped = job.damped.union(&resolved.out).copied().collect();
    let around = PlanJob {
        damped: Arc::new(damped),
        ..job.clone()
    };
    avoided.in_use = resolved.in_use;
    match try_plan(&around, &Arc::new(avoided.clone())) {
        Err(error) if job.avoided_before.is_none() => {
            avoided.suspended = Some(error.with_causes());
            try_plan(job, &Arc::new(avoided))
        }
        outcome => outcome,
    }
}
