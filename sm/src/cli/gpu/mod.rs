//! `rsm gpu`: analysis of GPU hosts without hardware.

mod load;
mod report;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
pub(super) use report::Summary;
use rsm_api::node_list;
use rsm_config::load_categories;
use rsm_gdr::fabric::GpuFabric;
use rsm_gdr::findings::Severity;
use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::import::to_json;
use rsm_gdr::job::Pattern;
use rsm_gdr::render::{self, EXPORTERS, ExportOptions, Exporter, JOB_FILES, JobFile, NcclVersion};
use rsm_gdr::{Analysis, AnalysisConfig};
use rsm_model::fabric::Fabric;
use rsm_plan::lids::{self, Claims};
use rsm_plan::order::{HostOrder, HostOrderSources, roles};
use rsm_plan::policy::{OrderPolicy, Policy};
use rsm_routing::engine::{self, Categories, EngineKind, Options};
use rsm_routing::ibnetdiscover::Strictness;
use rsm_routing::netlist::Netlist;
use rsm_routing::tables::Tables;
use rsm_routing::topology::Topology;

use super::Format;
use super::output::{print, print_json, show_warnings};
use crate::offline;

/// MTU in bytes that is assumed for every port, because no file states one.
const MTU: u16 = 4096;

#[derive(Args, Debug)]
pub(super) struct GpuArgs {
    #[command(subcommand)]
    command: Command,
    /// A folder with a file for each host, or one file that describes every host
    #[arg(long, global = true, value_name = "PATH")]
    inventory: Option<PathBuf>,
    /// The file of the purposes of ports, as routing.categories_file names it: on each line a port
    /// GUID and compute, storage or management
    #[arg(long, global = true, value_name = "FILE")]
    categories: Option<PathBuf>,
    /// The routing engine, by name
    #[arg(long, global = true, default_value_t, value_name = "NAME")]
    engine: EngineKind,
    /// Leave out lines of the fabric's file that cannot be read, with the nodes and cables that
    /// need them, and report each
    #[arg(long, global = true)]
    lenient: bool,
    /// The service level that files pin for collectives; without it they state none
    #[arg(long, global = true, value_name = "SL", value_parser = clap::value_parser!(u8).range(0..=15))]
    sl: Option<u8>,
    /// The format of the result
    #[arg(long, global = true, value_enum, default_value_t)]
    format: Format,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Read the files of one host, and print its inventory in rsm's own format
    Import {
        /// The output of `nvidia-smi topo -m`, `amd-smi topology`, `rocm-smi --showtopo` or
        /// `rsmctl gpu probe`, NCCL's or hwloc's XML, or JSON
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Units, rails and findings; exit code 1 if there is an error
    Check {
        /// A file in ibnetdiscover's format, or a generator such as superpod
        fabric: String,
    },
    /// The GPUs and ports of a host, and the port that each GPU should use
    Hints {
        /// A file in ibnetdiscover's format, or a generator such as superpod
        fabric: String,
        /// The host
        host: String,
    },
    /// The relation and the paths between two GPUs, or the ports of the GPUs of two hosts
    Pair {
        /// A file in ibnetdiscover's format, or a generator such as superpod
        fabric: String,
        /// A GPU, as HOST:INDEX, or a host
        from: String,
        /// Another GPU or host
        to: String,
    },
    /// The order of ranks for a job, and the load of its traffic
    Plan {
        /// A file in ibnetdiscover's format, or a generator such as superpod
        fabric: String,
        /// The hosts, as a list like gpu[001-064,070],login-1; all of them if left out
        #[arg(long, value_name = "HOSTS")]
        hosts: Vec<String>,
        /// The number of GPUs of each host
        #[arg(long, default_value_t = 8, value_name = "COUNT")]
        gpus: usize,
        /// The communication pattern: ring, tree, recursive-doubling or all-to-all
        #[arg(long, default_value = "ring")]
        pattern: Pattern,
        /// Print the job's file for a launcher instead
        #[arg(long, value_name = "FORMAT", value_parser = job_files())]
        file: Option<&'static JobFile>,
    },
    /// A file for another program
    Export {
        /// A file in ibnetdiscover's format, or a generator such as superpod
        fabric: String,
        /// The format of the file
        #[arg(value_parser = exporters())]
        file: &'static Exporter,
        /// The host, for formats of a single host
        #[arg(long, required_if_eq_any = host_exporters())]
        host: Option<String>,
        /// NCCL's version: only files for 2.30.7 and later have rails and planes
        #[arg(long, default_value = "2.30.7", value_name = "VERSION")]
        nccl: NcclVersion,
        /// The domain of Kubernetes' labels
        #[arg(long, default_value = ExportOptions::LABEL_DOMAIN, value_name = "DOMAIN")]
        prefix: String,
    },
}

/// Parses the name of a format of files for other programs.
fn exporters() -> impl TypedValueParser<Value = &'static Exporter> {
    let names = EXPORTERS
        .iter()
        .map(|exporter| PossibleValue::new(exporter.name).help(exporter.about));
    PossibleValuesParser::new(names)
        .try_map(|name| Exporter::named(&name).ok_or("expected the name of a format"))
}

