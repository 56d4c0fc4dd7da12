//! Faults of one host by itself.

use std::collections::{BTreeMap, BTreeSet};

use super::{GpuFinding, GpuFindingKind, PortName};
use crate::Analysis;
use crate::hints::HintReason;
use crate::host::Host;
use crate::hosts::HostOrigin;
use crate::inventory::{LinkFamily, LinkShape, Tier};
use crate::join::{JoinConflict, Joined, NotJoined};
use crate::roles::TrafficRole;

pub(super) fn find(
    analysis: &Analysis,
    place: usize,
    conflicts: &[JoinConflict],
    findings: &mut Vec<GpuFinding>,
) {
    let host = &analysis.hosts[place];
    let new = |kind, evidence: String| GpuFinding {
        kind,
        host: host.name.clone(),
        gpus: Vec::new(),
        ports: Vec::new(),
        evidence,
    };
    let name = |port: usize| PortName {
        host: host.name.clone(),
        device: host.inventory.hca_ports[port].label(),
    };
    join(analysis, host, conflicts, &name, findings, &new);
    tiers(analysis, place, &name, findings, &new);
    wrong_numa(host, findings, &new);
    if host.origin == HostOrigin::Own {
        nvlinks(host, findings, &new);
        let age = analysis.config.now.saturating_sub(host.seen);
        if analysis.config.max_age.is_some_and(|most| age > most) {
            findings.push(new(
                GpuFindingKind::StaleInventory,
                format!("seen {age} seconds ago"),
            ));
        }
    }
}

fn join(
    analysis: &Analysis,
    host: &Host,
    conflicts: &[JoinConflict],
    name: &impl Fn(usize) -> PortName,
    findings: &mut Vec<GpuFinding>,
    new: &impl Fn(GpuFindingKind, String) -> GpuFinding,
) {
    let Some(fabric) = &analysis.fabric else {
        return;
    };
    for conflict in conflicts {
        let told = |(key, index): (crate::join::JoinKey, u32)| {
            let port = fabric.port(index);
            format!(
                "{} says {} ({})",
                key.name(),
                port.guid,
                port.description.escape_debug()
            )
        };
        let evidence = format!("{}, {}", told(conflict.kept), told(conflict.other));
        let mut finding = new(GpuFindingKind::JoinConflict, evidence);
        finding.ports.push(name(conflict.port));
        findings.push(finding);
    }
    let mut missing: BTreeMap<NotJoined, Vec<PortName>> = BTreeMap::new();
    for (port, joined) in host.joined.iter().enumerate() {
        // Ethernet ports belong to no fabric, and a port that no source declares InfiniBand is not
        // missing.
        if let Joined::Not(reason) = joined
            && host.roles[port].0 != TrafficRole::Outside
        {
            missing.entry(*reason).or_default().push(name(port));
        }
    }
    for (reason, ports) in missing {
        let (kind, text) = match reason {
            NotJoined::Ethernet => continue,
            NotJoined::Down => (GpuFindingKind::Unjoined, "the host says that they are down"),
            NotJoined::NotInFabric => (
                GpuFindingKind::Unjoined,
                "nothing in the fabric has their GUIDs or names",
            ),
            NotJoined::Ambiguous => (
                GpuFindingKind::Unjoined,
                "several ports of the fabric match",
            ),
            NotJoined::Taken => (
                GpuFindingKind::PortClaimedTwice,
                "another host's inventory has the same",
            ),
        };
        let mut finding = new(
            kind,
            format!("{} ports are not joined: {text}", ports.len()),
        );
        finding.ports = ports;
        findings.push(finding);
    }
}

fn tiers(
    analysis: &Analysis,
    place: usize,
    name: &impl Fn(usize) -> PortName,
    findings: &mut Vec<GpuFinding>,
    new: &impl Fn(GpuFindingKind, String) -> GpuFinding,
) {
    let host = &analysis.hosts[place];
    let compute = host.compute_ports();
    let (mut without, mut worst) = (Vec::new(), None);
    for hint in &analysis.hints[place] {
        let index = host.inventory.gpus[hint.gpu].index;
        let best = compute
            .iter()
            .filter_map(|&port| host.inventory.tier(hint.gpu, port))
            .min();
        // A coherent link, or a PCIe function for it, makes up for the distance.
        if hint.gdr.is_expected() {
            continue;
        }
        match best {
            Some(best) if !best.is_local() => {
                without.push(index);
                worst = worst.max(Some(best));
            }
            Some(_) if hint.reason == HintReason::NearerIsDown || hint.port().is_none() => {
                let tier = hint.tier.map_or("none".to_owned(), |tier| tier.to_string());
                let down = compute.iter().copied().filter(|&port| {
                    let local = host
                        .inventory
                        .tier(hint.gpu, port)
                        .is_some_and(Tier::is_local);
                    local && !host.works(port, analysis.fabric.is_some())
                });
                let mut finding = new(
                    GpuFindingKind::GdrTierPoor,
                    format!("GPU{index} has to use a port at {tier}: its own is not in the fabric"),
                );
                finding.gpus.push(index);
                finding.ports.extend(down.map(name));
                findings.push(finding);
            }
            _ => {}
        }
    }
    if let Some(worst) = worst {
        let mut finding = new(
            GpuFindingKind::GpuWithoutLocalHca,
            format!(
                "{} of {} GPUs have no compute port nearer than {worst}",
                without.len(),
                host.inventory.gpus.len()
            ),
        );
        finding.gpus = without;
        findings.push(finding);
    }
}

