//! Faults of hosts and cables, with evidence and advice.

mod host;
mod rail;

use std::fmt;

use rayon::prelude::*;

use super::Analysis;
use super::join::JoinConflict;

/// The subject of a finding. The names are stable: alerts are keyed by them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum GpuFindingKind {
    /// Two cables of compute ports are in each other's place.
    RailCablesSwapped,
    /// The cable of a compute port ends at a leaf that is not its rail's.
    RailCableMisplaced,
    /// GPUs are numbered in an order that crosses rails; the cables are right.
    RailOrderGpus,
    /// Adapters are named in an order that crosses rails; the cables are right.
    RailOrderHcas,
    /// Ports and rails do not fit, and the inventory does not tell cables from numbering.
    RailOrderUnknown,
    /// Two rails of a host end at one leaf.
    RailsShareLeaf,
    /// No port of the fabric is under the same PCIe switches as a GPU.
    GpuWithoutLocalHca,
    /// A GPU has a port under the same PCIe switches, and cannot use it.
    GdrTierPoor,
    /// NVLinks are missing.
    NvLinkDegraded,
    /// Adapters are all at other NUMA nodes than some GPUs.
    HcaOnWrongNuma,
    /// Ports of a host that are not in the fabric.
    Unjoined,
    /// Sources disagree on which port of the fabric a port is.
    JoinConflict,
    /// Two hosts claim the same port of the fabric.
    PortClaimedTwice,
    /// The inventory is old.
    StaleInventory,
}

impl GpuFindingKind {
    /// Every kind.
    pub const ALL: [GpuFindingKind; 14] = [
        GpuFindingKind::RailCablesSwapped,
        GpuFindingKind::RailCableMisplaced,
        GpuFindingKind::RailOrderGpus,
        GpuFindingKind::RailOrderHcas,
        GpuFindingKind::RailOrderUnknown,
        GpuFindingKind::RailsShareLeaf,
        GpuFindingKind::GpuWithoutLocalHca,
        GpuFindingKind::GdrTierPoor,
        GpuFindingKind::NvLinkDegraded,
        GpuFindingKind::HcaOnWrongNuma,
        GpuFindingKind::Unjoined,
        GpuFindingKind::JoinConflict,
        GpuFindingKind::PortClaimedTwice,
        GpuFindingKind::StaleInventory,
    ];

    /// The name, in lower case with hyphens.
    pub const fn name(self) -> &'static str {
        match self {
            GpuFindingKind::RailCablesSwapped => "rail-cables-swapped",
            GpuFindingKind::RailCableMisplaced => "rail-cable-misplaced",
            GpuFindingKind::RailOrderGpus => "rail-order-gpus",
            GpuFindingKind::RailOrderHcas => "rail-order-hcas",
            GpuFindingKind::RailOrderUnknown => "rail-order-unknown",
            GpuFindingKind::RailsShareLeaf => "rails-share-leaf",
            GpuFindingKind::GpuWithoutLocalHca => "gpu-without-local-hca",
            GpuFindingKind::GdrTierPoor => "gdr-tier-poor",
            GpuFindingKind::NvLinkDegraded => "nvlink-degraded",
            GpuFindingKind::HcaOnWrongNuma => "hca-on-wrong-numa",
            GpuFindingKind::Unjoined => "unjoined",
            GpuFindingKind::JoinConflict => "join-conflict",
            GpuFindingKind::PortClaimedTwice => "port-claimed-twice",
            GpuFindingKind::StaleInventory => "stale-inventory",
        }
    }

    /// How bad it is.
    pub const fn severity(self) -> GpuSeverity {
        match self {
            GpuFindingKind::RailCablesSwapped
            | GpuFindingKind::RailCableMisplaced
            | GpuFindingKind::NvLinkDegraded
            | GpuFindingKind::PortClaimedTwice => GpuSeverity::Error,
            GpuFindingKind::Unjoined | GpuFindingKind::StaleInventory => GpuSeverity::Info,
            _ => GpuSeverity::Warning,
        }
    }

    /// The advice for the operator.
    pub const fn advice(self) -> &'static str {
        match self {
            GpuFindingKind::RailCablesSwapped => "exchange the two cables at the leaves",
            GpuFindingKind::RailCableMisplaced => {
                "move the cable to a free port of the expected leaf"
            }
            GpuFindingKind::RailOrderGpus => {
                "use the exported rail list, or let CUDA count by PCI address (CUDA_DEVICE_ORDER=PCI_BUS_ID)"
            }
            GpuFindingKind::RailOrderHcas => {
                "use the exported NCCL_IB_HCA list, or NCCL_IB_DEVICE_PCI_ORDER=1, or name the devices by PCI address"
            }
            GpuFindingKind::RailOrderUnknown => {
                "import the host's own inventory, which tells the two apart"
            }
            GpuFindingKind::RailsShareLeaf => "cable one of the ports to a leaf of its own",
            GpuFindingKind::GpuWithoutLocalHca => {
                "allow GPUDirect RDMA over the tier (NCCL_NET_GDR_LEVEL); in a virtual machine, give NCCL the exported topology"
            }
            GpuFindingKind::GdrTierPoor => {
                "bring the port up, or leave the GPU out of jobs across hosts"
            }
            GpuFindingKind::NvLinkDegraded => {
                "look at `nvidia-smi nvlink --status` and the fabric manager; reset the GPU"
            }
            GpuFindingKind::HcaOnWrongNuma => "move an adapter to a slot of the other processor",
            GpuFindingKind::Unjoined => {
                "check the cable, or import a source that has GUIDs (sysfs)"
            }
            GpuFindingKind::JoinConflict => {
                "import the host again; an adapter may have been exchanged"
            }
            GpuFindingKind::PortClaimedTwice => {
                "forget the inventory of the host that the adapter has left"
            }
            GpuFindingKind::StaleInventory => "import the host again",
        }
    }
}

impl fmt::Display for GpuFindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum GpuSeverity {
    /// Information.
    Info,
    /// Costs bandwidth in some jobs.
    Warning,
    /// Something is broken.
    Error,
}

/// A port of a host, for people and tools.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortName {
    /// The host.
    pub host: String,
    /// The device and, where it is not the first, the port.
    pub device: String,
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.host, self.device)
    }
}

/// A fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GpuFinding {
    /// The kind of fault.
    pub kind: GpuFindingKind,
    /// The host; the first of two.
    pub host: String,
    /// The GPUs, by index.
    pub gpus: Vec<u16>,
    /// The ports.
    pub ports: Vec<PortName>,
    /// The evidence, in one sentence.
    pub evidence: String,
}

impl fmt::Display for GpuFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}: {}; {}",
            self.host,
            self.kind,
            self.evidence,
            self.kind.advice()
        )
    }
}

/// All faults, in the order of hosts and then kinds.
pub(super) fn find(analysis: &Analysis, conflicts: &[Vec<JoinConflict>]) -> Vec<GpuFinding> {
    let mut findings = rail::find(analysis);
    findings.par_extend(
        conflicts
            .par_iter()
            .enumerate()
            .flat_map_iter(|(place, conflicts)| {
                let mut of_host = Vec::new();
                host::find(analysis, place, conflicts, &mut of_host);
                of_host
            }),
    );
    findings.sort_by(|one, other| {
        let key =
            |finding: &GpuFinding| (finding.kind, finding.gpus.clone(), finding.ports.clone());
        one.host
            .cmp(&other.host)
            .then_with(|| key(one).cmp(&key(other)))
    });
    findings
}
