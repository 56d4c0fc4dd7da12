//! `rsm plan`: routes without hardware.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use rsm_routing::engine::{self, EngineKind, Options, Routing};
use rsm_routing::topology::Topology;
use rsm_routing::verify::{Report, verify};
use serde::Serialize;

use super::Format;
use super::gpu::{self, Summary};
use super::output::{print, print_json};
use crate::config::load_guid_file;
use crate::offline;
use crate::plan::lids::{self, Claims};
use crate::plan::policy::Policy;
use crate::plan::{self, lids_in_use};

#[derive(Args, Debug)]
pub(super) struct PlanArgs {
    /// A file in ibnetdiscover's format, or a generator such as superpod or pgft:2;18,36;1,18;1,1
    fabric: String,
    /// The routing engine: auto, updn or minhop
    #[arg(long, default_value_t, value_name = "NAME")]
    engine: EngineKind,
    /// GUIDs of the switches to rank from, one in a line
    #[arg(long, value_name = "FILE")]
    root_guid_file: Option<PathBuf>,
    /// LID mask control, 0 to 7
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=7))]
    lmc: u8,
    /// Inventories of GPU hosts, as `rsm gpu --inventory` takes them: rails and findings are added
    #[arg(long, value_name = "PATH")]
    gpu: Option<PathBuf>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Serialize)]
struct Planned {
    fabric: FabricPart,
    engine: EnginePart,
    timing_ms: TimingPart,
    memory_peak_bytes: Option<u64>,
    verify: VerifyPart,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu: Option<Summary>,
}

#[derive(Serialize)]
struct FabricPart {
    switches: usize,
    cas: usize,
    routers: usize,
    links: usize,
    lids: u32,
}

#[derive(Serialize)]
struct EnginePart {
    name: &'static str,
    reason: String,
}

#[derive(Serialize)]
struct TimingPart {
    read: f64,
    model: f64,
    route: f64,
    verify: f64,
    total: f64,
}

#[derive(Serialize)]
struct VerifyPart {
    reachable_pairs: u64,
    unreachable_pairs: u64,
    disconnected_pairs: u64,
    switch_pairs_reachable: u64,
    switch_pairs_unreachable: u64,
    loop_free: bool,
    credit_loop_free: bool,
    max_hops: u32,
    average_hops: f64,
    link_load_max: u64,
    link_load_mean: f64,
}

/// Measures the stages one after the other.
struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(
        clippy::disallowed_methods,
        reason = "a command line that says how long it took"
    )]
    fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// The time since the start or the last lap.
    #[expect(
        clippy::disallowed_methods,
        reason = "a command line that says how long it took"
    )]
    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now.saturating_duration_since(std::mem::replace(&mut self.0, now))
    }
}

