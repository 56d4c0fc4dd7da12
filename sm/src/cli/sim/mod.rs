//! `rsm sim`: a simulated fabric for programs written for real hardware.
//!
//! `rsm sim run` fails closed: a program that the preloaded library does not reach would use the
//! umad devices of this machine, and a subnet manager would then manage the site's fabric. rsm
//! starts a program only after three proofs: the [`library`] exists; a [`probe`], which is rsm
//! itself in the program's environment, sees the simulated device; and the loader of the
//! [`program`] loads the library.

mod library;
mod probe;
mod program;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use rsm_routing::ibnetdiscover::Strictness;
use rsm_sim_host::protocol::{NODE_VARIABLE, PORT_VARIABLE, RUN_VARIABLE, SOCKET_VARIABLE};

use self::program::Program;
use super::output::print;
use crate::daemon::{self, FabricServer};

#[derive(Subcommand, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) enum SimCommand {
    /// Simulate a fabric for other programs until stopped
    Serve(ServeArgs),
    /// Run a program at a node of a simulated fabric: opensm, ibnetdiscover, saquery, rsm …
    Run(RunArgs),
    /// Tell whether the umad devices that this process sees are simulated
    #[command(hide = true)]
    Probe,
}

const EXAMPLES: &str = "\
Examples:
  rsm sim serve fat-tree:k=4,levels=3 &
  rsm sim run opensm -o                    at the first host
  rsm sim run --node host-3 saquery NR     at the host of that description";

#[derive(Args, Debug)]
pub(super) struct ServeArgs {
    /// A file in ibnetdiscover's or ibsim's format, or a generator such as superpod or
    /// fat-tree:k=4,levels=3; with ,devices=… for devices with habits, as `rsm generate` lists them,
    /// and ,vports=N for virtual ports of hosts
    fabric: String,
    /// Leave out lines of the file that cannot be read, with the nodes and cables that need them,
    /// and report each; the same as ,lenient after the file's name
    #[arg(long)]
    lenient: bool,
    /// The socket by which programs reach the fabric
    #[arg(long, env = SOCKET_VARIABLE, default_value_os_t = default_socket(), value_name = "PATH")]
    socket: PathBuf,
    /// Serve `rsmctl sim` on this TCP address, to any client that reaches it
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

#[derive(Args, Debug)]
pub(super) struct RunArgs {
    /// The socket of the fabric
    #[arg(long, env = SOCKET_VARIABLE, default_value_os_t = default_socket(), value_name = "PATH")]
    socket: PathBuf,
    /// The node at which the program runs, by GUID or description [default: the first host with a
    /// cable]
    #[arg(long, env = NODE_VARIABLE, value_name = "NODE")]
    node: Option<OsString>,
    /// The only port that the program sees [default: all ports of the node]
    #[arg(long, env = PORT_VARIABLE, value_name = "PORT")]
    port: Option<u8>,
    /// The library to preload [default: librsm_sim_preload.so beside rsm or in ../lib/rsm]
    #[arg(long, value_name = "FILE")]
    preload: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Socket of the fabric without an option.
fn default_socket() -> PathBuf {
    std::env::temp_dir().join("rsm-sim.sock")
}

/// Runs a subcommand of `rsm sim`.
pub(super) fn run(command: &SimCommand) -> anyhow::Result<ExitCode> {
    match command {
        SimCommand::Serve(args) => serve(args),
        SimCommand::Run(args) => run_program(args),
        SimCommand::Probe => probe::run(),
    }
}

/// Simulates a fabric until a signal ends the process.
fn serve(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(tracing::Level::WARN)
        .init();
    let server = FabricServer {
        fabric: args.fabric.clone(),
        strictness: Strictness::lenient_if(args.lenient),
        socket: args.socket.clone(),
        listen: args.listen,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(daemon::serve_fabric(server, |ready| {
        print(|out| writeln!(out, "{ready}"))
    }))?;
    Ok(ExitCode::SUCCESS)
}

/// Replaces this process by the program, after a proof that the program cannot see this machine's
/// devices.
fn run_program(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let (name, arguments) = args.command.split_first().context("no program is named")?;
    // The program and its children may change their working directory.
    let socket = std::path::absolute(&args.socket).context("cannot find the socket")?;
    let library = library::find(args.preload.as_deref())?;
    let program = Program::find(name)?;
    let environment = ProgramEnvironment::of(args, socket, &library);
    probe::prove_simulated(&environment)?;
    program.prove_preloaded(&library, &environment)?;
    let mut command = Command::new(program.path());
    environment.apply(&mut command);
    let error = command.arg0(name).args(arguments).exec();
    Err(error).with_context(|| format!("cannot run {}", program.path().display()))
}

/// Environment variables through which a program sees the simulated node.
struct ProgramEnvironment(Vec<(&'static str, OsString)>);

impl ProgramEnvironment {
    /// Variables for a program at the node of `args`. `library` precedes libraries that the user
    /// preloads.
    fn of(args: &RunArgs, socket: PathBuf, library: &Path) -> ProgramEnvironment {
        let mut preloads = library.as_os_str().to_owned();
        if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
            preloads.push(":");
            preloads.push(others);
        }
        let mut variables = vec![
            (PRELOAD, preloads),
            (SOCKET_VARIABLE, socket.into()),
            (RUN_VARIABLE, "1".into()),
        ];
        variables.extend(args.node.clone().map(|node| (NODE_VARIABLE, node)));
        variables.extend(
            args.port
                .map(|port| (PORT_VARIABLE, port.to_string().into())),
        );
        ProgramEnvironment(variables)
    }

    /// Adds the variables to the environment of `command`.
    fn apply(&self, command: &mut Command) {
        command.envs(self.0.iter().map(|(name, value)| (name, value)));
    }
}

/// Environment variable that lists libraries which the system's loader loads before the libraries
/// of a program.
const PRELOAD: &str = "LD_PRELOAD";
