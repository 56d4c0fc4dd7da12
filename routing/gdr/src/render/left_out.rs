//! Names the hosts and ports that a file lacks, because they are not in the fabric.

use std::fmt::Write as _;

use super::groups::host_list;
use super::{ExportOptions, Exporter};
use crate::Analysis;
use crate::host::Host;
use crate::join::{Joined, NotJoined};

/// The hosts and ports that a file lacks, in sentences for the operator; empty if the file
/// has all compute ports. Without a fabric nothing is known to be missing.
pub(super) fn left_out(
    analysis: &Analysis,
    exporter: &Exporter,
    options: &ExportOptions,
) -> Vec<String> {
    if analysis.fabric.is_none() {
        return Vec::new();
    }
    let mut out = Vec::new();
    if exporter.of_host
        && let Some(place) = analysis.place(&options.host)
    {
        out.extend(missing_ports(&analysis.hosts[place]));
    }
    if exporter.lists_hosts {
        out.extend(missing_hosts(analysis, exporter.of_host, &options.host));
    }
    out
}

/// The sentence about the compute ports of a host that are not in the fabric; `None` if all of them
/// are.
fn missing_ports(host: &Host) -> Option<String> {
    let is_missing = |port: &usize| match host.joined[*port] {
        Joined::Port { .. } => false,
        Joined::Not(reason) => reason != NotJoined::VirtualFunction,
    };
    let compute = host.compute_ports();
    let missing = compute.into_iter().filter(is_missing);
    let labels: Vec<String> = missing
        .map(|port| host.inventory.hca_ports[port].label())
        .collect();
    let verb = match labels.len() {
        0 => return None,
        1 => "is",
        _ => "are",
    };
    let mut out = format!(
        "{}: {} {verb} not in the fabric",
        host.name,
        labels.join(", ")
    );
    let _ = write!(
        out,
        ", and the settings do without: export again once `rsmctl gpu check` no longer names {}",
        if labels.len() == 1 { "it" } else { "them" }
    );
    Some(out)
}

/// The sentence about hosts with GPUs that have no compute port in the fabric; `None` if there
/// are no such hosts. In the file of one host, that host is left out:
/// [`missing_ports`] covers it.
fn missing_hosts(analysis: &Analysis, of_host: bool, own: &str) -> Option<String> {
    let hosts = analysis.hosts.iter().zip(&analysis.rails.unit_of);
    let without = hosts.filter(|(host, unit)| unit.is_none() && !host.inventory.gpus.is_empty());
    let names: Vec<&str> = without
        .map(|(host, _)| host.name.as_str())
        .filter(|name| !of_host || *name != own)
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "{}: no compute port is in the fabric, so that the file has no rails of {}: export again once there is one",
            host_list(&names),
            if names.len() == 1 { "the host" } else { "these hosts" }
        )
    })
}
