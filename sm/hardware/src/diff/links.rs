//! Selects links to take down or up now: ports to be disabled, and orders of operators.

use std::collections::BTreeMap;

use rsm_ids::PortKey;
use rsm_mad::wire::attr::PortState;

use crate::link_step::LinkStep;
use crate::sweep::inventory::Inventory;

/// The links to take down or up now, by the port whose PortInfo is set.
///
/// * Disable: a port that must stay disabled, whenever its link is up. If its link is down, only an
///   order sets the port, and so once: some devices forget that they are disabled, and repeated
///   Sets would never end.
/// * Bounce: only a port whose link is up.
/// * Enable: only a port whose link is down, even if it was not disabled when it was read.
///
/// An operator's order replaces a pending disablement of the same port, because the operator may
/// just have revoked that. If the port must still be disabled, the next push disables it.
pub(super) fn due_steps(inventory: &Inventory) -> BTreeMap<PortKey, LinkStep> {
    let orders = inventory.link_orders.iter();
    let orders = orders.map(|(&port, &step)| (port, step));
    let is_up = |port| {
        let port = inventory.hardware.port(port);
        let state = port.and_then(|port| port.state());
        state.is_some_and(|state| state != PortState::Down)
    };
    let disabling = inventory
        .disabling
        .iter()
        .copied()
        .filter(|&port| is_up(port));
    let disabling = disabling.map(|port| (port, LinkStep::Disable));
    let wanted: BTreeMap<PortKey, LinkStep> = disabling.chain(orders).collect();
    let is_due = |port: PortKey, step| match step {
        LinkStep::Disable => is_up(port) || inventory.may_come_up(port),
        LinkStep::Bounce => is_up(port),
        LinkStep::Enable => !is_up(port),
    };
    let due = wanted.into_iter();
    due.filter(|&(port, step)| is_due(port, step)).collect()
}
