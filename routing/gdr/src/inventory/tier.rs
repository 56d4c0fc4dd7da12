use std::fmt;
use std::str::FromStr;

/// How far apart two PCIe functions of a host are, nearest first: the bridges on the path between
/// them.
///
/// The names are those of `nvidia-smi topo`. A distance that a source does not state has no tier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Tier {
    /// At most one PCIe switch.
    Pix,
    /// Several PCIe switches, and no host bridge.
    Pxb,
    /// One host bridge of the processor.
    Phb,
    /// Host bridges of one NUMA node.
    Node,
    /// The interconnect between NUMA nodes.
    Sys,
}

impl Tier {
    /// Every tier, nearest first.
    pub const ALL: [Tier; 5] = [Tier::Pix, Tier::Pxb, Tier::Phb, Tier::Node, Tier::Sys];

    /// The worst tier over which NCCL uses GPUDirect RDMA by default.
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

    /// NCCL's name for it: NCCL's processors are NUMA nodes, so that it has no `NODE`.
    pub const fn nccl_level(self) -> &'static str {
        match self {
            Tier::Node => "PHB",
            _ => self.name(),
        }
    }

    /// Whether data need not cross the processor.
    pub const fn is_local(self) -> bool {
        matches!(self, Tier::Pix | Tier::Pxb)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The text names no tier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a PCIe tier: expected PIX, PXB, PHB, NODE or SYS")]
pub struct ParseTierError(pub String);

impl FromStr for Tier {
    type Err = ParseTierError;

    /// Also reads `SOC`, which drivers before 2017 print for `SYS`.
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
