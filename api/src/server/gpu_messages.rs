//! Converts GPU hosts, hints and job plans to messages.

use rsm_gdr::findings::{GpuFinding, GpuFindingKind, PortName, Severity};
use rsm_gdr::hints::GpuHint;
use rsm_gdr::hosts::HostOrigin;
use rsm_gdr::job::{JobPlan, PatternLoad};
use rsm_gdr::pairs::{PairEnd, PairHint};
use rsm_gdr::render::{LaunchedRank, launched_ranks};
use rsm_gdr::{Analysis, Host};
use rsm_proto::v1;

use crate::gpu::{GpuAges, Gpus};

/// A host by its index, with its findings.
pub(super) fn host(analysis: &Analysis, place: usize) -> v1::GpuHost {
    let host = &analysis.hosts[place];
    let inventory = &host.inventory;
    v1::GpuHost {
        name: host.name.clone(),
        machine: inventory.machine.clone().unwrap_or_default(),
        source: inventory.source.name().to_owned(),
        own: host.origin == HostOrigin::Own,
        // The numbers are bounded by MAX_GPUS and MAX_HCA_PORTS.
        gpus: inventory.gpus.len() as u32,
        compute_ports: host.compute_slots().count() as u32,
        unit: analysis.rails.unit_of[place],
        findings: findings(analysis, &host.name),
        name_unknown: !analysis.knows_name(place),
        was_at: analysis
            .former_place(place)
            .map_or_else(String::new, ToString::to_string),
    }
}

/// A host by its name, which may have findings without an inventory.
pub(super) fn named(analysis: &Analysis, name: &str) -> v1::GpuHost {
    match analysis.place(name) {
        Some(place) => host(analysis, place),
        None => v1::GpuHost {
            name: name.to_owned(),
            findings: findings(analysis, name),
            ..v1::GpuHost::default()
        },
    }
}

/// The coverage and the ages of inventories at present. May take as long as an analysis.
pub fn current_status(gpus: &dyn Gpus) -> v1::GetGpuStatusResponse {
    status(&gpus.analysis(), gpus.ages())
}

fn status(analysis: &Analysis, ages: GpuAges) -> v1::GetGpuStatusResponse {
    let own = |host: &&Host| host.origin == HostOrigin::Own;
    let count = |severity| {
        let findings = analysis.findings.iter();
        findings
            .filter(|one| one.kind.severity() == severity)
            .count() as u32
    };
    let without = analysis
        .findings
        .iter()
        .filter(|one| one.kind == GpuFindingKind::NoInventory)
        .map(|one| one.hosts().count());
    let stale = |age: &&(u64, String)| ages.max_age.is_some_and(|most| age.0 > most);
    let all = analysis.hosts.len();
    let own = analysis.hosts.iter().filter(own).count();
    let oldest = ages.ages.last();
    v1::GetGpuStatusResponse {
        // The numbers fit: there are fewer hosts than LIDs.
        own: own as u32,
        machine_type: (all - own) as u32,
        without: without.sum::<usize>() as u32,
        stale: ages.ages.iter().filter(stale).count() as u32,
        max_age_s: ages
            .max_age
            .map_or(0, |most| u32::try_from(most).unwrap_or(u32::MAX)),
        oldest_age_s: oldest.map_or(0, |oldest| oldest.0),
        oldest_host: oldest.map_or_else(String::new, |oldest| oldest.1.clone()),
        median_age_s: ages
            .ages
            .get(ages.ages.len() / 2)
            .map_or(0, |median| median.0),
        names_taken_twice: ages.names_taken_twice,
        errors: count(Severity::Error),
        warnings: count(Severity::Warning),
        infos: count(Severity::Info),
        generation: analysis
            .fabric
            .as_ref()
            .map_or(0, |fabric| fabric.generation),
    }
}

fn findings(analysis: &Analysis, host: &str) -> Vec<v1::GpuFinding> {
    let findings = analysis.findings_of(host);
    findings.map(|one| finding(one, host)).collect()
}

