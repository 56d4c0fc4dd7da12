//! Reads and writes rsm's own format: a complete inventory as one JSON object.
//!
//! The version is 1. A newer rsm adds members without a new version: unknown members are recorded
//! by name ([`HostInventory::unknown_members`]), so that neither new nor misspelt members are lost
//! without notice. The version changes if an older rsm would misread the file, and must refuse it.

mod unknown;

use std::collections::BTreeSet;

use rsm_ids::Guid;
use serde::{Deserialize, Serialize};

use self::unknown::{Noted, plain};
use super::error::{ImportError, ImportReason, shown};
use crate::inventory::{
    Gpu, HcaPort, HostInventory, InventorySource, LinkFamily, LinkLayer, NvLink, NvLinkDomain,
    PciAddress, PcieSettings,
};

const VERSION: u64 = 1;

/// The expected form of a PCIe link.
const PCIE_LINK: &str = "a PCIe link, like x16 32.0 GT/s";

/// The whole file. The members mean what the fields of [`HostInventory`] mean.
#[derive(Serialize, Deserialize)]
struct Host {
    version: u64,
    /// The source from which this file was made; `None` for a file written by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nvlink_domain: Option<String>,
    #[serde(default)]
    gpus: Vec<Noted<GpuEntry>>,
    #[serde(default)]
    hca_ports: Vec<Noted<PortEntry>>,
    /// One row for each GPU, with one tier for each port; `null` if unknown.
    #[serde(default)]
    tiers: Vec<Vec<Option<String>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    links: Option<Noted<Links>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pcie_settings: Option<Noted<SettingsEntry>>,
    /// The unknown members that the writer of this file had ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unknown_members: Vec<String>,
}

/// A GPU in the file; see [`Gpu`].
#[derive(Serialize, Deserialize)]
struct GpuEntry {
    index: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pci: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pcie: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pcie_max: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uuid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    numa: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    switch_links: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    c2c_gbytes: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gdr: Option<bool>,
}

/// A port of a channel adapter in the file; see [`HcaPort`].
#[derive(Serialize, Deserialize)]
struct PortEntry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    port: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pci: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pcie: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pcie_max: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    numa: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    firmware: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node_guid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    system_image_guid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    port_guid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    link_layer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gbps: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    active: Option<bool>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    data_direct: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gdr: Option<bool>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    virtual_function: bool,
}

/// The PCI addresses of the functions with each setting.
#[derive(Serialize, Deserialize)]
struct SettingsEntry {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    acs_redirect: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    iommu_translated: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    strict_ordering: Vec<String>,
}

/// The links between GPUs in the file.
#[derive(Serialize, Deserialize)]
struct Links {
    family: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generation: Option<u8>,
    /// Triples of the index of a GPU, the index of another GPU, and the links between the two;
    /// absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pairs: Option<Vec<(u16, u16, u8)>>,
    /// Whether the source listed no links and did not show whether it lists links at all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unclear: bool,
}

/// The maximum number of members in an error: the first members explain it.
const MAX_NAMES: usize = 4;

/// The name of the link layer InfiniBand in the format.
const INFINIBAND: &str = "InfiniBand";
/// The name of the link layer Ethernet in the format.
const ETHERNET: &str = "Ethernet";

/// The name of the link family of NVIDIA in the format.
const NVLINK: &str = "NVLink";
/// The name of the link family of AMD in the format.
const XGMI: &str = "XGMI";

pub(super) fn read(text: &str) -> Result<HostInventory, ImportError> {
    let host: Noted<Host> = serde_json::from_str(text).map_err(|error| {
        let line = u32::try_from(error.line()).unwrap_or(u32::MAX).max(1);
        ImportError::new(line, ImportReason::Json(error.to_string()))
    })?;
    // The parser keeps no line numbers of values, so the error states the value.
    let last = super::line_of(text.as_bytes());
    model(host).map_err(|reason| ImportError::new(last, reason))
}

