//! Finds GPU hosts that were in the fabric and have no port there now, and inventories that claim
//! the places of such hosts.

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
    findings.extend(claims(analysis));
    findings
}

/// The findings about hosts that claim a place of an absent host; one for each of the two.
fn claims(analysis: &Analysis) -> impl Iterator<Item = GpuFinding> {
    let absent = analysis.fabric.iter().flat_map(|fabric| &fabric.absent);
    absent.flat_map(move |(name, absent)| {
        let claimants = absent.claimants.iter();
        let known = claimants.filter(move |claimant| analysis.place(claimant).is_some());
        known.map(move |claimant| {
            let former = &absent.first;
            let evidence = format!(
                "GUIDs of its inventory are those of {name}, which keeps its place: it was at {former}"
            );
            GpuFinding::new(GpuFindingKind::PortClaimedTwice, claimant, evidence)
        })
    })
}
