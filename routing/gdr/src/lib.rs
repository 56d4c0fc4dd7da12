//! GPU-aware hints: PCIe as hosts see it, joined with the fabric as only the subnet manager sees
//! it.
//!
//! A collective library sees the host on which it runs, and never the fabric; a subnet manager sees
//! the fabric, and never a GPU. This crate joins the two views:
//!
//! - [`inventory`] describes one host: GPUs, ports of adapters, the PCIe tiers between them,
//!   NVLink;
//! - [`import`] reads inventories from the output of the machines' own tools;
//! - [`hosts`] stores the inventories of many hosts, and machine types for hosts without an
//!   inventory;
//! - [`fabric`] is the subnet manager's part, and [`join`] matches ports of hosts and fabric;
//! - [`roles`] distinguishes compute ports from other ports, and [`rails`] finds units and rails
//!   from cables;
//! - [`host_order`] puts compute ports into the order that routes follow;
//! - [`hints`] gives each GPU its port, and [`pairs`] finds the path between two GPUs;
//! - [`job`] orders the processes of a job, and computes the load of its traffic;
//! - [`render`] writes the results as files and variables that other programs read;
//! - [`findings`] reports faults, with evidence and advice;
//! - [`generate`] makes inventories for simulated fabrics, with faults.
//!
//! [`Analysis::new`] runs all steps. Hints refer only to existing ports: they add no path.

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
