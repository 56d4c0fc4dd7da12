//! Finds faults of one host without comparison.

use std::collections::{BTreeMap, BTreeSet};

use super::inventories::{missing_text, port_name};
use super::{Explained, links};
use crate::Analysis;
use crate::fabric::FormerPlace;
use crate::findings::{GpuFinding, GpuFindingKind, PortName};
use crate::hints::{Gdr, GpuHint, HintReason};
use crate::host::Host;
use crate::hosts::HostOrigin;
use crate::inventory::Tier;
use crate::join::{Joined, NotJoined};
use crate::nccl::{NcclVersion, gpus_to_allow};
use crate::roles::TrafficRole;

/// The findings of a host; `explained` holds its devices whose faults other findings report.
pub(super) fn find(
    analysis: &Analysis,
    place: usize,
    explained: &Explained,
    findings: &mut Vec<GpuFinding>,
) {
    let host = &analysis.hosts[place];
    let new = |kind, evidence: String| GpuFinding::new(kind, &host.name, evidence);
    let name = |port: usize| port_name(host, port);
    let mut reported_gpus = explained.gpus.clone();
    unjoined(analysis, place, explained, &mut reported_gpus, findings);
    tiers(analysis, place, &reported_gpus, &name, findings, &new);
    if explained.gpus.is_empty() {
        wrong_numa(host, findings, &new);
    }
    if host.origin == HostOrigin::Own {
        links::within(host, explained, findings);
    }
}

/// Reports ports that are not in the fabric. Adds to `reported_gpus` the GPUs that have to use
/// another port.
fn unjoined(
    analysis: &Analysis,
    place: usize,
    explained: &Explained,
    reported_gpus: &mut BTreeSet<usize>,
    findings: &mut Vec<GpuFinding>,
) {
    if analysis.fabric.is_none() {
        return;
    }
    let host = &analysis.hosts[place];
    let is_known = analysis.knows_name(place);
    let mut missing: BTreeMap<NotJoined, Vec<usize>> = BTreeMap::new();
    for (port, joined) in host.joined.iter().enumerate() {
        // An Ethernet port belongs to no fabric, and a port that no source declares InfiniBand is
        // not missing.
        if let Joined::Not(reason) = joined
            && host.roles[port].0 != TrafficRole::Outside
            && !explained.ports.contains(&port)
        {
            missing.entry(*reason).or_default().push(port);
        }
    }
    for (reason, ports) in missing {
        let waiting: Vec<usize> = analysis.hints[place]
            .iter()
            .filter(|hint| hint.reason == HintReason::NearerIsDown || hint.port().is_none())
            .map(|hint| hint.gpu)
            .filter(|&gpu| {
                let local =
                    |&port: &usize| host.inventory.tier(gpu, port).is_some_and(Tier::is_local);
                ports.iter().any(local)
            })
            .collect();
        let Some(text) = missing_text(reason) else {
            // The finding about the other claim of a port has the cause.
            if reason == NotJoined::Taken {
                reported_gpus.extend(waiting);
            }
            continue;
        };
        let mut evidence = match ports.len() {
            1 => format!("1 port is not joined: {text}"),
            count => format!("{count} ports are not joined: {text}"),
        };
        if !is_known {
            evidence.push_str(", and no host of the fabric has this host's name");
        }
        evidence.push_str(&former_places(analysis, host, &ports));
        if !waiting.is_empty() {
            evidence.push_str(&beside(host, &waiting));
        }
        let mut finding = GpuFinding::new(GpuFindingKind::Unjoined, &host.name, evidence);
        finding.gpus = waiting
            .iter()
            .map(|&gpu| host.inventory.gpus[gpu].index)
            .collect();
        finding.ports = ports.iter().map(|&port| port_name(host, port)).collect();
        findings.push(finding);
        reported_gpus.extend(waiting);
    }
}

/// The maximum number of ports whose former places the evidence names.
const FORMER_PLACES: usize = 4;

/// The leaf and its port to which each of these ports was cabled, such as `; mlx5_3 was at leaf-04
/// port 7 until …`; empty if no place is known.
fn former_places(analysis: &Analysis, host: &Host, ports: &[usize]) -> String {
    let fabric = analysis.fabric.as_ref();
    let Some(absent) = fabric.and_then(|fabric| fabric.absent_host(&host.name)) else {
        return String::new();
    };
    let devices = ports.iter().filter_map(|&port| {
        let device = host.inventory.hca_ports[port].device.as_deref()?;
        Some((device, absent.devices.get(device)?))
    });
    let places: BTreeMap<&str, &FormerPlace> = devices.collect();
    let shown = places.iter().take(FORMER_PLACES);
    let mut text: String = shown
        .map(|(device, former)| format!("; {device} was at {former}"))
        .collect();
    if places.len() > FORMER_PLACES {
        text += &format!("; and {} more", places.len() - FORMER_PLACES);
    }
    text
}

