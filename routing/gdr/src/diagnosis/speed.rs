//! Finds leaves, ports and hosts that are slower than their peers.

use std::collections::{BTreeMap, BTreeSet};

use super::inventories::port_name;
use crate::Analysis;
use crate::fabric::GpuFabric;
use crate::findings::{GpuFinding, GpuFindingKind, PortName};
use crate::host::Host;
use crate::peers::{Peers, key, leaf, majority, rate};
use crate::rails::Unit;
use rsm_routing::topology::SwitchIdx;

/// The findings about slow leaves, ports and hosts; empty without a fabric.
pub(super) fn find(analysis: &Analysis, peers: &Peers) -> Vec<GpuFinding> {
    let Some(fabric) = &analysis.fabric else {
        return Vec::new();
    };
    let usual_gbps_by_unit = usual_gbps_by_unit(analysis, fabric);
    let mut findings = Vec::new();
    let mut slow_leaves: BTreeMap<SwitchIdx, u32> = BTreeMap::new();
    for unit in &analysis.rails.units {
        for leaf in slow_leaves_of(analysis, unit, fabric) {
            slow_leaves.insert(leaf.leaf, leaf.gbps);
            findings.push(leaf.finding(analysis, fabric));
        }
    }
    // A port that is no slower than its slow leaf has no finding of its own.
    let is_explained_by_leaf = |host: &Host, port: usize| {
        let slow = leaf(host, port, fabric).and_then(|leaf| slow_leaves.get(&leaf));
        slow.is_some_and(|&gbps| rate(host, port, fabric) >= Some(gbps))
    };
    let finding_of_host = |(index, host): (usize, &Host)| {
        let family = peers.family(index).filter(|family| family.has_peers());
        let rates: Vec<u32> = host
            .compute_slots()
            .filter_map(|port| rate(host, port, fabric))
            .collect();
        let usual_in_unit =
            analysis.rails.unit_of[index].and_then(|unit| usual_gbps_by_unit.get(&unit));
        let usual_gbps = |port: usize| match family {
            Some(family) => family.ports.get(&key(&host.inventory, port)?)?.gbps,
            None => usual_in_unit
                .copied()
                .flatten()
                .or_else(|| majority(&rates)),
        };
        let slow: Vec<(usize, u32, u32)> = host
            .compute_slots()
            .filter(|&port| !is_explained_by_leaf(host, port))
            .filter_map(|port| Some((port, rate(host, port, fabric)?, usual_gbps(port)?)))
            .filter(|&(_, gbps, usual_gbps)| gbps < usual_gbps)
            .collect();
        finding(host, &slow, rates.len())
    };
    let hosts = analysis.hosts.iter().enumerate();
    findings.extend(hosts.filter_map(finding_of_host));
    findings
}

/// The leaf of a rail whose ports are slower than the ports at most leaves of the unit.
struct SlowLeaf {
    leaf: SwitchIdx,
    /// The rate of the fastest port at the leaf in Gb/s.
    gbps: u32,
    /// The rate at most leaves of the unit in Gb/s.
    usual_gbps: u32,
    /// The compute ports at the leaf, as pairs of the indices of host and port.
    ports: Vec<(usize, usize)>,
}

/// The leaves of a unit with several compute ports, all of them slower than the ports of most
/// leaves.
fn slow_leaves_of(analysis: &Analysis, unit: &Unit, fabric: &GpuFabric) -> Vec<SlowLeaf> {
    let mut at_leaf: BTreeMap<SwitchIdx, Vec<(usize, usize)>> = BTreeMap::new();
    for &index in &unit.hosts {
        let host = &analysis.hosts[index];
        for port in host.compute_slots() {
            if let Some(leaf) = leaf(host, port, fabric) {
                at_leaf.entry(leaf).or_default().push((index, port));
            }
        }
    }
    let rate = |&(host, port): &(usize, usize)| rate(&analysis.hosts[host], port, fabric);
    let fastest = |ports: &Vec<(usize, usize)>| ports.iter().filter_map(rate).max();
    at_leaf.retain(|leaf, ports| unit.leaves.contains(leaf) && ports.len() > 1);
    let rates: Vec<u32> = at_leaf.values().filter_map(fastest).collect();
    let Some(usual_gbps) = majority(&rates) else {
        return Vec::new();
    };
    let slow = at_leaf.into_iter().filter_map(|(leaf, ports)| {
        let gbps = fastest(&ports).filter(|&gbps| gbps < usual_gbps)?;
        Some(SlowLeaf {
            leaf,
            gbps,
            usual_gbps,
            ports,
        })
    });
    slow.collect()
}

impl SlowLeaf {
    /// The finding about this leaf, which names all hosts and ports at it.
    fn finding(&self, analysis: &Analysis, fabric: &GpuFabric) -> GpuFinding {
        let evidence = format!(
            "all {} compute ports at {} run at {} Gb/s, where most leaves of the unit have {}",
            self.ports.len(),
            fabric.switch_name(self.leaf),
            self.gbps,
            self.usual_gbps
        );
        let name = |&(host, _): &(usize, usize)| analysis.hosts[host].name.clone();
        let names: BTreeSet<String> = self.ports.iter().map(name).collect();
        let mut names = names.into_iter();
        let first = names.next().unwrap_or_default();
        let mut finding = GpuFinding::new(GpuFindingKind::LeafSlow, &first, evidence);
        finding.also = names.collect();
        let first_port = self.ports.iter().take(1);
        let name = |&(host, port): &(usize, usize)| port_name(&analysis.hosts[host], port);
        finding.ports = first_port.map(name).collect();
        finding
    }
}

/// For each unit, by its number, the rate in Gb/s of most compute ports; `None` if no rate has a
/// majority.
fn usual_gbps_by_unit(analysis: &Analysis, fabric: &GpuFabric) -> BTreeMap<u32, Option<u32>> {
    let units = (0u32..).zip(&analysis.rails.units);
    let usual_gbps = |(number, unit): (u32, &crate::rails::Unit)| {
        let rates: Vec<u32> = unit
            .hosts
            .iter()
            .map(|&index| &analysis.hosts[index])
            .flat_map(|host| {
                host.compute_slots()
                    .filter_map(|port| rate(host, port, fabric))
            })
            .collect();
        (number, majority(&rates))
    };
    units.map(usual_gbps).collect()
}

/// The finding about the slow ports of a host; `None` without slow ports. `slow` holds each slow
/// port with its rate and the usual rate in Gb/s; `all` is the number of compute ports.
fn finding(host: &Host, slow: &[(usize, u32, u32)], all: usize) -> Option<GpuFinding> {
    let &(first_port, gbps, usual_gbps) = slow.first()?;
    let is_whole_host = slow.len() == all && all > 1;
    let (kind, evidence) = match is_whole_host {
        true => (
            GpuFindingKind::HostSlow,
            format!("all {all} compute ports at {gbps} Gb/s: {usual_gbps} Gb/s in hosts like it"),
        ),
        false => (
            GpuFindingKind::PortSlow,
            format!(
                "{} of {all} compute ports slower than usual: {} at {gbps} Gb/s, not {usual_gbps}",
                slow.len(),
                host.inventory.hca_ports[first_port].label()
            ),
        ),
    };
    let mut finding = GpuFinding::new(kind, &host.name, evidence);
    finding.ports = slow
        .iter()
        .map(|&(port, _, _)| PortName {
            host: host.name.clone(),
            device: host.inventory.hca_ports[port].label(),
        })
        .collect();
    Some(finding)
}
