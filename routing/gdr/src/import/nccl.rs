//! Reads the topology file of NCCL and RCCL.
//!
//! The elements nest as `system > cpu > pci … > gpu | nic > net`. A `cpu` is a NUMA node, and a
//! `pci` of class 0x0604 a whole PCIe switch. Cloud images have partial files, with addresses and
//! classes only. Full dumps add `gpu`, `nvlink`, `c2c` and `net`, whose `guid` is the system image
//! GUID with its bytes in the host's order.

use rsm_ids::Guid;

use super::error::ImportError;
use super::pcie::{FoundDevices, Path, Switches};
use super::xml::{self, Element};
use crate::inventory::{
    Gpu, GpuLinks, HcaPort, HostInventory, InventoryError, InventorySource, LinkFamily, LinkLayer,
    MAX_HCA_PORTS, PciAddress,
};

/// The PCI base class and subclass of a bridge.
const BRIDGE: u32 = 0x0604;
const INFINIBAND: u32 = 0x0207;
const ETHERNET: u32 = 0x0200;
const NVSWITCH: u32 = 0x0680;
/// The PCI classes of GPUs: VGA and 3D controllers, other display controllers (AMD), processing
/// accelerators.
const GPUS: [u32; 4] = [0x0300, 0x0302, 0x0380, 0x1200];
/// NCCL's target for an NVSwitch that is invisible in a virtual machine.
const HIDDEN_SWITCH: &str = "fffffff:ff:ff.0";
/// Broadcom switches that appear as a bridge of bridges, as (vendor, device).
const TWO_LEVEL_SWITCHES: [(&str, &str); 2] = [("0x1000", "0xc010"), ("0x1000", "0xc030")];

pub(super) fn read(text: &str) -> Result<HostInventory, ImportError> {
    let elements = xml::read(text, "system")?;
    let is_bridge = bridges(&elements);
    let mut found = FoundDevices::default();
    let (mut links, mut coherent) = (Vec::new(), Vec::new());
    let (mut family, mut counted) = (LinkFamily::NvLink { generation: None }, true);
    for (at, element) in elements.iter().enumerate() {
        match element.name.as_str() {
            "pci" => {
                let class = class(element)?;
                let pci = address(element, "busid")?;
                let inner = child(&elements, at, "gpu");
                let is_nic = child(&elements, at, "nic").is_some() || layer(class).is_some();
                if inner.is_some() || class.is_some_and(|class| GPUS.contains(&class)) {
                    let gpu = gpu(element, inner, pci, &mut counted)?;
                    found.gpus.push((gpu, path(&elements, &is_bridge, at)));
                } else if is_nic && !has_rdma(&elements, at) {
                    let mut port = HcaPort::new(None);
                    port.pci = Some(pci);
                    port.link_layer = layer(class);
                    found.ports.push((port, path(&elements, &is_bridge, at)));
                }
            }
            "net" => {
                if let Some(port) = net(&elements, at)? {
                    found.ports.push((port, path(&elements, &is_bridge, at)));
                }
            }
            "c2c" => {
                let pci = element.parent.and_then(|gpu| elements[gpu].parent);
                if let Some(pci) = pci.filter(|&pci| elements[pci].name == "pci") {
                    let text = element.need("bw")?;
                    let mbytes: u32 = text
                        .parse()
                        .map_err(|_| element.value_error(text, "MB/s"))?;
                    coherent.push((address(&elements[pci], "busid")?, mbytes / 1000));
                }
            }
            "nvlink" | "xgmi" => {
                if element.name == "xgmi" {
                    family = LinkFamily::Xgmi;
                }
                links.extend(link(&elements, at)?);
            }
            _ => {}
        }
        if let (LinkFamily::NvLink { generation: None }, "gpu") = (family, element.name.as_str()) {
            let sm = element.get("sm").and_then(|sm| sm.parse().ok());
            family = sm.map_or(family, LinkFamily::of_compute_capability);
        }
    }
    // Each port may have a second entry for its Data Direct function.
    if found.ports.len() > 2 * MAX_HCA_PORTS {
        let error = InventoryError::TooManyHcaPorts(found.ports.len());
        return Err(ImportError::new(
            super::line_of(text.as_bytes()),
            error.into(),
        ));
    }
    unite_data_direct(&mut found.ports);
    for (port, path) in &mut found.ports {
        port.numa = path.numa;
    }
    for (gpu, path) in &mut found.gpus {
        gpu.numa = path.numa;
    }
    let mut host = found
        .into_host(InventorySource::NcclXml, Switches::OneBridge, counted)
        .map_err(|error| ImportError::new(super::line_of(text.as_bytes()), error.into()))?;
    host.link_family = family;
    for gpu in &mut host.gpus {
        let link = coherent.iter().find(|&&(pci, _)| Some(pci) == gpu.pci);
        gpu.c2c_gbytes = link.map(|&(_, gbytes)| gbytes);
    }
    host.add_links(&links);
    Ok(host)
}

