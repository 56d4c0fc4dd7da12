//! Merges the inventories of one host from several sources, such as a matrix and a list of GUIDs.

use super::{Gpu, HcaPort, HostInventory, LinkFamily, NvLink};

/// A disagreement between two sources; the first source's value is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// The name of the device.
    pub device: String,
    /// The name of the property.
    pub what: &'static str,
    /// The value of the first source, which is kept.
    pub kept: String,
    /// The value of the later source.
    pub other: String,
}

impl HostInventory {
    /// Adds another source's inventory of the same host. Known values do not change.
    ///
    /// Two GPUs are the same GPU if they have the same PCI address or, if a GPU lacks an address,
    /// the same index. Two ports are the same port if they have the same port number and the same
    /// device or, if a port lacks a device, the same PCI address.
    ///
    /// Returns the conflicts between the two inventories.
    pub fn merge(&mut self, other: &HostInventory) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        let before = self.gpus.len();
        let gpus: Vec<usize> = other
            .gpus
            .iter()
            .map(|gpu| self.merge_gpu(gpu, &mut conflicts))
            .collect();
        let ports: Vec<usize> = other
            .hca_ports
            .iter()
            .map(|port| self.merge_port(port, &mut conflicts))
            .collect();
        for (theirs, &gpu) in gpus.iter().enumerate() {
            for (their_port, &port) in ports.iter().enumerate() {
                let tier = other.tier(theirs, their_port);
                let at = gpu * self.hca_ports.len() + port;
                let device = format!(
                    "GPU{} {}",
                    self.gpus[gpu].index,
                    self.hca_ports[port].label()
                );
                merge_value(&mut self.tiers[at], tier, &device, "tier", &mut conflicts);
            }
        }
        self.merge_links(other, before, &gpus, &mut conflicts);
        merge_value(
            &mut self.machine,
            other.machine.clone(),
            "host",
            "machine",
            &mut conflicts,
        );
        merge_value(
            &mut self.domain,
            other.domain.clone(),
            "host",
            "NVLink domain",
            &mut conflicts,
        );
        self.pcie_settings.merge(&other.pcie_settings);
        let members = other.unknown_members.iter().cloned();
        self.unknown_members.extend(members);
        self.unknown_members.sort();
        self.unknown_members.dedup();
        self.sort_gpus();
        conflicts
    }

    /// Adds links of GPUs that only the other source has, or all links if this inventory lists
    /// none. The first `before` GPUs are this inventory's; `gpus` maps the other's positions.
    fn merge_links(
        &mut self,
        other: &HostInventory,
        before: usize,
        gpus: &[usize],
        conflicts: &mut Vec<Conflict>,
    ) {
        let plain = LinkFamily::NvLink { generation: None };
        if self.link_family == plain {
            self.link_family = other.link_family;
        } else if other.link_family != plain && other.link_family != self.link_family {
            conflicts.push(Conflict {
                device: "host".to_owned(),
                what: "kind of links",
                kept: self.link_family.to_string(),
                other: other.link_family.to_string(),
            });
        }
        if !other.nvlinks_known {
            self.nvlinks_unclear |= other.nvlinks_unclear && !self.nvlinks_known;
            return;
        }
        self.nvlinks_unclear = false;
        let was_known = std::mem::replace(&mut self.nvlinks_known, true);
        let mut added = Vec::new();
        for first in 0..gpus.len() {
            for second in first + 1..gpus.len() {
                let (a, b) = (gpus[first].min(gpus[second]), gpus[first].max(gpus[second]));
                let links = other.links_between(first, second);
                let mine = self.links_between(a, b);
                if (!was_known || b >= before) && links > 0 {
                    // Positions in a list of at most MAX_GPUS fit 16 bits.
                    let (a, b) = (a as u16, b as u16);
                    added.push(NvLink { a, b, links });
                } else if was_known && b < before && links != mine {
                    let index = |gpu: usize| self.gpus[gpu].index;
                    conflicts.push(Conflict {
                        device: format!("GPU{} GPU{}", index(a), index(b)),
                        what: "number of links",
                        kept: mine.to_string(),
                        other: links.to_string(),
                    });
                }
            }
        }
        self.nvlinks.extend(added);
        self.nvlinks.sort_unstable_by_key(|link| (link.a, link.b));
    }

    /// Adds a GPU of another source, or only its properties if this inventory has the GPU. Returns
    /// its position in [`Self::gpus`].
    fn merge_gpu(&mut self, gpu: &Gpu, conflicts: &mut Vec<Conflict>) -> usize {
        let same = |mine: &Gpu| match (mine.pci, gpu.pci) {
            (Some(mine), Some(theirs)) => mine == theirs,
            _ => mine.index == gpu.index,
        };
        let Some(at) = self.gpus.iter().position(same) else {
            self.gpus.push(gpu.clone());
            self.tiers
                .resize(self.gpus.len() * self.hca_ports.len(), None);
            return self.gpus.len() - 1;
        };
        let mine = &mut self.gpus[at];
        let device = format!("GPU{}", mine.index);
        merge_value(&mut mine.uuid, gpu.uuid.clone(), &device, "UUID", conflicts);
        merge_value(
            &mut mine.model,
            gpu.model.clone(),
            &device,
            "model",
            conflicts,
        );
        merge_value(&mut mine.numa, gpu.numa, &device, "NUMA node", conflicts);
        merge_value(&mut mine.pci, gpu.pci, &device, "PCI address", conflicts);
        let links = [
            (&mut mine.pcie, gpu.pcie, "PCIe link"),
            (&mut mine.pcie_max, gpu.pcie_max, "widest PCIe link"),
        ];
        for (mine, theirs, what) in links {
            merge_value(mine, theirs, &device, what, conflicts);
        }
        let (links, theirs) = (&mut mine.switch_links, gpu.switch_links);
        merge_value(links, theirs, &device, "NVLinks to switches", conflicts);
        let (c2c, theirs) = (&mut mine.c2c_gbytes, gpu.c2c_gbytes);
        merge_value(c2c, theirs, &device, "C2C bandwidth", conflicts);
        merge_value(&mut mine.gdr, gpu.gdr, &device, "GPUDirect RDMA", conflicts);
        at
    }

    /// Adds a port of another source, or only its properties if this inventory has the port.
    /// Returns its position in [`Self::hca_ports`].
    fn merge_port(&mut self, port: &HcaPort, conflicts: &mut Vec<Conflict>) -> usize {
        let found = self.hca_ports.iter().position(|mine| mine.is_same(port));
        let Some(at) = found else {
            return self.add_port(port.clone());
        };
        self.hca_ports[at].merge(port, conflicts);
        at
    }

    /// Adds a port with unknown tiers; returns its position in [`Self::hca_ports`].
    fn add_port(&mut self, port: HcaPort) -> usize {
        let before = self.hca_ports.len();
        self.hca_ports.push(port);
        let row = |gpu| (0..=before).map(move |port| (gpu, port));
        let cells = (0..self.gpus.len()).flat_map(row);
        let old = &self.tiers;
        self.tiers = cells
            .map(|(gpu, port)| (port < before).then(|| old[gpu * before + port]).flatten())
            .collect();
        before
    }

    /// Removes the GPU at a position, with its tiers and links.
    pub fn remove_gpu(&mut self, gpu: usize) {
        if gpu >= self.gpus.len() {
            return;
        }
        let ports = self.hca_ports.len();
        self.gpus.remove(gpu);
        self.tiers.drain(gpu * ports..(gpu + 1) * ports);
        self.nvlinks
            .retain(|link| usize::from(link.a) != gpu && usize::from(link.b) != gpu);
        for link in &mut self.nvlinks {
            for end in [&mut link.a, &mut link.b] {
                *end -= u16::from(usize::from(*end) > gpu);
            }
        }
    }

    /// Sorts GPUs by index, and updates everything that refers to them by position.
    pub(crate) fn sort_gpus(&mut self) {
        let ports = self.hca_ports.len();
        let mut order: Vec<usize> = (0..self.gpus.len()).collect();
        order.sort_by_key(|&gpu| self.gpus[gpu].index);
        let mut place = vec![0u16; order.len()];
        for (new, &old) in order.iter().enumerate() {
            place[old] = new as u16;
        }
        self.gpus = order.iter().map(|&gpu| self.gpus[gpu].clone()).collect();
        self.tiers = order
            .iter()
            .flat_map(|&gpu| self.tiers[gpu * ports..(gpu + 1) * ports].to_vec())
            .collect();
        for link in &mut self.nvlinks {
            let ends = [place[usize::from(link.a)], place[usize::from(link.b)]];
            (link.a, link.b) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        }
        self.nvlinks.sort_unstable_by_key(|link| (link.a, link.b));
    }
}

