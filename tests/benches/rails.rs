//! Measures the load of collective patterns of all GPUs of a SuperPOD: with hints and order on and
//! off, and with the tables of OpenSM.
//!
//! `cargo bench -p rsm-tests --bench rails [-- [--spec SPEC] [--only ENGINE]]` prints Markdown.
//! Every pattern runs on all rails at the same time; a cell has the maximum number of flows that
//! share a link between switches in one step, over all steps, and the share of the flows that stay
//! under one leaf. With hints, ranks are in the order of hosts and rails; without hints, hosts are
//! in the order of names and GPUs in the order of indices. OpenSM routes on ibsim, and the same
//! code measures its dump.

mod options;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rsm_gdr::fabric::GpuFabric;
use rsm_gdr::generate::{Fleet, FleetFaults, fleet, recabled, with_servers};
use rsm_gdr::host_order::{Blocks, HostPositions};
use rsm_gdr::job::{Pattern, PatternLoad};
use rsm_gdr::{Analysis, AnalysisConfig, Survey};
use rsm_ids::{Guid, PortNum};
use rsm_routing::engine::{self, Categories, EngineKind, Ranking};
use rsm_routing::netlist::Netlist;
use rsm_routing::tables::Tables;
use rsm_routing::topology::Topology;
use rsm_routing::verify::verify;
use rsm_routing::{generate, ibnetdiscover, lfts};
use rsm_tests::fabrics::as_ibsim_numbers;
use rsm_tests::ibsim::Ibsim;
use rsm_tests::sm::opensm_routes;

use options::Options;

type AnyError = Box<dyn std::error::Error>;

/// The default fabric: 1,024 GPUs.
const DEFAULT_SPEC: &str = "superpod";

const GPUS: usize = 8;

const OPENSM: [&str; 3] = ["ftree", "updn", "minhop"];

/// The time limit for a run of OpenSM.
const LIMIT: Duration = Duration::from_secs(120);

/// To find the worst single fault, the bench breaks one link in this many, each by itself.
const LINKS_IN: usize = 16;

/// A fabric with the inventories of its hosts.
struct Scene {
    name: &'static str,
    fleet: Fleet,
    /// The broken cables, each named by one end; empty if the fabric is intact.
    broken: Vec<(Guid, PortNum)>,
}

fn main() -> Result<(), AnyError> {
    let options = Options::from_arguments(1)?;
    let directory = tempfile::tempdir()?;
    let mut out = std::io::stdout();
    let netlist = generate::generate(options.spec(DEFAULT_SPEC))?;
    for scene in scenes(&netlist)? {
        writeln!(out, "\n### {}\n\n{}", scene.name, heading())?;
        for (engine, tables, positions) in routed(&options, &scene, directory.path())? {
            let topology = scene.topology()?;
            let verdict = match verify(&topology, &tables) {
                report if report.unreachable_pairs > 0 => "pairs lost",
                report if !report.credit_loop_free => "credit loop",
                _ => "sound",
            };
            let fabric = scene.fabric(topology, Some(tables), &positions);
            let analysis = Analysis::new(
                &scene.fleet.inventory,
                Some(fabric),
                AnalysisConfig::default(),
            );
            let loads = Pattern::ALL.map(|pattern| loads(&analysis, pattern));
            for (number, hints) in ["on", "off"].into_iter().enumerate() {
                let cells = loads.map(|loads| cell(loads[number]));
                writeln!(
                    out,
                    "| {engine} | {hints} | {} | {verdict} |",
                    cells.join(" | ")
                )?;
            }
            out.flush()?;
        }
    }
    writeln!(out, "\n### Any one fault\n\n{}", single_faults(&netlist)?)?;
    Ok(())
}

fn heading() -> String {
    let names = Pattern::ALL.map(|pattern| format!("{pattern}"));
    format!(
        "| tables | hints | {} | proof |\n|---|---|{}---|",
        names.join(" | "),
        "---|".repeat(names.len())
    )
}

fn cell(load: Option<PatternLoad>) -> String {
    match load {
        None => "-".to_owned(),
        Some(load) if load.lost > 0 => format!("{} flows lost", load.lost),
        Some(load) => {
            let local = 100.0 * load.leaf_local_share();
            format!("{} ({local:.1} % local)", load.worst_link)
        }
    }
}

