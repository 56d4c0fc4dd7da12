//! The nodes and cables of a fabric, as a file or a generator states them.
//!
//! A netlist is the hardware of a fabric: nodes with their ports, and cables between them. A
//! netlist does not say which links are up, and contains nothing that a subnet manager sets, except
//! the LIDs that ports had when the file was written.
//!
//! A [`Netlist`] is valid by construction: node GUIDs and stated port GUIDs are unique, both ends
//! of a cable exist, and no port has two cables. Nodes keep the given order, and cables are sorted
//! by their ends: two netlists are equal if they state the same hardware.

mod error;
mod hosts;
mod node;

use std::collections::HashMap;

use rsm_ids::{Guid, Lid, PortNum};

pub use error::NetlistError;
pub use hosts::{HostTally, host_name, host_of, is_model};
pub use node::{Node, NodeKind, PortSpec};
pub use rsm_ids::{LinkRate, LinkSpeed, LinkWidth, ParseLinkError};

/// The highest external port number: a forwarding table's 255 means "drop" (IBA 14.2.5.10).
pub const MAX_PORTS: u8 = 254;

/// The length of NodeDescription in bytes (IBA 14.2.5.2).
pub const MAX_DESCRIPTION: usize = 64;

/// The maximum number of nodes of a subnet: each node needs a unicast LID.
pub const MAX_NODES: usize = Lid::UNICAST_LAST.0 as usize;

/// One end of a cable: the index of the node in [`Netlist::nodes`], and an external port of that
/// node.
pub type CableEnd = (usize, PortNum);

/// A cable between two ports.
///
/// Both ends may be at one node (a loop), even at one port (a loop-back plug).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cable {
    /// The lower end, by node index and then port.
    pub a: CableEnd,
    /// The higher end.
    pub b: CableEnd,
    /// The number of lanes.
    pub width: LinkWidth,
    /// The speed of each lane.
    pub speed: LinkSpeed,
}

impl Cable {
    /// The rate of the cable: width and speed together.
    pub const fn rate(&self) -> LinkRate {
        LinkRate {
            width: self.width,
            speed: self.speed,
        }
    }

    /// Whether both ends are at one node.
    pub const fn is_loop(&self) -> bool {
        self.a.0 == self.b.0
    }

    /// The other end of the cable.
    pub fn across(&self, end: CableEnd) -> CableEnd {
        if end == self.a { self.b } else { self.a }
    }
}

/// Marks a port without a cable in [`Netlist::cable_of`].
const NO_CABLE: u32 = u32::MAX;

/// Nodes and the cables between them.
#[derive(Clone, Debug)]
pub struct Netlist {
    nodes: Vec<Node>,
    cables: Vec<Cable>,
    by_guid: HashMap<Guid, usize>,
    by_port_guid: HashMap<Guid, CableEnd>,
    /// For each node, the index of its first port in `cable_of`.
    first_port: Vec<u32>,
    /// The index of the cable at each external port, by `first_port[node] + port - 1`.
    cable_of: Vec<u32>,
}

impl PartialEq for Netlist {
    fn eq(&self, other: &Self) -> bool {
        // The other fields are derived from these two.
        self.nodes == other.nodes && self.cables == other.cables
    }
}

impl Eq for Netlist {}

impl Netlist {
    /// Creates a netlist from these nodes and cables.
    ///
    /// Nodes keep their order; cables are sorted, each with its lower end first.
    ///
    /// # Errors
    /// The first rule that a node breaks, in the given order; then the first rule that a cable
    /// breaks, in sorted order.
    pub fn new(nodes: Vec<Node>, mut cables: Vec<Cable>) -> Result<Netlist, NetlistError> {
        if nodes.len() > MAX_NODES {
            return Err(NetlistError::TooManyNodes { count: nodes.len() });
        }
        let GuidIndex {
            by_guid,
            by_port_guid,
        } = GuidIndex::of(&nodes)?;
        let first_port = first_ports(&nodes);
        sort_cables(&mut cables);
        let cable_of = cables_of(&nodes, &cables, &first_port)?;
        Ok(Netlist {
            nodes,
            cables,
            by_guid,
            by_port_guid,
            first_port,
            cable_of,
        })
    }

