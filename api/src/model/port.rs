use std::fmt;

use rsm_ids::{Guid, Lid, Lmc, PortNum};

use super::{LinkSpeed, LinkWidth, NodeKind, PhysicalState, PortState};

/// The identity of a port: its node, and its number there. Orders by GUID, then by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortKey {
    /// The GUID of the node.
    pub node: Guid,
    /// The number on the node; 0 is a switch's management port.
    pub number: PortNum,
}

impl fmt::Display for PortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.node, self.number)
    }
}

/// The other end of a port's cable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The port at the other end.
    pub key: PortKey,
    /// The NodeDescription of the other node.
    pub description: String,
}

/// A port of a node. Its key is [`Port::key`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Node and number.
    pub key: PortKey,
    /// The port GUID; zero for external ports of a switch, which have none.
    pub guid: Guid,
    /// The node's description.
    pub node_description: String,
    /// The kind of that node.
    pub node_kind: NodeKind,
    /// The base LID; [`Lid::NONE`] for external ports of a switch and ports without a LID.
    pub lid: Lid,
    /// LID mask control: the port answers to 2^lmc LIDs from its base LID on.
    pub lmc: Lmc,
    /// Logical state.
    pub state: PortState,
    /// Physical state.
    pub physical_state: PhysicalState,
    /// Active width; none on a port that is down, or where hardware reports an unknown one.
    pub width: Option<LinkWidth>,
    /// Active speed; none on a port that is down, or where hardware reports an unknown one.
    pub speed: Option<LinkSpeed>,
    /// The MTU towards the neighbour in bytes, 256 to 4096; 0 where it is unknown.
    pub mtu_bytes: u16,
    /// How many data virtual lanes are in operation: 0 (unknown), 1, 2, 4, 8 or 15.
    pub operational_vls: u8,
    /// The other end of the cable, where there is one that answers.
    pub peer: Option<Peer>,
}

/// A filter of ports; the default passes all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortFilter {
    /// Only ports of the node with this GUID.
    pub node: Option<Guid>,
    /// Only ports of nodes of this kind.
    pub node_kind: Option<NodeKind>,
    /// Only ports in this state.
    pub state: Option<PortState>,
    /// Only ports with a cable to a port that answers.
    pub connected: bool,
}

impl PortFilter {
    /// Whether the filter passes `port`.
    pub fn matches(&self, port: &Port) -> bool {
        self.node.is_none_or(|node| node == port.key.node)
            && self.node_kind.is_none_or(|kind| kind == port.node_kind)
            && self.state.is_none_or(|state| state == port.state)
            && (!self.connected || port.peer.is_some())
    }
}
