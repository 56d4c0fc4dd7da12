//! Builds the snapshot that the core publishes.

use std::sync::Arc;

use rsm_hardware::sweep::fault;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_mastership::taken_over_tables;
use rsm_model::findings::Finding;
use rsm_state::{Role, Snapshot};

use super::links::LinkContext;
use super::traps::disables_babbling;
use super::writing::{mismatch_findings, overdue_findings};
use super::{Core, m_keys};

/// The state of `core` as a snapshot.
pub(super) fn build(core: &Core, now: Time) -> Snapshot {
    let is_master = core.mastership.is_master();
    let findings = findings(core, is_master, now);
    Snapshot {
        at: now,
        role: core.role().clone(),
        following: core.following(),
        identity: core.mastership.identity(),
        others: rsm_mastership::others(&core.inventory).into(),
        own_guid: core.inventory.own_guid(),
        port_up: core.local_port.is_usable(&core.inventory),
        converging: core.is_converging(),
        fabric: core.fabric.clone(),
        plan: core.plans.in_force().cloned(),
        refused_plan: core.plans.refused().cloned(),
        expected: core.missing.expected().clone(),
        avoid: core.trials.detours.in_force().clone(),
        overlay: core.trials.partitions.in_force().clone(),
        capabilities: core.inventory.hardware.capabilities.clone(),
        adaptive: Arc::new(core.inventory.hardware.adaptive().collect()),
        slow_links: core.links.slow(core.manages()),
        m_keys: m_keys::status(&core.config.policy.ports, &core.inventory),
        congestion: core.congestion.manager().view().clone(),
        controls_congestion: core.config.congestion.enabled,
        manages_vports: core.config.manages_vports,
        findings: findings.into(),
        history: core.recorder.history().cloned().collect(),
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
    findings.extend(
        core.inventory
            .hardware
            .habits
            .findings(&core.inventory.hardware),
    );
    findings.extend(core.writing.not_kept().findings(&core.inventory));
    if matches!(core.role(), Role::Discovering | Role::Master) {
        // In other roles, another manager may have replaced the last plan and push of this one.
        findings.extend(core.reports.of_pass().iter().cloned());
        findings.extend(mismatch_findings(
            core.writing.mismatches(),
            &core.inventory,
            core.config.policy.ports.links.bounce,
        ));
    }
    findings.extend(core.reports.kept().cloned());
    if is_master {
        findings.extend(overdue_findings(&core.inventory));
        findings.extend(core.missing.findings().iter().cloned());
        findings.extend(core.trials.partitions.findings().iter().cloned());
        findings.extend(
            core.congestion
                .manager()
                .findings(|node| core.inventory.hardware.name(node)),
        );
    }
    findings.extend(core.traps.findings(
        |port| core.inventory.hardware.port_name(port),
        |port| place(core, port),
        |port| disables_babbling(port, &core.inventory, &core.config),
        now,
    ));
    findings.extend(core.links.findings(&context));
    findings.extend(core.trials.detours.findings(&core.fabric));
    findings.extend(taken_over_tables::findings(&core.inventory));
    let place = own_place(&core.inventory);
    findings.extend(core.first_sweep.finding(&core.client.stats(), &place));
    findings.extend(core.foreign_writes.findings(
        &core.inventory,
        core.config.policy.ports.m_keys.is_uniform(),
    ));
    findings.extend(core.local_port.finding(&core.inventory));
    if is_master && core.stage.is_idle() {
        findings.extend(m_keys::finding(&core.inventory));
    }
    findings.extend(core.mastership.findings(&core.inventory));
    findings.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.cmp(b)));
    findings.dedup();
    findings
}

/// The name of a port and its cable, for the operator.
fn place(core: &Core, port: PortKey) -> String {
    let cable = core.inventory.hardware.cable_of(port);
    format!("{} {cable}", core.inventory.hardware.port_name(port))
}

/// The name of this subnet manager's port, for the operator; "this host" before the port is known.
fn own_place(inventory: &Inventory) -> String {
    match inventory.hardware.local {
        Some(local) => format!(
            "port {} of {}",
            local.port,
            inventory.hardware.name(local.node)
        ),
        None => "this host".to_owned(),
    }
}
