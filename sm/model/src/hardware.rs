//! The state of the hardware as last answered or set.
//!
//! Sweeps record answers, and pushes record acknowledged Sets. The model, the plan and the
//! comparison only read this state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::ids::DirectedPath;
use rsm_mad::wire::attr::{ArInfo, Capability, NodeInfo, NodeType, SmInfo, SwitchInfo};

use super::NodeNames;
use super::habits::{DeviceHabit, DeviceHabits, DeviceKind};
use super::managed::sl_to_vl::ALL_INPUTS;
use super::managed::{BlockKey, BlockPlace, ManagedAttribute};
use super::nodes::{InventoryNode, InventoryPort, InventorySwitch};
use super::writes::{Mark, Writes};
use crate::capabilities::{DeviceCapabilities, DeviceType};

/// Sign by which a port shows that it holds a foreign M_Key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MKeySign {
    /// PortInfo shows another key.
    Shown,
    /// PortInfo hides the key, and the port ignored a Set.
    SetIgnored,
    /// The port reported a packet of this subnet manager for its wrong key (trap 256).
    Reported,
}

/// Nodes, ports and tables of the subnet as last seen, and the known properties of kinds of
/// devices.
#[derive(Clone, Debug, Default)]
pub struct Hardware {
    nodes: BTreeMap<Guid, InventoryNode>,
    /// The nodes that are switches.
    switches: BTreeSet<Guid>,
    /// The switches that route adaptively according to ARInfo.
    adaptive: BTreeSet<Guid>,
    writes: Writes,
    /// The subnet manager's own port; `None` until the local node has answered.
    pub local: Option<PortKey>,
    /// Number of the last sweep that started. A node found by that sweep has the same number.
    pub epoch: u32,
    /// End ports by GUID; port 0 stands for all ports of a switch.
    port_guids: BTreeMap<Guid, PortKey>,
    /// Log of writes to images of managed attributes, by node.
    managed_writes: Writes,
    /// The operator's names of nodes, set by [`Hardware::use_names`].
    names: Arc<NodeNames>,
    /// Deviations of device kinds from the specification.
    pub habits: DeviceHabits,
    /// Capabilities of device types, as GeneralInfo showed them.
    pub capabilities: Arc<DeviceCapabilities>,
    /// Nodes written, found or dropped since the last [`Hardware::take_touched`].
    touched: BTreeSet<Guid>,
    /// Nodes written, found or dropped since the last [`Hardware::take_rewired`].
    rewired: BTreeSet<Guid>,
    /// SMInfo of each port with a subnet manager.
    managers: BTreeMap<PortKey, SmInfo>,
    /// Nodes that answered a directed route after an SMP by LID was lost: on planar fabrics, SMPs
    /// by LID are not valid.
    lost_by_lid: BTreeSet<Guid>,
    /// End ports that hold a foreign M_Key, each with the sign that showed it.
    locked: BTreeMap<PortKey, MKeySign>,
    /// Nodes that held a foreign M_Key at the last [`Hardware::take_touched`].
    locked_before: BTreeSet<Guid>,
}

impl Hardware {
    /// The node with this GUID; `None` if it is not known.
    pub fn node(&self, guid: Guid) -> Option<&InventoryNode> {
        self.nodes.get(&guid)
    }

    /// The node with this GUID, mutable. Marks it as touched.
    pub fn node_mut(&mut self, guid: Guid) -> Option<&mut InventoryNode> {
        let node = self.nodes.get_mut(&guid)?;
        self.touched.insert(guid);
        self.rewired.insert(guid);
        if node.is_switch() {
            self.writes.record(guid);
        }
        Some(node)
    }

    /// Whether the node with this GUID is known, and a switch.
    pub fn is_switch(&self, guid: Guid) -> bool {
        self.nodes.get(&guid).is_some_and(InventoryNode::is_switch)
    }

    /// The operator's name of a node, else its NodeDescription, else its GUID.
    pub fn name(&self, guid: Guid) -> String {
        match (self.names.get(guid), self.node(guid)) {
            (Some(name), _) => name.to_owned(),
            (None, Some(node)) => node.described(),
            (None, None) => guid.to_string(),
        }
    }

