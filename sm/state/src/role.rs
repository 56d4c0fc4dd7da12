//! The role of a subnet manager among others (IBA 14.4.1).

use std::cmp::Reverse;

use rsm_ids::{Guid, Lid, PortKey};
use rsm_mad::wire::attr::SmState;

/// The identity of this subnet manager towards other managers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Identity {
    /// Priority, 0 to 15; the manager with the highest priority is master.
    pub priority: u8,
    /// SM_Key, which SMInfo shows to requesters with the port's M_Key (IBA 14.2.4.2), or to every
    /// requester if the port has no M_Key. Managers of one subnet have the same SM_Key. The key
    /// gives no access to the SA.
    pub sm_key: u64,
}

/// Role of this subnet manager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Role {
    /// This manager has not seen the whole subnet yet.
    Discovering,
    /// Another manager is master.
    Standby {
        /// The master.
        master: Other,
    },
    /// This manager is master.
    Master,
    /// The master has disabled this manager (DISABLE), or the manager started in this role. The
    /// role lasts until a master orders STANDBY.
    NotActive,
}

impl Role {
    /// The state shown in SMInfo.
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
    /// Port of the manager.
    pub port: PortKey,
    /// GUID in its SMInfo.
    pub guid: Guid,
    /// LID of its port.
    pub lid: Lid,
    /// Priority in its SMInfo.
    pub priority: u8,
    /// State in its SMInfo.
    pub state: SmState,
    /// SM_Key that the manager has shown; 0 if it has shown none.
    pub sm_key: u64,
    /// Name of its node.
    pub name: String,
}

impl Other {
    /// Whether SMInfo shows the manager as master.
    pub fn is_master(&self) -> bool {
        self.state == SmState::Master
    }

    /// Precedence: of two managers, the one with the higher value is master (IBA 14.4.1).
    pub fn precedence(&self) -> (u8, Reverse<Guid>) {
        (self.priority, Reverse(self.guid))
    }
}
