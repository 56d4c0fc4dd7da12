//! Finds GPUs that are farther from adapters, at another NUMA node, or without GPUDirect RDMA, in
//! comparison with peer hosts.

use std::collections::BTreeMap;

use super::Explained;
use super::host::at_other_processors;
use super::inventories::port_name;
use crate::Analysis;
use crate::findings::{GpuFinding, GpuFindingKind};
use crate::host::Host;
use crate::hosts::HostOrigin;
use crate::inventory::{PciAddress, Tier};
use crate::peers::{Family, Peers, PortKey, is_virtual, majority, port_at};

/// The identity of a GPU across hosts: its address, or its number if hosts have no addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum GpuSlot {
    Pci(PciAddress),
    Index(u16),
}

/// The key of hosts without addresses that should be alike: unit, product, number of GPUs.
type Named<'a> = (Option<u32>, Option<&'a str>, usize);

/// Hosts of one machine type that reported their own inventories.
struct PeerGroup<'a> {
    analysis: &'a Analysis,
    /// The hosts of the group, by position.
    members: Vec<usize>,
    /// Whether addresses identify GPUs; if not, their numbers do.
    has_addresses: bool,
    /// For each member, the adapters at another NUMA node than usual.
    ports_elsewhere: BTreeMap<usize, Vec<Elsewhere>>,
}

/// The position of a device in the inventory, its NUMA node, and the usual NUMA node.
type Elsewhere = (usize, u16, u16);

/// Returns the findings. `explained` holds for each host the devices whose faults other findings
/// report; this function adds the GPUs that it reports as farther away.
pub(super) fn find(
    analysis: &Analysis,
    peers: &Peers,
    explained: &mut [Explained],
) -> Vec<GpuFinding> {
    let is_own = |place: &usize| analysis.hosts[*place].origin == HostOrigin::Own;
    let mut findings = Vec::new();
    for family in &peers.families {
        let alike = PeerGroup {
            analysis,
            members: family.hosts.iter().copied().filter(is_own).collect(),
            has_addresses: true,
            ports_elsewhere: ports_elsewhere(analysis, family, explained),
        };
        alike.report(explained, &mut findings);
    }
    let mut named: BTreeMap<Named<'_>, Vec<usize>> = BTreeMap::new();
    for (place, host) in analysis.hosts.iter().enumerate() {
        if peers.of_host[place].is_none() && is_own(&place) {
            let machine = host.inventory.machine.as_deref();
            let gpus = host.inventory.gpus.len();
            let group = (analysis.rails.unit_of[place], machine, gpus);
            named.entry(group).or_default().push(place);
        }
    }
    for members in named.into_values() {
        let alike = PeerGroup {
            analysis,
            members,
            has_addresses: false,
            ports_elsewhere: BTreeMap::new(),
        };
        alike.report(explained, &mut findings);
    }
    findings.extend(analysis.hosts.iter().filter_map(without_gdr));
    findings
}

