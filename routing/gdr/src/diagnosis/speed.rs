//! Ports and hosts that are slower than those like them.

use std::collections::BTreeMap;

use crate::Analysis;
use crate::fabric::GpuFabric;
use crate::findings::{GpuFinding, GpuFindingKind, PortName};
use crate::host::Host;
use crate::peers::{Peers, key, majority, rate};

pub(super) fn find(analysis: &Analysis, peers: &Peers) -> Vec<GpuFinding> {
    let Some(fabric) = &analysis.fabric else {
        return Vec::new();
    };
    let of_units = usual_of_units(analysis, fabric);
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
            .filter_map(|port| Some((port, rate(host, port, fabric)?, usual(port)?)))
            .filter(|&(_, rate, usual)| rate < usual)
            .collect();
        finding(host, &slow, own.len())
    };
    let hosts = analysis.hosts.iter().enumerate();
    hosts.filter_map(of_host).collect()
}

/// The rate of most compute ports of each unit in Gb/s.
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

/// `slow` has ports, each with its rate and the usual one; `all` is the number of compute ports.
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
