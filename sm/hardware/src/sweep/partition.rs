//! Reads P_KeyTables.
//!
//! A port without a LID has not been managed since power-on. If the first block of its table has
//! the power-on content, the sweep assumes that the other blocks are empty, and does not read them.
//! The sweep reads every unknown block of other ports, because an unknown key would give access to
//! a partition. It reads the table of an external switch port only if the port enforces partitions.

use std::sync::Arc;

use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::wire::attr::{PKeyTable, PortInfo, PortState};
use rsm_model::managed::Origin;
use rsm_model::p_keys::{self, PKeyImage};

use super::inventory::Inventory;
use super::reading::Reading;
use super::{Query, reset};

/// Handles PortInfo of a port, whose former PortInfo is `before`: forgets the P_KeyTable after a
/// reset, and asks for its unknown blocks.
pub(super) fn check_p_keys(
    reading: &mut Reading,
    inventory: &mut Inventory,
    key: PortKey,
    before: Option<&PortInfo>,
) {
    let is_switch = inventory.hardware.is_switch(key.node);
    let Some(info) = inventory.hardware.port(key).and_then(|port| port.info) else {
        return;
    };
    // A host whose link trained again may have been powered off before.
    let retrained = info.port_state() == PortState::Init
        && before.is_none_or(|before| before.port_state() != PortState::Init);
    let end_port = !is_switch || key.port == PortNum::ZERO;
    if end_port && (reset::forgot_lid(before, &info) || !is_switch && retrained) {
        forget_p_keys(reading, inventory, key);
    } else if !end_port && before.is_some_and(enforces) && !enforces(&info) {
        // The switch was reset: Sets after the reset may have restored the LID and LinearFDBTop,
        // but not the enforcement.
        forget_all_p_keys(reading, inventory, key.node);
    }
    ask_p_keys(reading, inventory, key);
}

/// Handles a switch that the sweep finds for the first time: asks for the tables of its ports
/// that enforce partitions.
pub(super) fn ask_enforced(reading: &mut Reading, inventory: &Inventory, guid: Guid) {
    for key in ports(inventory, guid).skip(1) {
        ask_p_keys(reading, inventory, key);
    }
}

/// The ports of a node, from port 0 on.
fn ports(inventory: &Inventory, guid: Guid) -> impl Iterator<Item = PortKey> + use<> {
    let node = inventory.hardware.node(guid);
    let ports = node.map_or(0, |node| node.ports.len());
    (0..ports).map(move |number| PortKey::new(guid, PortNum(number as u8)))
}

/// Forgets all tables of a node after a reset.
pub(super) fn forget_all_p_keys(reading: &mut Reading, inventory: &mut Inventory, guid: Guid) {
    for key in ports(inventory, guid) {
        forget_p_keys(reading, inventory, key);
    }
    ask_p_keys(reading, inventory, PortKey::new(guid, PortNum::ZERO));
}

/// Handles a block of a P_KeyTable: asks for the other blocks of a fresh port if the first block
/// does not have the power-on content.
pub(super) fn on_p_keys(
    reading: &mut Reading,
    inventory: &mut Inventory,
    key: PortKey,
    block: u16,
    table: &PKeyTable,
) {
    let capacity = capacity(inventory, key);
    let Some(port) = inventory.hardware.port_mut(key) else {
        return;
    };
    let image = Arc::make_mut(port.p_keys.get_or_insert_default());
    let is_held = image.holds(block, &table.p_keys());
    image.store(block, &table.p_keys());
    let fresh = port
        .info
        .as_ref()
        .is_some_and(|info| info.lid() == Lid::NONE);
    if block == 0 && fresh {
        if image.is_initial() {
            image.mark_rest_empty();
        } else {
            for block in 1..p_keys::blocks(capacity) {
                reading.ask(Query::PKeys(key, block));
            }
        }
    }
    if !is_held {
        reading.changed = true;
        reading.on_differing_block(inventory, Query::PKeys(key, block));
    }
}

