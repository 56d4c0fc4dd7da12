//! Findings about the subnet, by kind.

use rsm_gdr::findings::GpuFindingKind;
pub use rsm_gdr::findings::Severity;
use rsm_ids::{Guid, PortKey};
use serde::Serialize;

/// The subject of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Subject {
    /// The subnet as a whole.
    Subnet,
    /// One node.
    Node(Guid),
    /// One port.
    Port(PortKey),
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Subject::Subnet => f.write_str("subnet"),
            Subject::Node(guid) => guid.fmt(f),
            Subject::Port(key) => key.fmt(f),
        }
    }
}

/// The kinds of findings; [`FindingKind::code`] is their stable name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FindingKind {
    /// Two nodes answer with one GUID; rsm serves the node that had it first.
    DuplicateGuid,
    /// A node answers with GUID zero and cannot be managed.
    ZeroGuid,
    /// A cable joins two ports of one switch.
    LoopbackCable,
    /// A port receives its own packets, from a loop-back plug or a cable that reflects.
    SelfCabled,
    /// The link is up, but no node answers behind it.
    Unanswering,
    /// A node answers some attributes, and leaves others unanswered or refuses them.
    Incomplete,
    /// A fraction of all SMPs or of their answers is lost.
    SmpLoss,
    /// A port holds an M_Key other than the configured one, and drops requests.
    MKeyMismatch,
    /// Ports do not hold their planned M_Key.
    MKeyBehind,
    /// A node holds other content than this manager has written to it.
    ForeignWrite,
    /// The subnet has more ports than unicast LIDs.
    LidSpaceExhausted,
    /// Two ports held the same LID, and one of them got another LID.
    LidConflict,
    /// The configured LMC cannot be applied without moving a LID in use.
    LmcNotApplied,
    /// The engine found no routes, or the proof refused its tables.
    RoutingRefused,
    /// Another engine than the first of the configuration computed the routes.
    EngineReplaced,
    /// The fabric lacks switches from the file of root GUIDs.
    RootsAbsent,
    /// The layout file of a torus does not fit the fabric.
    TorusLayout,
    /// Cabled ports cannot reach each other.
    Unreachable,
    /// A switch that was present is missing.
    SwitchMissing,
    /// A cable that was present, or is designed, is missing.
    CableMissing,
    /// The ends of several cables were exchanged, compared with before or with the design.
    CablesExchanged,
    /// Cables lead elsewhere than designed, or designed cables are absent.
    CableMiswired,
    /// A cable joins two nodes of the design, and the design has no such cable.
    CableExtra,
    /// No node has a name of the design, or a line of the design cannot be compared.
    DesignUnmatched,
    /// A channel adapter or router that was present is missing.
    HostMissing,
    /// Members of multicast groups receive no packets.
    MulticastUnserved,
    /// The proof refused multicast trees.
    MulticastRefused,
    /// A Set was refused or never answered.
    SetFailed,
    /// A link changes its state too often and is kept out of the routes until it is quiet.
    LinkFlapping,
    /// Link errors of a port exceed a limit, according to its counters or its traps 129 to 131.
    LinkErrors,
    /// Errors of a link grow, and will exceed what error correction can correct.
    ErrorCorrection,
    /// A port sends traps without pause.
    BabblingPort,
    /// A port reports key violations (traps 256 to 259).
    KeyViolation,
    /// A port sends notices or traps in the name of other ports.
    ForgedTrap,
    /// Hosts order handovers of the subnet again and again.
    HandoverFlood,
    /// The local port of this subnet manager is down, or trained again.
    LocalPort,
    /// Another subnet manager is master; this one is standby, or is master at the same time.
    OtherMaster,
    /// A switch cannot hold the LIDs in use.
    TableTooSmall,
    /// A switch routes adaptively as another manager left it, by tables other than the forwarding
    /// tables.
    AdaptiveRouting,
    /// Adaptive routing is configured, but switches forward by their forwarding tables alone.
    AdaptiveUnused,
    /// Devices of a kind refuse or ignore requests, so that rsm manages them in another way.
    DeviceHabit,
    /// The MTU or number of VLs of an Active link differs from the plan.
    LinkMismatch,
    /// A cable between switches is slower than most of its siblings, or a link is below a width or
    /// speed that both its ends support.
    LinkSlow,
    /// Packets on a service level set by the operator do not arrive, or paths do not use that
    /// level.
    ServiceLevel,
    /// An operator drained a part: routes avoid it.
    Drained,
    /// Routes use a drained or unhealthy part, because ports would be cut off without it.
    DrainedInUse,
    /// The store or a file could not be read or written.
    Storage,
    /// The store shared by several managers does not answer, or lags behind.
    StoreUnreachable,
    /// Another manager holds the epoch of the shared store, and does not answer through the fabric.
    EpochHeld,
    /// This manager lacks registrations that its predecessor acknowledged to hosts.
    RegistrationsLost,
    /// A manager that shares the store has another configuration.
    ConfigDiffers,
    /// The configuration does not allow a subnet manager that appeared, or its SM_Key differs.
    ManagerNotAllowed,
    /// A subnet manager appeared, and does not answer.
    ManagerSilent,
    /// A configuration was refused; the previous one stays in force.
    ConfigRefused,
    /// A file of roles, certificates or token keys cannot be used, or a certificate expires.
    AccessFile,
    /// Changes of the configuration take effect only at the next start.
    RestartNeeded,
    /// A port is a member of more partitions than its P_KeyTable can hold, or than the table of the
    /// switch port at its cable can hold.
    PartitionTableTooSmall,
    /// Several partitions claim index 0 of one P_KeyTable.
    PartitionIndexClaimed,
    /// A partition made through the API conflicts with the file of partitions.
    PartitionConflict,
    /// Hosts have links too slow for the broadcast group of their partition, and cannot join it.
    PartitionTooFast,
    /// A partition has only limited members, so that none can reach another.
    PartitionLimitedOnly,
    /// Partitions keep ports of hosts apart from all other hosts.
    PartitionApart,
    /// A partition rule names a node GUID or system image GUID, and no port has it as its GUID.
    PartitionNodeGuid,
    /// The SA refuses a host's join of a multicast group.
    JoinRefused,
    /// A port sends requests to the SA in the name of another port.
    SaTrust,
    /// Ports send more requests to the SA than their share.
    SaShare,
    /// A receiver outside the fabric does not accept events.
    EventsUndelivered,
    /// Congestion control is configured, and devices lack its settings.
    CongestionControl,
    /// A fault of GPU hosts or of their cables.
    Gpu(GpuFindingKind),
}