/// Parses an optional text; `what` is the expected kind of value.
fn parse<T: std::str::FromStr>(
    text: Option<&String>,
    what: &'static str,
) -> Result<Option<T>, ImportReason> {
    let Some(text) = text else { return Ok(None) };
    let bad = |_| ImportReason::Value {
        value: shown(text),
        what,
    };
    text.parse().map(Some).map_err(bad)
}

/// The paths of members and values that this version does not know.
#[derive(Default)]
struct UnknownMembers(BTreeSet<String>);

impl UnknownMembers {
    /// Returns the object at `path`, and records its unknown members.
    fn record_members<T>(&mut self, path: &str, object: Noted<T>) -> T {
        let names = object.unknown.iter();
        self.0.extend(names.map(|name| format!("{path}.{name}")));
        object.value
    }

    /// Records an unknown word at `path`, from a set of words that may grow.
    fn record_word(&mut self, path: &str, value: &str) {
        self.0.insert(format!("{path}:{}", plain(value)));
    }
}

/// Converts the parsed file into an inventory.
fn model(file: Noted<Host>) -> Result<HostInventory, ImportReason> {
    let mut unknown = UnknownMembers::default();
    let file = unknown.record_members("host", file);
    if file.version != VERSION {
        return Err(ImportReason::Version(file.version));
    }
    // A source that only later versions know becomes the source of this file.
    let source = file.source.as_deref().and_then(InventorySource::named);
    let mut host = HostInventory::empty(source.unwrap_or(InventorySource::Json));
    unknown.0.extend(file.unknown_members);
    host.machine = file.machine;
    host.domain = file.nvlink_domain.as_deref().map(domain).transpose()?;
    for entry in file.gpus {
        host.gpus.push(gpu(unknown.record_members("gpus", entry))?);
    }
    for entry in file.hca_ports {
        let entry = unknown.record_members("hca_ports", entry);
        host.hca_ports.push(port(entry, &mut unknown)?);
    }
    let ports = host.hca_ports.len();
    if file.tiers.len() != host.gpus.len() || file.tiers.iter().any(|row| row.len() != ports) {
        let mut value = format!("{} rows", file.tiers.len());
        if !unknown.0.is_empty() {
            let names: Vec<&str> = unknown
                .0
                .iter()
                .map(String::as_str)
                .take(MAX_NAMES)
                .collect();
            value += &format!(" beside {}, which is not known,", names.join(", "));
        }
        return Err(ImportReason::Value {
            value,
            what: "tiers, a row for each GPU, a name for each port",
        });
    }
    for tier in file.tiers.iter().flatten() {
        host.tiers.push(parse(tier.as_ref(), "a PCIe tier")?);
    }
    if let Some(entry) = file.links {
        links(
            unknown.record_members("links", entry),
            &mut host,
            &mut unknown,
        )?;
    }
    if let Some(entry) = file.pcie_settings {
        host.pcie_settings = settings(unknown.record_members("pcie_settings", entry))?;
    }
    host.unknown_members = unknown.0.into_iter().collect();
    Ok(host)
}

/// Converts the settings; the addresses may be in any order in the file.
fn settings(entry: SettingsEntry) -> Result<PcieSettings, ImportReason> {
    let addresses = |list: Vec<String>| -> Result<Vec<PciAddress>, ImportReason> {
        let each = list.iter().map(|text| parse(Some(text), "a PCI address"));
        let found: Vec<Option<PciAddress>> = each.collect::<Result<_, _>>()?;
        let ascending: BTreeSet<PciAddress> = found.into_iter().flatten().collect();
        Ok(ascending.into_iter().collect())
    };
    Ok(PcieSettings {
        acs_redirect: addresses(entry.acs_redirect)?,
        iommu_translated: addresses(entry.iommu_translated)?,
        strict_ordering: addresses(entry.strict_ordering)?,
    })
}

