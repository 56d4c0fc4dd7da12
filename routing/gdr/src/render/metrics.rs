use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use crate::Analysis;
use crate::findings::GpuFindingKind;
use crate::job::{JobRequest, Pattern};
use crate::join::{Joined, NotJoined};

/// Writes figures about hosts, rails and jobs in Prometheus' text format.
///
/// Pattern figures are for a job of all hosts, with as many GPUs per host as the smallest host has.
/// An all-to-all of more than [`MAX_ALL_TO_ALL_HOSTS`](crate::job::MAX_ALL_TO_ALL_HOSTS) hosts is
/// left out.
pub fn metrics(analysis: &Analysis) -> String {
    let mut out = Exposition(String::new());
    gpus(analysis, &mut out);
    rails(analysis, &mut out);
    unjoined(analysis, &mut out);
    let of_kind = |kind: GpuFindingKind| {
        let findings = analysis.findings.iter();
        findings.filter(|finding| finding.kind == kind).count()
    };
    out.gauge("rsm_gdr_findings", "What is wrong with GPU hosts, by kind.");
    for kind in GpuFindingKind::ALL {
        out.sample("rsm_gdr_findings", &[("kind", &kind)], of_kind(kind));
    }
    let oldest = analysis
        .hosts
        .iter()
        .filter(|host| host.seen > 0)
        .map(|host| analysis.config.now.saturating_sub(host.seen));
    out.gauge(
        "rsm_gdr_hint_age_seconds",
        "Age of the oldest inventory that hints are made from.",
    );
    out.sample("rsm_gdr_hint_age_seconds", &[], oldest.max().unwrap_or(0));
    jobs(analysis, &mut out);
    out.0
}

/// Writes the number of GPUs by the PCIe tier to their ports.
fn gpus(analysis: &Analysis, out: &mut Exposition) {
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for hint in analysis.hints.iter().flatten() {
        let tier = hint.tier.map_or("none".to_owned(), |tier| tier.to_string());
        *count.entry(tier).or_default() += 1;
    }
    out.gauge(
        "rsm_gdr_gpus",
        "GPUs by the PCIe tier to the port that they should use.",
    );
    for (tier, gpus) in &count {
        out.sample("rsm_gdr_gpus", &[("tier", tier)], gpus);
    }
}

/// Writes the share of compute ports that are cabled to the leaf of their rail, by unit, and the
/// number of all other compute ports.
fn rails(analysis: &Analysis, out: &mut Exposition) {
    let Some(fabric) = &analysis.fabric else {
        return;
    };
    let (mut ratios, mut misaligned) = (Vec::new(), 0);
    for unit in &analysis.rails.units {
        let (mut aligned, mut all) = (0, 0);
        for &host in &unit.hosts {
            let entry = &analysis.hosts[host];
            for (slot, port) in entry.slots.iter().enumerate() {
                let Some(port) = *port else { continue };
                let leaf = entry.joined[port].port().map(|port| fabric.port(port).leaf);
                let rail = unit.rails.get(slot).copied().flatten();
                if let (Some(leaf), Some(rail)) = (leaf, rail) {
                    all += 1;
                    aligned += usize::from(leaf == rail.leaf);
                }
            }
        }
        misaligned += all - aligned;
        ratios.push(aligned as f64 / all.max(1) as f64);
    }
    out.gauge(
        "rsm_gdr_rail_aligned_ratio",
        "Part of the compute ports of a unit that are cabled to the leaf of their rail.",
    );
    for (unit, ratio) in ratios.iter().enumerate() {
        out.sample("rsm_gdr_rail_aligned_ratio", &[("su", &unit)], ratio);
    }
    out.gauge(
        "rsm_gdr_misaligned_ports",
        "Compute ports that are cabled to another leaf than that of their rail.",
    );
    out.sample("rsm_gdr_misaligned_ports", &[], misaligned);
}

/// Writes the number of ports without a counterpart in the fabric, by reason.
fn unjoined(analysis: &Analysis, out: &mut Exposition) {
    const REASONS: [(NotJoined, &str); 6] = [
        (NotJoined::Ethernet, "ethernet"),
        (NotJoined::Down, "down"),
        (NotJoined::NotInFabric, "not-in-fabric"),
        (NotJoined::Ambiguous, "ambiguous"),
        (NotJoined::Taken, "taken"),
        (NotJoined::VirtualFunction, "virtual-function"),
    ];
    out.gauge(
        "rsm_gdr_unjoined_devices",
        "Ports of GPU hosts that are no port of the fabric, by reason.",
    );
    for (reason, name) in REASONS {
        let joined = analysis.hosts.iter().flat_map(|host| &host.joined);
        let count = joined
            .filter(|joined| **joined == Joined::Not(reason))
            .count();
        out.sample("rsm_gdr_unjoined_devices", &[("reason", &name)], count);
    }
}

/// Writes the loads of a job of all hosts, by traffic pattern.
fn jobs(analysis: &Analysis, out: &mut Exposition) {
    let gpus = analysis.hosts.iter().map(|host| host.inventory.gpus.len());
    let fewest = gpus.filter(|&gpus| gpus > 0).min().unwrap_or(0);
    let with_gpus = analysis
        .hosts
        .iter()
        .filter(|host| !host.inventory.gpus.is_empty());
    let hosts: Vec<String> = with_gpus.map(|host| host.name.clone()).collect();
    if fewest == 0 {
        return;
    }
    let loads = Pattern::ALL.map(|pattern| {
        let request = JobRequest {
            hosts: hosts.clone(),
            left_out: 0,
            gpus_per_host: fewest,
            pattern,
        };
        let plan = analysis.plan(&request).ok();
        (pattern, plan.and_then(|plan| plan.load))
    });
    out.gauge(
        "rsm_route_max_flows_per_link",
        "The most flows on a link between switches in one step of a job of all hosts.",
    );
    for (pattern, load) in &loads {
        if let Some(load) = load {
            let labels: [(&str, &dyn Display); 2] = [("category", &"gdr"), ("pattern", pattern)];
            out.sample("rsm_route_max_flows_per_link", &labels, load.worst_link);
        }
    }
    out.gauge(
        "rsm_gdr_leaf_local_ratio",
        "Part of the flows of a job of all hosts that stays under one leaf.",
    );
    for (pattern, load) in &loads {
        if let Some(load) = load {
            let share = load.leaf_local_share();
            out.sample("rsm_gdr_leaf_local_ratio", &[("pattern", pattern)], share);
        }
    }
}

/// The text in Prometheus' format. Labels are fixed names and numbers, which need no escaping.
struct Exposition(String);

impl Exposition {
    /// Begins a metric.
    fn gauge(&mut self, name: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} gauge");
    }

    /// Adds a value of a metric.
    fn sample(&mut self, name: &str, labels: &[(&str, &dyn Display)], value: impl Display) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(label, value)| format!("{label}=\"{value}\""))
            .collect();
        let _ = match labels.is_empty() {
            true => writeln!(self.0, "{name} {value}"),
            false => writeln!(self.0, "{name}{{{}}} {value}", labels.join(",")),
        };
    }
}
