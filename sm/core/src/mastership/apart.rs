//! LIDs of managers that share a store and cannot meet: each gives new ports LIDs of its own block.
//!
//! A manager that holds the epoch and reaches the store gives the lowest free LIDs, as always. One
//! that manages its part without the epoch, or holds it as far as it knows while the store does
//! not answer, gives those of a block above all LIDs that it knows of. When the parts meet, no two
//! ports have one LID. Where they do all the same (a block was full, or a manager did not know the
//! LIDs of the other part), the claim that the store has is the older one: the port with a LID that
//! was given without the store moves.

use std::sync::Arc;

use rsm_gdr::host_order::HostPositions;
use rsm_ids::{Guid, Lid};
use rsm_plan::lids::{Apart, Claim, Claims};
use rsm_state::Role;

use super::epoch::{EpochState, Holding};
use crate::Core;
use crate::plans::assigned::last_lid;

/// LIDs of a block: as many ports can be new in a part of the fabric before its manager gives LIDs
/// that another one may give, too.
const BLOCK: u32 = 1024;

/// Entries of a block of a forwarding table.
const ALIGNED: u32 = 64;

impl EpochState {
    /// Whether another manager may give LIDs, too.
    fn is_apart(&self) -> bool {
        match self.holding {
            Holding::Without(_) => true,
            Holding::Held(_) => self.is_silent,
            Holding::Unshared | Holding::Free | Holding::Claimed(_) | Holding::Refused(_) => false,
        }
    }

    /// A port has got a new LID.
    pub(crate) fn note_given(&mut self, port: Guid) {
        if self.is_apart() {
            Arc::make_mut(&mut self.apart.given).insert(port);
        }
    }
}

impl Core {
    /// How LIDs are given and kept now.
    pub(crate) fn apart(&mut self) -> Apart {
        if !self.epoch.is_apart() {
            self.epoch.apart = Apart::default();
        } else if self.epoch.apart.block.is_none() {
            let place = match self.epoch.holding {
                Holding::Held(_) => 0,
                _ => 1 + self.place_among_managers(),
            };
            let held = self.fabric.end_ports().map(|(_, port)| Claim {
                base: port.lid(),
                lmc: port.lmc(),
            });
            let known = self.plans.assigned.claims.values().copied().chain(held);
            let unicast = known.filter(|claim| claim.base.is_unicast());
            let last = unicast.map(last_lid).max().unwrap_or(0);
            let block = (last + 1).next_multiple_of(ALIGNED) + BLOCK * (1 + place);
            self.epoch.apart.block = u16::try_from(block).ok().map(Lid);
        }
        self.epoch.apart.clone()
    }

    /// The place of this manager in the order of all that share the store.
    fn place_among_managers(&self) -> u32 {
        let own = self.own_guid();
        let others = self.epoch.configurations.range(..own);
        u32::try_from(others.count()).unwrap_or(u32::MAX / BLOCK / 2)
    }

    /// Takes the LIDs that the holder of the epoch has stored.
    pub(crate) fn on_claims(&mut self, claims: Arc<Claims>) {
        match (&self.election.role, self.epoch.holding) {
            (_, Holding::Held(_) | Holding::Unshared) => {}
            (Role::Master, _) => self.plans.assigned.add_claims(&claims),
            // Its own claims may be older than those of the master.
            (_, _) => self.plans.assigned.claims = claims,
        }
    }

    /// Takes the host order that the holder of the epoch has stored.
    pub(crate) fn on_positions(&mut self, positions: Arc<HostPositions>) {
        let is_own = matches!(self.epoch.holding, Holding::Held(_) | Holding::Unshared);
        if !is_own && self.election.role != Role::Master {
            self.plans.assigned.positions = positions;
        }
    }
}