    /// The nodes, in the order in which they were given.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The cables, in ascending order of their lower and then higher ends.
    pub fn cables(&self) -> &[Cable] {
        &self.cables
    }

    /// Returns the nodes and cables, for changes and another call of [`Netlist::new`].
    pub fn into_parts(self) -> (Vec<Node>, Vec<Cable>) {
        (self.nodes, self.cables)
    }

    /// The index of the node with this node GUID; `None` if there is none.
    pub fn by_guid(&self, guid: Guid) -> Option<usize> {
        self.by_guid.get(&guid).copied()
    }

    /// The end port with this stated port GUID; `None` if no port states it.
    ///
    /// Ports without a stated GUID are never found, because their GUIDs are derived.
    pub fn by_port_guid(&self, guid: Guid) -> Option<CableEnd> {
        self.by_port_guid.get(&guid).copied()
    }

    /// The index of the node that `name` identifies: by its identifier (`S-0002c90300001234`), its
    /// GUID (`0x0002c90300001234`), or its description. `None` if no node matches, or if several
    /// nodes have that description.
    pub fn by_name(&self, name: &str) -> Option<usize> {
        let digits = name
            .strip_prefix(['S', 'H', 'R'])
            .and_then(|rest| rest.strip_prefix('-'));
        if let Some(index) = digits
            .unwrap_or(name)
            .parse()
            .ok()
            .and_then(|guid| self.by_guid(guid))
            && (digits.is_none() || name.starts_with(self.nodes[index].kind.letter()))
        {
            return Some(index);
        }
        let mut named =
            (0..self.nodes.len()).filter(|&index| self.nodes[index].description == name.as_bytes());
        let first = named.next()?;
        named.next().is_none().then_some(first)
    }

    /// The cable at an external port; `None` if there is none.
    pub fn cable(&self, (node, port): CableEnd) -> Option<&Cable> {
        let num_ports = self.nodes.get(node)?.num_ports;
        if port.0 == 0 || port.0 > num_ports {
            return None;
        }
        let slot = self.cable_of[self.first_port[node] as usize + port.index() - 1];
        self.cables.get(slot as usize)
    }

    /// The port at the other end of the cable; `None` if the port has no cable.
    pub fn peer(&self, end: CableEnd) -> Option<CableEnd> {
        self.cable(end).map(|cable| cable.across(end))
    }

    /// The number of nodes of a kind.
    pub fn count(&self, kind: NodeKind) -> usize {
        self.nodes.iter().filter(|node| node.kind == kind).count()
    }
}

/// The indices of nodes by node GUID, and the end ports by stated port GUID.
struct GuidIndex {
    by_guid: HashMap<Guid, usize>,
    by_port_guid: HashMap<Guid, CableEnd>,
}

impl GuidIndex {
    /// Indexes nodes and their stated port GUIDs.
    ///
    /// # Errors
    /// The first rule that a node breaks.
    fn of(nodes: &[Node]) -> Result<GuidIndex, NetlistError> {
        let mut by_guid = HashMap::with_capacity(nodes.len());
        let mut by_port_guid = HashMap::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            check_node(index, node)?;
            if let Some(first) = by_guid.insert(node.guid, index) {
                return Err(NetlistError::DuplicateNodeGuid {
                    guid: node.guid,
                    first,
                    second: index,
                });
            }
            for (&port, spec) in &node.ports {
                if spec.guid.is_zero() {
                    return Err(NetlistError::ZeroPortGuid {
                        id: node.id(),
                        port,
                    });
                }
                if let Some((first, first_port)) = by_port_guid.insert(spec.guid, (index, port)) {
                    return Err(NetlistError::DuplicatePortGuid {
                        guid: spec.guid,
                        first,
                        first_port,
                        second: index,
                        second_port: port,
                    });
                }
            }
        }
        Ok(GuidIndex {
            by_guid,
            by_port_guid,
        })
    }
}

