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

/// The most GPUs of one host. The largest single systems have 16; a rack of 72 is 18 hosts.
pub const MAX_GPUS: usize = 64;

/// The most ports of channel adapters of one host. 17 devices is the most seen; dual-port cards
/// double it.
pub const MAX_HCA_PORTS: usize = 64;

/// The longest name of a device, a machine type or a UUID, in bytes: the limit of sysfs names.
pub const MAX_NAME: usize = 64;

/// The most members of rsm's own format that an inventory may have and this version not know.
pub const MAX_UNKNOWN_MEMBERS: usize = 64;

/// Where an inventory comes from.
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
    /// `/sys` itself.
    Sysfs,
    /// rsm's own format.
    Json,
    /// Made for a simulation.
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

    /// The name that command lines have for it.
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

    /// The source with this name; `None` for one that only later versions know.
    pub fn named(name: &str) -> Option<InventorySource> {
        Self::ALL.into_iter().find(|source| source.name() == name)
    }
}

/// A GPU.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Gpu {
    /// The number that NVML gives it, from 0.
    pub index: u16,
    /// Where it is on PCIe.
    pub pci: Option<PciAddress>,
    /// The PCIe link at full speed: GPUs lower the speed while they are idle.
    pub pcie: Option<PcieLink>,
    /// The link that both its ends can have, where the source states both.
    pub pcie_max: Option<PcieLink>,
    /// `GPU-…`, as the driver prints it.
    pub uuid: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The NUMA node that it hangs off.
    pub numa: Option<u16>,
    /// How many NVLinks go to NVSwitches; `None` where the source does not mention switches.
    pub switch_links: Option<u8>,
    /// The bandwidth of a coherent link to the processor (GH200, GB200) in GB/s.
    pub c2c_gbytes: Option<u32>,
    /// Whether the driver can do GPUDirect RDMA at all.
    pub gdr: Option<bool>,
}

/// The protocol of an adapter port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkLayer {
    /// The protocol that rsm manages.
    InfiniBand,
    /// RoCE, EFA or plain Ethernet: never joined.
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

/// A port of a channel adapter, as its host sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HcaPort {
    /// The RDMA device (`mlx5_0`), where the source names it.
    pub device: Option<String>,
    /// The port of that device, from 1.
    pub port: u8,
    /// Where it is on PCIe.
    pub pci: Option<PciAddress>,
    /// The PCIe link.
    pub pcie: Option<PcieLink>,
    /// The link that both its ends can have, where the source states both.
    pub pcie_max: Option<PcieLink>,
    /// The NUMA node that it hangs off.
    pub numa: Option<u16>,
    /// The version of the adapter's firmware.
    pub firmware: Option<String>,
    /// The GUID of the node.
    pub node_guid: Option<Guid>,
    /// The GUID of the card, which all of its functions share.
    pub system_image_guid: Option<Guid>,
    /// The GUID of the port.
    pub port_guid: Option<Guid>,
    /// The protocol.
    pub link_layer: Option<LinkLayer>,
    /// The rate in Gb/s.
    pub gbps: Option<u32>,
    /// Whether the port is in the state Active.
    pub active: Option<bool>,
    /// Whether GPUDirect RDMA takes a PCIe function of its own (ConnectX-8 Data Direct), so that
    /// the tier of the function named here says little.
    pub data_direct: bool,
    /// Whether the driver can do GPUDirect RDMA with it.
    pub gdr: Option<bool>,
    /// Whether the source names it a virtual function (SR-IOV).
    pub virtual_function: bool,
}

impl HcaPort {
    /// Port 1 of a device without other properties.
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

    /// The device and, where it is not the first, the port: `mlx5_0`, `mlx5_0:2`, or the PCI
    /// address of a device without a name.
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

    /// Whether it can be a port of an InfiniBand subnet; true without a known protocol.
    pub fn may_be_infiniband(&self) -> bool {
        self.link_layer != Some(LinkLayer::Ethernet)
    }
}

