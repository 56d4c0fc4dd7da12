//! The expected fabric: nodes and cables that were once present at both ends, and are missing now.
//!
//! [`Expected`] holds only the parts that the present [`Fabric`] lacks, port by port. A convergence
//! updates only the entries of parts that changed. A missing port stays expected until it is cabled
//! again, or an operator [accepts](Expected::accept) the loss for good.
//!
//! Findings, `rsmctl expect`, the names of missing nodes and the former cable of a port all come
//! from here. The store also holds the present cables, so that the next run notices losses that
//! occur while no manager runs. Ports with another cable than before keep a record of the former
//! cable: if no end of the former cables is free, the cables were exchanged. A host that moved to a
//! port at which no other host was before keeps no record: it is expected at its new port.

mod designed;
mod fate;
mod missing;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use rsm_ids::{Guid, Lid, PortKey, PortNum, UnixMs};
use rsm_mad::Time;
use rsm_mad::wire::attr::{NodeType, PortState};

pub use self::fate::Fate;
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

/// The operator's order that keeps a port disabled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DisabledPort {
    /// The operator, or the setting, that disabled the port.
    pub by: String,
    /// Time of the order, in milliseconds since the Unix epoch.
    pub since_unix_ms: u64,
}

/// The missing entries whose loss an operator accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accept {
    /// All nodes and cables missing now, but no exchanged cable.
    Missing,
    /// All exchanged cables.
    Exchanged,
    /// A missing node, or all cables missing at a present one, but no exchanged cable.
    Node(Guid),
    /// The cable of a port; all cables of the same exchange if it is exchanged.
    Port(PortKey),
}

/// The nodes and cables that the present fabric lacks.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Expected {
    ports: BTreeMap<PortKey, LostPort>,
    nodes: BTreeMap<Guid, LostNode>,
    /// Former cables of ports that lead elsewhere now, and of switch ports whose host is at the
    /// former place of another one.
    recabled: BTreeMap<PortKey, LostPort>,
    /// Number of missing ports and nodes beyond the limits.
    dropped: u64,
    /// The last comparison with the design; empty if there is no design.
    design: Arc<Comparison>,
    /// Ports that rsm keeps disabled: their cables are not gone, although no node answers there.
    disabled: Arc<BTreeMap<PortKey, DisabledPort>>,
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
        let present = || Some(LostNode::of(self.fabric.node_of(guid)?, LostAt::Unknown));
        self.missing.node(guid).cloned().or_else(present)
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
        let present = self.fabric.nodes().map(|node| node.guid);
        let ports = self
            .missing
            .ports
            .keys()
            .chain(self.missing.recabled.keys());
        present
            .chain(ports.map(|port| port.node))
            .chain(self.missing.nodes.keys().copied())
            .collect()
    }

    /// All stored parts as missing: the state before the first sweep. The sweep removes each part
    /// that it finds.
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
        let mut moved = BTreeMap::new();
        let mut left = BTreeMap::new();
        for (here, port) in self.kept_cables() {
            let is_moved =
                || cabled.is_host_port(port.peer) && self.peer_of(port.peer) == Some(here);
            if cabled.has(here) {
                expected.record_recabled(here, port, present);
                if is_host(present, here.node) {
                    moved.insert(here, port.peer);
                }
            } else if is_moved() {
                left.insert(here, port);
            } else {
                expected.lose_port(here, port);
            }
        }
        let moves = moved.into_iter().map(|(host, former)| Move {
            host,
            former,
            left: left.get(&former).copied(),
        });
        expected.resolve_moves(moves.collect(), present);
        expected.forget_times();
        expected
    }

    /// All stored cables from both ends, as [`cables_of`](Cabling::cables_of) returns them.
    fn kept_cables(&self) -> impl Iterator<Item = (PortKey, LostPort)> {
        let Expected {
            ports, recabled, ..
        } = &*self.missing;
        let present = self.fabric.nodes().flat_map(cabled_ports);
        let present =
            present.filter(|(key, _)| !ports.contains_key(key) && !recabled.contains_key(key));
        let before = recabled.iter().filter(|(key, _)| !ports.contains_key(key));
        present.chain(ports.iter().chain(before).map(|(&key, &port)| (key, port)))
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

/// A host's port that is cabled again, to its former switch port or to another one.
struct Move {
    host: PortKey,
    /// Other end of the former cable.
    former: PortKey,
    /// Record of the former cable's other end, if it waited for this port and is not cabled.
    left: Option<LostPort>,
}

/// The cabled ports of a fabric. Where the two ends of a cable disagree, the lower end counts.
struct Cabled<'a> {
    fabric: &'a Fabric,
    /// Result of [`Cabled::silent`], which reads all cables.
    silent: OnceCell<BTreeSet<PortKey>>,
}

impl<'a> Cabled<'a> {
    /// The cabled ports of `fabric`, not read yet.
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

    /// Whether a port is cabled.
    fn has(&self, port: PortKey) -> bool {
        let peer = shown_at(self.fabric, port);
        peer.is_some_and(|peer| port <= peer || shown_at(self.fabric, peer) == Some(port))
            || self.silent().contains(&port)
    }

