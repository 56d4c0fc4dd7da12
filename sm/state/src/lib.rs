//! The published state of a subnet manager: what readers need without its core.
//!
//! In: what the core publishes after each pass. Out: a [`Snapshot`], immutable, some pointers to copy: the
//! fabric, the plan, findings, the role and the identities of managers, and how the last passes went.
//!
//! Queries of hosts, the API, dumps and the history read this and nothing else of the core. Nothing
//! here changes a fabric or sends a datagram.

mod convergence;
mod following;
mod m_keys;
mod role;
mod snapshot;

pub use self::convergence::{Convergence, TablesWritten};
pub use self::following::Following;
pub use self::m_keys::MKeyStatus;
pub use self::role::{Identity, Other, Role};
pub use self::snapshot::{Forthcoming, PortCounts, Snapshot};
