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
    /// Whether other ports at the leaf are slower than that.
    is_mixed: bool,
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
            is_mixed: ports.iter().filter_map(rate).any(|rate| rate < gbps),
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
            "all {} compute ports at {} run at {} Gb/s{}, where most leaves of the unit have {}",
            self.ports.len(),
            fabric.switch_name(self.leaf),
            self.gbps,
            if self.is_mixed { " or less" } else { "" },
            self.usual_gbps
        );
        let name = |&(host, _): &(usize, usize)| analysis.hosts[host].name.clone();
        let hosts: BTreeSet<String> = self.ports.iter().map(name).collect();
        let mut names = hosts.into_iter();
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
    slow.first()?;
    let label = |port: usize| host.inventory.hca_ports[port].label();
    let rates = slow
        .iter()
        .map(|&(port, gbps, usual)| (label(port), gbps, usual));
    let (kind, evidence) = evidence(&rates.collect::<Vec<_>>(), all);
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

/// The kind and the text of the finding about slow ports of one host: each pair of a rate and the
/// usual rate with the number of its ports or its first port. `slow` and `all` are those of
/// [`finding`], with the labels of the ports.
fn evidence(slow: &[(String, u32, u32)], all: usize) -> (GpuFindingKind, String) {
    let mut groups: Vec<(&str, u32, u32, usize)> = Vec::new();
    for (label, gbps, usual_gbps) in slow {
        let of_rates =
            |group: &&mut (&str, u32, u32, usize)| (group.1, group.2) == (*gbps, *usual_gbps);
        match groups.iter_mut().find(of_rates) {
            Some(group) => group.3 += 1,
            None => groups.push((label.as_str(), *gbps, *usual_gbps, 1)),
        }
    }
    let is_whole_host = slow.len() == all && all > 1;
    if let ([(_, gbps, usual_gbps, _)], true) = (&groups[..], is_whole_host) {
        let text =
            format!("all {all} compute ports at {gbps} Gb/s: {usual_gbps} Gb/s in hosts like it");
        return (GpuFindingKind::HostSlow, text);
    }
    let rates = groups
        .iter()
        .map(|(label, gbps, usual_gbps, ports)| {
            let ports = match is_whole_host {
                true => ports.to_string(),
                false => (*label).to_owned(),
            };
            format!("{ports} at {gbps} Gb/s, not {usual_gbps}")
        })
        .collect::<Vec<String>>()
        .join("; ");
    match is_whole_host {
        true => (
            GpuFindingKind::HostSlow,
            format!("all {all} compute ports slower than in hosts like it: {rates}"),
        ),
        false => (
            GpuFindingKind::PortSlow,
            format!(
                "{} of {all} compute ports slower than usual: {rates}",
                slow.len()
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_several_rates_are_each_compared_with_their_own_usual_rate() {
        let slow = |ports: &[(&str, u32, u32)]| -> Vec<(String, u32, u32)> {
            let ports = ports.iter();
            ports
                .map(|&(label, gbps, usual)| (label.to_owned(), gbps, usual))
                .collect()
        };
        let mixed = slow(&[
            ("mlx5_0", 200, 400),
            ("mlx5_1", 200, 400),
            ("mlx5_2", 100, 200),
        ]);
        assert_eq!(
            evidence(&mixed, 8),
            (
                GpuFindingKind::PortSlow,
                "3 of 8 compute ports slower than usual: mlx5_0 at 200 Gb/s, not 400; mlx5_2 at 100 Gb/s, not 200"
                    .to_owned()
            )
        );
        assert_eq!(
            evidence(&mixed, 3),
            (
                GpuFindingKind::HostSlow,
                "all 3 compute ports slower than in hosts like it: 2 at 200 Gb/s, not 400; 1 at 100 Gb/s, not 200"
                    .to_owned()
            )
        );
        assert_eq!(
            evidence(&mixed[..2], 2).1,
            "all 2 compute ports at 200 Gb/s: 400 Gb/s in hosts like it"
        );
    }
}
