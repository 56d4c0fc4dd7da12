//! The state that the core publishes, for readers without the core.
//!
//! In: what the core knows when it publishes. Out: [`Snapshot`], the subnet and its manager at one
//! moment, with the [`Role`] of the manager and the record of each [`Convergence`].

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
