//! Reads SLtoVLMappingTables, if the engine in use may need them.
//!
//! A switch has one table for each pair of input and output port. The sweep asks for unknown tables
//! between ports whose link is up, and only on switches that forward packets. The tables of a fresh
//! switch are written without being read.

use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::wire::attr::SlToVlMapping;
use rsm_model::InventoryNode;

use super::Query;
use super::inventory::Inventory;
use super::reading::Reading;

/// Asks for the unknown tables of the switch `guid`, or for all its tables in an audit. With
/// `only`, asks only for tables from or to that port.
pub(super) fn ask_sl2vl(
    reading: &mut Reading,
    inventory: &Inventory,
    guid: Guid,
    only: Option<PortNum>,
) {
    if !reading.policy.reads_sl2vl {
        return;
    }
    let Some((node, switch)) = inventory
        .hardware
        .node(guid)
        .and_then(|node| Some((node, node.switch.as_ref()?)))
    else {
        return;
    };
    if switch.info.linear_fdb_top() == Lid::NONE {
        return;
    }
    let is_audit = reading.audits(PortKey::new(guid, PortNum::ZERO));
    for (input, output) in pairs(node) {
        let is_requested = only.is_none_or(|port| port == input || port == output);
        if is_requested && (is_audit || !switch.sl2vl.is_known((input, output))) {
            reading.ask(Query::SlToVl(guid, input, output));
        }
    }
}

/// Records the table from `input` to `output` that the switch `guid` has answered.
pub(super) fn on_sl2vl(
    reading: &mut Reading,
    inventory: &mut Inventory,
    (guid, input, output): (Guid, PortNum, PortNum),
    mapping: &SlToVlMapping,
) {
    let switch = inventory.hardware.switch_mut(guid);
    if let Some(switch) = switch {
        let row = mapping.vls();
        reading.changed |= !switch.sl2vl.holds((input, output), &row);
        switch.sl2vl.store((input, output), &row);
    }
}

/// Handles PortInfo of a port: asks for the unknown tables from and to the port, if its link is up.
pub(super) fn check_sl2vl(reading: &mut Reading, inventory: &Inventory, key: PortKey) {
    let is_up = inventory
        .hardware
        .port(key)
        .is_some_and(|port| port.is_up());
    if is_up && key.port != PortNum::ZERO {
        ask_sl2vl(reading, inventory, key.node, Some(key.port));
    }
}

/// The pairs of input and output port that packets can use in a switch: from port 0 or any port
/// whose link is up, to any other port whose link is up.
pub fn pairs(node: &InventoryNode) -> Vec<(PortNum, PortNum)> {
    let up: Vec<PortNum> = node
        .external_ports()
        .filter(|(_, port)| port.is_up())
        .map(|(number, _)| number)
        .collect();
    let outputs = |input: PortNum| {
        let outputs = up.iter().copied().filter(move |&output| output != input);
        outputs.map(move |output| (input, output))
    };
    std::iter::once(PortNum::ZERO)
        .chain(up.iter().copied())
        .flat_map(outputs)
        .collect()
}
