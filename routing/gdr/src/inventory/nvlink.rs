use std::collections::BTreeMap;
use std::fmt;

use super::{HostInventory, PciAddress};

/// The kind of links between accelerators.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkFamily {
    /// NVLink, with its generation if the source states it or the GPU's model implies it.
    NvLink {
        /// 1 (P100) to 5 (B200).
        generation: Option<u8>,
    },
    /// AMD's Infinity Fabric links.
    Xgmi,
}

impl LinkFamily {
    /// The NVLink generation that a compute capability implies (60 for P100 … 103 for B300).
    pub const fn of_compute_capability(sm: u16) -> LinkFamily {
        LinkFamily::NvLink {
            generation: match sm {
                60..=69 => Some(1),
                70..=79 => Some(2),
                80..=89 => Some(3),
                90..=99 => Some(4),
                100..=109 => Some(5),
                _ => None,
            },
        }
    }
}

impl fmt::Display for LinkFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkFamily::NvLink { generation: None } => f.write_str("NVLink"),
            LinkFamily::NvLink {
                generation: Some(generation),
            } => write!(f, "NVLink {generation}"),
            LinkFamily::Xgmi => f.write_str("XGMI"),
        }
    }
}

/// The shape that the links between a host's GPUs form.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LinkShape {
    /// No GPU is linked to another.
    None,
    /// Every GPU reaches every other GPU with all of its links, through NVSwitches.
    Switched {
        /// The number of links from each GPU to the switches, by majority.
        links: u8,
    },
    /// Cables connect every GPU to every other GPU.
    FullMesh,
    /// Cables connect some pairs of GPUs: the hybrid cube mesh of DGX-1, or bridged pairs.
    PartialMesh,
}

impl fmt::Display for LinkShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkShape::None => f.write_str("none"),
            LinkShape::Switched { links } => write!(f, "switched, {links} links per GPU"),
            LinkShape::FullMesh => f.write_str("full mesh"),
            LinkShape::PartialMesh => f.write_str("partial mesh"),
        }
    }
}

/// The links between two GPUs of one host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NvLink {
    /// The lower of the two positions in [`HostInventory::gpus`](super::HostInventory::gpus).
    pub a: u16,
    /// The higher of the two positions.
    pub b: u16,
    /// The number of links bonded between the two GPUs, 1 to 18.
    pub links: u8,
}

/// GPUs that NVSwitches join, possibly across hosts. Fabric cluster and clique together are the
/// value of the Kubernetes label `nvidia.com/gpu.clique`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NvLinkDomain {
    /// The UUID of the cluster, made by the fabric manager.
    pub cluster_uuid: String,
    /// The clique within the cluster: GPUs of different cliques are not connected.
    pub clique_id: u32,
}

impl fmt::Display for NvLinkDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.cluster_uuid, self.clique_id)
    }
}

/// The links from a GPU to one peer, as the GPU's driver counts them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GpuLinks {
    /// The PCI address of the GPU.
    pub gpu: PciAddress,
    /// The GPU at the other end; `None` for an NVSwitch.
    pub target: Option<PciAddress>,
    /// The number of links.
    pub count: u8,
}

impl HostInventory {
    /// Adds links between GPUs, as counted at both ends, without links from and to GPUs that the
    /// inventory lacks. Two GPUs with links to NVSwitches reach each other with the lower of both
    /// counts.
    ///
    /// An empty list means that the source does not list NVLinks.
    pub fn add_links(&mut self, links: &[GpuLinks]) {
        let place: BTreeMap<PciAddress, u16> = (0u16..)
            .zip(&self.gpus)
            .filter_map(|(place, gpu)| Some((gpu.pci?, place)))
            .collect();
        let mut direct: BTreeMap<(u16, u16), [u16; 2]> = BTreeMap::new();
        let mut switched = vec![0u8; self.gpus.len()];
        for link in links {
            let Some(&from) = place.get(&link.gpu) else {
                continue;
            };
            match link.target {
                None => {
                    let sum = &mut switched[usize::from(from)];
                    *sum = sum.saturating_add(link.count);
                }
                Some(target) => {
                    let Some(&to) = place.get(&target) else {
                        continue;
                    };
                    let sides = direct.entry((from.min(to), from.max(to))).or_default();
                    let side = &mut sides[usize::from(from > to)];
                    *side = side.saturating_add(link.count.into());
                }
            }
        }
        self.nvlinks_known = !links.is_empty();
        for (a, gpu) in self.gpus.iter_mut().enumerate() {
            if switched.iter().any(|&links| links > 0) {
                gpu.switch_links = Some(switched[a]);
            }
        }
        for a in 0..switched.len() {
            for b in a + 1..switched.len() {
                let (one, two) = (a as u16, b as u16);
                let cabled = direct.get(&(one, two)).map_or(0, |sides| match sides {
                    // Some versions of the driver state a link at one end only.
                    [0, links] | [links, 0] => *links,
                    [up, down] => *up.min(down),
                });
                let links = u16::from(switched[a].min(switched[b])).max(cabled);
                if links > 0 {
                    let links = u8::try_from(links).unwrap_or(u8::MAX);
                    self.nvlinks.push(NvLink {
                        a: one,
                        b: two,
                        links,
                    });
                }
            }
        }
    }
}