/// Defines [`FindingKind::code`], and the list of all codes from its arms. [`FindingKind::Gpu`] has
/// the codes of its own kinds.
macro_rules! finding_codes {
    (
        impl FindingKind {
            match self {
                $(FindingKind::$kind:ident => $code:literal,)+
            }
        }
    ) => {
        impl FindingKind {
            /// Stable name in kebab case, as shown to operators and scripts.
            pub const fn code(self) -> &'static str {
                match self {
                    $(FindingKind::$kind => $code,)+
                    FindingKind::Gpu(kind) => kind.name(),
                }
            }

            /// The codes of all kinds.
            pub fn codes() -> Vec<&'static str> {
                let of_gpus = GpuFindingKind::ALL.iter().map(|kind| kind.name());
                [$($code),+].into_iter().chain(of_gpus).collect()
            }
        }
    };
}

finding_codes! {
    impl FindingKind {
        match self {
            FindingKind::DuplicateGuid => "duplicate-guid",
            FindingKind::ZeroGuid => "zero-guid",
            FindingKind::LoopbackCable => "loopback-cable",
            FindingKind::SelfCabled => "self-cabled",
            FindingKind::Unanswering => "unanswering",
            FindingKind::Incomplete => "incomplete",
            FindingKind::SmpLoss => "smp-loss",
            FindingKind::MKeyMismatch => "m-key-mismatch",
            FindingKind::MKeyBehind => "m-key-behind",
            FindingKind::ForeignWrite => "foreign-write",
            FindingKind::LidSpaceExhausted => "lid-space-exhausted",
            FindingKind::LidConflict => "lid-conflict",
            FindingKind::LmcNotApplied => "lmc-not-applied",
            FindingKind::RoutingRefused => "routing-refused",
            FindingKind::EngineReplaced => "engine-replaced",
            FindingKind::RootsAbsent => "roots-absent",
            FindingKind::TorusLayout => "torus-layout",
            FindingKind::Unreachable => "unreachable",
            FindingKind::SwitchMissing => "switch-missing",
            FindingKind::CableMissing => "cable-missing",
            FindingKind::CablesExchanged => "cables-exchanged",
            FindingKind::CableMiswired => "cable-miswired",
            FindingKind::CableExtra => "cable-extra",
            FindingKind::DesignUnmatched => "design-unmatched",
            FindingKind::HostMissing => "host-missing",
            FindingKind::MulticastUnserved => "multicast-unserved",
            FindingKind::MulticastRefused => "multicast-refused",
            FindingKind::SetFailed => "set-failed",
            FindingKind::LinkFlapping => "link-flapping",
            FindingKind::LinkErrors => "link-errors",
            FindingKind::ErrorCorrection => "error-correction",
            FindingKind::BabblingPort => "babbling-port",
            FindingKind::KeyViolation => "key-violation",
            FindingKind::ForgedTrap => "forged-trap",
            FindingKind::HandoverFlood => "handover-flood",
            FindingKind::LocalPort => "local-port",
            FindingKind::OtherMaster => "other-master",
            FindingKind::TableTooSmall => "table-too-small",
            FindingKind::AdaptiveRouting => "adaptive-routing",
            FindingKind::AdaptiveUnused => "adaptive-unused",
            FindingKind::DeviceHabit => "device-habit",
            FindingKind::LinkMismatch => "link-mismatch",
            FindingKind::LinkSlow => "link-slow",
            FindingKind::ServiceLevel => "service-level",
            FindingKind::Drained => "drained",
            FindingKind::DrainedInUse => "drained-in-use",
            FindingKind::Storage => "storage",
            FindingKind::StoreUnreachable => "store-unreachable",
            FindingKind::EpochHeld => "epoch-held",
            FindingKind::RegistrationsLost => "registrations-lost",
            FindingKind::ConfigDiffers => "config-differs",
            FindingKind::ManagerNotAllowed => "manager-not-allowed",
            FindingKind::ManagerSilent => "manager-silent",
            FindingKind::ConfigRefused => "config-refused",
            FindingKind::AccessFile => "access-file",
            FindingKind::RestartNeeded => "restart-needed",
            FindingKind::PartitionTableTooSmall => "partition-table-too-small",
            FindingKind::PartitionIndexClaimed => "partition-index-claimed",
            FindingKind::PartitionConflict => "partition-conflict",
            FindingKind::PartitionTooFast => "partition-too-fast",
            FindingKind::PartitionLimitedOnly => "partition-limited-only",
            FindingKind::PartitionApart => "partition-apart",
            FindingKind::PartitionNodeGuid => "partition-node-guid",
            FindingKind::JoinRefused => "join-refused",
            FindingKind::SaTrust => "sa-trust",
            FindingKind::SaShare => "sa-share",
            FindingKind::EventsUndelivered => "events-undelivered",
            FindingKind::CongestionControl => "congestion-control",
        }
    }
}

impl Serialize for FindingKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

impl Serialize for Subject {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One finding about one subject.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Finding {
    /// Kind of the finding.
    pub kind: FindingKind,
    /// Subject of the finding.
    pub subject: Subject,
    /// Severity of the finding.
    pub severity: Severity,
    /// One sentence for the operator: what is wrong and where, and what it means for traffic.
    pub text: String,
}

impl Finding {
    /// Creates a finding of `kind` about `subject` with the sentence `text`.
    pub fn new(kind: FindingKind, subject: Subject, severity: Severity, text: String) -> Finding {
        Finding {
            kind,
            subject,
            severity,
            text,
        }
    }
}
