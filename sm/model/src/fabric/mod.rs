//! The immutable model of the subnet, with the cables resolved.
//!
//! A [`Fabric`] is built from the [`Hardware`] and never changes afterwards. Planning reads no
//! other state of the subnet; queries, metrics and dumps read the fabric of the published snapshot
//! for as long as they need it.
//!
//! Successive models share unchanged nodes: a change costs only the nodes that it concerns, and
//! comparing pointers finds the difference between two models.

mod delta;
mod netlist;
mod nodes;
mod rails;
mod without;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_ids::{Guid, Lid, Lmc, PortKey, PortNum};
use rsm_mad::wire::attr::{
    ActiveRate, FecMode, LinkSpeed, NodeInfo, NodeType, PortInfo, PortPhysicalState, PortState,
    SmInfo, SwitchInfo,
};

pub use self::delta::Delta;
use self::nodes::Nodes;
use crate::p_keys::{self, PKeyImage};
use crate::vports::{self, PortVPorts};
use crate::{Hardware, InventoryNode, MISSES_TOLERATED};

/// NodeDescription of aggregation nodes inside switches (SHARP).
const AGGREGATION_NODE: &str = "Mellanox Technologies Aggregation Node";

/// Index of a node in one [`Fabric`], whose nodes are in the order of their GUIDs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeIx(pub u32);

/// A port of a node of one [`Fabric`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortRef {
    /// The node.
    pub node: NodeIx,
    /// Number of the port on the node.
    pub port: PortNum,
}

/// A port of a node, as last read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// The port's GUID; for a switch's external ports, the GUID of port 0.
    pub guid: Guid,
    /// The last PortInfo; `None` if the port never answered.
    pub info: Option<PortInfo>,
    /// Other end of the cable; [`Fabric::peer`] resolves it to a port of the fabric.
    pub peer: Option<PortKey>,
    /// Whether the link is physically up.
    pub up: bool,
    /// The P_KeyTable as far as it is known; `None` if nothing of it is known.
    pub p_keys: Option<Arc<PKeyImage>>,
    /// Whether the link is FDR10, which PortInfo shows as QDR.
    pub is_fdr10: bool,
    /// Error correction of the link; `None` if it was not read or the port does not state it.
    pub error_correction: Option<FecMode>,
    /// Whether ExtendedPortInfo shows an aggregation node behind the port.
    pub leads_to_aggregation_node: bool,
    /// Virtual ports; `None` if the port has none.
    pub vports: Option<Arc<PortVPorts>>,
}

impl Port {
    /// Base LID; [`Lid::NONE`] if the port has none.
    pub fn lid(&self) -> Lid {
        self.info.as_ref().map_or(Lid::NONE, PortInfo::lid)
    }

    /// LID mask control.
    pub fn lmc(&self) -> Lmc {
        self.info.as_ref().map_or(Lmc::ZERO, PortInfo::lmc)
    }

    /// Speed of the trained link; `None` if the port never answered, or the code has no name.
    pub fn speed(&self) -> Option<LinkSpeed> {
        let speed = self.info.as_ref()?.effective_speed()?;
        Some(match speed {
            LinkSpeed::Qdr if self.is_fdr10 => LinkSpeed::Fdr10,
            other => other,
        })
    }

    /// Rate of the link; `None` if the port never answered, or the code of the width or speed has
    /// no name.
    pub fn link_rate(&self) -> Option<ActiveRate> {
        let rate = self.info.as_ref()?.link_rate()?;
        Some(ActiveRate {
            speed: self.speed()?,
            ..rate
        })
    }

    /// Whether the port differs from `before` only in values that a subnet manager sets.
    fn differs_only_in_settings(&self, before: &Port) -> bool {
        let rate = |port: &Port| port.info.as_ref().map(|_| port.link_rate());
        self.guid == before.guid
            && self.peer == before.peer
            && self.up == before.up
            && rate(self) == rate(before)
            && self.p_keys == before.p_keys
            && self.leads_to_aggregation_node == before.leads_to_aggregation_node
            && !vports::differ(self.vports.as_ref(), before.vports.as_ref())
    }