    /// The name of a port for operators: `leaf-03 port 7`.
    pub fn port_name(&self, port: PortKey) -> String {
        format!("{} port {}", self.name(port.node), port.port)
    }

    /// The place of the cable at `port`, for operators: `at leaf-03 port 7`, the other end of the
    /// cable, or `at its port 1` if the other end is not known.
    pub fn cable_of(&self, port: PortKey) -> String {
        let peer = self.port(port).and_then(|port| port.peer);
        match peer {
            Some(peer) => format!("at {}", self.port_name(peer)),
            None => format!("at its port {}", port.port),
        }
    }

    /// The operator's name of a node, if there is one.
    pub(crate) fn given_name(&self, guid: Guid) -> Option<&str> {
        self.names.get(guid)
    }

    /// Takes the operator's names, and marks nodes whose name differs as touched.
    pub fn use_names(&mut self, names: &Arc<NodeNames>) {
        if Arc::ptr_eq(&self.names, names) {
            return;
        }
        let differing = self.names.differing(names);
        let known = differing.filter(|guid| self.nodes.contains_key(guid));
        self.touched.extend(known);
        self.names = Arc::clone(names);
    }

    /// The port with this key; `None` if its node is unknown or lacks the port.
    pub fn port(&self, key: PortKey) -> Option<&InventoryPort> {
        self.nodes.get(&key.node)?.ports.get(key.port.index())
    }

    /// The port with this key, mutable. Marks its node as touched.
    pub fn port_mut(&mut self, key: PortKey) -> Option<&mut InventoryPort> {
        self.node_mut(key.node)?.ports.get_mut(key.port.index())
    }

    /// The end port with this GUID: port 0 if a switch has the GUID. `None` if no port has it.
    pub fn port_with_guid(&self, guid: Guid) -> Option<PortKey> {
        self.port_guids.get(&guid).copied()
    }

    /// Records the port GUID from the NodeInfo that a node answered through the port `here`.
    pub fn record_port_guid(&mut self, here: PortKey, info: &NodeInfo) {
        let end = match info.node_type() {
            NodeType::Switch => PortKey::new(here.node, PortNum::ZERO),
            _ => here,
        };
        let before = self.port(end).map(|port| port.guid);
        self.port_guids.insert(info.port_guid(), end);
        if let Some(before) = before.filter(|&before| before != info.port_guid()) {
            self.forget_port_guid(before, end);
        }
    }

    /// Removes `guid` from the index, unless another port than `end` has it.
    fn forget_port_guid(&mut self, guid: Guid, end: PortKey) {
        if self.port_with_guid(guid) == Some(end) {
            self.port_guids.remove(&guid);
        }
    }

    /// All nodes in the order of their GUIDs.
    pub fn nodes(&self) -> impl Iterator<Item = (Guid, &InventoryNode)> {
        self.nodes.iter().map(|(&guid, node)| (guid, node))
    }

    /// Records the paths to a node. Marks the node as touched if its distance changes.
    pub fn set_paths(&mut self, guid: Guid, path: DirectedPath, alternate: Option<DirectedPath>) {
        if let Some(node) = self.nodes.get_mut(&guid) {
            if node.path.len() != path.len() {
                self.touched.insert(guid);
            }
            (node.path, node.alternate) = (path, alternate);
        }
    }

    /// Records that the current sweep found the node, or got an answer from it.
    pub fn mark_seen(&mut self, guid: Guid) {
        if let Some(node) = self.nodes.get_mut(&guid) {
            node.epoch = self.epoch;
        }
    }

    /// Records that an SMP by LID to this node was lost, and that a directed route reached it.
    pub fn record_lost_by_lid(&mut self, guid: Guid) {
        self.lost_by_lid.insert(guid);
    }

    /// RespTimeValue of a node as a time; zero if the node is not known.
    pub fn response_time(&self, guid: Guid) -> Duration {
        let node = self.nodes.get(&guid);
        node.map_or(Duration::ZERO, InventoryNode::response_time)
    }