/// Handles an agent that refuses to show a table: assumes that the table has its power-on content.
/// If the plan wants that content, the port can be used; otherwise the answer to a Set shows the
/// table.
pub(super) fn on_p_keys_refused(reading: &mut Reading, inventory: &mut Inventory, key: PortKey) {
    if let Some(port) = inventory.hardware.port_mut(key)
        && port.p_keys.is_none()
    {
        reading.changed = true;
        port.p_keys = Some(Arc::new(PKeyImage::initial()));
    }
}

/// Forgets the P_KeyTable and the managed attributes of a port, and makes the sweep ask for them
/// again.
fn forget_p_keys(reading: &mut Reading, inventory: &mut Inventory, key: PortKey) {
    if let Some(port) = inventory.hardware.port_mut(key) {
        port.forget_tables();
    }
    inventory.hardware.record_managed_write(key);
    let source = reading.policy.source(inventory);
    for origin in [Origin::Hosts, Origin::Qos, Origin::RateLimits] {
        for block in source.blocks(key, origin) {
            reading.queries.forget(Query::Managed(block));
        }
    }
    // Earlier answers in this sweep are from before the reset.
    for block in 0..p_keys::blocks(capacity(inventory, key)) {
        reading.queries.forget(Query::PKeys(key, block));
    }
}

