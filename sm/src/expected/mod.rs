//! The expected fabric: nodes and cables that were present while both ends answered, and are
//! missing.
//!
//! [`Expected`] holds only the parts missing from the present [`Fabric`], port by port, so that a
//! convergence changes as much of it as the fabric changed, and a snapshot shares it. A missing
//! port is expected until it is cabled again, or an operator [accepts](Expected::accept) that it is
//! gone for good.

mod missing;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::wire::attr::{NodeType, PortState};

pub use self::missing::{Missing, MissingKind};
use crate::fabric::{Delta, Fabric, Node, Port};
use crate::sweep::inventory::PortKey;

/// How many ports can be missing at once: more than a fabric that uses up the LID space has (45,056
/// hosts under 64-port switches have 270,336). Ports beyond are not expected, but counted.
pub const MAX_LOST_PORTS: usize = 1 << 20;

/// How many nodes can be missing at once: as many as can have LIDs.
pub const MAX_LOST_NODES: usize = Lid::UNICAST_LAST.0 as usize;

/// When a node or cable went missing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LostAt {
    /// While no subnet manager with this state was running.
    Unknown,
    /// In an earlier run, in milliseconds since the Unix epoch.
    Unix(u64),
    /// In this run.
    Run(Time),
}

/// A port that was cabled and is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostPort {
    /// The other end of the cable that was there.
    pub peer: PortKey,
    /// When the cable went missing.
    pub at: LostAt,
    /// The port's state before.
    pub state: PortState,
    /// How many routes, from a switch to a LID, the next plan moved; `None` where that was not
    /// counted.
    pub moved: Option<u64>,
}

/// A node that was there and is not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostNode {
    /// Switch, channel adapter or router.
    pub kind: NodeType,
    /// Its description.
    pub description: String,
    /// When it went missing.
    pub at: LostAt,
    /// Its end ports, with their addresses.
    pub ends: Vec<LostEnd>,
}

/// An end port of a node that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostEnd {
    /// Its number.
    pub port: PortNum,
    /// Its GUID.
    pub guid: Guid,
    /// The LID that it held; [`Lid::NONE`] where it held none.
    pub lid: Lid,
}

/// The missing entries that an operator gives up for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accept {
    /// All entries missing now.
    All,
    /// A missing node, or all cables missing at a present one.
    Node(Guid),
    /// The cable of a port.
    Port(PortKey),
}

/// The nodes and cables missing from the present fabric.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Expected {
    ports: BTreeMap<PortKey, LostPort>,
    nodes: BTreeMap<Guid, LostNode>,
    /// Ports and nodes beyond the limits.
    dropped: u64,
}

/// The cabling that a run leaves to the next one: cables of both parts are expected.
#[derive(Clone, Default, Debug)]
pub struct Cabling {
    /// The fabric at its end.
    pub fabric: Arc<Fabric>,
    /// The nodes and cables missing at its end.
    pub missing: Arc<Expected>,
}

impl Cabling {
    /// Nodes whose kept record differs from that in `earlier`.
    pub fn differing(&self, earlier: &Cabling) -> BTreeSet<Guid> {
        let nodes = earlier.fabric.differing_nodes(&self.fabric);
        let mut differing: BTreeSet<Guid> = nodes.map(|node| node.guid).collect();
        if !Arc::ptr_eq(&self.missing, &earlier.missing) {
            for missing in [&self.missing, &earlier.missing] {
                differing.extend(missing.nodes.keys());
                differing.extend(missing.ports.keys().map(|port| port.node));
            }
        }
        differing
    }

    /// The record of a node, if one is kept.
    pub fn node(&self, guid: Guid) -> Option<LostNode> {
        let there = || Some(LostNode::of(self.fabric.node_of(guid)?, LostAt::Unknown));
        self.missing.node(guid).cloned().or_else(there)
    }

    /// The ports of a node that have a cable, or are missing theirs.
    pub fn cables_of(&self, guid: Guid) -> BTreeMap<PortKey, LostPort> {
        let node = self.fabric.node_of(guid);
        let mut cables: BTreeMap<PortKey, LostPort> =
            node.into_iter().flat_map(cabled_ports).collect();
        cables.extend(self.missing.ports_of(guid).map(|(key, &port)| (key, port)));
        cables
    }

    /// All nodes with a kept record.
    pub fn nodes(&self) -> BTreeSet<Guid> {
        let there = self.fabric.nodes().map(|node| node.guid);
        let missing = self.missing.ports.keys().map(|port| port.node);
        there
            .chain(missing)
            .chain(self.missing.nodes.keys().copied())
            .collect()
    }

    /// All of it as missing, before the first sweep, which takes out the parts that it finds.
    pub fn recalled(&self) -> Expected {
        let mut expected = Expected::default();
        for guid in self.nodes() {
            if let Some(node) = self.node(guid) {
                expected.lose_node(guid, node);
            }
            for (key, port) in self.cables_of(guid) {
                expected.lose_port(key, port);
            }
        }
        expected.forget_times();
        expected
    }

