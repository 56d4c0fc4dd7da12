//! Links to take down or up at once: ports that are to be disabled, and orders of operators.

use std::collections::BTreeMap;

use rsm_ids::PortKey;
use rsm_mad::wire::attr::PortState;

use crate::link_step::LinkStep;
use crate::sweep::inventory::Inventory;

/// The Sets that are due. A port whose link is down is neither disabled nor bounced, and one whose
/// link is up is not enabled; whether a link that is down is disabled may have changed since the port
/// was read. An order comes before a port that is to be disabled: the operator may just have ended
/// that, and the next push disables a port that is still to be disabled.
pub(super) fn due(inventory: &Inventory) -> BTreeMap<PortKey, LinkStep> {
    let orders = inventory.link_orders.iter();
    let orders = orders.map(|(&port, &step)| (port, step));
    let disabling = inventory.disabling.iter();
    let disabling = disabling.map(|&port| (port, LinkStep::Disable));
    let wanted: BTreeMap<PortKey, LinkStep> = disabling.chain(orders).collect();
    let is_due = |port: PortKey, step| {
        let state = inventory.port(port).and_then(|port| port.state());
        let is_up = state.is_some_and(|state| state != PortState::Down);
        is_up != (step == LinkStep::Enable)
    };
    let due = wanted.into_iter();
    due.filter(|&(port, step)| is_due(port, step)).collect()
}
