//! A snapshot with further data for readers.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_api::model::{Keyed, PortId, SubnetState};
use rsm_api::v1;
use rsm_ids::{Guid, PortKey};
use rsm_mad::Time;
use rsm_model::expected::MissingCounts;
use rsm_model::fabric::Fabric;
use rsm_model::findings::{FindingKind, Subject};
use rsm_plan::Plan;
use rsm_plan::policy::PortPolicy;
use rsm_state::Snapshot;

use super::api_view::{ApiView, api_key, core_key};
use super::avoided::Marks;
use super::blame::{FormerRoutes, former_routes};
use super::index::Index;
use super::log::Logged;
use super::missing;
use super::names::Names;
use super::state::{self, Counts};

/// A snapshot in the form that readers see. Immutable, except for the index of names, which is
/// built at its first use.
pub(super) struct Published {
    pub(super) generation: u64,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) counts: Counts,
    pub(super) state: SubnetState,
    pub(super) reason: String,
    /// Both ends of the links that flapped.
    pub(super) damped: BTreeSet<PortKey>,
    /// Marks of the parts that routes avoid.
    pub(super) marks: Marks,
    /// Present findings, in ascending order of identifier.
    pub(super) findings: Vec<Arc<v1::Finding>>,
    /// Missing nodes and cables, in ascending order of key.
    pub(super) missing: Arc<[Keyed<PortId, v1::Missing>]>,
    /// Numbers of missing nodes and cables, as the status counts them.
    pub(super) missing_counts: MissingCounts,
    /// Unix time of [`Time::ZERO`], in milliseconds.
    pub(super) began_unix_ms: u64,
    /// Convergences, oldest first.
    pub(super) convergences: Vec<Arc<Logged>>,
    pub(super) names: Names,
    /// Routes that were in force earlier in this run, oldest first.
    pub(super) former: Arc<[FormerRoutes]>,
}

/// Whether parts count as missing in this state: the subnet has been read.
fn counts_missing(state: SubnetState) -> bool {
    !matches!(state, SubnetState::NotActive | SubnetState::Discovering)
}

impl Published {
    /// Prepares the snapshot that follows `before`.
    pub(super) fn after(
        before: &Published,
        generation: u64,
        snapshot: Arc<Snapshot>,
        findings: Vec<Arc<v1::Finding>>,
        convergences: Vec<Arc<Logged>>,
        unix_ms: &dyn Fn(Time) -> u64,
    ) -> Published {
        let counts = Counts::follow(&before.snapshot, &before.counts, &snapshot);
        debug_assert_eq!(counts, Counts::of(&snapshot));
        let (state, reason) = state::of(&snapshot, &counts);
        let began_unix_ms = unix_ms(Time::ZERO);
        // The list of missing parts can be long, so it is made again only if it may have changed.
        let is_same = Arc::ptr_eq(&before.snapshot.expected, &snapshot.expected)
            && before
                .snapshot
                .fabric
                .differing(&snapshot.fabric)
                .is_empty()
            && before.began_unix_ms == began_unix_ms;
        let (gone, missing) = match is_same {
            true => (before.names.missing_nodes().clone(), before.missing.clone()),
            false => (
                missing::missing_nodes(&snapshot, unix_ms).into(),
                missing::shown(&snapshot, unix_ms).into(),
            ),
        };
        let missing_counts = match counts_missing(state) {
            false => MissingCounts::default(),
            true if is_same && counts_missing(before.state) => before.missing_counts,
            true => snapshot.expected.counts(&snapshot.fabric),
        };
        Published {
            generation,
            counts,
            state,
            reason,
            damped: damped_ends(&snapshot),
            marks: Marks::of(&snapshot),
            names: Names::new(snapshot.fabric.clone(), prefix(&snapshot)).with_gone(gone),
            missing,
            missing_counts,
            began_unix_ms,
            former: former_routes(
                &before.former,
                before.plan(),
                snapshot.plan.as_deref(),
                began_unix_ms,
                unix_ms(snapshot.at),
            ),
            snapshot,
            findings,
            convergences,
        }
    }

    /// The empty view before the first snapshot.
    pub(super) fn nothing() -> Published {
        let nothing = Arc::new(Snapshot::nothing());
        let counts = Counts::default();
        let (state, reason) = state::of(&nothing, &counts);
        Published {
            generation: 0,
            counts,
            state,
            reason,
            damped: BTreeSet::new(),
            marks: Marks::default(),
            names: Names::new(nothing.fabric.clone(), prefix(&nothing)),
            missing: Arc::from([]),
            missing_counts: MissingCounts::default(),
            began_unix_ms: 0,
            former: Arc::from([]),
            snapshot: nothing,
            findings: Vec::new(),
            convergences: Vec::new(),
        }
    }

    pub(super) fn fabric(&self) -> &Fabric {
        &self.snapshot.fabric
    }

    pub(super) fn plan(&self) -> Option<&Plan> {
        self.snapshot.plan.as_deref()
    }

    /// Upper half of every GID in the subnet.
    pub(super) fn prefix(&self) -> u64 {
        self.names.prefix()
    }

    pub(super) fn api_view(&self) -> ApiView<'_> {
        ApiView {
            fabric: self.fabric(),
            plan: self.plan(),
            damped: &self.damped,
            marks: &self.marks,
            slow_links: &self.snapshot.slow_links,
            capabilities: &self.snapshot.capabilities,
            expected: &self.snapshot.expected,
            began_unix_ms: self.began_unix_ms,
        }
    }

    pub(super) fn index(&self) -> &Index {
        self.names.index()
    }

    /// The end port with this GUID, and the description of its node; `None` and an empty text if
    /// the fabric lacks it.
    pub(super) fn port_and_description(&self, port: Guid) -> (Option<v1::PortKey>, String) {
        match self.index().port_of_guid(port) {
            Some(at) => {
                let fabric = self.fabric();
                let description = fabric.node(at.node).description.clone();
                (Some(api_key(fabric.key(at)).into()), description)
            }
            None => (None, String::new()),
        }
    }

    /// GUID of an end port; `None` if a lookup of this GUID finds another port, or if the fabric
    /// lacks the port.
    pub(super) fn guid_of(&self, port: PortId) -> Option<Guid> {
        let at = self.fabric().find_port(core_key(port))?;
        let guid = self.fabric().port(at).guid;
        (self.index().port_of_guid(guid) == Some(at)).then_some(guid)
    }
}

/// Upper half of every GID in the subnet: the planned value, else the value in the manager's own
/// port.
fn prefix(snapshot: &Snapshot) -> u64 {
    let fabric = &snapshot.fabric;
    let local = fabric.local.map(|at| fabric.port(at));
    let plan = snapshot.plan.as_deref();
    plan.map(|plan| plan.policy.ports.subnet_prefix)
        .or_else(|| Some(local?.info.as_ref()?.gid_prefix()))
        .unwrap_or(PortPolicy::default().subnet_prefix)
}

/// Both ends of each link that flaps. The finding names only one end.
fn damped_ends(snapshot: &Snapshot) -> BTreeSet<PortKey> {
    let fabric = &snapshot.fabric;
    let mut ends = BTreeSet::new();
    for finding in snapshot.findings.iter() {
        if let (FindingKind::LinkFlapping, Subject::Port(key)) = (finding.kind, finding.subject) {
            ends.insert(key);
            ends.extend(fabric.find_port(key).and_then(|at| fabric.port(at).peer));
        }
    }
    ends
}
