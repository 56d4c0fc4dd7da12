//! The inventory of one host: GPUs, ports of channel adapters, and the paths between them.

mod check;
mod merge;
mod nvlink;
mod pci;
mod pcie_settings;
mod tier;

pub use check::InventoryError;
pub(crate) use check::is_name;
pub use merge::Conflict;
pub use nvlink::{GpuLinks, LinkFamily, LinkShape, NvLink, NvLinkDomain};
pub use pci::{ParsePciAddressError, ParsePcieLinkError, PciAddress, PcieLink};
pub use pcie_settings::{MAX_PCIE_SETTINGS, PcieSettings};
pub use tier::{ParseTierError, Tier};

use std::fmt;

use rsm_ids::Guid;

/// The maximum number of GPUs of one host. The largest single systems have 16; a rack of 72 is 18
/// hosts.
pub const MAX_GPUS: usize = 64;

/// The maximum number of channel adapter ports of one host. The largest known host has 17 devices;
/// dual-port cards double that.
pub const MAX_HCA_PORTS: usize = 64;

/// The maximum length of a device name, a machine type or a UUID in bytes: the limit of sysfs
/// names.
pub const MAX_NAME: usize = 64;

/// The maximum number of unknown members of rsm's own format in one inventory.
pub const MAX_UNKNOWN_MEMBERS: usize = 64;

/// The source of an inventory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum InventorySource {
    /// `nvidia-smi topo -m` or `-mp`.
    NvidiaSmi,
    /// `amd-smi topology` or `rocm-smi --showtopo`.
    AmdSmi,
    /// NCCL's or RCCL's topology file.
    NcclXml,
    /// hwloc's export.
    Hwloc,
    /// The host's `/sys`.
    Sysfs,
    /// rsm's own format.
    Json,
    /// A generator, for a simulation.
    Generated,
}

impl InventorySource {
    /// Every source.
    pub const ALL: [InventorySource; 7] = [
        InventorySource::NvidiaSmi,
        InventorySource::AmdSmi,
        InventorySource::NcclXml,
        InventorySource::Hwloc,
        InventorySource::Sysfs,
        InventorySource::Json,
        InventorySource::Generated,
    ];

    /// The name of the source on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            InventorySource::NvidiaSmi => "nvidia-smi",
            InventorySource::AmdSmi => "amd-smi",
            InventorySource::NcclXml => "nccl-xml",
            InventorySource::Hwloc => "hwloc",
            InventorySource::Sysfs => "sysfs",
            InventorySource::Json => "json",
            InventorySource::Generated => "generated",
        }
    }

    /// The source with this name; `None` if this version knows no such source.
    pub fn named(name: &str) -> Option<InventorySource> {
        Self::ALL.into_iter().find(|source| source.name() == name)
    }
}

/// A GPU.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Gpu {
    /// The index that NVML assigns to the GPU, from 0.
    pub index: u16,
    /// The PCIe address.
    pub pci: Option<PciAddress>,
    /// The PCIe link at full speed, not at the lower speed of an idle GPU.
    pub pcie: Option<PcieLink>,
    /// The fastest PCIe link that both ends support; `None` unless the source states both ends.
    pub pcie_max: Option<PcieLink>,
    /// The UUID as the driver prints it, `GPU-…`.
    pub uuid: Option<String>,
    /// The name of the model.
    pub model: Option<String>,
    /// The NUMA node to which the GPU is attached.
    pub numa: Option<u16>,
    /// The number of NVLinks to NVSwitches; `None` if the source does not mention switches.
    pub switch_links: Option<u8>,
    /// The bandwidth of a coherent link to the processor (GH200, GB200) in GB/s.
    pub c2c_gbytes: Option<u32>,
    /// Whether the driver supports GPUDirect RDMA on this GPU.
    pub gdr: Option<bool>,
}

/// The protocol of an adapter port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkLayer {
    /// The protocol that rsm manages.
    InfiniBand,
    /// RoCE, EFA or plain Ethernet: such a port is never matched with a port of the fabric.
    Ethernet,
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LinkLayer::InfiniBand => "InfiniBand",
            LinkLayer::Ethernet => "Ethernet",
        })
    }
}

