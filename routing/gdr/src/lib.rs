//! GPU-aware hints: what hosts know of their PCIe, joined with what only the subnet manager sees.
//!
//! Collective libraries see the host they run on, and never the fabric; a subnet manager sees the
//! fabric, and never a GPU. Here the two come together:
//!
//! - [`inventory`] is what one host has: GPUs, ports of adapters, the PCIe tier between them,
//!   NVLink;
//! - [`import`] reads it from what machines print about themselves;
//! - [`hosts`] keeps the inventories of many, and machine types that stand in for others;
//! - [`fabric`] is what the subnet manager adds, and [`join`] finds which port is which;
//! - [`roles`] tells compute ports from others, [`rails`] finds units and rails from the cables;
//! - [`host_order`] puts compute ports into an order that routes are spread by;
//! - [`hints`] says which port each GPU should use, and what lies between two GPUs;
//! - [`job`] orders the processes of a job, and says what their traffic will meet;
//! - [`render`] writes all that as the files and variables that other programs read;
//! - [`findings`] says what is wrong, with evidence and advice;
//! - [`generate`] makes inventories for simulated fabrics, with faults.
//!
//! [`Analysis::new`] does all of it. Hints only ever name what is there: they add no path.

mod analysis;
mod assign;
mod config;
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
pub mod rails;
pub mod render;
pub mod roles;
mod survey;

pub use analysis::Analysis;
pub use config::Config;
pub use host::Host;
pub use survey::Survey;
