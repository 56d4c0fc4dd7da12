//! The expected fabric: nodes and cables that were once present at both ends, and are missing now.
//!
//! [`Expected`] holds only the parts that the present [`Fabric`] lacks, port by port. A convergence
//! changes no more of it than changed in the fabric, and snapshots share it. A missing port stays
//! expected until it is cabled again, or an operator [accepts](Expected::accept) the loss for good.
//!
//! Findings, `rsmctl expect`, the names of missing nodes and the former cable of a port all use
//! this module. The store also keeps the present cables, so that losses are noticed that happened
//! while no manager ran. A switch port with another cable than before keeps a record of the former
//! cable: if every end of such cables has a cable now, the cables were exchanged.

mod designed;
mod missing;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::Time;
use rsm_mad::wire::attr::{NodeType, PortState};

pub use self::missing::{Missing, MissingCounts, MissingKind};
use crate::design::Comparison;
use crate::fabric::{Delta, Fabric, Node, Port};

/// Maximum number of missing ports, above the number in a fabric that uses up the LID space (45,056
/// hosts under 64-port switches have 270,336). Further ports are counted, but not expected.
pub(crate) const MAX_LOST_PORTS: usize = 1 << 20;

/// Maximum number of missing nodes: the number of unicast LIDs.
pub(crate) const MAX_LOST_NODES: usize = Lid::UNICAST_LAST.0 as usize;

/// Time at which a node or cable went missing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LostAt {
    /// The part went missing while no subnet manager with this state was running.
    Unknown,
    /// The part went missing in an earlier run, at this time in milliseconds since the Unix epoch.
    Unix(u64),
    /// The part went missing in this run, at this time.
    Run(Time),
}

/// A port whose cable is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostPort {
    /// Other end of the missing cable.
    pub peer: PortKey,
    /// Time at which the cable went missing.
    pub at: LostAt,
    /// State of the port before the loss.
    pub state: PortState,
    /// Number of routes, each from a switch to a LID, that the next plan moved; `None` if the plan
    /// did not count them.
    pub moved: Option<u64>,
}

/// A node that is missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostNode {
    /// Switch, channel adapter or router.
    pub kind: NodeType,
    /// NodeDescription, or the operator's name.
    pub description: String,
    /// Time at which the node went missing.
    pub at: LostAt,
    /// End ports of the node, with their addresses.
    pub ends: Vec<LostEnd>,
}

/// An end port of a missing node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostEnd {
    /// Number of the port.
    pub port: PortNum,
    /// GUID of the port.
    pub guid: Guid,
    /// LID that the port held; [`Lid::NONE`] if it held none.
    pub lid: Lid,
}

/// The missing entries whose loss an operator accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accept {
    /// All entries missing now.
    All,
    /// A missing node, or all cables missing at a present one.
    Node(Guid),
    /// The cable of a port.
    Port(PortKey),
}

/// The nodes and cables that the present fabric lacks.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Expected {
    ports: BTreeMap<PortKey, LostPort>,
    nodes: BTreeMap<Guid, LostNode>,
    /// Former cables of switch ports that now lead to another switch port.
    recabled: BTreeMap<PortKey, LostPort>,
    /// Number of missing ports and nodes beyond the limits.
    dropped: u64,
    /// The last comparison with the design; empty if there is no design.
    design: Arc<Comparison>,
}

/// The cabling that a run stores for the next run: both present and missing cables are expected.
#[derive(Clone, Default, Debug)]
pub struct Cabling {
    /// The fabric at the end of the run.
    pub fabric: Arc<Fabric>,
    /// The nodes and cables missing at the end of the run.
    pub missing: Arc<Expected>,
}

impl Cabling {
    /// Nodes whose stored record differs from the record in `earlier`.
    pub fn differing(&self, earlier: &Cabling) -> BTreeSet<Guid> {
        let nodes = earlier.fabric.differing_nodes(&self.fabric);
        let mut differing: BTreeSet<Guid> = nodes.map(|node| node.guid).collect();
        if !Arc::ptr_eq(&self.missing, &earlier.missing) {
            for missing in [&self.missing, &earlier.missing] {
                differing.extend(missing.nodes.keys());
                differing.extend(missing.ports.keys().map(|port| port.node));
                differing.extend(missing.recabled.keys().map(|port| port.node));
            }
        }
        differing
    }

    /// The stored record of a node; `None` if there is none.
    pub fn node(&self, guid: Guid) -> Option<LostNode> {
        let there = || Some(LostNode::of(self.fabric.node_of(guid)?, LostAt::Unknown));
        self.missing.node(guid).cloned().or_else(there)
    }

