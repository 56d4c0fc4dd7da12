//! Versions of NCCL, and the settings that each version needs for a host.

use std::collections::BTreeSet;
use std::str::FromStr;

use super::Analysis;
use super::hints::{Gdr, GpuHint};

/// A version of NCCL: major, minor and patch number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NcclVersion(pub u32, pub u32, pub u32);

impl NcclVersion {
    /// The first version that reads rail and plane of a port.
    pub const RAILS: NcclVersion = NcclVersion(2, 30, 7);
    /// The first version that relays through another GPU (PXN).
    pub const RELAYS: NcclVersion = NcclVersion(2, 12, 0);
    /// The first version that continues with the other port of an adapter when one fails
    /// (`NCCL_IB_RESILIENCY_PORT_FAILOVER`).
    pub const FAILOVER: NcclVersion = NcclVersion(2, 29, 7);
    /// The first version that returns to such a port when it works again
    /// (`NCCL_IB_RESILIENCY_PORT_RECOVERY`).
    pub const RECOVERY: NcclVersion = NcclVersion(2, 30, 3);
    /// The first version that uses GPUDirect RDMA over a coherent link by default
    /// (`NCCL_NET_GDR_C2C`).
    pub const COHERENT: NcclVersion = NcclVersion(2, 27, 0);
}

/// The error for a text that is not a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a version of NCCL: expected three numbers, like 2.30.7")]
pub struct ParseVersionError(pub String);

impl FromStr for NcclVersion {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseVersionError(text.to_owned());
        let numbers: Vec<u32> = text
            .split('.')
            .map(|part| part.parse().map_err(|_| bad()))
            .collect::<Result<_, _>>()?;
        match numbers[..] {
            [major, minor, patch] => Ok(NcclVersion(major, minor, patch)),
            _ => Err(bad()),
        }
    }
}

/// The GPUs that need `NCCL_NET_GDR_LEVEL` for GPUDirect RDMA, by position.
///
/// A GPU with NVLinks to a GPU that uses GPUDirect RDMA at NCCL's limit does not need it: NCCL
/// relays through that GPU (PXN). With a coherent link, or with a PCIe function for GPUDirect RDMA,
/// the distance does not matter.
pub(crate) fn gpus_to_allow(
    analysis: &Analysis,
    place: usize,
    version: NcclVersion,
) -> BTreeSet<usize> {
    let inventory = &analysis.hosts[place].inventory;
    let hints = &analysis.hints[place];
    let by_itself = |hint: &GpuHint| match hint.gdr {
        Gdr::Coherent => version >= NcclVersion::COHERENT,
        gdr => gdr.is_expected(),
    };
    let relayed = |gpu: usize| {
        let relays = |other: &GpuHint| inventory.links_between(gpu, other.gpu) > 0;
        version >= NcclVersion::RELAYS
            && hints.iter().any(|other| by_itself(other) && relays(other))
    };
    hints
        .iter()
        .filter(|hint| matches!(hint.gdr, Gdr::WhenAllowed | Gdr::Coherent) && !by_itself(hint))
        .filter(|hint| !relayed(hint.gpu))
        .map(|hint| hint.gpu)
        .collect()
}
