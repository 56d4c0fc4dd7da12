//! The published state: everything about one moment, immutable.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_ids::{Guid, PortKey};
use rsm_mad::Time;
use rsm_mad::client::ClientStats;
use rsm_mad::wire::attr::{NodeType, PortInfo, PortState};
use rsm_routing::verify::Report;

use super::convergence::Convergence;
use super::role::{self, Identity, Other, Role};
use super::{Core, Following, MKeyStatus};
use crate::avoid::Avoid;
use crate::capabilities::DeviceCapabilities;
use crate::congestion::CongestionView;
use crate::expected::Expected;
use crate::fabric::Fabric;
use crate::findings::{Finding, FindingKind, Severity, Subject};
use crate::health::SlowLinks;
use crate::model::InventoryPort;
use crate::overlay::Overlay;
use crate::plan::{Plan, RefusedPlan};
use crate::sweep::fault;

/// The subnet and its manager at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When it was taken.
    pub at: Time,
    /// The role of this subnet manager.
    pub role: Role,
    /// Its priority and SM_Key.
    pub identity: Identity,
    /// How far a standby has followed a master that shares its store; `None` for other managers.
    pub following: Option<Following>,
    /// The other subnet managers that answered, in the order of their ports.
    pub others: Arc<[Other]>,
    /// GUID of its port.
    pub own_guid: Guid,
    /// Whether its port is up.
    pub port_up: bool,
    /// Whether a convergence is under way or waits.
    pub converging: bool,
    /// The subnet as last seen.
    pub fabric: Arc<Fabric>,
    /// The plan in force.
    pub plan: Option<Arc<Plan>>,
    /// The last plan, if it was refused: the reachability in [`Snapshot::plan`] is then out of
    /// date.
    pub refused_plan: Option<Arc<RefusedPlan>>,
    /// Nodes and cables that were there before and are not in [`Snapshot::fabric`].
    pub expected: Arc<Expected>,
    /// Parts that routes go around, without those of a drain under way.
    pub avoid: Arc<Avoid>,
    /// Partitions made through the API, without changes under way.
    pub overlay: Arc<Overlay>,
    /// Capabilities of device types.
    pub capabilities: Arc<DeviceCapabilities>,
    /// Switches that forward by groups of adaptive routing.
    pub adaptive: Arc<BTreeSet<Guid>>,
    /// The links that carry less than they should.
    pub slow_links: SlowLinks,
    /// The M_Keys of ports.
    pub m_keys: MKeyStatus,
    /// The agents of congestion control; none while that is off.
    pub congestion: CongestionView,
    /// Whether congestion control is on (`congestion.enabled`).
    pub controls_congestion: bool,
    /// Whether virtual ports of hosts are managed (`sm.virtualization`).
    pub manages_vports: bool,
    /// Findings, the worst first.
    pub findings: Arc<[Finding]>,
    /// Past convergences, oldest first.
    pub history: Arc<[Arc<Convergence>]>,
    /// Counters of the MAD client.
    pub stats: ClientStats,
    /// Traps received so far, by number (IBA 14.2.5.1).
    pub traps: BTreeMap<u16, u64>,
}

/// The subnet as it will be after the push that begins.
#[derive(Debug)]
pub struct Forthcoming {
    before: Snapshot,
    /// The ports that the push writes, with their future PortInfo.
    ports: Vec<(PortKey, PortInfo)>,
}

impl Forthcoming {
    pub(super) fn new(before: Snapshot, ports: Vec<(PortKey, PortInfo)>) -> Forthcoming {
        Forthcoming { before, ports }
    }

    /// A snapshot of that state. Copies the fabric: some ten milliseconds for 45,000 hosts, on the
    /// calling thread.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            fabric: Arc::new(self.before.fabric.with_ports(&self.ports)),
            ..self.before.clone()
        }
    }
}

/// Ports with a link, by whether they are Active.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PortCounts {
    /// Active.
    pub active: usize,
    /// With a link that is up, but not Active.
    pub not_active: usize,
}

