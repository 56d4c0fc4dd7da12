//! Prints hints, pairs and plans as text, or as JSON.

use std::io::{self, Write};

use anyhow::Context as _;
use rsm_gdr::Analysis;
use rsm_gdr::findings::FindingLines;
use rsm_gdr::job::{JobPlan, PatternLoad};
use rsm_gdr::pairs::PairHint;
use serde::Serialize;

use crate::cli::Format;
use crate::cli::output::{print, print_json};

/// Numbers of hosts and GPUs, units with their rails, and findings.
#[derive(Serialize)]
pub(in crate::cli) struct Summary {
    hosts: usize,
    gpus: usize,
    units: Vec<UnitPart>,
    findings: Vec<FindingPart>,
}

/// Scalable unit.
#[derive(Serialize)]
struct UnitPart {
    /// Number of hosts.
    hosts: usize,
    /// Leaf switch of each rail; null if no host has a port on the rail.
    rails: Vec<Option<String>>,
}

/// Finding about GPU hosts.
#[derive(Serialize)]
struct FindingPart {
    kind: &'static str,
    severity: &'static str,
    /// First of the hosts that have the same fault.
    host: String,
    /// Other hosts with the same fault.
    also: Vec<String>,
    #[serde(skip)]
    subject: String,
    gpus: Vec<u16>,
    ports: Vec<String>,
    evidence: String,
    effect: &'static str,
    advice: &'static str,
}

impl Summary {
    /// Extracts the summary from an analysis.
    pub(in crate::cli) fn of(analysis: &Analysis) -> Summary {
        let leaf = |switch| match &analysis.fabric {
            Some(fabric) => fabric.switch_name(switch),
            None => String::new(),
        };
        let units = analysis.rails.units.iter().map(|unit| UnitPart {
            hosts: unit.hosts.len(),
            rails: unit
                .rails
                .iter()
                .map(|rail| rail.map(|rail| leaf(rail.leaf)))
                .collect(),
        });
        let findings = analysis.findings.iter().map(|finding| FindingPart {
            kind: finding.kind.name(),
            severity: finding.kind.severity().name(),
            host: finding.host.clone(),
            also: finding.also.clone(),
            subject: finding.subject(),
            gpus: finding.gpus.clone(),
            ports: finding.ports.iter().map(ToString::to_string).collect(),
            evidence: finding.evidence.clone(),
            effect: finding.kind.effect(),
            advice: finding.kind.advice(),
        });
        Summary {
            hosts: analysis.hosts.len(),
            gpus: analysis
                .hosts
                .iter()
                .map(|host| host.inventory.gpus.len())
                .sum(),
            units: units.collect(),
            findings: findings.collect(),
        }
    }

    /// Writes the summary as text.
    pub(in crate::cli) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let units = self.units.len();
        writeln!(
            out,
            "gpus     {} GPUs of {} hosts in {units} units",
            self.gpus, self.hosts
        )?;
        for (number, unit) in self.units.iter().enumerate() {
            let rails: Vec<&str> = unit
                .rails
                .iter()
                .map(|rail| rail.as_deref().unwrap_or("-"))
                .collect();
            writeln!(
                out,
                "su{number:<6} {} hosts, rails {}",
                unit.hosts,
                rails.join(" ")
            )?;
        }
        match self.findings.len() {
            0 => writeln!(out, "findings none")?,
            count => writeln!(out, "findings {count}")?,
        }
        for finding in &self.findings {
            let lines = FindingLines {
                severity: finding.severity,
                subject: &finding.subject,
                kind: finding.kind,
                evidence: &finding.evidence,
                effect: finding.effect,
                advice: finding.advice,
            };
            for line in lines.lines() {
                writeln!(out, "{line}")?;
            }
        }
        Ok(())
    }
}

/// Hint for one GPU.
#[derive(Serialize)]
pub(super) struct HintPart {
    gpu: u16,
    ports: Vec<String>,
    tier: Option<&'static str>,
    rail: Option<u16>,
    gdr: &'static str,
    gdr_expected: bool,
    fallbacks: Vec<String>,
    reason: &'static str,
}

