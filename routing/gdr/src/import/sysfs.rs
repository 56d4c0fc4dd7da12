//! Reads `/sys` as flattened text: one line for each file, with its path, a tab, and its content or
//! its link's target.
//!
//! The importer reads every file below `…/<adapter>/ports/<port>/`; the attributes `node_guid`,
//! `sys_image_guid` and `fw_ver` of adapters, and the adapters' links `device` and `data_direct`
//! (to the Data Direct function); and for PCI devices below `…/pci/devices/<address>` (a link),
//! `class`, `vendor`, `numa_node`, `current_link_width`, `current_link_speed`, `max_link_width`,
//! `max_link_speed`, `iommu_group/type`, and the link `physfn` of virtual functions. Two attributes
//! are not files of the kernel: `rsmctl gpu probe` reads `relaxed_ordering` of adapters and
//! `acs_redirect` of bridges from `config`. Other lines are skipped. A port's tier follows from the
//! targets of the links, which show every bridge; with Data Direct, it follows from the link of the
//! Data Direct function. The bridge above a function is the other end of its PCIe link.

use std::collections::BTreeMap;

use rsm_ids::Guid;

use super::error::{ImportError, ImportReason, shown};
use super::pcie::{FoundDevices, Path, Switches};
use super::pcie_settings::{self, settings};
use super::text::{guid, guid_of_gid};
use crate::inventory::is_name;
use crate::inventory::{
    Gpu, HcaPort, HostInventory, InventorySource, LinkLayer, NvLinkDomain, PciAddress, PcieLink,
    PcieSettings,
};

/// The maximum number of lines: one for each attribute of each function of a large machine.
const MAX_LINES: usize = 200_000;

/// The PCI vendor ID of NVIDIA.
const NVIDIA: &str = "0x10de";
/// The PCI vendor ID of AMD.
const AMD: &str = "0x1002";

/// Whether the first line other than a comment is a path, a tab and a value.
pub(super) fn is_snapshot(text: &str) -> bool {
    let mut lines = text
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .next()
        .and_then(|line| line.split_once('\t'))
        .is_some_and(|(path, _)| path.contains('/'))
}

/// A channel adapter, from its files below `/sys/class/infiniband`.
#[derive(Default)]
struct Adapter<'a> {
    node_guid: Option<Guid>,
    system_image_guid: Option<Guid>,
    firmware: Option<&'a str>,
    /// The PCI address, and the target of the link to the PCIe function.
    pci: Option<(PciAddress, &'a str)>,
    /// The target of the link to the Data Direct function.
    data_direct: Option<&'a str>,
    /// The attributes of each port, by port number.
    ports: BTreeMap<u8, Attributes<'a>>,
}

/// The attributes of a port by name, each with its line number and its value.
type Attributes<'a> = BTreeMap<&'a str, (u32, &'a str)>;

/// A PCIe function, from its files below `/sys/bus/pci/devices`.
#[derive(Default)]
struct Function<'a> {
    /// The target of the function's link.
    link_target: Option<&'a str>,
    class: Option<&'a str>,
    vendor: Option<&'a str>,
    numa: Option<u16>,
    width: Option<&'a str>,
    speed: Option<&'a str>,
    max_width: Option<&'a str>,
    max_speed: Option<&'a str>,
    is_virtual: bool,
    /// The type of the IOMMU group, such as `DMA` or `identity`.
    iommu: Option<&'a str>,
    relaxed_ordering: Option<bool>,
    /// Whether the function is a bridge whose ACS redirects the traffic below it.
    has_acs_redirect: bool,
}

impl<'a> Function<'a> {
    /// Sets the attribute `name`; an unknown name has no effect.
    fn set(&mut self, name: &str, value: &'a str) {
        match name {
            "class" => self.class = Some(value),
            "vendor" => self.vendor = Some(value),
            // A machine without NUMA has -1, which does not parse.
            "numa_node" => self.numa = value.parse().ok(),
            "current_link_width" => self.width = Some(value),
            "current_link_speed" => self.speed = Some(value),
            "max_link_width" => self.max_width = Some(value),
            "max_link_speed" => self.max_speed = Some(value),
            "physfn" => self.is_virtual = true,
            "relaxed_ordering" => self.relaxed_ordering = Some(value == "1"),
            "acs_redirect" => self.has_acs_redirect = value == "1",
            _ => {}
        }
    }

    /// Whether the function is a display controller of NVIDIA or AMD, or AMD's processing
    /// accelerator (MI300X).
    fn is_gpu(&self) -> bool {
        let has_class = |kind: &str| self.class.is_some_and(|class| class.starts_with(kind));
        let is_display = ["0x0302", "0x0300", "0x0380"].into_iter().any(has_class);
        match self.vendor {
            Some(NVIDIA) => is_display,
            Some(AMD) => is_display || has_class("0x1200"),
            _ => false,
        }
    }

