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
    let of_units = usual_of_units(analysis, fabric);
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
    let of_host = |(place, host): (usize, &Host)| {
        let family = peers.family(place).filter(|family| family.has_peers());
        let own: Vec<u32> = host
            .compute_slots()
            .filter_map(|port| rate(host, port, fabric))
            .collect();
        let in_unit = analysis.rails.unit_of[place].and_then(|unit| of_units.get(&unit));
        let usual = |port: usize| match family {
            Some(family) => family.ports.get(&key(&host.inventory, port)?)?.gbps,
            None => in_unit.copied().flatten().or_else(|| majority(&own)),
        };
        let slow: Vec<(usize, u32, u32)> = host
            .compute_slots()
            .filter(|&port| !is_explained_by_leaf(host, port))
            .filter_map(|port| Some((port, rate(host, port, fabric)?, usual(port)?)))
            .filter(|&(_, rate, usual)| rate < usual)
            .collect();
        finding(host, &slow, own.len())
    };
    let hosts = analysis.hosts.iter().enumerate();
    findings.extend(hosts.filter_map(of_host));
    findings
}

/// The leaf of a rail whose ports are slower than the ports of other rails.
struct SlowLeaf {
    leaf: SwitchIdx,
    /// The rate of the fastest port at the leaf in Gb/s.
    gbps: u32,
    /// The rate at most leaves of the unit in Gb/s.
    usual: u32,
    /// The compute ports at the leaf, as pairs of host and port.
    ports: Vec<(usize, usize)>,
}

/// The leaves of a unit with several compute ports, all of them slower than the ports of most
/// leaves.
fn slow_leaves_of(analysis: &Analysis, unit: &Unit, fabric: &GpuFabric) -> Vec<SlowLeaf> {
    let mut at_leaf: BTreeMap<SwitchIdx, Vec<(usize, usize)>> = BTreeMap::new();
    for &place in &unit.hosts {
        let host = &analysis.hosts[place];
        for port in host.compute_slots() {
            if let Some(leaf) = leaf(host, port, fabric) {
                at_leaf.entry(leaf).or_default().push((place, port));
            }
        }
    }
    let rate = |&(place, port): &(usize, usize)| rate(&analysis.hosts[place], port, fabric);
    let fastest = |ports: &Vec<(usize, usize)>| ports.iter().filter_map(rate).max();
    at_leaf.retain(|leaf, ports| unit.leaves.contains(leaf) && ports.len() > 1);
    let rates: Vec<u32> = at_leaf.values().filter_map(fastest).collect();
    let Some(usual) = majority(&rates) else {
        return Vec::new();
    };
    let slow = at_leaf.into_iter().filter_map(|(leaf, ports)| {
        let gbps = fastest(&ports).filter(|&gbps| gbps < usual)?;
        Some(SlowLeaf {
            leaf,
            gbps,
            usual,
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
            self.usual
        );
        let name = |&(place, _): &(usize, usize)| analysis.hosts[place].name.clone();
        let names: BTreeSet<String> = self.ports.iter().map(name).collect();
        let mut names = names.into_iter();
        let first = names.next().unwrap_or_default();
        let mut finding = GpuFinding::new(GpuFindingKind::LeafSlow, &first, evidence);
        finding.also = names.collect();
        let of_first = self.ports.iter().take(1);
        let port = |&(place, port): &(usize, usize)| port_name(&analysis.hosts[place], port);
        finding.ports = of_first.map(port).collect();
        finding
    }
}

/// For each unit, the rate of most compute ports in Gb/s; `None` without a majority.
fn usual_of_units(analysis: &Analysis, fabric: &GpuFabric) -> BTreeMap<u32, Option<u32>> {
    let units = (0u32..).zip(&analysis.rails.units);
    let usual = |(number, unit): (u32, &crate::rails::Unit)| {
        let rates: Vec<u32> = unit
            .hosts
            .iter()
            .map(|&place| &analysis.hosts[place])
            .flat_map(|host| {
                host.compute_slots()
                    .filter_map(|port| rate(host, port, fabric))
            })
            .collect();
        (number, majority(&rates))
    };
    units.map(usual).collect()
}

/// The finding about slow ports of a host. `slow` holds each port with its rate and the usual rate;
/// `all` is the number of compute ports.
fn finding(host: &Host, slow: &[(usize, u32, u32)], all: usize) -> Option<GpuFinding> {
    let &(first, rate, usual) = slow.first()?;
    let whole = slow.len() == all && all > 1;
    let (kind, evidence) = match whole {
        true => (
            GpuFindingKind::HostSlow,
            format!("all {all} compute ports at {rate} Gb/s: {usual} Gb/s in hosts like it"),
        ),
        false => (
            GpuFindingKind::PortSlow,
            format!(
                "{} of {all} compute ports slower than usual: {} at {rate} Gb/s, not {usual}",
                slow.len(),
                host.inventory.hca_ports[first].label()
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