    /// Logical state; Down if the port never answered.
    pub fn state(&self) -> PortState {
        self.info
            .as_ref()
            .map_or(PortState::Down, PortInfo::port_state)
    }
}

/// A node with its ports, as last read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// GUID of the node.
    pub guid: Guid,
    /// NodeInfo, as answered when the node was found.
    pub info: NodeInfo,
    /// The operator's name of the node, else its NodeDescription as lossy text, else empty.
    pub description: String,
    /// The NodeDescription if `description` is the operator's name; `None` otherwise.
    pub(crate) own_description: Option<String>,
    /// Ports by number; index 0 is port 0 of a switch, and unused on other nodes.
    pub ports: Vec<Port>,
    /// SwitchInfo; `None` on nodes that are not switches.
    pub switch: Option<SwitchInfo>,
    /// Hops from the subnet manager's port.
    pub distance: u8,
    /// Whether the node has left requests unanswered; the sweep knows which ones.
    pub suspected: bool,
    /// Whether routes avoid the node: it has left requests unanswered for too long, or is a switch
    /// that ignores Sets.
    pub unmanageable: bool,
    /// Whether an end port of the node holds an M_Key other than this subnet manager's, so that the
    /// node drops Sets.
    pub locked: bool,
}

impl Node {
    /// Switch, channel adapter or router.
    pub fn kind(&self) -> NodeType {
        self.info.node_type()
    }

    /// Whether the node is a switch that can be programmed.
    pub fn is_switch(&self) -> bool {
        self.switch.is_some()
    }

    /// The NodeDescription as lossy text; empty if there is none. Devices of one host are
    /// recognised by NodeDescription, never by the operator's names.
    pub fn reported(&self) -> &str {
        self.own_description.as_ref().unwrap_or(&self.description)
    }

    /// Whether the node is the aggregation node (SHARP) of the switch at the other end of its
    /// cable; `near` is that switch's port.
    pub fn is_aggregation_node(&self, near: &Port) -> bool {
        !matches!(self.kind(), NodeType::Switch | NodeType::Router)
            && (near.leads_to_aggregation_node || self.reported().starts_with(AGGREGATION_NODE))
    }

    /// The node's name, or its GUID if the name is empty.
    pub fn name(&self) -> String {
        if self.description.is_empty() {
            self.guid.to_string()
        } else {
            self.description.clone()
        }
    }

    /// The node's cables, each as the port here and the other end.
    pub fn cables(&self) -> impl Iterator<Item = (PortKey, PortKey)> {
        let ports = (0..=u8::MAX).map(PortNum).zip(&self.ports);
        ports.filter_map(|(number, port)| Some((PortKey::new(self.guid, number), port.peer?)))
    }

    /// The cables whose lower (GUID, port) end, or only end, is at this node. Each cable appears
    /// once over all nodes.
    pub fn first_ends(&self) -> impl Iterator<Item = (PortKey, PortKey)> {
        self.cables().filter(|(here, there)| here <= there)
    }

    /// Whether the node differs from `before` only in values that a subnet manager sets: LIDs, port
    /// states, MTUs, VLs, and the tops of a switch's tables.
    pub(crate) fn differs_only_in_settings(&self, before: &Node) -> bool {
        let constant = |node: &Node| {
            node.switch.map(|mut info| {
                info.set_linear_fdb_top(Lid::NONE)
                    .set_multicast_fdb_top(Lid::NONE)
                    .set_life_time_value(0)
                    .set_port_state_change(false);
                info
            })
        };
        self.info == before.info
            && constant(self) == constant(before)
            && (self.distance == 0) == (before.distance == 0)
            && self.unmanageable == before.unmanageable
            && self.locked == before.locked
            && self.ports.len() == before.ports.len()
            && self.description == before.description
            && self.own_description == before.own_description
            && (self.ports.iter().zip(&before.ports))
                .all(|(now, before)| now.differs_only_in_settings(before))
    }

