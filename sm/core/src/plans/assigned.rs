//! LIDs, positions and groups that plans have assigned. Later plans keep them, and the store has
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_gdr::host_order::HostPositions;
use rsm_ids::{Guid, Lid};
use rsm_plan::Plan;
use rsm_plan::lids::{Claim, Claims, vport_claims};
use rsm_routing::adaptive::GroupIds;

/// Assignments that plans have made so far.
#[derive(Clone, Default, Debug)]
pub(crate) struct Assigned {
    /// LIDs of ports and virtual ports.
    pub(crate) claims: Arc<Claims>,
    /// Positions of compute ports in the host order.
    pub(crate) positions: Arc<HostPositions>,
    /// Numbers of the groups of leaves for adaptive routing.
    pub(crate) group_ids: GroupIds,
}

/// The result of [`Assigned::take`].
#[derive(Default, Debug)]
pub(crate) struct Taken {
    /// Whether anything is new, and must be stored.
    pub(crate) is_news: bool,
    /// Ports that get another LID than they hold.
    pub(crate) moved: Vec<Guid>,
}

impl Assigned {
    /// Takes what `plan` assigns otherwise than the plan `before`.
    pub(crate) fn take(&mut self, plan: &Plan, before: Option<&Plan>) -> Taken {
        let mut taken = self.take_claims(plan, before);
        taken.is_news |= self.take_vport_claims(plan, before);
        if let Some(adaptive) = plan.adaptive.as_deref()
            && adaptive.ids != self.group_ids
        {
            self.group_ids = adaptive.ids.clone();
            taken.is_news = true;
        }
        if self.positions != plan.order.positions {
            self.positions = plan.order.positions.clone();
            taken.is_news = true;
        }
        taken
    }

    fn take_claims(&mut self, plan: &Plan, before: Option<&Plan>) -> Taken {
        let given = match before {
            Some(before) => plan.lids.differing(&before.lids),
            None => plan.lids.lids.keys().copied().collect(),
        };
        let mut taken = Taken::default();
        for port in given {
            let at = plan.fabric.find_port(port);
            let (Some(at), Some(claim)) = (at, plan.claim(port)) else {
                continue;
            };
            let port = plan.fabric.port(at);
            if self.claims.get(&port.guid) != Some(&claim) {
                Arc::make_mut(&mut self.claims).insert(port.guid, claim);
                taken.is_news = true;
                if port.lid() != claim.base {
                    taken.moved.push(port.guid);
                }
            }
        }
        taken
    }

    /// Takes the claims of virtual ports. A claim ends when its LID is given to another GUID, so
    /// that GUIDs of virtual machines that never come back are no more than there are LIDs.
    fn take_vport_claims(&mut self, plan: &Plan, before: Option<&Plan>) -> bool {
        if before.is_some_and(|before| Arc::ptr_eq(&before.lids, &plan.lids)) {
            return false;
        }
        let all = vport_claims(&plan.lids, &plan.fabric);
        let new: BTreeMap<Guid, Claim> = all
            .filter(|(guid, claim)| self.claims.get(guid) != Some(claim))
            .collect();
        if new.is_empty() {
            return false;
        }
        let taken: BTreeSet<Lid> = new.values().map(|claim| claim.base).collect();
        let claims = Arc::make_mut(&mut self.claims);
        claims.retain(|_, claim| !taken.contains(&claim.base));
        claims.extend(new);
        true
    }

    /// Uses the LIDs that another manager, the holder of the epoch, has stored.
    pub(crate) fn take_stored(&mut self, claims: Arc<Claims>, is_master: bool) {
        match is_master {
            true => self.add_claims(&claims),
            // The standby's own claims may be older than those of the master.
            false => self.claims = claims,
        }
    }

    /// Adds claims of the shared store that a running master does not have, because their ports
    /// have been absent since. Own claims to the same LIDs that the store does not have are newer,
    /// and end.
    pub(crate) fn add_claims(&mut self, stored: &Claims) {
        let missing: BTreeMap<u32, Claim> = stored
            .iter()
            .filter(|(port, _)| !self.claims.contains_key(port))
            .map(|(_, &claim)| (u32::from(claim.base.0), claim))
            .collect();
        if missing.is_empty() {
            return;
        }
        let collides = |claim: Claim| {
            let below = missing.range(..=claim.last_lid()).next_back();
            below.is_some_and(|(_, &other)| other.last_lid() >= u32::from(claim.base.0))
        };
        let claims = Arc::make_mut(&mut self.claims);
        claims.retain(|port: &Guid, claim| stored.contains_key(port) || !collides(*claim));
        for (&port, &claim) in stored {
            claims.entry(port).or_insert(claim);
        }
    }
}
