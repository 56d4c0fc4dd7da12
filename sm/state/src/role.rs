//! One subnet manager among others (IBA 14.4.1).

use std::cmp::Reverse;

use rsm_ids::{Guid, Lid, PortKey};
use rsm_mad::wire::attr::SmState;

/// Identity of this subnet manager among others.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Identity {
    /// 0 to 15; the manager with the highest one is master.
    pub priority: u8,
    /// Shown by SMInfo to those that know the port's M_Key (IBA 14.2.4.2), and to all where there is
    /// none: it says which managers belong to one subnet, and opens nothing of the SA.
    pub sm_key: u64,
}

/// The state of this subnet manager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Role {
    /// This manager has not seen the whole subnet yet.
    Discovering,
    /// Another one is master.
    Standby {
        /// The other one.
        master: Other,
    },
    /// This manager is master.
    Master,
    /// The master has disabled it (DISABLE), or it began so, until a master orders STANDBY.
    NotActive,
}

impl Role {
    /// The state that SMInfo shows.
    pub fn state(&self) -> SmState {
        match self {
            Role::Discovering => SmState::Discovering,
            Role::Standby { .. } => SmState::Standby,
            Role::Master => SmState::Master,
            Role::NotActive => SmState::NotActive,
        }
    }
}

/// Another subnet manager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Other {
    /// Its port.
    pub port: PortKey,
    /// The GUID in its SMInfo.
    pub guid: Guid,
    /// The LID of its port.
    pub lid: Lid,
    /// Its priority.
    pub priority: u8,
    /// The state that its SMInfo shows.
    pub state: SmState,
    /// The SM_Key that it shows; 0 where it has shown none.
    pub sm_key: u64,
    /// The description of its node.
    pub name: String,
}

impl Other {
    /// Whether its SMInfo shows it as master.
    pub fn is_master(&self) -> bool {
        self.state == SmState::Master
    }

    /// The manager's precedence: of two managers the one with the higher value is master (IBA
    /// 14.4.1).
    pub fn precedence(&self) -> (u8, Reverse<Guid>) {
        (self.priority, Reverse(self.guid))
    }
}
