use std::fmt;

use super::GpuSeverity;

/// The subject of a finding. The names are stable: alerts are keyed by them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum GpuFindingKind {
    /// Two cables are in each other's place.
    RailCablesSwapped,
    /// The cable of a compute port ends at a leaf that is not its rail's.
    RailCableMisplaced,
    /// The cable of a storage port ends at the leaf of a rail.
    StorageOnComputeLeaf,
    /// PCIe and leaves disagree on which of two ports is for computing.
    RoleUnclear,
    /// GPUs are numbered in an order that crosses rails; the cables are right.
    RailOrderGpus,
    /// Adapters are named in an order that crosses rails; the cables are right.
    RailOrderHcas,
    /// Ports and rails do not fit, and the inventory does not tell cables from numbering.
    RailOrderUnknown,
    /// Two rails of a host end at one leaf.
    RailsShareLeaf,
    /// A host lacks an adapter that the hosts built like it have.
    HcaMissing,
    /// An adapter is in another slot, or under another PCIe switch, than in the hosts like it.
    HcaMoved,
    /// An adapter that serves a GPU is set to Ethernet.
    HcaEthernetMode,
    /// A host lacks a GPU that the hosts built like it have.
    GpuMissing,
    /// Hosts with at most half of the adapters that hosts with the same GPUs have.
    HalfPopulated,
    /// Hosts that have more than those like them.
    OtherMachineType,
    /// A port is slower than the same port of the hosts like its own.
    PortSlow,
    /// All ports of a host are slower than those of the hosts like it.
    HostSlow,
    /// A GPU or adapter whose PCIe link has fewer lanes, or a lower speed, than it should.
    PcieDegraded,
    /// An adapter has another firmware than the same adapter of the hosts like its own.
    FirmwareDiffers,
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
    /// The fabric has a port by its name, under another GUID than the inventory's.
    GuidUnknown,
    /// Sources disagree on which port of the fabric a port is.
    JoinConflict,
    /// Two hosts claim the same port of the fabric.
    PortClaimedTwice,
    /// The inventory of a host has the GUIDs of another one.
    InventoryOfAnotherHost,
    /// A host is cabled like GPU hosts, and has no inventory.
    NoInventory,
    /// The inventory lists virtual functions.
    VirtualFunctions,
    /// The inventory has members that this version does not know.
    UnknownMembers,
    /// The inventory is old.
    StaleInventory,
}

use GpuFindingKind as Kind;

impl GpuFindingKind {
    /// Every kind.
    pub const ALL: [GpuFindingKind; 31] = [
        Kind::RailCablesSwapped,
        Kind::RailCableMisplaced,
        Kind::StorageOnComputeLeaf,
        Kind::RoleUnclear,
        Kind::RailOrderGpus,
        Kind::RailOrderHcas,
        Kind::RailOrderUnknown,
        Kind::RailsShareLeaf,
        Kind::HcaMissing,
        Kind::HcaMoved,
        Kind::HcaEthernetMode,
        Kind::GpuMissing,
        Kind::HalfPopulated,
        Kind::OtherMachineType,
        Kind::PortSlow,
        Kind::HostSlow,
        Kind::PcieDegraded,
        Kind::FirmwareDiffers,
        Kind::GpuWithoutLocalHca,
        Kind::GdrTierPoor,
        Kind::NvLinkDegraded,
        Kind::HcaOnWrongNuma,
        Kind::Unjoined,
        Kind::GuidUnknown,
        Kind::JoinConflict,
        Kind::PortClaimedTwice,
        Kind::InventoryOfAnotherHost,
        Kind::NoInventory,
        Kind::VirtualFunctions,
        Kind::UnknownMembers,
        Kind::StaleInventory,
    ];

