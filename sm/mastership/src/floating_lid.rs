//! The LID of the master, if it moves from manager to manager.

use std::sync::Arc;

use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::Guid;
use rsm_plan::lids::{Claim, Claims};
use rsm_plan::policy::Policy;

/// Exchanges in `claims` the LIDs of this manager's port and of the port with the GUID `before`,
/// the former manager's, if the LID moves with the manager (`sm.lid`). Returns whether they
/// changed.
pub fn exchange_lids(
    inventory: &Inventory,
    policy: &Policy,
    before: Guid,
    claims: &mut Arc<Claims>,
) -> bool {
    let own = inventory.own_guid();
    let Some(local) = inventory.own_info().filter(|_| before != own) else {
        return false;
    };
    let held = Claim {
        base: local.lid(),
        lmc: local.lmc(),
    };
    let theirs = claims.get(&before).copied().filter(|theirs| {
        theirs.base == local.master_sm_lid() && theirs.lmc == held.lmc && theirs.base != held.base
    });
    let Some(theirs) = theirs.filter(|_| policy.floating_lid) else {
        return false;
    };
    let claims = Arc::make_mut(claims);
    let ours = claims.insert(own, theirs).unwrap_or(held);
    claims.insert(before, ours);
    true
}