impl PeerGroup<'_> {
    /// Reports the GPUs of each member that are farther away or at another NUMA node than usual.
    fn report(&self, explained: &mut [Explained], findings: &mut Vec<GpuFinding>) {
        let best = |host: &Host, gpu: usize| {
            let ports = host.compute_ports().into_iter();
            ports
                .filter_map(|port| host.inventory.tier(gpu, port))
                .min()
        };
        let node = |host: &Host, gpu: usize| host.inventory.gpus[gpu].numa;
        let tiers = self.usual(best);
        let nodes = self.usual(node);
        for &place in &self.members {
            let host = &self.analysis.hosts[place];
            let known = explained[place].gpus.clone();
            let unreached = at_other_processors(host);
            let mut farther = self.unlike(host, &tiers, best);
            farther.retain(|(gpu, tier, usual)| {
                tier > usual && !known.contains(gpu) && !unreached.contains(gpu)
            });
            let gpus = farther.iter().map(|&(gpu, ..)| gpu);
            explained[place].gpus.extend(gpus);
            findings.extend(farther_away(host, &farther));
            let mut elsewhere = self.unlike(host, &nodes, node);
            elsewhere.retain(|(gpu, ..)| {
                let is_farther = farther.iter().any(|(other, ..)| other == gpu);
                !is_farther && !known.contains(gpu)
            });
            let ports = self
                .ports_elsewhere
                .get(&place)
                .map_or(&[][..], Vec::as_slice);
            findings.extend(at_other_node(host, &elsewhere, ports));
        }
    }

    /// The identity of a GPU; `None` if the group uses addresses and the GPU has none.
    fn slot(&self, host: &Host, gpu: usize) -> Option<GpuSlot> {
        let gpu = &host.inventory.gpus[gpu];
        match self.has_addresses {
            true => gpu.pci.map(GpuSlot::Pci),
            false => Some(GpuSlot::Index(gpu.index)),
        }
    }

    /// The slot, the position and the value of each of a host's GPUs that has a value.
    fn values<T>(
        &self,
        host: &Host,
        value: impl Fn(&Host, usize) -> Option<T>,
    ) -> Vec<(GpuSlot, usize, T)> {
        let gpus = 0..host.inventory.gpus.len();
        gpus.filter_map(|gpu| Some((self.slot(host, gpu)?, gpu, value(host, gpu)?)))
            .collect()
    }

    /// For each slot, the value that more than half of the hosts have, if several hosts have a
    /// value.
    fn usual<T: Ord + Copy>(
        &self,
        value: impl Fn(&Host, usize) -> Option<T>,
    ) -> BTreeMap<GpuSlot, T> {
        let mut found: BTreeMap<GpuSlot, Vec<T>> = BTreeMap::new();
        for &place in &self.members {
            for (slot, _, value) in self.values(&self.analysis.hosts[place], &value) {
                found.entry(slot).or_default().push(value);
            }
        }
        let usual = |(slot, values): (GpuSlot, Vec<T>)| {
            Some((slot, majority(&values).filter(|_| values.len() > 1)?))
        };
        found.into_iter().filter_map(usual).collect()
    }

    /// The GPUs of a host whose value differs from the usual value, each with both values. Numbers
    /// identify GPUs only if no other numbering of the same GPUs explains the difference.
    fn unlike<T: Ord + Copy>(
        &self,
        host: &Host,
        usual: &BTreeMap<GpuSlot, T>,
        value: impl Fn(&Host, usize) -> Option<T>,
    ) -> Vec<(usize, T, T)> {
        let own = self.values(host, value);
        let mut mine: Vec<T> = own.iter().map(|&(_, _, value)| value).collect();
        let mut theirs: Vec<T> = usual.values().copied().collect();
        mine.sort_unstable();
        theirs.sort_unstable();
        if !self.has_addresses && mine == theirs {
            return Vec::new();
        }
        let with_usual = own
            .into_iter()
            .filter_map(|(slot, gpu, value)| Some((gpu, value, *usual.get(&slot)?)));
        with_usual
            .filter(|(_, value, usual)| value != usual)
            .collect()
    }
}

/// The finding about GPUs that are farther from compute ports than usual, each with its tier and
/// the usual tier; `None` without such GPUs.
fn farther_away(host: &Host, farther: &[(usize, Tier, Tier)]) -> Option<GpuFinding> {
    let index = |gpu: usize| host.inventory.gpus[gpu].index;
    let &(first, tier, usual) = farther.first()?;
    let evidence = format!(
        "GPU{} has no compute port nearer than {tier}, where most hosts like it have {usual}{}",
        index(first),
        and_more(farther.len())
    );
    let mut finding = GpuFinding::new(GpuFindingKind::TierWorse, &host.name, evidence);
    finding.gpus = farther.iter().map(|&(gpu, ..)| index(gpu)).collect();
    Some(finding)
}

