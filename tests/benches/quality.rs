//! How well rsm's engines and OpenSM's spread traffic, and how long they take, on the same fabrics.
//!
//! `cargo bench -p rsm-tests --bench quality [-- [--net FILE | --spec SPEC] [--only ENGINE] [--rounds N]]`.
//! Without a fabric: every real one of the collection with over 100 hosts that ibsim loads, and a
//! fat tree of 3,456 hosts; each intact and broken. OpenSM routes on ibsim, and its dump is judged by
//! the code that judges rsm's tables. OpenSM's time is from its log, from the start of routing
//! until its tables are handed to those who send them; rsm's is the median of some rounds.

mod options;

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use rsm_ids::Guid;
use rsm_routing::engine::{self, EngineKind};
use rsm_routing::netlist::{Netlist, NodeKind};
use rsm_routing::quality::{Quality, Settings, judge};
use rsm_routing::tables::Tables;
use rsm_routing::topology::Topology;
use rsm_routing::verify::{Report, verify};
use rsm_routing::{generate, ibnetdiscover, lfts};
use rsm_tests::clock::Stopwatch;
use rsm_tests::fabrics;
use rsm_tests::ibsim::Ibsim;
use rsm_tests::measure::{median, milliseconds};
use rsm_tests::sm::opensm_routes;
use serde_json::{Value, json};

use options::Options;

type AnyError = Box<dyn std::error::Error>;

/// The fabric of the comparison beside real ones.
const DEFAULT_SPEC: &str = "fat-tree:k=24,levels=3";

/// Real fabrics with fewer hosts show nothing.
const HOSTS: usize = 100;

/// Files of the collection that ibsim does not take, or has as another file that it does.
const LEFT_OUT: [&str; 2] = ["superbench-faked-hdr-full.txt", "nvidia-dgx-ndr-p1.txt"];

/// What is broken; the first is nothing.
const FAULTS: [&str; 5] = [
    "",
    "links=1,seed=1",
    "switches=1,seed=1",
    "links=1%,seed=1",
    "links=5%,seed=1",
];

/// OpenSM's engines.
const OPENSM: [&str; 5] = ["minhop", "updn", "ftree", "dfsssp", "nue"];

/// Longest OpenSM may take.
const LIMIT: Duration = Duration::from_secs(240);

fn main() -> Result<(), AnyError> {
    let options = Options::from_arguments(5)?;
    let directory = tempfile::tempdir()?;
    let mut out = std::io::stdout();
    let mut rows = Vec::new();
    for (name, netlist) in fabrics(&options)? {
        for faults in FAULTS {
            let broken = match faults {
                "" => netlist.clone(),
                faults => generate::fail(netlist.clone(), faults)?,
            };
            let title = if faults.is_empty() { "intact" } else { faults };
            writeln!(out, "\n{name}, {title}\n{}", Row::heading())?;
            for row in contest(&options, &broken, directory.path())? {
                writeln!(out, "{row}")?;
                rows.push(row.json(&name, title));
            }
            out.flush()?;
        }
    }
    writeln!(out, "\n{}", json!({ "bench": "quality", "rows": rows }))?;
    Ok(())
}

/// The fabrics to compare on, by name.
fn fabrics(options: &Options) -> Result<Vec<(String, Netlist)>, AnyError> {
    if let Some(spec) = options.given_spec() {
        return Ok(vec![(spec.to_owned(), generate::generate(spec)?)]);
    }
    let files = match options.file() {
        Some(file) => vec![file.to_owned()],
        None => fabrics::real_topologies()?,
    };
    let mut found = Vec::new();
    for file in &files {
        let name = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let netlist = ibnetdiscover::parse(&std::fs::read(file)?, &name)?.netlist;
        let hosts = netlist
            .nodes()
            .iter()
            .filter(|node| node.kind == NodeKind::Ca && !node.is_aggregation_node());
        if options.file().is_some() || (hosts.count() > HOSTS && !LEFT_OUT.contains(&name.as_str()))
        {
            found.push((name, netlist));
        }
    }
    if options.file().is_none() {
        found.push((DEFAULT_SPEC.to_owned(), generate::generate(DEFAULT_SPEC)?));
    }
    Ok(found)
}

