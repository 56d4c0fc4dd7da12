//! Finds PCIe settings of a host that slow GPUDirect RDMA.

use super::inventories::port_name;
use crate::findings::{GpuFinding, GpuFindingKind};
use crate::host::Host;
use crate::hosts::HostOrigin;
use crate::inventory::PciAddress;

/// The maximum number of functions in a finding.
const MAX_NAMED: usize = 16;

/// Adds a finding for each kind of setting that slows GPUDirect RDMA on the host.
pub(super) fn find(host: &Host, findings: &mut Vec<GpuFinding>) {
    if host.origin != HostOrigin::Own {
        return;
    }
    let settings = &host.inventory.pcie_settings;
    for (kind, functions, what) in [
        (
            GpuFindingKind::AcsRedirect,
            &settings.acs_redirect,
            "ACS redirect is on at the PCIe bridges between GPUs and adapters",
        ),
        (
            GpuFindingKind::IommuTranslates,
            &settings.iommu_translated,
            "the IOMMU translates the addresses of GPUs and adapters",
        ),
        (
            GpuFindingKind::RelaxedOrderingOff,
            &settings.strict_ordering,
            "relaxed ordering is off at the adapters",
        ),
    ] {
        if functions.is_empty() {
            continue;
        }
        let evidence = format!("{what}: {}", list(functions));
        let mut finding = GpuFinding::new(kind, &host.name, evidence);
        if kind != GpuFindingKind::AcsRedirect {
            let is_named =
                |pci: Option<PciAddress>| pci.is_some_and(|pci| functions.contains(&pci));
            let gpus = host.inventory.gpus.iter().filter(|gpu| is_named(gpu.pci));
            finding.gpus = gpus.map(|gpu| gpu.index).collect();
            let ports = (0..host.inventory.hca_ports.len())
                .filter(|&port| is_named(host.inventory.hca_ports[port].pci));
            finding.ports = ports.map(|port| port_name(host, port)).collect();
        }
        findings.push(finding);
    }
}

/// The addresses of the first functions, and the number of further functions, as text.
fn list(functions: &[PciAddress]) -> String {
    let named: Vec<String> = functions
        .iter()
        .take(MAX_NAMED)
        .map(ToString::to_string)
        .collect();
    match functions.len().saturating_sub(MAX_NAMED) {
        0 => named.join(" "),
        rest => format!("{} and {rest} more", named.join(" ")),
    }
}
