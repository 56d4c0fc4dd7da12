//! Handles answers to NodeInfo, which show the nodes behind ports.

use rsm_ids::{PortKey, PortNum};
use rsm_mad::ids::DirectedPath;
use rsm_mad::wire::attr::{NodeInfo, NodeType};
use rsm_model::{InventoryNode, InventoryPort};

use super::fault::Fault;
use super::inventory::Inventory;
use super::{Query, Sweep, SweepScope, capabilities, duplicates};

impl Sweep {
    /// Handles NodeInfo of the node behind `from`; `None` stands for the local node.
    pub(super) fn on_node(
        &mut self,
        inventory: &mut Inventory,
        from: Option<PortKey>,
        info: &NodeInfo,
    ) {
        self.answered += 1;
        let here = PortKey::new(info.node_guid(), info.local_port_num());
        let Some(from) = from else {
            inventory.faults.pay(Query::Node(None));
            self.on_local_node(inventory, here, info);
            return;
        };
        inventory.faults.heal_port(from);
        let contenders = self.contests.close(from);
        if here.node.is_zero() {
            inventory.unplug(from);
            inventory.faults.at_port(from, Fault::ZeroGuid);
        } else if let Some(first) = self.first_place(inventory, from, info) {
            if inventory
                .hardware
                .port(from)
                .is_some_and(|port| port.peer.is_some())
            {
                // The former neighbour of this port is gone.
                self.moves.record_displaced(inventory, from);
                inventory.unplug(from);
            }
            let reading = &mut self.reading;
            self.contests.contest(reading, inventory, from, first, info);
        } else if let Some(first) = duplicates::impersonated_port(inventory, from, info) {
            inventory.unplug(from);
            duplicates::leave_out(inventory, from, first, here.node);
        } else if here.node == from.node {
            self.hear(inventory, here.node);
            self.on_own_cable(inventory, from, here);
        } else {
            self.hear(inventory, here.node);
            self.on_cable(inventory, from, here, info);
        }
        duplicates::decide(&mut self.reading, inventory, from, info, contenders);
    }

    /// The place that had the GUID of `info` before a node with this GUID was found behind `from`
    /// ([`duplicates::first_place`]). A full sweep considers only nodes that it has already found;
    /// it asks behind the other ports later.
    fn first_place(
        &self,
        inventory: &Inventory,
        from: PortKey,
        info: &NodeInfo,
    ) -> Option<PortKey> {
        let is_full = matches!(self.reading.scope, SweepScope::Full { .. });
        let is_met = |node| !is_full || self.found_nodes.contains(&node);
        duplicates::first_place(inventory, from, info, is_met)
    }

    /// Handles NodeInfo of the local node; `here` is the local port.
    fn on_local_node(&mut self, inventory: &mut Inventory, here: PortKey, info: &NodeInfo) {
        if here.node.is_zero() {
            inventory.faults.at_port(here, Fault::ZeroGuid);
            return;
        }
        inventory.hardware.local = Some(here);
        self.record_node(inventory, here, info, DirectedPath::new());
        if info.node_type() != NodeType::Switch {
            self.reading.ask(Query::Port(here));
        }
    }

    /// Handles a cable from `from` to `here`, a port of the same node. Routes cannot use this
    /// cable, but its link is brought up like any other link once both ends confirm the cable. An
    /// answer at one end alone could also come from another node with the same GUID.
    fn on_own_cable(&mut self, inventory: &mut Inventory, from: PortKey, here: PortKey) {
        if here.port == from.port {
            inventory.unplug(from);
            inventory.faults.at_port(from, Fault::SelfCabled);
            return;
        }
        inventory.faults.at_port(from, Fault::Loopback(here));
        let joined = inventory
            .hardware
            .port(from)
            .is_some_and(|port| port.peer == Some(here));
        if inventory.faults.port(here) == Some(&Fault::Loopback(from)) {
            self.reading.changed |= !joined;
            inventory.join(from, here);
        } else {
            if !joined {
                inventory.unplug(from);
            }
            self.reading.ask(Query::Node(Some(here)));
        }
    }

