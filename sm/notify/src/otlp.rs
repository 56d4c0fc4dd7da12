//! Formats events as log records of OpenTelemetry.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};
use opentelemetry_proto::tonic::resource::v1::Resource;
use rsm_proto::v1::event::Change;

use crate::described::{Severity, rate, sentence};
use crate::source::{Record, Source};

/// Formats events as a request to export logs. An event whose change this version does not know is
/// left out.
pub fn request(source: &Source, records: &[Record]) -> ExportLogsServiceRequest {
    let resource = Resource {
        attributes: vec![
            text("service.name", "rsm"),
            text("service.version", &source.version),
            text("host.name", &source.host),
            text("rsm.fabric", &source.fabric),
        ],
        ..Resource::default()
    };
    let scope = InstrumentationScope {
        name: "rsm".to_owned(),
        version: source.version.clone(),
        ..InstrumentationScope::default()
    };
    ExportLogsServiceRequest {
        resource_logs: vec![ResourceLogs {
            resource: Some(resource),
            scope_logs: vec![ScopeLogs {
                scope: Some(scope),
                log_records: records.iter().filter_map(record).collect(),
                ..ScopeLogs::default()
            }],
            ..ResourceLogs::default()
        }],
    }
}

/// Log record of an event; `None` if this version does not know its change.
fn record(record: &Record) -> Option<LogRecord> {
    let event = &record.event;
    let change = event.change.as_ref()?;
    let rating = rate(change);
    let number = match rating.shown {
        Severity::Info => SeverityNumber::Info,
        Severity::Warning => SeverityNumber::Warn,
        Severity::Error => SeverityNumber::Error,
    };
    let mut attributes = vec![
        text("rsm.event.id", &record.id()),
        text("rsm.event.kind", rating.kind),
        text("rsm.event.change", rating.name),
        integer("rsm.generation", event.generation),
    ];
    attributes.extend(details(change));
    let at = event.at_unix_ms.saturating_mul(1_000_000);
    Some(LogRecord {
        time_unix_nano: at,
        observed_time_unix_nano: at,
        severity_number: number.into(),
        severity_text: rating.shown.name().to_owned(),
        body: Some(string(&sentence(change))),
        attributes,
        ..LogRecord::default()
    })
}

/// The subject of a change, as attributes.
fn details(change: &Change) -> Vec<KeyValue> {
    match change {
        Change::FindingRaised(finding) | Change::FindingCleared(finding) => {
            let mut details = vec![text("rsm.finding", &finding.kind)];
            if !finding.node_guid.is_empty() {
                details.push(text("rsm.node_guid", &finding.node_guid));
            }
            details.extend(finding.port.map(|port| integer("rsm.port", port.into())));
            details
        }
        Change::NodeAppeared(node) | Change::NodeVanished(node) | Change::NodeChanged(node) => {
            vec![text("rsm.node_guid", &node.guid)]
        }
        Change::OperatorActed(act) => vec![text("rsm.operator", &act.operator)],
        _ => Vec::new(),
    }
}

/// Text as a value.
fn string(value: &str) -> AnyValue {
    AnyValue {
        value: Some(Value::StringValue(value.to_owned())),
    }
}

/// Attribute with a text.
fn text(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(string(value)),
        ..KeyValue::default()
    }
}

/// Attribute with an integer.
fn integer(key: &str, value: u64) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            value: Some(Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX))),
        }),
        ..KeyValue::default()
    }
}
