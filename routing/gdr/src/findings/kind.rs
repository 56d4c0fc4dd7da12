use std::fmt;

use super::Severity;

/// The subject of a finding. The names are stable, because alerts use them as keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum GpuFindingKind {
    /// Two cables of a host are swapped.
    RailCablesSwapped,
    /// The cable of a compute port ends at the leaf of another rail.
    RailCableMisplaced,
    /// The cable of a storage port ends at the leaf of a rail.
    StorageOnComputeLeaf,
    /// PCIe and leaves disagree on which ports are compute ports.
    RoleUnclear,
    /// GPUs are numbered in an order that differs from the rails; the cables are right.
    RailOrderGpus,
    /// Adapters are named in an order that differs from the rails; the cables are right.
    RailOrderHcas,
    /// Ports and rails do not match, and the inventory does not show whether cables or numbering is
    /// wrong.
    RailOrderUnknown,
    /// Hosts or units are cabled to rails in two orders, and neither is clearly the wrong one.
    RailsDisagree,
    /// Two rails of a host end at one leaf.
    RailsShareLeaf,
    /// A host lacks an adapter that hosts of its machine type have.
    HcaMissing,
    /// An adapter is in another slot, or under another PCIe switch, than in hosts of its machine
    /// type.
    HcaMoved,
    /// An adapter that serves a GPU is set to Ethernet.
    HcaEthernetMode,
    /// A host lacks a GPU that hosts of its machine type have.
    GpuMissing,
    /// Hosts have at most half of the adapters that hosts with the same GPUs have.
    HalfPopulated,
    /// Hosts have more GPUs or adapters than hosts of their machine type.
    OtherMachineType,
    /// A port is slower than the same port of other hosts of the machine type.
    PortSlow,
    /// All ports of a host are slower than the ports of other hosts of the machine type.
    HostSlow,
    /// All ports at the leaf of one rail are slower than the ports at the leaves of the other
    /// rails.
    LeafSlow,
    /// The PCIe link of a GPU or an adapter has fewer lanes or a lower speed than it should.
    PcieDegraded,
    /// An adapter has another firmware than the same adapter of other hosts of the machine type.
    FirmwareDiffers,
    /// No port of the fabric is under the same PCIe switches as a GPU.
    GpuWithoutLocalHca,
    /// A GPU has a port under the same PCIe switches, but cannot use it.
    GdrTierPoor,
    /// A GPU is farther from every compute port than in other hosts of the machine type.
    TierWorse,
    /// A GPU or an adapter is at another NUMA node than in other hosts of the machine type.
    NumaDiffers,
    /// The driver of GPUs or adapters does not support GPUDirect RDMA.
    GdrUnsupported,
    /// PCIe bridges send the traffic between GPUs and adapters up to the processor.
    AcsRedirect,
    /// The IOMMU translates addresses between GPUs and adapters.
    IommuTranslates,
    /// Adapters may not reorder their writes.
    RelaxedOrderingOff,
    /// GPUs lack NVLinks.
    NvLinkDegraded,
    /// All adapters are at other NUMA nodes than some GPUs.
    HcaOnWrongNuma,
    /// Ports of a host are not in the fabric.
    Unjoined,
    /// A host was in the fabric, but has no port there now.
    HostAbsent,
    /// The fabric has a port of the same name with another GUID than the inventory states.
    GuidUnknown,
    /// Sources disagree on which port of the fabric an inventory's port is.
    JoinConflict,
    /// Two hosts claim the same port of the fabric.
    PortClaimedTwice,
    /// The inventory of a host has the GUIDs of another host.
    InventoryOfAnotherHost,
    /// Two machines of the fabric have the same name.
    HostNameTwice,
    /// A host is cabled like GPU hosts, but has no inventory.
    NoInventory,
    /// The inventory lists virtual functions.
    VirtualFunctions,
    /// The inventory has members that this version does not know.
    UnknownMembers,
    /// The inventory is old.
    StaleInventory,
}

use GpuFindingKind as Kind;

/// The texts for operators about one kind.
struct KindRow {
    kind: GpuFindingKind,
    name: &'static str,
    severity: Severity,
    effect: &'static str,
    advice: &'static str,
}

