use rsm_ids::Guid;
use rsm_proto::v1;

use super::{NodeKind, PortState};

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
    pub fn matches(&self, link: &v1::Link) -> bool {
        let ends = || [&link.a, &link.b].into_iter().flatten();
        let at_node = |node: Guid| {
            let node = node.to_string();
            let mut ports = ends().filter_map(|end| end.port.as_ref());
            ports.any(|port| port.node_guid == node)
        };
        self.node.is_none_or(at_node)
            && (!self.between_switches || ends().all(|end| end.kind() == NodeKind::Switch))
            && self.state.is_none_or(|state| state == link.state())
    }
}
