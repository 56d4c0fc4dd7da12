//! The gRPC services of rsm.
//!
//! [`model`] holds the API's resources in plain Rust; a subnet manager implements [`Subnet`],
//! [`Control`], [`Routing`] and [`Simulation`]; [`Server`] serves them.

pub mod client;
pub mod error;
pub mod limits;
pub mod model;
pub mod resolve;
pub mod v1_fields;

mod calendar;
mod convert;
mod gpu;
mod journal;
mod server;
mod traits;

pub use calendar::timestamp;
pub use error::{ControlError, LookupError, RoutingError, SaError, SimulationError};
pub use gpu::{GpuImportError, GpuSubject, Gpus};
pub use journal::Journal;
pub use rsm_proto::{Label, v1};
pub use server::{Backend, Listen, ServeError, Server, SocketError, serve};
pub use traits::{BoxFuture, Control, Routing, SaQueries, Simulation, Subnet};
