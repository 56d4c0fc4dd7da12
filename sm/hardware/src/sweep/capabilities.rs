//! Reads GeneralInfo: one device of each type shows the capabilities of the type.

use std::sync::Arc;

use rsm_ids::{Guid, PortKey};
use rsm_mad::wire::attr::{Capabilities, GeneralInfo, NodeInfo, NodeType};
use rsm_model::capabilities::{DeviceType, is_plausible};
use rsm_model::habits::{DeviceHabit, DeviceKind};

use super::inventory::Inventory;
use super::reading::Reading;
use super::{Query, adaptive, extended_port, rate_limits, vports};

/// Asks a node for the capabilities of its type, if the settings need them. Does nothing if the
/// capabilities are known, or if this sweep has asked another node of the type.
pub(super) fn ask_capabilities(
    reading: &mut Reading,
    inventory: &Inventory,
    guid: Guid,
    info: &NodeInfo,
) {
    let wanted = reading.policy.asks_capabilities
        || inventory.manages_vports()
        || reading.policy.rate_limits.is_some() && info.node_type() != NodeType::Switch;
    if wanted
        && inventory.hardware.capabilities.wants(info)
        && reading.asked_capabilities.insert(DeviceType::of(info))
    {
        reading.ask(Query::Capabilities(guid));
    }
}

/// Records the capabilities of a node's type.
pub(super) fn on_capabilities(
    reading: &mut Reading,
    inventory: &mut Inventory,
    guid: Guid,
    info: &GeneralInfo,
) {
    let capabilities = info.capabilities();
    if !is_plausible(capabilities)
        && let Some(node) = inventory.hardware.node(guid)
    {
        let kind = DeviceKind::of(&node.info, rsm_ids::PortNum::ZERO);
        let habit = DeviceHabit::NonsenseCapabilities;
        inventory.hardware.habits.learn(kind, habit);
    }
    learn_capabilities(reading, inventory, guid, capabilities);
}

/// Handles the refusal or silence of a node that was asked for its capabilities. Neither is a
/// fault, because firmware may not know the attribute.
pub(super) fn on_no_capabilities(
    reading: &mut Reading,
    inventory: &mut Inventory,
    guid: Guid,
    is_silent: bool,
) {
    if !is_silent {
        return learn_capabilities(reading, inventory, guid, Capabilities::NONE);
    }
    if let Some(device) = inventory.hardware.device_type(guid) {
        Arc::make_mut(&mut inventory.hardware.capabilities).unanswered(device);
    }
}

/// Records the capabilities of a node's type, and asks the type's ports for the attributes that
/// depend on them.
fn learn_capabilities(
    reading: &mut Reading,
    inventory: &mut Inventory,
    guid: Guid,
    capabilities: Capabilities,
) {
    let Some(device) = inventory.hardware.device_type(guid) else {
        return;
    };
    if !Arc::make_mut(&mut inventory.hardware.capabilities).learn(device, capabilities) {
        return;
    }
    // When earlier ports of the type answered, it was not known that they have these attributes.
    let nodes = inventory
        .hardware
        .nodes()
        .filter(|(_, node)| DeviceType::of(&node.info) == device);
    let ports: Vec<PortKey> = nodes
        .flat_map(|(guid, node)| {
            let ports = node.external_ports();
            ports.map(move |(number, _)| PortKey::new(guid, number))
        })
        .collect();
    for key in ports {
        extended_port::check_extended_port(reading, inventory, key, None);
        vports::check_vports(reading, inventory, key, None);
        rate_limits::check_rate_limits(reading, inventory, key);
    }
    let switches = inventory
        .hardware
        .switches()
        .filter(|(_, node, _)| DeviceType::of(&node.info) == device);
    let switches: Vec<Guid> = switches.map(|(guid, ..)| guid).collect();
    for guid in switches {
        adaptive::check_adaptive(reading, inventory, guid, false);
    }
}
