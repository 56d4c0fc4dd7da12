//! Reading P_KeyTables back.
//!
//! A port that has no LID has not been managed since it was powered on. Where the first block of its table is as after
//! power-on, the rest is taken for empty and not read. Of any other port every block is read as long as it is not known:
//! a key that nobody knows of would be a way into a partition. Ports of switches are read where they enforce partitions.

use std::sync::Arc;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::{PKeyTable, PortInfo, PortState};

use super::inventory::{BlockState, Inventory, NodeRecord, PortKey};
use super::p_keys::{self, PKeyImage};
use super::{Query, Scope, Sweep, reset};

impl Sweep {
    /// A port answered, and had answered `before`: asks for what is not known of its P_KeyTable.
    pub(super) fn see_p_keys(
        &mut self,
        inventory: &mut Inventory,
        key: PortKey,
        before: Option<&PortInfo>,
    ) {
        let is_switch = inventory.node(key.node).is_some_and(NodeRecord::is_switch);
        let Some(info) = inventory.port(key).and_then(|port| port.info) else {
            return;
        };
        // The host behind a link that trained again may have been powered off in between.
        let retrained = info.port_state() == PortState::Init
            && before.is_none_or(|before| before.port_state() != PortState::Init);
        let end_port = !is_switch || key.port == PortNum::ZERO;
        if end_port && (reset::forgot_lid(before, &info) || !is_switch && retrained) {
            self.forget_p_keys(inventory, key);
        }
        self.ask_p_keys(inventory, key);
    }

    /// The switch was met for the first time: asks for the tables by which its ports enforce partitions.
    pub(super) fn ask_enforced(&mut self, inventory: &Inventory, guid: Guid) {
        let ports = inventory.node(guid).map_or(0, |node| node.ports.len());
        for number in 1..ports {
            self.ask_p_keys(inventory, PortKey::new(guid, PortNum(number as u8)));
        }
    }

    /// The node was reset: none of its tables is what it was.
    pub(super) fn forget_all_p_keys(&mut self, inventory: &mut Inventory, guid: Guid) {
        let ports = inventory.node(guid).map_or(0, |node| node.ports.len());
        for number in 0..ports {
            self.forget_p_keys(inventory, PortKey::new(guid, PortNum(number as u8)));
        }
        self.ask_p_keys(inventory, PortKey::new(guid, PortNum::ZERO));
    }

    pub(super) fn on_p_keys(
        &mut self,
        inventory: &mut Inventory,
        key: PortKey,
        block: u16,
        table: &PKeyTable,
    ) {
        let capacity = capacity(inventory, key);
        let Some(port) = inventory.port_mut(key) else {
            return;
        };
        let image = Arc::make_mut(port.p_keys.get_or_insert_default());
        self.changed |= !image.holds(block, &table.p_keys());
        image.store(block, table);
        let fresh = port
            .info
            .as_ref()
            .is_some_and(|info| info.lid() == Lid::NONE);
        if block == 0 && fresh {
            if image.is_initial() {
                image.mark_rest_empty();
            } else {
                for block in 1..p_keys::blocks(capacity) {
                    self.ask(Query::PKeys(key, block));
                }
            }
        }
    }

    fn forget_p_keys(&mut self, inventory: &mut Inventory, key: PortKey) {
        if let Some(port) = inventory.port_mut(key) {
            port.p_keys = None;
        }
        // What was asked in this sweep was asked of the port as it was before.
        for block in 0..p_keys::blocks(capacity(inventory, key)) {
            self.asked.remove(&Query::PKeys(key, block));
        }
    }

    fn ask_p_keys(&mut self, inventory: &Inventory, key: PortKey) {
        let (Some(node), Some(port)) = (inventory.node(key.node), inventory.port(key)) else {
            return;
        };
        let Some(info) = &port.info else { return };
        let external = key.port != PortNum::ZERO;
        let blocks = p_keys::blocks(capacity(inventory, key));
        let wanted = match (node.is_switch(), external) {
            (true, true) if enforces(info) => blocks,
            (true, true) => 0,
            (false, _) if info.port_state() == PortState::Down => 0,
            _ if info.lid() == Lid::NONE => blocks.min(1),
            _ => blocks,
        };
        let audit = matches!(self.scope, Scope::Full { audit: true });
        let state = |block| {
            let image = port.p_keys.as_deref();
            image.map_or(BlockState::Unknown, |image: &PKeyImage| image.state(block))
        };
        for block in 0..wanted {
            if audit || state(block) != BlockState::Known {
                self.ask(Query::PKeys(key, block));
            }
        }
    }
}

/// Whether the port of a switch drops packets whose P_Key is not in its table.
fn enforces(info: &PortInfo) -> bool {
    info.partition_enforcement_inbound() || info.partition_enforcement_outbound()
}

/// How many keys the table of a port holds.
fn capacity(inventory: &Inventory, key: PortKey) -> u16 {
    inventory.node(key.node).map_or(0, |node| {
        let switch = node.switch.as_ref().map(|switch| &switch.info);
        p_keys::capacity(&node.info, switch, key.port)
    })
}

/// The attribute's modifier: on what is no switch the request's way names the port.
pub(super) fn modifier(inventory: &Inventory, key: PortKey, block: u16) -> u32 {
    let is_switch = inventory.node(key.node).is_some_and(NodeRecord::is_switch);
    p_keys::modifier(is_switch, key.port, block)
}
