//! Links to take down or up at once: ports that are to be disabled, and orders of operators.

use std::collections::BTreeMap;

use rsm_ids::PortKey;
use rsm_mad::wire::attr::{PortPhysicalState, PortState};

use crate::link_step::LinkStep;
use crate::sweep::inventory::Inventory;

/// The Sets that are due. A port that is down already is not disabled, one that is not disabled is
/// not enabled, and one whose link is down is not bounced. An order to enable a port that is to be
/// disabled has no effect.
pub(super) fn due(inventory: &Inventory) -> BTreeMap<PortKey, LinkStep> {
    let orders = inventory.link_orders.iter();
    let orders = orders.map(|(&port, &step)| (port, step));
    let disabling = inventory.disabling.iter();
    let disabling = disabling.map(|&port| (port, LinkStep::Disable));
    let wanted: BTreeMap<PortKey, LinkStep> = orders.chain(disabling).collect();
    let is_due = |port: PortKey, step| {
        let record = inventory.port(port);
        let is_up = record
            .and_then(|port| port.state())
            .is_some_and(|state| state != PortState::Down);
        let info = record.and_then(|port| port.info.as_ref());
        let is_disabled =
            info.is_some_and(|info| info.port_physical_state() == PortPhysicalState::Disabled);
        match step {
            LinkStep::Disable => is_up,
            LinkStep::Bounce => is_up,
            LinkStep::Enable => is_disabled,
        }
    };
    let due = wanted.into_iter();
    due.filter(|&(port, step)| is_due(port, step)).collect()
}