pub(super) fn run(args: &PlanArgs) -> anyhow::Result<ExitCode> {
    let mut watch = Stopwatch::start();
    let netlist = offline::load(&args.fabric)?;
    let read = watch.lap();

    let policy = Policy {
        lmc: rsm_ids::Lmc::new(args.lmc)?,
        ..Policy::default()
    };
    let root_guids = match &args.root_guid_file {
        Some(file) => load_guid_file(file)?.into_iter().collect(),
        None => Vec::new(),
    };
    let fabric = offline::fabric(&netlist);
    let lids = lids::assign(&fabric, &Claims::new(), &policy);
    let topology = Arc::new(plan::topology(&fabric, &lids, &BTreeSet::new())?);
    let model = watch.lap();

    let options = Options {
        root_guids,
        ..Options::default()
    };
    let routing = engine::route(args.engine, &topology, &options, None)?;
    let route = watch.lap();

    let report = verify(&topology, &routing.tables);
    let verify = watch.lap();

    for finding in &lids.findings {
        tracing::warn!("{}", finding.text);
    }
    let count = |kind| fabric.count(kind);
    let parts = FabricPart {
        switches: count(rsm_mad::wire::attr::NodeType::Switch),
        cas: count(rsm_mad::wire::attr::NodeType::Ca),
        routers: count(rsm_mad::wire::attr::NodeType::Router),
        links: fabric.links().count(),
        lids: lids_in_use(&lids),
    };
    let gpu = match &args.gpu {
        Some(path) => {
            let tables = Arc::new(routing.tables.clone());
            let config = rsm_routing::gdr::Config::default();
            Some(Summary::of(&gpu::analyse(
                path, &netlist, &topology, tables, config,
            )?))
        }
        None => None,
    };
    let laps = [read, model, route, verify];
    let planned = Planned {
        gpu,
        ..planned(parts, &routing, &report, laps)
    };
    match args.format {
        Format::Json => print_json(&planned)?,
        Format::Text => print(|out| write_text(out, &planned, &topology, &report))?,
    }
    let sound = report.loop_free && report.credit_loop_free && report.unreachable_pairs == 0;
    Ok(if sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn planned(fabric: FabricPart, routing: &Routing, report: &Report, laps: [Duration; 4]) -> Planned {
    let [read, model, route, verify] = laps.map(|lap| lap.as_secs_f64() * 1e3);
    Planned {
        fabric,
        engine: EnginePart {
            name: routing.engine,
            reason: routing.reason.clone(),
        },
        timing_ms: TimingPart {
            read,
            model,
            route,
            verify,
            total: read + model + route + verify,
        },
        memory_peak_bytes: memory_peak(),
        verify: VerifyPart {
            reachable_pairs: report.reachable_pairs,
            unreachable_pairs: report.unreachable_pairs,
            disconnected_pairs: report.disconnected_pairs,
            switch_pairs_reachable: report.switch_pairs.reachable,
            switch_pairs_unreachable: report.switch_pairs.unreachable,
            loop_free: report.loop_free,
            credit_loop_free: report.credit_loop_free,
            max_hops: report.max_hops,
            average_hops: report.average_hops,
            link_load_max: report.load.max,
            link_load_mean: report.load.mean,
        },
        gpu: None,
    }
}

fn write_text(
    out: &mut dyn Write,
    planned: &Planned,
    topology: &Topology,
    report: &Report,
) -> io::Result<()> {
    let (fabric, timing, verdict) = (&planned.fabric, &planned.timing_ms, &planned.verify);
    writeln!(
        out,
        "fabric   {} switches, {} CAs, {} routers, {} links, {} LIDs up to {}",
        fabric.switches,
        fabric.cas,
        fabric.routers,
        fabric.links,
        fabric.lids,
        topology.top_lid()
    )?;
    writeln!(out, "engine   {}", planned.engine.reason)?;
    writeln!(
        out,
        "paths    {} pairs reachable, {} not although cabled, {} without a cable path; {} hops at most, {:.2} on average",
        verdict.reachable_pairs,
        verdict.unreachable_pairs,
        verdict.disconnected_pairs,
        verdict.max_hops,
        verdict.average_hops
    )?;
    writeln!(
        out,
        "switches {} pairs of switches reachable, {} not although cabled (they carry no data)",
        verdict.switch_pairs_reachable, verdict.switch_pairs_unreachable
    )?;
    let yes = |good: bool, what: &str| {
        if good {
            format!("no {what}")
        } else {
            format!("{what}S FOUND")
        }
    };
    writeln!(
        out,
        "proof    {}, {}",
        yes(verdict.loop_free, "forwarding loop"),
        yes(verdict.credit_loop_free, "credit loop")
    )?;
    for witness in &report.witnesses {
        writeln!(out, "         {witness:?}")?;
    }
    writeln!(
        out,
        "load     {} paths on the fullest link, {:.1} on the mean one",
        verdict.link_load_max, verdict.link_load_mean
    )?;
    writeln!(
        out,
        "time     read {:.1} ms, model {:.1} ms, route {:.1} ms, verify {:.1} ms, total {:.1} ms",
        timing.read, timing.model, timing.route, timing.verify, timing.total
    )?;
    if let Some(bytes) = planned.memory_peak_bytes {
        writeln!(out, "memory   {:.1} MB at most", bytes as f64 / 1e6)?;
    }
    match &planned.gpu {
        Some(gpu) => gpu.write(out),
        None => Ok(()),
    }
}

/// The most memory that this process had resident so far, if the system tells.
fn memory_peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
