//! Findings about unhealthy, slow and flapping links.

use rsm_config::Isolate;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::PortKey;
use rsm_model::fabric::Fabric;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_plan::Plan;
use rsm_plan::avoid::{Avoid, NodeOrCable, Reason};

use super::{Links, peer_switch};

/// Maximum number of unhealthy ports that have a finding of their own, worst first; one finding
/// counts the further ports.
const NAMED: usize = 64;

/// State of the subnet that the findings about links depend on.
pub(in super::super) struct LinkContext<'a> {
    pub(in super::super) fabric: &'a Fabric,
    pub(in super::super) inventory: &'a Inventory,
    /// Parts that routes avoid.
    pub(in super::super) avoid: &'a Avoid,
    /// The plan in force.
    pub(in super::super) plan: Option<&'a Plan>,
    /// Whether this manager is the master and has a plan in force.
    pub(in super::super) manages: bool,
}

impl Links {
    /// Findings about unhealthy, slow and flapping links.
    pub(in super::super) fn findings(&self, context: &LinkContext) -> Vec<Finding> {
        let mut unhealthy: Vec<(PortKey, &str, f64)> = self.health.ill().collect();
        unhealthy.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));
        let named = unhealthy.iter().take(NAMED);
        let mut findings: Vec<Finding> = named
            .map(|&(port, text, _)| self.finding_of_errors(port, text, context))
            .collect();
        if let Some(more @ 1..) = unhealthy.len().checked_sub(NAMED) {
            let text = format!(
                "{more} more ports have errors of their links: `rsmctl top --errors` lists them"
            );
            let kind = FindingKind::LinkErrors;
            findings.push(Finding::new(kind, Subject::Subnet, Severity::Warning, text));
        }
        findings.extend(self.slow(context.manages).findings(context.fabric));
        findings.extend(self.damping.flapping().map(|flapping| {
            let is_used = !self.left_out.contains(&flapping.link);
            let consequence = match (flapping.is_of_host, is_used) {
                (true, _) => "loses packets each time; clean or replace the cable",
                (false, false) => "is kept out of the routes until it is quiet",
                (false, true) => {
                    "is used all the same, because no other link joins its ends: it loses packets \
                     each time; clean or replace the cable"
                }
            };
            let text = format!(
                "the link at {} changed its state {} times and {consequence}",
                context.inventory.hardware.port_name(flapping.link),
                flapping.changes
            );
            let subject = Subject::Port(flapping.link);
            Finding::new(FindingKind::LinkFlapping, subject, Severity::Warning, text)
        }));
        findings
    }

    /// The finding about an unhealthy port; `errors` describes its errors.
    fn finding_of_errors(&self, port: PortKey, errors: &str, context: &LinkContext) -> Finding {
        let at = context.fabric.find_port(port);
        let peer = at.and_then(|at| context.fabric.port(at).peer);
        let cabled = peer.map_or_else(
            || "without a cable now".to_owned(),
            |peer| format!("cabled to {}", context.inventory.hardware.port_name(peer)),
        );
        let name = context.inventory.hardware.port_name(port);
        let consequence = self.consequence(port, context);
        let text = match self.health.have_errors_ended(port) {
            true => format!(
                "{name}, {cabled}, had errors of its link, and none above a limit for the last 5 minutes or longer: {errors} then; packets got lost or damaged there, {consequence}; clean or replace the cable"
            ),
            false => format!(
                "{name}, {cabled}, has errors of its link: {errors}; packets get lost or damaged there, {consequence}; clean or replace the cable"
            ),
        };
        let subject = Subject::Port(port);
        Finding::new(FindingKind::LinkErrors, subject, Severity::Warning, text)
    }

    /// How routes treat an unhealthy port, in words.
    fn consequence(&self, port: PortKey, context: &LinkContext) -> String {
        if peer_switch(context.fabric, port).is_none() {
            return "and a host has no other way".to_owned();
        }
        let part = NodeOrCable::Port(port);
        let avoided = context.plan.map(|plan| &plan.avoided);
        match (context.avoid.reason(part), self.health.policy().isolate) {
            (Some(Reason::Drained(_)), _) => "and an operator has drained it".to_owned(),
            (Some(Reason::Unhealthy(_)), _)
                if avoided.is_some_and(|avoided| avoided.uses(part)) =>
            {
                "and routes use it all the same: ports would be cut off otherwise".to_owned()
            }
            (Some(Reason::Unhealthy(_)), _) => {
                let minutes = self.health.quiet(port).as_secs().div_ceil(60);
                format!("and routes go around it until it has been quiet for {minutes} minutes")
            }
            (None, Isolate::On) => {
                "and routes use it: as many cables as permitted are out of them already".to_owned()
            }
            (None, Isolate::Suggest) => format!(
                "and routes use it: `rsmctl drain {}:{}` keeps them off it, isolate = \"on\" in section [health] all such cables",
                port.node, port.port
            ),
            (None, Isolate::Off) => "and routes use it".to_owned(),
        }
    }
}