/// Asks for the unknown blocks of a port's P_KeyTable; in an audit, for all blocks.
fn ask_p_keys(reading: &mut Reading, inventory: &Inventory, key: PortKey) {
    let (Some(node), Some(port)) = (
        inventory.hardware.node(key.node),
        inventory.hardware.port(key),
    ) else {
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
    let audit = reading.audits(key);
    let image = port.p_keys.as_deref();
    for block in 0..wanted {
        if audit || !image.is_some_and(|image| image.is_known(block)) {
            reading.ask(Query::PKeys(key, block));
        }
    }
}

/// Whether the port of a switch drops packets whose P_Key is not in its table.
fn enforces(info: &PortInfo) -> bool {
    info.partition_enforcement_inbound() || info.partition_enforcement_outbound()
}

/// Capacity of a port's P_KeyTable, in keys.
fn capacity(inventory: &Inventory, key: PortKey) -> u16 {
    inventory.hardware.node(key.node).map_or(0, |node| {
        let switch = node.switch.as_ref().map(|switch| &switch.info);
        p_keys::capacity(&node.info, switch, key.port)
    })
}

/// AttributeModifier of a block. On nodes other than switches, the path of the Get selects the
/// port.
pub(super) fn modifier(inventory: &Inventory, key: PortKey, block: u16) -> u32 {
    let is_switch = inventory.hardware.is_switch(key.node);
    p_keys::modifier(is_switch, key.port, block)
}

#[cfg(test)]
mod tests {
    use rsm_mad::wire::attr::{Attribute, NodeInfo, NodeType, PKey};
    use rsm_mad::wire::header::Status;
    use rsm_model::{InventoryNode, InventoryPort};

    use super::super::{AgentAnswer, Sweep, SweepPolicy};
    use super::*;
    use crate::sweep::SweepScope;

    const PORT: PortKey = PortKey::new(Guid(7), PortNum(1));

    /// The inventory of a host with this LID and a table of 100 keys, and a sweep that has just
    /// read the PortInfo of its port.
    fn host(lid: u16) -> (Inventory, Sweep) {
        let mut node = NodeInfo::default();
        node.set_node_type(NodeType::Ca)
            .set_node_guid(PORT.node)
            .set_num_ports(1)
            .set_partition_cap(100);
        let mut inventory = Inventory::default();
        inventory.hardware.insert(
            PORT.node,
            InventoryNode {
                info: node,
                description: None,
                ports: vec![InventoryPort::default(); 2],
                switch: None,
                path: Default::default(),
                alternate: None,
                epoch: 0,
                first_epoch: 0,
                missed: 0,
            },
        );
        inventory.hardware.local = Some(PORT);
        let mut sweep = Sweep::start(SweepScope::Targets, &mut inventory, SweepPolicy::default());
        sweep.read_again(PORT);
        assert_eq!(asked(&mut sweep, &mut inventory), [Query::Port(PORT)]);
        let mut info = PortInfo::default();
        info.set_port_state(PortState::Active).set_lid(Lid(lid));
        sweep.handle(
            &mut inventory,
            Query::Port(PORT),
            AgentAnswer::Data(info.as_data()),
        );
        (inventory, sweep)
    }

    /// Takes the waiting queries, except the probe through the port.
    fn asked(sweep: &mut Sweep, inventory: &mut Inventory) -> Vec<Query> {
        let asks = std::iter::from_fn(|| sweep.poll_ask(inventory));
        let queries = asks.map(|ask| ask.query);
        queries
            .filter(|query| !matches!(query, Query::Node(_)))
            .collect()
    }

    /// Queries for these blocks of P_Keys.
    fn blocks(range: std::ops::Range<u16>) -> Vec<Query> {
        range.map(|block| Query::PKeys(PORT, block)).collect()
    }

    /// A block that begins with these keys.
    fn table(keys: &[u16]) -> PKeyTable {
        let mut all = [PKey::INVALID; PKeyTable::ENTRIES];
        for (slot, &key) in all.iter_mut().zip(keys) {
            *slot = PKey(key);
        }
        let mut table = PKeyTable::default();
        table.set_p_keys(all);
        table
    }

    #[test]
    fn only_the_first_block_of_a_fresh_port_is_read_unless_it_holds_keys() {
        for (keys, more) in [
            (&[0xffff][..], 0..0),
            (&[0x7fff][..], 1..4),
            (&[0xffff, 0, 1][..], 1..4),
        ] {
            let (mut inventory, mut sweep) = host(0);
            assert_eq!(asked(&mut sweep, &mut inventory), blocks(0..1));
            let data = table(keys);
            sweep.handle(
                &mut inventory,
                Query::PKeys(PORT, 0),
                AgentAnswer::Data(data.as_data()),
            );
            let all_known = more.is_empty();
            assert_eq!(asked(&mut sweep, &mut inventory), blocks(more));
            let image = inventory
                .hardware
                .port(PORT)
                .unwrap()
                .p_keys
                .as_ref()
                .unwrap();
            assert_eq!(image.is_known(3), all_known);
        }
    }

    #[test]
    fn every_block_of_a_managed_port_is_read() {
        let (mut inventory, mut sweep) = host(5);
        assert_eq!(asked(&mut sweep, &mut inventory), blocks(0..4));
    }

    #[test]
    fn refused_table_counts_as_having_its_power_on_content() {
        let (mut inventory, mut sweep) = host(0);
        let query = Query::PKeys(PORT, 0);
        assert_eq!(asked(&mut sweep, &mut inventory), [query]);
        let refused = AgentAnswer::Refused(Status::UNSUPPORTED_METHOD_ATTRIBUTE);
        sweep.handle(&mut inventory, query, refused);
        let image = inventory
            .hardware
            .port(PORT)
            .unwrap()
            .p_keys
            .as_ref()
            .unwrap();
        assert!(image.holds(0, &[PKey::DEFAULT_FULL, PKey::INVALID]) && image.is_initial());
        assert!(inventory.faults.is_owed(query), "the operator is told");
        // Silence proves nothing about the table.
        let (mut inventory, mut sweep) = host(0);
        assert_eq!(asked(&mut sweep, &mut inventory), [query]);
        sweep.handle(&mut inventory, query, AgentAnswer::Silence);
        assert!(inventory.hardware.port(PORT).unwrap().p_keys.is_none());
    }
}
