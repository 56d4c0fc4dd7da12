//! Ports that would be cut off if parts to avoid were unplugged.

use std::collections::BTreeSet;
use std::fmt;

use rsm_ids::PortKey;
use rsm_model::fabric::{Fabric, NodeIx, PortRef};
use rsm_model::text::count;

use super::graph::{Components, Graph};
use super::{Avoid, NodeOrCable};

/// Maximum number of names that the text lists.
const NAMES_SHOWN: usize = 8;

/// Ports that the subnet manager could not reach if some parts were unplugged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CutOff {
    /// Unreached ports with a LID, ascending.
    pub ports: Vec<PortKey>,
    /// Names of the ports' nodes without duplicates, in the same order.
    pub names: Vec<String>,
    /// Whether the subnet manager's own port is cut off, so that the manager reaches no other port.
    pub includes_manager: bool,
}

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.includes_manager {
            return f.write_str(
                "the subnet manager itself would be cut off from the fabric: its own port is connected by these parts",
            );
        }
        let nodes = count(self.names.len(), "node", "nodes");
        let shown = &self.names[..self.names.len().min(NAMES_SHOWN)];
        write!(f, "{nodes} would be cut off: {}", shown.join(", "))?;
        match self.names.len() - shown.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl std::error::Error for CutOff {}

impl Avoid {
    /// Checks that no port of `fabric` is cut off if all parts of the set are unplugged. The check
    /// ignores ports that the parts of `before` already cut off, ports of drained nodes and of the
    /// aggregation nodes in them, and drained ports of hosts.
    ///
    /// # Errors
    /// The ports that would be cut off.
    pub fn check(
        &self,
        before: &Avoid,
        fabric: &Fabric,
        damped: &BTreeSet<PortKey>,
    ) -> Result<(), CutOff> {
        let all = before.parts.keys().copied();
        let connecting: BTreeSet<NodeOrCable> =
            all.filter(|part| part.connects_manager(fabric)).collect();
        if !connecting.is_empty() {
            // The operator has accepted that the manager would be cut off without these parts. As
            // they stay plugged in while the manager works, all other parts are checked with them
            // in place.
            let without = |avoid: &Avoid| {
                let mut avoid = avoid.clone();
                avoid.parts.retain(|part, _| !connecting.contains(part));
                avoid
            };
            return without(self).check(&without(before), fabric, damped);
        }
        let graph = Graph::of(fabric, damped);
        let (reached_before, reached) = (Reached::of(before, &graph), Reached::of(self, &graph));
        let is_lost = |at: PortRef| {
            reached_before.includes(fabric, at)
                && !reached.includes(fabric, at)
                && !self.contains_port(fabric, at)
        };
        let ends = fabric.end_ports().map(|(at, _)| at);
        let lost: Vec<PortRef> = ends.filter(|&at| is_lost(at)).collect();
        if lost.is_empty() {
            return Ok(());
        }
        let mut nodes: Vec<NodeIx> = lost.iter().map(|at| at.node).collect();
        nodes.dedup();
        let includes_manager = reached.connected.is_none()
            || fabric
                .local
                .is_some_and(|local| !reached.includes(fabric, local));
        Err(CutOff {
            ports: lost.into_iter().map(|at| fabric.key(at)).collect(),
            names: nodes.into_iter().map(|ix| fabric.node(ix).name()).collect(),
            includes_manager,
        })
    }

    /// Whether a port belongs to a part of this set, so that unplugging the part removes the port.
    /// An aggregation node belongs to its switch.
    fn contains_port(&self, fabric: &Fabric, at: PortRef) -> bool {
        let key = fabric.key(at);
        let nodes = [Some(key.node), fabric.switch_around(at)];
        let is_of = |node| self.parts.contains_key(&NodeOrCable::Node(node));
        nodes.into_iter().flatten().any(is_of)
            || !fabric.node(at.node).is_switch() && self.parts.contains_key(&NodeOrCable::Port(key))
    }
}

/// The ports that the subnet manager reaches after the parts of a set are unplugged.
struct Reached<'a> {
    avoid: &'a Avoid,
    graph: &'a Graph<'a>,
    /// Indices in the graph of the switches connected to the subnet manager's port; `None` if that
    /// port is connected to no switch.
    connected: Option<BTreeSet<usize>>,
}

impl<'a> Reached<'a> {
    /// Computes the switches that stay connected without the parts in `avoid`.
    fn of(avoid: &'a Avoid, graph: &'a Graph<'a>) -> Reached<'a> {
        let is_out = |part: NodeOrCable| avoid.parts.contains_key(&part);
        let carries = |cable: usize| {
            let ports = graph.cables[cable].ports;
            !ports.iter().any(|&port| {
                is_out(NodeOrCable::Port(port)) || is_out(NodeOrCable::Node(port.node))
            })
        };
        let joined = Components::of(graph, carries);
        let mut reached = Reached {
            avoid,
            graph,
            connected: None,
        };
        let own = graph
            .fabric
            .local
            .and_then(|local| reached.switch_of(local));
        reached.connected = own.map(|own| {
            let all = 0..graph.switches.len();
            all.filter(|&switch| joined.are_connected([own, switch]))
                .collect()
        });
        reached
    }

    /// The index of the switch at an end port, or of the switch itself for port 0; `None` if the
    /// unplugged parts separate the port from the switch.
    fn switch_of(&self, at: PortRef) -> Option<usize> {
        let fabric = self.graph.fabric;
        let is_out = |part: NodeOrCable| self.avoid.parts.contains_key(&part);
        let key = fabric.key(at);
        if is_out(NodeOrCable::Node(key.node)) {
            return None;
        }
        if fabric.node(at.node).is_switch() {
            return self.graph.find(key.node);
        }
        let peer = fabric.port(at).peer?;
        let is_out = [key, peer]
            .into_iter()
            .any(|end| is_out(NodeOrCable::Port(end)))
            || is_out(NodeOrCable::Node(peer.node));
        self.graph.find(peer.node).filter(|_| !is_out)
    }

    /// Whether the subnet manager reaches an end port.
    fn includes(&self, fabric: &Fabric, at: PortRef) -> bool {
        debug_assert!(std::ptr::eq(fabric, self.graph.fabric));
        let connected = self.connected.as_ref();
        let switch = self.switch_of(at);
        switch.is_some_and(|switch| connected.is_some_and(|all| all.contains(&switch)))
    }
}
