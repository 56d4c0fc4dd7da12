//! Reads ExtendedPortInfo of ports for which it shows more than PortInfo: links that may be FDR10,
//! which PortInfo shows as QDR; ports that may lead to an aggregation node; and, with adaptive
//! routing, adapters that may accept packets out of order.

use rsm_ids::{PortKey, PortNum};
use rsm_mad::wire::attr::{Capability, ExtendedPortInfo, LinkSpeed, NodeType, PortInfo, PortState};

use super::inventory::Inventory;
use super::{Query, Sweep};

impl Sweep {
    /// Asks for ExtendedPortInfo of a port whose link came up, if it may show more than PortInfo;
    /// `before` is the former state. Drops the answer if the link is down.
    pub(super) fn see_extended_port(
        &mut self,
        inventory: &mut Inventory,
        key: PortKey,
        before: Option<PortState>,
    ) {
        let Some(node) = inventory.node(key.node) else {
            return;
        };
        let Some(port) = node.port(key.port) else {
            return;
        };
        if port.state() == Some(PortState::Down) {
            if port.extended.is_some()
                && let Some(port) = inventory.port_mut(key)
            {
                port.extended = None;
            }
            return;
        }
        // A link that trained again may have another speed.
        if port.extended.is_some() && !port.is_retrained(before) {
            return;
        }
        let wants = port.info.as_ref().is_some_and(|info| {
            may_be_fdr10(info) && inventory.capabilities.has_extended_port_info(&node.info)
        }) || may_lead_to_aggregation_node(inventory, key)
            || (self.policy.routes_adaptively && inventory.takes_out_of_order(key));
        if wants {
            self.ask(Query::ExtendedPort(key));
        }
    }

    /// Records ExtendedPortInfo; `None` if the port did not answer with it, which is no fault.
    pub(super) fn on_extended_port(
        &mut self,
        inventory: &mut Inventory,
        key: PortKey,
        info: Option<ExtendedPortInfo>,
    ) {
        let Some(port) = inventory.port(key) else {
            return;
        };
        // A port whose firmware lacks the attribute is not asked again while its link stays up.
        let info = info.unwrap_or_default();
        if port.extended.as_deref() != Some(&info)
            && let Some(port) = inventory.port_mut(key)
        {
            port.extended = Some(Box::new(info));
            self.changed |= info != ExtendedPortInfo::default();
            inventory.note_managed(key);
        }
    }
}

/// Whether PortInfo shows QDR, so that the link may be FDR10.
fn may_be_fdr10(info: &PortInfo) -> bool {
    info.effective_speed() == Some(LinkSpeed::Qdr)
}

/// Whether a port is the last one of a switch that marks ports to aggregation nodes: the
/// aggregation node is behind the port after the last cage.
fn may_lead_to_aggregation_node(inventory: &Inventory, key: PortKey) -> bool {
    inventory.node(key.node).is_some_and(|node| {
        node.kind() == NodeType::Switch
            && key.port == PortNum(node.info.num_ports())
            && key.port != PortNum::ZERO
            && [
                Capability::ExtendedPortInfo,
                Capability::SharpAggregationNode,
                Capability::SpecialPortMarking,
            ]
            .into_iter()
            .all(|needed| inventory.capabilities.has(&node.info, needed))
    })
}