    /// The current PCIe link; `None` if its width or speed is unknown. With `lowers_speed`, for
    /// functions that lower the speed while idle, the link has its maximum speed.
    fn link(&self, lowers_speed: bool) -> Option<PcieLink> {
        let speed = match lowers_speed {
            true => self.max_speed.or(self.speed),
            false => self.speed,
        };
        PcieLink::of_sysfs(self.width?, speed?)
    }

    /// The maximum link of the function's own end; `None` if it is unknown.
    fn max_link(&self) -> Option<PcieLink> {
        PcieLink::of_sysfs(self.max_width?, self.max_speed?)
    }
}

/// The attributes of the host in the file.
#[derive(Default)]
struct Snapshot<'a> {
    adapters: BTreeMap<Natural<'a>, Adapter<'a>>,
    functions: BTreeMap<PciAddress, Function<'a>>,
    /// The product name of the machine.
    machine: Option<&'a str>,
    domain: Option<NvLinkDomain>,
}

/// A name in natural order: `mlx5_2` before `mlx5_10`.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Natural<'a>(&'a str, Option<u64>, &'a str);

impl<'a> Natural<'a> {
    fn new(name: &'a str) -> Natural<'a> {
        let stem = name.trim_end_matches(|char: char| char.is_ascii_digit());
        Natural(stem, name[stem.len()..].parse().ok(), name)
    }
}

/// Reads the inventory of the host that the snapshot is from.
pub(super) fn read(text: &str) -> Result<HostInventory, ImportError> {
    let mut snapshot = Snapshot::default();
    for (number, line) in (1u32..).zip(text.lines()) {
        if number as usize > MAX_LINES {
            let (what, limit) = ("lines", MAX_LINES);
            return Err(ImportError::new(
                number,
                ImportReason::TooMany { what, limit },
            ));
        }
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((path, value)) = line.split_once('\t') else {
            let what = "a path, a tab and a value";
            let value = shown(line);
            return Err(ImportError::new(
                number,
                ImportReason::Value { value, what },
            ));
        };
        snapshot.read_line(number, path, value.trim())?;
    }
    snapshot
        .into_inventory()?
        .map_err(|error| ImportError::new(super::line_of(text.as_bytes()), error.into()))
}

/// Splits a path below `<adapter>/ports/<port>` into the adapter, the port and the path below the
/// port; `None` for other paths.
fn below_port<'a, 'p>(parts: &'p [&'a str]) -> Option<(&'a str, &'a str, &'p [&'a str])> {
    let ports_index = parts.iter().position(|&part| part == "ports")?;
    match &parts[ports_index.checked_sub(1)?..] {
        [adapter, _, port, below @ ..] => Some((adapter, port, below)),
        _ => None,
    }
}

/// The attribute of a port in the file at `below`, a path below the port; `None` for files without
/// an attribute.
fn port_attribute<'a>(below: &[&'a str]) -> Option<&'a str> {
    match below {
        ["gids", "0"] => Some("gid"),
        [attribute] => Some(attribute),
        _ => None,
    }
}

/// The address of the PCI function at the end of a path; `None` if the path does not end with an
/// address.
fn last_address(path: &str) -> Option<PciAddress> {
    path.rsplit('/').next().unwrap_or(path).parse().ok()
}

/// The parts of a path from the host bridge (`pci0000:15`) on; none if the path has no host bridge.
fn host_bridge_on(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').skip_while(|part| !part.starts_with("pci"))
}

/// Parses the NVLink domain `<cluster UUID>.<clique>`.
fn nvlink_domain(text: &str) -> Option<NvLinkDomain> {
    let (cluster, clique) = text.rsplit_once('.')?;
    Some(NvLinkDomain {
        cluster_uuid: cluster.to_owned(),
        clique_id: clique.parse().ok()?,
    })
}

