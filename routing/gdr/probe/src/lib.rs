//! Reads the inventory of the GPU host on which the program runs.
//!
//! - [`snapshot`] reads `/sys`: adapters, ports, PCIe;
//! - [`nvml`] asks NVIDIA's library, which it loads at run time, for UUIDs, NVLinks and the NVLink
//!   domain;
//! - [`tool`] runs the drivers' programs with a time-out if the library is missing;
//! - [`read`] merges all of that into one inventory, and notes what it could not read.
//!
//! This crate never communicates with a subnet manager.

mod config_space;
mod error;
pub mod nvml;
mod reading;
pub mod snapshot;
pub mod tool;
mod vpd;

pub use error::ProbeError;
pub use reading::{NvmlSource, ProbeSettings, Reading, program_output, read};
