//! Reads hwloc's export, versions 2 and 3.
//!
//! Bridges and PCI devices are attached to the object whose processors and memory are near. The
//! operating system's name of a device (`mlx5_0`, `nvml0`) is an object inside the device. NVLinks
//! are a matrix of bandwidths between such objects.

mod nvlink;

use std::collections::BTreeMap;

use super::error::ImportError;
use super::pcie::{FoundDevices, Path, Switches};
use super::text;
use super::xml::{self, Element};
use crate::inventory::{Gpu, HcaPort, HostInventory, InventorySource, LinkLayer, PciAddress};

/// The PCI vendor numbers, in hexadecimal.
const NVIDIA: &str = "10de";
const AMD: &str = "1002";
/// The `osdev_type` of an RDMA device: in hwloc 2 a number, in hwloc 3 a set of bits.
const OPENFABRICS_2: u32 = 3;
const OPENFABRICS_3: u32 = 1 << 5;

pub(super) fn read(text: &str) -> Result<HostInventory, ImportError> {
    let elements = xml::read(text, "topology")?;
    let version = elements[0].get("version").unwrap_or("2.0");
    let bits = !version.starts_with(['1', '2']);
    let mut found = FoundDevices::default();
    let (mut counted, mut gpus) = (true, Vec::new());
    let mut machine = None;
    for (at, element) in elements.iter().enumerate() {
        match (element.name.as_str(), element.get("type")) {
            ("object", Some("PCIDev")) => {
                let kind = element.need("pci_type")?;
                // Example: "0302 [10de:2330] [10de:16c1] a1 00".
                if is_gpu(kind) {
                    let pci = address(element)?;
                    let gpu = gpu(&elements, at, pci, &mut counted);
                    gpus.push((at, pci));
                    found.gpus.push((gpu, path(&elements, at)?));
                }
            }
            ("object", Some("OSDev")) if is_openfabrics(&elements, at, bits)? => {
                let path = path(&elements, at)?;
                for port in ports(&elements, at)? {
                    found.ports.push((port, path.clone()));
                }
            }
            ("info", _) if element.get("name") == Some("DMIProductName") => {
                machine = element.get("value").map(str::to_owned);
            }
            _ => {}
        }
    }
    for (gpu, path) in &mut found.gpus {
        gpu.numa = path.numa;
    }
    for (port, path) in &mut found.ports {
        port.numa = path.numa;
    }
    let mut host = found
        .into_host(InventorySource::Hwloc, Switches::TwoBridges, counted)
        .map_err(|error| ImportError::new(super::line_of(text.as_bytes()), error.into()))?;
    host.machine = machine;
    nvlink::add(&mut host, &elements, &gpus)?;
    Ok(host)
}

/// Whether a PCI device is a GPU: a display controller of NVIDIA or AMD, or AMD's processing
/// accelerator (MI300X).
fn is_gpu(kind: &str) -> bool {
    let is_made_by = |vendor: &str| kind.contains(&format!(" [{vendor}:"));
    match kind.get(..2) {
        Some("03") => is_made_by(NVIDIA) || is_made_by(AMD),
        _ => kind.starts_with("1200") && is_made_by(AMD),
    }
}

fn address(element: &Element) -> Result<PciAddress, ImportError> {
    let text = element.need("pci_busid")?;
    text.parse()
        .map_err(|_| element.value_error(text, "a PCI address"))
}

/// The direct children of an element.
fn children(elements: &[Element], parent: usize) -> impl Iterator<Item = (usize, &Element)> {
    (parent + 1..)
        .zip(&elements[parent + 1..])
        .take_while(move |(_, element)| element.parent.is_some_and(|outer| outer >= parent))
        .filter(move |(_, element)| element.parent == Some(parent))
}

/// The value of the first entry `name` of an object; `None` if the object lacks such an entry.
fn info<'a>(elements: &'a [Element], object: usize, name: &str) -> Option<&'a str> {
    children(elements, object)
        .filter(|(_, element)| element.name == "info")
        .find(|(_, element)| element.get("name") == Some(name))
        .and_then(|(_, element)| element.get("value"))
}

/// Whether an operating system's device is an RDMA device. `bits` states whether `osdev_type` is a
/// set of bits, as in hwloc 3.
fn is_openfabrics(elements: &[Element], at: usize, bits: bool) -> Result<bool, ImportError> {
    let element = &elements[at];
    let text = element.need("osdev_type")?;
    let kind: u32 = text
        .parse()
        .map_err(|_| element.value_error(text, "a kind of device"))?;
    let has_type = match bits {
        true => kind & OPENFABRICS_3 != 0,
        false => kind == OPENFABRICS_2,
    };
    Ok(has_type || info(elements, at, "NodeGUID").is_some())
}