/// The rows of all kinds, in the order of the variants.
const ROWS: &[KindRow] = &[
    KindRow {
        kind: Kind::RailCablesSwapped,
        name: "rail-cables-swapped",
        severity: Severity::Error,
        effect: "traffic of the rail crosses the spines",
        advice: "exchange the two cables at the leaves",
    },
    KindRow {
        kind: Kind::RailCableMisplaced,
        name: "rail-cable-misplaced",
        severity: Severity::Error,
        effect: "traffic of the rail crosses the spines",
        advice: "move the cable to a free port of the expected leaf",
    },
    KindRow {
        kind: Kind::StorageOnComputeLeaf,
        name: "storage-on-compute-leaf",
        severity: Severity::Error,
        effect: "storage traffic shares the links of the rail",
        advice: "move the cable to a leaf for storage, or set the port's category",
    },
    KindRow {
        kind: Kind::RoleUnclear,
        name: "role-unclear",
        severity: Severity::Warning,
        effect: "if the leaves are right, hints send collectives over the storage network, or leave an adapter for them unused",
        advice: "give the ports the category that they are for in routing.categories_file (`rsm gpu --categories` offline)",
    },
    KindRow {
        kind: Kind::RailOrderGpus,
        name: "rail-order-gpus",
        severity: Severity::Warning,
        effect: "jobs that count devices send from one rail to another",
        advice: "use the exported rail list, or let CUDA count by PCI address (CUDA_DEVICE_ORDER=PCI_BUS_ID)",
    },
    KindRow {
        kind: Kind::RailOrderHcas,
        name: "rail-order-hcas",
        severity: Severity::Warning,
        effect: "jobs that count devices send from one rail to another",
        advice: "use the exported NCCL_IB_HCA list, or NCCL_IB_DEVICE_PCI_ORDER=1, or name the devices by PCI address",
    },
    KindRow {
        kind: Kind::RailOrderUnknown,
        name: "rail-order-unknown",
        severity: Severity::Warning,
        effect: "jobs that count devices send from one rail to another",
        advice: "import `rsmctl gpu probe` of the host, whose PCI addresses tell the two apart",
    },
    KindRow {
        kind: Kind::RailsDisagree,
        name: "rails-disagree",
        severity: Severity::Warning,
        effect: "traffic between the two crosses the spines",
        advice: "compare the cables of one of each with the cabling plan, and exchange those of the wrong ones",
    },
    KindRow {
        kind: Kind::RailsShareLeaf,
        name: "rails-share-leaf",
        severity: Severity::Warning,
        effect: "two rails share the links of one leaf",
        advice: "cable one of the ports to a leaf of its own",
    },
    KindRow {
        kind: Kind::HcaMissing,
        name: "hca-missing",
        severity: Severity::Error,
        effect: "GPUs share the adapters that are left",
        advice: "look for the adapter in `lspci` and the kernel's log; reseat or exchange it",
    },
    KindRow {
        kind: Kind::HcaMoved,
        name: "hca-moved",
        severity: Severity::Warning,
        effect: "the GPU's traffic crosses the processor",
        advice: "put the adapter into the slot that the other hosts have it in",
    },
    KindRow {
        kind: Kind::HcaEthernetMode,
        name: "hca-ethernet-mode",
        severity: Severity::Error,
        effect: "GPUs share the adapters that are left",
        advice: "set the adapter to InfiniBand (`mlxconfig -d ADDRESS set LINK_TYPE_P1=1`), and restart the host",
    },
    KindRow {
        kind: Kind::GpuMissing,
        name: "gpu-missing",
        severity: Severity::Error,
        effect: "jobs for all GPUs do not start on the host",
        advice: "look for the GPU in `lspci` and the kernel's log (Xid 79); reset or exchange it",
    },
    KindRow {
        kind: Kind::HalfPopulated,
        name: "half-populated",
        severity: Severity::Info,
        effect: "GPUs share the adapters that are left",
        advice: "give such hosts a partition of their own in the scheduler",
    },
    KindRow {
        kind: Kind::OtherMachineType,
        name: "other-machine-type",
        severity: Severity::Info,
        effect: "jobs on both use what the smaller one has",
        advice: "give such hosts a partition of their own in the scheduler",
    },
    KindRow {
        kind: Kind::PortSlow,
        name: "port-slow",
        severity: Severity::Warning,
        effect: "collectives run at the speed of the slowest port",
        advice: "look at the cable and at the port's enabled speeds and widths",
    },
    KindRow {
        kind: Kind::HostSlow,
        name: "host-slow",
        severity: Severity::Warning,
        effect: "collectives run at the speed of the slowest port",
        advice: "look at the enabled speeds of the host's adapters, and its firmware",
    },
    KindRow {
        kind: Kind::LeafSlow,
        name: "leaf-slow",
        severity: Severity::Warning,
        effect: "collectives run at the speed of the slowest rail",
        advice: "look at the enabled speeds of the leaf's ports, at its firmware and at its cables",
    },
    KindRow {
        kind: Kind::PcieDegraded,
        name: "pcie-degraded",
        severity: Severity::Warning,
        effect: "the PCIe link bounds the traffic of the device",
        advice: "compare LnkSta with LnkCap in `lspci -vv`; reseat the device, look at its riser or cable",
    },
    KindRow {
        kind: Kind::FirmwareDiffers,
        name: "firmware-differs",
        severity: Severity::Info,
        effect: "the host may do what the others do not, or not what they do",
        advice: "give the host the firmware of the others",
    },
    KindRow {
        kind: Kind::GpuWithoutLocalHca,
        name: "gpu-without-local-hca",
        severity: Severity::Warning,
        effect: "GPUDirect RDMA is off at the libraries' defaults",
        advice: "allow GPUDirect RDMA over the tier (NCCL_NET_GDR_LEVEL), and measure with and without: through some processors it is slower than host memory; in a virtual machine, give NCCL the exported topology",
    },
    KindRow {
        kind: Kind::GdrTierPoor,
        name: "gdr-tier-poor",
        severity: Severity::Warning,
        effect: "the GPU's traffic crosses the processor",
        advice: "bring the port up, or leave the GPU out of jobs across hosts",
    },
    KindRow {
        kind: Kind::TierWorse,
        name: "tier-worse",
        severity: Severity::Warning,
        effect: "the GPU's traffic crosses the processor",
        advice: "compare `lspci -tv` and the BIOS settings of PCIe with those of another host; reseat the GPU's riser or adapter",
    },
    KindRow {
        kind: Kind::NumaDiffers,
        name: "numa-differs",
        severity: Severity::Warning,
        effect: "processes are bound to another processor than that of their GPU",
        advice: "give the host the BIOS settings of the others (nodes per socket), or put the device into the slot that they have it in",
    },
    KindRow {
        kind: Kind::GdrUnsupported,
        name: "gdr-unsupported",
        severity: Severity::Warning,
        effect: "traffic between hosts is copied through the memory of the processor",
        advice: "load the module (`modprobe nvidia_peermem`), or install NVIDIA's open kernel modules, which have dma-buf",
    },
    KindRow {
        kind: Kind::AcsRedirect,
        name: "acs-redirect",
        severity: Severity::Warning,
        effect: "traffic between a GPU and its adapter goes up to the processor and back",
        advice: "turn it off at each bridge (`setpci -s ADDRESS ECAP_ACS+6.w=0`, after each start), or in the BIOS; machines that pass devices through to guests need it",
    },
    KindRow {
        kind: Kind::IommuTranslates,
        name: "iommu-translates",
        severity: Severity::Warning,
        effect: "GPUDirect RDMA goes through the IOMMU, and is slow or fails",
        advice: "let devices use the memory's own addresses (`grubby --update-kernel=ALL --args=iommu.passthrough=1`, on Debian in GRUB_CMDLINE_LINUX of /etc/default/grub and `update-grub`), and restart the host",
    },
    KindRow {
        kind: Kind::RelaxedOrderingOff,
        name: "relaxed-ordering-off",
        severity: Severity::Warning,
        effect: "the adapter's writes wait for each other, at less than the port's rate on many processors",
        advice: "allow it at each adapter (`setpci -s ADDRESS CAP_EXP+8.w=10:10`, after each start), or in the BIOS",
    },
    KindRow {
        kind: Kind::NvLinkDegraded,
        name: "nvlink-degraded",
        severity: Severity::Error,
        effect: "traffic between the host's GPUs is slower",
        advice: "look at `nvidia-smi nvlink --status` and the fabric manager; reset the GPU",
    },
    KindRow {
        kind: Kind::HcaOnWrongNuma,
        name: "hca-on-wrong-numa",
        severity: Severity::Warning,
        effect: "the GPU's traffic crosses the processor",
        advice: "move an adapter to a slot of the other processor",
    },
    KindRow {
        kind: Kind::Unjoined,
        name: "unjoined",
        severity: Severity::Warning,
        effect: "no traffic goes through the ports",
        advice: "check the cable, or import a source that has GUIDs (sysfs)",
    },
    KindRow {
        kind: Kind::HostAbsent,
        name: "host-absent",
        severity: Severity::Error,
        effect: "no job across hosts can use the host; an error because rsm has its inventory: a host without one may be off at will, and is `host-missing`, an info",
        advice: "look for the host's power and its driver (`ibstat` there), and for the leaf's port",
    },
    KindRow {
        kind: Kind::GuidUnknown,
        name: "guid-unknown",
        severity: Severity::Warning,
        effect: "hints may name another port",
        advice: "import the host again; an adapter may have been exchanged",
    },
    KindRow {
        kind: Kind::JoinConflict,
        name: "join-conflict",
        severity: Severity::Warning,
        effect: "hints may name another port",
        advice: "import the host again; an adapter may have been exchanged",
    },
    KindRow {
        kind: Kind::PortClaimedTwice,
        name: "port-claimed-twice",
        severity: Severity::Error,
        effect: "hints for the host may be another host's",
        advice: "import the host again, or forget it if the adapter has left",
    },
    KindRow {
        kind: Kind::InventoryOfAnotherHost,
        name: "inventory-of-another-host",
        severity: Severity::Error,
        effect: "hints for the host may be another host's",
        advice: "import the host's own inventory",
    },
    KindRow {
        kind: Kind::HostNameTwice,
        name: "host-name-twice",
        severity: Severity::Error,
        effect: "hints and jobs for one may reach the other",
        advice: "give one of the two a name of its own (`hostnamectl hostname`), and restart rdma-ndd, which describes its ports",
    },
    KindRow {
        kind: Kind::NoInventory,
        name: "no-inventory",
        severity: Severity::Warning,
        effect: "the host gets no hints",
        advice: "import an inventory of the host, or of its machine type",
    },
    KindRow {
        kind: Kind::VirtualFunctions,
        name: "virtual-functions",
        severity: Severity::Info,
        effect: "none: hints leave them out",
        advice: "nothing",
    },
    KindRow {
        kind: Kind::UnknownMembers,
        name: "unknown-members",
        severity: Severity::Info,
        effect: "none: findings and hints leave out what the members say",
        advice: "update this rsm to the version of the host's agent; in a file written by hand, correct the names",
    },
    KindRow {
        kind: Kind::StaleInventory,
        name: "stale-inventory",
        severity: Severity::Info,
        effect: "hints may name devices that are gone",
        advice: "look for the host's agent (`systemctl status rsm-agent.timer`), or import the host again",
    },
];

