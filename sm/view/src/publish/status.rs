//! Status of the subnet and its manager.

use rsm_api::v1;
use rsm_ids::Lid;
use rsm_mad::wire::attr::SmState;
use rsm_model::expected::MissingCounts;
use rsm_model::fabric::Port;
use rsm_model::findings::FindingKind;
use rsm_routing::verify::Report;
use rsm_state::{MKeyStatus, Other, Role, Snapshot};

use super::design;
use super::published::Published;

/// The status that the snapshot determines. The view fills in the fabric's name, the uptime, the
/// shared store and the pass under way.
pub(super) fn of(published: &Published) -> v1::SubnetStatus {
    let snapshot = &*published.snapshot;
    let local = snapshot.fabric.local.map(|at| snapshot.fabric.port(at));
    let plan = published.plan();
    let counts = &published.counts;
    v1::SubnetStatus {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        fabric: String::new(),
        simulated: false,
        state: published.state.into(),
        state_reason: published.reason.clone(),
        generation: published.generation,
        uptime_ms: 0,
        port_guid: snapshot.own_guid.to_string(),
        lid: local.map_or(Lid::NONE, Port::lid).0.into(),
        priority: snapshot.identity.priority.into(),
        subnet_prefix: format!("{:#018x}", published.prefix()),
        master: match &snapshot.role {
            Role::Standby { master } => Some(v1::MasterElsewhere {
                guid: master.guid.to_string(),
                lid: master.lid.0.into(),
                priority: master.priority.into(),
            }),
            Role::Discovering | Role::Master | Role::NotActive => None,
        },
        switches: counts.switches,
        cas: counts.cas,
        routers: counts.routers,
        links: counts.links,
        lids: counts.lids,
        ports_active: counts.ports_active,
        ports_not_active: counts.ports_not_active,
        engine: plan.map(|plan| v1::EngineChoice {
            name: plan.routing.engine.to_owned(),
            reason: plan.summary(snapshot.reachability()),
        }),
        verify: snapshot.reachability().map(verification),
        findings: Some(counts.findings),
        smps: Some(v1::SmpCounts {
            get: snapshot.stats.sent_get,
            set: snapshot.stats.sent_set,
            retries: snapshot.stats.retries,
            timeouts: snapshot.stats.timeouts,
        }),
        last_convergence: published
            .convergences
            .last()
            .map(|logged| logged.shown.clone()),
        other_managers: snapshot.others.iter().map(manager).collect(),
        avoided: Some(published.marks.summary(snapshot)),
        shared_store: None,
        event_receivers: Vec::new(),
        dropped_log_lines: 0,
        activity: None,
        missing: Some(missing(&published.missing_counts)),
        design: design::state(snapshot),
        partitions_apart: partitions_apart(snapshot),
        description: snapshot.fabric.local.map_or_else(String::new, |at| {
            snapshot.fabric.node(at.node).description.clone()
        }),
        key_status: snapshot
            .m_keys
            .protects
            .then(|| management_keys(&snapshot.m_keys)),
        adaptive_routing: plan
            .and_then(|plan| plan.adaptive.as_deref())
            .map(|adaptive| v1::AdaptiveRoutingStatus {
                switches: snapshot.adaptive.intersection(&adaptive.switches).count() as u64,
                switches_planned: adaptive.switches.len() as u64,
                groups: adaptive.groups as u64,
                service_levels: adaptive.sls.into(),
                fast_recovery: adaptive.recovers,
            }),
    }
}

fn verification(report: &Report) -> v1::Verification {
    v1::Verification {
        reachable_pairs: report.reachable_pairs,
        // Missing cables and missing table entries both keep packets from arriving.
        unreachable_pairs: report.unreachable_pairs + report.disconnected_pairs,
        loop_free: report.loop_free,
        credit_loop_free: report.credit_loop_free,
        max_hops: report.max_hops,
    }
}

/// First clause of the finding about hosts that partitions keep apart; empty if there is none.
fn partitions_apart(snapshot: &Snapshot) -> String {
    let mut findings = snapshot.findings.iter();
    let apart = findings.find(|finding| finding.kind == FindingKind::PartitionApart);
    let clause = apart.and_then(|finding| finding.text.split(": ").next());
    clause.unwrap_or_default().to_owned()
}

fn missing(counts: &MissingCounts) -> v1::MissingParts {
    let &MissingCounts {
        switches,
        cables,
        hosts,
        adapters,
        host_cables,
        exchanged_cables,
    } = counts;
    v1::MissingParts {
        switches,
        cables,
        hosts,
        adapters,
        host_cables,
        exchanged_cables,
        summary: counts.to_string(),
    }
}

/// Counts of parts that are given up as a message.
pub(super) fn given_up_parts(counts: &MissingCounts) -> v1::MissingParts {
    let parts = missing(counts);
    v1::MissingParts {
        summary: parts.listed(),
        ..parts
    }
}

/// State of the ports' M_Keys as a message.
pub(super) fn management_keys(keys: &MKeyStatus) -> v1::ManagementKeys {
    v1::ManagementKeys {
        per_port: keys.per_port,
        generation: keys.generations.others,
        switch_generation: keys.generations.switches,
        ports: keys.settled as u64,
        ports_behind: keys.behind as u64,
    }
}

fn manager(other: &Other) -> v1::OtherManager {
    let state = match other.state {
        SmState::NotActive => v1::ManagerState::NotActive,
        SmState::Discovering => v1::ManagerState::Discovering,
        SmState::Standby => v1::ManagerState::Standby,
        SmState::Master => v1::ManagerState::Master,
        SmState::Unknown(_) => v1::ManagerState::Unspecified,
    };
    v1::OtherManager {
        guid: other.guid.to_string(),
        description: other.name.clone(),
        lid: other.lid.0.into(),
        priority: other.priority.into(),
        state: state.into(),
    }
}
