//! The state of the hardware as last reported.
//!
//! The inventory is the only mutable picture of the subnet. Sweeps write answers into it, pushes
//! write acknowledged Sets; everything downstream ([`crate::fabric`], [`crate::plan`],
//! [`crate::diff`]) only reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::ids::DirectedPath;
use rsm_mad::wire::attr::{
    ArInfo, ExtendedPortInfo, FecMode, NodeDescription, NodeInfo, NodeType, PortInfo,
    PortPhysicalState, PortState, SmInfo, SwitchInfo,
};

use super::adaptive_trials::AdaptiveTrials;
use super::doubts::Doubts;
use super::duplicates::Rights;
use super::fault::Faults;
use super::held_keys::HeldKeys;
use super::kind_answers::KindAnswers;
use super::managed::{BlockKey, ManagedBlocks};
use super::paths::Search;
use super::port_states::PortStateProofs;
use super::vports::VPortReading;
use super::writes::{Mark, Writes};
use crate::alias_guids::AliasGuids;
use crate::capabilities::DeviceCapabilities;
use crate::config::{NodeNames, RateLimits};
use crate::expected::Expected;
use crate::habits::{DeviceHabit, DeviceHabits, DeviceKind};
use crate::m_keys::KeyHolder;
use crate::model::adaptive_image::AdaptiveImage;
use crate::model::image::Image;
use crate::model::lft_image::LftImage;
use crate::model::mft_image::MftImage;
use crate::model::p_keys::PKeyImage;
use crate::model::sl2vl_image::SlToVlImage;
use crate::model::vports::PortVPorts;
use crate::qos::Qos;
use crate::whole::{Step, Whole};

/// State of a switch.
#[derive(Clone, Debug)]
pub struct InventorySwitch {
    /// As last answered.
    pub info: SwitchInfo,
    /// The forwarding table it holds.
    pub lft: LftImage,
    /// The multicast forwarding table it holds.
    pub mft: MftImage,
    /// The SLtoVLMappingTables it holds, as far as routes need them.
    pub sl2vl: SlToVlImage,
    /// Whether it accepted a MulticastFDBTop and did not keep it.
    pub forgets_multicast_top: bool,
    /// Its ARInfo, if it has that and may hold tables of the manager before.
    ar_info: Option<ArInfo>,
    /// The groups and entries of adaptive routing that it holds, and their use.
    pub adaptive: AdaptiveImage,
    /// Whether it refused to turn adaptive routing off.
    pub keeps_adaptive_routing: bool,
    /// Whether the core has decided if its tables count, since this manager manages the subnet.
    pub taken_over: bool,
}

impl InventorySwitch {
    /// A switch that answered `info`, with unknown tables.
    pub fn new(info: SwitchInfo) -> InventorySwitch {
        InventorySwitch {
            info,
            lft: LftImage::default(),
            mft: MftImage::default(),
            sl2vl: SlToVlImage::default(),
            forgets_multicast_top: false,
            ar_info: None,
            adaptive: AdaptiveImage::unread(),
            keeps_adaptive_routing: false,
            taken_over: false,
        }
    }

    /// Its ARInfo, as [`Inventory::put_ar_info`] recorded it.
    pub fn ar_info(&self) -> Option<ArInfo> {
        self.ar_info
    }
}

/// One port as last seen.
#[derive(Clone, Debug, Default)]
pub struct InventoryPort {
    /// As last answered; `None` until the first answer.
    pub info: Option<PortInfo>,
    /// The port's GUID; of a switch's external ports the node's own GUID.
    pub guid: Guid,
    /// The other end of the cable, by NodeInfo through it.
    pub peer: Option<PortKey>,
    /// The sweep in which `peer` was last confirmed.
    pub peer_epoch: u32,
    /// The other end of the last cable that was known here and is gone.
    pub peer_before: Option<PortKey>,
    /// The P_KeyTable it holds; `None` while it is not known. Shared copy-on-write.
    pub p_keys: Option<Arc<PKeyImage>>,
    /// The managed attributes it holds, as far as they are known.
    pub managed: Image<ManagedBlocks>,
    /// ExtendedPortInfo, where it was asked for since the link came up.
    pub extended: Option<Box<ExtendedPortInfo>>,
    /// Its error correction, where it was asked for since the link came up; `Some(None)`: the port
    /// does not say.
    pub error_correction: Option<Option<FecMode>>,
    /// Its virtual ports, where VirtualizationInfo was answered. Shared copy-on-write.
    pub vports: Option<Arc<PortVPorts>>,
}