/// For each node, the index of its first external port in a list of the external ports of all
/// nodes.
fn first_ports(nodes: &[Node]) -> Vec<u32> {
    let mut next = 0;
    nodes
        .iter()
        .map(|node| {
            let here = next;
            next += u32::from(node.num_ports);
            here
        })
        .collect()
}

/// Turns each cable so that its lower end is first, and sorts cables by their ends.
fn sort_cables(cables: &mut [Cable]) {
    for cable in cables.iter_mut() {
        if cable.b < cable.a {
            std::mem::swap(&mut cable.a, &mut cable.b);
        }
    }
    cables.sort_unstable_by_key(|cable| (cable.a, cable.b));
}

/// For each external port of all nodes, the index of its cable, or [`NO_CABLE`].
///
/// # Errors
/// A cable ends at a port that does not exist or that has another cable.
fn cables_of(
    nodes: &[Node],
    cables: &[Cable],
    first_port: &[u32],
) -> Result<Vec<u32>, NetlistError> {
    let ports: usize = nodes.iter().map(|node| usize::from(node.num_ports)).sum();
    let mut cable_of = vec![NO_CABLE; ports];
    for (index, cable) in cables.iter().enumerate() {
        let ends = if cable.a == cable.b {
            &[cable.a][..]
        } else {
            &[cable.a, cable.b][..]
        };
        for &(node, port) in ends {
            let Some(spec) = nodes.get(node) else {
                return Err(NetlistError::NoSuchNode {
                    cable: index,
                    node,
                    count: nodes.len(),
                });
            };
            if port.0 == 0 || port.0 > spec.num_ports {
                return Err(NetlistError::NoSuchPort {
                    id: spec.id(),
                    port,
                    num_ports: spec.num_ports,
                });
            }
            let slot = &mut cable_of[first_port[node] as usize + port.index() - 1];
            if *slot != NO_CABLE {
                return Err(NetlistError::PortInUse {
                    id: spec.id(),
                    port,
                });
            }
            // There are at most MAX_NODES * MAX_PORTS cables, far below u32::MAX.
            *slot = index as u32;
        }
    }
    Ok(cable_of)
}

/// Checks the rules for a node on its own: GUID, number of ports, description, vendor ID, and the
/// ports with a stated GUID.
fn check_node(index: usize, node: &Node) -> Result<(), NetlistError> {
    if node.guid.is_zero() {
        return Err(NetlistError::ZeroGuid { index });
    }
    if node.num_ports == 0 || node.num_ports > MAX_PORTS {
        return Err(NetlistError::PortCount {
            id: node.id(),
            num_ports: node.num_ports,
        });
    }
    if node.description.len() > MAX_DESCRIPTION {
        return Err(NetlistError::DescriptionTooLong {
            id: node.id(),
            len: node.description.len(),
        });
    }
    if let Some(offset) = node.description.iter().position(|&byte| byte == 0) {
        return Err(NetlistError::DescriptionNul {
            id: node.id(),
            offset,
        });
    }
    if node.vendor_id > 0x00ff_ffff {
        return Err(NetlistError::VendorId {
            id: node.id(),
            vendor_id: node.vendor_id,
        });
    }
    if node.enhanced_port0 && node.kind != NodeKind::Switch {
        return Err(NetlistError::PortZeroOfNoSwitch { id: node.id() });
    }
    let (low, high) = match node.kind {
        NodeKind::Switch => (0, 0),
        NodeKind::Ca | NodeKind::Router => (1, node.num_ports),
    };
    if let Some(&port) = node.ports.keys().find(|port| port.0 < low || port.0 > high) {
        return Err(NetlistError::NotAnEndPort {
            id: node.id(),
            port,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