    /// Whether a port is cabled, and not a port of a present switch.
    fn is_host_port(&self, port: PortKey) -> bool {
        let node = self.fabric.node_of(port.node);
        node.is_none_or(|node| node.kind() != NodeType::Switch) && self.has(port)
    }
}

/// Other end of the cable according to the port itself; `None` if the port shows none.
fn shown_at(fabric: &Fabric, port: PortKey) -> Option<PortKey> {
    fabric.port(fabric.find_port(port)?).peer
}

/// Whether a node is present, and not a switch.
fn is_host(fabric: &Fabric, guid: Guid) -> bool {
    let node = fabric.node_of(guid);
    node.is_some_and(|node| node.kind() != NodeType::Switch)
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

    /// Whether nothing is missing, and all cables are where they were.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty()
            && self.nodes.is_empty()
            && self.recabled.is_empty()
            && self.dropped == 0
    }

    /// Records the ports that rsm keeps disabled. Returns whether they differ from the former ones.
    pub fn set_disabled(&mut self, disabled: &Arc<BTreeMap<PortKey, DisabledPort>>) -> bool {
        let differs = self.disabled != *disabled;
        self.disabled.clone_from(disabled);
        differs
    }

    /// The ports that rsm keeps disabled.
    pub fn disabled(&self) -> &Arc<BTreeMap<PortKey, DisabledPort>> {
        &self.disabled
    }

    /// The end of a cable that rsm keeps disabled; `None` if there is none.
    pub fn disabled_of(&self, ends: [PortKey; 2]) -> Option<PortKey> {
        ends.into_iter().find(|end| self.disabled.contains_key(end))
    }

    /// A port whose disabling hides a missing node: the disabled end of the node's first missing
    /// cable to a present node. `None` unless rsm keeps an end of every such cable disabled.
    pub fn disabled_before(&self, fabric: &Fabric, node: Guid) -> Option<PortKey> {
        let cables = self.ports_of(node).map(|(key, port)| [key, port.peer]);
        let mut cables = cables.filter(|[_, there]| fabric.find(there.node).is_some());
        let first = self.disabled_of(cables.next()?)?;
        let is_all = cables.all(|ends| self.disabled_of(ends).is_some());
        is_all.then_some(first)
    }

    /// The order by which a port is disabled, in words: `leaf-03 port 7 was disabled by alice at
    /// 2026-11-30T07:25:26.000Z`; `None` if rsm does not keep the port disabled.
    pub fn disabled_by(&self, fabric: &Fabric, port: PortKey) -> Option<String> {
        let DisabledPort { by, since_unix_ms } = self.disabled.get(&port)?;
        let (name, since) = (self.port_name(fabric, port), UnixMs(*since_unix_ms));
        Some(format!("{name} was disabled by {by} at {since}"))
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

    /// Missing cables of a node, ascending by its port. The node may be present or missing.
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
        let appeared = || delta.links_appeared.iter().flat_map(|&(a, b)| [a, b]);
        for key in appeared() {
            if let Some(&lost) = self.ports.get(&key) {
                self.record_recabled(key, lost, new);
            }
        }
        let recabled: BTreeSet<PortKey> = appeared().collect();
        let moves = recabled
            .iter()
            .filter_map(|&key| self.end_loss(key, &recabled, new));
        let moves = moves.collect();
        self.resolve_moves(moves, new);
    }

    /// Records the former cable `before` of a cabled port if the present one differs and no former
    /// cable is recorded yet. Forgets the recorded cable once it is put back.
    fn record_recabled(&mut self, key: PortKey, before: LostPort, new: &Fabric) {
        let is_back = |before: &LostPort| shown_at(new, key) == Some(before.peer);
        match self.recabled.get(&key) {
            Some(recorded) if is_back(recorded) => drop(self.recabled.remove(&key)),
            Some(_) => {}
            None => {
                if shown_at(new, key).is_some() && !is_back(&before) {
                    self.record_former(key, before);
                }
            }
        }
    }

    /// Records the former cable of a port, if there is room.
    fn record_former(&mut self, key: PortKey, before: LostPort) {
        if self.recabled.len() < MAX_LOST_PORTS {
            self.recabled.insert(key, before);
        } else {
            self.dropped += 1;
        }
    }

    /// Ends the loss of a port that is cabled again. A host's port that moved to another switch
    /// port is no longer missing at the old one. A switch port with another cable leaves the old
    /// cable expected at that cable's other end. Returns the move of a host's port. `cabled` has
    /// all ports that are cabled again.
    fn end_loss(&mut self, key: PortKey, cabled: &BTreeSet<PortKey>, new: &Fabric) -> Option<Move> {
        let former = self.ports.remove(&key)?.peer;
        let is_switch = new
            .find(key.node)
            .is_some_and(|ix| new.node(ix).kind() == NodeType::Switch);
        if is_switch {
            return None;
        }
        let is_own = |other: &LostPort| other.peer == key;
        let left = self.ports.remove_entry_if(&former, is_own);
        is_host(new, key.node).then(|| Move {
            host: key,
            former,
            left: left.filter(|_| !cabled.contains(&former)),
        })
    }

    /// Keeps or forgets the former switch ports of hosts that are cabled again. A host at another
    /// host's former switch port may be half of an exchange: its own former port stays recorded,
    /// even while no cable is there. At any other port, the host is expected from now on.
    fn resolve_moves(&mut self, moves: Vec<Move>, new: &Fabric) {
        let is_at_anothers_place = |host| {
            let there = shown_at(new, host).and_then(|at| self.recabled.get(&at));
            there.is_some_and(|before| before.peer != host)
        };
        let moves = moves
            .into_iter()
            .map(|one| (is_at_anothers_place(one.host), one));
        let moves: Vec<(bool, Move)> = moves.collect();
        for (is_at_anothers_place, Move { host, former, left }) in moves {
            match left {
                Some(left) if is_at_anothers_place => {
                    if !self.recabled.contains_key(&former) {
                        self.record_former(former, left);
                    }
                }
                _ if is_at_anothers_place => {}
                _ => {
                    let recorded = self.recabled.remove(&host).map(|before| before.peer);
                    let places = [Some(former), recorded, shown_at(new, host)];
                    for place in places.into_iter().flatten() {
                        let is_own = |other: &LostPort| other.peer == host;
                        self.recabled.remove_entry_if(&place, is_own);
                    }
                }
            }
        }
    }

    /// Whether a cable that went missing at `at` is still missing.
    pub fn has_lost_at(&self, at: Time) -> bool {
        self.ports.values().any(|port| port.at == LostAt::Run(at))
    }

    /// Records that the plan after the losses at `at` moved this number of routes.
    pub fn record_moved_routes(&mut self, at: Time, routes: u64) {
        let lost_ports = self
            .ports
            .values_mut()
            .filter(|port| port.at == LostAt::Run(at));
        lost_ports.for_each(|port| port.moved = Some(routes));
    }

    /// Stops expecting the entries of `accept`. Returns whether any were expected.
    pub fn accept(&mut self, accept: Accept, fabric: &Fabric) -> bool {
        let count = |expected: &Expected| {
            expected.ports.len() + expected.nodes.len() + expected.recabled.len()
        };
        let before = (count(self), self.dropped);
        match accept {
            Accept::Missing => {
                let ports: Vec<PortKey> = self.ports.keys().copied().collect();
                ports.into_iter().for_each(|key| self.accept_port(key));
                self.nodes.clear();
                self.dropped = 0;
            }
            Accept::Exchanged => self.accept_exchanged(fabric, |_| true),
            Accept::Node(guid) => {
                self.nodes.remove(&guid);
                let ports: Vec<PortKey> = self.ports_of(guid).map(|(key, _)| key).collect();
                ports.into_iter().for_each(|key| self.accept_port(key));
            }
            Accept::Port(key) => {
                self.accept_port(key);
                self.accept_exchanged(fabric, |port| port == key);
            }
        }
        before != (count(self), self.dropped)
    }

    /// Stops expecting the missing cable of a port, at both ends.
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

    /// Whether a cable of an exchange is at the node.
    pub fn has_exchanged_at(&self, node: Guid, fabric: &Fabric) -> bool {
        let exchanges = self.exchanges(fabric);
        exchanges.iter().flatten().any(|end| end.node == node)
    }

    /// Forgets the former cables of each exchange with a port that satisfies `is_meant`.
    fn accept_exchanged(&mut self, fabric: &Fabric, is_meant: impl Fn(PortKey) -> bool) {
        for ends in self.exchanges(fabric) {
            if ends.iter().any(|&key| is_meant(key)) {
                for key in ends {
                    self.recabled.remove(&key);
                }
            }
        }
    }

    /// The exchanges of cables, each as the ascending ends of its cables: every end is cabled, but
    /// not to its former peer. A cable with an end that is not cabled counts as missing instead.
    /// Where hosts take part, every end leads to an end of the same exchange; hosts that moved to
    /// new ports are no exchange.
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
            let is_closed = |key: &PortKey| {
                shown_at(fabric, *key).is_some_and(|now| ends.binary_search(&now).is_ok())
            };
            let mut all = ends.iter();
            if all.all(|end| self.is_switch(fabric, end.node)) || ends.iter().all(is_closed) {
                exchanges.push(ends);
            }
        }
        exchanges
    }
}

/// Removal of an entry if a condition holds for it.
trait RemoveIf {
    /// Removes and returns the entry of `key`; `None` if there is no entry, or the condition does
    /// not hold for it.
    fn remove_entry_if(
        &mut self,
        key: &PortKey,
        condition: impl FnOnce(&LostPort) -> bool,
    ) -> Option<LostPort>;
}

impl RemoveIf for BTreeMap<PortKey, LostPort> {
    fn remove_entry_if(
        &mut self,
        key: &PortKey,
        condition: impl FnOnce(&LostPort) -> bool,
    ) -> Option<LostPort> {
        match self.get(key).is_some_and(condition) {
            true => self.remove(key),
            false => None,
        }
    }
}
