//! The inventory of the GPU host that this runs on.
//!
//! - [`snapshot`] reads `/sys`: adapters, ports, PCIe;
//! - [`nvml`] asks NVIDIA's library, which it loads at run time, for UUIDs, NVLinks and the NVLink
//!   domain;
//! - [`tool`] runs the drivers' programs where the library is missing, with a time-out;
//! - [`read`] makes one inventory of all that, and notes what it could not read.
//!
//! Nothing here talks to a subnet manager.

mod config_space;
mod error;
pub mod nvml;
mod reading;
pub mod snapshot;
pub mod tool;
mod vpd;

pub use error::ProbeError;
pub use reading::{NvmlSource, ProbeSettings, Reading, program_output, read};