    /// The name, in lower case with hyphens.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::RailCablesSwapped => "rail-cables-swapped",
            Kind::RailCableMisplaced => "rail-cable-misplaced",
            Kind::StorageOnComputeLeaf => "storage-on-compute-leaf",
            Kind::RoleUnclear => "role-unclear",
            Kind::RailOrderGpus => "rail-order-gpus",
            Kind::RailOrderHcas => "rail-order-hcas",
            Kind::RailOrderUnknown => "rail-order-unknown",
            Kind::RailsShareLeaf => "rails-share-leaf",
            Kind::HcaMissing => "hca-missing",
            Kind::HcaMoved => "hca-moved",
            Kind::HcaEthernetMode => "hca-ethernet-mode",
            Kind::GpuMissing => "gpu-missing",
            Kind::HalfPopulated => "half-populated",
            Kind::OtherMachineType => "other-machine-type",
            Kind::PortSlow => "port-slow",
            Kind::HostSlow => "host-slow",
            Kind::PcieDegraded => "pcie-degraded",
            Kind::FirmwareDiffers => "firmware-differs",
            Kind::GpuWithoutLocalHca => "gpu-without-local-hca",
            Kind::GdrTierPoor => "gdr-tier-poor",
            Kind::NvLinkDegraded => "nvlink-degraded",
            Kind::HcaOnWrongNuma => "hca-on-wrong-numa",
            Kind::Unjoined => "unjoined",
            Kind::GuidUnknown => "guid-unknown",
            Kind::JoinConflict => "join-conflict",
            Kind::PortClaimedTwice => "port-claimed-twice",
            Kind::InventoryOfAnotherHost => "inventory-of-another-host",
            Kind::NoInventory => "no-inventory",
            Kind::VirtualFunctions => "virtual-functions",
            Kind::UnknownMembers => "unknown-members",
            Kind::StaleInventory => "stale-inventory",
        }
    }

    /// How bad it is.
    pub const fn severity(self) -> GpuSeverity {
        match self {
            Kind::RailCablesSwapped
            | Kind::RailCableMisplaced
            | Kind::StorageOnComputeLeaf
            | Kind::HcaMissing
            | Kind::HcaEthernetMode
            | Kind::GpuMissing
            | Kind::NvLinkDegraded
            | Kind::PortClaimedTwice
            | Kind::InventoryOfAnotherHost => GpuSeverity::Error,
            Kind::HalfPopulated
            | Kind::OtherMachineType
            | Kind::VirtualFunctions
            | Kind::UnknownMembers
            | Kind::FirmwareDiffers
            | Kind::StaleInventory => GpuSeverity::Info,
            _ => GpuSeverity::Warning,
        }
    }

    /// The effect on traffic.
    pub const fn effect(self) -> &'static str {
        match self {
            Kind::RailCablesSwapped | Kind::RailCableMisplaced => {
                "traffic of the rail crosses the spines"
            }
            Kind::StorageOnComputeLeaf => "storage traffic shares the links of the rail",
            Kind::RoleUnclear => {
                "if the leaves are right, hints send collectives over the storage network"
            }
            Kind::RailOrderGpus | Kind::RailOrderHcas | Kind::RailOrderUnknown => {
                "jobs that count devices send from one rail to another"
            }
            Kind::RailsShareLeaf => "two rails share the links of one leaf",
            Kind::HcaMissing | Kind::HcaEthernetMode | Kind::HalfPopulated => {
                "GPUs share the adapters that are left"
            }
            Kind::HcaMoved | Kind::HcaOnWrongNuma => "the GPU's traffic crosses the processor",
            Kind::GpuMissing => "jobs for all GPUs do not start on the host",
            Kind::OtherMachineType => "jobs on both use what the smaller one has",
            Kind::PortSlow | Kind::HostSlow => "collectives run at the speed of the slowest port",
            Kind::PcieDegraded => "the PCIe link bounds the traffic of the device",
            Kind::FirmwareDiffers => "the host may do what the others do not, or not what they do",
            Kind::GpuWithoutLocalHca => "GPUDirect RDMA is off at the libraries' defaults",
            Kind::GdrTierPoor => "the GPU's traffic crosses the processor",
            Kind::NvLinkDegraded => "traffic between the host's GPUs is slower",
            Kind::Unjoined => "no traffic goes through the ports",
            Kind::GuidUnknown | Kind::JoinConflict => "hints may name another port",
            Kind::PortClaimedTwice | Kind::InventoryOfAnotherHost => {
                "hints for the host may be another host's"
            }
            Kind::NoInventory => "the host gets no hints",
            Kind::VirtualFunctions => "none: hints leave them out",
            Kind::UnknownMembers => "none: findings and hints leave out what the members say",
            Kind::StaleInventory => "hints may name devices that are gone",
        }
    }

    /// The advice for the operator.
    pub const fn advice(self) -> &'static str {
        match self {
            Kind::RailCablesSwapped => "exchange the two cables at the leaves",
            Kind::RailCableMisplaced => "move the cable to a free port of the expected leaf",
            Kind::StorageOnComputeLeaf => {
                "move the cable to a leaf for storage, or set the port's category"
            }
            Kind::RoleUnclear => {
                "give both ports the category that they are for in routing.categories_file (`rsm gpu --categories` offline)"
            }
            Kind::RailOrderGpus => {
                "use the exported rail list, or let CUDA count by PCI address (CUDA_DEVICE_ORDER=PCI_BUS_ID)"
            }
            Kind::RailOrderHcas => {
                "use the exported NCCL_IB_HCA list, or NCCL_IB_DEVICE_PCI_ORDER=1, or name the devices by PCI address"
            }
            Kind::RailOrderUnknown => "import the host's own inventory, which tells the two apart",
            Kind::RailsShareLeaf => "cable one of the ports to a leaf of its own",
            Kind::HcaMissing => {
                "look for the adapter in `lspci` and the kernel's log; reseat or exchange it"
            }
            Kind::HcaMoved => "put the adapter into the slot that the other hosts have it in",
            Kind::HcaEthernetMode => {
                "set the adapter to InfiniBand (mlxconfig LINK_TYPE_P1=IB), and restart the host"
            }
            Kind::GpuMissing => {
                "look for the GPU in `lspci` and the kernel's log (Xid 79); reset or exchange it"
            }
            Kind::HalfPopulated => "give such hosts a partition of their own in the scheduler",
            Kind::OtherMachineType => "give such hosts a partition of their own in the scheduler",
            Kind::PortSlow => "look at the cable and at the port's enabled speeds and widths",
            Kind::HostSlow => "look at the enabled speeds of the host's adapters, and its firmware",
            Kind::PcieDegraded => {
                "compare LnkSta with LnkCap in `lspci -vv`; reseat the device, look at its riser or cable"
            }
            Kind::FirmwareDiffers => "give the host the firmware of the others",
            Kind::GpuWithoutLocalHca => {
                "allow GPUDirect RDMA over the tier (NCCL_NET_GDR_LEVEL); in a virtual machine, give NCCL the exported topology"
            }
            Kind::GdrTierPoor => "bring the port up, or leave the GPU out of jobs across hosts",
            Kind::NvLinkDegraded => {
                "look at `nvidia-smi nvlink --status` and the fabric manager; reset the GPU"
            }
            Kind::HcaOnWrongNuma => "move an adapter to a slot of the other processor",
            Kind::Unjoined => "check the cable, or import a source that has GUIDs (sysfs)",
            Kind::GuidUnknown | Kind::JoinConflict => {
                "import the host again; an adapter may have been exchanged"
            }
            Kind::PortClaimedTwice => "import the host again, or forget it if the adapter has left",
            Kind::InventoryOfAnotherHost => "import the host's own inventory",
            Kind::NoInventory => "import an inventory of the host, or of its machine type",
            Kind::VirtualFunctions => "nothing",
            Kind::UnknownMembers => {
                "update this rsm to the version of the host's agent; in a file written by hand, correct the names"
            }
            Kind::StaleInventory => {
                "look for the host's agent (`systemctl status rsm-agent.timer`), or import the host again"
            }
        }
    }

    /// Whether the same observation of several hosts is one finding.
    pub(crate) const fn is_grouped(self) -> bool {
        !matches!(
            self,
            Kind::RailCablesSwapped | Kind::PortClaimedTwice | Kind::JoinConflict
        )
    }
}

impl fmt::Display for GpuFindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