/// The settings in the form of the file; `None` if there are none.
fn settings_entry(settings: &PcieSettings) -> Option<Noted<SettingsEntry>> {
    let texts = |list: &[PciAddress]| list.iter().map(ToString::to_string).collect();
    let entry = SettingsEntry {
        acs_redirect: texts(&settings.acs_redirect),
        iommu_translated: texts(&settings.iommu_translated),
        strict_ordering: texts(&settings.strict_ordering),
    };
    (*settings != PcieSettings::default()).then(|| entry.into())
}

/// Parses an NVLink domain: a cluster UUID, a dot and the number of the clique.
fn domain(text: &str) -> Result<NvLinkDomain, ImportReason> {
    let bad = || ImportReason::Value {
        value: shown(text),
        what: "cluster UUID and clique",
    };
    let (cluster, clique) = text.rsplit_once('.').ok_or_else(bad)?;
    Ok(NvLinkDomain {
        cluster_uuid: cluster.to_owned(),
        clique_id: clique.parse().map_err(|_| bad())?,
    })
}

fn gpu(entry: GpuEntry) -> Result<Gpu, ImportReason> {
    Ok(Gpu {
        index: entry.index,
        pci: parse(entry.pci.as_ref(), "a PCI address")?,
        pcie: parse(entry.pcie.as_ref(), PCIE_LINK)?,
        pcie_max: parse(entry.pcie_max.as_ref(), PCIE_LINK)?,
        uuid: entry.uuid,
        model: entry.model,
        numa: entry.numa,
        switch_links: entry.switch_links,
        c2c_gbytes: entry.c2c_gbytes,
        gdr: entry.gdr,
    })
}

fn port(entry: PortEntry, unknown: &mut UnknownMembers) -> Result<HcaPort, ImportReason> {
    let guid = |text: &Option<String>| parse::<Guid>(text.as_ref(), "a GUID");
    Ok(HcaPort {
        port: entry.port,
        pci: parse(entry.pci.as_ref(), "a PCI address")?,
        pcie: parse(entry.pcie.as_ref(), PCIE_LINK)?,
        pcie_max: parse(entry.pcie_max.as_ref(), PCIE_LINK)?,
        numa: entry.numa,
        firmware: entry.firmware,
        node_guid: guid(&entry.node_guid)?,
        system_image_guid: guid(&entry.system_image_guid)?,
        port_guid: guid(&entry.port_guid)?,
        link_layer: match entry.link_layer.as_deref() {
            None => None,
            Some(INFINIBAND) => Some(LinkLayer::InfiniBand),
            Some(ETHERNET) => Some(LinkLayer::Ethernet),
            Some(other) => {
                unknown.record_word("hca_ports.link_layer", other);
                None
            }
        },
        gbps: entry.gbps,
        active: entry.active,
        data_direct: entry.data_direct,
        gdr: entry.gdr,
        virtual_function: entry.virtual_function,
        device: entry.device,
    })
}

/// Reads the links between the GPUs of a host; ignores links of an unknown family.
fn links(
    entry: Links,
    host: &mut HostInventory,
    unknown: &mut UnknownMembers,
) -> Result<(), ImportReason> {
    host.link_family = match entry.family.as_str() {
        NVLINK => LinkFamily::NvLink {
            generation: entry.generation,
        },
        XGMI => LinkFamily::Xgmi,
        other => {
            unknown.record_word("links.family", other);
            return Ok(());
        }
    };
    host.nvlinks_known = entry.pairs.is_some();
    host.nvlinks_unclear = entry.unclear && !host.nvlinks_known;
    for (a, b, links) in entry.pairs.unwrap_or_default() {
        let [Some(a), Some(b)] = [host.gpu_at(a), host.gpu_at(b)] else {
            let value = format!("GPU{a} and GPU{b}");
            return Err(ImportReason::Value {
                value,
                what: "ends of a link",
            });
        };
        // Positions of GPUs fit 16 bits, like their numbers.
        let (a, b) = (a.min(b) as u16, a.max(b) as u16);
        host.nvlinks.push(NvLink { a, b, links });
    }
    host.nvlinks.sort_unstable_by_key(|link| (link.a, link.b));
    Ok(())
}