/// A port of a channel adapter as the host sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HcaPort {
    /// The RDMA device (`mlx5_0`); `None` if the source does not name it.
    pub device: Option<String>,
    /// The port number on the device, from 1.
    pub port: u8,
    /// The PCIe address of the device.
    pub pci: Option<PciAddress>,
    /// The PCIe link of the device.
    pub pcie: Option<PcieLink>,
    /// The fastest PCIe link that both ends support; `None` unless the source states both ends.
    pub pcie_max: Option<PcieLink>,
    /// The NUMA node to which the device is attached.
    pub numa: Option<u16>,
    /// The firmware version of the adapter.
    pub firmware: Option<String>,
    /// The node GUID.
    pub node_guid: Option<Guid>,
    /// The system image GUID of the card, common to all of its functions.
    pub system_image_guid: Option<Guid>,
    /// The port GUID.
    pub port_guid: Option<Guid>,
    /// The protocol; `None` if the source does not state it.
    pub link_layer: Option<LinkLayer>,
    /// The link rate in Gb/s.
    pub gbps: Option<u32>,
    /// Whether the port is in the state Active.
    pub active: Option<bool>,
    /// Whether GPUDirect RDMA uses a separate PCIe function (ConnectX-8 Data Direct), so that the
    /// tier of this function does not apply to GPUDirect RDMA.
    pub data_direct: bool,
    /// Whether the driver supports GPUDirect RDMA on this device.
    pub gdr: Option<bool>,
    /// Whether the source marks the device as a virtual function (SR-IOV).
    pub virtual_function: bool,
}

impl HcaPort {
    /// Creates port 1 of a device, without other properties.
    pub fn new(device: Option<String>) -> HcaPort {
        HcaPort {
            device,
            port: 1,
            pci: None,
            pcie: None,
            pcie_max: None,
            numa: None,
            firmware: None,
            node_guid: None,
            system_image_guid: None,
            port_guid: None,
            link_layer: None,
            gbps: None,
            active: None,
            data_direct: false,
            gdr: None,
            virtual_function: false,
        }
    }

    /// The device name, with the port number unless it is 1 (`mlx5_0`, `mlx5_0:2`). A device
    /// without a name has its PCI address instead.
    pub fn label(&self) -> String {
        let device = match (&self.device, self.pci) {
            (Some(device), _) => device.clone(),
            (None, Some(pci)) => pci.to_string(),
            (None, None) => "?".to_owned(),
        };
        match self.port {
            1 => device,
            port => format!("{device}:{port}"),
        }
    }

    /// Whether the port can belong to an InfiniBand subnet; true if the protocol is unknown.
    pub fn may_be_infiniband(&self) -> bool {
        self.link_layer != Some(LinkLayer::Ethernet)
    }
}

/// The GPUs, ports and links of one host.
///
/// Importers return only valid inventories; see [`HostInventory::check`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostInventory {
    /// The source of this inventory.
    pub source: InventorySource,
    /// The product name, for display and for machine types.
    pub machine: Option<String>,
    /// The GPUs, in ascending order of their indices.
    pub gpus: Vec<Gpu>,
    /// The adapter ports in the order of the source, which is the order in which software counts
    /// them.
    pub hca_ports: Vec<HcaPort>,
    /// The tier between each GPU and each port: `gpus × hca_ports`, by rows; `None` if unknown.
    pub tiers: Vec<Option<Tier>>,
    /// The kind of the links between GPUs.
    pub link_family: LinkFamily,
    /// The links between GPUs, sorted by their ends.
    pub nvlinks: Vec<NvLink>,
    /// Whether the source lists NVLinks at all, so that an empty list means none.
    pub nvlinks_known: bool,
    /// Whether the source lists no NVLinks and does not show whether it would list them. Such a
    /// source is the matrix of `nvidia-smi topo` without its legend:
    /// `-m` prints it on a host without NVLinks, `-mp` on every host.
    pub nvlinks_unclear: bool,
    /// The NVLink domain across hosts.
    pub domain: Option<NvLinkDomain>,
    /// Settings of PCIe that slow GPUDirect RDMA.
    pub pcie_settings: PcieSettings,
    /// Members and values of rsm's own format that this version does not know and ignores, sorted
    /// by their paths (`gpus.NAME`): a newer rsm has written them.
    pub unknown_members: Vec<String>,
}

impl HostInventory {
    /// Creates an inventory without GPUs, ports and links.
    pub fn empty(source: InventorySource) -> HostInventory {
        HostInventory {
            source,
            machine: None,
            gpus: Vec::new(),
            hca_ports: Vec::new(),
            tiers: Vec::new(),
            link_family: LinkFamily::NvLink { generation: None },
            nvlinks: Vec::new(),
            nvlinks_known: false,
            nvlinks_unclear: false,
            domain: None,
            pcie_settings: PcieSettings::default(),
            unknown_members: Vec::new(),
        }
    }

    /// The tier between a GPU and a port, given by their positions in the lists; `None` if the
    /// source does not state it.
    pub fn tier(&self, gpu: usize, port: usize) -> Option<Tier> {
        let inside = port < self.hca_ports.len();
        let tier = self.tiers.get(gpu * self.hca_ports.len() + port);
        tier.copied().flatten().filter(|_| inside)
    }

