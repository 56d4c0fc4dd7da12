//! The published state of a subnet manager, which readers use in place of the core.
//!
//! Input: the state that the core publishes after each pass. Output: a [`Snapshot`], immutable and
//! cheap to clone: the fabric, the plan, findings, the role and identities of managers, and the
//! last passes.
//!
//! The SA, the API, dumps and the history read only this crate's state of the core. The crate must
//! never change a fabric or send a datagram.

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
pub use self::convergence::{Convergence, TablesWritten, Unwritten};
pub use self::following::Following;
pub use self::handover::Handover;
pub use self::m_keys::MKeyStatus;
pub use self::role::{Identity, Other, Role};
pub use self::snapshot::{Forthcoming, PortCounts, Snapshot};

/// Number of past convergences that the core keeps.
pub const HISTORY: usize = 256;