    /// The parts of it that `present` lacks: the same as [all of it](Cabling::recalled) updated by
    /// all of `present`, without the search trees of a whole fabric.
    pub fn missing_from(&self, present: &Fabric) -> Expected {
        let mut expected = Expected::default();
        let cabled = Cabled::of(present);
        let lost = |here, peer| {
            let is_moved = || cabled.is_host_port(peer) && self.peer_of(peer) == Some(here);
            !cabled.has(here) && !is_moved()
        };
        for node in self.fabric.nodes() {
            let there = present.node_of(node.guid);
            if there.is_none() && self.missing.node(node.guid).is_none() {
                expected.lose_node(node.guid, LostNode::of(node, LostAt::Unknown));
            }
            for (here, port) in cabled_ports(node) {
                if self.missing.port(here).is_none() && lost(here, port.peer) {
                    expected.lose_port(here, port);
                }
            }
        }
        let nodes = self.missing.nodes();
        for (guid, node) in nodes.filter(|&(guid, _)| present.find(guid).is_none()) {
            expected.lose_node(guid, node.clone());
        }
        let ports = self.missing.ports();
        for (here, port) in ports.filter(|(here, port)| lost(*here, port.peer)) {
            expected.lose_port(here, *port);
        }
        expected.forget_times();
        expected
    }

    /// The other end of the cable that a port has, or is missing.
    fn peer_of(&self, key: PortKey) -> Option<PortKey> {
        let missing = self.missing.port(key).map(|port| port.peer);
        missing.or_else(|| shown_at(&self.fabric, key))
    }
}

/// The ports at the ends of the cables of a fabric: of a cable counts what its lower end shows.
struct Cabled<'a> {
    fabric: &'a Fabric,
    /// See [`Cabled::silent`], which costs a look at every cable.
    silent: OnceCell<BTreeSet<PortKey>>,
}

impl<'a> Cabled<'a> {
    fn of(fabric: &'a Fabric) -> Cabled<'a> {
        Cabled {
            fabric,
            silent: OnceCell::new(),
        }
    }

    /// Ends that do not show their cable, because they or their nodes did not answer.
    fn silent(&self) -> &BTreeSet<PortKey> {
        self.silent.get_or_init(|| {
            let cables = self.fabric.nodes().flat_map(Node::first_ends);
            let one_sided =
                cables.filter(|&(here, there)| shown_at(self.fabric, there) != Some(here));
            one_sided.map(|(_, there)| there).collect()
        })
    }

    fn has(&self, port: PortKey) -> bool {
        let peer = shown_at(self.fabric, port);
        peer.is_some_and(|peer| port <= peer || shown_at(self.fabric, peer) == Some(port))
            || self.silent().contains(&port)
    }

    fn is_host_port(&self, port: PortKey) -> bool {
        let node = self.fabric.node_of(port.node);
        node.is_none_or(|node| node.kind() != NodeType::Switch) && self.has(port)
    }
}

/// The other end of its cable, as a port shows it.
fn shown_at(fabric: &Fabric, port: PortKey) -> Option<PortKey> {
    fabric.port(fabric.find_port(port)?).peer
}

/// The cabled ports of a node.
fn cabled_ports(node: &Node) -> impl Iterator<Item = (PortKey, LostPort)> {
    node.cables().map(|(here, peer)| {
        let port = LostPort {
            peer,
            at: LostAt::Unknown,
            state: node.ports[here.port.index()].state(),
            moved: None,
        };
        (here, port)
    })
}

impl LostNode {
    /// The record of `node`.
    pub fn of(node: &Node, at: LostAt) -> LostNode {
        let ends = node.end_ports();
        LostNode {
            kind: node.kind(),
            description: node.description.clone(),
            at,
            ends: ends
                .map(|(port, record)| LostEnd {
                    port,
                    guid: record.guid,
                    lid: Port::lid(record),
                })
                .collect(),
        }
    }
}

/// All ports of a node.
fn ports_of(node: Guid) -> RangeInclusive<PortKey> {
    PortKey::new(node, PortNum::ZERO)..=PortKey::new(node, PortNum(u8::MAX))
}

impl Expected {
    /// Forgets the times of this run, which have no meaning in the next one.
    fn forget_times(&mut self) {
        let ports = self.ports.values_mut().map(|port| &mut port.at);
        let nodes = self.nodes.values_mut().map(|node| &mut node.at);
        for at in ports.chain(nodes) {
            if let LostAt::Run(_) = at {
                *at = LostAt::Unknown;
            }
        }
    }

    /// Whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.nodes.is_empty() && self.dropped == 0
    }