/// The scenes: the generated fabric, with GPUs in other orders, with irregular cabling, and broken.
fn scenes(netlist: &Netlist) -> Result<Vec<Scene>, AnyError> {
    let permuted = FleetFaults {
        gpu_order: 26,
        seed: 1,
        ..FleetFaults::default()
    };
    let built = recabled(with_servers(netlist.clone(), 4, 32)?, 1)?;
    let scene = |name, netlist: &Netlist, faults| -> Result<Scene, AnyError> {
        Ok(Scene {
            name,
            fleet: fleet(as_ibsim_numbers(netlist), faults)?,
            broken: Vec::new(),
        })
    };
    let intact = || scene("", netlist, FleetFaults::default());
    let topology = intact()?.topology()?;
    let cables = topology.cables();
    let link = cables.first().map(|cable| cable.a);
    let spine = spines(&topology).into_iter().next();
    Ok(vec![
        Scene {
            name: "Intact",
            ..intact()?
        },
        scene(
            "GPUs of one host in five in another order",
            netlist,
            permuted,
        )?,
        scene(
            "Hosts cabled in no order, 4 storage servers at each leaf",
            &built,
            FleetFaults::default(),
        )?,
        Scene {
            name: "One link gone",
            broken: link.into_iter().collect(),
            ..intact()?
        },
        Scene {
            name: "One spine gone",
            broken: spine
                .map(|spine| cables_of(&topology, spine))
                .unwrap_or_default(),
            ..intact()?
        },
    ])
}

/// The switches without hosts.
fn spines(topology: &Topology) -> Vec<Guid> {
    let without_hosts = topology
        .indices()
        .filter(|&switch| topology.hosts(switch) == 0);
    without_hosts
        .map(|switch| topology.switch(switch).guid)
        .collect()
}

/// The cables of a switch, each named by one end.
fn cables_of(topology: &Topology, switch: Guid) -> Vec<(Guid, PortNum)> {
    let cables = topology.cables().into_iter();
    let own = cables.filter(|cable| cable.a.0 == switch || cable.b.0 == switch);
    own.map(|cable| cable.a).collect()
}

impl Scene {
    fn topology(&self) -> Result<Topology, AnyError> {
        let topology = Topology::from_netlist(&self.fleet.netlist)?;
        Ok(topology.without_cables(&self.broken))
    }

    fn fabric(
        &self,
        topology: Topology,
        tables: Option<Tables>,
        positions: &Arc<HostPositions>,
    ) -> GpuFabric {
        let tables = tables.map(Arc::new);
        let mut fabric =
            GpuFabric::from_netlist(&self.fleet.netlist, Arc::new(topology), tables, 4096);
        fabric.positions = positions.clone();
        fabric
    }

    fn positions(&self) -> Result<Arc<HostPositions>, AnyError> {
        let intact = Topology::from_netlist(&self.fleet.netlist)?;
        let fabric = self.fabric(intact, None, &Arc::default());
        let survey = Survey::new(
            &self.fleet.inventory,
            Some(&fabric),
            &AnalysisConfig::default(),
        );
        let blocks = Blocks::find(&survey, &fabric, &Categories::new());
        Ok(Arc::new(HostPositions::default().with(&blocks, &fabric)))
    }
}

/// The load of a pattern of all hosts, with hints and without hints; `None` if no job could be
/// planned.
fn loads(analysis: &Analysis, pattern: Pattern) -> [Option<PatternLoad>; 2] {
    let request = analysis.job_request(Vec::new(), GPUS, pattern);
    match analysis.plan(&request) {
        Ok(plan) => [plan.load, plan.load_as_given],
        Err(_) => [None, None],
    }
}

/// The name of a contender, its tables, and the positions that order hosts for ranks.
type Routed = (String, Tables, Arc<HostPositions>);

