//! The same observation of several hosts as one finding.

use std::collections::BTreeMap;

use super::{GpuFinding, GpuFindingKind};

/// The parts in which two findings are equal if they differ in their hosts alone.
type Key = (GpuFindingKind, Vec<u16>, Vec<String>, String);

/// Groups findings, and brings them into the order of hosts, kinds and devices.
pub(super) fn group(findings: Vec<GpuFinding>) -> Vec<GpuFinding> {
    let mut grouped: BTreeMap<Key, Vec<GpuFinding>> = BTreeMap::new();
    let mut out = Vec::new();
    for finding in findings {
        if !finding.kind.is_grouped() {
            out.push(finding);
            continue;
        }
        let devices = finding.ports.iter().map(|port| port.device.clone());
        let key = (
            finding.kind,
            finding.gpus.clone(),
            devices.collect(),
            finding.evidence.clone(),
        );
        grouped.entry(key).or_default().push(finding);
    }
    for mut alike in grouped.into_values() {
        alike.sort_by(|one, other| one.host.cmp(&other.host));
        let mut alike = alike.into_iter();
        if let Some(mut first) = alike.next() {
            first.also.extend(alike.map(|other| other.host));
            out.push(first);
        }
    }
    out.sort_by(|one, other| {
        let key =
            |finding: &GpuFinding| (finding.kind, finding.gpus.clone(), finding.ports.clone());
        one.host
            .cmp(&other.host)
            .then_with(|| key(one).cmp(&key(other)))
    });
    out
}