/// The GPUs beside lost ports, which have to use other ports.
fn beside(host: &Host, gpus: &[usize]) -> String {
    let names = gpus
        .iter()
        .map(|&gpu| format!("GPU{}", host.inventory.gpus[gpu].index));
    let names: Vec<String> = names.collect();
    match names.len() {
        1 => format!("; {} beside it has to use another port", names[0]),
        _ => format!("; {} beside them have to use other ports", names.join(", ")),
    }
}

/// Reports GPUs without a near compute port, and GPUs whose near port is down; skips GPUs that have
/// a finding already.
fn tiers(
    analysis: &Analysis,
    place: usize,
    reported_gpus: &BTreeSet<usize>,
    name: &impl Fn(usize) -> PortName,
    findings: &mut Vec<GpuFinding>,
    new: &impl Fn(GpuFindingKind, String) -> GpuFinding,
) {
    let host = &analysis.hosts[place];
    let compute = host.compute_ports();
    let needed = gpus_to_allow(analysis, place, NcclVersion::RAILS);
    let is_down = |hint: &GpuHint| hint.reason == HintReason::NearerIsDown || hint.port().is_none();
    let mut without: Vec<(u16, Tier)> = Vec::new();
    for hint in &analysis.hints[place] {
        let index = host.inventory.gpus[hint.gpu].index;
        let best = compute
            .iter()
            .filter_map(|&port| host.inventory.tier(hint.gpu, port))
            .min();
        // With a coherent link, a PCIe function for GPUDirect RDMA, or a relaying GPU, the distance
        // does not matter. No setting helps a driver without GPUDirect RDMA.
        let needs_none = hint.gdr == Gdr::WhenAllowed && !needed.contains(&hint.gpu);
        let works = hint.gdr.is_expected() || needs_none || hint.gdr == Gdr::Unsupported;
        if reported_gpus.contains(&hint.gpu) {
            continue;
        }
        match best {
            Some(best) if !best.is_local() && !works => {
                without.push((index, best));
            }
            Some(best) if best.is_local() && !hint.gdr.is_expected() && is_down(hint) => {
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
    if !without.is_empty() {
        let evidence = without_near_port(&without, host.inventory.gpus.len());
        let mut finding = new(GpuFindingKind::GpuWithoutLocalHca, evidence);
        finding.gpus = without.into_iter().map(|(gpu, _)| gpu).collect();
        findings.push(finding);
    }
}

/// The text about GPUs without a near compute port, each with its nearest tier, among `all` GPUs of
/// the host.
fn without_near_port(gpus: &[(u16, Tier)], all: usize) -> String {
    let tiers: BTreeSet<Tier> = gpus.iter().map(|&(_, tier)| tier).collect();
    let of_tier = |(place, least): (usize, &Tier)| {
        let count = gpus.iter().filter(|(_, tier)| tier >= least).count();
        match place {
            0 => format!("{count} of {all} GPUs have no compute port nearer than {least}"),
            _ => format!("{count} of them none nearer than {least}"),
        }
    };
    let texts: Vec<String> = tiers.iter().enumerate().map(of_tier).collect();
    texts.join(", ")
}

/// The GPUs, by position, that reach every compute port only across the interconnect of processors,
/// while other GPUs have a nearer port.
pub(super) fn at_other_processors(host: &Host) -> Vec<usize> {
    let inventory = &host.inventory;
    let gpu_nodes: BTreeSet<u16> = inventory.gpus.iter().filter_map(|gpu| gpu.numa).collect();
    let compute = host.compute_ports();
    if gpu_nodes.len() < 2 || compute.len() < gpu_nodes.len() {
        return Vec::new();
    }
    // With a port at the nearest tier, the number of the NUMA node says nothing.
    let is_reached = |gpu: usize| {
        let mut tiers = compute.iter().map(|&port| inventory.tier(gpu, port));
        tiers.any(|tier| tier.is_none_or(|tier| tier < Tier::Sys))
    };
    let all = inventory.gpus.len();
    let left_out: Vec<usize> = (0..all).filter(|&gpu| !is_reached(gpu)).collect();
    let has_node = left_out
        .iter()
        .any(|&gpu| inventory.gpus[gpu].numa.is_some());
    // In a virtual machine all devices are far from each other, and no adapter is misplaced.
    match has_node && left_out.len() < all {
        true => left_out,
        false => Vec::new(),
    }
}

/// Reports GPUs at processors without a compute port.
fn wrong_numa(
    host: &Host,
    findings: &mut Vec<GpuFinding>,
    new: &impl Fn(GpuFindingKind, String) -> GpuFinding,
) {
    let left_out = at_other_processors(host);
    if left_out.is_empty() {
        return;
    }
    let gpus = left_out.iter().map(|&gpu| &host.inventory.gpus[gpu]);
    let nodes: BTreeSet<u16> = gpus.clone().filter_map(|gpu| gpu.numa).collect();
    let list: Vec<String> = nodes.iter().map(u16::to_string).collect();
    let mut finding = new(
        GpuFindingKind::HcaOnWrongNuma,
        format!(
            "NUMA node {} has GPUs and none of the {} compute ports",
            list.join(","),
            host.compute_ports().len()
        ),
    );
    finding.gpus = gpus.map(|gpu| gpu.index).collect();
    findings.push(finding);
}
