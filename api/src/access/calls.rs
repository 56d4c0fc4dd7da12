//! The right that each call needs.

use crate::role::Need;

/// A service, and the rights that its calls need.
struct ServiceNeeds {
    service: &'static str,
    calls: &'static [(&'static str, Need)],
}

use Need::{
    Administer, ChangePartitions, CheckInventory, ImportInventory, Operate, Read, SeePartitions,
};

/// All calls of all services of rsm. A call that is missing here is refused.
const NEEDS: &[ServiceNeeds] = &[
    ServiceNeeds {
        service: "rsm.v1.FabricService",
        calls: &[
            ("GetStatus", Read),
            ("GetReport", Read),
            ("ListNodes", Read),
            ("GetNode", Read),
            ("ListPorts", Read),
            ("ListVirtualPorts", Read),
            ("ListCongestionAgents", Read),
            ("GetPort", Read),
            ("GetAttribute", Read),
            ("ListLinks", Read),
            ("GetForwardingTable", Read),
            ("ResolveRoute", Read),
            ("ListFindings", Read),
            ("ListMissing", Read),
            ("ListDesignMoves", Read),
        ],
    },
    ServiceNeeds {
        service: "rsm.v1.BlameService",
        calls: &[("JudgeJob", Read)],
    },
    ServiceNeeds {
        service: "rsm.v1.ConvergenceService",
        calls: &[
            ("ListConvergences", Read),
            ("GetActivity", Read),
            ("Resweep", Operate),
            ("AcceptMissing", Operate),
        ],
    },
    ServiceNeeds {
        service: "rsm.v1.PartitionService",
        calls: &[
            ("ListPartitions", Read),
            ("ListPartitionMembers", SeePartitions),
            ("ListPartitionGuids", SeePartitions),
            ("CreatePartition", ChangePartitions),
            ("AddPartitionMembers", ChangePartitions),
            ("RemovePartitionMembers", ChangePartitions),
            ("SetPartitionMembers", ChangePartitions),
            ("ConfigurePartition", ChangePartitions),
            ("ProtectPartition", Operate),
            ("DeletePartition", ChangePartitions),
            ("SetDefaultMembership", Administer),
        ],
    },
    ServiceNeeds {
        service: "rsm.v1.RoutingService",
        calls: &[
            ("ListEngines", Read),
            ("GetRoutingQuality", Read),
            ("ForeseeLoss", Read),
            ("GetCableUse", Read),
            ("ListCableHosts", Read),
            ("SetEngine", Administer),
        ],
    },
    ServiceNeeds {
        service: "rsm.v1.MaintenanceService",
        calls: &[
            ("Drain", Operate),
            ("Undrain", Operate),
            ("OperatePort", Operate),
            ("ListDrained", Read),
            ("RotateManagementKeys", Administer),
        ],
    },
    ServiceNeeds {
        service: "rsm.v1.DifferenceService",
        calls: &[("ListDifferences", Read)],
    },
    ServiceNeeds {
        service: "rsm.v1.MulticastService",
        calls: &[
            ("ListMulticastGroups", Read),
            ("GetMulticastGroup", Read),
            ("ListMulticastMembers", Read),
            ("ListMulticastSwitches", Read),
        ],
    },
    ServiceNeeds {
        service: "rsm.v1.SaService",
        calls: &[
            ("GetSaCounters", Read),
            ("ResolvePath", Read),
            ("GetQos", Read),
            ("ListServices", Read),
            ("ListSubscriptions", Read),
            ("ListAliasGuids", Read),
        ],
    },
    ServiceNeeds {
        service: "rsm.v1.CountersService",
        calls: &[
            ("ListPortCounters", Read),
            ("GetTopPorts", Read),
            ("WatchTopPorts", Read),
            ("GetCounterSeries", Read),
            ("GetPortTrends", Read),
            ("GetTopPortsSince", Read),
            ("ListDeviceFirmware", Read),
        ],
    },
    ServiceNeeds {
        service: "rsm.v1.WatchService",
        calls: &[("ListEvents", Read), ("Watch", Read)],
    },
    ServiceNeeds {
        service: "rsm.v1.GpuService",
        calls: &[
            ("ImportGpuHost", ImportInventory),
            ("ImportGpuHosts", Operate),
            ("CheckGpuHost", CheckInventory),
            ("GetGpuStatus", Read),
            ("ForgetGpuHost", Operate),
            ("ListGpuHosts", Read),
            ("GetGpuHints", Read),
            ("GetGpuPair", Read),
            ("PlanGpuJob", Read),
            ("ExportGpuFile", Read),
            ("ExportGpuFilePieces", Read),
            ("WatchGpuHosts", Read),
        ],
    },
    ServiceNeeds {
        service: "rsm.v1.SimulationService",
        calls: &[
            ("Unlink", Administer),
            ("Relink", Administer),
            ("SwapCables", Administer),
            ("Reboot", Administer),
            ("PowerOff", Administer),
            ("PowerOn", Administer),
            ("SetLoss", Administer),
            ("SetErrors", Administer),
        ],
    },
    // gRPC's own tools reveal nothing about the subnet.
    ServiceNeeds {
        service: "grpc.health.v1.Health",
        calls: &[("Check", Read), ("Watch", Read)],
    },
    ServiceNeeds {
        service: "grpc.reflection.v1.ServerReflection",
        calls: &[("ServerReflectionInfo", Read)],
    },
    ServiceNeeds {
        service: "grpc.reflection.v1alpha.ServerReflection",
        calls: &[("ServerReflectionInfo", Read)],
    },
];

/// The right that the call at an HTTP path needs, such as `/rsm.v1.FabricService/GetStatus`; `None`
/// for a path that is not in the table.
pub fn need(path: &str) -> Option<Need> {
    let (service, call) = path.strip_prefix('/')?.split_once('/')?;
    let of = NEEDS.iter().find(|needs| needs.service == service)?;
    let known = of.calls.iter().find(|(name, _)| *name == call)?;
    Some(known.1)
}

/// The paths of all calls in the table.
pub fn paths() -> impl Iterator<Item = String> {
    NEEDS.iter().flat_map(|needs| {
        let calls = needs.calls.iter();
        calls.map(|(call, _)| format!("/{}/{call}", needs.service))
    })
}
