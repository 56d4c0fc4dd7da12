//! Finds GPUs and adapters that a host lacks, or has in another slot than its peers.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use super::{Explained, hosts_like_it, hosts_like_it_have};
use crate::Analysis;
use crate::claims::JoinFaults;
use crate::fabric::GpuFabric;
use crate::findings::{GpuFinding, GpuFindingKind, PortName};
use crate::host::Host;
use crate::hosts::HostOrigin;
use crate::inventory::{LinkLayer, PciAddress, Tier};
use crate::peers::{Family, Peers, PortKey, is_virtual, key, leaf, majority, near_gpus, port_at};
use crate::roles::TrafficRole;
use crate::survey::of_gpu_hosts;

/// Returns the findings, and for each host the devices that they explain.
pub(super) fn find(
    analysis: &Analysis,
    peers: &Peers,
    faults: &[JoinFaults],
) -> (Vec<GpuFinding>, Vec<Explained>) {
    // Without a fabric, storage and compute ports cannot be distinguished well enough.
    let of_gpu_hosts = analysis
        .fabric
        .as_ref()
        .map(|fabric| of_gpu_hosts(&analysis.hosts, fabric));
    let of_host = |(place, host): (usize, &Host)| {
        let own = host.origin == HostOrigin::Own && faults[place].foreign.is_none();
        let mut found = HostFindings {
            host,
            findings: Vec::new(),
            explained: Explained::default(),
        };
        match peers.family(place) {
            Some(family) if own && family.has_peers() => found.compare(family, analysis),
            Some(_) if own => {
                if let (Some(fabric), Some(of_gpu_hosts)) = (&analysis.fabric, &of_gpu_hosts) {
                    found.compare_within_host(fabric, of_gpu_hosts);
                }
            }
            _ => {}
        }
        (found.findings, found.explained)
    };
    let each: Vec<_> = analysis.hosts.par_iter().enumerate().map(of_host).collect();
    let (findings, mut explained): (Vec<_>, Vec<_>) = each.into_iter().unzip();
    let mut findings: Vec<GpuFinding> = findings.into_iter().flatten().collect();
    findings.extend(fewer_gpus(analysis, peers, &mut explained));
    (findings, explained)
}

/// The key of hosts without addresses with equal units, products and adapters.
type SameAdapters<'a> = (Option<u32>, Option<&'a str>, Vec<Option<&'a str>>);

/// Reports hosts without PCI addresses that have fewer GPUs than most hosts with the same adapters.
fn fewer_gpus(analysis: &Analysis, peers: &Peers, explained: &mut [Explained]) -> Vec<GpuFinding> {
    let mut groups: BTreeMap<SameAdapters<'_>, Vec<usize>> = BTreeMap::new();
    for (place, host) in analysis.hosts.iter().enumerate() {
        let has_gpus = !host.inventory.gpus.is_empty();
        if peers.of_host[place].is_none() && host.origin == HostOrigin::Own && has_gpus {
            let ports = host.inventory.hca_ports.iter();
            let devices = ports.map(|port| port.device.as_deref()).collect();
            let machine = host.inventory.machine.as_deref();
            let group = (analysis.rails.unit_of[place], machine, devices);
            groups.entry(group).or_default().push(place);
        }
    }
    let count = |&place: &usize| analysis.hosts[place].inventory.gpus.len();
    let mut findings = Vec::new();
    for members in groups.into_values().filter(|members| members.len() > 1) {
        let counts: Vec<usize> = members.iter().map(count).collect();
        let Some(usual) = majority(&counts) else {
            continue;
        };
        for place in members.into_iter().filter(|place| count(place) < usual) {
            explained[place].lacks_gpus = true;
            let evidence = format!(
                "{} GPUs, where most hosts with the same adapters have {usual}",
                count(&place)
            );
            let name = &analysis.hosts[place].name;
            findings.push(GpuFinding::new(GpuFindingKind::GpuMissing, name, evidence));
        }
    }
    findings
}

/// A host, with the findings about it so far.
struct HostFindings<'a> {
    host: &'a Host,
    findings: Vec<GpuFinding>,
    explained: Explained,
}

