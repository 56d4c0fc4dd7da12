use std::fmt;

/// The kind of links between accelerators.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkFamily {
    /// NVLink, with its generation where the source states it or the GPU's model implies it.
    NvLink {
        /// 1 (P100) to 5 (B200).
        generation: Option<u8>,
    },
    /// AMD's.
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
    /// Every GPU reaches every other with all of its links, through NVSwitches.
    Switched {
        /// How many links each GPU has to the switches, by the majority.
        links: u8,
    },
    /// Cables from GPU to GPU, between all of them.
    FullMesh,
    /// Cables from GPU to GPU, between some of them: the hybrid cube mesh of DGX-1, bridged pairs.
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
    /// The lower of the two places in [`HostInventory::gpus`](super::HostInventory::gpus).
    pub a: u16,
    /// The higher.
    pub b: u16,
    /// How many links are bonded between the two, 1 to 18.
    pub links: u8,
}

/// GPUs that NVSwitches join, also across hosts: fabric cluster and clique within it, which
/// together are the value of the Kubernetes label `nvidia.com/gpu.clique`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NvLinkDomain {
    /// The cluster's UUID, as the fabric manager made it.
    pub cluster_uuid: String,
    /// The clique: GPUs with different cliques are not connected.
    pub clique_id: u32,
}

impl fmt::Display for NvLinkDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.cluster_uuid, self.clique_id)
    }
}
