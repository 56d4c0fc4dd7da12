//! A dry run: sweeps, plans and compares as usual, and lists the Sets instead of sending them.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_hardware::diff::Comparison;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::PortKey;
use rsm_model::fabric::Fabric;
use rsm_state::Handover;

/// `fabric` with the master's port as this manager's own port. With its real port, a dry run would
/// list a new MasterSMLID for every port, which would hide the other changes.
pub(super) fn at_masters_port(fabric: &Fabric, inventory: &Inventory) -> Arc<Fabric> {
    let own = inventory.own_port().and_then(|port| port.info.as_ref());
    let lid = own.map(|info| info.master_sm_lid());
    let holder = lid
        .filter(|lid| lid.is_unicast())
        .and_then(|lid| inventory.hardware.by_lid(lid));
    let mut planned = fabric.clone();
    planned.local = holder
        .and_then(|holder| fabric.find_port(holder))
        .or(fabric.local);
    Arc::new(planned)
}

/// The ports that a takeover writes. `comparison` must be made with [`Reregister::everybody`].
///
/// [`Reregister::everybody`]: rsm_hardware::diff::Reregister::everybody
pub(super) fn handover(comparison: &Comparison) -> Handover {
    let changes = comparison.changes(None).ports.into_iter();
    let reregistered = changes.filter(|(_, change)| change.reregister);
    Handover {
        reregistered: reregistered.map(|(key, _)| key).collect(),
        new_master_lids: ports_with_another_manager(comparison),
    }
}

/// Ports whose MasterSMLID is not the planned LID of this manager's port. Empty if the LID floats
/// between managers, or the plan was not made for the master's port.
fn ports_with_another_manager(comparison: &Comparison) -> BTreeSet<PortKey> {
    let (plan, inventory) = (comparison.plan, comparison.inventory);
    let planned_at = plan.fabric.local.map(|local| plan.fabric.key(local));
    let own = inventory
        .hardware
        .local
        .filter(|own| planned_at != Some(*own));
    let lid = own.and_then(|own| Some(plan.lids.lids.get(&own)?.base));
    let Some(lid) = lid.filter(|_| !plan.policy.floating_lid) else {
        return BTreeSet::new();
    };
    let has_another_master = |key: &PortKey| {
        let info = inventory
            .hardware
            .port(*key)
            .and_then(|port| port.info.as_ref());
        info.is_some_and(|info| info.master_sm_lid() != lid)
    };
    let ports = plan.lids.lids.keys().copied();
    ports.filter(has_another_master).collect()
}
