//! Subnet managers as clients of the simulator: OpenSM and rsm, once or resident.

mod check;
mod opensm;
mod routes;
mod rsm;
mod tables;

pub use check::{PortStates, check_dumps, check_states, discovered_nodes};
pub use opensm::{OpenSm, opensm_once};
pub use routes::{ForeignRoutes, opensm_routes};
pub use rsm::{OnceReport, Rsm, rsm_once};
pub use tables::check_tables;
