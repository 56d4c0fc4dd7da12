use rsm_ids::{Guid, PortNum};

use super::Severity;

/// A condition of the fabric that an operator should know. Its key is [`Finding::id`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Counts up from 1 over the subnet manager's life; keeps its value until the finding is
    /// cleared.
    pub id: u64,
    /// The kind, a stable name in kebab-case such as `duplicate-guid`.
    pub kind: String,
    /// How much it matters.
    pub severity: Severity,
    /// The affected node, where there is one.
    pub node: Option<Guid>,
    /// The affected port of that node, where there is one.
    pub port: Option<PortNum>,
    /// The observation, its place and the remedy, in one sentence.
    pub message: String,
    /// The generation that raised it.
    pub generation: u64,
    /// When it was raised, in milliseconds since the Unix epoch.
    pub raised_unix_ms: u64,
    /// Observations since then, at least 1.
    pub occurrences: u64,
}

/// A filter of findings; the default passes all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FindingFilter {
    /// Only findings at least this grave.
    pub min_severity: Option<Severity>,
    /// Only findings of this kind.
    pub kind: Option<String>,
    /// Only findings about the node with this GUID.
    pub node: Option<Guid>,
}

impl FindingFilter {
    /// Whether the filter passes `finding`.
    pub fn matches(&self, finding: &Finding) -> bool {
        self.min_severity
            .is_none_or(|least| finding.severity >= least)
            && self.kind.as_deref().is_none_or(|kind| kind == finding.kind)
            && self.node.is_none_or(|node| finding.node == Some(node))
    }
}
