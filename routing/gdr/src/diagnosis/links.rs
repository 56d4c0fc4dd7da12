//! Finds missing NVLinks, within a host and in comparison with peer hosts.

use std::collections::BTreeMap;

use super::mesh::{self, ShortOfLinks};
use super::{Explained, hosts_like_it};
use crate::Analysis;
use crate::findings::{GpuFinding, GpuFindingKind};
use crate::host::Host;
use crate::hosts::HostOrigin;
use crate::inventory::{HostInventory, LinkShape, PciAddress};
use crate::peers::{Peers, majority};

/// The key of hosts that should have the same links.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Alike {
    /// The hosts of one machine type, by family.
    Family(usize),
    /// Hosts without addresses in one unit, with devices of the same names.
    Layout {
        unit: Option<u32>,
        layout: Option<usize>,
    },
}

impl Alike {
    fn of(analysis: &Analysis, peers: &Peers, place: usize) -> Alike {
        match peers.of_host[place] {
            Some(family) => Alike::Family(family),
            None => Alike::Layout {
                unit: analysis.rails.unit_of[place],
                layout: peers.layout(place),
            },
        }
    }
}

/// Reports hosts whose GPUs have fewer NVLinks than the GPUs of most peers, if the host's own
/// inventory does not show it: all links are missing, or equally many of each GPU.
pub(super) fn compared(
    analysis: &Analysis,
    peers: &Peers,
    explained: &[Explained],
) -> Vec<GpuFinding> {
    // For each key, the hosts whose links are known, and the hosts whose links are unclear.
    let mut groups: BTreeMap<Alike, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
    for (place, host) in analysis.hosts.iter().enumerate() {
        if host.origin != HostOrigin::Own {
            continue;
        }
        let group = groups.entry(Alike::of(analysis, peers, place)).or_default();
        if host.inventory.nvlinks_known {
            group.0.push(place);
        } else if host.inventory.nvlinks_unclear {
            group.1.push(place);
        }
    }
    let mut findings = Vec::new();
    for (alike, (known, unclear)) in groups.iter().filter(|(_, (known, _))| known.len() > 1) {
        if matches!(alike, Alike::Family(_)) {
            compare_meshes(analysis, known, explained, &mut findings);
        }
        let of_host = |&place: &usize| widest(&analysis.hosts[place].inventory);
        let widths: Vec<u8> = known.iter().map(of_host).collect();
        let Some(usual) = majority(&widths) else {
            continue;
        };
        let short = known
            .iter()
            .zip(&widths)
            .filter(|&(_, &most)| most < usual)
            .map(|(&place, most)| {
                let others = hosts_like_it(known.len() - 1);
                let text = format!("{most} links at every GPU: {usual} in {others}");
                (place, text)
            });
        let unclear = unclear.iter().filter(|_| usual > 0).map(|&place| {
            let text = format!(
                "no link at any GPU: {usual} in {}; its matrix has no legend, and \
                 `nvidia-smi topo -mp` prints no links either: import the output of `topo -m`",
                hosts_like_it(known.len())
            );
            (place, text)
        });
        for (place, evidence) in short.chain(unclear) {
            let host = &analysis.hosts[place];
            if explained[place].lacks_gpus && host.inventory.gpus.len() < 2 {
                continue;
            }
            let mut finding = GpuFinding::new(GpuFindingKind::NvLinkDegraded, &host.name, evidence);
            finding.gpus = host.inventory.gpus.iter().map(|gpu| gpu.index).collect();
            findings.push(finding);
        }
    }
    findings
}

/// The maximum number of links from any GPU of a host to one other GPU or to its switches.
fn widest(inventory: &HostInventory) -> u8 {
    let gpus = inventory.gpus.len();
    let width = |gpu: usize| {
        let between = (0..gpus).map(|peer| inventory.links_between(gpu, peer));
        let widest = between.max().unwrap_or(0);
        inventory.gpus[gpu].switch_links.unwrap_or(widest)
    };
    (0..gpus).map(width).max().unwrap_or(0)
}

/// The total number of links of each GPU of a host, by the GPU's address.
fn links_by_address(inventory: &HostInventory) -> BTreeMap<PciAddress, u32> {
    let gpus = inventory.gpus.iter().enumerate();
    gpus.filter_map(|(place, gpu)| Some((gpu.pci?, inventory.links_of(place))))
        .collect()
}

