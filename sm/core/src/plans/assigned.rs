//! Assignments of plans: LIDs, host-order positions and group numbers. Later plans keep the
//! assignments, and the core stores them.

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_gdr::host_order::HostPositions;
use rsm_ids::Guid;
use rsm_plan::Plan;
use rsm_plan::lids::{Claim, Claims, vport_claims};
use rsm_routing::adaptive::GroupIds;

/// Assignments that plans have made so far.
#[derive(Clone, Default, Debug)]
pub(crate) struct Assigned {
    /// LIDs of ports and virtual ports, by GUID.
    pub(crate) claims: Arc<Claims>,
    /// Positions of compute ports in the host order.
    pub(crate) positions: Arc<HostPositions>,
    /// Numbers of the groups of leaves for adaptive routing.
    pub(crate) group_ids: GroupIds,
}

/// The result of [`Assigned::adopt_plan`].
#[derive(Default, Debug)]
pub(crate) struct AssignmentChanges {
    /// Whether an assignment is new and must be stored.
    pub(crate) has_new: bool,
    /// GUIDs of ports whose LID differs from the LID that the plan assigns.
    pub(crate) moved: Vec<Guid>,
}

impl Assigned {
    /// Adopts the assignments in which `plan` differs from `before`, the previous plan.
    pub(crate) fn adopt_plan(&mut self, plan: &Plan, before: Option<&Plan>) -> AssignmentChanges {
        let mut changes = self.adopt_claims(plan, before);
        changes.has_new |= self.adopt_vport_claims(plan, before);
        if let Some(adaptive) = plan.adaptive.as_deref()
            && adaptive.ids != self.group_ids
        {
            self.group_ids = adaptive.ids.clone();
            changes.has_new = true;
        }
        if self.positions != plan.order.positions {
            self.positions = plan.order.positions.clone();
            changes.has_new = true;
        }
        changes
    }

    /// Adopts the LIDs of ports.
    fn adopt_claims(&mut self, plan: &Plan, before: Option<&Plan>) -> AssignmentChanges {
        let given = match before {
            Some(before) => plan.lids.differing(&before.lids),
            None => plan.lids.lids.keys().copied().collect(),
        };
        let mut changes = AssignmentChanges::default();
        let mut new = Claims::new();
        for port in given {
            let at = plan.fabric.find_port(port);
            let (Some(at), Some(claim)) = (at, plan.claim(port)) else {
                continue;
            };
            let port = plan.fabric.port(at);
            if self.claims.get(&port.guid) != Some(&claim) {
                new.insert(port.guid, claim);
                if port.lid() != claim.base {
                    changes.moved.push(port.guid);
                }
            }
        }
        changes.has_new = !new.is_empty();
        self.replace_claims(new);
        changes
    }

    /// Adopts the LIDs of virtual ports. Returns whether there is a new claim. A claim ends when
    /// another GUID gets its LID, so claims of virtual machines that never come back cannot
    /// outnumber the LIDs.
    fn adopt_vport_claims(&mut self, plan: &Plan, before: Option<&Plan>) -> bool {
        if before.is_some_and(|before| Arc::ptr_eq(&before.lids, &plan.lids)) {
            return false;
        }
        let all = vport_claims(&plan.lids, &plan.fabric);
        let new: BTreeMap<Guid, Claim> = all
            .filter(|(guid, claim)| self.claims.get(guid) != Some(claim))
            .collect();
        let has_new = !new.is_empty();
        self.replace_claims(new);
        has_new
    }

    /// Adds the claims `new`. Each earlier claim to one of their LIDs ends: an absent port loses its
    /// claim to LIDs that a present port holds.
    fn replace_claims(&mut self, new: Claims) {
        if new.is_empty() {
            return;
        }
        let by_lid = by_base_lid(new.values().copied());
        let claims = Arc::make_mut(&mut self.claims);
        claims.retain(|_, claim| !overlaps(&by_lid, *claim));
        claims.extend(new);
    }

    /// Adopts the LIDs that the holder of the epoch, another manager, has stored. A master adds
    /// the claims that it lacks; a standby replaces its own claims.
    pub(crate) fn adopt_stored(&mut self, claims: Arc<Claims>, is_master: bool) {
        match is_master {
            true => self.add_claims(&claims),
            // The standby's own claims may be older than the master's claims.
            false => self.claims = claims,
        }
    }

    /// Adds the stored claims that this master lacks, because their ports have been absent. A claim
    /// of this master to one of these LIDs ends, unless its port has a stored claim as well.
    pub(crate) fn add_claims(&mut self, stored: &Claims) {
        let missing = stored
            .iter()
            .filter(|(port, _)| !self.claims.contains_key(port));
        let missing = by_base_lid(missing.map(|(_, &claim)| claim));
        if missing.is_empty() {
            return;
        }
        let claims = Arc::make_mut(&mut self.claims);
        claims
            .retain(|port: &Guid, claim| stored.contains_key(port) || !overlaps(&missing, *claim));
        for (&port, &claim) in stored {
            claims.entry(port).or_insert(claim);
        }
    }
}

/// Claims to different LIDs, by their first LID.
fn by_base_lid(claims: impl Iterator<Item = Claim>) -> BTreeMap<u32, Claim> {
    claims
        .map(|claim| (u32::from(claim.base.0), claim))
        .collect()
}

/// Whether `claim` has a LID in common with one of `others`.
fn overlaps(others: &BTreeMap<u32, Claim>, claim: Claim) -> bool {
    let below = others.range(..=claim.last_lid()).next_back();
    below.is_some_and(|(_, &other)| other.last_lid() >= u32::from(claim.base.0))
}