/// Hints for the GPUs of a host. Fails if no inventory of the host is known.
pub(super) fn host(analysis: &Analysis, name: &str) -> anyhow::Result<Vec<HintPart>> {
    let index = analysis
        .place(name)
        .with_context(|| format!("nothing is known of host `{name}`"))?;
    let inventory = &analysis.hosts[index].inventory;
    let labels = |ports: &[usize]| {
        ports
            .iter()
            .map(|&port| inventory.hca_ports[port].label())
            .collect()
    };
    let hint = |hint: &rsm_gdr::hints::GpuHint| HintPart {
        gpu: inventory.gpus[hint.gpu].index,
        ports: labels(&hint.ports),
        tier: hint.tier.map(|tier| tier.name()),
        rail: hint.rail,
        gdr: hint.gdr.text(),
        gdr_expected: hint.gdr.is_expected(),
        fallbacks: labels(&hint.fallbacks),
        reason: hint.reason.text(),
    };
    Ok(analysis.hints[index].iter().map(hint).collect())
}

/// Hint for a pair of GPUs.
#[derive(Serialize)]
struct PairPart {
    class: &'static str,
    source: Option<EndPart>,
    destination: Option<EndPart>,
    sl: u8,
    mtu: u16,
    rate_gbps: f64,
    relay_gpu: Option<usize>,
    paths: Vec<PathPart>,
}

/// Port that a GPU of the pair uses.
#[derive(Serialize)]
struct EndPart {
    device: String,
    port_guid: String,
    lid: u16,
    leaf: String,
    leaf_port: u8,
    rail: Option<u16>,
}

/// Path between the two ports for one DLID.
#[derive(Serialize)]
struct PathPart {
    path_bits: u8,
    dlid: u16,
    /// Number of switches on the path; null if the tables lead nowhere.
    hops: Option<usize>,
    problem: Option<String>,
}

/// Prints the hint for a pair of GPUs.
pub(super) fn pair(analysis: &Analysis, hint: &PairHint, format: Format) -> anyhow::Result<()> {
    let end = |end: &rsm_gdr::pairs::PairEnd| EndPart {
        device: end.device.clone(),
        port_guid: end.guid.to_string(),
        lid: end.lid.0,
        leaf: analysis
            .fabric
            .as_ref()
            .and_then(|fabric| Some(fabric.switch_name(fabric.topology.switch_by_guid(end.leaf)?)))
            .unwrap_or_default(),
        leaf_port: end.leaf_port.0,
        rail: end.rail,
    };
    let paths = hint.paths.iter().map(|path| PathPart {
        path_bits: path.path_bits,
        dlid: path.dlid.0,
        hops: path
            .route
            .as_ref()
            .and_then(|route| route.as_ref().ok())
            .map(|route| route.hops.len()),
        problem: path
            .route
            .as_ref()
            .and_then(|route| route.as_ref().err())
            .map(ToString::to_string),
    });
    let part = PairPart {
        class: hint.class.name(),
        source: hint.ends.as_ref().map(|ends| end(&ends.0)),
        destination: hint.ends.as_ref().map(|ends| end(&ends.1)),
        sl: hint.sl,
        mtu: hint.mtu,
        rate_gbps: f64::from(hint.rate_tenth_gbps) / 10.0,
        relay_gpu: hint.relay,
        paths: paths.collect(),
    };
    match format {
        Format::Json => print_json(&part),
        Format::Text => print(|out| part.write(out)),
    }
}

