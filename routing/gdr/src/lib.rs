//! GPU-aware hints: PCIe as hosts see it, joined with the fabric as only the subnet manager sees
//! it.
//!
//! Collective libraries see the host they run on, and never the fabric; a subnet manager sees the
//! fabric, and never a GPU. This crate joins the two:
//!
//! - [`inventory`] is the inventory of one host: GPUs, ports of adapters, the PCIe tier between
//!   them, NVLink;
//! - [`import`] reads it from the output of the machines' own tools;
//! - [`hosts`] keeps the inventories of many hosts, and machine types that stand in for others;
//! - [`fabric`] is the subnet manager's part, and [`join`] matches ports of hosts and fabric;
//! - [`roles`] tells compute ports from others, [`rails`] finds units and rails from the cables;
//! - [`host_order`] puts compute ports into the order that routes follow;
//! - [`hints`] gives each GPU its port, and [`pairs`] the path between two GPUs;
//! - [`job`] orders the processes of a job, and computes the load of its traffic;
//! - [`render`] writes all that as the files and variables that other programs read;
//! - [`findings`] reports faults, with evidence and advice;
//! - [`generate`] makes inventories for simulated fabrics, with faults.
//!
//! [`Analysis::new`] does all of it. Hints only ever name ports that exist: they add no path.

mod analysis;
mod assign;
mod claims;
mod config;
mod diagnosis;
pub mod fabric;
pub mod findings;
pub mod generate;
pub mod hints;
mod host;
pub mod host_order;
pub mod hosts;
pub mod import;
pub mod inventory;
pub mod job;
pub mod join;
mod nccl;
pub mod pairs;
mod peers;
mod pipeline;
mod positions;
pub mod rails;
pub mod render;
pub mod roles;
mod survey;

pub use analysis::{Analysis, JoinError};
pub use config::AnalysisConfig;
pub use host::Host;
pub use survey::Survey;