/// The inventory in rsm's own format. Reading the text gives an equal inventory.
pub fn to_json(host: &HostInventory) -> String {
    // Serialising plain structures with text keys cannot fail.
    serde_json::to_string_pretty(&entry_of(host)).unwrap_or_default()
}

/// Writes the inventory as [`to_json`] does, without line breaks and indentation: half as long.
pub fn to_compact_json(host: &HostInventory) -> String {
    serde_json::to_string(&entry_of(host)).unwrap_or_default()
}

/// The inventory in the form of the file.
fn entry_of(host: &HostInventory) -> Host {
    let ports = host.hca_ports.len();
    let tier = |gpu: usize, port: usize| host.tier(gpu, port).map(|tier| tier.to_string());
    let row = |gpu: usize| (0..ports).map(|port| tier(gpu, port)).collect();
    Host {
        version: VERSION,
        source: (host.source != InventorySource::Json).then(|| host.source.name().to_owned()),
        machine: host.machine.clone(),
        nvlink_domain: host.domain.as_ref().map(ToString::to_string),
        gpus: host.gpus.iter().map(|gpu| gpu_entry(gpu).into()).collect(),
        hca_ports: host
            .hca_ports
            .iter()
            .map(|port| port_entry(port).into())
            .collect(),
        tiers: (0..host.gpus.len()).map(row).collect(),
        links: Some(links_entry(host).into()),
        pcie_settings: settings_entry(&host.pcie_settings),
        unknown_members: host.unknown_members.clone(),
    }
}

fn gpu_entry(gpu: &Gpu) -> GpuEntry {
    GpuEntry {
        index: gpu.index,
        pci: gpu.pci.map(|pci| pci.to_string()),
        pcie: gpu.pcie.map(|link| link.to_string()),
        pcie_max: gpu.pcie_max.map(|link| link.to_string()),
        uuid: gpu.uuid.clone(),
        model: gpu.model.clone(),
        numa: gpu.numa,
        switch_links: gpu.switch_links,
        c2c_gbytes: gpu.c2c_gbytes,
        gdr: gpu.gdr,
    }
}

fn port_entry(port: &HcaPort) -> PortEntry {
    let guid = |guid: Option<Guid>| guid.map(|guid| guid.to_string());
    let layer = port.link_layer.map(|layer| match layer {
        LinkLayer::InfiniBand => INFINIBAND,
        LinkLayer::Ethernet => ETHERNET,
    });
    PortEntry {
        device: port.device.clone(),
        port: port.port,
        pci: port.pci.map(|pci| pci.to_string()),
        pcie: port.pcie.map(|link| link.to_string()),
        pcie_max: port.pcie_max.map(|link| link.to_string()),
        numa: port.numa,
        firmware: port.firmware.clone(),
        node_guid: guid(port.node_guid),
        system_image_guid: guid(port.system_image_guid),
        port_guid: guid(port.port_guid),
        link_layer: layer.map(str::to_owned),
        gbps: port.gbps,
        active: port.active,
        data_direct: port.data_direct,
        gdr: port.gdr,
        virtual_function: port.virtual_function,
    }
}

/// The links in the form of the file.
fn links_entry(host: &HostInventory) -> Links {
    let index = |place: u16| host.gpus[usize::from(place)].index;
    let pair = |link: &NvLink| (index(link.a), index(link.b), link.links);
    let (family, generation) = match host.link_family {
        LinkFamily::NvLink { generation } => (NVLINK, generation),
        LinkFamily::Xgmi => (XGMI, None),
    };
    Links {
        family: family.to_owned(),
        generation,
        pairs: host
            .nvlinks_known
            .then(|| host.nvlinks.iter().map(pair).collect()),
        unclear: host.nvlinks_unclear,
    }
}