impl InventoryPort {
    /// Records the PortInfo of port `number`, as [`InventoryPort::shown`] has it. Returns the one
    /// before.
    pub fn answered(&mut self, number: PortNum, info: &PortInfo) -> Option<PortInfo> {
        self.info.replace(InventoryPort::shown(number, info))
    }

    /// The part that counts of the PortInfo of port `number`.
    ///
    /// It drops LocalPortNum, which shows the port that the Get came in by. A base port 0 has no
    /// link that could be down, and may show no state: it is Active as long as the switch answers
    /// (IBA 18.2.4.1).
    pub fn shown(number: PortNum, info: &PortInfo) -> PortInfo {
        let mut info = *info;
        info.set_local_port_num(PortNum::ZERO);
        if number == PortNum::ZERO && info.port_state() == PortState::NoChange {
            info.set_port_state(PortState::Active)
                .set_port_physical_state(PortPhysicalState::LinkUp);
        }
        info
    }

    /// Forgets the port's tables after a possible reset.
    pub fn forget_tables(&mut self) {
        self.p_keys = None;
        // Sweeps read blocks again that were read or written.
        self.managed.mark_all_dirty();
    }

    /// Whether the port's link is physically up, so that SMPs pass: Init, Armed or Active.
    pub fn is_up(&self) -> bool {
        self.state()
            .is_some_and(|state| !matches!(state, PortState::Down | PortState::NoChange))
    }

    /// Whether data packets pass.
    pub fn is_active(&self) -> bool {
        self.state() == Some(PortState::Active)
    }

    /// Whether the link trained anew since the port was in state `before`: it fell back to Init.
    pub fn is_retrained(&self, before: Option<PortState>) -> bool {
        self.state() == Some(PortState::Init)
            && before.is_some_and(|state| state != PortState::Init)
    }

    /// The logical state as last answered.
    pub fn state(&self) -> Option<PortState> {
        self.info.as_ref().map(PortInfo::port_state)
    }
}

/// One node as last seen.
#[derive(Clone, Debug)]
pub struct InventoryNode {
    /// NodeInfo from when the node was met.
    pub info: NodeInfo,
    /// `None` before the first answer.
    pub description: Option<NodeDescription>,
    /// Indexed by port number, `0..=num_ports`. Port 0 is used by switches only.
    pub ports: Vec<InventoryPort>,
    /// `Some` for a switch that answered SwitchInfo.
    pub switch: Option<Box<InventorySwitch>>,
    /// The shortest path known to the node.
    pub path: DirectedPath,
    /// A path that enters the node through another port, where it has one.
    pub alternate: Option<DirectedPath>,
    /// The sweep in which it was last met.
    pub epoch: u32,
    /// The sweep in which it was first met, since it was last gone.
    pub first_epoch: u32,
    /// Sweeps in a row in which it did not answer although its link was up.
    pub missed: u8,
}

impl InventoryNode {
    /// Switch, channel adapter or router.
    pub fn kind(&self) -> NodeType {
        self.info.node_type()
    }

    /// Whether it is a switch.
    pub fn is_switch(&self) -> bool {
        self.kind() == NodeType::Switch
    }

    /// The node's own name for itself, or its GUID where it has none. The operator's is in
    /// [`Inventory::name`].
    pub fn described(&self) -> String {
        match &self.description {
            Some(description) if !description.text().is_empty() => {
                String::from_utf8_lossy(description.text()).into_owned()
            }
            _ => self.info.node_guid().to_string(),
        }
    }

    /// The port `port`, if the node has it.
    pub fn port(&self, port: PortNum) -> Option<&InventoryPort> {
        self.ports.get(port.index())
    }

    /// The external ports that exist, with their numbers.
    pub fn external_ports(&self) -> impl Iterator<Item = (PortNum, &InventoryPort)> {
        (1u8..=255).map(PortNum).zip(self.ports.iter().skip(1))
    }
}

