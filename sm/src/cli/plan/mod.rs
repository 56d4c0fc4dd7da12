//! `rsm plan`: routes without hardware.

mod adaptive;
mod compare;
mod loss;
mod picture;
mod quality;
mod report;
mod stopwatch;
mod tables;
mod verdict;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use adaptive::Before;
use clap::Args;
use rsm_config::{
    RoutingConfig, load_categories, load_guid_file, load_port_order, load_switch_rules,
    load_torus_layout,
};
use rsm_ids::{Guid, PortNum};
use rsm_model::fabric::Fabric;
use rsm_plan::lids::{self, Claims, LidPlan};
use rsm_plan::measured;
use rsm_plan::order::{HostOrder, HostOrderSources};
use rsm_plan::policy::{OrderPolicy, Policy};
use rsm_plan::{self};
use rsm_routing::engine::{self, EngineKind, Options};
use rsm_routing::generate;
use rsm_routing::ibnetdiscover::Strictness;
use rsm_routing::lanes::Lanes;
use rsm_routing::netlist::{Netlist, NodeKind};
use rsm_routing::quality::{Quality, Settings, measure};
use rsm_routing::tables::Tables;
use rsm_routing::topology::Topology;
use rsm_routing::verify::{Report, verify_on_lanes};
use stopwatch::Stopwatch;

use super::Format;
use super::gpu::{self, Summary};
use super::output::{print, print_json, show_warnings};
use crate::offline;

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct PlanArgs {
    /// A file in ibnetdiscover's or ibsim's format, or a generator such as superpod or
    /// pgft:2;18,36;1,18;1,1
    fabric: String,
    /// Leave out lines of the file that cannot be read, with the nodes and cables that need them,
    /// and report each
    #[arg(long)]
    lenient: bool,
    /// The routing engine, by name
    #[arg(long, default_value_t, value_name = "NAME")]
    engine: EngineKind,
    /// The file of the switches at the top, a GUID on each line
    #[arg(long, value_name = "FILE")]
    root_guid_file: Option<PathBuf>,
    /// LID mask control, 0 to 7
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=7))]
    lmc: u8,
    /// The faults to put into the fabric first, such as links=1%,switches=2,seed=7
    #[arg(long, value_name = "FAULTS")]
    fail: Option<String>,
    /// Measure the tables in this file in place of routing: OpenSM's opensm-lfts.dump, or the
    /// output of ibroute or dump_fts. With --compare these tables count as one more engine
    #[arg(long, value_name = "FILE", conflicts_with_all = ["engine", "whatif"])]
    tables: Option<PathBuf>,
    /// Measure how the routes spread traffic: links, shifts, permutations, bisections, collectives
    #[arg(long)]
    quality: bool,
    /// The seed of the random traffic of --quality and --compare
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    seed: u64,
    /// Route with each of these engines, and compare how they spread traffic
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with_all = ["whatif", "svg"])]
    compare: Vec<EngineKind>,
    /// Print the consequence of losing a cable or a node: unlink=NODE:PORT or remove=NODE
    #[arg(long, value_name = "LOSS", conflicts_with = "svg")]
    whatif: Option<loss::LossSpec>,
    /// Draw the fabric by ranks, with the load of its links, into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Inventories of GPU hosts, as for `rsm gpu --inventory`: the report then has rails and
    /// findings
    #[arg(long, value_name = "PATH", conflicts_with = "whatif")]
    gpu: Option<PathBuf>,
    /// The file of the purposes of ports: on each line a port GUID and compute, storage or
    /// management
    #[arg(long, value_name = "FILE")]
    categories: Option<PathBuf>,
    /// The file of the order in which routes to ports of hosts are spread, a port GUID on each line
    #[arg(long, value_name = "FILE")]
    port_order_file: Option<PathBuf>,
    /// The file of the weights of hops: on each line a switch GUID, a port and a number of hops
    #[arg(long, value_name = "FILE")]
    hop_weights_file: Option<PathBuf>,
    /// The file of the ports whose load does not count: on each line a switch GUID and a port
    #[arg(long, value_name = "FILE")]
    uncounted_ports_file: Option<PathBuf>,
    /// The file of the numbers by which up*/down* orders switches: a switch GUID and a number
    #[arg(long, value_name = "FILE")]
    switch_ids_file: Option<PathBuf>,
    /// The file of the layout of a torus or mesh, in the format of OpenSM's torus-2QoS.conf
    #[arg(long, value_name = "FILE")]
    torus_file: Option<PathBuf>,
    /// Do not spread routes to hosts with several ports in the order of hosts and rails
    #[arg(long)]
    no_rails: bool,
    /// Give two switches that carry nothing a path between their own ports as well
    #[arg(long)]
    connect_roots: bool,
    /// Plan and prove groups for adaptive routing beside the routes; with --fail also what the
    /// faults change. Nothing goes to a switch
    #[arg(long, conflicts_with_all = ["whatif", "compare", "tables"])]
    adaptive: bool,
    /// How many groups each switch holds, the empty one included
    #[arg(long, value_name = "NUMBER", default_value_t = 4096, requires = "adaptive",
        value_parser = clap::value_parser!(u16).range(2..=4096))]
    adaptive_groups: u16,
    /// Write these groups into this file, with the port and the group of each LID at each switch
    #[arg(long, value_name = "FILE", requires = "adaptive")]
    adaptive_file: Option<PathBuf>,
    /// The format of the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