    /// Ports that are missing their cable, ascending.
    pub fn ports(&self) -> impl Iterator<Item = (PortKey, &LostPort)> {
        self.ports.iter().map(|(&key, port)| (key, port))
    }

    /// Nodes that are missing, ascending.
    pub fn nodes(&self) -> impl Iterator<Item = (Guid, &LostNode)> {
        self.nodes.iter().map(|(&guid, node)| (guid, node))
    }

    /// Missing cables of a node, whether it is there or not, ascending by its port.
    pub fn ports_of(&self, node: Guid) -> impl Iterator<Item = (PortKey, &LostPort)> {
        self.ports
            .range(ports_of(node))
            .map(|(&key, port)| (key, port))
    }

    /// The port, if its cable is missing.
    pub fn port(&self, key: PortKey) -> Option<&LostPort> {
        self.ports.get(&key)
    }

    /// The node, if it is missing.
    pub fn node(&self, guid: Guid) -> Option<&LostNode> {
        self.nodes.get(&guid)
    }

    /// Records that a node is missing.
    pub fn lose_node(&mut self, guid: Guid, node: LostNode) {
        if self.nodes.len() < MAX_LOST_NODES || self.nodes.contains_key(&guid) {
            self.nodes.insert(guid, node);
        } else {
            self.dropped += 1;
        }
    }

    /// Records that a port is missing its cable.
    pub fn lose_port(&mut self, key: PortKey, port: LostPort) {
        if self.ports.len() < MAX_LOST_PORTS || self.ports.contains_key(&key) {
            self.ports.insert(key, port);
        } else {
            self.dropped += 1;
        }
    }

    /// Takes in the difference between two fabrics, at `now`.
    pub fn update(&mut self, delta: &Delta, old: &Fabric, new: &Fabric, now: Time) {
        let at = LostAt::Run(now);
        for &guid in &delta.nodes_vanished {
            if let Some(ix) = old.find(guid) {
                self.lose_node(guid, LostNode::of(old.node(ix), at));
            }
        }
        for &(a, b) in &delta.links_vanished {
            for (here, peer) in [(a, b), (b, a)] {
                let state = old
                    .find_port(here)
                    .map_or(PortState::Down, |at| old.port(at).state());
                let moved = None;
                let port = LostPort {
                    peer,
                    at,
                    state,
                    moved,
                };
                self.lose_port(here, port);
            }
        }
        for guid in &delta.nodes_appeared {
            self.nodes.remove(guid);
        }
        for &(a, b) in &delta.links_appeared {
            self.find(a, new);
            self.find(b, new);
        }
    }

    /// A port is cabled. A host's port that was moved to another switch port is not missed at the
    /// old one; a switch port with another cable leaves the old cable expected at the old cable's
    /// other end.
    fn find(&mut self, key: PortKey, new: &Fabric) {
        let Some(lost) = self.ports.remove(&key) else {
            return;
        };
        let is_switch = new
            .find(key.node)
            .is_some_and(|ix| new.node(ix).kind() == NodeType::Switch);
        if !is_switch {
            self.ports
                .remove_entry_if(&lost.peer, |other| other.peer == key);
        }
    }

    /// Whether a cable that went missing at `at` is still missing.
    pub fn has_lost_at(&self, at: Time) -> bool {
        self.ports.values().any(|port| port.at == LostAt::Run(at))
    }

    /// Records that the plan after the losses at `at` moved `ways` routes.
    pub fn note_moved(&mut self, at: Time, ways: u64) {
        let fresh = self
            .ports
            .values_mut()
            .filter(|port| port.at == LostAt::Run(at));
        fresh.for_each(|port| port.moved = Some(ways));
    }

    /// Stops expecting the entries of `accept`. Returns how many nodes and ports those were.
    pub fn accept(&mut self, accept: Accept) -> usize {
        let before = self.ports.len() + self.nodes.len();
        match accept {
            Accept::All => *self = Expected::default(),
            Accept::Node(guid) => {
                self.nodes.remove(&guid);
                let ports: Vec<PortKey> = self.ports_of(guid).map(|(key, _)| key).collect();
                for key in ports {
                    self.accept_port(key);
                }
            }
            Accept::Port(key) => self.accept_port(key),
        }
        before - self.ports.len() - self.nodes.len()
    }

    fn accept_port(&mut self, key: PortKey) {
        if let Some(lost) = self.ports.remove(&key) {
            self.ports
                .remove_entry_if(&lost.peer, |other| other.peer == key);
        }
    }
}

/// Removal of an entry that a condition holds for.
trait RemoveIf {
    fn remove_entry_if(&mut self, key: &PortKey, condition: impl FnOnce(&LostPort) -> bool);
}

impl RemoveIf for BTreeMap<PortKey, LostPort> {
    fn remove_entry_if(&mut self, key: &PortKey, condition: impl FnOnce(&LostPort) -> bool) {
        if self.get(key).is_some_and(condition) {
            self.remove(key);
        }
    }
}
