//! `rsm sim`: a simulated fabric for programs written for real hardware.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use rsm_routing::ibnetdiscover::Strictness;
use rsm_sim_host::protocol::{NODE_VARIABLE, PORT_VARIABLE, SOCKET_VARIABLE};

use super::output::print;
use crate::daemon::{self, FabricServer};

#[derive(Subcommand, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) enum SimCommand {
    /// Simulate a fabric for other programs until stopped
    Serve(ServeArgs),
    /// Run a program at a node of a simulated fabric: opensm, ibnetdiscover, saquery, rsm …
    Run(RunArgs),
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
    /// The library to preload [default: librsm_sim_preload.so beside rsm, in ../lib, or where the
    /// system's loader looks]
    #[arg(long, value_name = "FILE")]
    preload: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

fn default_socket() -> PathBuf {
    std::env::temp_dir().join("rsm-sim.sock")
}

pub(super) fn run(command: &SimCommand) -> anyhow::Result<ExitCode> {
    match command {
        SimCommand::Serve(args) => serve(args),
        SimCommand::Run(args) => run_there(args),
    }
}

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

/// Becomes the program.
fn run_there(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let (program, arguments) = args.command.split_first().context("no program is named")?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("LD_PRELOAD", preloads(args.preload.as_deref()))
        .env(SOCKET_VARIABLE, &args.socket);
    if let Some(node) = &args.node {
        command.env(NODE_VARIABLE, node);
    }
    if let Some(port) = args.port {
        command.env(PORT_VARIABLE, port.to_string());
    }
    let error = command.exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}

const SHIM: &str = "librsm_sim_preload.so";

/// The shim, and the libraries already in LD_PRELOAD.
fn preloads(given: Option<&Path>) -> OsString {
    let beside = || {
        let program = std::env::current_exe().ok()?;
        let directory = program.parent()?;
        [directory.join(SHIM), directory.join("../lib").join(SHIM)]
            .into_iter()
            .find(|path| path.is_file())
    };
    let shim = given.map(Path::to_owned).or_else(beside);
    let mut list: OsString = shim.unwrap_or_else(|| SHIM.into()).into();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}
