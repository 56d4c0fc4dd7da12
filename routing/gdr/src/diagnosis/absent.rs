//! Finds GPU hosts that were in the fabric and have no port there now.

use super::Explained;
use crate::Analysis;
use crate::findings::{GpuFinding, GpuFindingKind};

/// The findings about absent hosts. Adds all devices of these hosts to `explained`.
pub(super) fn find(analysis: &Analysis, explained: &mut [Explained]) -> Vec<GpuFinding> {
    let Some(fabric) = &analysis.fabric else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for (host, explained) in analysis.hosts.iter().zip(explained) {
        let is_there = host.joined.iter().any(|joined| joined.port().is_some());
        let first = host.name.split('.').next().unwrap_or_default();
        let absent = fabric
            .absent
            .get(&host.name)
            .or_else(|| fabric.absent.get(first));
        let Some(absent) = absent.filter(|_| !is_there) else {
            continue;
        };
        let (place, until) = (&absent.first.place, &absent.first.until);
        let observation = "none of its ports is in the fabric".to_owned();
        let evidence = format!("{observation}: the first was at {place} until {until}");
        let of_host = format!("at {place} until {until}");
        let kind = GpuFindingKind::HostAbsent;
        let finding = GpuFinding::new(kind, &host.name, evidence);
        findings.push(finding.like_others(observation, of_host));
        explained.ports.extend(0..host.joined.len());
        explained.gpus.extend(0..host.inventory.gpus.len());
    }
    findings
}