/// Unites the two entries of an adapter with a Data Direct function, which NCCL lists under the
/// adapter's name with `_dma`, into one port. GPUDirect RDMA uses the Data Direct function, so the
/// port gets that function's path, and all other properties of the adapter.
fn unite_data_direct(ports: &mut Vec<(HcaPort, Path)>) {
    let is_same =
        |one: &HcaPort, other: &HcaPort| (&one.device, one.port) == (&other.device, other.port);
    let (direct, mut plain): (Vec<_>, Vec<_>) =
        ports.drain(..).partition(|(port, _)| port.data_direct);
    for (function, path) in direct {
        match plain.iter_mut().find(|(port, _)| is_same(port, &function)) {
            Some((adapter, place)) if !adapter.data_direct => {
                *place = path;
                adapter.data_direct = true;
                adapter.gdr = function.gdr.or(adapter.gdr);
            }
            _ => plain.push((function, path)),
        }
    }
    *ports = plain;
}

/// The base class and subclass of a PCI device; `None` if a partial file omits them.
fn class(element: &Element) -> Result<Option<u32>, ImportError> {
    let Some(text) = element.get("class") else {
        return Ok(None);
    };
    let class = text
        .strip_prefix("0x")
        .and_then(|hex| u32::from_str_radix(hex, 16).ok());
    class
        .map(|class| Some(class >> 8))
        .ok_or_else(|| element.value_error(text, "a class of PCI devices"))
}

fn address(element: &Element, attribute: &'static str) -> Result<PciAddress, ImportError> {
    let text = element.need(attribute)?;
    text.parse()
        .map_err(|_| element.value_error(text, "a PCI address"))
}

/// The protocol of an adapter of this PCI class. The classes of virtual machines and Data Direct
/// functions do not show the protocol.
const fn layer(class: Option<u32>) -> Option<LinkLayer> {
    match class {
        Some(INFINIBAND) => Some(LinkLayer::InfiniBand),
        Some(ETHERNET) => Some(LinkLayer::Ethernet),
        _ => None,
    }
}

/// The first direct child with this name.
fn child<'a>(elements: &'a [Element], parent: usize, name: &str) -> Option<&'a Element> {
    let inside = elements[parent + 1..].iter();
    // Elements are in the order of their starts, so that children come before the next sibling.
    inside
        .take_while(|element| element.parent.is_some_and(|outer| outer >= parent))
        .find(|element| element.parent == Some(parent) && element.name == name)
}

/// Whether an RDMA device is below a PCI device.
fn has_rdma(elements: &[Element], pci: usize) -> bool {
    elements[pci + 1..]
        .iter()
        .take_while(|element| element.parent.is_some_and(|outer| outer >= pci))
        .any(|element| element.name == "net" && !is_socket(element))
}

/// Whether a `net` is a socket interface (`eth0`, `ib0`), to which NCCL gives port 0.
fn is_socket(net: &Element) -> bool {
    net.get("port") == Some("0")
}

/// For each element, whether it is a bridge: by its class or, without a class, if PCI devices are
/// below it.
fn bridges(elements: &[Element]) -> Vec<bool> {
    let of_class = |element: &Element| match class(element) {
        Ok(class) => class.map(|class| class == BRIDGE),
        Err(_) => None,
    };
    let mut is_bridge: Vec<bool> = elements
        .iter()
        .map(|element| of_class(element) == Some(true))
        .collect();
    for element in elements.iter().filter(|element| element.name == "pci") {
        if let Some(outer) = element.parent {
            is_bridge[outer] |= of_class(&elements[outer]).is_none();
        }
    }
    is_bridge
}

/// The path to an element: the switches above it, and the NUMA node.
fn path(elements: &[Element], is_bridge: &[bool], at: usize) -> Path {
    let mut path = Path::default();
    let mut device = None;
    let mut outer = Some(at);
    while let Some(index) = outer {
        let element = &elements[index];
        match element.name.as_str() {
            "pci" if index != at && is_bridge[index] => {
                let this = element.get("vendor").zip(element.get("device"));
                let halves = device.is_some() && device == this;
                if !(halves && this.is_some_and(|id| TWO_LEVEL_SWITCHES.contains(&id))) {
                    // The limits on elements are far below 2^32.
                    path.bridges.push(index as u32);
                } else if let Some(lower) = path.bridges.last_mut() {
                    *lower = index as u32;
                }
                device = this;
            }
            "cpu" => path.numa = element.get("numaid").and_then(|numa| numa.parse().ok()),
            _ => {}
        }
        outer = element.parent;
    }
    path.bridges.reverse();
    path
}

