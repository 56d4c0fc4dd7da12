//! LIDs in a partitioned fabric: managers that share a store and cannot reach each other give new
//! ports LIDs of separate blocks.
//!
//! A manager that holds the epoch and reaches the store gives the lowest free LIDs, as usual. A
//! manager without the epoch, or one that holds it as far as it knows while the store does not
//! answer, gives LIDs of a block above all LIDs that it knows. So no two ports have one LID when
//! the parts meet. If they do all the same (a block was full, or a manager did not know the LIDs of
//! the other part), the claim in the store is the older one: the port whose LID was given without
//! the store moves.

use std::sync::Arc;

use rsm_ids::{Guid, Lid};
use rsm_model::fabric::Fabric;
use rsm_plan::lids::{Claim, Claims, LidRights};

use crate::epoch::{EpochState, Holding};

/// LIDs of a block: the number of ports that can be new in a part of the fabric before its manager
/// gives LIDs that another one may give, too.
const BLOCK: u32 = 1024;

/// Entries in one block of a forwarding table, to which LID blocks are aligned.
const ALIGNED: u32 = 64;

impl EpochState {
    /// Whether another manager may give LIDs, too.
    pub(crate) fn is_partitioned(&self) -> bool {
        match self.holding {
            Holding::Without(_) => true,
            Holding::Held(_) => self.is_silent,
            Holding::Unshared | Holding::Free | Holding::Claimed(_) | Holding::Refused(_) => false,
        }
    }

    /// Records that a port has got a new LID.
    pub(crate) fn note_given(&mut self, port: Guid) {
        if self.is_partitioned() {
            Arc::make_mut(&mut self.partitioned.given).insert(port);
        }
    }

    /// Whether this manager's own state is that of the store.
    pub(crate) fn has_own_state(&self) -> bool {
        matches!(self.holding, Holding::Held(_) | Holding::Unshared)
    }

    /// How the manager with the GUID `own` assigns LIDs now.
    pub(crate) fn partitioned(&mut self, own: Guid, fabric: &Fabric, claims: &Claims) -> LidRights {
        if !self.is_partitioned() {
            self.partitioned = LidRights::default();
        } else if self.partitioned.block.is_none() {
            let place = match self.holding {
                Holding::Held(_) => 0,
                _ => 1 + self.place_among_managers(own),
            };
            let held = fabric.end_ports().map(|(_, port)| Claim {
                base: port.lid(),
                lmc: port.lmc(),
            });
            let known = claims.values().copied().chain(held);
            let unicast = known.filter(|claim| claim.base.is_unicast());
            let last = unicast.map(|claim| claim.last_lid()).max().unwrap_or(0);
            let block = (last + 1).next_multiple_of(ALIGNED) + BLOCK * (1 + place);
            self.partitioned.block = u16::try_from(block).ok().map(Lid);
        }
        self.partitioned.clone()
    }

    /// Position of a manager in the order of all that share the store.
    fn place_among_managers(&self, own: Guid) -> u32 {
        let others = self.configurations.range(..own);
        u32::try_from(others.count()).unwrap_or(u32::MAX / BLOCK / 2)
    }
}