/// Everybody's tables for one fabric, judged.
fn contest(options: &Options, netlist: &Netlist, directory: &Path) -> Result<Vec<Row>, AnyError> {
    let netlist = as_ibsim_numbers(netlist);
    let topology = Topology::from_netlist(&netlist)?;
    let mut rows = Vec::new();
    for kind in EngineKind::ALL {
        let name = format!("rsm {kind}");
        if !options.takes_part(&name) {
            continue;
        }
        let mut times = Vec::new();
        let mut made = None;
        for _ in 0..options.rounds() {
            let watch = Stopwatch::start();
            made = Some(engine::route(
                kind,
                &topology,
                &engine::Options::default(),
                None,
            ));
            times.push(milliseconds(watch.elapsed()));
        }
        rows.push(match made {
            Some(Ok(routing)) => {
                let row = Row::judged(&topology, name, &routing.tables, median(&times));
                Row {
                    used: routing.engine.to_owned(),
                    ..row
                }
            }
            Some(Err(error)) => Row::failed(name, error.to_string()),
            None => continue,
        });
    }
    let net = directory.join("fabric.net");
    let mut text = Vec::new();
    ibnetdiscover::write(&netlist, &mut text)?;
    std::fs::write(&net, text)?;
    for engine in OPENSM {
        let name = format!("opensm {engine}");
        if !options.takes_part(&name) {
            continue;
        }
        let ibsim = Ibsim::start(&net)?;
        let routes = match opensm_routes(&ibsim, ibsim.hosts()[0], engine, LIMIT) {
            Ok(routes) => routes,
            Err(error) => {
                rows.push(Row::failed(name, error.to_string()));
                continue;
            }
        };
        let fit = lfts::parse(&routes.dump, "opensm-lfts.dump")?.fit(&topology);
        let unfit = fit.unknown_lids + fit.unknown_switches.len() + fit.missing_ports;
        if unfit > 0 {
            return Err(format!("{name}: {unfit} parts of its dump do not fit the fabric").into());
        }
        let row = Row::judged(&topology, name, &fit.tables, milliseconds(routes.route));
        rows.push(Row {
            used: routes.engine,
            ..row
        });
    }
    Ok(rows)
}

/// With the port GUIDs that ibsim gives to ports whatever the file says, so that its dumps name ports
/// that the fabric has; as it was, where two ports would share one.
fn as_ibsim_numbers(netlist: &Netlist) -> Netlist {
    let (mut nodes, cables) = netlist.clone().into_parts();
    for node in nodes
        .iter_mut()
        .filter(|node| node.kind != NodeKind::Switch)
    {
        let Guid(guid) = node.guid;
        for (port, spec) in &mut node.ports {
            spec.guid = Guid(guid + u64::from(port.0));
        }
    }
    Netlist::new(nodes, cables).unwrap_or_else(|_| netlist.clone())
}

/// One engine's tables on one fabric.
struct Row {
    engine: String,
    /// Who routed in the end.
    used: String,
    outcome: Result<(Quality, Report), String>,
    route_ms: f64,
}

impl Row {
    fn judged(topology: &Topology, engine: String, tables: &Tables, route_ms: f64) -> Row {
        let settings = Settings {
            seed: 1,
            rails: Vec::new(),
        };
        let quality = judge(topology, tables, &settings);
        Row {
            engine,
            used: String::new(),
            outcome: Ok((quality, verify(topology, tables))),
            route_ms,
        }
    }

    fn failed(engine: String, error: String) -> Row {
        Row {
            engine,
            used: String::new(),
            outcome: Err(error),
            route_ms: 0.0,
        }
    }

    fn heading() -> String {
        format!(
            "{:<18} {:<12} {:>10} {:>9} {:>8} {:>6} {:>7} {:>7} {:>6} {:>6}  one VL",
            "engine",
            "routed by",
            "route ms",
            "paths",
            "max/mean",
            "shift",
            "mean",
            "random",
            "a2a",
            "lost"
        )
    }

    fn json(&self, fabric: &str, faults: &str) -> Value {
        let Ok((quality, report)) = &self.outcome else {
            return json!({ "fabric": fabric, "faults": faults, "engine": self.engine, "failed": true });
        };
        json!({
            "fabric": fabric, "faults": faults, "engine": self.engine, "used": self.used,
            "route_ms": self.route_ms, "paths_max": quality.paths.max,
            "paths_max_over_mean": quality.paths.max_over_mean(),
            "shift_max": quality.shift.max, "shift_mean": quality.shift.mean,
            "random_mean": quality.random.mean, "all_to_all": quality.all_to_all,
            "bisection": quality.bisection.mean, "lost_pairs": report.unreachable_pairs,
            "credit_loop_free": report.credit_loop_free,
        })
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (quality, report) = match &self.outcome {
            Ok(found) => found,
            Err(error) => {
                let first = error.lines().next().unwrap_or_default();
                return write!(f, "{:<18} no tables: {first:.120}", self.engine);
            }
        };
        write!(
            f,
            "{:<18} {:<12} {:>10.2} {:>9} {:>8.2} {:>6} {:>7.2} {:>7.2} {:>6} {:>6}  {}",
            self.engine,
            self.used,
            self.route_ms,
            quality.paths.max,
            quality.paths.max_over_mean(),
            quality.shift.max,
            quality.shift.mean,
            quality.random.mean,
            quality.all_to_all,
            report.unreachable_pairs,
            if report.credit_loop_free {
                "no credit loop"
            } else {
                "CREDIT LOOP"
            }
        )
    }
}
