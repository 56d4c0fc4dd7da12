use rsm_ids::Guid;

use super::{LinkSpeed, LinkWidth, NodeKind, PortKey, PortState};

/// One end of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkEnd {
    /// The port.
    pub key: PortKey,
    /// The description of the port's node.
    pub description: String,
    /// The kind of that node.
    pub kind: NodeKind,
}

/// A cable between two ports that both answer. Its key is the port of [`Link::a`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The end with the lower [`PortKey`]; both are equal where a port is cabled to itself.
    pub a: LinkEnd,
    /// The other end.
    pub b: LinkEnd,
    /// The lower of the two ends' logical states.
    pub state: PortState,
    /// Active width, where it is known.
    pub width: Option<LinkWidth>,
    /// Active speed, where it is known.
    pub speed: Option<LinkSpeed>,
    /// The link flapped; no route uses it until it has been quiet.
    pub damped: bool,
}

/// A filter of links; the default passes all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkFilter {
    /// Only links with an end on the node with this GUID.
    pub node: Option<Guid>,
    /// Only links whose ends are both switches.
    pub between_switches: bool,
    /// Only links in this state.
    pub state: Option<PortState>,
}

impl LinkFilter {
    /// Whether the filter passes `link`.
    pub fn matches(&self, link: &Link) -> bool {
        self.node
            .is_none_or(|node| node == link.a.key.node || node == link.b.key.node)
            && (!self.between_switches
                || (link.a.kind == NodeKind::Switch && link.b.kind == NodeKind::Switch))
            && self.state.is_none_or(|state| state == link.state)
    }
}
