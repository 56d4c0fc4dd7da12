//! The health of links: the ports that lose or damage packets, and how long routes avoid them.
//!
//! [`Health`] is a state machine without I/O. Its evidence has two sources: error rates from the
//! performance counters ([`evidence`]), and reports of the ports themselves (traps 129 to 131). A
//! port is unhealthy from the moment a rate exceeds its limit ([`HealthPolicy`]) until it has been
//! quiet for [`HealthPolicy::quiet`]; after a relapse, it must be quiet for longer. If the policy
//! says so, the core takes unhealthy cables between switches out of the routes, as far as all ports
//! stay reachable (`rsm_plan::avoid`).
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
