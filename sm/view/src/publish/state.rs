//! State of the subnet manager in one word, and the counts that the status shows.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_api::model::{NodeKind, SubnetState};
use rsm_api::v1::FindingCounts;
use rsm_mad::wire::attr::PortState;
use rsm_model::fabric::{Fabric, Node, Port};
use rsm_model::findings::{FindingKind, Severity};
use rsm_model::text::count;
use rsm_plan::{RefusedPlan, lids_in_use};
use rsm_state::{Role, Snapshot};

use super::api_view::kind;

/// Numbers of nodes, links, ports, LIDs and findings, as shown in the status.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Counts {
    pub(super) switches: u64,
    pub(super) cas: u64,
    pub(super) routers: u64,
    pub(super) links: u64,
    pub(super) lids: u64,
    pub(super) ports_active: u64,
    pub(super) ports_not_active: u64,
    pub(super) findings: FindingCounts,
    /// Number of ports that should be Active and are not, although their link leads to a managed
    /// node.
    pub(super) unfinished: u64,
}

impl Counts {
    /// Counts the parts of `snapshot`.
    pub(super) fn of(snapshot: &Snapshot) -> Counts {
        Counts::follow(&Snapshot::nothing(), &Counts::default(), snapshot)
    }

    /// Counts the parts of `snapshot`. `counted` are the counts of `before`; nodes that both
    /// snapshots share are not counted again.
    pub(super) fn follow(before: &Snapshot, counted: &Counts, snapshot: &Snapshot) -> Counts {
        let mut counts = Counts {
            findings: FindingCounts::default(),
            ..*counted
        };
        counts.follow_nodes(&before.fabric, &snapshot.fabric);
        let lids = |snapshot: &Snapshot| snapshot.plan.as_ref().map(|plan| plan.lids.clone());
        let (old, new) = (lids(before), lids(snapshot));
        let is_same = match (&old, &new) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            _ => false,
        };
        if !is_same {
            counts.lids = new.map_or(0, |lids| u64::from(lids_in_use(&lids)));
        }
        for finding in snapshot.findings.iter() {
            *match finding.severity {
                Severity::Info => &mut counts.findings.info,
                Severity::Warning => &mut counts.findings.warning,
                Severity::Error => &mut counts.findings.error,
            } += 1;
        }
        counts
    }

    fn follow_nodes(&mut self, before: &Fabric, now: &Fabric) {
        let mut changed = BTreeSet::new();
        for pair in before.differing(now) {
            let manages = |node: Option<&Node>| node.map(|node| !node.unmanageable);
            let nodes = [pair.0, pair.1].into_iter().flatten();
            changed.extend(nodes.clone().map(|node| node.guid));
            // The node at the other end decides whether a port should be Active.
            if manages(pair.0) != manages(pair.1) {
                changed.extend(nodes.flat_map(Node::cables).map(|(_, peer)| peer.node));
            }
        }
        for guid in changed {
            if let Some(node) = before.node_of(guid) {
                self.count(before, node, u64::wrapping_sub);
            }
            if let Some(node) = now.node_of(guid) {
                self.count(now, node, u64::wrapping_add);
            }
        }
    }

    /// Adds or subtracts the counts of a node.
    fn count(&mut self, fabric: &Fabric, node: &Node, by: fn(u64, u64) -> u64) {
        let of_kind = match kind(node) {
            NodeKind::Switch => &mut self.switches,
            NodeKind::Router => &mut self.routers,
            NodeKind::Ca | NodeKind::Unspecified => &mut self.cas,
        };
        *of_kind = by(*of_kind, 1);
        self.links = by(self.links, node.first_ends().count() as u64);
        for port in node.ports.iter().skip(1).filter(|port| port.up) {
            let of_state = match port.state() {
                PortState::Active => &mut self.ports_active,
                _ => &mut self.ports_not_active,
            };
            *of_state = by(*of_state, 1);
            let unfinished = u64::from(is_unfinished(fabric, node, port));
            self.unfinished = by(self.unfinished, unfinished);
        }
    }
}

/// Whether the port's link connects two managed nodes, and the port is not Active. Loop-back plugs,
/// and links without an answering peer, are not brought up and do not count.
fn is_unfinished(fabric: &Fabric, node: &Node, port: &Port) -> bool {
    port.up
        && port.state() != PortState::Active
        && !node.unmanageable
        && port
            .peer
            .and_then(|peer| fabric.node_of(peer.node))
            .is_some_and(|node| !node.unmanageable)
}

/// The state, and its reason in a few words; empty if there is no reason.
pub(super) fn of(snapshot: &Snapshot, counts: &Counts) -> (SubnetState, String) {
    if !snapshot.port_up {
        return (SubnetState::NotActive, "the local port is down".to_owned());
    }
    if snapshot.fabric.local.is_none() {
        // Findings of the core state the reason; before its first sweep the core has no findings.
        let mut findings = snapshot.findings.iter();
        return match findings.find(|finding| !is_of_daemon(finding.kind)) {
            Some(finding) => (SubnetState::NotActive, finding.text.clone()),
            None => discovering(),
        };
    }
    match &snapshot.role {
        Role::Discovering => discovering(),
        Role::NotActive => (
            SubnetState::NotActive,
            "not active until another subnet manager orders it to stand by".to_owned(),
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

/// Whether the daemon reports findings of this kind, which do not keep the core from its first
/// sweep.
const fn is_of_daemon(kind: FindingKind) -> bool {
    matches!(
        kind,
        FindingKind::AccessFile
            | FindingKind::ConfigRefused
            | FindingKind::ErrorCorrection
            | FindingKind::EventsUndelivered
            | FindingKind::Gpu(_)
            | FindingKind::RestartNeeded
            | FindingKind::Storage
            | FindingKind::StoreUnreachable
    )
}

fn discovering() -> (SubnetState, String) {
    (
        SubnetState::Discovering,
        "the first sweep is under way".to_owned(),
    )
}

/// Reason while a later plan is refused: the faults of the routes in force.
fn outdated(refused: &RefusedPlan) -> String {
    format!(
        "the last plan was refused; of the routes in force: {}",
        refused.fit()
    )
}

/// The numbers of ports that are not Active and of errors, in words; `None` if both are 0.
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
    .map(|(number, one, many)| count(number, one, many))
    .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}