const EXAMPLES: &str = "\
Examples:
  rsm plan fabric.txt --quality --svg fabric.svg
  rsm plan fat-tree:k=24,levels=3 --compare minhop,updn --fail links=1%,seed=7
  rsm plan fabric.txt --tables opensm-lfts.dump --compare auto
  rsm plan fabric.txt --adaptive --quality --fail links=1,seed=7
  rsm plan fabric.txt --gpu dgx.txt --categories categories.txt
  rsm plan damaged.txt --lenient
  rsm plan fabric.txt --whatif unlink=leaf-03:33
  rsm plan fabric.txt --whatif remove=0x0002c90300001234";

/// Fabric with LIDs, ready to be routed, and the inputs of engines and measurements.
struct Bench {
    fabric: Fabric,
    lids: LidPlan,
    netlist: Netlist,
    /// Switches at both ends of the cables that [`PlanArgs::fail`] has removed.
    missing: Vec<(Guid, Guid)>,
    topology: Arc<Topology>,
    policy: Policy,
    order: HostOrder,
    options: Options,
    /// Settings of measurements: [`PlanArgs::seed`], and the names of the adapters.
    settings: Settings,
    /// Time for reading the fabric.
    read: Duration,
    /// Time for the model, the LIDs and the order of hosts.
    model: Duration,
}

/// Tables, with their proof and measurements.
struct Measured {
    tables: Tables,
    /// Engine that made the tables.
    engine: &'static str,
    /// Reason that the engine gives, or the source of the tables.
    reason: String,
    /// Level of each switch; `None` where the engine does not route by levels.
    ranks: Option<Vec<u8>>,
    report: Report,
    quality: Option<Quality>,
    adaptive: Option<adaptive::Adaptive>,
    /// Time in which the tables were made or read.
    route: Duration,
    /// Time of the proof.
    verify: Duration,
}

/// Routes the fabric, and prints the report. Fails if the tables are not sound.
pub(super) fn run(args: &PlanArgs) -> anyhow::Result<ExitCode> {
    show_warnings();
    let (bench, before) = match &args.fail {
        Some(faults) if args.adaptive => {
            let intact = prepare(args, None, None)?;
            let before = Before::of(intact, args.engine, args.adaptive_groups)?;
            (prepare(args, Some(faults), Some(&before))?, Some(before))
        }
        faults => (prepare(args, faults.as_deref(), None)?, None),
    };
    for finding in &bench.lids.findings {
        tracing::warn!("{}", finding.text);
    }
    if let Some(loss) = &args.whatif {
        return loss::run(&bench, loss, args.format);
    }
    if !args.compare.is_empty() {
        return compare::run(&bench, &args.compare, args.tables.as_deref(), args.format);
    }
    let measured = match &args.tables {
        Some(file) => tables::measure(&bench, file, args.quality)?,
        None if args.adaptive => route_adaptively(&bench, before.as_ref(), args)?,
        None => route(&bench, args.engine, args.quality)?,
    };
    if let Some(file) = &args.svg {
        picture::write(file, args, &bench, &measured)?;
    }
    if let (Some(file), Some(adaptive)) = (&args.adaptive_file, &measured.adaptive) {
        adaptive.write_file(file, &bench.topology, &measured.tables)?;
    }
    let gpu = args.gpu.is_some().then(|| gpu_summary(&bench, &measured));
    match args.format {
        Format::Json => print_json(&report::planned(&bench, &measured, gpu))?,
        Format::Text => print(|out| report::write_text(out, &bench, &measured, gpu))?,
    }
    Ok(exit_code(measured.is_sound()))
}

