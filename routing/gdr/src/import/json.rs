//! rsm's own format: everything that an inventory can say, one object of JSON.
//!
//! Version 1. Members that are not known are refused, so that a misspelt one is not lost.

use rsm_ids::Guid;
use serde::{Deserialize, Serialize};

use super::error::{ImportError, ImportReason, shown};
use crate::inventory::{
    Gpu, HcaPort, HostInventory, InventorySource, LinkFamily, LinkLayer, NvLink, NvLinkDomain,
};

const VERSION: u64 = 1;

/// The expected form of a PCIe link.
const PCIE_LINK: &str = "a PCIe link, like x16 32.0 GT/s";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Host {
    version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nvlink_domain: Option<String>,
    #[serde(default)]
    gpus: Vec<GpuEntry>,
    #[serde(default)]
    hca_ports: Vec<PortEntry>,
    /// One row for each GPU, one name for each port; `null` where nothing is known.
    #[serde(default)]
    tiers: Vec<Vec<Option<String>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    links: Option<Links>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    link_layer: Option<Layer>,
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

#[derive(Serialize, Deserialize, Clone, Copy)]
enum Layer {
    InfiniBand,
    Ethernet,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Links {
    family: Family,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generation: Option<u8>,
    /// Index of a GPU, index of another, links between the two; left out where not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pairs: Option<Vec<(u16, u16, u8)>>,
}

#[derive(Serialize, Deserialize)]
enum Family {
    NVLink,
    #[serde(rename = "XGMI")]
    Xgmi,
}

pub(super) fn read(text: &str) -> Result<HostInventory, ImportError> {
    let host: Host = serde_json::from_str(text).map_err(|error| {
        let line = u32::try_from(error.line()).unwrap_or(u32::MAX).max(1);
        ImportError::new(line, ImportReason::Json(error.to_string()))
    })?;
    // The parser keeps no lines of its values; the error names the value.
    let last = super::line_of(text.as_bytes());
    model(host).map_err(|reason| ImportError::new(last, reason))
}

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

fn model(file: Host) -> Result<HostInventory, ImportReason> {
    if file.version != VERSION {
        return Err(ImportReason::Version(file.version));
    }
    let mut host = HostInventory::empty(InventorySource::Json);
    host.machine = file.machine;
    if let Some(text) = &file.nvlink_domain {
        let bad = || ImportReason::Value {
            value: shown(text),
            what: "cluster UUID and clique",
        };
        let (cluster, clique) = text.rsplit_once('.').ok_or_else(bad)?;
        host.domain = Some(NvLinkDomain {
            cluster_uuid: cluster.to_owned(),
            clique_id: clique.parse().map_err(|_| bad())?,
        });
    }
    for gpu in file.gpus {
        host.gpus.push(Gpu {
            index: gpu.index,
            pci: parse(gpu.pci.as_ref(), "a PCI address")?,
            pcie: parse(gpu.pcie.as_ref(), PCIE_LINK)?,
            pcie_max: parse(gpu.pcie_max.as_ref(), PCIE_LINK)?,
            uuid: gpu.uuid,
            model: gpu.model,
            numa: gpu.numa,
            switch_links: gpu.switch_links,
            c2c_gbytes: gpu.c2c_gbytes,
            gdr: gpu.gdr,
        });
    }
    for port in file.hca_ports {
        let guid = |text: &Option<String>| parse::<Guid>(text.as_ref(), "a GUID");
        host.hca_ports.push(HcaPort {
            port: port.port,
            pci: parse(port.pci.as_ref(), "a PCI address")?,
            pcie: parse(port.pcie.as_ref(), PCIE_LINK)?,
            pcie_max: parse(port.pcie_max.as_ref(), PCIE_LINK)?,
            numa: port.numa,
            firmware: port.firmware,
            node_guid: guid(&port.node_guid)?,
            system_image_guid: guid(&port.system_image_guid)?,
            port_guid: guid(&port.port_guid)?,
            link_layer: port.link_layer.map(|layer| match layer {
                Layer::InfiniBand => LinkLayer::InfiniBand,
                Layer::Ethernet => LinkLayer::Ethernet,
            }),
            gbps: port.gbps,
            active: port.active,
            data_direct: port.data_direct,
            gdr: port.gdr,
            virtual_function: port.virtual_function,
            device: port.device,
        });
    }
    let ports = host.hca_ports.len();
    if file.tiers.len() != host.gpus.len() || file.tiers.iter().any(|row| row.len() != ports) {
        let value = format!("{} rows", file.tiers.len());
        return Err(ImportReason::Value {
            value,
            what: "tiers, a row for each GPU, a name for each port",
        });
    }
    for tier in file.tiers.iter().flatten() {
        host.tiers.push(parse(tier.as_ref(), "a PCIe tier")?);
    }
    if let Some(links) = file.links {
        host.nvlinks_known = links.pairs.is_some();
        host.link_family = match links.family {
            Family::NVLink => LinkFamily::NvLink {
                generation: links.generation,
            },
            Family::Xgmi => LinkFamily::Xgmi,
        };
        for (a, b, links) in links.pairs.unwrap_or_default() {
            let [Some(a), Some(b)] = [host.gpu_at(a), host.gpu_at(b)] else {
                let value = format!("GPU{a} and GPU{b}");
                return Err(ImportReason::Value {
                    value,
                    what: "ends of a link",
                });
            };
            // Places of GPUs that have a number of 16 bits.
            let (a, b) = (a.min(b) as u16, a.max(b) as u16);
            host.nvlinks.push(NvLink { a, b, links });
        }
        host.nvlinks.sort_unstable_by_key(|link| (link.a, link.b));
    }
    Ok(host)
}

/// The inventory in rsm's own format; read again, it is the same but for its source.
pub fn to_json(host: &HostInventory) -> String {
    let ports = host.hca_ports.len();
    let guid = |guid: Option<Guid>| guid.map(|guid| guid.to_string());
    let index = |place: u16| host.gpus[usize::from(place)].index;
    let pair = |link: &NvLink| (index(link.a), index(link.b), link.links);
    let file = Host {
        version: VERSION,
        machine: host.machine.clone(),
        nvlink_domain: host.domain.as_ref().map(ToString::to_string),
        gpus: host
            .gpus
            .iter()
            .map(|gpu| GpuEntry {
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
            })
            .collect(),
        hca_ports: host
            .hca_ports
            .iter()
            .map(|port| PortEntry {
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
                link_layer: port.link_layer.map(|layer| match layer {
                    LinkLayer::InfiniBand => Layer::InfiniBand,
                    LinkLayer::Ethernet => Layer::Ethernet,
                }),
                gbps: port.gbps,
                active: port.active,
                data_direct: port.data_direct,
                gdr: port.gdr,
                virtual_function: port.virtual_function,
            })
            .collect(),
        tiers: (0..host.gpus.len())
            .map(|gpu| {
                (0..ports)
                    .map(|port| host.tier(gpu, port).map(|tier| tier.to_string()))
                    .collect()
            })
            .collect(),
        links: Some(Links {
            family: match host.link_family {
                LinkFamily::NvLink { .. } => Family::NVLink,
                LinkFamily::Xgmi => Family::Xgmi,
            },
            generation: match host.link_family {
                LinkFamily::NvLink { generation } => generation,
                LinkFamily::Xgmi => None,
            },
            pairs: host
                .nvlinks_known
                .then(|| host.nvlinks.iter().map(pair).collect()),
        }),
    };
    // Plain structures with text as their only keys cannot fail to be written.
    serde_json::to_string_pretty(&file).unwrap_or_default()
}
