//! Finds PCIe links with fewer lanes or a lower speed than the links of peer hosts.

use std::collections::BTreeMap;

use super::Explained;
use super::inventories::port_name;
use crate::Analysis;
use crate::findings::{GpuFinding, GpuFindingKind};
use crate::host::Host;
use crate::hosts::HostOrigin;
use crate::inventory::{PciAddress, PcieLink};
use crate::peers::{Family, Peers, is_virtual, majority};
use crate::roles::TrafficRole;

/// A GPU or an adapter port of a host, by position.
#[derive(Clone, Copy)]
enum Device {
    Gpu(usize),
    Port(usize),
}

/// A device whose link is slower than it should be.
struct SlowDevice {
    device: Device,
    link: PcieLink,
    usual: PcieLink,
    /// Whether `usual` is the link of peer hosts; if not, it is the link that both ends support.
    is_from_peers: bool,
}

/// The usual link at each PCIe address of a family.
type Usual = BTreeMap<PciAddress, PcieLink>;

/// Reports hosts with PCIe links slower than the links of most peers or, without a majority, slower
/// than both ends of the link support. Inventories without links are ignored.
pub(super) fn find(analysis: &Analysis, peers: &Peers, explained: &[Explained]) -> Vec<GpuFinding> {
    let hosts = &analysis.hosts;
    let usual: Vec<Usual> = (peers.families.iter())
        .map(|family| usual_links(family, hosts))
        .collect();
    let none = Usual::new();
    let mut findings = Vec::new();
    for (place, host) in hosts.iter().enumerate() {
        if host.origin != HostOrigin::Own {
            continue;
        }
        let usual = peers.of_host[place].map_or(&none, |family| &usual[family]);
        let slow: Vec<SlowDevice> = devices(host, &explained[place])
            .filter_map(|device| below(host, device, usual))
            .collect();
        findings.extend(finding(host, &slow));
    }
    findings
}

/// The GPUs, and the adapters with traffic of the fabric, without the devices that other findings
/// explain: a device that is not at its usual place has a finding already.
fn devices<'a>(host: &'a Host, explained: &'a Explained) -> impl Iterator<Item = Device> + 'a {
    let gpus = (0..host.inventory.gpus.len()).filter(move |gpu| !explained.gpus.contains(gpu));
    let ports = (0..host.inventory.hca_ports.len()).filter(move |&port| {
        let outside = host.roles[port].0 == TrafficRole::Outside || is_virtual(host, port);
        !outside && !explained.ports.contains(&port)
    });
    gpus.map(Device::Gpu).chain(ports.map(Device::Port))
}

impl Device {
    fn pci(self, host: &Host) -> Option<PciAddress> {
        match self {
            Device::Gpu(gpu) => host.inventory.gpus[gpu].pci,
            Device::Port(port) => host.inventory.hca_ports[port].pci,
        }
    }

    fn link(self, host: &Host) -> Option<PcieLink> {
        match self {
            Device::Gpu(gpu) => host.inventory.gpus[gpu].pcie,
            Device::Port(port) => host.inventory.hca_ports[port].pcie,
        }
    }

    /// The link that both ends support; `None` if the inventory does not state it.
    fn supported(self, host: &Host) -> Option<PcieLink> {
        match self {
            // Only the lanes of a GPU's link are compared: an idle GPU lowers the speed, so sources
            // state the highest speed in any case.
            Device::Gpu(gpu) => {
                let gpu = &host.inventory.gpus[gpu];
                gpu.pcie_max.zip(gpu.pcie).map(|(most, link)| PcieLink {
                    tenth_gts: link.tenth_gts,
                    ..most
                })
            }
            Device::Port(port) => host.inventory.hca_ports[port].pcie_max,
        }
    }

    fn label(self, host: &Host) -> String {
        match self {
            Device::Gpu(gpu) => format!("GPU{}", host.inventory.gpus[gpu].index),
            Device::Port(port) => host.inventory.hca_ports[port].label(),
        }
    }
}

/// The link that more than half of the family's hosts have at each address, if several hosts state
/// a link there.
fn usual_links(family: &Family, hosts: &[Host]) -> Usual {
    let mut links: BTreeMap<PciAddress, Vec<PcieLink>> = BTreeMap::new();
    let nothing = Explained::default();
    for &place in &family.hosts {
        let host = &hosts[place];
        // Both ports of a card share its PCIe link.
        let of_host: BTreeMap<PciAddress, PcieLink> = devices(host, &nothing)
            .filter_map(|device| Some((device.pci(host)?, device.link(host)?)))
            .collect();
        for (address, link) in of_host {
            links.entry(address).or_default().push(link);
        }
    }
    let usual = |(address, links): (PciAddress, Vec<PcieLink>)| {
        let usual = majority(&links).filter(|_| links.len() > 1)?;
        Some((address, usual))
    };
    links.into_iter().filter_map(usual).collect()
}

/// The device with its links; `None` if its link is unknown or as fast as it should be.
fn below(host: &Host, device: Device, usual: &Usual) -> Option<SlowDevice> {
    let link = device.link(host)?;
    let of_peers = device.pci(host).and_then(|address| usual.get(&address));
    let (usual, is_from_peers) = match of_peers {
        Some(usual) => (*usual, true),
        None => (device.supported(host)?, false),
    };
    link.is_below(usual).then_some(SlowDevice {
        device,
        link,
        usual,
        is_from_peers,
    })
}

/// The finding about a host's slow devices; `None` without slow devices.
fn finding(host: &Host, slow: &[SlowDevice]) -> Option<GpuFinding> {
    let first = slow.first()?;
    let rest = match slow.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more devices below theirs"),
    };
    let evidence = format!(
        "{} has a PCIe link of {}, {} {}{rest}",
        first.device.label(host),
        first.link,
        match first.is_from_peers {
            true => "where most hosts like it have",
            false => "and both its ends can have",
        },
        first.usual
    );
    let mut finding = GpuFinding::new(GpuFindingKind::PcieDegraded, &host.name, evidence);
    for slow in slow {
        match slow.device {
            Device::Gpu(gpu) => finding.gpus.push(host.inventory.gpus[gpu].index),
            Device::Port(port) => finding.ports.push(port_name(host, port)),
        }
    }
    Some(finding)
}
