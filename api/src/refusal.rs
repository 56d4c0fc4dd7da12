//! Errors as gRPC statuses: a code, a text for people, and ErrorInfo for programs. The texts name
//! no client program: each client adds its own remedy for a reason, as rsmctl does.
//!
//! ErrorInfo (google.rpc, in the status details) has the domain [`ERROR_DOMAIN`] and a [`Reason`]
//! that stays the same if the text changes. [`refusal`] makes every status of the server: clippy
//! refuses tonic's own constructors.

use std::collections::HashMap;
use std::fmt::Display;

use rsm_gdr::pairs::PairError;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::error::{
    ControlError, CountersError, HistoryError, LookupError, PartitionRefusal, RoutingError,
    SaError, SimulationError,
};
use crate::gpu::GpuImportError;
use crate::limits::{
    ACCEPT_FIELDS, ACCEPT_OTHER_OPERATOR, ACCEPTED_BY, CUT_OFF_PORTS, ERROR_DOMAIN,
};
use crate::model::ParseGroupError;

/// Declares the reasons, each with its name on the wire and its status code.
macro_rules! reasons {
    ($($(#[$doc:meta])+ $reason:ident = $name:literal, $code:ident;)+) => {
        /// The reasons of refusals. A test compares the table in docs/api.md with them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Reason {
            $($(#[$doc])+ $reason,)+
        }

        impl Reason {
            /// All reasons.
            pub const ALL: &[Reason] = &[$(Reason::$reason),+];

            /// The name in the ErrorInfo.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Reason::$reason => $name,)+
                }
            }

            /// The status code of all refusals for this reason.
            pub const fn code(self) -> Code {
                match self {
                    $(Reason::$reason => Code::$code,)+
                }
            }
        }
    };
}

reasons! {
    /// The name of a node, port or group has a wrong form.
    MalformedName = "MALFORMED_NAME", InvalidArgument;
    /// Several nodes or ports have the name.
    AmbiguousName = "AMBIGUOUS_NAME", InvalidArgument;
    /// No node or port has the name.
    NoSuchName = "NO_SUCH_NAME", NotFound;
    /// A node or port had the name until it disappeared.
    Gone = "GONE", NotFound;
    /// The node has no port of this number.
    NoSuchPort = "NO_SUCH_PORT", NotFound;
    /// No partition has the P_Key.
    NoSuchPartition = "NO_SUCH_PARTITION", NotFound;
    /// No multicast group has the name.
    NoSuchGroup = "NO_SUCH_GROUP", NotFound;
    /// No engine has the name.
    NoSuchEngine = "NO_SUCH_ENGINE", InvalidArgument;
    /// No counter has the name.
    NoSuchCounter = "NO_SUCH_COUNTER", InvalidArgument;
    /// No inventory has the name of the host or machine type.
    NoSuchGpuHost = "NO_SUCH_GPU_HOST", NotFound;
    /// The host has no GPU of this index.
    NoSuchGpu = "NO_SUCH_GPU", NotFound;
    /// Another inventory of the name is kept.
    GpuHostKept = "GPU_HOST_KEPT", AlreadyExists;
    /// The inventories and the fabric do not permit an answer at present.
    GpuHostsNotJoined = "GPU_HOSTS_NOT_JOINED", FailedPrecondition;
    /// The inventory could not be written to the disk.
    GpuHostNotKept = "GPU_HOST_NOT_KEPT", Internal;
    /// The node is no switch.
    NotASwitch = "NOT_A_SWITCH", InvalidArgument;
    /// The port has no LID.
    NoLid = "NO_LID", FailedPrecondition;
    /// The port has no cable.
    NoCable = "NO_CABLE", FailedPrecondition;
    /// A field has a value that is not permitted; the text begins with the field.
    InvalidField = "INVALID_FIELD", InvalidArgument;
    /// The page token is of another request, or of no server.
    InvalidPageToken = "INVALID_PAGE_TOKEN", InvalidArgument;
    /// The message of the request is too large.
    MessageTooLarge = "MESSAGE_TOO_LARGE", OutOfRange;
    /// The message of the request cannot be decoded, or is missing.
    MalformedMessage = "MALFORMED_MESSAGE", InvalidArgument;
    /// The message of the request is compressed in a way that the server does not know.
    UnsupportedEncoding = "UNSUPPORTED_ENCODING", Unimplemented;
    /// The server has no call of this name.
    NoSuchCall = "NO_SUCH_CALL", Unimplemented;
    /// The request proves no identity, and the call needs one.
    NoIdentity = "NO_IDENTITY", Unauthenticated;
    /// The token or certificate of the request is refused.
    InvalidProof = "INVALID_PROOF", Unauthenticated;
    /// The identity lacks the role that the call needs.
    RoleLacking = "ROLE_LACKING", PermissionDenied;
    /// The identity sends more requests per second than it may.
    RateExceeded = "RATE_EXCEEDED", ResourceExhausted;
    /// The maximum number of clients that watch, or read files, at the same time is reached.
    TooManyClients = "TOO_MANY_CLIENTS", ResourceExhausted;
    /// The request would cut off ports.
    CutOff = "CUT_OFF", FailedPrecondition;
    /// The request would take over or end what another operator ordered.
    OfAnother = "OF_ANOTHER_OPERATOR", FailedPrecondition;
    /// The request is accepted and kept, and not all of the hardware holds it yet.
    NotWritten = "NOT_WRITTEN", DeadlineExceeded;
    /// Another subnet manager is master.
    Standby = "STANDBY", FailedPrecondition;
    /// The subnet manager is not attached to a subnet.
    NotAttached = "NOT_ATTACHED", FailedPrecondition;
    /// This server manages no subnet.
    NoSubnet = "NO_SUBNET", FailedPrecondition;
    /// The fabric is not simulated.
    NotSimulated = "NOT_SIMULATED", FailedPrecondition;
    /// No routes are in force.
    NoRoutes = "NO_ROUTES", FailedPrecondition;
    /// The SA does not answer hosts either.
    SaNotAnswering = "SA_NOT_ANSWERING", FailedPrecondition;
    /// No counters have been read yet.
    CountersNotRead = "COUNTERS_NOT_READ", FailedPrecondition;
    /// The proof refused the tables.
    TablesRefused = "TABLES_REFUSED", FailedPrecondition;
    /// The loss of the named part cannot be computed.
    NotRemovable = "NOT_REMOVABLE", FailedPrecondition;
    /// The sweep failed.
    SweepFailed = "SWEEP_FAILED", Internal;
    /// A partition of this P_Key or name exists.
    PartitionExists = "PARTITION_EXISTS", AlreadyExists;
    /// The change of a partition is invalid, whatever partitions exist.
    PartitionInvalid = "PARTITION_INVALID", InvalidArgument;
    /// The identity may not see or change the partition.
    PartitionNotAllowed = "PARTITION_NOT_ALLOWED", PermissionDenied;
    /// The maximum number of partitions, members or P_Keys is reached.
    PartitionsFull = "PARTITIONS_FULL", ResourceExhausted;
    /// The partition file, a port or the plan conflicts with the change.
    PartitionRefused = "PARTITION_REFUSED", FailedPrecondition;
    /// The history has no state of the subnet at that time yet.
    BeforeHistory = "BEFORE_HISTORY", OutOfRange;
    /// No history is kept.
    HistoryNotKept = "HISTORY_NOT_KEPT", FailedPrecondition;
    /// A file of the history cannot be read.
    HistoryUnreadable = "HISTORY_UNREADABLE", Internal;
    /// The past of the counters is not kept.
    CountersNotKept = "COUNTERS_NOT_KEPT", FailedPrecondition;
    /// A file of the counters cannot be read.
    CountersUnreadable = "COUNTERS_UNREADABLE", Internal;
    /// The inventories of one import are too many or too large.
    ImportTooLarge = "IMPORT_TOO_LARGE", ResourceExhausted;
    /// The next file of an import did not come in time.
    ImportStalled = "IMPORT_STALLED", DeadlineExceeded;
    /// The file is too large for one answer.
    FileTooLarge = "FILE_TOO_LARGE", OutOfRange;
    /// The client did not read the file in time, or the server stops.
    FileCutShort = "FILE_CUT_SHORT", Aborted;
    /// The queue of requests is full.
    Busy = "BUSY", ResourceExhausted;
    /// The server is stopping.
    Stopping = "STOPPING", Unavailable;
    /// The simulation has ended.
    SimulationEnded = "SIMULATION_ENDED", Unavailable;
    /// The server has a defect: its log says more.
    Internal = "INTERNAL", Internal;
}

/// A status with the code of `reason`, the text, and `reason` in its ErrorInfo.
pub fn refusal(reason: Reason, text: impl Display) -> Status {
    with_metadata(reason, text, HashMap::new())
}

fn with_metadata(reason: Reason, text: impl Display, metadata: HashMap<String, String>) -> Status {
    let details = ErrorDetails::with_error_info(reason.name(), ERROR_DOMAIN, metadata);
    Status::with_error_details(reason.code(), text.to_string(), details)
}

/// The refusal in place of a status that the protocol layer made, which has no ErrorInfo: it could
/// not read the message of a request. `None` if the status has one.
pub(crate) fn of_protocol(status: &Status) -> Option<Status> {
    if status.get_details_error_info().is_some() {
        return None;
    }
    let reason = match status.code() {
        Code::OutOfRange => Reason::MessageTooLarge,
        Code::Unimplemented => Reason::UnsupportedEncoding,
        _ => Reason::MalformedMessage,
    };
    Some(refusal(reason, status.message()))
}

/// The refusal of a name of the wrong form in `field`.
pub(crate) fn malformed_name(field: &str, error: &impl Display) -> Status {
    refusal(Reason::MalformedName, format!("{field}: {error}"))
}

/// The refusal by a server without a subnet.
pub(crate) fn no_subnet() -> Status {
    let text = "this server manages no subnet: ask an rsm that does";
    refusal(Reason::NoSubnet, text)
}

/// The refusal of a stream, or its end, because the server stops.
pub(crate) fn manager_stopping() -> Status {
    refusal(Reason::Stopping, "the subnet manager is stopping")
}

/// The refusal of a request whose work panicked.
pub(crate) fn panicked(error: &tokio::task::JoinError) -> Status {
    refusal(Reason::Internal, error)
}

impl From<ParseGroupError> for Status {
    fn from(error: ParseGroupError) -> Self {
        malformed_name("group", &error)
    }
}

impl From<LookupError> for Status {
    fn from(error: LookupError) -> Self {
        let reason = match error {
            LookupError::NotFound { .. } | LookupError::Similar { .. } => Reason::NoSuchName,
            LookupError::Gone { .. } | LookupError::HostGone { .. } => Reason::Gone,
            LookupError::NoSuchPort { .. } => Reason::NoSuchPort,
            LookupError::NoSuchPartition { .. } => Reason::NoSuchPartition,
            LookupError::NoSuchGroup { .. } => Reason::NoSuchGroup,
            LookupError::Ambiguous { .. } => Reason::AmbiguousName,
            LookupError::NotASwitch { .. } => Reason::NotASwitch,
            LookupError::NoLid { .. } | LookupError::WithoutLid { .. } => Reason::NoLid,
        };
        refusal(reason, error)
    }
}

impl From<ControlError> for Status {
    fn from(error: ControlError) -> Self {
        let reason = match error {
            ControlError::Lookup(lookup) => return lookup.into(),
            ControlError::CutOff { ports, .. } => {
                let metadata = HashMap::from([
                    (CUT_OFF_PORTS.to_owned(), ports.to_string()),
                    (ACCEPTED_BY.to_owned(), ACCEPT_FIELDS.to_owned()),
                ]);
                return with_metadata(Reason::CutOff, error, metadata);
            }
            ControlError::OfAnother { .. } => {
                let accepted_by = (ACCEPTED_BY.to_owned(), ACCEPT_OTHER_OPERATOR.to_owned());
                return with_metadata(Reason::OfAnother, error, HashMap::from([accepted_by]));
            }
            ControlError::Standby { .. } => Reason::Standby,
            ControlError::NotAttached { .. } => Reason::NotAttached,
            ControlError::Refused { .. } => Reason::TablesRefused,
            ControlError::UnknownEngine { .. } => Reason::NoSuchEngine,
            ControlError::Partition { refusal, .. } => of_partition(refusal),
            ControlError::Unwritten { .. } => Reason::NotWritten,
            ControlError::Busy => Reason::Busy,
            ControlError::Stopping => Reason::Stopping,
            ControlError::Failed { .. } => Reason::SweepFailed,
        };
        refusal(reason, error)
    }
}

/// The reason for a refused change to a partition.
const fn of_partition(refusal: PartitionRefusal) -> Reason {
    match refusal {
        PartitionRefusal::NotFound => Reason::NoSuchPartition,
        PartitionRefusal::Exists => Reason::PartitionExists,
        PartitionRefusal::Invalid => Reason::PartitionInvalid,
        PartitionRefusal::NotAllowed => Reason::PartitionNotAllowed,
        PartitionRefusal::Full => Reason::PartitionsFull,
        PartitionRefusal::Refused => Reason::PartitionRefused,
    }
}

impl From<RoutingError> for Status {
    fn from(error: RoutingError) -> Self {
        let reason = match error {
            RoutingError::Lookup(lookup) => return lookup.into(),
            RoutingError::NoRoutes => Reason::NoRoutes,
            RoutingError::Impossible { .. } => Reason::NotRemovable,
            RoutingError::Busy => Reason::Busy,
            RoutingError::Stopping => Reason::Stopping,
        };
        refusal(reason, error)
    }
}

impl From<SaError> for Status {
    fn from(error: SaError) -> Self {
        let reason = match error {
            SaError::Lookup(lookup) => return lookup.into(),
            SaError::NotAnswering { .. } => Reason::SaNotAnswering,
            SaError::Busy => Reason::Busy,
            SaError::Stopping => Reason::Stopping,
        };
        refusal(reason, error)
    }
}

impl From<HistoryError> for Status {
    fn from(error: HistoryError) -> Self {
        let reason = match error {
            HistoryError::TooEarly { .. } => Reason::BeforeHistory,
            HistoryError::Unreadable { .. } => Reason::HistoryUnreadable,
        };
        refusal(reason, error)
    }
}

impl From<CountersError> for Status {
    fn from(error: CountersError) -> Self {
        let reason = match error {
            CountersError::Lookup(lookup) => return lookup.into(),
            CountersError::NotRead => Reason::CountersNotRead,
            CountersError::NoPast => Reason::CountersNotKept,
            CountersError::PastUnreadable { .. } => Reason::CountersUnreadable,
        };
        refusal(reason, error)
    }
}

impl From<SimulationError> for Status {
    fn from(error: SimulationError) -> Self {
        let reason = match error {
            SimulationError::Lookup(lookup) => return lookup.into(),
            SimulationError::NoCable { .. } => Reason::NoCable,
            SimulationError::NoCounter { .. } => Reason::NoSuchCounter,
            SimulationError::NoPort { .. } | SimulationError::TwoPorts { .. } => {
                Reason::MalformedName
            }
            SimulationError::Ended => Reason::SimulationEnded,
        };
        refusal(reason, error)
    }
}

/// The refusal of a pair of GPUs.
pub(crate) fn of_pair(error: &PairError) -> Status {
    let reason = match error {
        PairError::UnknownHost(_) => Reason::NoSuchGpuHost,
        PairError::UnknownGpu { .. } => Reason::NoSuchGpu,
    };
    refusal(reason, error)
}

impl From<GpuImportError> for Status {
    fn from(error: GpuImportError) -> Self {
        let reason = match error {
            GpuImportError::Host(_) => Reason::InvalidField,
            GpuImportError::NameTaken { .. }
            | GpuImportError::WithoutGuids { .. }
            | GpuImportError::Several { .. } => Reason::GpuHostKept,
            GpuImportError::Kept(_) => Reason::GpuHostNotKept,
        };
        refusal(reason, error)
    }
}
