//! What the subnet manager is doing, in one word.

use rsm_api::model::{FindingCounts, Inventory, NodeKind, SubnetState};
use rsm_mad::wire::attr::PortState;

use super::lens::kind;
use crate::core::role::Role;
use crate::core::snapshot::Snapshot;
use crate::fabric::{Fabric, Node, Port};
use crate::findings::{FindingKind, Severity};
use crate::plan::{RefusedPlan, lids_in_use};

/// How many of each there are.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Counts {
    pub(super) inventory: Inventory,
    pub(super) findings: FindingCounts,
    /// Ports with a link to a managed node that are not Active, and should be.
    pub(super) unfinished: u64,
}

impl Counts {
    pub(super) fn of(snapshot: &Snapshot) -> Counts {
        let mut counts = Counts::default();
        let fabric = &snapshot.fabric;
        let inventory = &mut counts.inventory;
        for node in &fabric.nodes {
            *match kind(node) {
                NodeKind::Switch => &mut inventory.switches,
                NodeKind::Ca => &mut inventory.cas,
                NodeKind::Router => &mut inventory.routers,
            } += 1;
            for port in node.ports.iter().skip(1) {
                counts.unfinished += u64::from(is_unfinished(fabric, node, port));
            }
        }
        let ports = snapshot.ports();
        inventory.links = snapshot.links() as u64;
        inventory.ports_active = ports.active as u64;
        inventory.ports_not_active = ports.not_active as u64;
        inventory.lids = snapshot
            .plan
            .as_ref()
            .map_or(0, |plan| u64::from(lids_in_use(&plan.lids)));
        for finding in snapshot.findings.iter() {
            *match finding.severity {
                Severity::Info => &mut counts.findings.info,
                Severity::Warning => &mut counts.findings.warning,
                Severity::Error => &mut counts.findings.error,
            } += 1;
        }
        counts
    }
}

/// Whether the port's link is up between two managed nodes, and the port is not Active. Loop-back plugs, and links
/// that nobody answers behind, stay as they are.
fn is_unfinished(fabric: &Fabric, node: &Node, port: &Port) -> bool {
    port.up
        && port.state() != PortState::Active
        && !node.unmanageable
        && port
            .peer
            .is_some_and(|peer| !fabric.node(peer.node).unmanageable)
}

/// The state, and why, in a few words; empty where there is nothing to say.
pub(super) fn of(snapshot: &Snapshot, counts: &Counts) -> (SubnetState, String) {
    if !snapshot.port_up {
        return (SubnetState::NotActive, "the local port is down".to_owned());
    }
    if snapshot.fabric.local.is_none() {
        // The core names what it found amiss; before it has looked there is nothing. A disk has no part in this.
        let mut findings = snapshot.findings.iter();
        return match findings.find(|finding| finding.kind != FindingKind::Storage) {
            Some(finding) => (SubnetState::NotActive, finding.text.clone()),
            None => discovering(),
        };
    }
    match &snapshot.role {
        Role::Discovering => discovering(),
        Role::NotActive => (
            SubnetState::NotActive,
            "disabled by the master subnet manager".to_owned(),
        ),
        Role::Standby { master } => (
            SubnetState::Standby,
            format!("{} at LID {} is master", master.name, master.lid),
        ),
        Role::Master if snapshot.converging => (SubnetState::Converging, String::new()),
        Role::Master => match (&snapshot.refused_plan, shortfall(counts)) {
            (Some(refused), _) => (SubnetState::Degraded, outdated(refused)),
            (None, Some(reason)) => (SubnetState::Degraded, reason),
            (None, None) => (SubnetState::Up, String::new()),
        },
    }
}

fn discovering() -> (SubnetState, String) {
    (
        SubnetState::Discovering,
        "the first sweep is under way".to_owned(),
    )
}

/// What is wrong with routes that no later plan could replace.
fn outdated(refused: &RefusedPlan) -> String {
    format!(
        "the last plan was refused; of the routes in force: {}",
        refused.fit()
    )
}

fn shortfall(counts: &Counts) -> Option<String> {
    let parts: Vec<String> = [
        (
            counts.unfinished,
            "port is not Active",
            "ports are not Active",
        ),
        (counts.findings.error, "error", "errors"),
    ]
    .into_iter()
    .filter(|&(count, _, _)| count > 0)
    .map(|(count, one, more)| format!("{count} {}", if count == 1 { one } else { more }))
    .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The state's name in scripts.
pub(super) const fn name(state: SubnetState) -> &'static str {
    match state {
        SubnetState::NotActive => "not-active",
        SubnetState::Discovering => "discovering",
        SubnetState::Standby => "standby",
        SubnetState::Converging => "converging",
        SubnetState::Up => "up",
        SubnetState::Degraded => "degraded",
    }
}
