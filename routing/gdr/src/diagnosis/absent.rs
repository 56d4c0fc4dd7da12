//! Finds GPU hosts that were in the fabric and have no port there now.

use super::Explained;
use crate::Analysis;
use crate::findings::{GpuFinding, GpuFindingKind};

/// The findings about absent hosts. Adds all devices of these hosts to `explained`.
pub(super) fn find(analysis: &Analysis, explained: &mut [Explained]) -> Vec<GpuFinding> {
    let mut findings = Vec::new();
    for (at, (host, explained)) in analysis.hosts.iter().zip(explained).enumerate() {
        let Some(former) = analysis.former_place(at) else {
            continue;
        };
        let observation = "none of its ports is in the fabric".to_owned();
        let evidence = format!("{observation}: the first was at {former}");
        let of_host = format!("at {former}");
        let kind = GpuFindingKind::HostAbsent;
        let finding = GpuFinding::new(kind, &host.name, evidence);
        findings.push(finding.like_others(observation, of_host));
        explained.ports.extend(0..host.joined.len());
        explained.gpus.extend(0..host.inventory.gpus.len());
    }
    findings
}
