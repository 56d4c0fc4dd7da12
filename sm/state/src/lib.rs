//! The published state of a subnet manager: what readers need without its core.
//!
//! In: what the core publishes after each pass. Out: a [`Snapshot`], immutable, some pointers to
//! copy: the fabric, the plan, findings, the role and the identities of managers, and how the last
//! passes went.
//!
//! Queries of hosts, the API, dumps and the history read this and nothing else of the core. Nothing
//! here changes a fabric or sends a datagram.

mod activity;
mod command;
mod convergence;
mod following;
mod handover;
mod m_keys;
mod role;
mod snapshot;

pub use self::activity::{Activity, PassProgress};
pub use self::command::{ChangeEffect, Command, Ticket};
pub use self::convergence::{Convergence, TablesWritten};
pub use self::following::Following;
pub use self::handover::Handover;
pub use self::m_keys::MKeyStatus;
pub use self::role::{Identity, Other, Role};
pub use self::snapshot::{Forthcoming, PortCounts, Snapshot};

/// Number of past convergences that the core keeps.
pub const HISTORY: usize = 256;
