//! The command line of `rsm`.

mod check_config;
mod generate;
mod gpu;
mod heap;
mod log;
mod log_file;
mod man_pages;
mod migrate;
mod output;
mod plan;
mod serve;
mod sim;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use rsm_config::{HttpUrl, SyslogAddress};
use rsm_routing::engine::EngineKind;

use crate::daemon::FabricSpec;

/// A subnet manager for InfiniBand.
///
/// Without a subcommand rsm manages a fabric until a signal ends it: the fabric at the first
/// InfiniBand port of this host with a link, or the one that --fabric names. On SIGHUP rsm reads
/// its configuration again and sweeps, on SIGTERM it ends.
#[derive(Parser, Debug)]
#[command(
    name = "rsm",
    version,
    args_conflicts_with_subcommands = true,
    after_help = EXAMPLES,
    after_long_help = LONG_HELP
)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
}

/// Examples in the short help; the long help begins with them.
macro_rules! examples {
    () => {
        "\
Examples:
  rsm --fabric sim:superpod               a simulated 1,024-GPU SuperPOD; then: rsmctl status
  rsm --fabric umad:mlx5_0:1 --once       bring a subnet up once; exit code 0 when all is as planned
  rsm --dry-run                           list the Sets of rsm beside the present master, and send none
  rsm plan fabric.txt --format json       routes for a fabric that ibnetdiscover printed, and their proof
  rsm generate fat-tree:k=24,levels=3     a fabric that ibsim loads"
    };
}

const EXAMPLES: &str = examples!();

const LONG_HELP: &str = concat!(
    examples!(),
    "

Files:
  /etc/rsm/rsm.toml         the configuration, see rsm.toml(5); NAME.toml for rsm@NAME.service
  /etc/rsm/sa.key           the key of requests that the SA trusts; the package makes it
  /run/rsm/rsm.sock         the socket for rsmctl, open to members of group rsm
  /var/lib/rsm              LIDs, registrations of hosts, known cables, drains
  /var/lib/rsm/history      events, convergences, findings and requests of operators
  /var/lib/rsm/audit.jsonl  calls that change something, with their callers, also refused ones
  /usr/lib/rsm              the library of `rsm sim run`
  /usr/share/rsm            a dashboard for Grafana, and rules for Prometheus
  /usr/share/doc/rsm        the manual, which begins with first-day.md, and examples

Signals:
  SIGTERM, SIGINT  rsm ends; switches forward on by the tables that they hold
  SIGHUP           rsm reads the configuration again and sweeps; one with an error changes nothing

Environment:
  RSM_LOG           the log level, as --log
  MALLOC_ARENA_MAX  the number of heap arenas; without it rsm takes two for each processor

Exit status:
  0  a signal ended the daemon; --once: the subnet is up as planned; --dry-run: no Set is needed
  1  --once: a port is not Active, a device does not hold the plan, or a file is not written
  2  the command line or the configuration has an error, or rsm cannot use the port
  3  --dry-run: Sets are listed"
);

