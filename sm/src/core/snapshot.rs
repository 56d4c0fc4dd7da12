//! What readers see: everything about one moment, immutable.

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_mad::client::ClientStats;
use rsm_mad::wire::attr::{NodeType, PortInfo, PortState};
use rsm_routing::verify::Report;

use super::Core;
use super::convergence::Convergence;
use super::role::{Identity, Role};
use crate::expected::Expected;
use crate::fabric::Fabric;
use crate::findings::{Finding, FindingKind, Severity, Subject};
use crate::plan::{Plan, RefusedPlan};
use crate::sweep::fault;
use crate::sweep::inventory::PortKey;

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
    /// The last plan, where it was refused: what [`Snapshot::plan`] says of reachability is then no
    /// longer true.
    pub refused_plan: Option<Arc<RefusedPlan>>,
    /// What was there before and is not in [`Snapshot::fabric`].
    pub expected: Arc<Expected>,
    /// What is wrong, the worst first.
    pub findings: Arc<[Finding]>,
    /// Past convergences, oldest first.
    pub history: Arc<[Arc<Convergence>]>,
    /// Counters of the MAD client.
    pub stats: ClientStats,
    /// Traps received so far, by number (IBA 14.2.5.1).
    pub traps: BTreeMap<u16, u64>,
}

/// The subnet as it will be when the push that begins is done.
#[derive(Debug)]
pub struct Forthcoming {
    before: Snapshot,
    /// PortInfo of the ports that are written, as they will have it.
    ports: Vec<(PortKey, PortInfo)>,
}

impl Forthcoming {
    pub(super) fn new(before: Snapshot, ports: Vec<(PortKey, PortInfo)>) -> Forthcoming {
        Forthcoming { before, ports }
    }

    /// As a snapshot. Copies the fabric: some ten milliseconds for 45,000 hosts, on whichever
    /// thread wants it.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            fabric: Arc::new(self.before.fabric.with_ports(&self.ports)),
            ..self.before.clone()
        }
    }
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
    /// Before anything was seen.
    pub fn nothing() -> Snapshot {
        Snapshot {
            at: Time::ZERO,
            role: Role::Discovering,
            identity: Identity::default(),
            own_guid: Guid::ZERO,
            port_up: true,
            converging: true,
            fabric: Arc::default(),
            plan: None,
            refused_plan: None,
            expected: Arc::default(),
            findings: Arc::from([]),
            history: Arc::from([]),
            stats: ClientStats::default(),
            traps: BTreeMap::new(),
        }
    }

    pub(super) fn take(core: &Core, now: Time) -> Snapshot {
        let mut findings = fault::findings(&core.inventory);
        findings.extend(core.inventory.habits.findings(&core.inventory));
        findings.extend(core.not_kept.findings(&core.inventory));
        findings.extend(core.residue.iter().cloned());
        findings.extend(core.refused.iter().cloned());
        if core.role == Role::Master {
            findings.extend(core.missing.iter().cloned());
        }
        findings.extend(core.daemon_findings.iter().cloned());
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
        findings.extend(core.findings_of_takeover());
        let place = core.own_place();
        findings.extend(core.first_sweep.finding(&core.client.stats(), &place));
        findings.extend(core.findings_of_mismatches());
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
        findings.extend(core.rivals().map(|rival| {
            let text = format!(
                "{} ({}, priority {}) is master, too: both write LIDs and routes until it hands over; this one has precedence \
                 and has told it (trap 144), stop the other one if this stays",
                rival.name, rival.guid, rival.priority
            );
            let subject = Subject::Node(rival.port.node);
            Finding::new(FindingKind::OtherMaster, subject, Severity::Error, text)
        }));
        findings.extend(own_port(core));
        findings.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.cmp(b)));
        findings.dedup();
        Snapshot {
            at: now,
            role: core.role.clone(),
            identity: core.config.identity,
            own_guid: core.own_guid(),
            port_up: core.port_up,
            converging: !core.stage.is_idle()
                || core.first_sweep.goes_on()
                || core.work.is_urgent(),
            fabric: core.fabric.clone(),
            plan: core.plan.clone(),
            refused_plan: core.refused_plan.clone(),
            expected: core.expected.clone(),
            findings: findings.into(),
            history: core.history.iter().cloned().collect(),
            stats: core.client.stats(),
            traps: core.traps.counts().clone(),
        }
    }

    /// What the routes in force do with packets on the fabric as it is: the proof of the plan, or
    /// where a later plan was refused what was found instead. `None` while nothing is known, and
    /// where another manager routes.
    pub fn reachability(&self) -> Option<&Report> {
        if self.role != Role::Master {
            return None;
        }
        match &self.refused_plan {
            Some(refused) => refused.in_force.as_ref(),
            None => self.plan.as_ref().map(|plan| &plan.report),
        }
    }

    /// How many ports with a link are Active. A switch's port 0 has no link and does not count.
    pub fn ports(&self) -> PortCounts {
        let mut counts = PortCounts::default();
        for node in self.fabric.nodes() {
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

/// What is wrong with the port that this subnet manager sits at.
fn own_port(core: &Core) -> Option<Finding> {
    let what = match (core.port_up, core.port_retrained) {
        (false, _) => {
            "is down: the subnet keeps its routes, and no fault in it is dealt with; check the cable and the switch at its other end"
        }
        (true, true) => {
            "fell back to Init: nothing reaches this host, and the switch at its other end may have lost its tables; it is read again"
        }
        (true, false) => return None,
    };
    let local = core.inventory.local?;
    let text = format!(
        "port {} of this subnet manager, at {}, {what}",
        local.port,
        core.name(local.node)
    );
    let subject = Subject::Port(local);
    Some(Finding::new(
        FindingKind::LocalPort,
        subject,
        Severity::Error,
        text,
    ))
}