/// The finding about GPUs and ports at another NUMA node than usual; `None` without such devices.
fn at_other_node(host: &Host, gpus: &[Elsewhere], ports: &[Elsewhere]) -> Option<GpuFinding> {
    let inventory = &host.inventory;
    let index = |gpu: usize| inventory.gpus[gpu].index;
    let of_gpus = gpus
        .iter()
        .map(|&(gpu, node, usual)| (format!("GPU{}", index(gpu)), node, usual));
    let of_ports = ports
        .iter()
        .map(|&(port, node, usual)| (inventory.hca_ports[port].label(), node, usual));
    let (first, node, usual) = of_gpus.chain(of_ports).next()?;
    let evidence = format!(
        "{first} is at NUMA node {node}, where most hosts like it have it at {usual}{}",
        and_more(gpus.len() + ports.len())
    );
    let mut finding = GpuFinding::new(GpuFindingKind::NumaDiffers, &host.name, evidence);
    finding.gpus = gpus.iter().map(|&(gpu, ..)| index(gpu)).collect();
    finding.ports = ports
        .iter()
        .map(|&(port, ..)| port_name(host, port))
        .collect();
    Some(finding)
}

/// The end of a text that describes the first of `devices` devices.
fn and_more(devices: usize) -> String {
    match devices {
        0 | 1 => String::new(),
        many => format!(", and {} more differ", many - 1),
    }
}

/// For each host, the adapters at another NUMA node than adapters at the same addresses of most
/// hosts.
fn ports_elsewhere(
    analysis: &Analysis,
    family: &Family,
    explained: &[Explained],
) -> BTreeMap<usize, Vec<Elsewhere>> {
    let node = |place: usize, key: PortKey| {
        let host = &analysis.hosts[place];
        let port = port_at(&host.inventory, key)?;
        let ignored = is_virtual(host, port) || explained[place].ports.contains(&port);
        let node = host.inventory.hca_ports[port].numa;
        node.filter(|_| !ignored).map(|node| (port, node))
    };
    let mut found: BTreeMap<usize, Vec<Elsewhere>> = BTreeMap::new();
    for &key in family.ports.keys() {
        let of_host = |&place: &usize| Some((place, node(place, key)?));
        let nodes: Vec<(usize, (usize, u16))> = family.hosts.iter().filter_map(of_host).collect();
        let all: Vec<u16> = nodes.iter().map(|&(_, (_, node))| node).collect();
        let Some(usual) = majority(&all).filter(|_| all.len() > 1) else {
            continue;
        };
        for (place, (port, node)) in nodes {
            if node != usual {
                found.entry(place).or_default().push((port, node, usual));
            }
        }
    }
    found
}

/// The finding about GPUs and adapters whose driver does not support GPUDirect RDMA.
fn without_gdr(host: &Host) -> Option<GpuFinding> {
    let inventory = &host.inventory;
    let gpus: Vec<u16> = inventory
        .gpus
        .iter()
        .filter(|gpu| gpu.gdr == Some(false))
        .map(|gpu| gpu.index)
        .collect();
    let ports: Vec<usize> = host
        .compute_ports()
        .into_iter()
        .filter(|&port| inventory.hca_ports[port].gdr == Some(false))
        .collect();
    if host.origin != HostOrigin::Own || gpus.is_empty() && ports.is_empty() {
        return None;
    }
    let evidence = match (gpus.len(), ports.len()) {
        (gpus, 0) => format!("the driver of {gpus} GPUs has no GPUDirect RDMA"),
        (0, ports) => format!("the driver of {ports} compute ports has no GPUDirect RDMA"),
        (gpus, ports) => {
            format!("the drivers of {gpus} GPUs and {ports} compute ports have no GPUDirect RDMA")
        }
    };
    let mut finding = GpuFinding::new(GpuFindingKind::GdrUnsupported, &host.name, evidence);
    finding.gpus = gpus;
    finding.ports = ports.iter().map(|&port| port_name(host, port)).collect();
    Some(finding)
}