impl<'a> Snapshot<'a> {
    /// Reads the attribute of one line: `path` is the file, and `value` its content or its link's
    /// target.
    fn read_line(&mut self, line: u32, path: &'a str, value: &'a str) -> Result<(), ImportError> {
        let invalid_value = |what| {
            let value = shown(value);
            ImportError::new(line, ImportReason::Value { value, what })
        };
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let [.., owner, name] = parts[..] else {
            return Ok(());
        };
        if let Some((adapter, port, below)) = below_port(&parts) {
            let number = port
                .parse()
                .map_err(|_| invalid_value("the attribute of a port by its number"))?;
            if let Some(attribute) = port_attribute(below) {
                let ports = &mut self.adapter(adapter).ports;
                let attributes = ports.entry(number).or_default();
                attributes.insert(attribute, (line, value));
            }
            return Ok(());
        }
        if let Ok(address) = name.parse::<PciAddress>()
            && owner == "devices"
        {
            self.functions.entry(address).or_default().link_target = Some(value);
            return Ok(());
        }
        if let [.., function, "iommu_group", "type"] = parts[..]
            && let Ok(address) = function.parse::<PciAddress>()
        {
            self.functions.entry(address).or_default().iommu = Some(value);
            return Ok(());
        }
        if let Ok(address) = owner.parse::<PciAddress>() {
            let function = self.functions.entry(address).or_default();
            function.set(name, value);
            return Ok(());
        }
        let is_adapter_attribute = parts.iter().any(|part| part.contains("infiniband"));
        match name {
            "node_guid" if is_adapter_attribute => {
                let guid = guid(value).ok_or_else(|| invalid_value("a GUID"))?;
                self.adapter(owner).node_guid = guid;
            }
            "sys_image_guid" if is_adapter_attribute => {
                let guid = guid(value).ok_or_else(|| invalid_value("a GUID"))?;
                self.adapter(owner).system_image_guid = guid;
            }
            "fw_ver" if is_adapter_attribute => {
                // Versions of unusual characters must not reach rendered files.
                let firmware = Some(value).filter(|value| is_name(value));
                self.adapter(owner).firmware = firmware;
            }
            "device" if is_adapter_attribute => {
                let address = last_address(value)
                    .ok_or_else(|| invalid_value("the path of a PCI function"))?;
                self.adapter(owner).pci = Some((address, value));
            }
            "data_direct" if is_adapter_attribute => {
                self.adapter(owner).data_direct = Some(value);
            }
            "product_name" => self.machine = Some(value),
            "nvidia_fabric" => {
                let domain = nvlink_domain(value);
                self.domain = Some(domain.ok_or_else(|| invalid_value("cluster UUID and clique"))?);
            }
            _ => {}
        }
        Ok(())
    }

    /// The adapter of this name.
    fn adapter(&mut self, name: &'a str) -> &mut Adapter<'a> {
        self.adapters.entry(Natural::new(name)).or_default()
    }

    /// The path of the function to which a link of an adapter leads, with each bridge; empty if it
    /// is unknown. A link such as `../../../0000:1a:00.0` does not show the bridges; the function's
    /// own link does.
    fn place(&self, link_target: &'a str) -> &'a str {
        if host_bridge_on(link_target).next().is_some() {
            return link_target;
        }
        let function = last_address(link_target).and_then(|address| self.functions.get(&address));
        function
            .and_then(|function| function.link_target)
            .unwrap_or_default()
    }

    /// The path of the function through which an adapter reaches memory: the Data Direct function,
    /// if the adapter has one.
    fn place_of(&self, adapter: &Adapter<'a>) -> &'a str {
        let own = adapter.pci.map(|(_, link_target)| link_target);
        let link_target = adapter.data_direct.or(own);
        link_target.map_or("", |link_target| self.place(link_target))
    }

    /// The PCIe settings of the GPUs, of the adapters that may be InfiniBand, and of the bridges
    /// between them.
    fn pcie_settings(&self) -> PcieSettings {
        let function = |address: PciAddress, link_target: &'a str, is_gpu: bool| {
            let function = self.functions.get(&address);
            pcie_settings::Function {
                address,
                place: link_target,
                is_gpu,
                iommu: function.and_then(|function| function.iommu),
                relaxed_ordering: function.and_then(|function| function.relaxed_ordering),
            }
        };
        let gpus = self.functions.iter().filter(|(_, it)| it.is_gpu());
        let gpus =
            gpus.map(|(&address, it)| function(address, it.link_target.unwrap_or_default(), true));
        let may_be_infiniband = |adapter: &&Adapter<'a>| {
            let mut layers = adapter
                .ports
                .values()
                .map(|port| port.get("link_layer"))
                .map(|layer| layer.map(|&(_, layer)| layer));
            layers.any(|layer| layer != Some("Ethernet"))
        };
        let adapters = self
            .adapters
            .values()
            .filter(may_be_infiniband)
            .filter_map(|adapter| {
                let (address, _) = adapter.pci?;
                Some(function(address, self.place_of(adapter), false))
            });
        let functions: Vec<_> = gpus.chain(adapters).collect();
        let redirects = |bridge| {
            let bridge = self.functions.get(&bridge);
            bridge.is_some_and(|bridge| bridge.has_acs_redirect)
        };
        settings(&functions, redirects)
    }

    /// The maximum link that both a function and the bridge above it support; `None` if the
    /// maximum of either end is unknown.
    fn max_common_link(&self, function: &Function<'a>) -> Option<PcieLink> {
        let bridge = function.link_target?.rsplit('/').nth(1)?.parse().ok()?;
        let bridge: &Function<'a> = self.functions.get(&bridge)?;
        Some(function.max_link()?.with(bridge.max_link()?))
    }

    /// Builds the inventory. The outer error is an invalid attribute of a port, the inner error an
    /// invalid inventory.
    fn into_inventory(
        self,
    ) -> Result<Result<HostInventory, crate::inventory::InventoryError>, ImportError> {
        let mut devices = FoundDevices::default();
        let mut bridge_numbers = BridgeNumbers::default();
        for (&address, function) in &self.functions {
            if function.is_gpu() {
                let path =
                    bridge_numbers.path(function.link_target.unwrap_or_default(), function.numa);
                let gpu = Gpu {
                    pci: Some(address),
                    pcie: function.link(true),
                    pcie_max: self.max_common_link(function),
                    numa: function.numa,
                    ..Gpu::default()
                };
                devices.gpus.push((gpu, path));
            }
        }
        for (Natural(_, _, device), adapter) in &self.adapters {
            let function = adapter
                .pci
                .and_then(|(address, _)| self.functions.get(&address));
            let numa = function.and_then(|function| function.numa);
            let path = bridge_numbers.path(self.place_of(adapter), numa);
            for (&number, attributes) in &adapter.ports {
                let mut port = port(attributes)?;
                port.device = Some((*device).to_owned());
                port.port = number;
                port.numa = numa;
                port.pci = adapter.pci.map(|(address, _)| address);
                port.pcie = function.and_then(|function| function.link(false));
                port.pcie_max = function.and_then(|function| self.max_common_link(function));
                port.virtual_function = function.is_some_and(|function| function.is_virtual);
                port.data_direct = adapter.data_direct.is_some();
                port.node_guid = adapter.node_guid;
                port.system_image_guid = adapter.system_image_guid;
                port.firmware = adapter.firmware.map(str::to_owned);
                devices.ports.push((port, path.clone()));
            }
        }
        let host = devices.into_host(InventorySource::Sysfs, Switches::TwoBridges, false);
        let settings = self.pcie_settings();
        Ok(host.map(|mut host| {
            host.pcie_settings = settings;
            host.machine = self.machine.map(str::to_owned);
            host.domain = self.domain;
            host
        }))
    }
}

/// The numbers of host bridges and bridges by name; a name is unique within a machine.
#[derive(Default)]
struct BridgeNumbers<'a>(BTreeMap<&'a str, u32>);

