//! Reads the planned blocks of managed attributes that are unknown.

use rsm_ids::{Lid, PortKey};
use rsm_model::managed::{BlockKey, Content, Origin};

use super::inventory::Inventory;
use super::{Query, Sweep};

impl Sweep {
    /// Handles an answered port: asks for its planned blocks that are unknown.
    pub(super) fn see_managed(&mut self, inventory: &Inventory, port: PortKey) {
        let source = self.policy.source(inventory);
        let audit = self.audits(port);
        let mut blocks = source.blocks(port, Origin::Hosts);
        if was_managed(inventory, port) {
            blocks.extend(source.blocks(port, Origin::Qos));
            blocks.extend(source.blocks_of_others(port));
        }
        for key in blocks {
            let record = inventory.port(key.port);
            let is_known = record.is_some_and(|record| record.managed.is_known(key.place));
            let again = audit && key.is_qos();
            if key.place.is_readable() && (again || !is_known) {
                self.ask(Query::Managed(key));
            }
        }
    }

    pub(super) fn on_managed(&mut self, inventory: &mut Inventory, key: BlockKey, data: &Content) {
        if key.is_rate_limit() {
            inventory.rate_limits_answered(key);
        }
        let Some(port) = inventory.port_mut(key.port) else {
            return;
        };
        if port.managed.holds(key.place, data) {
            return;
        }
        let is_known = port.managed.is_known(key.place);
        // The comparison has not seen this content yet.
        self.changed = true;
        port.managed.store(key.place, data);
        inventory.note_managed(key.port);
        if is_known {
            self.on_other_block(inventory, Query::Managed(key));
        }
    }

    /// Handles an agent that refuses to show a block. Returns whether a habit exists for the
    /// refusal, which the kind of device then has.
    pub(super) fn on_managed_refused(inventory: &mut Inventory, key: BlockKey) -> bool {
        inventory.learn_refused_block(key)
    }
}

/// Whether a manager has configured the port before. A push writes the tables of a fresh port
/// without reading them.
fn was_managed(inventory: &Inventory, key: PortKey) -> bool {
    let Some(node) = inventory.node(key.node) else {
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
