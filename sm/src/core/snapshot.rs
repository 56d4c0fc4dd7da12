//! What readers see: everything about one moment, immutable.

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_mad::client::ClientStats;
use rsm_mad::wire::attr::{NodeType, PortState};

use super::Core;
use super::convergence::Convergence;
use super::role::{Identity, Role};
use crate::fabric::Fabric;
use crate::findings::{Finding, FindingKind, Severity, Subject};
use crate::plan::Plan;
use crate::sweep::fault;

/// The subnet and its manager at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When it was taken.
    pub at: Time,
    /// What this subnet manager is.
    pub role: Role,
    /// By what it is known to others.
    pub identity: Identity,
    /// GUID of the port it sits at.
    pub own_guid: Guid,
    /// Whether its port is up.
    pub port_up: bool,
    /// Whether a convergence is under way or waits.
    pub converging: bool,
    /// The subnet as last seen.
    pub fabric: Arc<Fabric>,
    /// The plan in force.
    pub plan: Option<Arc<Plan>>,
    /// What is wrong, the worst first.
    pub findings: Arc<[Finding]>,
    /// Past convergences, oldest first.
    pub history: Arc<[Arc<Convergence>]>,
    /// Counters of the MAD client.
    pub stats: ClientStats,
    /// Traps received so far, by number (IBA 14.2.5.1).
    pub traps: BTreeMap<u16, u64>,
}

/// How many ports with a link are in use, and how many are not.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PortCounts {
    /// Active.
    pub active: usize,
    /// Their link is up, but they are not Active.
    pub not_active: usize,
}

impl Snapshot {
    pub(super) fn take(core: &Core, now: Time) -> Snapshot {
        let mut findings = fault::findings(&core.inventory);
        findings.extend(core.residue.iter().chain(&core.refused).cloned());
        findings.extend(
            core.traps
                .findings(|port| format!("{} port {}", core.name(port.node), port.port)),
        );
        findings.extend(core.damping.changes().map(|(port, changes)| {
            let text = format!(
                "the link at {} port {} changed its state {changes} times and is kept out of the routes until it is quiet",
                core.name(port.node),
                port.port
            );
            Finding::new(FindingKind::LinkFlapping, Subject::Port(port), Severity::Warning, text)
        }));
        if let Role::Standby { master } = &core.role {
            let text = format!(
                "{} ({}, priority {}) is master; this one stands by and sets nothing",
                master.name, master.guid, master.priority
            );
            findings.push(Finding::new(
                FindingKind::OtherMaster,
                Subject::Node(master.port.node),
                Severity::Info,
                text,
            ));
        }
        findings.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.cmp(b)));
        findings.dedup();
        Snapshot {
            at: now,
            role: core.role.clone(),
            identity: core.config.identity,
            own_guid: core.own_guid(),
            port_up: core.port_up,
            converging: !core.stage.is_idle() || core.work.is_urgent(),
            fabric: core.fabric.clone(),
            plan: core.plan.clone(),
            findings: findings.into(),
            history: core.history.iter().cloned().collect(),
            stats: core.client.stats(),
            traps: core.traps.counts().clone(),
        }
    }

    /// How many ports with a link are Active. A switch's port 0 has no link and does not count.
    pub fn ports(&self) -> PortCounts {
        let mut counts = PortCounts::default();
        for node in &self.fabric.nodes {
            for port in node.ports.iter().skip(1).filter(|port| port.up) {
                if port.state() == PortState::Active {
                    counts.active += 1;
                } else {
                    counts.not_active += 1;
                }
            }
        }
        counts
    }

    /// How many cables have both ends in the fabric.
    pub fn links(&self) -> usize {
        self.fabric.links().count()
    }

    /// How many nodes are of this kind.
    pub fn count(&self, kind: NodeType) -> usize {
        self.fabric.count(kind)
    }
}
