//! Errors as gRPC statuses: a code, a text for people, and ErrorInfo for programs. The texts name
//! no client program: each client adds its own remedy for a reason, as rsmctl does.
//!
//! ErrorInfo (google.rpc, in the status details) has the domain [`ERROR_DOMAIN`] and a reason that
//! stays the same if the text changes. docs/api.md lists the reasons.

use std::collections::HashMap;
use std::fmt::Display;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::error::{
    ControlError, CountersError, HistoryError, LookupError, PartitionRefusal, RoutingError,
    SaError, SimulationError,
};
use crate::limits::{ACCEPT_FIELDS, ACCEPTED_BY, CUT_OFF_PORTS, ERROR_DOMAIN};
use crate::model::ParseGroupError;

/// A status with `reason` in its ErrorInfo.
fn refusal(code: Code, reason: &str, error: &impl Display) -> Status {
    with_metadata(code, reason, error, HashMap::new())
}

fn with_metadata(
    code: Code,
    reason: &str,
    error: &impl Display,
    metadata: HashMap<String, String>,
) -> Status {
    let details = ErrorDetails::with_error_info(reason, ERROR_DOMAIN, metadata);
    Status::with_error_details(code, error.to_string(), details)
}

/// The refusal of a name of the wrong form in `field`.
pub(super) fn malformed_name(field: &str, error: &impl Display) -> Status {
    let error = format!("{field}: {error}");
    refusal(Code::InvalidArgument, "MALFORMED_NAME", &error)
}

/// The refusal of a name that no GPU host has.
pub(super) fn no_gpu_host(error: &impl Display) -> Status {
    refusal(Code::NotFound, "NO_SUCH_GPU_HOST", error)
}

/// The refusal of an inventory, because another one of the host is kept.
pub(super) fn gpu_host_kept(error: &impl Display) -> Status {
    refusal(Code::AlreadyExists, "GPU_HOST_KEPT", error)
}

impl From<ParseGroupError> for Status {
    fn from(error: ParseGroupError) -> Self {
        malformed_name("group", &error)
    }
}

impl From<LookupError> for Status {
    fn from(error: LookupError) -> Self {
        let (code, reason) = match error {
            LookupError::NotFound { .. } | LookupError::Similar { .. } => {
                (Code::NotFound, "NO_SUCH_NAME")
            }
            LookupError::Gone { .. } | LookupError::HostGone { .. } => (Code::NotFound, "GONE"),
            LookupError::NoSuchPort { .. } => (Code::NotFound, "NO_SUCH_PORT"),
            LookupError::NoSuchPartition { .. } => (Code::NotFound, "NO_SUCH_PARTITION"),
            LookupError::NoSuchGroup { .. } => (Code::NotFound, "NO_SUCH_GROUP"),
            LookupError::Ambiguous { .. } => (Code::InvalidArgument, "AMBIGUOUS_NAME"),
            LookupError::NotASwitch { .. } => (Code::InvalidArgument, "NOT_A_SWITCH"),
            LookupError::NoLid { .. } | LookupError::WithoutLid { .. } => {
                (Code::FailedPrecondition, "NO_LID")
            }
        };
        refusal(code, reason, &error)
    }
}

impl From<ControlError> for Status {
    fn from(error: ControlError) -> Self {
        let (code, reason) = match error {
            ControlError::Lookup(lookup) => return lookup.into(),
            ControlError::CutOff { ports, .. } => {
                let metadata = HashMap::from([
                    (CUT_OFF_PORTS.to_owned(), ports.to_string()),
                    (ACCEPTED_BY.to_owned(), ACCEPT_FIELDS.to_owned()),
                ]);
                return with_metadata(Code::FailedPrecondition, "CUT_OFF", &error, metadata);
            }
            ControlError::Standby { .. } => (Code::FailedPrecondition, "STANDBY"),
            ControlError::NotAttached { .. } => (Code::FailedPrecondition, "NOT_ATTACHED"),
            ControlError::Refused { .. } => (Code::FailedPrecondition, "TABLES_REFUSED"),
            ControlError::UnknownEngine { .. } => (Code::InvalidArgument, "NO_SUCH_ENGINE"),
            ControlError::Partition { refusal, .. } => of_partition(refusal),
            ControlError::Unwritten { .. } => (Code::DeadlineExceeded, "NOT_WRITTEN"),
            ControlError::Busy => (Code::ResourceExhausted, "BUSY"),
            ControlError::Stopping => (Code::Unavailable, "STOPPING"),
            ControlError::Failed { .. } => (Code::Internal, "SWEEP_FAILED"),
        };
        refusal(code, reason, &error)
    }
}