fn routed(options: &Options, scene: &Scene, directory: &Path) -> Result<Vec<Routed>, AnyError> {
    let positions = scene.positions()?;
    let mut contenders = Vec::new();
    for (name, positions) in [
        ("rsm fabric-tree, order on", positions.clone()),
        ("rsm fabric-tree, order off", Arc::default()),
    ] {
        if options.takes_part(name) {
            let intact = Topology::from_netlist(&scene.fleet.netlist)?;
            let before = route(&intact, &positions, None)?;
            let (tables, _) = route(&scene.topology()?, &positions, before.1)?;
            contenders.push((name.to_owned(), tables, positions));
        }
    }
    let net = directory.join("fabric.net");
    let broken = without(&scene.fleet.netlist, &scene.broken)?;
    let mut text = Vec::new();
    ibnetdiscover::write(&broken, &mut text)?;
    std::fs::write(&net, text)?;
    for engine in OPENSM {
        let name = format!("opensm {engine}");
        if !options.takes_part(&name) {
            continue;
        }
        let ibsim = Ibsim::start(&net)?;
        let routes = opensm_routes(&ibsim, ibsim.hosts()[0], engine, LIMIT)?;
        let fitted = lfts::parse(&routes.dump, "opensm-lfts.dump")?.fit(&scene.topology()?);
        let unfit_count =
            fitted.unknown_lids + fitted.unknown_switches.len() + fitted.missing_ports;
        if unfit_count > 0 {
            return Err(
                format!("{name}: {unfit_count} entries of its dump do not fit the fabric").into(),
            );
        }
        let name = match routes.engine {
            used_engine if used_engine == engine => name,
            used_engine => format!("{name}, routed by {used_engine}"),
        };
        contenders.push((name, fitted.tables, positions.clone()));
    }
    Ok(contenders)
}

fn route(
    topology: &Topology,
    positions: &HostPositions,
    previous_ranking: Option<Ranking>,
) -> Result<(Tables, Option<Ranking>), AnyError> {
    let options = engine::Options {
        numbers: Arc::new(positions.numbers()),
        previous_ranking,
        ..engine::Options::default()
    };
    let routing = engine::route(EngineKind::FabricTree, topology, &options, None)?;
    Ok((routing.tables, routing.ranking))
}

/// The fabric without the cables that have an end in `ends`.
fn without(netlist: &Netlist, ends: &[(Guid, PortNum)]) -> Result<Netlist, AnyError> {
    let (nodes, cables) = netlist.clone().into_parts();
    let is_removed = |end: (usize, PortNum)| ends.contains(&(nodes[end.0].guid, end.1));
    let kept_cables = cables
        .iter()
        .filter(|cable| !is_removed(cable.a) && !is_removed(cable.b));
    let cables = kept_cables.copied().collect();
    Ok(Netlist::new(nodes, cables)?)
}

/// The worst load with rsm's tables after the loss of any one of some links, and of any one spine.
/// Returns a Markdown table.
fn single_faults(netlist: &Netlist) -> Result<String, AnyError> {
    let mut scene = Scene {
        name: "",
        fleet: fleet(netlist.clone(), FleetFaults::default())?,
        broken: Vec::new(),
    };
    let positions = scene.positions()?;
    let intact = scene.topology()?;
    let (_, ranking) = route(&intact, &positions, None)?;
    let links: Vec<_> = intact
        .cables()
        .iter()
        .step_by(LINKS_IN)
        .map(|cable| vec![cable.a])
        .collect();
    let spines: Vec<_> = spines(&intact)
        .into_iter()
        .map(|spine| cables_of(&intact, spine))
        .collect();
    let patterns = Pattern::ALL.map(|pattern| format!("{pattern}")).join(" | ");
    let mut lines = format!("| lost | tries | {patterns} |\n|---|---|---|---|---|---|\n");
    for (what, faults) in [("a link", links), ("a spine", spines)] {
        let mut worst = [0; Pattern::ALL.len()];
        for fault in &faults {
            scene.broken.clone_from(fault);
            let topology = scene.topology()?;
            let (tables, _) = route(&topology, &positions, ranking.clone())?;
            let fabric = scene.fabric(topology, Some(tables), &positions);
            let analysis = Analysis::new(
                &scene.fleet.inventory,
                Some(fabric),
                AnalysisConfig::default(),
            );
            for (worst, pattern) in worst.iter_mut().zip(Pattern::ALL) {
                let load = loads(&analysis, pattern)[0].unwrap_or_default();
                *worst = load.worst_link.max(*worst);
            }
        }
        let cells = worst.map(|worst| worst.to_string()).join(" | ");
        lines.push_str(&format!("| {what} | {} | {cells} |\n", faults.len()));
    }
    Ok(lines)
}