/// The whole subnet as last seen.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    nodes: BTreeMap<Guid, InventoryNode>,
    /// The nodes that are switches.
    switches: BTreeSet<Guid>,
    /// The switches that route adaptively, as far as ARInfo was read.
    adaptive: BTreeSet<Guid>,
    writes: Writes,
    /// The subnet manager's own port, once the local node has answered.
    pub local: Option<PortKey>,
    /// Number of the last sweep that started; stamps the nodes that it meets.
    pub epoch: u32,
    /// Wrong or missing answers, until an answer ends them.
    pub faults: Faults,
    /// The places with a right to a GUID that is elsewhere.
    pub rights: Rights,
    /// End ports by their GUIDs; port 0 stands for all ports of a switch.
    port_guids: BTreeMap<Guid, PortKey>,
    /// Nodes that may be dead: they left a Get unanswered, or several of their cables went down at
    /// once, and they have answered nothing since. Paths avoid them.
    pub suspects: BTreeSet<Guid>,
    /// The M_Keys of ports, by [`Inventory::use_m_keys`].
    pub(super) m_keys: HeldKeys,
    /// The missing parts of the subnet, among them those of an earlier run before they answer.
    pub expected: Arc<Expected>,
    /// The cables of the subnet as the master has stored them, on a standby that shares its store;
    /// otherwise empty.
    pub stored_cabling: Arc<Expected>,
    /// The subnet manager's own port in the run before.
    pub local_before: Option<PortKey>,
    /// The subnet manager's own port by the host's driver, which knows it before it answers.
    pub attached: Option<KeyHolder>,
    /// Ports that may not hold the values of a Set, until a sweep reads them.
    pub doubts: Doubts,
    /// Links bounced for another MTU or number of VLs: the port that was set to Down, and the other
    /// end.
    pub bounced: BTreeMap<PortKey, PortKey>,
    /// Ports of switches to disable, because the port across the cable babbles.
    pub disabling: BTreeSet<PortKey>,
    /// The highest multicast LID in use: up to there a sweep reads multicast tables of switches
    /// without a valid MulticastFDBTop.
    pub multicast_top: Option<Lid>,
    /// The planned alias GUIDs: sweeps read GUIDInfo of their ports.
    pub alias_guids: Arc<AliasGuids>,
    /// Whether any port has or once had alias GUIDs.
    pub named: bool,
    /// Whether sweeps read SLtoVLMappingTables: the engine in use may need them.
    pub reads_sl2vl: bool,
    /// Whether capabilities of devices are asked for and used (`sweep.capabilities`).
    pub asks_capabilities: bool,
    /// Whether the error correction of links is read (`sweep.error_correction`).
    pub reads_error_correction: bool,
    /// Whether switches are to route adaptively (`routing.adaptive`).
    pub routes_adaptively: bool,
    /// How far types of switches have proved to take the tables of adaptive routing.
    pub adaptive_trials: AdaptiveTrials,
    /// The operator's tables for quality of service, which sweeps read; `None` while that is off.
    pub qos: Option<Arc<Qos>>,
    /// The operator's limits of rates, for which sweeps read QoSConfigSL; `None` while that is off.
    pub rate_limits: Option<Arc<RateLimits>>,
    /// Whether kinds of devices answer QoSConfigSL.
    pub(super) rate_limit_answers: KindAnswers,
    /// Gets of the limits of virtual ports in a row without an answer.
    pub(super) rate_limit_silences: BTreeMap<BlockKey, u8>,
    /// Sets of the limits of virtual ports refused since they last took any.
    pub(super) rate_limit_refusals: BTreeMap<BlockKey, u8>,
    /// Writes to images of managed attributes, by node.
    managed_writes: Writes,
    /// The operator's names of nodes, by [`Inventory::use_names`].
    names: Arc<NodeNames>,
    /// Deviations of device kinds from the specification.
    pub habits: DeviceHabits,
    /// Capabilities of device types, by GeneralInfo.
    pub capabilities: Arc<DeviceCapabilities>,
    /// The knowledge of sweeps about virtual ports beside the ports' own records.
    pub(super) vport_reading: VPortReading,
    /// How far SwitchPortStateTables have proved right.
    pub port_state_proofs: PortStateProofs,
    /// Nodes that were written, met or dropped since [`Inventory::take_touched`].
    touched: BTreeSet<Guid>,
    /// Nodes that were written, met or dropped since the last search for paths.
    pub(super) rewired: BTreeSet<Guid>,
    /// Why all paths were searched, since [`Inventory::take_searched`].
    pub(super) searched: Option<&'static str>,
    /// State of the last search for paths.
    pub(super) search: Option<Search>,
    /// The ports with a subnet manager, and its SMInfo.
    managers: BTreeMap<PortKey, SmInfo>,
    /// Nodes that held another M_Key at the last [`Inventory::take_touched`].
    locked: BTreeSet<Guid>,
}