/// Rails and findings of the inventory on the measured tables.
fn gpu_summary(bench: &Bench, measured: &Measured) -> Summary {
    let tables = Arc::new(measured.tables.clone());
    let analysis = gpu::analyze(&bench.order, &bench.netlist, &bench.topology, tables, None);
    Summary::of(&analysis)
}

/// Success if the tables are sound.
fn exit_code(is_sound: bool) -> ExitCode {
    if is_sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Prepares the fabric with `faults`. `before` supplies the manager's memory of the fabric without
/// faults.
fn prepare(
    args: &PlanArgs,
    faults: Option<&str>,
    before: Option<&Before>,
) -> anyhow::Result<Bench> {
    let mut watch = Stopwatch::start();
    let netlist = offline::load_as(&args.fabric, Strictness::lenient_if(args.lenient))?;
    let (netlist, missing) = match faults {
        Some(faults) => with_faults(netlist, faults)?,
        None => (netlist, Vec::new()),
    };
    let read = watch.lap();
    let policy = policy(args)?;
    let fabric = Fabric::of_netlist(&netlist);
    let claims = before.map_or_else(Claims::new, Before::claims);
    let lids = lids::assign(&fabric, &claims, &policy);
    let topology = rsm_plan::topology(&fabric, &lids, &BTreeSet::new())?;
    let topology = Arc::new(topology.with_rules(policy.switch_rules.clone()));
    let sources = HostOrderSources {
        gpus: match &args.gpu {
            Some(path) => gpu::inventory(path)?,
            None => Arc::default(),
        },
        policy: policy.order.clone(),
    };
    let positions = before.map(|before| before.bench.order.positions.clone());
    let order = HostOrder::new(&fabric, &topology, sources, &positions.unwrap_or_default());
    let model = watch.lap();
    let settings = measured::settings(&fabric, &topology, &order, args.seed, None);
    Ok(Bench {
        fabric,
        lids,
        netlist,
        topology,
        options: Options {
            root_guids: policy.root_guids.clone(),
            categories: order.categories.clone(),
            numbers: order.numbers.clone(),
            listed: policy.order.listed.clone(),
            layout: policy.layout.clone(),
            connect_roots: args.connect_roots,
            shortest_only: args.adaptive,
            ..Options::default()
        },
        policy,
        order,
        settings,
        missing,
        read,
        model,
    })
}

/// Fabric with `faults`, and the switches at both ends of the removed cables.
fn with_faults(netlist: Netlist, faults: &str) -> anyhow::Result<(Netlist, Vec<(Guid, Guid)>)> {
    let intact = switch_cables(&netlist);
    let netlist = generate::fail(netlist, faults)?;
    let left: BTreeSet<_> = switch_cables(&netlist).into_iter().collect();
    let gone = intact.into_iter().filter(|cable| !left.contains(cable));
    let missing = gone.map(|[a, b]| (a.0, b.0)).collect();
    Ok((netlist, missing))
}

/// Policy of the planner from the command line and the files that it names.
fn policy(args: &PlanArgs) -> anyhow::Result<Policy> {
    let root_guids = root_guids(args.root_guid_file.as_deref())?;
    let files = RoutingConfig {
        port_order_file: args.port_order_file.clone(),
        hop_weights_file: args.hop_weights_file.clone(),
        uncounted_ports_file: args.uncounted_ports_file.clone(),
        switch_ids_file: args.switch_ids_file.clone(),
        torus_file: args.torus_file.clone(),
        ..RoutingConfig::default()
    };
    Ok(Policy {
        switch_rules: Arc::new(load_switch_rules(&files)?),
        order: OrderPolicy {
            categories: match &args.categories {
                Some(file) => Arc::new(load_categories(file)?),
                None => Arc::default(),
            },
            rails: !args.no_rails,
            listed: Arc::new(load_port_order(&files)?),
            ..OrderPolicy::default()
        },
        layout: load_torus_layout(&files)?.map(Arc::new),
        lmc: rsm_ids::Lmc::new(args.lmc)?,
        engine: args.engine,
        root_guids,
        connect_roots: args.connect_roots,
        ..Policy::default()
    })
}

/// Cables between switches, as pairs of ends.
fn switch_cables(netlist: &Netlist) -> Vec<[(Guid, PortNum); 2]> {
    let nodes = netlist.nodes();
    let cables = netlist.cables().iter().map(|cable| [cable.a, cable.b]);
    let between = cables.filter(|ends| {
        ends.iter()
            .all(|&(node, _)| nodes[node].kind == NodeKind::Switch)
    });
    between
        .map(|ends| ends.map(|(node, port)| (nodes[node].guid, port)))
        .collect()
}

/// Reads the file of root GUIDs; empty without a file.
fn root_guids(file: Option<&Path>) -> anyhow::Result<Vec<Guid>> {
    match file {
        Some(file) => Ok(load_guid_file(file)?.into_iter().collect()),
        None => Ok(Vec::new()),
    }
}

/// Routes with an engine, and measures the tables.
fn route(bench: &Bench, kind: EngineKind, quality: bool) -> anyhow::Result<Measured> {
    let mut watch = Stopwatch::start();
    let routing = engine::route(kind, &bench.topology, &bench.options, None)?;
    let route = watch.lap();
    Ok(Measured {
        engine: routing.engine,
        reason: routing.reason,
        ranks: routing.ranks,
        ..Measured::of(bench, routing.tables, &routing.lanes, route, quality)
    })
}

/// Routes, and plans groups for adaptive routing as well.
fn route_adaptively(
    bench: &Bench,
    before: Option<&Before>,
    args: &PlanArgs,
) -> anyhow::Result<Measured> {
    let options = before.map(|before| before.options(&bench.options));
    let options = options.as_ref().unwrap_or(&bench.options);
    let mut watch = Stopwatch::start();
    let routing = engine::route(args.engine, &bench.topology, options, None)?;
    let route = watch.lap();
    let groups = adaptive::of(bench, &routing, before, args.adaptive_groups, args.quality)?;
    Ok(Measured {
        engine: routing.engine,
        reason: routing.reason,
        ranks: routing.ranks,
        adaptive: Some(groups),
        ..Measured::of(bench, routing.tables, &routing.lanes, route, args.quality)
    })
}

impl Measured {
    /// Measures tables on the virtual lanes that the tables need. `route` is the time in which the
    /// tables were made or read.
    fn of(
        bench: &Bench,
        tables: Tables,
        lanes: &Lanes,
        route: Duration,
        quality: bool,
    ) -> Measured {
        let mut watch = Stopwatch::start();
        let report = verify_on_lanes(&bench.topology, &tables, lanes).report;
        let verify = watch.lap();
        let quality = quality.then(|| measure(&bench.topology, &tables, &bench.settings));
        Measured {
            tables,
            engine: "",
            reason: String::new(),
            ranks: None,
            report,
            quality,
            adaptive: None,
            route,
            verify,
        }
    }

    /// Whether the tables have no loops and reach every pair, and the groups are proven.
    fn is_sound(&self) -> bool {
        let report = &self.report;
        let adaptive = self.adaptive.as_ref();
        report.loop_free
            && report.credit_loop_free
            && report.unreachable_pairs == 0
            && adaptive.is_none_or(adaptive::Adaptive::is_sound)
    }
}
