use rsm_proto::v1;

use crate::model::{Finding, Severity};

impl From<Severity> for v1::Severity {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Info => v1::Severity::Info,
            Severity::Warning => v1::Severity::Warning,
            Severity::Error => v1::Severity::Error,
        }
    }
}

impl From<Finding> for v1::Finding {
    fn from(finding: Finding) -> Self {
        v1::Finding {
            id: finding.id,
            kind: finding.kind,
            severity: v1::Severity::from(finding.severity).into(),
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