impl Inventory {
    /// The node with this GUID.
    pub fn node(&self, guid: Guid) -> Option<&InventoryNode> {
        self.nodes.get(&guid)
    }

    /// The node with this GUID, to write into. Marks it as touched.
    pub fn node_mut(&mut self, guid: Guid) -> Option<&mut InventoryNode> {
        let node = self.nodes.get_mut(&guid)?;
        self.touched.insert(guid);
        self.rewired.insert(guid);
        if node.is_switch() {
            self.writes.note(guid);
        }
        Some(node)
    }

    /// The operator's name of a node, or else its NodeDescription, or its GUID.
    pub fn name(&self, guid: Guid) -> String {
        match (self.names.get(guid), self.node(guid)) {
            (Some(name), _) => name.to_owned(),
            (None, Some(node)) => node.described(),
            (None, None) => guid.to_string(),
        }
    }

    /// The operator's name of a node, if there is one.
    pub fn given_name(&self, guid: Guid) -> Option<&str> {
        self.names.get(guid)
    }

    /// Takes the operator's names, and marks the nodes with another name as touched.
    pub fn use_names(&mut self, names: &Arc<NodeNames>) {
        if Arc::ptr_eq(&self.names, names) {
            return;
        }
        let differing = self.names.differing(names);
        let known = differing.filter(|guid| self.nodes.contains_key(guid));
        self.touched.extend(known);
        self.names = Arc::clone(names);
    }

    /// The port, if its node is known and has it.
    pub fn port(&self, key: PortKey) -> Option<&InventoryPort> {
        self.nodes.get(&key.node)?.ports.get(key.port.index())
    }

    /// The port, to write into. Marks its node as touched.
    pub fn port_mut(&mut self, key: PortKey) -> Option<&mut InventoryPort> {
        self.node_mut(key.node)?.ports.get_mut(key.port.index())
    }

    /// The end port with this GUID; port 0 of a switch.
    pub fn port_with_guid(&self, guid: Guid) -> Option<PortKey> {
        self.port_guids.get(&guid).copied()
    }

    /// Records the port GUID that a node answered with by the port `here`.
    pub(super) fn note_port_guid(&mut self, here: PortKey, info: &NodeInfo) {
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

    fn forget_port_guid(&mut self, guid: Guid, end: PortKey) {
        if self.port_with_guid(guid) == Some(end) {
            self.port_guids.remove(&guid);
        }
    }

    /// All nodes in the order of their GUIDs.
    pub fn nodes(&self) -> impl Iterator<Item = (Guid, &InventoryNode)> {
        self.nodes.iter().map(|(&guid, node)| (guid, node))
    }

    /// Records the paths to a node. Marks it as touched if its distance changes.
    pub(super) fn lead_to(&mut self, guid: Guid, path: DirectedPath, second: Option<DirectedPath>) {
        if let Some(node) = self.nodes.get_mut(&guid) {
            if node.path.len() != path.len() {
                self.touched.insert(guid);
            }
            (node.path, node.alternate) = (path, second);
        }
    }

    /// Records that a node was met, or answered, in the sweep under way.
    pub(super) fn met(&mut self, guid: Guid) {
        if let Some(node) = self.nodes.get_mut(&guid) {
            node.epoch = self.epoch;
        }
    }

    /// The nodes that were written, met or dropped since the last call: a model from then may be
    /// wrong about them.
    pub fn take_touched(&mut self) -> BTreeSet<Guid> {
        let locked: BTreeSet<Guid> = self
            .faults
            .all_locked()
            .map(|(port, _)| port.node)
            .collect();
        let relocked = locked.symmetric_difference(&self.locked);
        self.touched.extend(relocked);
        self.locked = locked;
        std::mem::take(&mut self.touched)
    }

    /// All switches in the order of their GUIDs.
    pub fn switches(&self) -> impl Iterator<Item = (Guid, &InventoryNode, &InventorySwitch)> {
        let nodes = (self.switches.iter()).filter_map(|&guid| Some((guid, self.node(guid)?)));
        nodes.filter_map(|(guid, node)| Some((guid, node, node.switch.as_deref()?)))
    }

    /// The present moment, for [`Inventory::written_since`].
    pub fn mark(&self) -> Mark {
        self.writes.mark()
    }

    /// The switches that were written (tables or other parts), met or dropped after `mark`.
    pub fn written_since(&self, mark: Mark) -> impl Iterator<Item = Guid> + '_ {
        self.writes.since(mark)
    }

