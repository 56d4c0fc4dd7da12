use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};
use rsm_api::client::Endpoint;

use crate::commands::Command;
use crate::table::Sort;

/// Queries and controls a running rsm.
#[derive(Debug, Parser)]
#[command(name = "rsmctl", version, after_long_help = LONG_HELP, after_help = HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The options of every subcommand.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// The server: http://HOST:PORT or unix:/PATH; rsmctl searches the usual places if not given
    #[arg(long, global = true, env = "RSM_SERVER", value_name = "URL")]
    pub(crate) server: Option<Endpoint>,
    /// The Unix socket of the server, as `rsm --socket` names it; wins over --server
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// The output format
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    pub(crate) format: Format,
    /// Show and read times in UTC, rather than in the zone of this machine (TZ)
    #[arg(long, global = true)]
    pub(crate) utc: bool,
    /// Print tables with all columns and each row on one line, rather than 100 columns wide
    #[arg(long, global = true, help_heading = TABLES)]
    pub(crate) wide: bool,
    /// Sort a table by the column of that heading, in reverse as --sort=-COLUMN
    #[arg(
        long,
        global = true,
        value_name = "COLUMN",
        allow_hyphen_values = true,
        help_heading = TABLES
    )]
    pub(crate) sort: Option<Sort>,
    /// Only the first N items of a list, after sorting
    #[arg(long, global = true, value_name = "N", help_heading = TABLES)]
    pub(crate) limit: Option<usize>,
    /// Start no pager (PAGER, else less) for long tables on a terminal
    #[arg(long, global = true, help_heading = TABLES)]
    pub(crate) no_pager: bool,
}

/// The heading of the options about tables in the help of each command.
const TABLES: &str = "Tables";

impl Global {
    /// The server that the command line or the environment names.
    pub(crate) fn endpoint(&self) -> Option<Endpoint> {
        let socket = self.socket.clone().map(Endpoint::Unix);
        socket.or_else(|| self.server.clone())
    }
}

/// The output format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned tables for people
    #[default]
    Text,
    /// JSON with stable keys; one object a line where it streams
    Json,
}

const HELP: &str = "\
Nodes and ports are named by GUID (0x0002c90300001234, or 0x0002c90300001234:2 for its port 2),
LID (17), GID (fe80::2:c903:0:1234) or node description (leaf-03, leaf-03:7). `rsmctl --help` has examples and exit codes.";

const LONG_HELP: &str = "\
Nodes and ports:
  0x0002c90300001234    the node or port with that GUID
  0x0002c90300001234:2  port 2 of that node
  17, 0x11              the port with that LID
  fe80::2:c903:0:1234   the port with that GID
  leaf-03, leaf-03:7    the node with that description, and port 7 of it; any part that only one has will do
  guid:11 lid:11 gid:::11 name:11  the port or node by that kind of name, where a text fits several

Examples:
  rsmctl status
  rsmctl nodes --kind switch
  rsmctl links --sort state
  rsmctl history --sort=-total --limit 5
  rsmctl ports --node leaf-03 --state init
  rsmctl route gpu-0001:1 gpu-0777:1
  rsmctl path gpu-0001:1 gpu-0777:1 --pkey 0x8010
  rsmctl multicast ff12:401b:ffff::ffff:ffff
  rsmctl history --format json | jq '.[-1].timing_ms'
  rsmctl sim unlink leaf-03 7 && rsmctl events --newest 5

The server is the first of these that answers, unless --socket, --server or RSM_SERVER names one:
  unix:/run/rsm/rsm.sock, unix:$XDG_RUNTIME_DIR/rsm/rsm.sock, unix:/var/lib/rsm/rsm.sock,
  unix:$XDG_STATE_HOME/rsm/rsm.sock, unix:$HOME/.local/state/rsm/rsm.sock, http://127.0.0.1:50051
Over TCP rsm serves only requests that read, unless it was started with --insecure-admin.

Exit codes:
  0  done; also if the reader of the output ended first
  1  the server refused, found nothing, there is no path, or the route does not arrive
  2  the command line is wrong, or names a column that the table does not have
  3  no server could be reached, or the connection broke";