impl HostFindings<'_> {
    /// Adds a finding about GPUs and ports, by position in the inventory, and marks these devices
    /// as explained.
    fn report(
        &mut self,
        kind: GpuFindingKind,
        gpus: &BTreeSet<usize>,
        ports: &[usize],
        evidence: String,
    ) {
        let inventory = &self.host.inventory;
        let mut finding = GpuFinding::new(kind, &self.host.name, evidence);
        finding.gpus = gpus.iter().map(|&gpu| inventory.gpus[gpu].index).collect();
        finding.ports = ports
            .iter()
            .map(|&port| PortName {
                host: self.host.name.clone(),
                device: inventory.hca_ports[port].label(),
            })
            .collect();
        self.findings.push(finding);
        self.explained.gpus.extend(gpus);
        self.explained.ports.extend(ports);
    }

    /// The GPUs of this host at the given addresses.
    fn gpus_at<'b>(&self, addresses: impl Iterator<Item = &'b PciAddress>) -> BTreeSet<usize> {
        let gpus = &self.host.inventory.gpus;
        let at = |address: &PciAddress| gpus.iter().position(|gpu| gpu.pci == Some(*address));
        addresses.filter_map(at).collect()
    }

    /// Compares the devices of a host with the template of its family.
    fn compare(&mut self, family: &Family, analysis: &Analysis) {
        let inventory = &self.host.inventory;
        let peers = hosts_like_it_have(family.whole.len());
        let addresses: BTreeSet<PciAddress> =
            inventory.gpus.iter().filter_map(|gpu| gpu.pci).collect();
        let usual: BTreeSet<PciAddress> = family.gpus.iter().copied().collect();
        let missing_gpus: Vec<PciAddress> = usual.difference(&addresses).copied().collect();
        let extra_gpus = addresses.difference(&usual).count();
        let there: BTreeSet<PortKey> = (0..inventory.hca_ports.len())
            .filter(|&port| !is_virtual(self.host, port))
            .filter_map(|port| key(inventory, port))
            .collect();
        let missing: Vec<PortKey> = family
            .ports
            .iter()
            .filter(|(key, usual)| !there.contains(key) && usual.role != TrafficRole::Outside)
            .map(|(key, _)| *key)
            .collect();
        let extra: Vec<usize> = (0..inventory.hca_ports.len())
            .filter(|&port| {
                let known = |key| family.ports.contains_key(&key);
                let role = self.host.roles[port].0;
                role != TrafficRole::Outside
                    && inventory.hca_ports[port].may_be_infiniband()
                    && !is_virtual(self.host, port)
                    && !key(inventory, port).is_some_and(known)
            })
            .collect();
        self.explained.lacks_gpus = !missing_gpus.is_empty();
        for address in missing_gpus {
            self.gpu_missing(address, family);
        }
        self.ethernet(family);
        let half = family
            .slots
            .iter()
            .filter(|key| missing.contains(key))
            .count();
        if half > 1 && 2 * half >= family.slots.len() {
            self.half_populated(half, family);
        } else {
            let moved = self.moved(&missing, &extra, family, analysis);
            for key in missing.iter().filter(|key| !moved.contains(key)) {
                self.hca_missing(*key, family);
            }
            if extra_gpus > 0 || extra.len() > moved.len() {
                let evidence = format!(
                    "{} GPUs and {} ports, where {peers} {} and {}",
                    inventory.gpus.len(),
                    there.len(),
                    family.gpus.len(),
                    family.ports.len()
                );
                let none = BTreeSet::new();
                self.report(GpuFindingKind::OtherMachineType, &none, &[], evidence);
            }
        }
        self.under_other_switch(family);
    }

    /// Reports a missing GPU, with the ports that usually serve it.
    fn gpu_missing(&mut self, address: PciAddress, family: &Family) {
        let index = family.gpus.iter().position(|gpu| *gpu == address);
        let beside = family
            .ports
            .iter()
            .filter(|(_, usual)| usual.near.contains(&address));
        let ports: Vec<usize> = beside
            .filter_map(|(&key, _)| port_at(&self.host.inventory, key))
            .collect();
        let evidence = format!(
            "no GPU at {address}, where {} GPU{}",
            hosts_like_it_have(family.whole.len()),
            index.unwrap_or_default()
        );
        self.report(GpuFindingKind::GpuMissing, &BTreeSet::new(), &[], evidence);
        if let Some(finding) = self.findings.last_mut() {
            finding.ports.extend(ports.iter().map(|&port| PortName {
                host: self.host.name.clone(),
                device: self.host.inventory.hca_ports[port].label(),
            }));
        }
    }

    /// Reports a missing adapter port, with the GPUs that it usually serves.
    fn hca_missing(&mut self, key: PortKey, family: &Family) {
        let usual = &family.ports[&key];
        let gpus = self.gpus_at(usual.near.iter());
        let evidence = format!(
            "no adapter port {} at {}, where {} one for {}",
            key.1,
            key.0,
            hosts_like_it_have(family.whole.len()),
            match usual.role {
                TrafficRole::Compute => "GPUs",
                role => role.name(),
            }
        );
        self.report(GpuFindingKind::HcaMissing, &gpus, &[], evidence);
    }

    /// Reports a host that lacks at least half of the usual compute ports, in one finding.
    fn half_populated(&mut self, missing: usize, family: &Family) {
        let evidence = format!(
            "{} of the {} compute ports that {} hosts with the same GPUs have",
            family.slots.len() - missing,
            family.slots.len(),
            family.whole.len()
        );
        let none = BTreeSet::new();
        self.report(GpuFindingKind::HalfPopulated, &none, &[], evidence);
        // The distance of the host's GPUs to the remaining ports follows from the missing adapter.
        self.explained
            .gpus
            .extend(0..self.host.inventory.gpus.len());
    }

    /// Reports Ethernet adapters whose counterparts in peer hosts are InfiniBand.
    fn ethernet(&mut self, family: &Family) {
        for (&key, usual) in &family.ports {
            let Some(port) = port_at(&self.host.inventory, key) else {
                continue;
            };
            let entry = &self.host.inventory.hca_ports[port];
            if usual.role == TrafficRole::Outside || entry.link_layer != Some(LinkLayer::Ethernet) {
                continue;
            }
            let gpus = self.gpus_at(usual.near.iter());
            let evidence = format!(
                "{} is Ethernet, where {} InfiniBand",
                entry.label(),
                hosts_like_it_have(family.whole.len())
            );
            self.report(GpuFindingKind::HcaEthernetMode, &gpus, &[port], evidence);
        }
    }

    /// Reports adapters that have moved from one PCIe place to another; returns their usual places.
    fn moved(
        &mut self,
        missing: &[PortKey],
        extra: &[usize],
        family: &Family,
        analysis: &Analysis,
    ) -> Vec<PortKey> {
        let place = analysis.place(&self.host.name);
        let slot_leaf = |key: &PortKey| {
            let slot = family.slots.iter().position(|other| other == key)?;
            Some(analysis.rails.rail(place?, slot)?.leaf)
        };
        let mut left = missing.to_vec();
        let mut moved = Vec::new();
        for &port in extra {
            if left.is_empty() {
                break;
            }
            let at = analysis
                .fabric
                .as_ref()
                .and_then(|fabric| leaf(self.host, port, fabric));
            // The moved adapter belongs to the rail that it still reaches, else to a rail with the
            // same traffic.
            let role = self.host.roles[port].0;
            let reached = |key: &PortKey| at.is_some() && slot_leaf(key) == at;
            let alike = |key: &PortKey| family.ports[key].role == role;
            let found = left.iter().position(reached);
            let Some(found) = found.or_else(|| left.iter().position(alike)) else {
                continue;
            };
            let from = left.remove(found);
            let gpus = self.gpus_at(family.ports[&from].near.iter());
            let entry = &self.host.inventory.hca_ports[port];
            let evidence = format!(
                "{} is at {}, where {} the adapter at {}",
                entry.label(),
                entry.pci.map(|pci| pci.to_string()).unwrap_or_default(),
                hosts_like_it_have(family.whole.len()),
                from.0
            );
            self.report(GpuFindingKind::HcaMoved, &gpus, &[port], evidence);
            moved.push(from);
        }
        moved
    }

    /// Reports adapters at their usual address whose PCIe switch serves other GPUs than usual.
    fn under_other_switch(&mut self, family: &Family) {
        let inventory = &self.host.inventory;
        let there: BTreeSet<PciAddress> = inventory.gpus.iter().filter_map(|gpu| gpu.pci).collect();
        for (&key, usual) in &family.ports {
            let Some(port) = port_at(inventory, key) else {
                continue;
            };
            let wanted: BTreeSet<PciAddress> = usual.near.intersection(&there).copied().collect();
            let near = near_gpus(inventory, port);
            // GPUs that other hosts lack do not indicate another switch.
            let is_usual = |pci: &&PciAddress| family.gpus.contains(pci);
            let near_usual: BTreeSet<PciAddress> = near.iter().filter(is_usual).copied().collect();
            // An adapter near no GPU has a finding about tiers, and an adapter that is usually near
            // no GPU does not show a difference.
            if usual.role != TrafficRole::Compute
                || wanted.is_empty()
                || near.is_empty()
                || near_usual == wanted
            {
                continue;
            }
            let gpus = self.gpus_at(wanted.difference(&near));
            let list = |addresses: &BTreeSet<PciAddress>| {
                let indices = self.gpus_at(addresses.iter());
                let names = indices
                    .iter()
                    .map(|&gpu| format!("GPU{}", inventory.gpus[gpu].index));
                names.collect::<Vec<_>>().join(",")
            };
            let evidence = format!(
                "{} is under the PCIe switch of {}, in {} under that of {}",
                inventory.hca_ports[port].label(),
                list(&near),
                hosts_like_it(family.whole.len()),
                list(&wanted)
            );
            self.report(GpuFindingKind::HcaMoved, &gpus, &[port], evidence);
        }
    }

    /// Compares the GPUs and adapters of a host without peers with each other.
    fn compare_within_host(&mut self, fabric: &GpuFabric, of_gpu_hosts: &[bool]) {
        let host = self.host;
        let inventory = &host.inventory;
        let gpus = inventory.gpus.len();
        let compute = host.compute_ports();
        let near = |gpu: usize, port: usize| inventory.tier(gpu, port).is_some_and(Tier::is_local);
        let has_own = |gpu: &usize| compute.iter().any(|&port| near(*gpu, port));
        let without: Vec<usize> = (0..gpus).filter(|gpu| !has_own(gpu)).collect();
        let only_gpu_hosts = |port: usize| {
            let at = leaf(host, port, fabric);
            let mut at_leaf = fabric
                .ports()
                .iter()
                .zip(of_gpu_hosts)
                .filter(|(port, _)| Some(port.leaf) == at);
            at.is_some() && at_leaf.all(|(_, of_gpu_host)| *of_gpu_host)
        };
        if !without.is_empty() && 2 * without.len() < gpus {
            for gpu in without {
                self.report_gpu_without_adapter(gpu, &only_gpu_hosts);
            }
            return;
        }
        // Idle adapters are at leaves of GPU hosts only and near no GPU, and no machine is sold
        // with this number of GPUs; together, both numbers make a power of two.
        let idle: Vec<usize> = (0..inventory.hca_ports.len())
            .filter(|&port| {
                let used = (0..gpus).any(|gpu| near(gpu, port));
                !used && host.roles[port].0 != TrafficRole::Outside && only_gpu_hosts(port)
            })
            .collect();
        let odd = !gpus.is_power_of_two() && (gpus + idle.len()).is_power_of_two();
        if without.is_empty() && odd && idle.len() < gpus {
            for port in idle {
                let evidence = format!(
                    "{gpus} GPUs, and no GPU under the PCIe switch of {}, which is cabled like the adapters of GPUs",
                    inventory.hca_ports[port].label()
                );
                self.explained.lacks_gpus = true;
                self.report(
                    GpuFindingKind::GpuMissing,
                    &BTreeSet::new(),
                    &[port],
                    evidence,
                );
            }
        }
    }

    /// Reports a GPU without an adapter under its PCIe switch, if the host's other GPUs have an
    /// adapter there: the adapter is set to Ethernet, has moved, or is missing.
    fn report_gpu_without_adapter(&mut self, gpu: usize, only_gpu_hosts: &impl Fn(usize) -> bool) {
        let inventory = &self.host.inventory;
        let near = |gpu: usize, port: usize| inventory.tier(gpu, port).is_some_and(Tier::is_local);
        let ports = 0..inventory.hca_ports.len();
        let ethernet = ports.clone().find(|&port| {
            near(gpu, port) && inventory.hca_ports[port].link_layer == Some(LinkLayer::Ethernet)
        });
        let index = inventory.gpus[gpu].index;
        let gpus = BTreeSet::from([gpu]);
        if let Some(port) = ethernet {
            let evidence = format!(
                "{} beside GPU{index} is Ethernet, where the host's other GPUs have InfiniBand",
                inventory.hca_ports[port].label()
            );
            self.report(GpuFindingKind::HcaEthernetMode, &gpus, &[port], evidence);
            return;
        }
        // A GPU has several adapters at leaves of GPU hosts: one of them has moved there.
        let of_gpu = |other: usize| -> Vec<usize> {
            let alone = |port: &usize| {
                let beside = (0..inventory.gpus.len()).filter(|&gpu| near(gpu, *port));
                beside.count() == 1 && near(other, *port) && only_gpu_hosts(*port)
            };
            ports.clone().filter(alone).collect()
        };
        let crowded = (0..inventory.gpus.len()).map(|other| (other, of_gpu(other)));
        match crowded.into_iter().find(|(_, ports)| ports.len() > 1) {
            Some((other, ports)) => {
                let names: Vec<String> = ports
                    .iter()
                    .map(|&port| inventory.hca_ports[port].label())
                    .collect();
                let evidence = format!(
                    "GPU{index} has no adapter under its PCIe switch, and GPU{} has {}: one of them belongs to GPU{index}",
                    inventory.gpus[other].index,
                    names.join(" and ")
                );
                self.explained.has_moved_hca = true;
                self.report(GpuFindingKind::HcaMoved, &gpus, &ports, evidence);
            }
            None => {
                let evidence = format!(
                    "GPU{index} has no adapter under its PCIe switch, where the host's other GPUs have one each"
                );
                self.report(GpuFindingKind::HcaMissing, &gpus, &[], evidence);
            }
        }
    }
}