    /// Whether SMPs to this node may go by LID: no SMP by LID was lost since
    /// [`Hardware::retry_lids`].
    pub fn takes_smps_by_lid(&self, guid: Guid) -> bool {
        !self.lost_by_lid.contains(&guid)
    }

    /// Permits SMPs by LID to all nodes: the cause of earlier losses may be gone.
    pub fn retry_lids(&mut self) {
        self.lost_by_lid.clear();
    }

    /// The nodes written, found or dropped since the last call: models built before may differ from
    /// them.
    pub fn take_touched(&mut self) -> BTreeSet<Guid> {
        let locked: BTreeSet<Guid> = self.locked.keys().map(|port| port.node).collect();
        let relocked = locked.symmetric_difference(&self.locked_before);
        self.touched.extend(relocked);
        self.locked_before = locked;
        std::mem::take(&mut self.touched)
    }

    /// All switches in the order of their GUIDs.
    pub fn switches(&self) -> impl Iterator<Item = (Guid, &InventoryNode, &InventorySwitch)> {
        let nodes = (self.switches.iter()).filter_map(|&guid| Some((guid, self.node(guid)?)));
        nodes.filter_map(|(guid, node)| Some((guid, node, node.switch.as_deref()?)))
    }

    /// The position in the log of writes, for [`Hardware::written_since`].
    pub fn mark(&self) -> Mark {
        self.writes.mark()
    }

