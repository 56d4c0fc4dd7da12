use super::NodeKind;

/// A filter of nodes; the default passes all nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFilter {
    /// The filter passes only nodes of this kind.
    pub kind: Option<NodeKind>,
    /// The filter passes only nodes whose description contains this text, in the given case.
    pub description_contains: Option<String>,
}

impl NodeFilter {
    /// Whether the filter passes a node of this kind with this description.
    pub fn matches(&self, kind: NodeKind, description: &str) -> bool {
        self.kind.is_none_or(|wanted| wanted == kind)
            && self
                .description_contains
                .as_deref()
                .is_none_or(|text| description.contains(text))
    }
}
