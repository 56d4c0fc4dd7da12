//! Searches for faults of hosts and cables.
//!
//! Each fault is reported once: consequences of a missing, moved or reset device are not reported
//! again, and equal observations of several hosts become one finding.

mod absent;
mod built;
mod compared;
mod firmware;
mod group;
mod host;
mod inventories;
mod links;
mod mesh;
mod nearer;
mod pcie;
mod rail;
mod settings;
mod speed;
mod twice;

use std::collections::BTreeSet;

use rayon::prelude::*;

use super::Analysis;
use super::claims::JoinFaults;
use super::findings::GpuFinding;
use super::peers::Peers;

/// The devices of a host whose faults are already reported.
#[derive(Clone, Default)]
struct Explained {
    /// The GPUs, by position.
    gpus: BTreeSet<usize>,
    /// The ports, by position.
    ports: BTreeSet<usize>,
    /// Whether GPUs are missing, so that links to them are missing too.
    lacks_gpus: bool,
    /// Whether an adapter is in another slot, which changes the order of addresses.
    has_moved_hca: bool,
}

/// A number of hosts of one kind as text: `3 hosts like it`.
fn hosts_like_it(count: usize) -> String {
    match count {
        1 => "1 host like it".to_owned(),
        _ => format!("{count} hosts like it"),
    }
}

/// The text of [`hosts_like_it`] with its verb: `3 hosts like it have`.
fn hosts_like_it_have(count: usize) -> String {
    let verb = if count == 1 { "has" } else { "have" };
    format!("{} {verb}", hosts_like_it(count))
}

/// All findings, sorted by host and then kind.
pub(super) fn find(analysis: &Analysis, peers: &Peers, faults: &[JoinFaults]) -> Vec<GpuFinding> {
    let (mut findings, mut explained) = built::find(analysis, peers, faults);
    findings.extend(absent::find(analysis, &mut explained));
    findings.extend(twice::find(analysis, &mut explained));
    findings.extend(rail::find(analysis, peers, faults, &mut explained));
    findings.extend(speed::find(analysis, peers));
    findings.extend(links::compared(analysis, peers, &explained));
    findings.extend(pcie::find(analysis, peers, &explained));
    findings.extend(firmware::find(analysis, peers));
    findings.extend(compared::find(analysis, peers, &mut explained));
    findings.extend(inventories::unlisted(analysis));
    findings.extend(nearer::find(analysis, &explained));
    findings.par_extend(
        faults
            .par_iter()
            .enumerate()
            .flat_map_iter(|(place, faults)| {
                let mut of_host = Vec::new();
                inventories::find(analysis, place, faults, &mut of_host);
                host::find(analysis, place, &explained[place], &mut of_host);
                settings::find(&analysis.hosts[place], &mut of_host);
                of_host
            }),
    );
    group::group(findings)
}