/// Parses the name of a format of files for launchers.
fn job_files() -> impl TypedValueParser<Value = &'static JobFile> {
    let names = JOB_FILES
        .iter()
        .map(|file| PossibleValue::new(file.name).help(file.about));
    PossibleValuesParser::new(names)
        .try_map(|name| JobFile::named(&name).ok_or("expected the name of a format"))
}

/// Names of formats that describe a single host, with their descriptions.
fn host_exporters() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_host = EXPORTERS.iter().filter(|exporter| exporter.of_host);
    of_host.map(|exporter| ("file", exporter.name))
}

impl Command {
    /// Fabric that the command is about; `None` for commands without one.
    fn fabric(&self) -> Option<&str> {
        match self {
            Command::Import { .. } => None,
            Command::Check { fabric }
            | Command::Hints { fabric, .. }
            | Command::Pair { fabric, .. }
            | Command::Plan { fabric, .. }
            | Command::Export { fabric, .. } => Some(fabric),
        }
    }
}

/// Reads the inventories at a path; see `rsm gpu --inventory`.
///
/// # Errors
/// A file is no inventory.
pub(super) fn inventory(path: &Path) -> anyhow::Result<Arc<GpuInventory>> {
    Ok(Arc::new(load::inventory(path, 0)?))
}

/// Joins inventories with a fabric that is already routed, in the order of the fabric's compute
/// ports.
pub(super) fn analyze(
    order: &HostOrder,
    netlist: &Netlist,
    topology: &Arc<Topology>,
    tables: Arc<Tables>,
    sl: Option<u8>,
) -> Analysis {
    let mut fabric = GpuFabric::from_netlist(netlist, Arc::clone(topology), Some(tables), MTU);
    fabric.positions = order.positions.clone();
    let config = AnalysisConfig {
        sl,
        roles: roles(order.operator_categories()),
        ..AnalysisConfig::default()
    };
    Analysis::new(&order.gpus(), Some(fabric), config)
}

