use std::fmt;
use std::str::FromStr;

/// The distance between two PCIe functions of a host, by the bridges on the path between them;
/// nearest first.
///
/// `nvidia-smi topo` uses the same names. If a source does not state a distance, there is no
/// tier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Tier {
    /// The path has at most one PCIe switch.
    Pix,
    /// The path has several PCIe switches, and no host bridge.
    Pxb,
    /// The path crosses one host bridge of the processor.
    Phb,
    /// The path crosses host bridges of one NUMA node.
    Node,
    /// The path crosses the interconnect between NUMA nodes.
    Sys,
}

impl Tier {
    /// All tiers, nearest first.
    pub const ALL: [Tier; 5] = [Tier::Pix, Tier::Pxb, Tier::Phb, Tier::Node, Tier::Sys];

    /// The farthest tier over which NCCL uses GPUDirect RDMA by default.
    pub const GDR_LIMIT: Tier = Tier::Pxb;

    /// The name: `PIX`, `PXB`, `PHB`, `NODE` or `SYS`.
    pub const fn name(self) -> &'static str {
        match self {
            Tier::Pix => "PIX",
            Tier::Pxb => "PXB",
            Tier::Phb => "PHB",
            Tier::Node => "NODE",
            Tier::Sys => "SYS",
        }
    }

    /// NCCL's name of the tier. NCCL's processors are NUMA nodes, so that it has no `NODE`.
    pub const fn nccl_level(self) -> &'static str {
        match self {
            Tier::Node => "PHB",
            _ => self.name(),
        }
    }

    /// Whether data can pass without crossing the processor.
    pub const fn is_local(self) -> bool {
        matches!(self, Tier::Pix | Tier::Pxb)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error for a text that names no tier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a PCIe tier: expected PIX, PXB, PHB, NODE or SYS")]
pub struct ParseTierError(pub String);

impl FromStr for Tier {
    type Err = ParseTierError;

    /// Parses a tier; `SOC`, which drivers before 2017 print, means `SYS`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "SOC" {
            return Ok(Tier::Sys);
        }
        Tier::ALL
            .into_iter()
            .find(|tier| tier.name() == text)
            .ok_or_else(|| ParseTierError(text.to_owned()))
    }
}