#[derive(Subcommand, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one value for each run of the program"
)]
enum Command {
    /// Route a fabric from a file or a generator, prove the routes, and print the times; rsm
    /// manages no fabric
    Plan(plan::PlanArgs),
    /// Join inventories of GPU hosts with a fabric from a file or a generator: rails, hints,
    /// findings, files
    Gpu(gpu::GpuArgs),
    /// Write a generated fabric in ibnetdiscover's format, which ibsim loads
    Generate(generate::GenerateArgs),
    /// Check a file for errors: rsm's configuration, opensm.conf, guid2lid or a list of root GUIDs
    CheckConfig(check_config::CheckArgs),
    /// Turn OpenSM's files on this host into a configuration and a store of rsm, so that ports keep
    /// their LIDs and hosts their registrations
    Migrate(migrate::MigrateArgs),
    /// Simulate a fabric for other programs, or run a program on it
    #[command(subcommand)]
    Sim(sim::SimCommand),
    /// Write the manual pages, for packages
    #[command(hide = true)]
    ManPages(man_pages::ManPagesArgs),
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
    ///
    /// With umad, and with simulated fabrics, rsm uses the port that `sm.guid` names, if it names
    /// one. `rsm generate` lists generators, and what can be appended to them and to files.
    #[arg(long, default_value = "umad", value_name = "FABRIC")]
    fabric: FabricSpec,
    /// Bring the subnet up, print a report and end: exit code 0 when every reachable port is
    /// Active, devices hold the plan and all files are written, 1 otherwise
    #[arg(long)]
    once: bool,
    /// Read the subnet, plan, print the Sets that rsm would send, and end without sending any: exit
    /// code 0 when there are none, 3 when there are some; `=full` prints every Set with its changes
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
    /// The format of the report of --once and --dry-run
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// The configuration file (TOML, or OpenSM's opensm.conf); the command line wins
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The folder of LIDs and other data that survive a restart, and of the socket for rsmctl
    /// [default: `state.dir`, /var/lib/rsm]
    ///
    /// A simulated fabric keeps nothing without this option, and --once nothing without it or
    /// --config.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// The Unix socket for rsmctl [default: rsm.sock in the folder of --state-dir]
    ///
    /// Without --state-dir and `api.socket` it is in the first of /run/rsm, $XDG_RUNTIME_DIR/rsm,
    /// /var/lib/rsm, $XDG_STATE_HOME/rsm and ~/.local/state/rsm that rsm may write to. rsmctl looks
    /// in the same places.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Write files in OpenSM's formats to this folder after each convergence
    ///
    /// The files are opensm-subnet.lst, opensm.fdbs, opensm.mcfdbs, opensm-lfts.dump,
    /// opensm-lid-matrix.dump, guid2lid and topology.ibnetdiscover.
    #[arg(long, value_name = "DIR")]
    dump_dir: Option<PathBuf>,
    /// The definitions of partitions, in the format of OpenSM's partitions.conf; without one every
    /// port is a full member of the default partition
    #[arg(long, value_name = "FILE")]
    partitions: Option<PathBuf>,
    /// The routing engine: auto, fabric-tree, updn, dnup, minhop, dor, torus, dragonfly+, nue,
    /// dfsssp or file
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(engines))]
    engine: Option<EngineKind>,
    /// Accept routes that can deadlock the fabric (minhop on anything but a tree)
    #[arg(long)]
    accept_credit_loops: bool,
    /// Serve requests that only read at this TCP address; `off` for none [default:
    /// `api.listen`, 127.0.0.1:50051]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Serve the web page, JSON and metrics for Prometheus at this TCP address; `off` for none
    /// [default: `http.listen`, off]
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
    /// Post events to this address, as JSON [default: `notify.webhook_url`]
    ///
    /// Other users of this machine can read the command line: a secret path belongs in the
    /// configuration.
    #[arg(long, value_name = "URL", value_parser = http_url)]
    webhook: Option<HttpUrl>,
    /// Send events to this syslog daemon: udp://HOST:PORT, tcp://HOST:PORT or unix:/dev/log
    /// [default: `notify.syslog`]
    #[arg(long, value_name = "ADDRESS", value_parser = syslog_address)]
    syslog: Option<SyslogAddress>,
    /// Send events to this collector of OpenTelemetry, as logs by gRPC [default:
    /// `notify.otlp_endpoint`]
    #[arg(long, value_name = "URL", value_parser = http_url)]
    otlp: Option<HttpUrl>,
    /// Serve requests that change something at the TCP address, too, to any client that reaches it
    #[arg(long)]
    insecure_admin: bool,
    /// Write every datagram to this file, as pcapng with link type ERF, which Wireshark dissects
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The log level: error, warn, info, debug, trace, or a filter such as rsm::daemon=debug
    ///
    /// The log goes to standard error or to `log.file`. A bare level is that of rsm, and libraries
    /// then log warnings and errors; a list such as info,sled=info sets all.
    #[arg(long, env = "RSM_LOG", value_name = "LEVEL")]
    log: Option<String>,
    /// Log as JSON, one object a line
    #[arg(long)]
    log_json: bool,
}

/// Answers a shell's request for completions and ends the process; on any other call, returns at
/// once. Must be called before the first thread starts.
pub fn complete() {
    CompleteEnv::with_factory(Cli::command).complete();
}

/// Parses an option's URL.
fn http_url(text: &str) -> Result<HttpUrl, &'static str> {
    HttpUrl::parse(text).ok_or("expected http://HOST:PORT/PATH or https://HOST:PORT/PATH")
}

/// Parses an option's address of a syslog daemon.
fn syslog_address(text: &str) -> Result<SyslogAddress, &'static str> {
    let expected = "expected udp://HOST:PORT, tcp://HOST:PORT or unix:/PATH/OF/SOCKET";
    SyslogAddress::parse(text).ok_or(expected)
}

/// Names of the routing engines, for completion.
fn engines() -> Vec<CompletionCandidate> {
    let names = EngineKind::ALL.iter().map(|kind| kind.name());
    names.map(CompletionCandidate::new).collect()
}

/// Runs the command line.
///
/// # Errors
/// Returns the cause of the failure; the caller prints the error.
pub fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Some(Command::Plan(args)) => plan::run(&args),
        Some(Command::Gpu(args)) => gpu::run(&args),
        Some(Command::Generate(args)) => generate::run(&args),
        Some(Command::CheckConfig(args)) => check_config::run(&args),
        Some(Command::Migrate(args)) => migrate::run(&args),
        Some(Command::Sim(command)) => sim::run(&command),
        Some(Command::ManPages(args)) => man_pages::run(&args),
        None => serve::run(cli.serve),
    }
}
