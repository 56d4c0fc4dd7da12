use rsm_ids::Guid;
use rsm_proto::v1;

use super::Severity;

/// A filter of findings; the default passes all findings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FindingFilter {
    /// The filter passes only findings of this severity or a higher one.
    pub min_severity: Option<Severity>,
    /// The filter passes only findings of this kind.
    pub kind: Option<String>,
    /// The filter passes only findings about these nodes; an empty list passes all.
    pub nodes: Vec<Guid>,
}

impl FindingFilter {
    /// Whether the filter passes `finding`.
    pub fn matches(&self, finding: &v1::Finding) -> bool {
        self.min_severity
            .is_none_or(|least| finding.severity() >= least)
            && self.kind.as_deref().is_none_or(|kind| kind == finding.kind)
            && (self.nodes.is_empty()
                || self
                    .nodes
                    .iter()
                    .any(|node| finding.node_guid == node.to_string()))
    }
}
