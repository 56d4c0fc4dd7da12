//! Converts errors to gRPC status codes. Their messages name the remedy, so they pass unchanged.

use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use crate::error::{
    ControlError, CountersError, HistoryError, LookupError, PartitionRefusal, RoutingError,
    SaError, SimulationError,
};
use crate::limits::CUT_OFF_KEY;
use crate::model::{ParseGroupError, ParseSelectorError};

impl From<ParseSelectorError> for Status {
    fn from(error: ParseSelectorError) -> Self {
        Status::invalid_argument(error.to_string())
    }
}

impl From<ParseGroupError> for Status {
    fn from(error: ParseGroupError) -> Self {
        Status::invalid_argument(format!("group: {error}"))
    }
}

impl From<LookupError> for Status {
    fn from(error: LookupError) -> Self {
        let code = match error {
            LookupError::NotFound { .. }
            | LookupError::Gone { .. }
            | LookupError::NoSuchPort { .. }
            | LookupError::NoSuchPartition { .. }
            | LookupError::NoSuchGroup { .. } => Code::NotFound,
            LookupError::Ambiguous { .. } | LookupError::NotASwitch { .. } => Code::InvalidArgument,
            LookupError::NoLid { .. } | LookupError::WithoutLid { .. } => Code::FailedPrecondition,
        };
        Status::new(code, error.to_string())
    }
}

impl From<ControlError> for Status {
    fn from(error: ControlError) -> Self {
        let code = match error {
            ControlError::Lookup(lookup) => return lookup.into(),
            ControlError::CutOff { ports, .. } => {
                let mut metadata = MetadataMap::new();
                metadata.insert(CUT_OFF_KEY, ports.into());
                let code = Code::FailedPrecondition;
                return Status::with_metadata(code, error.to_string(), metadata);
            }
            ControlError::Standby { .. }
            | ControlError::NotAttached { .. }
            | ControlError::Refused { .. } => Code::FailedPrecondition,
            ControlError::UnknownEngine { .. } => Code::InvalidArgument,
            ControlError::Partition { refusal, .. } => match refusal {
                PartitionRefusal::NotThere => Code::NotFound,
                PartitionRefusal::Exists => Code::AlreadyExists,
                PartitionRefusal::Invalid => Code::InvalidArgument,
                PartitionRefusal::NotAllowed => Code::PermissionDenied,
                PartitionRefusal::Full => Code::ResourceExhausted,
                PartitionRefusal::Refused => Code::FailedPrecondition,
            },
            ControlError::Busy => Code::ResourceExhausted,
            ControlError::Stopping => Code::Unavailable,
            ControlError::Failed { .. } => Code::Internal,
        };
        Status::new(code, error.to_string())
    }
}

impl From<RoutingError> for Status {
    fn from(error: RoutingError) -> Self {
        let code = match error {
            RoutingError::Lookup(lookup) => return lookup.into(),
            RoutingError::NoRoutes | RoutingError::Impossible { .. } => Code::FailedPrecondition,
            RoutingError::Busy => Code::ResourceExhausted,
            RoutingError::Stopping => Code::Unavailable,
        };
        Status::new(code, error.to_string())
    }
}

impl From<SaError> for Status {
    fn from(error: SaError) -> Self {
        match error {
            SaError::Lookup(lookup) => lookup.into(),
            SaError::NotAnswering { .. } => Status::failed_precondition(error.to_string()),
            SaError::Busy => Status::resource_exhausted(error.to_string()),
            SaError::Stopping => Status::unavailable(error.to_string()),
        }
    }
}

impl From<HistoryError> for Status {
    fn from(error: HistoryError) -> Self {
        match error {
            HistoryError::TooEarly { .. } => Status::out_of_range(error.to_string()),
            HistoryError::Unreadable { .. } => Status::internal(error.to_string()),
        }
    }
}

impl From<CountersError> for Status {
    fn from(error: CountersError) -> Self {
        match error {
            CountersError::Lookup(lookup) => lookup.into(),
            CountersError::NotRead => Status::failed_precondition(error.to_string()),
        }
    }
}

impl From<SimulationError> for Status {
    fn from(error: SimulationError) -> Self {
        match error {
            SimulationError::Lookup(lookup) => lookup.into(),
            SimulationError::NoCable { .. } => Status::failed_precondition(error.to_string()),
            SimulationError::NoCounter { .. }
            | SimulationError::NoPort { .. }
            | SimulationError::TwoPorts { .. } => Status::invalid_argument(error.to_string()),
            SimulationError::Ended => Status::unavailable(error.to_string()),
        }
    }
}
