//! Groups equal observations of several hosts into one finding.

use std::collections::BTreeMap;

use crate::findings::{GpuFinding, GpuFindingKind, MAX_NAMES_ON_LINE};

/// The key of findings that differ only in their hosts.
type Key = (GpuFindingKind, Vec<u16>, Vec<String>, String);

/// The key of a finding: its common observation if it has one, else its devices and evidence.
fn key(finding: &GpuFinding) -> Key {
    if let Some(common) = &finding.common {
        return (
            finding.kind,
            Vec::new(),
            Vec::new(),
            common.observation.clone(),
        );
    }
    let devices = finding.ports.iter().map(|port| port.device.clone());
    let (gpus, evidence) = (finding.gpus.clone(), finding.evidence.clone());
    (finding.kind, gpus, devices.collect(), evidence)
}

/// Unites findings with equal keys into one finding; `None` without findings.
fn united(mut alike: Vec<GpuFinding>) -> Option<GpuFinding> {
    alike.sort_by(|one, other| one.host.cmp(&other.host));
    let observation = alike
        .first()?
        .common
        .as_ref()
        .map(|common| common.observation.clone());
    let of_hosts: Vec<String> = (alike.iter().take(MAX_NAMES_ON_LINE))
        .filter_map(|one| Some(format!("{} {}", one.host, one.common.as_ref()?.of_host)))
        .collect();
    let rest = alike.len().saturating_sub(MAX_NAMES_ON_LINE);
    let mut alike = alike.into_iter();
    let mut first = alike.next()?;
    first.also.extend(alike.map(|other| other.host));
    first.common = None;
    if let Some(observation) = observation.filter(|_| !first.also.is_empty()) {
        let rest = match rest {
            0 => String::new(),
            rest => format!(", and {rest} more"),
        };
        first.evidence = format!("{observation}: {}{rest}", of_hosts.join(", "));
    }
    Some(first)
}

/// Groups findings, and sorts them by host, kind and device.
pub(super) fn group(findings: Vec<GpuFinding>) -> Vec<GpuFinding> {
    let mut grouped: BTreeMap<Key, Vec<GpuFinding>> = BTreeMap::new();
    let mut out = Vec::new();
    for finding in findings {
        if !finding.kind.is_grouped() {
            out.push(finding);
            continue;
        }
        grouped.entry(key(&finding)).or_default().push(finding);
    }
    out.extend(grouped.into_values().filter_map(united));
    out.sort_by(|one, other| {
        let key =
            |finding: &GpuFinding| (finding.kind, finding.gpus.clone(), finding.ports.clone());
        one.host
            .cmp(&other.host)
            .then_with(|| key(one).cmp(&key(other)))
    });
    out
}
