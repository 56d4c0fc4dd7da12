//! Reads ExtendedPortInfo of ports for which it may show more than PortInfo: ports whose link may
//! be FDR10, which PortInfo shows as QDR; ports that may lead to an aggregation node; and, with
//! adaptive routing, ports of adapters that may accept packets out of order.

use rsm_ids::{PortKey, PortNum};
use rsm_mad::wire::attr::{Capability, ExtendedPortInfo, LinkSpeed, NodeType, PortInfo, PortState};

use super::Query;
use super::inventory::Inventory;
use super::reading::Reading;

/// Asks for ExtendedPortInfo of a port whose link has come up, if it may show more than PortInfo.
/// `before` is the former state of the port; `None` if it is not known. Forgets the known
/// ExtendedPortInfo if the link is down.
pub(super) fn check_extended_port(
    reading: &mut Reading,
    inventory: &mut Inventory,
    key: PortKey,
    before: Option<PortState>,
) {
    let Some(node) = inventory.hardware.node(key.node) else {
        return;
    };
    let Some(port) = node.port(key.port) else {
        return;
    };
    if port.state() == Some(PortState::Down) {
        if port.extended.is_some()
            && let Some(port) = inventory.hardware.port_mut(key)
        {
            port.extended = None;
        }
        return;
    }
    // A link that trained again may have another speed.
    if port.extended.is_some() && !port.is_retrained(before) {
        return;
    }
    let may_show_more = port.info.as_ref().is_some_and(|info| {
        may_be_fdr10(info)
            && inventory
                .hardware
                .capabilities
                .has_extended_port_info(&node.info)
    }) || may_lead_to_aggregation_node(inventory, key)
        || (reading.policy.routes_adaptively && inventory.hardware.takes_out_of_order(key));
    if may_show_more {
        reading.ask(Query::ExtendedPort(key));
    }
}

/// Records the ExtendedPortInfo of a port. `None` means that the port has not answered with it,
/// which is no fault.
pub(super) fn on_extended_port(
    reading: &mut Reading,
    inventory: &mut Inventory,
    key: PortKey,
    info: Option<ExtendedPortInfo>,
) {
    let Some(port) = inventory.hardware.port(key) else {
        return;
    };
    // With a default value, the sweep does not ask again while the link stays up.
    let info = info.unwrap_or_default();
    if port.extended.as_deref() != Some(&info)
        && let Some(port) = inventory.hardware.port_mut(key)
    {
        port.extended = Some(Box::new(info));
        reading.changed |= info != ExtendedPortInfo::default();
        inventory.hardware.record_managed_write(key);
    }
}

/// Whether PortInfo shows QDR, so that the link may be FDR10.
fn may_be_fdr10(info: &PortInfo) -> bool {
    info.effective_speed() == Some(LinkSpeed::Qdr)
}

/// Whether a port may lead to an aggregation node: it is the last port of a switch, after the ports
/// with cages, and switches of this type mark ports that lead to aggregation nodes.
fn may_lead_to_aggregation_node(inventory: &Inventory, key: PortKey) -> bool {
    inventory.hardware.node(key.node).is_some_and(|node| {
        node.kind() == NodeType::Switch
            && key.port == PortNum(node.info.num_ports())
            && key.port != PortNum::ZERO
            && [
                Capability::ExtendedPortInfo,
                Capability::SharpAggregationNode,
                Capability::SpecialPortMarking,
            ]
            .into_iter()
            .all(|capability| inventory.hardware.capabilities.has(&node.info, capability))
    })
}
