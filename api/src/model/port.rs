use std::fmt;

use rsm_ids::{Guid, PortNum};
use rsm_proto::v1;

use super::{Keyed, NodeKind, PortState};

/// The identity of a port: its node and its number there. Ports sort by GUID, then by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId {
    /// The GUID of the node.
    pub node: Guid,
    /// The number of the port at the node; 0 is a switch's management port.
    pub number: PortNum,
}

impl fmt::Display for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.node, self.number)
    }
}

impl From<PortId> for v1::PortKey {
    fn from(key: PortId) -> Self {
        v1::PortKey {
            node_guid: key.node.to_string(),
            number: key.number.0.into(),
        }
    }
}

/// A filter of ports; the default passes all ports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortFilter {
    /// The filter passes only ports of the node with this GUID.
    pub node: Option<Guid>,
    /// The filter passes only ports of nodes of this kind.
    pub node_kind: Option<NodeKind>,
    /// The filter passes only ports in this state.
    pub state: Option<PortState>,
    /// The filter passes only ports whose cable leads to a port that answers.
    pub connected: bool,
}

impl PortFilter {
    /// Whether the filter passes `port`.
    pub fn matches(&self, Keyed { key, message }: &Keyed<PortId, v1::Port>) -> bool {
        self.node.is_none_or(|node| node == key.node)
            && self
                .node_kind
                .is_none_or(|kind| kind == message.node_kind())
            && self.state.is_none_or(|state| state == message.state())
            && (!self.connected || message.peer.is_some())
    }
}