impl PairPart {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "class    {}", self.class)?;
        for (name, end) in [("from", &self.source), ("to", &self.destination)] {
            let Some(end) = end else { continue };
            let rail = end.rail.map_or("-".to_owned(), |rail| rail.to_string());
            writeln!(
                out,
                "{name:<8} {} {} LID {} at {} port {}, rail {rail}",
                end.device, end.port_guid, end.lid, end.leaf, end.leaf_port
            )?;
        }
        if let Some(relay) = self.relay_gpu {
            writeln!(
                out,
                "relay    GPU{relay} is on the peer's rail: with PXN the traffic stays under its leaf"
            )?;
        }
        if self.source.is_some() && self.destination.is_some() {
            writeln!(
                out,
                "path     SL {}, MTU {}, {} Gb/s",
                self.sl, self.mtu, self.rate_gbps
            )?;
        }
        for path in &self.paths {
            let route = match (path.hops, &path.problem) {
                (Some(hops), _) => format!("{hops} switches"),
                (None, Some(problem)) => problem.clone(),
                (None, None) => "no tables".to_owned(),
            };
            writeln!(
                out,
                "DLID     {} (path bits {}): {route}",
                path.dlid, path.path_bits
            )?;
        }
        Ok(())
    }
}

/// Plan of a job.
#[derive(Serialize)]
struct PlanPart<'a> {
    pattern: &'static str,
    hosts: Vec<&'a str>,
    ranks: Vec<RankPart<'a>>,
    load: Option<LoadPart>,
    load_as_given: Option<LoadPart>,
    warnings: &'a [String],
}

/// GPU of a rank.
#[derive(Serialize)]
struct RankPart<'a> {
    host: &'a str,
    gpu: u16,
    rail: Option<u16>,
}

/// Load that a pattern of communication puts on links.
#[derive(Serialize)]
struct LoadPart {
    flows: u64,
    /// Number of flows without a path.
    lost: u64,
    /// Share of flows that stay under a leaf, 0 to 1.
    leaf_local_share: f64,
    /// Number of flows on the fullest link.
    worst_link: u32,
}

/// Prints the plan of a job.
pub(super) fn plan(analysis: &Analysis, plan: &JobPlan, format: Format) -> anyhow::Result<()> {
    let name = |host: usize| analysis.hosts[host].name.as_str();
    let load = |load: &PatternLoad| LoadPart {
        flows: load.flows,
        lost: load.lost,
        leaf_local_share: load.leaf_local_share(),
        worst_link: load.worst_link,
    };
    let part = PlanPart {
        pattern: plan.pattern.name(),
        hosts: plan.hosts.iter().map(|&host| name(host)).collect(),
        ranks: plan
            .ranks
            .iter()
            .map(|rank| RankPart {
                host: name(rank.host),
                gpu: analysis.hosts[rank.host].inventory.gpus[rank.gpu].index,
                rail: rank.rail,
            })
            .collect(),
        load: plan.load.as_ref().map(load),
        load_as_given: plan.load_as_given.as_ref().map(load),
        warnings: &plan.warnings,
    };
    match format {
        Format::Json => print_json(&part),
        Format::Text => print(|out| part.write(out)),
    }
}

impl PlanPart<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "job      {} ranks on {} hosts, {}",
            self.ranks.len(),
            self.hosts.len(),
            self.pattern
        )?;
        for (name, load) in [("planned", &self.load), ("as given", &self.load_as_given)] {
            let Some(load) = load else { continue };
            let flows = |number: u64| match number {
                1 => "1 flow".to_owned(),
                _ => format!("{number} flows"),
            };
            writeln!(
                out,
                "{name:<8} {:.1} % of {} stay under a leaf, {} on the fullest link",
                100.0 * load.leaf_local_share,
                flows(load.flows),
                flows(load.worst_link.into())
            )?;
        }
        for warning in self.warnings {
            writeln!(out, "warning  {warning}")?;
        }
        let each = self.ranks.len() / self.hosts.len().max(1);
        for (number, ranks) in self.ranks.chunks(each.max(1)).enumerate() {
            let gpus: Vec<String> = ranks.iter().map(|rank| rank.gpu.to_string()).collect();
            let (first, host) = (number * each, ranks[0].host);
            writeln!(out, "{first:>8} {host} GPUs {}", gpus.join(","))?;
        }
        Ok(())
    }
}