/// Reports the GPUs of meshes with fewer links than GPUs at the same addresses of most peers. The
/// host alone does not show this, because the dies of AMD's cards differ in links by design.
fn compare_meshes(
    analysis: &Analysis,
    members: &[usize],
    explained: &[Explained],
    findings: &mut Vec<GpuFinding>,
) {
    let of_host = |&place: &usize| links_by_address(&analysis.hosts[place].inventory);
    let all: Vec<BTreeMap<PciAddress, u32>> = members.iter().map(of_host).collect();
    let Some(usual) = majority(&all) else {
        return;
    };
    let expected: Vec<u32> = usual.values().copied().collect();
    for (&place, mine) in members.iter().zip(&all) {
        let host = &analysis.hosts[place];
        let is_mesh = matches!(
            host.inventory.link_shape(),
            LinkShape::FullMesh | LinkShape::PartialMesh
        );
        if !is_mesh || explained[place].lacks_gpus || !mine.keys().eq(usual.keys()) {
            continue;
        }
        let found: Vec<u32> = mine.values().copied().collect();
        let blamed = mesh::blamed(&found, &expected);
        if blamed.is_empty() || !mesh::within(&host.inventory).is_empty() {
            continue;
        }
        // The positions of GPUs, sorted by address.
        let mut by_address: Vec<usize> = (0..host.inventory.gpus.len()).collect();
        by_address.sort_by_key(|&gpu| host.inventory.gpus[gpu].pci);
        let blamed = blamed.into_iter().map(|short| ShortOfLinks {
            gpu: by_address[short.gpu],
            ..short
        });
        findings.push(short_of_links(host, blamed.collect()));
    }
}

/// The finding about GPUs of a mesh that have lost links.
fn short_of_links(host: &Host, mut short: Vec<ShortOfLinks>) -> GpuFinding {
    short.sort_by_key(|one| one.gpu);
    let index = |one: &ShortOfLinks| host.inventory.gpus[one.gpu].index;
    let text = |one: &ShortOfLinks| {
        let ShortOfLinks {
            found, expected, ..
        } = one;
        format!("GPU{} has {found} of {expected} links", index(one))
    };
    let evidence: Vec<String> = short.iter().map(text).collect();
    let kind = GpuFindingKind::NvLinkDegraded;
    let mut finding = GpuFinding::new(kind, &host.name, evidence.join(", "));
    finding.gpus = short.iter().map(index).collect();
    finding
}

/// Reports NVLinks that some GPUs of a host have and other GPUs lack.
pub(super) fn within(host: &Host, explained: &Explained, findings: &mut Vec<GpuFinding>) {
    let inventory = &host.inventory;
    let gpus = inventory.gpus.len();
    let mut report = |gpus: Vec<u16>, found: u32, expected: u32| {
        let list: Vec<String> = gpus.iter().map(|gpu| format!("GPU{gpu}")).collect();
        let mut finding = GpuFinding::new(
            GpuFindingKind::NvLinkDegraded,
            &host.name,
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
            // A GPU with failed NVLinks has fewer links to every peer; an intact GPU keeps the full
            // count to most.
            let width = |gpu: usize| {
                let peers = (0..gpus).filter(|&peer| peer != gpu);
                peers
                    .map(|peer| inventory.links_between(gpu, peer))
                    .max()
                    .unwrap_or(0)
            };
            let count = |gpu: usize| {
                inventory.gpus[gpu]
                    .switch_links
                    .unwrap_or_else(|| width(gpu))
            };
            let degraded: Vec<usize> = (0..gpus).filter(|&gpu| count(gpu) < links).collect();
            for &gpu in &degraded {
                report(vec![index(gpu)], u32::from(count(gpu)), u32::from(links));
            }
            for a in 0..gpus {
                for b in a + 1..gpus {
                    let between = inventory.links_between(a, b);
                    if between < count(a).min(count(b)).min(links) {
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
            // If the host lacks a GPU, this explains the missing links.
            let short = match explained.lacks_gpus {
                true => Vec::new(),
                false => mesh::within(inventory),
            };
            if !short.is_empty() {
                findings.push(short_of_links(host, short));
            }
        }
    }
}