/// Reads a GPU. Clears `counted` if no driver's device states the number of the GPU.
fn gpu(elements: &[Element], at: usize, pci: PciAddress, counted: &mut bool) -> Gpu {
    let mut gpu = Gpu {
        pci: Some(pci),
        ..Gpu::default()
    };
    let mut number = None;
    for (inner, device) in children(elements, at).filter(|(_, e)| e.get("type") == Some("OSDev")) {
        let name = device.get("name").unwrap_or_default();
        let digits = name
            .strip_prefix("nvml")
            .or_else(|| name.strip_prefix("rsmi"));
        number = number.or(digits.and_then(|digits| digits.parse().ok()));
        let value = |name| info(elements, inner, name).map(str::to_owned);
        gpu.uuid = gpu.uuid.or_else(|| value("NVIDIAUUID"));
        gpu.model = gpu.model.or_else(|| value("GPUModel"));
    }
    match number {
        Some(index) => gpu.index = index,
        None => *counted = false,
    }
    gpu
}

/// The path to an object, with the NUMA node of the object to which it is attached.
fn path(elements: &[Element], at: usize) -> Result<Path, ImportError> {
    let mut path = Path::default();
    let mut outer = elements[at].parent;
    while let Some(index) = outer {
        let element = &elements[index];
        match (element.get("type"), element.get("bridge_type")) {
            (Some("Bridge"), Some("0-1")) => path.root = Some(index as u32),
            (Some("Bridge"), _) => path.bridges.push(index as u32),
            (Some("PCIDev"), _) => {}
            _ => {
                if let Some(nodes) = element.get("nodeset") {
                    path.numa = only_bit(nodes);
                    break;
                }
            }
        }
        outer = element.parent;
    }
    path.bridges.reverse();
    Ok(path)
}

/// The number of the only bit in a set of hwloc's form `0x00000001` or `0x…,0x…`, with the highest
/// word first; `None` unless exactly one bit is set.
fn only_bit(text: &str) -> Option<u16> {
    let mut only = None;
    for (word, hex) in text.rsplit(',').enumerate() {
        let hex = hex.strip_prefix("0x").unwrap_or(hex);
        let bits = match hex {
            "" => 0,
            _ => u32::from_str_radix(hex, 16).ok()?,
        };
        if bits == 0 {
            continue;
        }
        if only.is_some() || bits.count_ones() != 1 {
            return None;
        }
        only = u16::try_from(word * 32 + bits.trailing_zeros() as usize).ok();
    }
    only
}

/// The ports in an adapter's object; port 1 if it lists none.
fn ports(elements: &[Element], at: usize) -> Result<Vec<HcaPort>, ImportError> {
    let element = &elements[at];
    let mut first = HcaPort::new(Some(element.need("name")?.to_owned()));
    let pci = element.parent.map(|outer| &elements[outer]);
    first.pci = match pci {
        Some(pci) if pci.get("type") == Some("PCIDev") => Some(address(pci)?),
        _ => None,
    };
    // Each port has several entries: one search per entry would take quadratic time.
    let mut infos: BTreeMap<&str, &str> = BTreeMap::new();
    for (_, entry) in children(elements, at).filter(|(_, element)| element.name == "info") {
        if let Some((name, value)) = entry.get("name").zip(entry.get("value")) {
            infos.entry(name).or_insert(value);
        }
    }
    let info = |name: &str| infos.get(name).copied();
    let guid = |name: &str, element: &Element| {
        let Some(text) = info(name) else {
            return Ok(None);
        };
        text::guid(text).ok_or_else(|| element.value_error(text, "a GUID"))
    };
    first.node_guid = guid("NodeGUID", element)?;
    first.system_image_guid = guid("SysImageGUID", element)?;
    let mut ports = Vec::new();
    for (_, entry) in children(elements, at).filter(|(_, element)| element.name == "info") {
        let Some(rest) = entry.get("name").and_then(|name| name.strip_prefix("Port")) else {
            continue;
        };
        let Some(number) = rest.strip_suffix("State") else {
            continue;
        };
        let mut port = first.clone();
        port.port = number
            .parse()
            .map_err(|_| entry.value_error(number, "a port number"))?;
        port.active = entry.get("value").map(|state| state == "4");
        if let Some(gid) = info(&format!("Port{number}GID0")) {
            let guid = text::guid_of_gid(gid);
            port.port_guid = guid.ok_or_else(|| entry.value_error(gid, "a GID"))?;
        }
        // The address of an Ethernet port is not a LID.
        let lid = info(&format!("Port{number}LID"));
        let has_lid = lid.is_some_and(|lid| lid != "0x0" && lid != "0");
        port.link_layer = has_lid.then_some(LinkLayer::InfiniBand);
        ports.push(port);
    }
    if ports.is_empty() {
        ports.push(first);
    }
    Ok(ports)
}