/// Runs a subcommand of `rsm gpu`, and prints its result.
pub(super) fn run(args: &GpuArgs) -> anyhow::Result<ExitCode> {
    show_warnings();
    if let Command::Import { files } = &args.command {
        let json = to_json(&load::merged(files)?);
        print(|out| writeln!(out, "{json}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let analysis = routed_analysis(args)?;
    match &args.command {
        Command::Import { .. } => {}
        Command::Check { .. } => return check(&analysis, args.format),
        Command::Hints { host, .. } => hints(&analysis, host, args.format)?,
        Command::Pair { from, to, .. } if !from.contains(':') && !to.contains(':') => {
            let pairs = render::host_pairs(&analysis, from, to)?;
            print(|out| out.write_all(pairs.as_bytes()))?;
        }
        Command::Pair { from, to, .. } => {
            let hint = analysis.pair(gpu(from)?, gpu(to)?)?;
            report::pair(&analysis, &hint, args.format)?;
        }
        Command::Plan {
            hosts,
            gpus,
            pattern,
            file,
            ..
        } => {
            let hosts = match hosts.is_empty() {
                true => Vec::new(),
                false => node_list::expand(hosts).map_err(anyhow::Error::msg)?,
            };
            let request = analysis.job_request(hosts, *gpus, *pattern);
            let plan = analysis.plan(&request)?;
            match file {
                None => report::plan(&analysis, &plan, args.format)?,
                Some(file) => {
                    for warning in &plan.warnings {
                        tracing::warn!("{warning}");
                    }
                    let text = file.render(&render::launched_ranks(&analysis, &plan));
                    print(|out| out.write_all(text.as_bytes()))?;
                }
            }
        }
        Command::Export {
            file,
            host,
            nccl,
            prefix,
            ..
        } => {
            let options = ExportOptions {
                host: host.clone().unwrap_or_default(),
                nccl: *nccl,
                label_domain: prefix.clone(),
            };
            let text = file.render(&analysis, &options)?;
            for warning in file.left_out(&analysis, &options) {
                tracing::warn!("{warning}");
            }
            print(|out| out.write_all(text.as_bytes()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Routes the fabric with an engine, and analyzes the inventory on it.
fn routed_analysis(args: &GpuArgs) -> anyhow::Result<Analysis> {
    let path = args
        .inventory
        .as_deref()
        .context("no inventory of GPU hosts: give a folder or a file with --inventory")?;
    let spec = args.command.fabric().unwrap_or_default();
    let categories = match &args.categories {
        Some(file) => load_categories(file)?,
        None => Categories::new(),
    };
    let netlist = offline::load_as(spec, Strictness::lenient_if(args.lenient))?;
    let model = Fabric::of_netlist(&netlist);
    let lids = lids::assign(&model, &Claims::new(), &Policy::default());
    let topology = Arc::new(rsm_plan::topology(&model, &lids, &BTreeSet::new())?);
    let sources = HostOrderSources {
        gpus: inventory(path)?,
        policy: OrderPolicy {
            categories: Arc::new(categories),
            ..OrderPolicy::default()
        },
    };
    let order = HostOrder::new(&model, &topology, sources, &Arc::default());
    let options = Options {
        categories: order.categories.clone(),
        numbers: order.numbers.clone(),
        ..Options::default()
    };
    let routing = engine::route(args.engine, &topology, &options, None)?;
    let tables = Arc::new(routing.tables);
    Ok(analyze(&order, &netlist, &topology, tables, args.sl))
}

/// Prints the summary. The exit code reports failure if a finding is an error.
fn check(analysis: &Analysis, format: Format) -> anyhow::Result<ExitCode> {
    let summary = Summary::of(analysis);
    match format {
        Format::Json => print_json(&summary)?,
        Format::Text => print(|out| summary.write(out))?,
    }
    // If the fabric contains no host of the inventory, an absence of findings proves nothing.
    analysis.joined()?;
    let has_errors = analysis
        .findings
        .iter()
        .any(|finding| finding.kind.severity() == Severity::Error);
    Ok(if has_errors {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Prints the hints for a host.
fn hints(analysis: &Analysis, host: &str, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Json => print_json(&report::host(analysis, host)?),
        Format::Text => {
            let text = render::describe(analysis, host)
                .with_context(|| render::why_unknown(analysis, host))?;
            print(|out| out.write_all(text.as_bytes()))
        }
    }
}

/// Parses host and index of a GPU: `host-001:3`.
fn gpu(text: &str) -> anyhow::Result<(&str, u16)> {
    let parts = text
        .rsplit_once(':')
        .and_then(|(host, index)| Some((host, index.parse().ok()?)));
    parts.with_context(|| format!("`{text}` is not a GPU: expected HOST:INDEX, like host-001:3"))
}
