//! Faults of hosts and cables, with evidence and advice.

mod host;
mod rail;

use std::fmt;

use rayon::prelude::*;

use super::Analysis;
use super::join::JoinConflict;

/// The subject of a finding. The names are stable: alerts are keyed by them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FindingKind {
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

impl FindingKind {
    /// Every kind.
    pub const ALL: [FindingKind; 14] = [
        FindingKind::RailCablesSwapped,
        FindingKind::RailCableMisplaced,
        FindingKind::RailOrderGpus,
        FindingKind::RailOrderHcas,
        FindingKind::RailOrderUnknown,
        FindingKind::RailsShareLeaf,
        FindingKind::GpuWithoutLocalHca,
        FindingKind::GdrTierPoor,
        FindingKind::NvLinkDegraded,
        FindingKind::HcaOnWrongNuma,
        FindingKind::Unjoined,
        FindingKind::JoinConflict,
        FindingKind::PortClaimedTwice,
        FindingKind::StaleInventory,
    ];

    /// The name, in lower case with hyphens.
    pub const fn name(self) -> &'static str {
        match self {
            FindingKind::RailCablesSwapped => "rail-cables-swapped",
            FindingKind::RailCableMisplaced => "rail-cable-misplaced",
            FindingKind::RailOrderGpus => "rail-order-gpus",
            FindingKind::RailOrderHcas => "rail-order-hcas",
            FindingKind::RailOrderUnknown => "rail-order-unknown",
            FindingKind::RailsShareLeaf => "rails-share-leaf",
            FindingKind::GpuWithoutLocalHca => "gpu-without-local-hca",
            FindingKind::GdrTierPoor => "gdr-tier-poor",
            FindingKind::NvLinkDegraded => "nvlink-degraded",
            FindingKind::HcaOnWrongNuma => "hca-on-wrong-numa",
            FindingKind::Unjoined => "unjoined",
            FindingKind::JoinConflict => "join-conflict",
            FindingKind::PortClaimedTwice => "port-claimed-twice",
            FindingKind::StaleInventory => "stale-inventory",
        }
    }

    /// How bad it is.
    pub const fn severity(self) -> Severity {
        match self {
            FindingKind::RailCablesSwapped
            | FindingKind::RailCableMisplaced
            | FindingKind::NvLinkDegraded
            | FindingKind::PortClaimedTwice => Severity::Error,
            FindingKind::Unjoined | FindingKind::StaleInventory => Severity::Info,
            _ => Severity::Warning,
        }
    }

    /// The advice for the operator.
    pub const fn advice(self) -> &'static str {
        match self {
            FindingKind::RailCablesSwapped => "exchange the two cables at the leaves",
            FindingKind::RailCableMisplaced => "move the cable to a free port of the expected leaf",
            FindingKind::RailOrderGpus => {
                "use the exported rail list, or let CUDA count by PCI address (CUDA_DEVICE_ORDER=PCI_BUS_ID)"
            }
            FindingKind::RailOrderHcas => {
                "use the exported NCCL_IB_HCA list, or NCCL_IB_DEVICE_PCI_ORDER=1, or name the devices by PCI address"
            }
            FindingKind::RailOrderUnknown => {
                "import the host's own inventory, which tells the two apart"
            }
            FindingKind::RailsShareLeaf => "cable one of the ports to a leaf of its own",
            FindingKind::GpuWithoutLocalHca => {
                "allow GPUDirect RDMA over the tier (NCCL_NET_GDR_LEVEL); in a virtual machine, give NCCL the exported topology"
            }
            FindingKind::GdrTierPoor => {
                "bring the port up, or leave the GPU out of jobs across hosts"
            }
            FindingKind::NvLinkDegraded => {
                "look at `nvidia-smi nvlink --status` and the fabric manager; reset the GPU"
            }
            FindingKind::HcaOnWrongNuma => "move an adapter to a slot of the other processor",
            FindingKind::Unjoined => "check the cable, or import a source that has GUIDs (sysfs)",
            FindingKind::JoinConflict => {
                "import the host again; an adapter may have been exchanged"
            }
            FindingKind::PortClaimedTwice => {
                "forget the inventory of the host that the adapter has left"
            }
            FindingKind::StaleInventory => "import the host again",
        }
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
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
pub struct Finding {
    /// The kind of fault.
    pub kind: FindingKind,
    /// The host; the first of two.
    pub host: String,
    /// The GPUs, by index.
    pub gpus: Vec<u16>,
    /// The ports.
    pub ports: Vec<PortName>,
    /// The evidence, in one sentence.
    pub evidence: String,
}

impl fmt::Display for Finding {
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
pub(super) fn find(analysis: &Analysis, conflicts: &[Vec<JoinConflict>]) -> Vec<Finding> {
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
        let key = |finding: &Finding| (finding.kind, finding.gpus.clone(), finding.ports.clone());
        one.host
            .cmp(&other.host)
            .then_with(|| key(one).cmp(&key(other)))
    });
    findings
}