impl GpuFindingKind {
    /// All kinds, in the order of the variants.
    pub const ALL: [GpuFindingKind; ROWS.len()] = {
        let mut all = [Kind::RailCablesSwapped; ROWS.len()];
        let mut at = 0;
        while at < ROWS.len() {
            all[at] = ROWS[at].kind;
            at += 1;
        }
        all
    };

    const fn row(self) -> &'static KindRow {
        &ROWS[self as usize]
    }

    /// The name of the kind in lower case, with hyphens.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// The severity of findings of this kind.
    pub const fn severity(self) -> Severity {
        self.row().severity
    }

    /// The effect on traffic.
    pub const fn effect(self) -> &'static str {
        self.row().effect
    }

    /// The advice for the operator.
    pub const fn advice(self) -> &'static str {
        self.row().advice
    }

    /// Whether the same observation of several hosts is one finding.
    pub(crate) const fn is_grouped(self) -> bool {
        !matches!(
            self,
            Kind::RailCablesSwapped
                | Kind::RailsDisagree
                | Kind::LeafSlow
                | Kind::PortClaimedTwice
                | Kind::JoinConflict
        )
    }
}

impl fmt::Display for GpuFindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_row() {
        for (place, kind) in GpuFindingKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place, "{kind}");
        }
    }

    /// Without an inventory, which says that jobs need the host, its loss is an info of the fabric.
    #[test]
    fn effect_of_an_absent_host_says_why_it_is_an_error() {
        assert_eq!(Kind::HostAbsent.severity(), Severity::Error);
        assert!(
            Kind::HostAbsent
                .effect()
                .contains("`host-missing`, an info")
        );
    }
}
