//! The health of links: evidence, and its consequence for routes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rsm_config::Isolate;
use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_model::slow_links::SlowLinks;
use rsm_monitor::health::{Health, PortErrors, SavedHealth};
use rsm_plan::avoid::{Avoid, Part, Reason};
use rsm_state::Role;

use super::Core;

/// Unhealthy ports with a finding of their own, the worst ones; one more finding counts the others.
const NAMED: usize = 64;

/// Cables out of the routes at a time, in a fabric of any size.
const LEAST_ISOLATED: usize = 10;

/// The share of all cables between switches that may be out of the routes at a time, one in so many:
/// limits that are too low must not take the fabric apart.
const ISOLATED_ONE_IN: usize = 200;

/// While errors go on, the time at which a port is healthy again moves with each of them; the store
/// is at most this far behind.
const STORED_WITHIN: Duration = Duration::from_secs(60);

/// Lets the first routes of a run go around the cables that were isolated before it.
pub(super) fn isolate_again(health: &Health, saved: &SavedHealth, avoid: &mut Arc<Avoid>) {
    if health.policy().isolate != Isolate::On {
        return;
    }
    let ill = health
        .ill()
        .filter(|(port, ..)| saved.isolated.contains(port));
    let parts: BTreeMap<Part, String> = ill
        .map(|(port, text, _)| (Part::Port(port), text.to_owned()))
        .collect();
    if !parts.is_empty() {
        Arc::make_mut(avoid).replace_unhealthy(&parts);
    }
}

impl Core {
    /// Takes the ports whose counters are over a limit.
    pub(super) fn on_port_errors(&mut self, errors: Arc<BTreeMap<PortKey, PortErrors>>, now: Time) {
        if self.health.count(errors, now) {
            self.health_changed(now);
            return;
        }
        let stored = self.health_stored.map(|at| at + STORED_WITHIN);
        if self.role == Role::Master && self.health.last_release() > stored {
            self.remember();
        }
    }

    /// The unhealthy ports to be stored.
    pub(super) fn saved_health(&self) -> SavedHealth {
        let avoid = self.avoid_in_force();
        let isolated = avoid
            .parts()
            .filter_map(|(part, reason)| match (part, reason) {
                (Part::Port(port), Reason::Unhealthy(_)) => Some(port),
                _ => None,
            });
        self.health.saved(isolated)
    }

    /// Makes ports healthy that have been quiet, and forgets storms of traps that are over.
    pub(super) fn release_healthy(&mut self, now: Time) {
        let is_over = self.traps.release(now);
        if self.health.release(now) {
            self.health_changed(now);
        } else if is_over {
            self.publish(now);
        }
    }

    /// Follows the policy of a configuration that was read again.
    pub(super) fn configure_health(&mut self, now: Time) {
        self.health.configure(self.config.health);
        self.health_changed(now);
    }

    /// The set of unhealthy ports, or its meaning, is another one.
    pub(super) fn health_changed(&mut self, now: Time) {
        if self.role == Role::Master {
            let parts = self.parts_to_isolate();
            self.isolate(&parts);
            self.remember();
        }
        self.publish(now);
    }

