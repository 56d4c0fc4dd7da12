//! Finds hosts that number their GPUs, or name their adapters, in another order than peer hosts.

use std::collections::{BTreeMap, BTreeSet};

use super::RailSearch;
use crate::findings::{GpuFinding, GpuFindingKind, PortName};
use crate::inventory::PciAddress;

/// The hosts to compare: position of the host, and its slots in the order of device names. The key
/// is the family or, for hosts without PCI addresses, the unit.
type Groups = BTreeMap<(Option<usize>, Option<u32>), Vec<(usize, Vec<usize>)>>;

impl RailSearch<'_> {
    /// Reports hosts whose GPUs are numbered in another order of PCI addresses than in most peers
    /// or, without peers, than the order of the addresses themselves.
    pub(super) fn gpu_order(&self, findings: &mut Vec<GpuFinding>) {
        for (place, host) in self.analysis.hosts.iter().enumerate() {
            let Some(family) = self.peers.family(place) else {
                continue;
            };
            let gpus = &host.inventory.gpus;
            let mine: Vec<PciAddress> = gpus.iter().filter_map(|gpu| gpu.pci).collect();
            let mut usual = family.gpus.clone();
            if !family.has_peers() {
                usual.sort_unstable();
            }
            let same = mine.iter().collect::<BTreeSet<_>>() == usual.iter().collect();
            if !self.is_own(place) || !same || mine == usual {
                continue;
            }
            let moved: Vec<u16> = gpus
                .iter()
                .zip(&usual)
                .filter(|(gpu, usual)| gpu.pci != Some(**usual))
                .map(|(gpu, _)| gpu.index)
                .collect();
            let usual = match family.has_peers() {
                true => "that of most hosts with the same PCI addresses",
                false => "that of their PCI addresses",
            };
            let observation =
                format!("GPUs are numbered in another order than {usual}: the cables are right");
            let evidence = format!("{} {observation}", moved.len());
            let list: Vec<String> = moved.iter().map(|index| format!("GPU{index}")).collect();
            let mut finding = GpuFinding::new(GpuFindingKind::RailOrderGpus, &host.name, evidence)
                .like_others(observation, list.join(" "));
            finding.gpus = moved;
            findings.push(finding);
        }
    }

    /// Reports hosts whose adapters are named in another order of rails than the adapters of most
    /// peers or, without peers, than the order of their PCI addresses.
    pub(super) fn device_order(
        &self,
        with_wrong_cables: &BTreeSet<usize>,
        findings: &mut Vec<GpuFinding>,
    ) {
        let mut groups = Groups::new();
        for (place, host) in self.analysis.hosts.iter().enumerate() {
            if !self.is_own(place) || with_wrong_cables.contains(&place) {
                continue;
            }
            let family = self.peers.of_host[place];
            if family.is_some_and(|family| !self.peers.families[family].has_peers()) {
                if !self.explained[place].has_moved_hca {
                    findings.extend(self.named_by_address(place));
                }
                continue;
            }
            let order = host.device_names_order().and_then(|by_name| {
                let slots = by_name.into_iter().map(|port| host.slot(port));
                slots.collect::<Option<Vec<usize>>>()
            });
            if let (Some(order), Some(unit)) = (order, self.analysis.rails.unit_of[place]) {
                let group = (family, family.is_none().then_some(unit));
                groups.entry(group).or_default().push((place, order));
            }
        }
        for orders in groups.into_values() {
            let mut count: BTreeMap<(usize, &[usize]), usize> = BTreeMap::new();
            for (_, order) in &orders {
                *count.entry((order.len(), order)).or_default() += 1;
            }
            for (place, order) in &orders {
                let mut alike = count.iter().filter(|((len, _), _)| *len == order.len());
                let mine = count[&(order.len(), &order[..])];
                // A finding requires that most hosts of this shape agree on another order.
                let all: usize = alike.clone().map(|(_, count)| count).sum();
                let Some(((_, usual), _)) = alike.find(|&(_, &count)| 2 * count > all) else {
                    continue;
                };
                let same_slots = order.iter().all(|slot| usual.contains(slot));
                if mine * 2 <= all && order != usual && same_slots {
                    findings.push(self.misnamed(*place, order, usual));
                }
            }
        }
    }

    /// The finding about a host without peers whose names count in another order than its PCI
    /// addresses.
    fn named_by_address(&self, place: usize) -> Option<GpuFinding> {
        let host = &self.analysis.hosts[place];
        let (by_name, by_address) = (host.device_names_order()?, host.pci_order()?);
        let stem = |&port: &usize| {
            let name = host.inventory.hca_ports[port].device.as_deref()?;
            let stem = name.trim_end_matches(|char: char| char.is_ascii_digit());
            (stem.len() < name.len()).then_some(stem)
        };
        let stems: BTreeSet<Option<&str>> = by_name.iter().map(stem).collect();
        let counted = stems.len() == 1 && !stems.contains(&None);
        if !counted || by_name == by_address {
            return None;
        }
        let moved = by_name
            .iter()
            .zip(&by_address)
            .filter(|(one, other)| one != other);
        let mut ports: Vec<PortName> = moved.map(|(&port, _)| self.name(place, port)).collect();
        ports.sort();
        let observation = "adapters are named in another order than that of their PCI addresses: \
                           the cables are right";
        let evidence = format!("{} {observation}", ports.len());
        let list = ports
            .iter()
            .map(|port| port.device.as_str())
            .collect::<Vec<&str>>()
            .join(" ");
        let mut finding = GpuFinding::new(GpuFindingKind::RailOrderHcas, &host.name, evidence)
            .like_others(observation.to_owned(), list);
        finding.ports = ports;
        Some(finding)
    }

    fn misnamed(&self, place: usize, order: &[usize], usual: &[usize]) -> GpuFinding {
        let host = &self.analysis.hosts[place];
        let rails = |order: &[usize]| {
            let numbers: Vec<String> = order.iter().map(usize::to_string).collect();
            numbers.join(",")
        };
        let names = host.device_names_order().unwrap_or_default();
        let moved = names
            .iter()
            .zip(order)
            .zip(usual)
            .filter(|((_, mine), usual)| mine != usual);
        let mut ports: Vec<PortName> = moved
            .map(|((&port, _), _)| self.name(place, port))
            .collect();
        ports.sort();
        let evidence = format!(
            "adapters, in the order of their names, are on rails {}: most hosts have {}",
            rails(order),
            rails(usual)
        );
        let observation = format!(
            "adapters in the order of their names are on other rails than {}",
            rails(usual)
        );
        let mut finding = GpuFinding::new(GpuFindingKind::RailOrderHcas, &host.name, evidence)
            .like_others(observation, rails(order));
        finding.ports = ports;
        finding
    }
}
