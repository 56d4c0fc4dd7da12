//! Reads the planned blocks of managed attributes that are unknown.

use rsm_ids::{Lid, PortKey};
use rsm_model::managed::{BlockKey, Content, Origin};

use super::Query;
use super::inventory::Inventory;
use super::reading::Reading;

/// Handles PortInfo of a port: asks for the unknown content of the port's planned blocks. An audit
/// also reads known QoS blocks again.
pub(super) fn check_managed(reading: &mut Reading, inventory: &Inventory, port: PortKey) {
    let source = reading.policy.source(inventory);
    let audit = reading.audits(port);
    let mut blocks = source.blocks(port, Origin::Hosts);
    if was_managed(inventory, port) {
        blocks.extend(source.blocks(port, Origin::Qos));
        blocks.extend(source.blocks_of_others(port));
    }
    for key in blocks {
        let record = inventory.hardware.port(key.port);
        let is_known = record.is_some_and(|record| record.managed.is_known(key.place));
        let again = audit && key.is_qos();
        if key.place.is_readable() && (again || !is_known) {
            reading.ask(Query::Managed(key));
        }
    }
}

/// Handles a block that a port shows.
pub(super) fn on_managed(
    reading: &mut Reading,
    inventory: &mut Inventory,
    key: BlockKey,
    data: &Content,
) {
    if key.is_rate_limit() {
        inventory.rate_limits_answered(key);
    }
    let Some(port) = inventory.hardware.port_mut(key.port) else {
        return;
    };
    if port.managed.holds(key.place, data) {
        return;
    }
    let is_known = port.managed.is_known(key.place);
    // No comparison has included this content yet.
    reading.changed = true;
    port.managed.store(key.place, data);
    inventory.hardware.record_managed_write(key.port);
    if is_known {
        reading.on_differing_block(inventory, Query::Managed(key));
    }
}

/// Handles an agent that refuses to show a block. Returns whether the refusal was recorded as a
/// habit of the kind of device.
pub(super) fn on_managed_refused(inventory: &mut Inventory, key: BlockKey) -> bool {
    inventory.hardware.learn_refused_block(key)
}

/// Whether a manager has configured the port before. Tables of a fresh port are written without
/// being read.
fn was_managed(inventory: &Inventory, key: PortKey) -> bool {
    let Some(node) = inventory.hardware.node(key.node) else {
        return false;
    };
    match &node.switch {
        Some(switch) => switch.info.linear_fdb_top() != Lid::NONE,
        None => {
            let info = node.port(key.port).and_then(|port| port.info.as_ref());
            info.is_some_and(|info| info.lid() != Lid::NONE)
        }
    }
}
