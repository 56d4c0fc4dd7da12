//! The settings of the election and the shared store.

use std::time::Duration;

use rsm_ids::Guid;
use rsm_state::Identity;

/// The operator's settings about other managers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MastershipPolicy {
    /// Priority and SM_Key that this subnet manager shows to others.
    pub identity: Identity,
    /// Priority that this manager shows while it is master, if it is higher than the priority of
    /// `identity`. A manager with a priority in between then does not become master.
    pub master_priority: u8,
    /// GUIDs of the managers that count in the election; empty if all count.
    pub allowed_managers: Vec<Guid>,
    /// Whether this manager acts as if it were the only one.
    pub ignores_others: bool,
    /// Whether this manager becomes NotActive after its first sweep, until another manager orders
    /// it to stand by.
    pub starts_inactive: bool,
    /// Time between polls of the master while standing by.
    pub standby_poll: Duration,
    /// Number of successive unanswered polls of the master after which this manager takes over.
    pub poll_limit: u32,
    /// Whether several managers share the store, so that the master must hold its epoch. Used only
    /// at the start.
    pub shares_store: bool,
    /// Checksums of the settings that all managers of a subnet must have in common, as words of the
    /// form `section=checksum`.
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
