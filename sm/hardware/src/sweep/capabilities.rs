//! Reads GeneralInfo: one device of each type shows the capabilities of the type.

use std::sync::Arc;

use rsm_ids::{Guid, PortKey};
use rsm_mad::wire::attr::{Capabilities, GeneralInfo, NodeInfo, NodeType};
use rsm_model::capabilities::{DeviceType, is_plausible};
use rsm_model::habits::{DeviceHabit, DeviceKind};

use super::inventory::Inventory;
use super::{Query, Sweep};

impl Sweep {
    /// Asks a node for its capabilities, unless those of its type are known, or this sweep has
    /// asked for them.
    pub(super) fn ask_capabilities(&mut self, inventory: &Inventory, guid: Guid, info: &NodeInfo) {
        let wanted = self.policy.asks_capabilities
            || inventory.manages_vports()
            || self.policy.rate_limits.is_some() && info.node_type() != NodeType::Switch;
        if wanted
            && inventory.capabilities.wants(info)
            && self.asked_capabilities.insert(DeviceType::of(info))
        {
            self.ask(Query::Capabilities(guid));
        }
    }

    /// Records the capabilities of a node's type.
    pub(super) fn on_capabilities(
        &mut self,
        inventory: &mut Inventory,
        guid: Guid,
        info: &GeneralInfo,
    ) {
        let capabilities = info.capabilities();
        if !is_plausible(capabilities)
            && let Some(node) = inventory.node(guid)
        {
            let kind = DeviceKind::of(&node.info, rsm_ids::PortNum::ZERO);
            let habit = DeviceHabit::NonsenseCapabilities;
            inventory.habits.learn(kind, habit);
        }
        self.learn_capabilities(inventory, guid, capabilities);
    }

    /// Handles the refusal or silence of a node that was asked for its capabilities. Neither is a
    /// fault, because firmware may not know the attribute.
    pub(super) fn on_no_capabilities(
        &mut self,
        inventory: &mut Inventory,
        guid: Guid,
        is_silent: bool,
    ) {
        if !is_silent {
            return self.learn_capabilities(inventory, guid, Capabilities::NONE);
        }
        if let Some(device) = inventory.node(guid).map(|node| DeviceType::of(&node.info)) {
            Arc::make_mut(&mut inventory.capabilities).unanswered(device);
        }
    }

    fn learn_capabilities(
        &mut self,
        inventory: &mut Inventory,
        guid: Guid,
        capabilities: Capabilities,
    ) {
        let Some(device) = inventory.node(guid).map(|node| DeviceType::of(&node.info)) else {
            return;
        };
        if !Arc::make_mut(&mut inventory.capabilities).learn(device, capabilities) {
            return;
        }
        // Ports of the type that answered before are now asked for the attributes that the type
        // supports.
        let nodes = inventory
            .nodes()
            .filter(|(_, node)| DeviceType::of(&node.info) == device);
        let ports: Vec<PortKey> = nodes
            .flat_map(|(guid, node)| {
                let ports = node.external_ports();
                ports.map(move |(number, _)| PortKey::new(guid, number))
            })
            .collect();
        for key in ports {
            self.see_extended_port(inventory, key, None);
            self.see_vports(inventory, key, None);
            self.see_rate_limits(inventory, key);
        }
        let switches = inventory
            .switches()
            .filter(|(_, node, _)| DeviceType::of(&node.info) == device);
        let switches: Vec<Guid> = switches.map(|(guid, ..)| guid).collect();
        for guid in switches {
            self.see_adaptive(inventory, guid, false);
        }
    }
}
