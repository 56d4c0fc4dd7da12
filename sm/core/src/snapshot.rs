//! Takes the snapshot that the core publishes.

use std::sync::Arc;

use rsm_hardware::sweep::fault;
use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_state::{Role, Snapshot};

use super::Core;
use super::links::LinkContext;
use super::mastership::election::cable_of;
use super::mastership::{role, taken_over_tables};
use super::writing::mismatch_findings;

/// The state of `core` as a snapshot.
pub(super) fn take(core: &Core, now: Time) -> Snapshot {
    let is_master = core.election.role == Role::Master;
    let findings = findings(core, is_master, now);
    Snapshot {
        at: now,
        role: core.election.role.clone(),
        following: core.following(),
        identity: core.identity(),
        others: role::others(&core.inventory).into(),
        own_guid: core.own_guid(),
        port_up: core.local_port.is_usable(&core.inventory),
        converging: core.is_converging(),
        fabric: core.fabric.clone(),
        plan: core.plans.in_force().cloned(),
        refused_plan: core.plans.refused().cloned(),
        expected: core.missing.expected().clone(),
        avoid: core.trials.detours.in_force().clone(),
        overlay: core.trials.partitions.in_force().clone(),
        capabilities: core.inventory.capabilities.clone(),
        adaptive: Arc::new(core.inventory.adaptive().collect()),
        slow_links: core.links.slow(core.manages()),
        m_keys: core.m_key_status(),
        congestion: core.congestion.manager().view().clone(),
        controls_congestion: core.config.congestion.enabled,
        manages_vports: core.config.manages_vports,
        findings: findings.into(),
        history: core.meter.history().cloned().collect(),
        stats: core.client.stats(),
        traps: core.traps.counts().clone(),
    }
}

/// All findings, the most severe first.
fn findings(core: &Core, is_master: bool, now: Time) -> Vec<Finding> {
    let context = LinkContext {
        fabric: &core.fabric,
        inventory: &core.inventory,
        avoid: core.trials.detours.in_force(),
        plan: core.plans.in_force().map(Arc::as_ref),
        manages: core.manages(),
    };
    let mut findings = fault::findings(&core.inventory, |subject| {
        core.silence.silences.severity(subject, now)
    });
    findings.extend(core.inventory.habits.findings(&core.inventory));
    findings.extend(core.writing.not_kept().findings(&core.inventory));
    findings.extend(core.reports.findings().cloned());
    if is_master {
        findings.extend(core.missing.findings().iter().cloned());
        findings.extend(core.trials.partitions.findings().iter().cloned());
        findings.extend(core.congestion.manager().findings(|node| core.name(node)));
    }
    findings.extend(core.traps.findings(
        |port| core.inventory.port_name(port),
        |port| place(core, port),
        |port| core.disables_babbling(port),
        now,
    ));
    findings.extend(core.links.findings(&context));
    findings.extend(core.trials.detours.findings(&core.fabric));
    findings.extend(taken_over_tables::findings(&core.inventory));
    let place = core.own_place();
    findings.extend(core.first_sweep.finding(&core.client.stats(), &place));
    findings.extend(mismatch_findings(
        core.writing.mismatches(),
        &core.inventory,
        core.config.policy.ports.links.bounce,
    ));
    findings.extend(core.foreign_writes.findings(
        &core.inventory,
        core.config.policy.ports.m_keys.is_uniform(),
    ));
    findings.extend(findings_of_masters(core));
    findings.extend(core.local_port.finding(&core.inventory));
    findings.extend(core.finding_of_epoch());
    if is_master {
        findings.extend(core.epoch.lost.finding());
    }
    findings.extend(core.finding_of_m_keys());
    findings.extend(core.findings_of_configurations());
    findings.extend(core.findings_of_strangers());
    findings.extend(core.election.silent.findings(&core.inventory));
    findings.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.cmp(b)));
    findings.dedup();
    findings
}

/// The name of a port and its cable, for the operator.
fn place(core: &Core, port: PortKey) -> String {
    let cable = cable_of(&core.inventory, port);
    format!("{} {cable}", core.inventory.port_name(port))
}

/// The findings about masters beside this manager.
fn findings_of_masters(core: &Core) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Role::Standby { master } = &core.election.role {
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
    findings.extend(core.election.orders.findings(|port| place(core, port)));
    findings.extend(core.rivals().map(|rival| {
        let text = format!(
            "{} ({}, priority {}) is master, too: both write LIDs and routes until it hands over; this one has precedence \
             and has told it (trap 144), stop the other one if this stays",
            rival.name, rival.guid, rival.priority
        );
        let subject = Subject::Node(rival.port.node);
        Finding::new(FindingKind::OtherMaster, subject, Severity::Error, text)
    }));
    findings
}
