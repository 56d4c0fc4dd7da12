//! Finds adapters whose PCIe place, number or rate implies another role than their leaf.

use super::Explained;
use super::inventories::port_name;
use crate::Analysis;
use crate::findings::{GpuFinding, GpuFindingKind};
use crate::host::Host;
use crate::inventory::Tier;
use crate::join::Joined;
use crate::roles::{LeafUse, RoleReason, TrafficRole};
use crate::survey::of_gpu_hosts;

/// Two ports of a host: PCIe implies that one is the compute port, the leaves imply the other.
struct RoleConflict {
    /// The port near GPUs, at a leaf with nodes that have no GPU.
    near: usize,
    /// The port far from GPUs, at a leaf of GPU hosts only.
    far: usize,
    /// The GPUs that are nearer to `near`, by position.
    gpus: Vec<usize>,
}

/// Reports hosts where PCIe and leaves disagree on the role of ports that the operator has not
/// configured; `explained` holds the devices of each host whose faults other findings report.
pub(super) fn find(analysis: &Analysis, explained: &[Explained]) -> Vec<GpuFinding> {
    let Some(fabric) = &analysis.fabric else {
        return Vec::new();
    };
    let leaves = LeafUse::new(fabric, &of_gpu_hosts(&analysis.hosts, fabric));
    let foreign = |host: &Host, port: usize| {
        let index = host.joined.get(port).copied().and_then(Joined::port)?;
        leaves.foreign(fabric.port(index).leaf)
    };
    let mut findings = Vec::new();
    for (host, explained) in analysis.hosts.iter().zip(explained) {
        for conflict in role_conflicts(host, |port| foreign(host, port)) {
            findings.push(finding(host, &conflict));
        }
        findings.extend(left_out(host, explained, |port| foreign(host, port)));
    }
    findings
}

/// The disagreements at a host; `foreign` is the share of nodes without GPUs at a port's leaf, in
/// thousandths.
///
/// A non-GPU server at the leaf of a rail is ignored, and so is a storage leaf without a server:
/// all ports that compute because they are near a GPU must be at leaves with nodes without GPUs,
/// and at least as many other ports at leaves without such nodes.
fn role_conflicts(host: &Host, foreign: impl Fn(usize) -> Option<u32>) -> Vec<RoleConflict> {
    let ports = 0..host.inventory.hca_ports.len();
    let role = |port: &usize| host.roles[*port];
    let taken_for = |reason| {
        let taken = ports.clone();
        taken.filter(move |port| role(port) == (TrafficRole::Compute, reason))
    };
    let is_left = |port: &usize| {
        role(port) == (TrafficRole::Storage, RoleReason::FarFromGpus) && foreign(*port) == Some(0)
    };
    let mut taken: Vec<usize> = taken_for(RoleReason::NearGpu).collect();
    if taken.is_empty() {
        // No port is near a GPU, so that the nearest ports are considered instead.
        taken = taken_for(RoleReason::NearestOfGpu).collect();
    }
    let left: Vec<usize> = ports.clone().filter(is_left).collect();
    let all_foreign = taken
        .iter()
        .all(|&port| foreign(port).is_some_and(|share| share > 0));
    if taken.is_empty() || !all_foreign || left.len() < taken.len() {
        return Vec::new();
    }
    let gpus = 0..host.inventory.gpus.len();
    let nearest = |&far: &usize| {
        let tiers = gpus.clone().filter_map(|gpu| host.inventory.tier(gpu, far));
        (tiers.min(), far)
    };
    let Some(&far) = left.iter().min_by_key(|far| nearest(far)) else {
        return Vec::new();
    };
    let mut role_conflicts = Vec::new();
    for near in taken {
        let is_nearer = |gpu: &usize| {
            let tier = |port| host.inventory.tier(*gpu, port);
            tier(near).is_some() && tier(near) < tier(far)
        };
        let gpus: Vec<usize> = gpus.clone().filter(is_nearer).collect();
        if !gpus.is_empty() {
            role_conflicts.push(RoleConflict { near, far, gpus });
        }
    }
    role_conflicts
}

/// The finding about ports near GPUs that are taken for storage, because their GPUs have other
/// ports, although their leaves serve only GPU hosts; `None` if the host has no such port, or only
/// explained ones.
/// `foreign` is the share of nodes without GPUs at a port's leaf, in thousandths.
fn left_out(
    host: &Host,
    explained: &Explained,
    foreign: impl Fn(usize) -> Option<u32>,
) -> Option<GpuFinding> {
    let is_left_out = |port: &usize| {
        let (role, reason) = host.roles[*port];
        role != TrafficRole::Compute
            && matches!(reason, RoleReason::Excess | RoleReason::Slower)
            && foreign(*port) == Some(0)
            && !explained.ports.contains(port)
    };
    let ports: Vec<usize> = (0..host.roles.len()).filter(is_left_out).collect();
    let describe = |&port: &usize| {
        let (role, reason) = host.roles[port];
        let label = host.inventory.hca_ports[port].label();
        format!("{label} ({}: {})", role.name(), reason.text())
    };
    let described: Vec<String> = ports.iter().map(describe).collect();
    let evidence = format!(
        "near GPUs and at a leaf that serves only GPU hosts, and yet not taken for computing: {}",
        described.join(", ")
    );
    let mut finding = GpuFinding::new(GpuFindingKind::RoleUnclear, &host.name, evidence);
    finding.ports = ports.iter().map(|&port| port_name(host, port)).collect();
    (!ports.is_empty()).then_some(finding)
}

/// The finding about a disagreement.
fn finding(host: &Host, conflict: &RoleConflict) -> GpuFinding {
    let inventory = &host.inventory;
    let label = |port: usize| inventory.hca_ports[port].label();
    let tier = |port: usize| {
        let tier = conflict
            .gpus
            .first()
            .and_then(|&gpu| inventory.tier(gpu, port));
        tier.map_or("no tier", Tier::name)
    };
    let (near, far) = (label(conflict.near), label(conflict.far));
    let evidence = format!(
        "by PCIe {near} ({}) is for computing and {far} ({}) for storage, and so they are taken; by \
         their leaves it is the other way round: that of {near} serves nodes without GPUs, that of \
         {far} only GPU hosts",
        tier(conflict.near),
        tier(conflict.far)
    );
    let mut finding = GpuFinding::new(GpuFindingKind::RoleUnclear, &host.name, evidence);
    let index = |&gpu: &usize| inventory.gpus[gpu].index;
    finding.gpus = conflict.gpus.iter().map(index).collect();
    finding.ports = vec![
        port_name(host, conflict.near),
        port_name(host, conflict.far),
    ];
    finding
}