    /// Whether a port belongs to a virtual function: the source states it, or no adapter has a
    /// physical function of that number and function 0 of the same card is present.
    ///
    /// An adapter has at most two physical functions, .0 and .1. Virtual functions follow, also as
    /// further devices of the bus (ARI), with the card's system image GUID.
    pub fn is_virtual_function(&self, port: usize) -> bool {
        let entry = &self.hca_ports[port];
        let Some(pci) = entry.pci.filter(|_| !entry.data_direct) else {
            return entry.virtual_function;
        };
        let physical = |other: &HcaPort| {
            let Some(first) = other.pci.filter(|first| first.function == 0) else {
                return false;
            };
            let same_bus = (first.domain, first.bus) == (pci.domain, pci.bus);
            let same_card = other.system_image_guid.is_some()
                && other.system_image_guid == entry.system_image_guid;
            let beyond = match first.device == pci.device {
                true => pci.function > 1,
                false => first.device < pci.device && same_card,
            };
            same_bus && beyond && !other.virtual_function
        };
        entry.virtual_function || self.hca_ports.iter().any(physical)
    }

    /// Whether two ports, given by position, belong to one adapter: they are PCIe functions of one
    /// device, or ports of one function.
    pub fn share_adapter(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.hca_ports[one], &self.hca_ports[other]);
        let card = |port: &HcaPort| port.pci.map(|pci| (pci.domain, pci.bus, pci.device));
        let same_card = card(one).is_some() && card(one) == card(other);
        same_card || one.device.is_some() && one.device == other.device
    }

    /// The nearest tier between a port and any GPU; `None` if no tier is known.
    pub fn nearest_gpu(&self, port: usize) -> Option<Tier> {
        (0..self.gpus.len())
            .filter_map(|gpu| self.tier(gpu, port))
            .min()
    }

    /// The number of links between two GPUs, given by position.
    pub fn links_between(&self, a: usize, b: usize) -> u8 {
        let key = |link: &NvLink| (usize::from(link.a), usize::from(link.b));
        let wanted = (a.min(b), a.max(b));
        self.nvlinks
            .binary_search_by_key(&wanted, key)
            .map_or(0, |at| self.nvlinks[at].links)
    }

    /// The number of links from one GPU to all other GPUs.
    pub fn links_of(&self, gpu: usize) -> u32 {
        self.nvlinks
            .iter()
            .filter(|link| usize::from(link.a) == gpu || usize::from(link.b) == gpu)
            .map(|link| u32::from(link.links))
            .sum()
    }

    /// The shape that the links between the GPUs form.
    pub fn link_shape(&self) -> LinkShape {
        if self.nvlinks.is_empty() {
            return LinkShape::None;
        }
        let pairs = self.gpus.len() * self.gpus.len().saturating_sub(1) / 2;
        let width = self.usual_width();
        let has_switches = self
            .gpus
            .iter()
            .any(|gpu| gpu.switch_links.is_some_and(|links| links > 0));
        // A GPU with more links than it has connectors reaches its peers over one bundle to the
        // switches: each peer lists the whole bundle.
        let more_than_cables =
            self.gpus.len() > 2 && (0..self.gpus.len()).any(|gpu| self.links_of(gpu) > MAX_LINKS);
        if has_switches || more_than_cables {
            LinkShape::Switched { links: width }
        } else if self.nvlinks.len() == pairs {
            LinkShape::FullMesh
        } else {
            LinkShape::PartialMesh
        }
    }

    /// The most frequent number of links of a linked pair; the higher number on a tie.
    fn usual_width(&self) -> u8 {
        let mut count = [0usize; 256];
        for link in &self.nvlinks {
            count[usize::from(link.links)] += 1;
        }
        (0..=u8::MAX)
            .max_by_key(|&width| (count[usize::from(width)], width))
            .unwrap_or(0)
    }

    /// The position of the GPU with an index; `None` if no GPU has it.
    pub fn gpu_at(&self, index: u16) -> Option<usize> {
        self.gpus.binary_search_by_key(&index, |gpu| gpu.index).ok()
    }

    /// The inventory as a machine type, without properties of one machine (GUIDs, UUIDs, domain,
    /// state, settings).
    pub fn as_machine_type(&self) -> HostInventory {
        let mut machine = self.clone();
        machine.domain = None;
        machine.pcie_settings = PcieSettings::default();
        for gpu in &mut machine.gpus {
            gpu.uuid = None;
        }
        for port in &mut machine.hca_ports {
            port.node_guid = None;
            port.system_image_guid = None;
            port.port_guid = None;
            port.active = None;
            port.firmware = None;
        }
        machine
    }
}

/// The maximum number of NVLinks of any GPU (H100, B200).
pub(crate) const MAX_LINKS: u32 = 18;