/// A finding from the view of `host`, which may be any of its hosts.
fn finding(finding: &GpuFinding, host: &str) -> v1::GpuFinding {
    let port = |port: &PortName| match port.host == finding.host {
        // Hosts with the same fault have it at ports with equal names.
        true => format!("{host} {}", port.device),
        false => port.to_string(),
    };
    v1::GpuFinding {
        kind: finding.kind.name().to_owned(),
        severity: finding.kind.severity().name().to_owned(),
        gpus: finding.gpus.iter().map(|&gpu| gpu.into()).collect(),
        ports: finding.ports.iter().map(port).collect(),
        evidence: finding.evidence.clone(),
        advice: finding.kind.advice().to_owned(),
        effect: finding.kind.effect().to_owned(),
        first_host: finding.host.clone(),
        // The number fits: there are fewer hosts than LIDs.
        hosts: finding.hosts().count() as u32,
    }
}

/// The hints of a host by its index.
pub(super) fn hints(analysis: &Analysis, place: usize) -> Vec<v1::GpuHint> {
    let inventory = &analysis.hosts[place].inventory;
    let labels = |ports: &[usize]| {
        ports
            .iter()
            .map(|&port| inventory.hca_ports[port].label())
            .collect()
    };
    let hint = |hint: &GpuHint| v1::GpuHint {
        gpu: inventory.gpus[hint.gpu].index.into(),
        ports: labels(&hint.ports),
        tier: hint.tier.map_or_else(String::new, |tier| tier.to_string()),
        rail: hint.rail.map(u32::from),
        fallbacks: labels(&hint.fallbacks),
        gdr_expected: hint.gdr.is_expected(),
        gdr: hint.gdr.text().to_owned(),
        reason: hint.reason.text().to_owned(),
    };
    analysis.hints[place].iter().map(hint).collect()
}

/// A pair of GPUs; `relay` is the index of the GPU that relays.
pub(super) fn pair(hint: &PairHint, relay: Option<u16>) -> v1::GetGpuPairResponse {
    let end = |end: &PairEnd| v1::GpuEndpoint {
        device: end.device.clone(),
        port_guid: end.guid.0,
        lid: end.lid.0.into(),
        leaf_guid: end.leaf.0,
        leaf_port: end.leaf_port.0.into(),
        rail: end.rail.map(u32::from),
    };
    let paths = hint.paths.iter().map(|path| {
        let route = path.route.as_ref();
        v1::GpuPath {
            path_bits: path.path_bits.into(),
            dlid: path.dlid.0.into(),
            hops: route
                .and_then(|route| route.as_ref().ok())
                .map(|route| route.hops.len() as u32),
            problem: match route {
                Some(Err(problem)) => problem.to_string(),
                _ => String::new(),
            },
        }
    });
    v1::GetGpuPairResponse {
        class: hint.class.name().to_owned(),
        source: hint.ends.as_ref().map(|ends| end(&ends.0)),
        destination: hint.ends.as_ref().map(|ends| end(&ends.1)),
        paths: paths.collect(),
        service_level: hint.sl.into(),
        mtu: hint.mtu.into(),
        rate_tenth_gbps: hint.rate_tenth_gbps.into(),
        relay_gpu: relay.map(u32::from),
        generation: hint.generation,
    }
}

/// The plan of a job.
pub(super) fn plan(analysis: &Analysis, plan: &JobPlan) -> v1::PlanGpuJobResponse {
    let load = |load: &PatternLoad| v1::GpuLoad {
        flows: load.flows,
        leaf_local: load.leaf_local,
        lost: load.lost,
        worst_link: load.worst_link,
    };
    let rank = |rank: LaunchedRank| v1::GpuRank {
        host: rank.host,
        gpu: rank.gpu,
        rail: rank.rail,
        port: rank.port.unwrap_or_default(),
    };
    let ranks = launched_ranks(analysis, plan);
    v1::PlanGpuJobResponse {
        ranks: ranks.into_iter().map(rank).collect(),
        load: plan.load.as_ref().map(load),
        load_as_given: plan.load_as_given.as_ref().map(load),
        warnings: plan.warnings.clone(),
        generation: plan.generation,
    }
}
