//! The operator's decisions about the election and the shared store.

use std::time::Duration;

use rsm_ids::Guid;
use rsm_state::Identity;

/// The operator's decisions about managers beside this one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MastershipPolicy {
    /// How this subnet manager identifies itself to others.
    pub identity: Identity,
    /// Priority that this manager shows while it is master, if higher, so that it stays master when
    /// one with a higher priority arrives.
    pub master_priority: u8,
    /// GUIDs of managers that count; empty if all do.
    pub allowed_managers: Vec<Guid>,
    /// Whether this manager acts as if it were the only one.
    pub ignores_others: bool,
    /// Whether this manager waits, not active, until another one orders it to stand by.
    pub starts_inactive: bool,
    /// Time between polls of the master while standing by.
    pub standby_poll: Duration,
    /// Successive unanswered polls of the master after which this manager takes over.
    pub poll_limit: u32,
    /// Whether several managers share the store, so that the master must hold its epoch. Used only
    /// at the start.
    pub shares_store: bool,
    /// Checksums of the settings that all managers of a subnet must have in common, by section.
    pub checksums: String,
}

impl Default for MastershipPolicy {
    fn default() -> MastershipPolicy {
        MastershipPolicy {
            identity: Identity::default(),
            master_priority: 0,
            allowed_managers: Vec::new(),
            ignores_others: false,
            starts_inactive: false,
            standby_poll: Duration::from_secs(2),
            poll_limit: 1,
            shares_store: false,
            checksums: String::new(),
        }
    }
}