    /// The unhealthy cables that routes should go around, each by its unhealthy ports: the worst
    /// ones, but those that are out already stay out.
    fn parts_to_isolate(&self) -> BTreeMap<Part, String> {
        if self.health.policy().isolate != Isolate::On || self.health.ill().next().is_none() {
            return BTreeMap::new();
        }
        let is_out = |port| {
            let reason = self.avoid.reason(Part::Port(port));
            matches!(reason, Some(Reason::Unhealthy(_)))
        };
        let mut ill: Vec<(PortKey, PortKey, &str, f64)> = self
            .health
            .ill()
            .filter_map(|(port, text, excess)| Some((port, self.peer_switch(port)?, text, excess)))
            .collect();
        ill.sort_by(|a, b| is_out(b.0).cmp(&is_out(a.0)).then(b.3.total_cmp(&a.3)));
        let cables = self.fabric.links().filter(|&(a, b)| {
            let is_switch = |at: rsm_model::fabric::PortRef| self.fabric.node(at.node).is_switch();
            is_switch(a) && is_switch(b)
        });
        let most = (cables.count() / ISOLATED_ONE_IN).max(LEAST_ISOLATED);
        let mut out = BTreeSet::new();
        let mut parts = BTreeMap::new();
        for (port, peer, text, _) in ill {
            let cable = port.min(peer);
            if out.len() < most || out.contains(&cable) {
                out.insert(cable);
                parts.insert(Part::Port(port), text.to_owned());
            }
        }
        parts
    }

    /// The other end of a cable between two switches.
    fn peer_switch(&self, port: PortKey) -> Option<PortKey> {
        let is_switch = |key: PortKey| {
            let node = self.fabric.node_of(key.node);
            node.is_some_and(|node| node.is_switch())
        };
        let peer = self.fabric.port(self.fabric.find_port(port)?).peer?;
        (is_switch(port) && is_switch(peer)).then_some(peer)
    }

    /// The slow links: those beside faster siblings while a plan of this manager is in force.
    pub(super) fn slow_links(&self) -> SlowLinks {
        match self.role == Role::Master && self.plans.in_force().is_some() {
            true => self.slow_links.clone(),
            false => self.slow_links.without_siblings(),
        }
    }

    /// The findings about unhealthy, slow and flapping links.
    pub(super) fn findings_of_health(&self) -> Vec<Finding> {
        let mut ill: Vec<(PortKey, &str, f64)> = self.health.ill().collect();
        ill.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));
        let named = ill.iter().take(NAMED);
        let mut findings: Vec<Finding> = named
            .map(|&(port, text, _)| self.finding_of_errors(port, text))
            .collect();
        if let Some(more @ 1..) = ill.len().checked_sub(NAMED) {
            let text = format!(
                "{more} more ports have errors of their links: `rsmctl top --errors` lists them"
            );
            let kind = FindingKind::LinkErrors;
            findings.push(Finding::new(kind, Subject::Subnet, Severity::Warning, text));
        }
        findings.extend(self.slow_links().findings(&self.fabric));
        findings.extend(self.damping.flapping().map(|flapping| {
            let is_used = !self.damped.contains(&flapping.link);
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
                self.port_name(flapping.link),
                flapping.changes
            );
            let subject = Subject::Port(flapping.link);
            Finding::new(FindingKind::LinkFlapping, subject, Severity::Warning, text)
        }));
        findings
    }

    fn port_name(&self, port: PortKey) -> String {
        format!("{} port {}", self.name(port.node), port.port)
    }

    fn finding_of_errors(&self, port: PortKey, errors: &str) -> Finding {
        let at = self.fabric.find_port(port);
        let peer = at.and_then(|at| self.fabric.port(at).peer);
        let cabled = peer.map_or_else(
            || "without a cable now".to_owned(),
            |peer| format!("cabled to {}", self.port_name(peer)),
        );
        let text = format!(
            "{}, {cabled}, has errors of its link: {errors}; packets get lost or damaged there, {}; clean or replace the cable",
            self.port_name(port),
            self.consequence(port)
        );
        let subject = Subject::Port(port);
        Finding::new(FindingKind::LinkErrors, subject, Severity::Warning, text)
    }

    /// The consequence for routes of an unhealthy port, in words.
    fn consequence(&self, port: PortKey) -> String {
        if self.peer_switch(port).is_none() {
            return "and a host has no other way".to_owned();
        }
        let part = Part::Port(port);
        let avoided = self.plans.in_force().map(|plan| &plan.avoided);
        match (
            self.avoid_in_force().reason(part),
            self.health.policy().isolate,
        ) {
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