    /// Records that what is known of the managed attributes of a port changed.
    pub fn note_managed(&mut self, key: PortKey) {
        self.managed_writes.note(key.node);
    }

    /// The present moment, for [`Inventory::managed_since`].
    pub fn managed_mark(&self) -> Mark {
        self.managed_writes.mark()
    }

    /// The nodes with ports noted by [`Inventory::note_managed`] after `mark`.
    pub fn managed_since(&self, mark: Mark) -> impl Iterator<Item = Guid> + '_ {
        self.managed_writes.since(mark)
    }

    /// Switches that route adaptively by their last ARInfo, read or set.
    pub fn adaptive(&self) -> impl Iterator<Item = Guid> + '_ {
        self.adaptive.iter().copied()
    }

    /// Records the ARInfo of a switch; `None`: it has none.
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

    /// The switch record, to write tables into. That does not mark the switch as touched: tables
    /// come by the thousand, and no model has them. [`Inventory::put_switch_info`] writes
    /// SwitchInfo.
    pub fn switch_mut(&mut self, guid: Guid) -> Option<&mut InventorySwitch> {
        let (switch, _) = self.switch_with_ports_mut(guid)?;
        Some(switch)
    }

    /// As [`Inventory::switch_mut`], with the ports of the switch.
    pub fn switch_with_ports_mut(
        &mut self,
        guid: Guid,
    ) -> Option<(&mut InventorySwitch, &[InventoryPort])> {
        let node = self.nodes.get_mut(&guid)?;
        let switch = node.switch.as_mut()?;
        self.writes.note(guid);
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
            self.writes.note(guid);
        }
    }

    /// The records of all switches, to write into; SwitchInfo excepted.
    pub fn switches_mut(&mut self) -> impl Iterator<Item = &mut InventorySwitch> {
        for &guid in &self.switches {
            self.writes.note(guid);
        }
        let nodes = self.nodes.values_mut();
        nodes.filter_map(|node| node.switch.as_deref_mut())
    }

    /// Forgets on which switches this manager has decided whether their tables count, as the master.
    /// That is no change of a switch.
    pub fn forget_taken_over(&mut self) {
        let nodes = self.nodes.values_mut();
        for switch in nodes.filter_map(|node| node.switch.as_deref_mut()) {
            switch.taken_over = false;
        }
    }

    /// Why all paths were searched, if they were since the last call.
    pub fn take_searched(&mut self) -> Option<Whole> {
        let why = self.searched.take()?;
        Some(Whole::new(Step::Paths, why))
    }

    /// The ports with a subnet manager that answered, in their order, including the own one.
    pub fn managers(&self) -> impl Iterator<Item = PortKey> + '_ {
        self.managers.keys().copied()
    }

    /// The SMInfo of the subnet manager behind a port, if one answered.
    pub fn manager(&self, key: PortKey) -> Option<SmInfo> {
        self.managers.get(&key).copied()
    }

    /// Records the SMInfo of the subnet manager behind a port; `None`: there is none any more.
    ///
    /// A manager hides its SM_Key (0) from a question without the M_Key of its port (IBA 14.2.4.2),
    /// as while keys are rotated: one that has shown a key keeps it.
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

    /// Whether capabilities were learned, and are to be saved, since the last call.
    pub fn take_new_capabilities(&mut self) -> bool {
        Arc::make_mut(&mut self.capabilities).take_news()
    }

    /// How many nodes are known.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether no node is known yet.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds a node that was met for the first time.
    pub fn insert(&mut self, guid: Guid, node: InventoryNode) {
        self.touched.insert(guid);
        self.rewired.insert(guid);
        if node.is_switch() {
            self.switches.insert(guid);
            self.writes.note(guid);
        }
        self.nodes.insert(guid, node);
    }

    /// Removes a node and the cables to it.
    pub fn remove(&mut self, guid: Guid) -> Option<InventoryNode> {
        let node = self.nodes.remove(&guid)?;
        self.touched.insert(guid);
        self.rewired.insert(guid);
        self.suspects.remove(&guid);
        self.adaptive.remove(&guid);
        self.port_state_proofs.forget(guid);
        self.vport_reading.forget(guid);
        self.rate_limit_silences
            .retain(|key, _| key.port.node != guid);
        self.rate_limit_refusals
            .retain(|key, _| key.port.node != guid);
        self.m_keys.forget(guid);
        if self.switches.remove(&guid) {
            self.writes.note(guid);
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

    /// Records that a cable joins `a` and `b`, and parts both from their earlier peers.
    pub fn join(&mut self, a: PortKey, b: PortKey) {
        let epoch = self.epoch;
        for (here, there) in [(a, b), (b, a)] {
            if self.port(here).and_then(|port| port.peer) != Some(there) {
                self.part(here);
            }
            if let Some(port) = self.port_mut(here) {
                port.peer = Some(there);
                port.peer_epoch = epoch;
            }
        }
    }

    /// Whether SMPs leave by this port: it is a switch's, or the subnet manager's own.
    pub fn passes_on(&self, key: PortKey) -> bool {
        self.local == Some(key) || self.node(key.node).is_some_and(InventoryNode::is_switch)
    }

    /// Records that no cable is at `key`, nor at the other end, if one was known. Returns that end.
    pub fn part(&mut self, key: PortKey) -> Option<PortKey> {
        let port = self.port_mut(key)?;
        let peer = port.peer.take()?;
        port.peer_before = Some(peer);
        if let Some(port) = self.port_mut(peer)
            && port.peer == Some(key)
        {
            (port.peer, port.peer_before) = (None, Some(key));
        }
        for end in [key, peer] {
            self.forget_m_key(end);
        }
        Some(peer)
    }

    /// Whether Gets and Sets of a port's PortInfo have the bit for extended speeds (IBA 14.2.5.6):
    /// yes, unless its kind of device refuses it.
    pub fn asks_extended_speeds(&self, key: PortKey) -> bool {
        self.node(key.node).is_none_or(|node| {
            let kind = DeviceKind::of(&node.info, key.port);
            !self.habits.has(kind, DeviceHabit::RefusesExtendedSpeeds)
        })
    }

    /// The directed path to a port's agent, and a second one if there is one.
    ///
    /// A channel adapter has an agent behind each port, reached through the cable at that port; all
    /// ports of a switch share one agent. Port 0 of a channel adapter stands for any cabled port:
    /// the path that was found for the node may be of a cable that was moved in this sweep.
    pub fn way_to(&self, key: PortKey) -> Option<(DirectedPath, Option<DirectedPath>)> {
        let node = self.node(key.node)?;
        let is_local = match self.local {
            Some(local) if key.port == PortNum::ZERO => local.node == key.node,
            local => local == Some(key),
        };
        let over = |peer: PortKey| Some((self.node(peer.node)?, peer.port));
        let through = if node.is_switch() || is_local {
            None
        } else if key.port == PortNum::ZERO {
            let cables = node.external_ports().filter_map(|(_, port)| port.peer);
            let is_off_path = |&(neighbour, exit): &(&InventoryNode, PortNum)| {
                neighbour.path.child(exit).ok() != Some(node.path)
            };
            cables.filter_map(over).min_by_key(is_off_path)
        } else {
            node.port(key.port)?.peer.and_then(over)
        };
        match through {
            None => Some((node.path, node.alternate)),
            Some((neighbour, exit)) => {
                let alternate = neighbour.alternate.and_then(|way| way.child(exit).ok());
                Some((neighbour.path.child(exit).ok()?, alternate))
            }
        }
    }

    /// The end port that holds `lid`: port 0 of a switch, any port of another node.
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
                    let held = base.is_unicast()
                        && (base.0..base.0.saturating_add(info.lmc().lids())).contains(&lid.0);
                    held.then(|| PortKey::new(guid, PortNum(number as u8)))
                })
        })
    }
}