impl<'a> BridgeNumbers<'a> {
    /// The number of a bridge; a new number for a new name.
    fn number(&mut self, name: &'a str) -> u32 {
        // The length of the file bounds the number of names.
        let next = self.0.len() as u32;
        *self.0.entry(name).or_insert(next)
    }

    /// Splits the target of a function's link, such as
    /// `/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0`, into host bridge, bridges and function.
    fn path(&mut self, link_target: &'a str, numa: Option<u16>) -> Path {
        let mut path = Path {
            numa,
            ..Path::default()
        };
        let mut parts = host_bridge_on(link_target).peekable();
        path.root = parts.next().map(|root| self.number(root));
        while let Some(part) = parts.next() {
            if parts.peek().is_some() {
                path.bridges.push(self.number(part));
            }
        }
        path
    }
}

/// Reads a port from its attributes; unknown attributes are ignored.
fn port(attributes: &Attributes<'_>) -> Result<HcaPort, ImportError> {
    let mut port = HcaPort::new(None);
    for (&name, &(line, value)) in attributes {
        let invalid_value = |what| {
            let value = shown(value);
            ImportError::new(line, ImportReason::Value { value, what })
        };
        match name {
            "link_layer" => {
                port.link_layer = match value {
                    "InfiniBand" => Some(LinkLayer::InfiniBand),
                    "Ethernet" => Some(LinkLayer::Ethernet),
                    _ => None,
                };
            }
            // Example: "4: ACTIVE".
            "state" => port.active = Some(value.starts_with('4')),
            // Examples: "400 Gb/sec (4X NDR)", "2.5 Gb/sec (1X SDR)".
            "rate" => {
                let number = value.split_whitespace().next().unwrap_or_default();
                let integer = number.split('.').next().unwrap_or_default();
                port.gbps = Some(
                    integer
                        .parse()
                        .map_err(|_| invalid_value("a rate in Gb/sec"))?,
                );
            }
            "gid" => {
                port.port_guid = guid_of_gid(value).ok_or_else(|| invalid_value("a GID"))?;
            }
            _ => {}
        }
    }
    Ok(port)
}
