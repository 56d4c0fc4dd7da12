use rsm_proto::v1;

use crate::model::Finding;

impl From<Finding> for v1::Finding {
    fn from(finding: Finding) -> Self {
        v1::Finding {
            id: finding.id,
            kind: finding.kind,
            severity: finding.severity.into(),
            node_guid: finding
                .node
                .map(|guid| guid.to_string())
                .unwrap_or_default(),
            port: finding.port.map(|port| port.0.into()),
            message: finding.message,
            generation: finding.generation,
            raised_unix_ms: finding.raised_unix_ms,
            occurrences: finding.occurrences,
        }
    }
}
