//! The plan: the immutable desired state of the subnet, and its proof.
//!
//! Input: a [`PlanJob`] with the fabric, claims of LIDs, policies and the tables that switches
//! hold. Output: an [`Outcome`]: LIDs, routes, multicast trees, partitions and quality of service,
//! with the proof that no credit loop closes before, while or after the tables are written; or the
//! reason for a refusal.
//!
//! Planning is pure: [`plan()`] runs on any thread, without side effects, and gives the same
//! outcome for the same job. [`avoid`] decides which parts routes avoid, [`whatif`] plans for a
//! fabric without some part, [`qos`] makes the QoS tables, and [`managed`] the content of managed
//! attributes.
//!
//! The crate must never ask a device, or know which Sets a push has written.
//!
//! Invariants: no plan is returned without its proof; a LID in use is never given to another port;
//! each plan keeps the decisions of the previous plan, as far as the fabric permits.

pub mod adaptive;
#[cfg(test)]
mod aggregated;
pub mod avoid;
mod avoided;
mod error;
pub mod gpu;
pub mod groups;
mod interrupted;
mod job;
mod layout;
mod levels;
mod lid_plan;
pub mod lids;
mod links;
pub mod lint;
pub mod managed;
pub mod measured;
pub mod multicast;
pub mod order;
mod outcome;
pub mod partitions;
mod plan;
mod planner;
pub mod policy;
pub mod ports;
pub mod qos;
pub mod refused;
mod roots;
mod slow;
mod topology;
mod transition;
pub mod whatif;
pub mod whatif_drain;
pub mod witness;

pub use self::avoided::Avoided;
pub use self::error::PlanError;
pub use self::interrupted::Interrupted;
pub use self::job::{JobKind, PlanJob};
pub use self::levels::Stopped;
pub use self::links::LinkPorts;
pub use self::outcome::Outcome;
pub use self::plan::Plan;
pub use self::planner::plan;
pub use self::refused::RefusedPlan;
pub use self::topology::{build as topology, lids_in_use};
pub use self::transition::{HeldTable, Transition};