/// Processors with GPUs and no adapter, while another has more adapters than one.
fn wrong_numa(
    host: &Host,
    findings: &mut Vec<GpuFinding>,
    new: &impl Fn(GpuFindingKind, String) -> GpuFinding,
) {
    let gpu_nodes: BTreeSet<u16> = host
        .inventory
        .gpus
        .iter()
        .filter_map(|gpu| gpu.numa)
        .collect();
    let compute = host.compute_ports();
    if gpu_nodes.len() < 2 || compute.len() < gpu_nodes.len() {
        return;
    }
    // With a port as near as can be, the node's number says nothing.
    let local = |gpu: usize| {
        compute.iter().any(|&port| {
            host.inventory
                .tier(gpu, port)
                .is_none_or(|tier| tier < Tier::Sys)
        })
    };
    let left_out: Vec<usize> = (0..host.inventory.gpus.len())
        .filter(|&gpu| !local(gpu))
        .collect();
    let nodes: BTreeSet<u16> = left_out
        .iter()
        .filter_map(|&gpu| host.inventory.gpus[gpu].numa)
        .collect();
    // In a virtual machine all devices are far from each other; no adapter is misplaced.
    if left_out.is_empty() || left_out.len() == host.inventory.gpus.len() || nodes.is_empty() {
        return;
    }
    let list: Vec<String> = nodes.iter().map(u16::to_string).collect();
    let mut finding = new(
        GpuFindingKind::HcaOnWrongNuma,
        format!(
            "NUMA node {} has GPUs and none of the {} compute ports",
            list.join(","),
            compute.len()
        ),
    );
    finding.gpus = left_out
        .iter()
        .map(|&gpu| host.inventory.gpus[gpu].index)
        .collect();
    findings.push(finding);
}

fn nvlinks(
    host: &Host,
    findings: &mut Vec<GpuFinding>,
    new: &impl Fn(GpuFindingKind, String) -> GpuFinding,
) {
    let inventory = &host.inventory;
    let gpus = inventory.gpus.len();
    let mut report = |gpus: Vec<u16>, found: u32, expected: u32| {
        let list: Vec<String> = gpus.iter().map(|gpu| format!("GPU{gpu}")).collect();
        let mut finding = new(
            GpuFindingKind::NvLinkDegraded,
            format!(
                "{} {found} links: expected {expected}",
                match gpus.len() {
                    1 => format!("{} has", list[0]),
                    _ => format!("{} share", list.join(" and ")),
                }
            ),
        );
        finding.gpus = gpus;
        findings.push(finding);
    };
    let index = |gpu: usize| inventory.gpus[gpu].index;
    match inventory.link_shape() {
        LinkShape::None => {}
        LinkShape::Switched { links } => {
            // A GPU that has lost links has fewer to every other GPU; an intact one has all of its
            // links to most.
            let width = |gpu: usize| {
                let peers = (0..gpus).filter(|&peer| peer != gpu);
                peers
                    .map(|peer| inventory.links_between(gpu, peer))
                    .max()
                    .unwrap_or(0)
            };
            let told = |gpu: usize| {
                inventory.gpus[gpu]
                    .switch_links
                    .unwrap_or_else(|| width(gpu))
            };
            let degraded: Vec<usize> = (0..gpus).filter(|&gpu| told(gpu) < links).collect();
            for &gpu in &degraded {
                report(vec![index(gpu)], u32::from(told(gpu)), u32::from(links));
            }
            for a in 0..gpus {
                for b in a + 1..gpus {
                    let between = inventory.links_between(a, b);
                    if between < told(a).min(told(b)).min(links) {
                        report(
                            vec![index(a), index(b)],
                            u32::from(between),
                            u32::from(links),
                        );
                    }
                }
            }
        }
        LinkShape::FullMesh | LinkShape::PartialMesh => {
            // Every GPU of an NVLink mesh has the same number of links, and one that has none is
            // not of it. XGMI meshes give the dies of one card different numbers.
            if inventory.link_family == LinkFamily::Xgmi {
                return;
            }
            let sums: Vec<u32> = (0..gpus).map(|gpu| inventory.links_of(gpu)).collect();
            let most = sums.iter().copied().max().unwrap_or(0);
            let short: Vec<usize> = (0..gpus)
                .filter(|&gpu| sums[gpu] > 0 && sums[gpu] < most)
                .collect();
            if !short.is_empty() && 2 * short.len() <= gpus {
                report(
                    short.iter().map(|&gpu| index(gpu)).collect(),
                    sums[short[0]],
                    most,
                );
            }
        }
    }
}