/// The GPUs, ports and links of one host.
///
/// Valid by construction where an importer made it; see [`HostInventory::check`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostInventory {
    /// The source of this inventory.
    pub source: InventorySource,
    /// The product, for people and for machine types.
    pub machine: Option<String>,
    /// In ascending order of their indices.
    pub gpus: Vec<Gpu>,
    /// In the order of the source, which is the one in which software counts the devices.
    pub hca_ports: Vec<HcaPort>,
    /// The tier between each GPU and each port: `gpus × hca_ports`, by rows.
    pub tiers: Vec<Option<Tier>>,
    /// The kind of the links between GPUs.
    pub link_family: LinkFamily,
    /// The links between GPUs, ascending by their ends.
    pub nvlinks: Vec<NvLink>,
    /// Whether the source lists NVLinks at all, so that an empty list means none.
    pub nvlinks_known: bool,
    /// Whether the source lists no NVLinks and does not show whether it would: a matrix of
    /// `nvidia-smi topo` without its legend, as `-m` prints it on a host without NVLinks, and `-mp`
    /// on any.
    pub nvlinks_unclear: bool,
    /// The NVLink domain across hosts.
    pub domain: Option<NvLinkDomain>,
    /// Settings of PCIe that slow GPUDirect RDMA.
    pub pcie_settings: PcieSettings,
    /// Members and values of rsm's own format that this version does not know, by their paths
    /// (`gpus.NAME`), ascending: a newer rsm has written them, and nothing has read them.
    pub unknown_members: Vec<String>,
}

impl HostInventory {
    /// A host with nothing in it.
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

    /// How far a GPU and a port are apart, by their places in the lists. `None` where the source
    /// does not state it.
    pub fn tier(&self, gpu: usize, port: usize) -> Option<Tier> {
        let inside = port < self.hca_ports.len();
        let tier = self.tiers.get(gpu * self.hca_ports.len() + port);
        tier.copied().flatten().filter(|_| inside)
    }

    /// Whether a port is of a virtual function: the source states it, or it is a function that no
    /// adapter has as a physical one, beside function 0 of the same card.
    ///
    /// An adapter has at most two physical functions, .0 and .1; virtual ones follow, also as
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

    /// Whether two ports, by their places, are of one adapter: PCIe functions of one device, or ports
    /// of one function.
    pub fn share_adapter(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.hca_ports[one], &self.hca_ports[other]);
        let card = |port: &HcaPort| port.pci.map(|pci| (pci.domain, pci.bus, pci.device));
        let same_card = card(one).is_some() && card(one) == card(other);
        same_card || one.device.is_some() && one.device == other.device
    }

    /// The nearest any GPU is to a port.
    pub fn nearest_gpu(&self, port: usize) -> Option<Tier> {
        (0..self.gpus.len())
            .filter_map(|gpu| self.tier(gpu, port))
            .min()
    }

    /// The links between two GPUs, by their places in the list; 0 for none.
    pub fn links_between(&self, a: usize, b: usize) -> u8 {
        let key = |link: &NvLink| (usize::from(link.a), usize::from(link.b));
        let wanted = (a.min(b), a.max(b));
        self.nvlinks
            .binary_search_by_key(&wanted, key)
            .map_or(0, |at| self.nvlinks[at].links)
    }

    /// The links of one GPU to other GPUs, added up.
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
        let told = self
            .gpus
            .iter()
            .any(|gpu| gpu.switch_links.is_some_and(|links| links > 0));
        // More than a GPU has links for, if they were cables: they are one bundle to the switches.
        let more_than_cables =
            self.gpus.len() > 2 && (0..self.gpus.len()).any(|gpu| self.links_of(gpu) > MOST_LINKS);
        if told || more_than_cables {
            LinkShape::Switched { links: width }
        } else if self.nvlinks.len() == pairs {
            LinkShape::FullMesh
        } else {
            LinkShape::PartialMesh
        }
    }

    /// The width that most linked pairs have; the wider where two are as frequent.
    fn usual_width(&self) -> u8 {
        let mut count = [0usize; 256];
        for link in &self.nvlinks {
            count[usize::from(link.links)] += 1;
        }
        (0..=u8::MAX)
            .max_by_key(|&width| (count[usize::from(width)], width))
            .unwrap_or(0)
    }

    /// The place of the GPU with an index.
    pub fn gpu_at(&self, index: u16) -> Option<usize> {
        self.gpus.binary_search_by_key(&index, |gpu| gpu.index).ok()
    }

    /// This host as a machine type, without properties of one machine (GUIDs, UUIDs, domain,
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

/// The most NVLinks that any GPU has (H100, B200).
const MOST_LINKS: u32 = 18;
