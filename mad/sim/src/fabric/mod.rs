//! The nodes, ports and cables with their programmed state; packets and time are elsewhere.

mod adaptive;
mod build;
mod node;
mod p_key;
mod port;
mod vport;

use std::collections::{BTreeMap, HashMap};

use rsm_ids::{Guid, PortNum};
use rsm_routing::netlist::NodeKind;

use crate::error::SimError;

pub(crate) use adaptive::AdaptiveRouting;
pub use adaptive::LinearWrites;
pub(crate) use build::{USUAL, rate_up_to};
pub use node::Silence;
pub(crate) use node::{DROP, Node, OutstandingTrap, Switch};
pub(crate) use port::{NONE, Port, PortTables, default_lane};
pub(crate) use vport::{VPort, VPorts};

/// The maximum number of ports of a fabric: indices have 32 bits, and the highest one is [`NONE`].
pub(crate) const MAX_PORTS: u32 = NONE - 1;

/// The hardware of a simulated fabric. Nodes and ports are named by their indices.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fabric {
    /// The nodes, in the order in which they were added.
    pub(crate) nodes: Vec<Node>,
    /// The ports of all nodes; the ports of one node are adjacent, from port 0 on.
    pub(crate) ports: Vec<Port>,
    /// The virtual ports, by the port of the host that has them.
    pub(crate) vports: BTreeMap<u32, VPorts>,
    /// The index of each node by its GUID. Used for look-ups only, never iterated.
    by_guid: HashMap<Guid, u32>,
}

impl Fabric {
    pub(crate) fn node(&self, index: u32) -> &Node {
        &self.nodes[index as usize]
    }

    pub(crate) fn node_mut(&mut self, index: u32) -> &mut Node {
        &mut self.nodes[index as usize]
    }

    pub(crate) fn port(&self, index: u32) -> &Port {
        &self.ports[index as usize]
    }

    pub(crate) fn port_mut(&mut self, index: u32) -> &mut Port {
        &mut self.ports[index as usize]
    }

    /// The node to which a port belongs.
    pub(crate) fn node_of(&self, port: u32) -> &Node {
        self.node(self.port(port).node)
    }

    /// The index of the node with this GUID.
    pub(crate) fn find_node(&self, guid: Guid) -> Result<u32, SimError> {
        self.by_guid
            .get(&guid)
            .copied()
            .ok_or(SimError::NoSuchNode { guid })
    }

    /// The index of a port, port 0 of a switch included.
    pub(crate) fn find_port(&self, guid: Guid, port: PortNum) -> Result<u32, SimError> {
        let node = self.node(self.find_node(guid)?);
        node.port(port.0).ok_or(SimError::NoSuchPort {
            guid,
            port,
            num_ports: node.num_ports,
        })
    }

    /// The index of a port that has an address of its own.
    pub(crate) fn find_end_port(&self, guid: Guid, port: PortNum) -> Result<u32, SimError> {
        let index = self.find_port(guid, port)?;
        if self.address_port(index) == index {
            Ok(index)
        } else {
            Err(SimError::NotAnEndPort { guid, port })
        }
    }

    /// The index of a port that has a cable, which may be unplugged.
    pub(crate) fn find_cabled(&self, guid: Guid, port: PortNum) -> Result<u32, SimError> {
        let index = self.find_port(guid, port)?;
        if self.port(index).peer == NONE {
            return Err(SimError::NotCabled { guid, port });
        }
        Ok(index)
    }

    /// The port whose PortInfo holds the LID and M_Key of `port`: port 0 on a switch, `port` itself
    /// on other nodes.
    pub(crate) fn address_port(&self, port: u32) -> u32 {
        let node = self.node_of(port);
        if node.is_switch() {
            node.first_port
        } else {
            port
        }
    }

    /// The lower port index of the two ends of a port's cable, which identifies the link. The port
    /// must have a cable.
    pub(crate) fn link_of(&self, port: u32) -> u32 {
        port.min(self.port(port).peer)
    }

    /// The node that `name` identifies: by its GUID, by its identifier (`S-…`, `H-…`, `R-…`), or by
    /// its description if no other node has the same description.
    pub(crate) fn find_name(&self, name: &str) -> Result<u32, SimError> {
        let letter = name
            .chars()
            .next()
            .filter(|_| name.as_bytes().get(1) == Some(&b'-'));
        let digits = if letter.is_some() { &name[2..] } else { name };
        if let Ok(guid) = digits.parse::<Guid>()
            && let Ok(index) = self.find_node(guid)
            && letter.is_none_or(|letter| letter == self.node(index).kind.letter())
        {
            return Ok(index);
        }
        let mut found = (0u32..)
            .zip(&self.nodes)
            .filter(|(_, node)| node.description.text() == name.as_bytes());
        match (found.next(), found.count()) {
            (None, _) => Err(SimError::NoSuchName {
                name: name.to_owned(),
            }),
            (Some((index, _)), 0) => Ok(index),
            (Some(_), others) => Err(SimError::AmbiguousName {
                name: name.to_owned(),
                count: others + 1,
            }),
        }
    }

    /// The number of nodes of a kind.
    pub(crate) fn count(&self, kind: NodeKind) -> usize {
        self.nodes.iter().filter(|node| node.kind == kind).count()
    }
}