    /// Handles a cable from `from` to `here`, a port of another node with a unique GUID.
    fn on_cable(
        &mut self,
        inventory: &mut Inventory,
        from: PortKey,
        here: PortKey,
        info: &NodeInfo,
    ) {
        let Some(path) = inventory
            .hardware
            .node(from.node)
            .and_then(|node| node.path.child(from.port).ok())
        else {
            inventory.faults.at_port(from, Fault::TooFar);
            return;
        };
        let known = inventory.hardware.port(here);
        let joined = known.is_some_and(|port| port.peer == Some(from));
        let before = known.and_then(|port| port.peer.or(port.peer_before));
        let is_moved = before.is_some_and(|before| before != from);
        let is_full = matches!(self.reading.scope, SweepScope::Full { .. });
        let is_of_this_sweep =
            known.is_some_and(|port| port.peer_epoch == inventory.hardware.epoch);
        if is_moved {
            self.moves.record_move(inventory, from, here);
        }
        self.record_node(inventory, here, info, path);
        inventory.join(from, here);
        if !joined {
            self.reading.changed = true;
            self.contests.record_rights(inventory, from, before, info);
        }
        let switch = info.node_type() == NodeType::Switch;
        if switch {
            self.record_outward_path(inventory, here.node, path);
            self.hear_outward(here.node);
        }
        if is_moved && !switch {
            // Earlier answers in this sweep came over the former cable, and may come from another
            // node: only NodeInfo shows which node answered.
            self.reading.again(Query::Port(here));
            self.reading.again(Query::Description(here.node));
            if !is_full || is_of_this_sweep {
                self.moves.record_moved_host(here);
            }
        }
        // The far end may have a new state. A full sweep asks all ports of a new switch anyway.
        self.reading.ask(Query::Port(here));
        // A node whose link came up may have been reset or replaced: ask for an attribute that
        // shows that. Earlier answers in this sweep are older than the change.
        let is_reported = self.is_target(from.node);
        let reset_query = match switch {
            true => Query::Switch(here.node),
            false => Query::Description(here.node),
        };
        if is_reported && (is_full || !joined) {
            self.reading.again(reset_query);
        } else if !is_full {
            self.reading.ask(reset_query);
        }
    }

    /// Records a node, and queues the queries about it when this sweep finds it for the first time.
    fn record_node(
        &mut self,
        inventory: &mut Inventory,
        here: PortKey,
        info: &NodeInfo,
        path: DirectedPath,
    ) {
        let epoch = inventory.hardware.epoch;
        let full = matches!(self.reading.scope, SweepScope::Full { .. });
        let exchanged = inventory.hardware.node(here.node).is_some_and(|known| {
            known.info.node_type() != info.node_type() || known.info.num_ports() != info.num_ports()
        });
        if exchanged {
            inventory.remove(here.node);
        }
        // The node's epoch does not show this: Gets by a former path may have reached the node
        // before this sweep found it.
        let first = if full {
            self.found_nodes.insert(here.node)
        } else {
            inventory.hardware.node(here.node).is_none()
        };
        match inventory.hardware.node_mut(here.node) {
            Some(node) => {
                let system = info.system_image_guid();
                self.reading.changed |= node.info.system_image_guid() != system;
                node.info.set_system_image_guid(system);
                if first {
                    node.path = path;
                    node.alternate = None;
                    node.missed = 0;
                }
                node.epoch = epoch;
            }
            None => {
                self.reading.changed = true;
                inventory.hardware.insert(
                    here.node,
                    InventoryNode {
                        info: *info,
                        description: None,
                        ports: vec![InventoryPort::default(); usize::from(info.num_ports()) + 1],
                        switch: None,
                        path,
                        alternate: None,
                        epoch,
                        first_epoch: epoch,
                        missed: 0,
                    },
                );
            }
        }
        let switch = info.node_type() == NodeType::Switch;
        inventory.hardware.record_port_guid(here, info);
        if let Some(node) = inventory.hardware.node_mut(here.node) {
            if switch {
                for port in &mut node.ports {
                    port.guid = info.port_guid();
                }
            } else if let Some(port) = node.ports.get_mut(here.port.index()) {
                port.guid = info.port_guid();
            }
        }
        if first {
            self.reading.ask(Query::Description(here.node));
            capabilities::ask_capabilities(&mut self.reading, inventory, here.node, info);
            if switch {
                self.reading.ask(Query::Switch(here.node));
                for number in 0..=info.num_ports() {
                    self.reading
                        .ask(Query::Port(PortKey::new(here.node, PortNum(number))));
                }
            }
        }
    }

    /// Handles the missing answer of the node behind `from`.
    pub(super) fn on_silence(&mut self, inventory: &mut Inventory, from: Option<PortKey>) {
        let Some(from) = from else { return };
        // The port may have gone down while the Get was under way; that is no fault.
        self.reading.again(Query::Port(from));
        let known = inventory
            .hardware
            .port(from)
            .and_then(|port| port.peer)
            .map(|peer| peer.node);
        let met = known
            .and_then(|guid| inventory.hardware.node(guid))
            .is_some_and(|node| node.epoch == inventory.hardware.epoch);
        self.silent.extend(known.filter(|_| !met));
        inventory.faults.at_port(from, Fault::Unanswering { known });
        inventory.record_silence_behind(from);
        self.contests
            .decide_silent(&mut self.reading, inventory, from);
    }
}