    /// The ports that can hold a LID: port 0 of a switch, or the cabled ports of another node. On
    /// the subnet manager's own node, ports without a cable count if they answered.
    pub fn end_ports(&self) -> impl Iterator<Item = (PortNum, &Port)> {
        let range = if self.kind() == NodeType::Switch {
            0..1
        } else {
            1..self.ports.len()
        };
        let is_local = self.distance == 0;
        range
            .map(|number| (PortNum(number as u8), &self.ports[number]))
            .filter(move |(number, port)| {
                number.0 == 0 || port.peer.is_some() || (is_local && port.info.is_some())
            })
    }
}

/// The whole subnet at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fabric {
    nodes: Nodes,
    /// The subnet manager's port.
    pub local: Option<PortRef>,
    /// Other subnet managers with their last SMInfo, in the order of their ports.
    pub managers: Vec<(PortKey, SmInfo)>,
}

impl Fabric {
    /// Builds the model of `hardware`.
    pub fn build(hardware: &Hardware) -> Fabric {
        let nodes: Vec<Arc<Node>> = hardware
            .nodes()
            .map(|(guid, record)| Arc::new(Node::of(hardware, guid, record)))
            .collect();
        Fabric::of(Nodes::new(nodes), hardware)
    }

    /// Builds the model of `hardware` from `self`, the model before the nodes in `touched` were
    /// written. All other nodes are shared with `self`.
    pub fn follow(&self, hardware: &Hardware, touched: &BTreeSet<Guid>) -> Fabric {
        let mut changes = BTreeMap::new();
        for &guid in touched {
            let known = self.find(guid).map(|ix| self.node(ix));
            let node = hardware
                .node(guid)
                .map(|record| Node::of(hardware, guid, record));
            if known != node.as_ref() {
                changes.insert(guid, node.map(Arc::new));
            }
        }
        let nodes = if changes.is_empty() {
            self.nodes.clone()
        } else {
            self.nodes.with(&changes)
        };
        Fabric::of(nodes, hardware)
    }

    /// A fabric of `nodes`, with the local port and the other managers of `hardware`.
    fn of(nodes: Nodes, hardware: &Hardware) -> Fabric {
        let others = hardware
            .managers()
            .filter(|&port| hardware.local != Some(port));
        let managers = others.filter_map(|port| Some((port, hardware.manager(port)?)));
        Fabric::with(nodes, hardware.local, managers.collect())
    }

    /// A fabric with these parts; without a local port if no node has port `local`.
    fn with(nodes: Nodes, local: Option<PortKey>, managers: Vec<(PortKey, SmInfo)>) -> Fabric {
        let mut fabric = Fabric {
            nodes,
            local: None,
            managers,
        };
        fabric.local = local.and_then(|local| fabric.find_port(local));
        fabric
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the fabric has no nodes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All nodes in the order of their GUIDs.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().map(|node| &**node)
    }

