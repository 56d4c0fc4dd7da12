//! The floating LID of the master, which moves from manager to manager.

use std::sync::Arc;

use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::Guid;
use rsm_plan::lids::{Claim, Claims};
use rsm_plan::policy::Policy;

/// If the LID moves with the manager (`sm.lid`), exchanges in `claims` the LIDs of this manager's
/// port and of the former manager's port, which has the GUID `before`. Returns whether `claims`
/// changed. Nothing changes if this manager's port already has the LID, or if MasterSMLID is not
/// the former manager's LID.
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
