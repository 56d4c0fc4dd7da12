//! Tests of the report of one run.

use std::sync::Arc;

use rsm_model::fabric::Fabric;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_state::Snapshot;

use super::world::*;
use crate::publish::summary::OnceReport;

#[test]
fn run_report_has_the_fields_that_scripts_read() {
    let snapshot = Snapshot {
        findings: Arc::from([Finding::new(
            FindingKind::SelfCabled,
            Subject::Node(LEAF_1),
            Severity::Warning,
            "remove the plug".to_owned(),
        )]),
        ..World::up().snapshot()
    };
    let report = OnceReport::of(&snapshot);
    let json = serde_json::to_value(&report).unwrap();
    let keys: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
    let mut expected = [
        "state",
        "switches",
        "cas",
        "links",
        "lids",
        "ports_active",
        "ports_not_active",
        "missing",
        "unreachable_pairs",
        "engine",
        "smps",
        "timing_ms",
        "findings",
    ];
    expected.sort_unstable();
    let mut sorted = keys;
    sorted.sort_unstable();
    assert_eq!(sorted, expected);
    assert_eq!(json["state"], "up");
    assert_eq!((&json["switches"], &json["links"]), (&4.into(), &8.into()));
    assert_eq!(json["engine"]["name"], "fabric-tree");
    assert_eq!(
        json["engine"]["reason"],
        "2 levels, 2 roots, all pairs reachable"
    );
    assert_eq!(json["smps"]["retries"], 0);
    for key in ["discover", "plan", "push", "total"] {
        assert!(json["timing_ms"][key].is_number(), "{key}");
    }
    let stats = &snapshot.stats;
    assert_eq!(json["smps"]["get"], stats.sent_get);
    assert_eq!(json["smps"]["set"], stats.sent_set);
    assert_eq!(
        json["findings"][0],
        serde_json::json!({
            "kind": "self-cabled",
            "subject": LEAF_1.to_string(),
            "severity": "warning",
            "text": "remove the plug",
        })
    );
    let sent = stats.sent_get + stats.sent_set;
    let line = report.to_string();
    assert!(
        line.starts_with("up: 4 switches, 4 hosts, 8 links; fabric-tree ("),
        "{line}"
    );
    assert!(line.contains(&format!("; {sent} SMPs in ")), "{line}");
    assert!(line.ends_with(" ms; 1 finding"), "{line}");
    // The findings follow that line as text.
    let expected = format!("{line}\nwarning  self-cabled: remove the plug\n");
    assert_eq!(report.text().to_string(), expected);
}

#[test]
fn run_is_complete_only_if_every_managed_port_is_active() {
    let up = World::up().snapshot();
    assert!(OnceReport::of(&up).is_complete());
    let with_port = |change: &dyn Fn(&mut rsm_model::fabric::Port)| {
        let mut fabric = Fabric::clone(&up.fabric);
        let ix = fabric.find(SPINE_B).unwrap();
        change(&mut fabric.node_mut(ix).ports[1]);
        OnceReport::of(&Snapshot {
            fabric: Arc::new(fabric),
            ..up.clone()
        })
    };
    let armed = |port: &mut rsm_model::fabric::Port| {
        let info = port.info.as_mut().unwrap();
        info.set_port_state(rsm_mad::wire::attr::PortState::Armed);
    };
    let report = with_port(&armed);
    assert!(!report.is_complete());
    assert_eq!((report.state, report.ports_not_active), ("degraded", 1));
    // The node at the other end is not managed.
    let report = with_port(&|port| {
        armed(port);
        port.peer = None;
    });
    assert!(report.is_complete());
    let unseen = Snapshot {
        fabric: Arc::default(),
        plan: None,
        ..up.clone()
    };
    assert!(!OnceReport::of(&unseen).is_complete());
}

/// Devices that do not hold the plan make `--once` end with exit code 1, although all ports are
/// Active.
#[test]
fn failed_sets_refused_plans_and_unwritten_files_make_the_run_incomplete() {
    let up = World::up().snapshot();
    let is_complete_with = |kind: FindingKind, severity: Severity| {
        let text = "it is not as planned".to_owned();
        let finding = Finding::new(kind, Subject::Node(SPINE_A), severity, text);
        let snapshot = Snapshot {
            findings: Arc::from([finding]),
            ..up.clone()
        };
        OnceReport::of(&snapshot).is_complete()
    };
    for (kind, severity) in [
        (FindingKind::SetFailed, Severity::Error),
        (FindingKind::MKeyMismatch, Severity::Error),
        (FindingKind::RoutingRefused, Severity::Error),
        (FindingKind::MulticastRefused, Severity::Error),
        (FindingKind::LidSpaceExhausted, Severity::Error),
        (FindingKind::AdaptiveRouting, Severity::Error),
        (FindingKind::Storage, Severity::Warning),
    ] {
        assert!(!is_complete_with(kind, severity), "{}", kind.code());
    }
    for (kind, severity) in [
        (FindingKind::AdaptiveRouting, Severity::Warning),
        (FindingKind::DeviceHabit, Severity::Info),
        (FindingKind::LinkMismatch, Severity::Warning),
        (FindingKind::Unanswering, Severity::Error),
        (FindingKind::CableMissing, Severity::Warning),
    ] {
        assert!(is_complete_with(kind, severity), "{}", kind.code());
    }
}