    /// All nodes in the order of their GUIDs, mutable. Afterwards no node is shared.
    pub fn nodes_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        self.nodes.iter_mut()
    }

    /// The nodes that this fabric and `other` do not share, as pairs (here, there), in the order of
    /// their GUIDs.
    pub fn differing<'a>(&'a self, other: &'a Fabric) -> Vec<(Option<&'a Node>, Option<&'a Node>)> {
        self.nodes.differing(&other.nodes)
    }

    /// The nodes of [`Fabric::differing`] that differ in more than the values that a subnet manager
    /// sets. A bring-up changes the state of every port, and the wiring of no node.
    pub fn rewired<'a>(&'a self, other: &'a Fabric) -> Vec<(Option<&'a Node>, Option<&'a Node>)> {
        let mut differing = self.differing(other);
        differing.retain(|pair| match pair {
            (Some(before), Some(now)) => !now.differs_only_in_settings(before),
            _ => true,
        });
        differing
    }

    /// The nodes of [`Fabric::differing`] as one list.
    pub fn differing_nodes<'a>(&'a self, other: &'a Fabric) -> impl Iterator<Item = &'a Node> {
        let pairs = self.differing(other).into_iter();
        pairs.flat_map(|(here, there)| [here, there]).flatten()
    }

    /// Number of nodes whose GUID satisfies `is_before`. As for `slice::partition_point`, these
    /// nodes must precede all others.
    pub fn partition_point(&self, is_before: impl Fn(Guid) -> bool) -> usize {
        self.nodes.partition_point(is_before)
    }

    /// The node at `ix`.
    pub fn node(&self, ix: NodeIx) -> &Node {
        self.nodes.get(ix)
    }

    /// The port `at`, which must be a port of this fabric.
    pub fn port(&self, at: PortRef) -> &Port {
        &self.node(at.node).ports[at.port.index()]
    }

    /// The index of the node with this GUID; `None` if the fabric lacks the node.
    pub fn find(&self, guid: Guid) -> Option<NodeIx> {
        self.nodes.find(guid)
    }

    /// The other end of the cable at a port; `None` without a cable, or if the fabric lacks the
    /// other end.
    pub fn peer(&self, at: PortRef) -> Option<PortRef> {
        self.find_port(self.port(at).peer?)
    }

    /// The switch that contains the aggregation node with port `at`; `None` for other ports. The
    /// switch and its aggregation node appear and vanish together.
    pub fn switch_around(&self, at: PortRef) -> Option<Guid> {
        let near = self.peer(at)?;
        let switch = self.node(near.node);
        let is_inside =
            switch.is_switch() && self.node(at.node).is_aggregation_node(self.port(near));
        is_inside.then_some(switch.guid)
    }

    /// The node with this GUID; `None` if the fabric lacks the node.
    pub fn node_of(&self, guid: Guid) -> Option<&Node> {
        Some(self.node(self.find(guid)?))
    }

    /// Whether the node with this GUID is present, and a switch that can be programmed.
    pub fn is_switch(&self, guid: Guid) -> bool {
        self.node_of(guid).is_some_and(Node::is_switch)
    }

    /// Name of a node; its GUID if the node is not in the fabric.
    pub fn name(&self, guid: Guid) -> String {
        self.node_of(guid)
            .map_or_else(|| guid.to_string(), Node::name)
    }

    /// The name of a port for operators: `leaf-03 port 7`.
    pub fn port_name(&self, port: PortKey) -> String {
        format!("{} port {}", self.name(port.node), port.port)
    }

    /// All nodes with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (NodeIx, &Node)> {
        self.nodes()
            .enumerate()
            .map(|(position, node)| (NodeIx(position as u32), node))
    }

    /// All switches with their indices.
    pub fn switches(&self) -> impl Iterator<Item = (NodeIx, &Node)> {
        self.iter().filter(|(_, node)| node.is_switch())
    }

    /// Every port that can hold a LID.
    pub fn end_ports(&self) -> impl Iterator<Item = (PortRef, &Port)> {
        self.iter().flat_map(|(ix, node)| {
            node.end_ports()
                .map(move |(port, record)| (PortRef { node: ix, port }, record))
        })
    }

    /// Every cable once, as a pair of ports with the lower one first. Both are equal for a cable
    /// from a port to itself.
    pub fn links(&self) -> impl Iterator<Item = (PortRef, PortRef)> + '_ {
        self.iter()
            .flat_map(|(ix, node)| self.links_of(ix, node))
            .filter(|(here, there)| here <= there)
    }

    /// Every cable at a node, as the port there and the other end. A cable is left out if the
    /// fabric lacks the other end.
    pub fn links_of<'a>(
        &'a self,
        ix: NodeIx,
        node: &'a Node,
    ) -> impl Iterator<Item = (PortRef, PortRef)> + 'a {
        node.cables().filter_map(move |(here, there)| {
            let here = PortRef {
                node: ix,
                port: here.port,
            };
            Some((here, self.find_port(there)?))
        })
    }

    /// Capacity of a port's P_KeyTable, in keys.
    pub fn p_key_capacity(&self, at: PortRef) -> u16 {
        let node = self.node(at.node);
        p_keys::capacity(&node.info, node.switch.as_ref(), at.port)
    }

    /// GUID and number of a port, which identify it in all fabrics.
    pub fn key(&self, at: PortRef) -> PortKey {
        PortKey::new(self.node(at.node).guid, at.port)
    }

    /// The port with this key; `None` if the fabric lacks its node or the port.
    pub fn find_port(&self, key: PortKey) -> Option<PortRef> {
        let node = self.find(key.node)?;
        (key.port.index() < self.node(node).ports.len()).then_some(PortRef {
            node,
            port: key.port,
        })
    }

    /// Whether the port with this key is present and disabled.
    pub fn is_disabled(&self, key: PortKey) -> bool {
        let info = self
            .find_port(key)
            .and_then(|at| self.port(at).info.as_ref());
        info.is_some_and(|info| info.port_physical_state() == PortPhysicalState::Disabled)
    }

    /// A copy of the fabric with these PortInfos; ports that the fabric lacks are ignored.
    pub fn with_ports(&self, ports: &[(PortKey, PortInfo)]) -> Fabric {
        let mut fabric = self.clone();
        for &(key, info) in ports {
            if let Some(at) = fabric.find_port(key) {
                fabric.port_mut(at).info = Some(info);
            }
        }
        fabric
    }

    /// The node at `ix`, mutable. Afterwards the node is not shared.
    pub fn node_mut(&mut self, ix: NodeIx) -> &mut Node {
        self.nodes.get_mut(ix)
    }

    /// The port `at`, mutable. Afterwards its node is not shared.
    pub fn port_mut(&mut self, at: PortRef) -> &mut Port {
        &mut self.node_mut(at.node).ports[at.port.index()]
    }

    /// Number of nodes of this kind.
    pub fn count(&self, kind: NodeType) -> usize {
        self.nodes().filter(|node| node.kind() == kind).count()
    }
}

