//! The findings of a plan, except those about adaptive routing and multicast.

use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

use crate::plan::Plan;
use crate::{layout, levels, partitions, roots};

/// Collects the findings of a plan. `replacement` is the finding that the engine replaces another
/// engine, if it does.
pub(super) fn of(plan: &Plan, replacement: Option<Finding>) -> Vec<Finding> {
    let (policy, routing) = (&plan.policy, &plan.routing);
    let mut findings = plan.lids.findings.clone();
    findings.extend(plan.partitions.findings.iter().cloned());
    let foreseen = partitions::foreseen(&plan.fabric, &policy.partitions, &plan.partitions);
    findings.extend(foreseen);
    findings.extend(partitions::isolated_hosts(&plan.fabric, &plan.partitions));
    findings.extend(roots::absent(&policy.root_guids, &plan.topology));
    if plan.report.disconnected_pairs > 0 {
        let text = format!(
            "{} pairs of ports have no cable path between them",
            plan.report.disconnected_pairs
        );
        let kind = FindingKind::Unreachable;
        findings.push(Finding::new(kind, Subject::Subnet, Severity::Warning, text));
    }
    findings.extend(plan.avoided.findings(&plan.fabric));
    findings.extend(replacement);
    findings.extend(levels::findings(policy, routing));
    let layout = policy.layout.as_deref();
    findings.extend(layout::misfit(layout, routing.coordinates.as_deref()));
    findings
}
