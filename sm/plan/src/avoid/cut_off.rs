//! Ports that would be cut off if parts to avoid were unplugged.

use std::collections::BTreeSet;
use std::fmt;

use rsm_ids::PortKey;
use rsm_model::fabric::{Fabric, NodeIx, PortRef};
use rsm_model::text::count;

use super::graph::{Graph, Joined};
use super::{Avoid, NodeOrCable};

/// Maximum number of names that the text lists.
const SHOWN: usize = 8;

/// Ports that the subnet manager could not reach if some parts were unplugged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CutOff {
    /// Unreached ports with a LID, ascending.
    pub ports: Vec<PortKey>,
    /// Names of the ports' nodes without duplicates, in the same order.
    pub names: Vec<String>,
    /// Whether the subnet manager's own port is among the ports: it then reaches no other port.
    pub is_own: bool,
}

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_own {
            return f.write_str(
                "the subnet manager itself would be cut off from the fabric: its own port hangs there",
            );
        }
        let nodes = count(self.names.len(), "node", "nodes");
        let shown = &self.names[..self.names.len().min(SHOWN)];
        write!(f, "{nodes} would be cut off: {}", shown.join(", "))?;
        match self.names.len() - shown.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl std::error::Error for CutOff {}

impl Avoid {
    /// Checks that no port of `fabric` is cut off if all parts of the set are unplugged. Exempt are
    /// ports that the parts of `before` already cut off, ports of drained nodes and of the
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
        let own: BTreeSet<NodeOrCable> = all.filter(|part| part.connects_manager(fabric)).collect();
        if !own.is_empty() {
            // The operator has accepted that the manager would be cut off without these parts.
            // They are not unplugged while it works, and all others are judged with them in place.
            let without = |avoid: &Avoid| {
                let mut avoid = avoid.clone();
                avoid.parts.retain(|part, _| !own.contains(part));
                avoid
            };
            return without(self).check(&without(before), fabric, damped);
        }
        let graph = Graph::of(fabric, damped);
        let (earlier, now) = (Reached::of(before, &graph), Reached::of(self, &graph));
        let is_lost = |at: PortRef| {
            earlier.includes(fabric, at) && !now.includes(fabric, at) && !self.is_own(fabric, at)
        };
        let ends = fabric.end_ports().map(|(at, _)| at);
        let lost: Vec<PortRef> = ends.filter(|&at| is_lost(at)).collect();
        if lost.is_empty() {
            return Ok(());
        }
        let mut nodes: Vec<NodeIx> = lost.iter().map(|at| at.node).collect();
        nodes.dedup();
        let is_own = now.home.is_none()
            || fabric
                .local
                .is_some_and(|local| !now.includes(fabric, local));
        Err(CutOff {
            ports: lost.into_iter().map(|at| fabric.key(at)).collect(),
            names: nodes.into_iter().map(|ix| fabric.node(ix).name()).collect(),
            is_own,
        })
    }

    /// Whether a port belongs to a part of this set, so that unplugging the part removes the port.
    /// An aggregation node belongs to its switch.
    fn is_own(&self, fabric: &Fabric, at: PortRef) -> bool {
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
    home: Option<BTreeSet<usize>>,
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
        let joined = Joined::by(graph, carries);
        let mut reached = Reached {
            avoid,
            graph,
            home: None,
        };
        let own = graph
            .fabric
            .local
            .and_then(|local| reached.switch_of(local));
        reached.home = own.map(|own| {
            let all = 0..graph.switches.len();
            all.filter(|&switch| joined.are_joined([own, switch]))
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
        let there = fabric.port(at).peer?;
        let is_out = [key, there]
            .into_iter()
            .any(|end| is_out(NodeOrCable::Port(end)))
            || is_out(NodeOrCable::Node(there.node));
        self.graph.find(there.node).filter(|_| !is_out)
    }

    /// Whether the subnet manager reaches an end port.
    fn includes(&self, fabric: &Fabric, at: PortRef) -> bool {
        debug_assert!(std::ptr::eq(fabric, self.graph.fabric));
        let home = self.home.as_ref();
        let switch = self.switch_of(at);
        switch.is_some_and(|switch| home.is_some_and(|home| home.contains(&switch)))
    }
}
