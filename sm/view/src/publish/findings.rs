//! Present findings, each with an identifier that stays the same until the finding is cleared.

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_api::v1;
use rsm_ids::PortKey;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_state::Snapshot;

use super::design::port_label;

/// Identifies a finding across snapshots even if its wording changes. The wording distinguishes
/// several findings of one kind about one subject.
type Identity = (FindingKind, Subject, Severity);

/// Findings that the latest snapshot raised and cleared.
#[derive(Default, Debug)]
pub(super) struct FindingChanges {
    pub(super) raised: Vec<Arc<v1::Finding>>,
    pub(super) cleared: Vec<Arc<v1::Finding>>,
}

/// Present findings, with the times at which they were raised.
#[derive(Default)]
pub(super) struct HeldFindings {
    held: BTreeMap<Identity, Vec<Arc<v1::Finding>>>,
    last_id: u64,
}

impl HeldFindings {
    /// Replaces the present findings by `findings`. A finding that was present before keeps its
    /// identifier and counts one more occurrence. Among earlier findings of one kind, subject and
    /// severity, the match is the finding with the same text; without such a finding, the oldest
    /// finding whose text no present finding has. `name` returns the names of subjects.
    pub(super) fn update(
        &mut self,
        findings: &[Finding],
        name: &dyn Fn(Subject) -> String,
        generation: u64,
        now_unix_ms: u64,
    ) -> FindingChanges {
        let mut changes = FindingChanges::default();
        let mut before = std::mem::take(&mut self.held);
        let mut known: Vec<_> = findings
            .iter()
            .map(|finding| {
                let alike = before.get_mut(&identity(finding))?;
                let place = alike.iter().position(|one| one.message == finding.text)?;
                Some(alike.remove(place))
            })
            .collect();
        for (finding, known) in findings.iter().zip(&mut known) {
            let alike = before.get_mut(&identity(finding));
            if known.is_none()
                && let Some(alike) = alike.filter(|alike| !alike.is_empty())
            {
                *known = Some(alike.remove(0));
            }
        }
        for (finding, known) in findings.iter().zip(known) {
            let held = match known {
                Some(known) => Arc::new(v1::Finding {
                    message: finding.text.clone(),
                    name: finding_name(finding, name),
                    occurrences: known.occurrences + 1,
                    ..v1::Finding::clone(&known)
                }),
                None => {
                    self.last_id += 1;
                    let mut raised = raise(finding, self.last_id, generation, now_unix_ms);
                    raised.name = finding_name(finding, name);
                    let raised = Arc::new(raised);
                    changes.raised.push(raised.clone());
                    raised
                }
            };
            self.held.entry(identity(finding)).or_default().push(held);
        }
        changes.cleared = before.into_values().flatten().collect();
        changes.cleared.sort_by_key(|finding| finding.id);
        changes
    }

    /// Moves the times of present findings by `step_ms`, by which the machine's clock was set.
    pub(super) fn move_times(&mut self, step_ms: i64) {
        for finding in self.held.values_mut().flatten() {
            let finding = Arc::make_mut(finding);
            finding.raised_unix_ms = finding.raised_unix_ms.saturating_add_signed(step_ms);
        }
    }

    /// Present findings, in ascending order of identifier.
    pub(super) fn held(&self) -> Vec<Arc<v1::Finding>> {
        let mut held: Vec<_> = self.held.values().flatten().cloned().collect();
        held.sort_by_key(|finding| finding.id);
        held
    }
}

/// The name of a finding's subject. A finding about GPU hosts has no node as its subject: its text
/// begins with the hosts.
fn finding_name(finding: &Finding, name: &dyn Fn(Subject) -> String) -> String {
    if !matches!(finding.kind, FindingKind::Gpu(_)) {
        return name(finding.subject);
    }
    let hosts = finding.text.split_once(": ").map(|(hosts, _)| hosts);
    // The text that counts findings beyond the limit begins with a clause of its own.
    let hosts = hosts.filter(|hosts| !hosts.contains(';'));
    hosts.unwrap_or_default().to_owned()
}

fn identity(finding: &Finding) -> Identity {
    (finding.kind, finding.subject, finding.severity)
}

fn raise(finding: &Finding, id: u64, generation: u64, raised_unix_ms: u64) -> v1::Finding {
    let (node, port) = match finding.subject {
        Subject::Subnet => (None, None),
        Subject::Node(node) => (Some(node), None),
        Subject::Port(key) => (Some(key.node), Some(key.port)),
    };
    v1::Finding {
        id,
        kind: finding.kind.code().to_owned(),
        severity: severity(finding.severity).into(),
        node_guid: node.map(|guid| guid.to_string()).unwrap_or_default(),
        port: port.map(|port| port.0.into()),
        message: finding.text.clone(),
        generation,
        raised_unix_ms,
        occurrences: 1,
        name: String::new(),
    }
}

/// The name of a finding's subject: a node, or both ends of the cable at a port; for a missing
/// cable, the former or designed ends.
pub(super) fn subject_name(snapshot: &Snapshot, subject: Subject) -> String {
    let (fabric, expected) = (&snapshot.fabric, &snapshot.expected);
    let port_name = |key: PortKey| format!("{}:{}", expected.name(fabric, key.node), key.port);
    match subject {
        Subject::Subnet => String::new(),
        Subject::Node(guid) => expected.name(fabric, guid),
        Subject::Port(key) => {
            let peer = fabric.find_port(key).and_then(|at| fabric.port(at).peer);
            let peer = peer.or_else(|| Some(expected.port(key)?.peer));
            let designed = || Some(port_label(snapshot, expected.design().wanted(key)?));
            match peer.map(port_name).or_else(designed) {
                Some(peer) => format!("{} - {peer}", port_name(key)),
                None => port_name(key),
            }
        }
    }
}

fn severity(severity: Severity) -> v1::Severity {
    match severity {
        Severity::Info => v1::Severity::Info,
        Severity::Warning => v1::Severity::Warning,
        Severity::Error => v1::Severity::Error,
    }
}
