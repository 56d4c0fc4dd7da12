//! The gRPC services of rsm.
//!
//! A subnet manager implements the traits of a [`Backend`], such as [`Subnet`] and [`Control`].
//! Their methods take arguments of [`model`] and return messages of [`v1`]. [`Server`] serves a
//! backend over gRPC.

pub mod access;
pub mod blocking;
pub mod client;
pub mod error;
pub mod firmware;
pub mod limits;
pub mod link_rate;
pub mod manual;
pub mod model;
pub mod node_list;
pub mod resolve;
pub mod together;
pub mod v1_fields;

mod calendar;
mod gpu;
mod journal;
mod refusal;
mod role;
mod server;
mod traits;

pub use calendar::timestamp;
pub use error::{
    Candidate, ControlError, CountersError, HistoryError, LookupError, PartitionRefusal,
    RoutingError, SaError, SimulationError,
};
pub use gpu::{GpuAges, GpuImport, GpuImportError, GpuSubject, Gpus, InventoryDigest};
pub use journal::{EventJournal, is_operator_action};
pub use refusal::{Reason, refusal};
pub use rsm_proto::{AGGREGATION_NODE, Label, plain_names, printable, thousands, v1, with_causes};
pub use server::{
    ActionRecorder, Backend, Listen, OpenAction, Outcome, Reader, ServeError, Server, SocketError,
    gpu_status, serve,
};
pub use traits::{
    ActionLog, BoxFuture, Control, CountersQueries, Differences, History, Judge, Reports,
    RoutingQueries, SaQueries, Simulation, Subnet,
};
