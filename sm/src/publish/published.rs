//! One snapshot, with what readers need beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use rsm_api::model::{Finding, PortKey, SubnetState};
use rsm_api::resolve::Directory;
use rsm_ids::{Gid, Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::client::ClientStats;

use super::index::Index;
use super::lens::{Lens, api_key, core_key, holds_lid};
use super::log::Logged;
use super::state::{self, Counts};
use crate::core::role::{Identity, Role};
use crate::core::snapshot::Snapshot;
use crate::fabric::Fabric;
use crate::findings::{FindingKind, Subject};
use crate::plan::Plan;
use crate::plan::policy::PortPolicy;
use crate::sweep::inventory;

/// A snapshot as it is shown. Immutable but for the index, which the first reader who needs it builds.
pub(super) struct Published {
    pub(super) generation: u64,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) counts: Counts,
    pub(super) state: SubnetState,
    pub(super) reason: String,
    /// Either end of the links that flapped.
    pub(super) damped: BTreeSet<inventory::PortKey>,
    /// By ascending identifier.
    pub(super) findings: Vec<Arc<Finding>>,
    /// Oldest first.
    pub(super) convergences: Vec<Arc<Logged>>,
    index: OnceLock<Index>,
}

impl Published {
    pub(super) fn new(
        generation: u64,
        snapshot: Arc<Snapshot>,
        findings: Vec<Arc<Finding>>,
        convergences: Vec<Arc<Logged>>,
    ) -> Published {
        let counts = Counts::of(&snapshot);
        let (state, reason) = state::of(&snapshot, &counts);
        Published {
            generation,
            counts,
            state,
            reason,
            damped: damped_ends(&snapshot),
            snapshot,
            findings,
            convergences,
            index: OnceLock::new(),
        }
    }

    /// What is shown before the first snapshot.
    pub(super) fn nothing() -> Published {
        let nothing = Snapshot {
            at: Time::ZERO,
            role: Role::Discovering,
            identity: Identity::default(),
            own_guid: Guid::ZERO,
            port_up: true,
            converging: true,
            fabric: Arc::default(),
            plan: None,
            findings: Arc::from([]),
            history: Arc::from([]),
            stats: ClientStats::default(),
            traps: BTreeMap::new(),
        };
        Published::new(0, Arc::new(nothing), Vec::new(), Vec::new())
    }

    pub(super) fn fabric(&self) -> &Fabric {
        &self.snapshot.fabric
    }

    pub(super) fn plan(&self) -> Option<&Plan> {
        self.snapshot.plan.as_deref()
    }

    /// The upper half of every GID in the subnet: as planned, else as the own port states.
    pub(super) fn prefix(&self) -> u64 {
        let local = self.fabric().local.map(|at| self.fabric().port(at));
        self.plan()
            .map(|plan| plan.policy.ports.subnet_prefix)
            .or_else(|| Some(local?.info.as_ref()?.gid_prefix()))
            .unwrap_or(PortPolicy::default().subnet_prefix)
    }

    pub(super) fn lens(&self) -> Lens<'_> {
        Lens {
            fabric: self.fabric(),
            plan: self.plan(),
            damped: &self.damped,
        }
    }

    pub(super) fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::build(self.fabric()))
    }
}

/// Links are named by one of their ends; both are marked, so that either finds the link.
fn damped_ends(snapshot: &Snapshot) -> BTreeSet<inventory::PortKey> {
    let fabric = &snapshot.fabric;
    let mut ends = BTreeSet::new();
    for finding in snapshot.findings.iter() {
        if let (FindingKind::LinkFlapping, Subject::Port(key)) = (finding.kind, finding.subject) {
            ends.insert(key);
            let peer = fabric.find_port(key).and_then(|at| fabric.port(at).peer);
            ends.extend(peer.map(|peer| fabric.key(peer)));
        }
    }
    ends
}

impl Directory for Published {
    fn has_node(&self, guid: Guid) -> bool {
        self.fabric().find(guid).is_some()
    }

    fn port_of_guid(&self, guid: Guid) -> Option<PortKey> {
        let at = self.index().port_of_guid(guid)?;
        Some(api_key(self.fabric().key(at)))
    }

    fn port_of_lid(&self, lid: Lid) -> Option<PortKey> {
        let at = self.index().port_of_lid(lid)?;
        Some(api_key(self.fabric().key(at)))
    }

    fn port_of_gid(&self, gid: Gid) -> Option<PortKey> {
        /// That every subnet has for itself (IBA 4.1.1).
        const LINK_LOCAL: u64 = 0xFE80_0000_0000_0000;
        let here = [self.prefix(), LINK_LOCAL].contains(&gid.prefix());
        here.then(|| self.port_of_guid(gid.guid())).flatten()
    }

    fn nodes_described(&self, description: &str) -> Vec<Guid> {
        let nodes = self.fabric().nodes.iter();
        nodes
            .filter(|node| node.description == description)
            .map(|node| node.guid)
            .collect()
    }

    fn has_port(&self, port: PortKey) -> bool {
        let at = self.fabric().find_port(core_key(port));
        at.is_some_and(|at| at.port != PortNum::ZERO || self.fabric().node(at.node).is_switch())
    }

    fn end_ports(&self, node: Guid) -> Vec<PortNum> {
        let Some(ix) = self.fabric().find(node) else {
            return Vec::new();
        };
        let node = self.fabric().node(ix);
        super::lens::end_port_numbers(node)
            .filter(|number| holds_lid(&node.ports[number.index()]))
            .collect()
    }
}