    /// The ports of a node with a present or missing cable. A port with another cable than before
    /// is listed with its former cable.
    pub fn cables_of(&self, guid: Guid) -> BTreeMap<PortKey, LostPort> {
        let node = self.fabric.node_of(guid);
        let mut cables: BTreeMap<PortKey, LostPort> =
            node.into_iter().flat_map(cabled_ports).collect();
        let recabled = self.missing.recabled.range(ports_of(guid));
        cables.extend(recabled.map(|(&key, &port)| (key, port)));
        cables.extend(self.missing.ports_of(guid).map(|(key, &port)| (key, port)));
        cables
    }

    /// All nodes with a stored record.
    pub fn nodes(&self) -> BTreeSet<Guid> {
        let there = self.fabric.nodes().map(|node| node.guid);
        let ports = self
            .missing
            .ports
            .keys()
            .chain(self.missing.recabled.keys());
        there
            .chain(ports.map(|port| port.node))
            .chain(self.missing.nodes.keys().copied())
            .collect()
    }

    /// All stored parts, as missing: the state before the first sweep, which removes each part that
    /// it finds.
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

    /// The stored parts that `present` lacks. The result equals [`Cabling::recalled`] updated by
    /// all of `present`, without building search trees of a whole fabric.
    pub fn missing_from(&self, present: &Fabric) -> Expected {
        let mut expected = Expected::default();
        for node in self.fabric.nodes() {
            if present.find(node.guid).is_none() && self.missing.node(node.guid).is_none() {
                expected.lose_node(node.guid, LostNode::of(node, LostAt::Unknown));
            }
        }
        let nodes = self.missing.nodes();
        for (guid, node) in nodes.filter(|&(guid, _)| present.find(guid).is_none()) {
            expected.lose_node(guid, node.clone());
        }
        let cabled = Cabled::of(present);
        for (here, port) in self.kept_cables() {
            let is_moved =
                || cabled.is_host_port(port.peer) && self.peer_of(port.peer) == Some(here);
            if cabled.has(here) {
                expected.note_recabled(here, port, present);
            } else if !is_moved() {
                expected.lose_port(here, port);
            }
        }
        expected.forget_times();
        expected
    }

    /// All stored cables from both ends, as [`cables_of`](Cabling::cables_of) returns them.
    fn kept_cables(&self) -> impl Iterator<Item = (PortKey, LostPort)> {
        let Expected {
            ports, recabled, ..
        } = &*self.missing;
        let there = self.fabric.nodes().flat_map(cabled_ports);
        let there =
            there.filter(|(key, _)| !ports.contains_key(key) && !recabled.contains_key(key));
        let before = recabled.iter().filter(|(key, _)| !ports.contains_key(key));
        there.chain(ports.iter().chain(before).map(|(&key, &port)| (key, port)))
    }

    /// Other end of a port's cable, present or missing.
    fn peer_of(&self, key: PortKey) -> Option<PortKey> {
        let Expected {
            ports, recabled, ..
        } = &*self.missing;
        let missing = ports.get(&key).or_else(|| recabled.get(&key));
        let missing = missing.map(|port| port.peer);
        missing.or_else(|| shown_at(&self.fabric, key))
    }
}

/// The cabled ports of a fabric. If the two ends of a cable disagree, the lower end decides.
struct Cabled<'a> {
    fabric: &'a Fabric,
    /// Result of [`Cabled::silent`], which reads every cable.
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

