//! The published state: the subnet and its manager at one moment, immutable.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_config::overlay::Overlay;
use rsm_ids::{Guid, PortKey};
use rsm_mad::Time;
use rsm_mad::client::ClientStats;
use rsm_mad::wire::attr::{NodeType, PortInfo, PortState};
use rsm_model::capabilities::DeviceCapabilities;
use rsm_model::congestion::CongestionView;
use rsm_model::expected::Expected;
use rsm_model::fabric::Fabric;
use rsm_model::findings::Finding;
use rsm_model::slow_links::SlowLinks;
use rsm_plan::avoid::Avoid;
use rsm_plan::{Plan, RefusedPlan};
use rsm_routing::verify::Report;

use super::Following;
use super::convergence::Convergence;
use super::m_keys::MKeyStatus;
use super::role::{Identity, Other, Role};

/// The subnet and its manager at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Time of the snapshot.
    pub at: Time,
    /// The role of this subnet manager.
    pub role: Role,
    /// Priority and SM_Key of this subnet manager.
    pub identity: Identity,
    /// Progress of a standby that follows a master by their shared store; `None` for other
    /// managers.
    pub following: Option<Following>,
    /// The other subnet managers that answered, in the order of their ports.
    pub others: Arc<[Other]>,
    /// GUID of this subnet manager's port.
    pub own_guid: Guid,
    /// Whether this subnet manager's port is up.
    pub port_up: bool,
    /// Whether a convergence is under way or waiting.
    pub converging: bool,
    /// The subnet as last seen.
    pub fabric: Arc<Fabric>,
    /// The plan in force; `None` before the first plan.
    pub plan: Option<Arc<Plan>>,
    /// The last plan, if it was refused: the reachability in [`Snapshot::plan`] is then out of
    /// date. `None` if it was accepted.
    pub refused_plan: Option<Arc<RefusedPlan>>,
    /// Nodes and cables that were present before and that [`Snapshot::fabric`] lacks.
    pub expected: Arc<Expected>,
    /// Parts that routes avoid, without the parts of a drain that is under way.
    pub avoid: Arc<Avoid>,
    /// Partitions made through the API, without changes that are under way.
    pub overlay: Arc<Overlay>,
    /// Capabilities of device types.
    pub capabilities: Arc<DeviceCapabilities>,
    /// Switches that forward by groups of adaptive routing.
    pub adaptive: Arc<BTreeSet<Guid>>,
    /// Links that carry less than they could.
    pub slow_links: SlowLinks,
    /// State of the M_Keys of ports.
    pub m_keys: MKeyStatus,
    /// Agents of congestion control; empty while congestion control is off.
    pub congestion: CongestionView,
    /// Whether congestion control is on (`congestion.enabled`).
    pub controls_congestion: bool,
    /// Whether virtual ports of hosts are managed (`sm.virtualization`).
    pub manages_vports: bool,
    /// Findings, the most severe first.
    pub findings: Arc<[Finding]>,
    /// Past convergences, oldest first.
    pub history: Arc<[Arc<Convergence>]>,
    /// Counters of the MAD client.
    pub stats: ClientStats,
    /// Number of traps received, by trap number (IBA 14.2.5.1).
    pub traps: BTreeMap<u16, u64>,
}

/// The subnet as it will be after a push that is about to begin.
#[derive(Debug)]
pub struct Forthcoming {
    before: Snapshot,
    /// Future PortInfo of the ports that the push writes.
    ports: Vec<(PortKey, PortInfo)>,
}

impl Forthcoming {
    /// The state that follows `before` once these ports have this PortInfo.
    pub fn new(before: Snapshot, ports: Vec<(PortKey, PortInfo)>) -> Forthcoming {
        Forthcoming { before, ports }
    }

    /// A snapshot of the forthcoming state. Copies the fabric on the calling thread, which takes
    /// some ten milliseconds for 45,000 hosts.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            fabric: Arc::new(self.before.fabric.with_ports(&self.ports)),
            ..self.before.clone()
        }
    }
}

/// Numbers of ports with a link, by whether they are Active.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PortCounts {
    /// Number of Active ports.
    pub active: usize,
    /// Number of ports whose link is up, but not Active.
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

    /// The destinations that packets reach by the routes in force on the present fabric: the proof
    /// of the plan, or the report of a later refused plan. `None` without a plan, or while another
    /// manager is master.
    pub fn reachability(&self) -> Option<&Report> {
        if self.role != Role::Master {
            return None;
        }
        match &self.refused_plan {
            Some(refused) => refused.in_force.as_ref(),
            None => self.plan.as_ref().map(|plan| &plan.report),
        }
    }

    /// Number of ports with a link, by whether they are Active. Port 0 of a switch has no link and
    /// does not count.
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

    /// Number of cables with both ends in the fabric.
    pub fn links(&self) -> usize {
        self.fabric.links().count()
    }

    /// Number of nodes of this kind.
    pub fn count(&self, kind: NodeType) -> usize {
        self.fabric.count(kind)
    }
}