/// The code and the reason of a refused change to a partition.
const fn of_partition(refusal: PartitionRefusal) -> (Code, &'static str) {
    match refusal {
        PartitionRefusal::NotFound => (Code::NotFound, "NO_SUCH_PARTITION"),
        PartitionRefusal::Exists => (Code::AlreadyExists, "PARTITION_EXISTS"),
        PartitionRefusal::Invalid => (Code::InvalidArgument, "PARTITION_INVALID"),
        PartitionRefusal::NotAllowed => (Code::PermissionDenied, "PARTITION_NOT_ALLOWED"),
        PartitionRefusal::Full => (Code::ResourceExhausted, "PARTITIONS_FULL"),
        PartitionRefusal::Refused => (Code::FailedPrecondition, "PARTITION_REFUSED"),
    }
}

impl From<RoutingError> for Status {
    fn from(error: RoutingError) -> Self {
        let (code, reason) = match error {
            RoutingError::Lookup(lookup) => return lookup.into(),
            RoutingError::NoRoutes => (Code::FailedPrecondition, "NO_ROUTES"),
            RoutingError::Impossible { .. } => (Code::FailedPrecondition, "NOT_REMOVABLE"),
            RoutingError::Busy => (Code::ResourceExhausted, "BUSY"),
            RoutingError::Stopping => (Code::Unavailable, "STOPPING"),
        };
        refusal(code, reason, &error)
    }
}

impl From<SaError> for Status {
    fn from(error: SaError) -> Self {
        let (code, reason) = match error {
            SaError::Lookup(lookup) => return lookup.into(),
            SaError::NotAnswering { .. } => (Code::FailedPrecondition, "SA_NOT_ANSWERING"),
            SaError::Busy => (Code::ResourceExhausted, "BUSY"),
            SaError::Stopping => (Code::Unavailable, "STOPPING"),
        };
        refusal(code, reason, &error)
    }
}

impl From<HistoryError> for Status {
    fn from(error: HistoryError) -> Self {
        let (code, reason) = match error {
            HistoryError::TooEarly { .. } => (Code::OutOfRange, "BEFORE_HISTORY"),
            HistoryError::Unreadable { .. } => (Code::Internal, "HISTORY_UNREADABLE"),
        };
        refusal(code, reason, &error)
    }
}

impl From<CountersError> for Status {
    fn from(error: CountersError) -> Self {
        match error {
            CountersError::Lookup(lookup) => lookup.into(),
            CountersError::NotRead => {
                refusal(Code::FailedPrecondition, "COUNTERS_NOT_READ", &error)
            }
            CountersError::NoPast => refusal(Code::FailedPrecondition, "COUNTERS_NOT_KEPT", &error),
            CountersError::PastUnreadable { .. } => {
                refusal(Code::Internal, "COUNTERS_UNREADABLE", &error)
            }
        }
    }
}

impl From<SimulationError> for Status {
    fn from(error: SimulationError) -> Self {
        let (code, reason) = match error {
            SimulationError::Lookup(lookup) => return lookup.into(),
            SimulationError::NoCable { .. } => (Code::FailedPrecondition, "NO_CABLE"),
            SimulationError::NoCounter { .. } => (Code::InvalidArgument, "NO_SUCH_COUNTER"),
            SimulationError::NoPort { .. } | SimulationError::TwoPorts { .. } => {
                (Code::InvalidArgument, "MALFORMED_NAME")
            }
            SimulationError::Ended => (Code::Unavailable, "SIMULATION_ENDED"),
        };
        refusal(code, reason, &error)
    }
}
