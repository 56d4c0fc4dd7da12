//! The health of links: which ports lose or damage packets, and for how long routes avoid them.
//!
//! [`Health`] is a state machine without I/O. The evidence has two sources: error rates from the
//! performance counters ([`evidence`]), and reports of the ports themselves (traps 129 to 131). A
//! port is unhealthy from the moment when a rate exceeds its limit ([`HealthPolicy`]) until no rate
//! has exceeded its limit for [`HealthPolicy::quiet`], or for longer after a relapse. If the policy
//! says so, the core takes unhealthy cables between switches out of the routes, unless a port would
//! become unreachable (`rsm_plan::avoid`).
//!
//! [`HealthPolicy`]: rsm_config::HealthPolicy
//! [`HealthPolicy::quiet`]: rsm_config::HealthPolicy::quiet

mod babbling;
mod evidence;
mod illness;
mod saved;

pub use self::babbling::{Babbling, HeardTrap};
pub use self::evidence::{MAX_PORTS, PortErrors, evidence};
pub use self::illness::Health;
pub use self::saved::{SavedHealth, SavedIllness};