/// Reads a GPU from its `pci` element and, if there is one, the `gpu` inside. Clears `counted` if
/// the number of the GPU is missing.
fn gpu(
    element: &Element,
    inner: Option<&Element>,
    pci: PciAddress,
    counted: &mut bool,
) -> Result<Gpu, ImportError> {
    let mut gpu = Gpu {
        pci: Some(pci),
        ..Gpu::default()
    };
    let Some(inner) = inner else {
        *counted = false;
        return Ok(gpu);
    };
    let text = inner.need("dev")?;
    gpu.index = text
        .parse()
        .map_err(|_| element.value_error(text, "the number of a GPU"))?;
    gpu.gdr = inner.get("gdr").map(|gdr| gdr == "1");
    Ok(gpu)
}

/// Reads an adapter's port from a `net` element; `None` if it is not an RDMA device.
fn net(elements: &[Element], at: usize) -> Result<Option<HcaPort>, ImportError> {
    let element = &elements[at];
    if is_socket(element) {
        return Ok(None);
    }
    let name = element.need("name")?;
    let mut outer = element.parent;
    let pci = loop {
        match outer {
            Some(index) if elements[index].name == "pci" => break Some(&elements[index]),
            Some(index) => outer = elements[index].parent,
            None => break None,
        }
    };
    // A socket attached to a processor is not an RDMA adapter.
    let Some(pci) = pci else { return Ok(None) };
    // NCCL gives this name to the Data Direct function of an adapter.
    let (device, data_direct) = match name.strip_suffix("_dma") {
        Some(device) => (device, true),
        None => (name, false),
    };
    let mut port = HcaPort::new(Some(device.to_owned()));
    port.data_direct = data_direct;
    port.pci = Some(address(pci, "busid")?);
    port.link_layer = layer(class(pci)?);
    if let Some(number) = element.get("port") {
        port.port = number
            .parse()
            .map_err(|_| element.value_error(number, "a port number"))?;
    }
    if let Some(speed) = element.get("speed") {
        let megabits: u32 = speed
            .parse()
            .map_err(|_| element.value_error(speed, "Mb/s"))?;
        port.gbps = (megabits > 0).then_some(megabits / 1000);
    }
    port.gdr = element.get("gdr").map(|gdr| gdr == "1");
    if let Some(text) = element.get("guid") {
        let guid = match text.starts_with("0x") {
            true => text.parse::<Guid>().ok().map(|guid| guid.0),
            // `parse` alone would also accept a sign.
            false => text.parse().ok().filter(|_| !text.starts_with('+')),
        };
        let raw = guid.ok_or_else(|| element.value_error(text, "a GUID"))?;
        // Plugins put their device number here; a GUID has the vendor's number in its low bytes.
        let is_guid = raw > u64::from(u32::MAX);
        port.system_image_guid = is_guid.then_some(Guid(raw.swap_bytes()));
    }
    Ok(Some(port))
}

/// The NVLinks that an `nvlink` element states. `None` if the element belongs to no GPU, or if the
/// GPU states itself as the other end.
fn link(elements: &[Element], at: usize) -> Result<Option<GpuLinks>, ImportError> {
    let element = &elements[at];
    let text = element.need("count")?;
    let count = text
        .parse()
        .map_err(|_| element.value_error(text, "a number of links"))?;
    let target = element.need("target")?;
    let hidden = target == HIDDEN_SWITCH;
    let to_switch = match element.get("tclass") {
        Some(_) if hidden => true,
        Some(text) => {
            let hex = text
                .strip_prefix("0x")
                .and_then(|hex| u32::from_str_radix(hex, 16).ok());
            hex.is_some_and(|class| class >> 8 == NVSWITCH)
        }
        None => hidden,
    };
    let target = match to_switch {
        true => None,
        false => Some(address(element, "target")?),
    };
    let gpu = element.parent.and_then(|gpu| elements[gpu].parent);
    let Some(pci) = gpu
        .map(|pci| &elements[pci])
        .filter(|pci| pci.name == "pci")
    else {
        return Ok(None);
    };
    let gpu = address(pci, "busid")?;
    // A GPU of a virtual machine can state itself as target: the other end is invisible.
    let itself = target == Some(gpu);
    Ok((!itself).then_some(GpuLinks { gpu, target, count }))
}