/// Other end of the cable according to the port itself.
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
    /// The record of `node`, missing since `at`.
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
    /// Forgets the times of this run, which have no meaning in the next run.
    fn forget_times(&mut self) {
        let ports = self.ports.values_mut().chain(self.recabled.values_mut());
        let ports = ports.map(|port| &mut port.at);
        let nodes = self.nodes.values_mut().map(|node| &mut node.at);
        for at in ports.chain(nodes) {
            if let LostAt::Run(_) = at {
                *at = LostAt::Unknown;
            }
        }
    }

    /// Whether no part is missing, and all cables between switches have their former ends.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty()
            && self.nodes.is_empty()
            && self.recabled.is_empty()
            && self.dropped == 0
    }

    /// The last comparison with the design; empty if there is no design.
    pub fn design(&self) -> &Arc<Comparison> {
        &self.design
    }

    /// Ports that are missing their cable, ascending.
    pub fn ports(&self) -> impl Iterator<Item = (PortKey, &LostPort)> {
        self.ports.iter().map(|(&key, port)| (key, port))
    }

    /// Nodes that are missing, ascending.
    pub fn nodes(&self) -> impl Iterator<Item = (Guid, &LostNode)> {
        self.nodes.iter().map(|(&guid, node)| (guid, node))
    }

    /// Missing cables of a node, present or missing, ascending by its port.
    pub fn ports_of(&self, node: Guid) -> impl Iterator<Item = (PortKey, &LostPort)> {
        self.ports
            .range(ports_of(node))
            .map(|(&key, port)| (key, port))
    }

    /// The record of a port whose cable is missing; `None` if it is not missing.
    pub fn port(&self, key: PortKey) -> Option<&LostPort> {
        self.ports.get(&key)
    }

    /// The record of a missing node; `None` if the node is not missing.
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

    /// Follows the change from `old` to `new`, described by `delta`, at time `now`.
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
        let found = || delta.links_appeared.iter().flat_map(|&(a, b)| [a, b]);
        for key in found() {
            if let Some(&lost) = self.ports.get(&key) {
                self.note_recabled(key, lost, new);
            }
        }
        for key in found() {
            self.find(key, new);
        }
    }

    /// Updates the record of the former cable of a cabled port. Records `before` if `before` and
    /// the present cable join switches and differ; an older record stays. Drops the record once the
    /// recorded cable is back.
    fn note_recabled(&mut self, key: PortKey, before: LostPort, new: &Fabric) {
        let is_back = |before: &LostPort| shown_at(new, key) == Some(before.peer);
        match self.recabled.get(&key) {
            Some(recorded) if is_back(recorded) => drop(self.recabled.remove(&key)),
            Some(_) => {}
            None => {
                let is_between_switches =
                    self.is_switch(new, key.node) && self.is_switch(new, before.peer.node);
                if !is_between_switches || shown_at(new, key).is_none() || is_back(&before) {
                    return;
                }
                if self.recabled.len() < MAX_LOST_PORTS {
                    self.recabled.insert(key, before);
                } else {
                    self.dropped += 1;
                }
            }
        }
    }

    /// Removes a cabled port from the missing ones. If a host's port moved to another switch port,
    /// the former switch port is no longer missing either. If a switch port has another cable, the
    /// far end of the old cable stays missing.
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

    /// Stops expecting the entries of `accept`; if it names an exchanged cable, all cables of the
    /// same exchange. Returns the number of nodes and ports that were expected.
    pub fn accept(&mut self, accept: Accept, fabric: &Fabric) -> usize {
        let count = |expected: &Expected| {
            expected.ports.len() + expected.nodes.len() + expected.recabled.len()
        };
        let before = count(self);
        match accept {
            Accept::All => {
                *self = Expected {
                    design: self.design.clone(),
                    ..Expected::default()
                };
            }
            Accept::Node(guid) => {
                self.nodes.remove(&guid);
                let ports: Vec<PortKey> = self.ports_of(guid).map(|(key, _)| key).collect();
                for key in ports {
                    self.accept_port(key);
                }
                self.accept_exchanged(fabric, |key| key.node == guid);
            }
            Accept::Port(key) => {
                self.accept_port(key);
                self.accept_exchanged(fabric, |port| port == key);
            }
        }
        before - count(self)
    }

    fn accept_port(&mut self, key: PortKey) {
        if let Some(lost) = self.ports.remove(&key) {
            self.ports
                .remove_entry_if(&lost.peer, |other| other.peer == key);
            // If the far end has another cable now, that cable is accepted in place of the former
            // one.
            self.recabled
                .remove_entry_if(&lost.peer, |other| other.peer == key);
        }
    }

    fn accept_exchanged(&mut self, fabric: &Fabric, is_meant: impl Fn(PortKey) -> bool) {
        for ends in self.exchanges(fabric) {
            if ends.iter().any(|&key| is_meant(key)) {
                for key in ends {
                    self.recabled.remove(&key);
                }
            }
        }
    }

    /// The exchanges of cables between switches, each as the ascending ends of its cables. Every
    /// end has another cable than before; a cable with a free end counts as missing instead.
    fn exchanges(&self, fabric: &Fabric) -> Vec<Vec<PortKey>> {
        let is_whole = |(key, before): (&PortKey, &LostPort)| {
            let other = self.recabled.get(&before.peer);
            let is_cabled = [key, &before.peer].map(|end| !self.ports.contains_key(end));
            (other.is_some_and(|other| other.peer == *key) && is_cabled == [true; 2])
                .then_some(*key)
        };
        let mut rest: BTreeSet<PortKey> = self.recabled.iter().filter_map(is_whole).collect();
        let mut exchanges = Vec::new();
        while let Some(first) = rest.pop_first() {
            let mut ends = vec![first];
            let mut next = 0;
            while let Some(&key) = ends.get(next) {
                let before = self.recabled.get(&key).map(|before| before.peer);
                let others = [before, shown_at(fabric, key)].into_iter().flatten();
                ends.extend(others.filter(|other| rest.remove(other)));
                next += 1;
            }
            ends.sort_unstable();
            exchanges.push(ends);
        }
        exchanges
    }
}

/// Removal of an entry if a condition holds for it.
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
