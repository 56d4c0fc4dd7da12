//! Device attributes for dynamic resource allocation in Kubernetes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::RenderError;
use super::cluster::{MAX_LABEL, subdomain, tier_name};
use super::groups::{Group, units};
use super::ports::{by_rail, device, find_host, of_fabric, plane};
use crate::Analysis;
use crate::fabric::GpuFabric;
use crate::host::Host;
use crate::inventory::PciAddress;

/// The comment at the head of the file.
const HEAD: &str = "\
# Attributes for the drivers that publish these devices; both are named alike by resource.kubernetes.io/pciBusID.
# Applied as it is, it would offer devices that no driver of this name prepares.
";

/// Writes the GPUs and compute ports of each host as ResourceSlices (`resource.k8s.io/v1`): the
/// standard attributes, which identify the devices of other drivers, and under `domain` the
/// attributes from the fabric. A GPU and its ports have the same `pair`, for `matchAttribute` in a
/// claim.
///
/// # Errors
/// There is no fabric, no host in it, an adapter without a name, or the name of a host or a domain
/// that Kubernetes does not accept.
pub fn resource_slices(analysis: &Analysis, domain: &str) -> Result<String, RenderError> {
    let fabric = analysis.joined()?;
    driver(domain)?;
    let mut out = HEAD.to_owned();
    for unit in units(analysis)? {
        for name in &unit.hosts {
            subdomain(name)?;
            let (place, host) = find_host(analysis, name)?;
            let _ = write!(
                out,
                "---\napiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata:\n  name: {name}.{domain}\nspec:\n  \
                 driver: {domain}\n  nodeName: \"{name}\"\n  pool:\n    name: \"{name}\"\n    generation: 1\n    \
                 resourceSliceCount: 1\n  devices:\n"
            );
            let mut slice = Slice {
                out: &mut out,
                domain,
            };
            slice.devices(analysis, fabric, (place, host), &unit)?;
        }
    }
    Ok(out)
}

/// Checks that Kubernetes accepts a domain as the name of a driver and in names of attributes.
fn driver(domain: &str) -> Result<(), RenderError> {
    subdomain(domain)?;
    if domain.len() > MAX_LABEL {
        return Err(RenderError::Name {
            name: domain.to_owned(),
            format: "a driver of Kubernetes' devices",
            rule: "at most 63 characters",
        });
    }
    Ok(())
}

/// Writes one ResourceSlice.
struct Slice<'a> {
    out: &'a mut String,
    domain: &'a str,
}

impl Slice<'_> {
    /// Writes the GPUs of a host, and its compute ports in the order of rails.
    fn devices(
        &mut self,
        analysis: &Analysis,
        fabric: &GpuFabric,
        (place, host): (usize, &Host),
        unit: &Group<'_>,
    ) -> Result<(), RenderError> {
        let ports = by_rail(analysis, place);
        // All ports of a GPU take the position of the GPU's first port as their pair.
        let place_of = |port: usize| ports.iter().position(|&(other, _)| other == port);
        let mut pairs: BTreeMap<usize, usize> = BTreeMap::new();
        for hint in &analysis.hints[place] {
            let Some(pair) = hint.port().and_then(place_of) else {
                continue;
            };
            for &port in &hint.ports {
                pairs.entry(port).or_insert(pair);
            }
        }
        for hint in &analysis.hints[place] {
            let gpu = &host.inventory.gpus[hint.gpu];
            self.device(&format!("gpu-{}", gpu.index), gpu.pci, gpu.numa);
            self.int("gpu", usize::from(gpu.index));
            let pair = hint.port().and_then(|port| pairs.get(&port).copied());
            self.place(pair, hint.rail, unit);
        }
        for (number, &(at, rail)) in ports.iter().enumerate() {
            let port = &host.inventory.hca_ports[at];
            self.device(&format!("port-{number}"), port.pci, port.numa);
            self.text("rdmaDevice", device(port)?);
            self.int("rdmaPort", usize::from(port.port));
            self.place(pairs.get(&at).copied(), rail, unit);
            if let Some(of_fabric) = of_fabric(analysis, host, at) {
                let leaf = fabric.topology.switch(of_fabric.leaf).guid;
                self.text("leaf", &leaf.to_string());
                self.text("portGuid", &of_fabric.guid.to_string());
                self.int("plane", plane(analysis, of_fabric));
            }
        }
        Ok(())
    }

    /// Begins a device, with the standard attributes.
    fn device(&mut self, name: &str, pci: Option<PciAddress>, numa: Option<u16>) {
        let _ = writeln!(self.out, "    - name: {name}\n      attributes:");
        let standard = "resource.kubernetes.io";
        if let Some(pci) = pci {
            let _ = writeln!(
                self.out,
                "        {standard}/pciBusID: {{string: \"{pci}\"}}"
            );
        }
        if let Some(numa) = numa {
            let _ = writeln!(self.out, "        {standard}/numaNode: {{int: {numa}}}");
        }
    }

    /// Adds the attributes for the place of a device in the fabric; the tiers of switches have the
    /// names that Volcano's tiers have.
    fn place(&mut self, pair: Option<usize>, rail: Option<u16>, unit: &Group<'_>) {
        if let Some(pair) = pair {
            self.int("pair", pair);
        }
        if let Some(rail) = rail {
            self.int("rail", usize::from(rail));
        }
        self.text("unit", &unit.name);
        for (above, name) in (1..).zip(&unit.within) {
            self.text(&tier_name(above, unit.within.len()), name);
        }
    }

    fn int(&mut self, name: &str, value: usize) {
        let _ = writeln!(self.out, "        {}/{name}: {{int: {value}}}", self.domain);
    }

    /// Adds a text attribute; `value` consists of at most 64 plain characters.
    fn text(&mut self, name: &str, value: &str) {
        let _ = writeln!(
            self.out,
            "        {}/{name}: {{string: \"{value}\"}}",
            self.domain
        );
    }
}
