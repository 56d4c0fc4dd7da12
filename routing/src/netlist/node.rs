//! The nodes of a netlist.

use std::collections::BTreeMap;
use std::fmt;

use rsm_ids::{Guid, Lid, Lmc, PortNum};

/// The kind of a node (IBA 14.2.5.3, NodeType).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NodeKind {
    /// A switch, which forwards packets; its port 0 is its own management port.
    Switch,
    /// A channel adapter: a host's HCA, or an aggregation node inside a switch.
    Ca,
    /// A router, which connects subnets.
    Router,
}

impl NodeKind {
    /// The letter with which a node's identifier starts in topology files: `S`, `H` or `R`.
    pub const fn letter(self) -> char {
        match self {
            NodeKind::Switch => 'S',
            NodeKind::Ca => 'H',
            NodeKind::Router => 'R',
        }
    }
}

impl fmt::Display for NodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NodeKind::Switch => "switch",
            NodeKind::Ca => "channel adapter",
            NodeKind::Router => "router",
        })
    }
}

/// An end port as a file or a generator states it: its GUID and its initial addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PortSpec {
    /// The port's GUID.
    pub guid: Guid,
    /// The base LID that the port holds before a subnet manager configures it; [`Lid::NONE`] on a
    /// fresh port.
    ///
    /// The LID is kept as stated, even if it cannot be right (multicast, permissive, not aligned to
    /// the LMC): real fabrics start from such values, and a subnet manager has to repair them.
    pub lid: Lid,
    /// The LMC that the port holds before a subnet manager configures it.
    pub lmc: Lmc,
}

/// A node, as a file or a generator states it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// The kind of node: switch, channel adapter or router.
    pub kind: NodeKind,
    /// The node GUID, unique in the fabric and not zero.
    pub guid: Guid,
    /// The GUID of the system to which the node belongs; [`Guid::ZERO`] if none is stated.
    pub system_image_guid: Guid,
    /// The vendor's OUI, 24 bits.
    pub vendor_id: u32,
    /// The vendor's device number.
    pub device_id: u16,
    /// The NodeDescription: at most [`MAX_DESCRIPTION`](super::MAX_DESCRIPTION) bytes without the
    /// NUL padding, UTF-8 by convention only.
    pub description: Vec<u8>,
    /// The number of external ports, 1 to [`MAX_PORTS`](super::MAX_PORTS), numbered from 1.
    pub num_ports: u8,
    /// Whether a switch's port 0 is enhanced, which makes it a full end port; false for other
    /// nodes.
    pub enhanced_port0: bool,
    /// The stated end ports: port 0 of a switch, external ports of other nodes.
    ///
    /// A port may be missing; [`Node::port`] gives its defaults.
    pub ports: BTreeMap<PortNum, PortSpec>,
}

impl Node {
    /// The identifier in topology files: `S-`, `H-` or `R-` and the GUID in 16 digits.
    pub fn id(&self) -> String {
        format!("{}-{:016x}", self.kind.letter(), self.guid.0)
    }

    /// The description for display, with replacement characters for invalid UTF-8.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(&self.description).into_owned()
    }

    /// Whether this is an aggregation node: the adapter inside a switch for in-network reductions.
    pub fn is_aggregation_node(&self) -> bool {
        self.kind == NodeKind::Ca
            && self
                .description
                .windows(AGGREGATION_NODE.len())
                .any(|window| window == AGGREGATION_NODE)
    }

    /// The numbers of the end ports, which have addresses of their own: port 0 of a switch, every
    /// external port of another node.
    pub fn end_ports(&self) -> impl Iterator<Item = PortNum> + use<> {
        let range = match self.kind {
            NodeKind::Switch => 0..=0,
            NodeKind::Ca | NodeKind::Router => 1..=self.num_ports,
        };
        range.map(PortNum)
    }

    /// The properties of a port, stated or not.
    ///
    /// A port without a statement has no LID. The GUID of a port on a switch is the node's;
    /// elsewhere it is the node's plus the port number, which is how most adapters number their
    /// ports.
    pub fn port(&self, port: PortNum) -> PortSpec {
        let end_port = match self.kind {
            NodeKind::Switch => PortNum::ZERO,
            NodeKind::Ca | NodeKind::Router => port,
        };
        self.ports.get(&end_port).copied().unwrap_or(PortSpec {
            guid: Guid(self.guid.0.wrapping_add(u64::from(end_port.0))),
            lid: Lid::NONE,
            lmc: Lmc::ZERO,
        })
    }
}

/// The text that every aggregation node has in its description, set by its firmware.
const AGGREGATION_NODE: &[u8] = b"Aggregation Node";
