//! Finds adapters with another firmware than the same adapters of most peer hosts.

use std::collections::BTreeMap;

use super::inventories::port_name;
use crate::Analysis;
use crate::findings::{GpuFinding, GpuFindingKind};
use crate::host::Host;
use crate::hosts::HostOrigin;
use crate::inventory::PciAddress;
use crate::peers::{Family, Peers, is_virtual, majority};

/// The usual firmware at each PCIe address of a family.
type Usual = BTreeMap<PciAddress, String>;

/// Reports hosts with adapters whose firmware differs from the firmware of most hosts of the
/// family. During an upgrade of half of the hosts there is no majority, and so no finding.
pub(super) fn find(analysis: &Analysis, peers: &Peers) -> Vec<GpuFinding> {
    let hosts = &analysis.hosts;
    let usual: Vec<Usual> = (peers.families.iter())
        .map(|family| usual_firmware(family, hosts))
        .collect();
    let of_host = |(place, host): (usize, &Host)| {
        let usual = &usual[peers.of_host[place]?];
        let own = host.origin == HostOrigin::Own;
        own.then(|| finding(host, usual)).flatten()
    };
    hosts.iter().enumerate().filter_map(of_host).collect()
}

/// The adapters of a host, each with port position, address and firmware.
fn adapters(host: &Host) -> impl Iterator<Item = (usize, PciAddress, &str)> {
    let ports = (0..host.inventory.hca_ports.len()).filter(move |&port| !is_virtual(host, port));
    ports.filter_map(move |port| {
        let entry = &host.inventory.hca_ports[port];
        Some((port, entry.pci?, entry.firmware.as_deref()?))
    })
}

/// The firmware of most adapters at each address that has at least two adapters; addresses without
/// a majority are left out.
fn usual_firmware(family: &Family, hosts: &[Host]) -> Usual {
    let mut found: BTreeMap<PciAddress, Vec<&str>> = BTreeMap::new();
    for &place in &family.hosts {
        // Both ports of a card run one firmware.
        let of_host: BTreeMap<PciAddress, &str> = adapters(&hosts[place])
            .map(|(_, address, firmware)| (address, firmware))
            .collect();
        for (address, firmware) in of_host {
            found.entry(address).or_default().push(firmware);
        }
    }
    let usual = |(address, found): (PciAddress, Vec<&str>)| {
        let usual = majority(&found).filter(|_| found.len() > 1)?;
        Some((address, usual.to_owned()))
    };
    found.into_iter().filter_map(usual).collect()
}

/// The finding about a host's adapters with another firmware than usual; `None` without such
/// adapters.
fn finding(host: &Host, usual: &Usual) -> Option<GpuFinding> {
    let others: Vec<(usize, &str, &str)> = adapters(host)
        .filter_map(|(port, address, firmware)| {
            Some((port, firmware, usual.get(&address)?.as_str()))
        })
        .filter(|(_, firmware, usual)| firmware != usual)
        .collect();
    let &(first, firmware, usual) = others.first()?;
    let evidence = format!(
        "{} {} firmware {firmware}, where most hosts like it have {usual}",
        match others.len() {
            1 => host.inventory.hca_ports[first].label(),
            many => format!(
                "{many} ports from {} on",
                host.inventory.hca_ports[first].label()
            ),
        },
        if others.len() == 1 { "has" } else { "have" }
    );
    let mut finding = GpuFinding::new(GpuFindingKind::FirmwareDiffers, &host.name, evidence);
    finding.ports = others
        .iter()
        .map(|&(port, _, _)| port_name(host, port))
        .collect();
    Some(finding)
}
