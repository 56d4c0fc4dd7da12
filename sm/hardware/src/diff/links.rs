//! Selects links to take down or up now: ports to be disabled, and orders of operators.

use std::collections::BTreeMap;

use rsm_ids::PortKey;
use rsm_mad::wire::attr::{PortPhysicalState, PortState};

use crate::link_step::LinkStep;
use crate::sweep::inventory::Inventory;

/// The links to take down or up now, by the port whose PortInfo is set. A port is disabled unless it
/// shows that it is: one whose link is down could come up later. Only a port whose link is up is
/// bounced. Only a port whose link is down is enabled, even if it was not disabled when it was read.
/// An operator's order replaces a pending disablement of the same port,
/// which the operator may just have revoked; if the port must be disabled all the same, the next
/// push does so.
pub(super) fn due(inventory: &Inventory) -> BTreeMap<PortKey, LinkStep> {
    let orders = inventory.link_orders.iter();
    let orders = orders.map(|(&port, &step)| (port, step));
    let disabling = inventory.disabling.iter();
    let disabling = disabling.map(|&port| (port, LinkStep::Disable));
    let wanted: BTreeMap<PortKey, LinkStep> = disabling.chain(orders).collect();
    let is_due = |port: PortKey, step| {
        let port = inventory.hardware.port(port);
        let Some(info) = port.and_then(|port| port.info.as_ref()) else {
            return step == LinkStep::Enable;
        };
        let is_up = info.port_state() != PortState::Down;
        let is_disabled = info.port_physical_state() == PortPhysicalState::Disabled;
        match step {
            LinkStep::Disable => is_up || !is_disabled,
            LinkStep::Bounce => is_up,
            LinkStep::Enable => !is_up,
        }
    };
    let due = wanted.into_iter();
    due.filter(|&(port, step)| is_due(port, step)).collect()
}
