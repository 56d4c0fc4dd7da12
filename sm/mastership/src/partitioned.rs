//! LIDs in a partitioned fabric: managers that share a store and cannot reach each other assign
//! LIDs from separate blocks to new ports.
//!
//! A manager that holds the epoch and reaches the store assigns the lowest free LIDs, as usual. A
//! manager without the epoch, or whose store does not answer, assigns LIDs from a block above all
//! LIDs that it knows. Therefore no two ports share a LID when the parts are joined again. If two
//! ports still share a LID (a block was full, or a manager did not know the LIDs of the other
//! part), the claim in the store wins: the port whose LID was assigned without the store gets
//! another LID.

use std::sync::Arc;

use rsm_ids::{Guid, Lid};
use rsm_model::fabric::Fabric;
use rsm_plan::lids::{Claim, Claims, LidRights};

use crate::epoch::{EpochState, Holding};

/// Number of LIDs in a manager's block. If more ports are new in a part of the fabric, the manager
/// of that part also assigns LIDs that another manager may assign.
const BLOCK: u32 = 1024;

/// Number of entries in one block of a forwarding table, to which LID blocks are aligned.
const ALIGNMENT: u32 = 64;

impl EpochState {
    /// Whether another manager may assign LIDs as well.
    pub(crate) fn is_partitioned(&self) -> bool {
        match self.holding {
            Holding::Without(_) => true,
            Holding::Held(_) => self.is_silent,
            Holding::Unshared | Holding::Free | Holding::Claimed(_) | Holding::Refused(_) => false,
        }
    }

    /// Records that the port with this GUID has got a new LID, if another manager may have assigned
    /// the same LID.
    pub(crate) fn record_assigned(&mut self, port: Guid) {
        if self.is_partitioned() {
            Arc::make_mut(&mut self.partitioned.given).insert(port);
        }
    }

    /// Whether this manager's own state is valid: it holds the epoch, or shares no store.
    pub(crate) fn has_own_state(&self) -> bool {
        matches!(self.holding, Holding::Held(_) | Holding::Unshared)
    }

    /// Constraints under which this manager, with the GUID `own`, assigns LIDs now. The block is
    /// chosen once, and kept until the fabric is no longer partitioned.
    pub(crate) fn lid_rights(&mut self, own: Guid, fabric: &Fabric, claims: &Claims) -> LidRights {
        if !self.is_partitioned() {
            self.partitioned = LidRights::default();
        } else if self.partitioned.block.is_none() {
            let position = match self.holding {
                Holding::Held(_) => 0,
                _ => 1 + self.position_among_managers(own),
            };
            let held = fabric.end_ports().map(|(_, port)| Claim {
                base: port.lid(),
                lmc: port.lmc(),
            });
            let known = claims.values().copied().chain(held);
            let unicast = known.filter(|claim| claim.base.is_unicast());
            let last = unicast.map(|claim| claim.last_lid()).max().unwrap_or(0);
            let block = (last + 1).next_multiple_of(ALIGNMENT) + BLOCK * (1 + position);
            self.partitioned.block = u16::try_from(block).ok().map(Lid);
        }
        self.partitioned.clone()
    }

    /// Position of a manager in the GUID order of all managers that share the store.
    fn position_among_managers(&self, own: Guid) -> u32 {
        let others = self.configurations.range(..own);
        u32::try_from(others.count()).unwrap_or(u32::MAX / BLOCK / 2)
    }
}