    /// The switches written (tables or other parts), found or dropped after `mark`.
    pub fn written_since(&self, mark: Mark) -> impl Iterator<Item = Guid> + '_ {
        self.writes.since(mark)
    }

    /// Records that the known content of a port's managed attributes changed.
    pub fn record_managed_write(&mut self, key: PortKey) {
        self.managed_writes.record(key.node);
    }

    /// Records that a Set of the operator's block `key` may have replaced the rows of an engine.
    pub fn forget_engine_rows(&mut self, key: BlockKey) {
        if key.place.attribute != ManagedAttribute::SlToVl {
            return;
        }
        let node = self.node(key.port.node);
        let Some(switch) = node.and_then(|node| node.switch.as_ref()) else {
            return;
        };
        let is_replaced = |&(input, output): &(PortNum, PortNum)| {
            let block = key.place.block;
            output == key.port.port && (block == ALL_INPUTS || block == u16::from(input.0))
        };
        let replaced: Vec<_> = switch.sl2vl.touched().filter(is_replaced).collect();
        if !replaced.is_empty()
            && let Some(switch) = self.switch_mut(key.port.node)
        {
            for ports in replaced {
                switch.sl2vl.forget_block(ports);
            }
        }
    }

    /// Records that a Set of an engine's row may have replaced the operator's table from `input` to
    /// `output` of a switch.
    pub fn forget_operator_row(&mut self, switch: Guid, input: PortNum, output: PortNum) {
        let key = PortKey::new(switch, output);
        let Some(port) = self.port_mut(key) else {
            return;
        };
        let blocks = [ALL_INPUTS, u16::from(input.0)];
        let places = blocks.map(|block| BlockPlace {
            attribute: ManagedAttribute::SlToVl,
            block,
        });
        let known = port.managed.touched().any(|place| places.contains(&place));
        if known {
            for place in places {
                port.managed.forget_block(place);
            }
            self.record_managed_write(key);
        }
    }

    /// The position in the log of managed attributes, for [`Hardware::managed_since`].
    pub fn managed_mark(&self) -> Mark {
        self.managed_writes.mark()
    }

    /// The nodes whose ports [`Hardware::record_managed_write`] recorded after `mark`.
    pub fn managed_since(&self, mark: Mark) -> impl Iterator<Item = Guid> + '_ {
        self.managed_writes.since(mark)
    }

    /// Switches that route adaptively according to their last ARInfo, read or set.
    pub fn adaptive(&self) -> impl Iterator<Item = Guid> + '_ {
        self.adaptive.iter().copied()
    }

    /// Records the ARInfo of a switch; `None` if the switch has none.
    pub fn put_ar_info(&mut self, guid: Guid, info: Option<ArInfo>) {
        let Some(switch) = self.switch_mut(guid) else {
            return;
        };
        switch.ar_info = info;
        if info.is_some_and(|info| info.uses_groups()) {
            self.adaptive.insert(guid);
        } else {
            self.adaptive.remove(&guid);
        }
    }

    /// The record of a switch, mutable, for its tables. Does not mark the switch as touched:
    /// thousands of table blocks arrive, and no model contains them. [`Hardware::put_switch_info`]
    /// writes SwitchInfo.
    pub fn switch_mut(&mut self, guid: Guid) -> Option<&mut InventorySwitch> {
        let (switch, _) = self.switch_with_ports_mut(guid)?;
        Some(switch)
    }

    /// The record of a switch as in [`Hardware::switch_mut`], and the ports of the switch.
    pub fn switch_with_ports_mut(
        &mut self,
        guid: Guid,
    ) -> Option<(&mut InventorySwitch, &[InventoryPort])> {
        let node = self.nodes.get_mut(&guid)?;
        let switch = node.switch.as_mut()?;
        self.writes.record(guid);
        Some((switch, &node.ports))
    }

    /// Records the SwitchInfo of a node that is known to be a switch.
    pub fn put_switch_info(&mut self, guid: Guid, info: &SwitchInfo) {
        let node = self.nodes.get_mut(&guid);
        if let Some(switch) = node.and_then(|node| node.switch.as_mut())
            && switch.info != *info
        {
            switch.info = *info;
            self.touched.insert(guid);
            self.writes.record(guid);
        }
    }

    /// The records of all switches, mutable, for everything except SwitchInfo.
    pub fn switches_mut(&mut self) -> impl Iterator<Item = &mut InventorySwitch> {
        for &guid in &self.switches {
            self.writes.record(guid);
        }
        let nodes = self.nodes.values_mut();
        nodes.filter_map(|node| node.switch.as_deref_mut())
    }

    /// Forgets for which switches the master has decided whether their tables are valid. Does not
    /// mark the switches as touched.
    pub fn forget_taken_over(&mut self) {
        let nodes = self.nodes.values_mut();
        for switch in nodes.filter_map(|node| node.switch.as_deref_mut()) {
            switch.taken_over = false;
        }
    }

    /// The ports of subnet managers that answered, in their order, including this manager's own.
    pub fn managers(&self) -> impl Iterator<Item = PortKey> + '_ {
        self.managers.keys().copied()
    }

    /// SMInfo of the subnet manager at a port; `None` if none answered.
    pub fn manager(&self, key: PortKey) -> Option<SmInfo> {
        self.managers.get(&key).copied()
    }

    /// Records SMInfo of the subnet manager at a port; `None` if it is gone.
    ///
    /// A manager shows SM_Key 0 in answers to requests without the M_Key of its port (IBA
    /// 14.2.4.2), for example while keys are rotated. An SM_Key shown before is kept in that case.
    pub fn put_manager(&mut self, key: PortKey, info: Option<SmInfo>) {
        let Some(mut info) = info.filter(|_| self.port(key).is_some()) else {
            self.managers.remove(&key);
            return;
        };
        let known = self
            .manager(key)
            .filter(|known| known.guid() == info.guid());
        if let (0, Some(known)) = (info.sm_key(), known) {
            info.set_sm_key(known.sm_key());
        }
        self.managers.insert(key, info);
    }

    /// Whether capabilities were learned since the last call and must be saved.
    pub fn take_new_capabilities(&mut self) -> bool {
        Arc::make_mut(&mut self.capabilities).take_news()
    }

    /// Number of known nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether no node is known yet.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds a node that was not yet known.
    pub fn insert(&mut self, guid: Guid, node: InventoryNode) {
        self.touched.insert(guid);
        self.rewired.insert(guid);
        if node.is_switch() {
            self.switches.insert(guid);
            self.writes.record(guid);
        }
        self.nodes.insert(guid, node);
    }

    /// Whether SMPs can leave by this port: it is a switch's, or the subnet manager's own.
    pub fn passes_on(&self, key: PortKey) -> bool {
        self.local == Some(key) || self.is_switch(key.node)
    }

    /// Whether Gets and Sets of a port's PortInfo carry the bit for extended speeds (IBA 14.2.5.6):
    /// true unless the kind of device refuses it.
    pub fn asks_extended_speeds(&self, key: PortKey) -> bool {
        self.node(key.node).is_none_or(|node| {
            let kind = DeviceKind::of(&node.info, key.port);
            !self.habits.has(kind, DeviceHabit::RefusesExtendedSpeeds)
        })
    }

    /// The device type of a node; `None` if the node is not known.
    pub fn device_type(&self, guid: Guid) -> Option<DeviceType> {
        self.node(guid).map(|node| DeviceType::of(&node.info))
    }

    /// The directed path to a port's agent, and a second path if one is known.
    ///
    /// A channel adapter has an agent behind each port, reached through the cable at that port; all
    /// ports of a switch share one agent. Port 0 of a channel adapter stands for any cabled port:
    /// the node's recorded path may use a cable that was moved during this sweep.
    pub fn paths_to(&self, key: PortKey) -> Option<(DirectedPath, Option<DirectedPath>)> {
        let node = self.node(key.node)?;
        let is_local = match self.local {
            Some(local) if key.port == PortNum::ZERO => local.node == key.node,
            local => local == Some(key),
        };
        let neighbor_at = |peer: PortKey| Some((self.node(peer.node)?, peer.port));
        let through = if node.is_switch() || is_local {
            None
        } else if key.port == PortNum::ZERO {
            let cables = node.external_ports().filter_map(|(_, port)| port.peer);
            let is_off_path = |&(neighbor, exit): &(&InventoryNode, PortNum)| {
                neighbor.path.child(exit).ok() != Some(node.path)
            };
            cables.filter_map(neighbor_at).min_by_key(is_off_path)
        } else {
            node.port(key.port)?.peer.and_then(neighbor_at)
        };
        match through {
            None => Some((node.path, node.alternate)),
            Some((neighbor, exit)) => {
                let alternate = neighbor.alternate.and_then(|path| path.child(exit).ok());
                Some((neighbor.path.child(exit).ok()?, alternate))
            }
        }
    }

    /// The end port that holds `lid`: port 0 of a switch, or any port of another node. `None` if no
    /// port holds it.
    pub fn by_lid(&self, lid: Lid) -> Option<PortKey> {
        self.nodes().find_map(|(guid, node)| {
            let numbers = if node.is_switch() {
                0..1
            } else {
                1..node.ports.len()
            };
            numbers
                .map(|number| (number, &node.ports[number]))
                .find_map(|(number, port)| {
                    let info = port.info.as_ref()?;
                    let base = info.lid();
                    let is_held = base.is_unicast()
                        && (base.0..base.0.saturating_add(info.lmc().lids())).contains(&lid.0);
                    is_held.then(|| PortKey::new(guid, PortNum(number as u8)))
                })
        })
    }

    /// Removes a node and the cables to it. Returns the node; `None` if it is not known.
    pub fn remove(&mut self, guid: Guid) -> Option<InventoryNode> {
        let node = self.nodes.remove(&guid)?;
        self.touched.insert(guid);
        self.rewired.insert(guid);
        self.adaptive.remove(&guid);
        if self.switches.remove(&guid) {
            self.writes.record(guid);
        }
        self.managers.retain(|port, _| port.node != guid);
        for (number, port) in (0..=u8::MAX).map(PortNum).zip(&node.ports) {
            self.forget_port_guid(port.guid, PortKey::new(guid, number));
        }
        for peer in node.ports.iter().filter_map(|port| port.peer) {
            if let Some(port) = self.port_mut(peer)
                && port.peer.is_some_and(|back| back.node == guid)
            {
                port.peer = None;
            }
        }
        Some(node)
    }

    /// Records that the cable at `key` is gone, at both ends if the other end was known. Returns
    /// the other end; `None` if there was no cable.
    pub fn unplug(&mut self, key: PortKey) -> Option<PortKey> {
        let port = self.port_mut(key)?;
        let peer = port.peer.take()?;
        port.peer_before = Some(peer);
        if let Some(port) = self.port_mut(peer)
            && port.peer == Some(key)
        {
            (port.peer, port.peer_before) = (None, Some(key));
        }
        Some(peer)
    }

    /// Records that a cable joins `a` and `b`, and that their former cables are gone. Returns all
    /// ends of the former cables.
    pub fn join(&mut self, a: PortKey, b: PortKey) -> Vec<PortKey> {
        let epoch = self.epoch;
        let mut former_ends = Vec::new();
        for (here, there) in [(a, b), (b, a)] {
            if self.port(here).and_then(|port| port.peer) != Some(there)
                && let Some(before) = self.unplug(here)
            {
                former_ends.extend([here, before]);
            }
            if let Some(port) = self.port_mut(here) {
                port.peer = Some(there);
                port.peer_epoch = epoch;
            }
        }
        former_ends
    }

    /// The nodes written, found or dropped since the last call, for the next search for paths.
    pub fn take_rewired(&mut self) -> BTreeSet<Guid> {
        std::mem::take(&mut self.rewired)
    }

    /// The port that holds the M_Key of `key`: port 0 of a switch, otherwise the port itself.
    pub fn key_holder(&self, key: PortKey) -> PortKey {
        match self.node(key.node) {
            Some(node) if node.is_switch() => PortKey::new(key.node, PortNum::ZERO),
            _ => key,
        }
    }

    /// Whether the device drops Sets to `key` because it holds a foreign M_Key.
    pub fn is_locked(&self, key: PortKey) -> bool {
        self.locked(self.key_holder(key)).is_some()
    }

    /// Records that the end port `port` holds a foreign M_Key.
    pub fn lock(&mut self, port: PortKey, sign: MKeySign) {
        self.locked.insert(port, sign);
    }

    /// Records that the end port `port` holds no foreign M_Key.
    pub fn unlock(&mut self, port: PortKey) {
        self.locked.remove(&port);
    }

    /// Records that no end port of a node holds a foreign M_Key.
    pub fn unlock_node(&mut self, node: Guid) {
        self.locked.retain(|port, _| port.node != node);
    }

    /// Records that no end port holds a foreign M_Key.
    pub fn unlock_all(&mut self) {
        self.locked.clear();
    }

    /// Sign by which the end port `port` showed that it holds a foreign M_Key; `None` if it holds
    /// none.
    pub fn locked(&self, port: PortKey) -> Option<MKeySign> {
        self.locked.get(&port).copied()
    }

    /// Number of end ports that hold a foreign M_Key.
    pub fn count_locked(&self) -> usize {
        self.locked.len()
    }

    /// The end ports that hold a foreign M_Key, each with the sign that showed it.
    pub fn all_locked(&self) -> impl Iterator<Item = (PortKey, MKeySign)> + '_ {
        self.locked.iter().map(|(&port, &sign)| (port, sign))
    }

    /// Whether the kind of device with this port has a habit.
    pub fn has_habit(&self, key: PortKey, habit: DeviceHabit) -> bool {
        self.node(key.node).is_some_and(|node| {
            let kind = DeviceKind::of(&node.info, key.port);
            self.habits.has(kind, habit)
        })
    }

    /// Learns that this kind of device refuses the block, if a habit exists for that. Returns
    /// whether one exists.
    pub fn learn_refused_block(&mut self, key: BlockKey) -> bool {
        let Some(habit) = key.place.habit() else {
            return false;
        };
        if let Some(node) = self.node(key.port.node) {
            let kind = DeviceKind::of(&node.info, key.port.port);
            self.habits.learn(kind, habit);
        }
        self.record_managed_write(key.port);
        true
    }

    /// Whether an adapter's port can be set to accept packets out of order on some service levels.
    pub fn takes_out_of_order(&self, key: PortKey) -> bool {
        self.node(key.node).is_some_and(|node| {
            let has = |capability| self.capabilities.has(&node.info, capability);
            node.kind() == NodeType::Ca
                && self.capabilities.has_extended_port_info(&node.info)
                && (has(Capability::OutOfOrder) || has(Capability::OutOfOrderV2))
        })
    }
}
