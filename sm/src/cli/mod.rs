//! The command line of `rsm`.

mod check_config;
mod generate;
mod gpu;
mod output;
mod plan;
mod serve;
mod sim;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use rsm_routing::engine::EngineKind;

use crate::daemon::FabricSpec;

/// A subnet manager for InfiniBand.
///
/// Without a subcommand it manages a fabric until it is stopped: through the first active
/// InfiniBand port of this host, or whatever --fabric names. SIGHUP reads the configuration again
/// and sweeps, SIGTERM ends it.
#[derive(Parser, Debug)]
#[command(name = "rsm", version, args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
}

const EXAMPLES: &str = "\
Examples:
  rsm --fabric sim:superpod               a simulated 1,024-GPU SuperPOD; then: rsmctl status
  rsm --fabric umad:mlx5_0:1 --once       bring a subnet up once; exit code 0 when all is as planned
  rsm --dry-run                           what rsm would set, beside the master in charge; nothing is set
  rsm plan fabric.txt --format json       routes for a fabric in ibnetdiscover's format, and their proof
  rsm generate fat-tree:k=24,levels=3     a fabric that ibsim loads";

#[derive(Subcommand, Debug)]
enum Command {
    /// Route a fabric from a file or a generator, prove the routes, and say how long it took;
    /// nothing is managed
    Plan(plan::PlanArgs),
    /// Join what GPU hosts say of themselves with a fabric from a file or a generator: rails,
    /// hints, findings, files
    Gpu(gpu::GpuArgs),
    /// Write a generated fabric in ibnetdiscover's format, which ibsim loads
    Generate(generate::GenerateArgs),
    /// Check a configuration (rsm's own, opensm.conf, guid2lid or a list of root GUIDs) without
    /// using it
    CheckConfig(check_config::CheckArgs),
    /// Simulate a fabric for other programs, or run one there
    #[command(subcommand)]
    Sim(sim::SimCommand),
}

/// How results are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// How much of a dry run is printed as text. JSON has all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Detail {
    /// A line for each device.
    Summary,
    /// A line for each Set and each change as well.
    Full,
}

#[derive(Args, Debug)]
struct ServeArgs {
    /// The fabric: umad, umad:CA, umad:CA:PORT, sim:GENERATOR or sim:FILE
    #[arg(long, default_value = "umad", value_name = "FABRIC")]
    fabric: FabricSpec,
    /// Bring the subnet up, print a report and end: exit code 0 when every reachable port is Active,
    /// devices hold the plan and all files are written, 1 otherwise
    #[arg(long)]
    once: bool,
    /// Ask only, plan, print what would be set and end: exit code 0 when nothing would be, 3 when
    /// something would; `=full` prints every Set with what it changes
    #[arg(
        long,
        value_enum,
        value_name = "DETAIL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "summary",
        conflicts_with = "once"
    )]
    dry_run: Option<Detail>,
    /// How the report of --once and --dry-run is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// The configuration file (TOML, or OpenSM's opensm.conf)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where LIDs and what else survives a restart is kept, and the socket for rsmctl
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Write files in OpenSM's formats to this directory after each convergence
    #[arg(long, value_name = "DIR")]
    dump_dir: Option<PathBuf>,
    /// The definitions of partitions, in the format of OpenSM's partitions.conf
    #[arg(long, value_name = "FILE")]
    partitions: Option<PathBuf>,
    /// The routing engine: auto, fabric-tree, updn, dnup, minhop, dor, torus, dragonfly+, nue,
    /// dfsssp or file
    #[arg(long, value_name = "NAME")]
    engine: Option<EngineKind>,
    /// Accept routes that can deadlock the fabric (minhop on anything but a tree)
    #[arg(long)]
    accept_credit_loops: bool,
    /// Serve reading on this TCP address; `off` for none [default: 127.0.0.1:50051]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Let any client that reaches the TCP address change things, too
    #[arg(long)]
    insecure_admin: bool,
    /// Write every datagram to this file, as pcapng
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// What to log: error, warn, info, debug, trace, or a filter such as rsm::core=debug
    #[arg(long, env = "RSM_LOG", value_name = "LEVEL")]
    log: Option<String>,
    /// Log as JSON, a line for each event
    #[arg(long)]
    log_json: bool,
}

/// Runs the command line.
///
/// # Errors
/// The cause of the failure; the caller prints it.
pub fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Some(Command::Plan(args)) => plan::run(&args),
        Some(Command::Gpu(args)) => gpu::run(&args),
        Some(Command::Generate(args)) => generate::run(&args),
        Some(Command::CheckConfig(args)) => check_config::run(&args),
        Some(Command::Sim(command)) => sim::run(&command),
        None => serve::run(cli.serve),
    }
}