impl HcaPort {
    /// Whether both entries describe the same port: by device and port number or, if a device is
    /// missing, by PCI address and port number.
    fn is_same(&self, other: &HcaPort) -> bool {
        self.port == other.port
            && match (&self.device, &other.device) {
                (Some(mine), Some(theirs)) => mine == theirs,
                _ => self.pci.is_some() && self.pci == other.pci,
            }
    }

    /// Adds properties of the same port from another source. Known values do not change.
    fn merge(&mut self, other: &HcaPort, conflicts: &mut Vec<Conflict>) {
        let device = self.label();
        merge_value(
            &mut self.device,
            other.device.clone(),
            &device,
            "device",
            conflicts,
        );
        merge_value(&mut self.numa, other.numa, &device, "NUMA node", conflicts);
        merge_value(&mut self.pci, other.pci, &device, "PCI address", conflicts);
        let guids = [
            (&mut self.node_guid, other.node_guid, "node GUID"),
            (
                &mut self.system_image_guid,
                other.system_image_guid,
                "system image GUID",
            ),
            (&mut self.port_guid, other.port_guid, "port GUID"),
        ];
        for (mine, theirs, what) in guids {
            merge_value(mine, theirs, &device, what, conflicts);
        }
        merge_value(
            &mut self.link_layer,
            other.link_layer,
            &device,
            "link layer",
            conflicts,
        );
        let links = [
            (&mut self.pcie, other.pcie, "PCIe link"),
            (&mut self.pcie_max, other.pcie_max, "widest PCIe link"),
        ];
        for (mine, theirs, what) in links {
            merge_value(mine, theirs, &device, what, conflicts);
        }
        let (firmware, theirs) = (&mut self.firmware, other.firmware.clone());
        merge_value(firmware, theirs, &device, "firmware", conflicts);
        merge_value(
            &mut self.gbps,
            other.gbps,
            &device,
            "rate in Gb/s",
            conflicts,
        );
        merge_value(
            &mut self.active,
            other.active,
            &device,
            "active state",
            conflicts,
        );
        merge_value(
            &mut self.gdr,
            other.gdr,
            &device,
            "GPUDirect RDMA",
            conflicts,
        );
        self.data_direct |= other.data_direct;
        self.virtual_function |= other.virtual_function;
    }
}

/// Sets `mine` to `theirs` if `mine` is unknown. Records a conflict if both are known and differ.
fn merge_value<T: PartialEq + ToString>(
    mine: &mut Option<T>,
    theirs: Option<T>,
    device: &str,
    what: &'static str,
    conflicts: &mut Vec<Conflict>,
) {
    match (&mine, &theirs) {
        (None, _) => *mine = theirs,
        (Some(kept), Some(other)) if kept != other => conflicts.push(Conflict {
            device: device.to_owned(),
            what,
            kept: kept.to_string(),
            other: other.to_string(),
        }),
        _ => {}
    }
}