impl Snapshot {
    /// The snapshot before the first sweep.
    pub fn nothing() -> Snapshot {
        Snapshot {
            at: Time::ZERO,
            role: Role::Discovering,
            following: None,
            identity: Identity::default(),
            others: Arc::from([]),
            own_guid: Guid::ZERO,
            port_up: true,
            converging: true,
            fabric: Arc::default(),
            plan: None,
            refused_plan: None,
            expected: Arc::default(),
            avoid: Arc::default(),
            overlay: Arc::default(),
            capabilities: Arc::default(),
            adaptive: Arc::default(),
            slow_links: SlowLinks::default(),
            m_keys: MKeyStatus::default(),
            congestion: CongestionView::default(),
            controls_congestion: false,
            manages_vports: false,
            findings: Arc::from([]),
            history: Arc::from([]),
            stats: ClientStats::default(),
            traps: BTreeMap::new(),
        }
    }

    pub(super) fn take(core: &Core, now: Time) -> Snapshot {
        let mut findings = fault::findings(&core.inventory, |subject| {
            core.silences.severity(subject, now)
        });
        findings.extend(core.inventory.habits.findings(&core.inventory));
        findings.extend(core.not_kept.findings(&core.inventory));
        findings.extend(core.residue.iter().cloned());
        findings.extend(core.refused.iter().cloned());
        if core.role == Role::Master {
            findings.extend(core.missing.iter().cloned());
            findings.extend(core.findings_of_overlay().iter().cloned());
            findings.extend(core.congestion.manager().findings(|node| core.name(node)));
        }
        findings.extend(core.daemon_findings.iter().cloned());
        findings.extend(core.traps.findings(
            |port| format!("{} port {}", core.name(port.node), port.port),
            |port| core.disables_babbling(port),
        ));
        findings.extend(core.findings_of_health());
        findings.extend(core.findings_of_drains());
        findings.extend(core.findings_of_takeover());
        let place = core.own_place();
        findings.extend(core.first_sweep.finding(&core.client.stats(), &place));
        findings.extend(core.findings_of_mismatches());
        findings.extend(core.findings_of_foreign_writes());
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
        findings.extend(core.finding_of_epoch());
        findings.extend(core.finding_of_lost_registrations());
        findings.extend(core.finding_of_m_keys());
        findings.extend(core.findings_of_configurations());
        findings.extend(core.findings_of_strangers());
        findings.extend(core.findings_of_silent_managers());
        findings.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.cmp(b)));
        findings.dedup();
        Snapshot {
            at: now,
            role: core.role.clone(),
            following: core.following(),
            identity: core.identity(),
            others: role::others(&core.inventory).into(),
            own_guid: core.own_guid(),
            port_up: core.port_up && !own_link_is_down(core),
            converging: core.is_converging(),
            fabric: core.fabric.clone(),
            plan: core.plan.clone(),
            refused_plan: core.refused_plan.clone(),
            expected: core.expected.clone(),
            avoid: core.avoid_in_force().clone(),
            overlay: core.overlay.in_force().clone(),
            capabilities: core.inventory.capabilities.clone(),
            adaptive: Arc::new(core.inventory.adaptive().collect()),
            slow_links: core.slow_links(),
            m_keys: core.m_key_status(),
            congestion: core.congestion.manager().view().clone(),
            controls_congestion: core.config.congestion.enabled,
            manages_vports: core.config.manages_vports,
            findings: findings.into(),
            history: core.history.iter().cloned().collect(),
            stats: core.client.stats(),
            traps: core.traps.counts().clone(),
        }
    }

    /// The fate of packets by the routes in force on the fabric as it is: the proof of the plan,
    /// or, if a later plan was refused, the report of that refusal. `None` without a plan, and
    /// while another manager is master.
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

/// Whether the own port said at the last sweep that its link is down. At a start the driver reports
/// only later changes.
fn own_link_is_down(core: &Core) -> bool {
    let local = core.inventory.local;
    let local = local.and_then(|local| core.inventory.port(local));
    local.and_then(InventoryPort::state) == Some(PortState::Down)
}

/// The finding about the port of this subnet manager.
fn own_port(core: &Core) -> Option<Finding> {
    let local = core.inventory.local?;
    let is_up = core.port_up && !own_link_is_down(core);
    let what = match (is_up, core.port_retrained) {
        (false, _) => {
            "is down: the subnet keeps its routes, and no fault in it is dealt with; rsm goes on by itself when the link is up; \
             check the cable and the switch at its other end"
        }
        (true, true) => {
            "fell back to Init: nothing reaches this host, and the switch at its other end may have lost its tables; it is read again"
        }
        (true, false) => return None,
    };
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
