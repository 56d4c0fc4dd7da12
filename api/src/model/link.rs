use rsm_ids::Guid;
use rsm_proto::v1;

use super::{NodeKind, PortState};

/// A filter of links; the default passes all links.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkFilter {
    /// The filter passes only links with an end at one of these nodes; an empty list passes all.
    pub nodes: Vec<Guid>,
    /// The filter passes only links between two switches.
    pub between_switches: bool,
    /// The filter passes only links in this state.
    pub state: Option<PortState>,
    /// The filter passes only links with this text, in lower case, in the description or node GUID
    /// of an end.
    pub end_contains: Option<String>,
    /// The filter passes only links that run below their proper rate.
    pub slow: bool,
}

impl LinkFilter {
    /// Whether the filter passes `link`.
    pub fn matches(&self, link: &v1::Link) -> bool {
        let ends = || [&link.a, &link.b].into_iter().flatten();
        let at_node = |node: &Guid| {
            let node = node.to_string();
            let mut ports = ends().filter_map(|end| end.port.as_ref());
            ports.any(|port| port.node_guid == node)
        };
        let is_named = |text: &String| {
            ends().any(|end| {
                let mut guid = end.port.iter().map(|port| &port.node_guid);
                end.description.to_lowercase().contains(text)
                    || guid.any(|guid| guid.contains(text))
            })
        };
        (self.nodes.is_empty() || self.nodes.iter().any(at_node))
            && self.end_contains.as_ref().is_none_or(is_named)
            && (!self.between_switches || ends().all(|end| end.kind() == NodeKind::Switch))
            && self.state.is_none_or(|state| state == link.state())
            && (!self.slow || link.slow.is_some())
    }
}