impl Node {
    /// The node with GUID `guid`, from its inventory record and its state in `hardware`.
    fn of(hardware: &Hardware, guid: Guid, record: &InventoryNode) -> Node {
        let ports = record
            .ports
            .iter()
            .map(|port| Port {
                guid: if port.guid.is_zero() { guid } else { port.guid },
                info: port.info,
                peer: port.peer,
                up: port.is_up(),
                p_keys: port.p_keys.clone(),
                is_fdr10: port
                    .extended
                    .as_ref()
                    .is_some_and(|extended| extended.refine(LinkSpeed::Qdr) == LinkSpeed::Fdr10),
                error_correction: port.error_correction.flatten(),
                leads_to_aggregation_node: port
                    .extended
                    .as_ref()
                    .is_some_and(|extended| extended.leads_to_aggregation_node()),
                vports: port.vports.clone(),
            })
            .collect();
        let ports_of = (0u8..=u8::MAX).map(PortNum).take(record.ports.len());
        let locked = hardware.count_locked() > 0
            && ports_of
                .map(|number| PortKey::new(guid, number))
                .any(|port| hardware.is_locked(port));
        let given = hardware.given_name(guid).map(str::to_owned);
        let described = record.description.as_ref();
        let described = described.map(|text| String::from_utf8_lossy(text.text()).into_owned());
        let described = described.unwrap_or_default();
        Node {
            guid,
            info: record.info,
            description: given.clone().unwrap_or_else(|| described.clone()),
            own_description: given.map(|_| described),
            ports,
            switch: record.switch.as_ref().map(|switch| switch.info),
            distance: record.path.len() as u8,
            suspected: record.missed > 0,
            unmanageable: record.missed > MISSES_TOLERATED || locked && record.is_switch(),
            locked,
        }
    }
}
