use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, ValueEnum};
use rsm_api::client::{ClientTlsFiles, Credentials, Endpoint};

use crate::commands::Command;
use crate::failure::Failure;
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
    /// The server: http://HOST:PORT, https://HOST:PORT or unix:/PATH; rsmctl searches the usual places if not given
    #[arg(long, global = true, env = "RSM_SERVER", value_name = "URL")]
    pub(crate) server: Option<Endpoint>,
    /// The Unix socket of the server, as `rsm --socket` names it; wins over --server
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// The CAs of the server's certificate, in PEM, for https
    #[arg(long, global = true, env = "RSM_TLS_CA", value_name = "FILE", help_heading = ACCESS)]
    pub(crate) tls_ca: Option<PathBuf>,
    /// A client certificate to show to the server, in PEM
    #[arg(long, global = true, env = "RSM_CERT", value_name = "FILE", help_heading = ACCESS)]
    pub(crate) cert: Option<PathBuf>,
    /// The private key of --cert, in PEM
    #[arg(long, global = true, env = "RSM_KEY", value_name = "FILE", help_heading = ACCESS)]
    pub(crate) key: Option<PathBuf>,
    /// The file of a bearer token (JWT) to show to the server
    #[arg(long, global = true, env = "RSM_TOKEN_FILE", value_name = "FILE", help_heading = ACCESS)]
    pub(crate) token_file: Option<PathBuf>,
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

/// The heading of the options about identities.
const ACCESS: &str = "Access";

/// Longest file of a token, in bytes: servers take none that long.
const MAX_TOKEN_FILE: u64 = 64 * 1024;

impl Global {
    /// The server that the command line or the environment names.
    pub(crate) fn endpoint(&self) -> Option<Endpoint> {
        let socket = self.socket.clone().map(Endpoint::Unix);
        socket.or_else(|| self.server.clone())
    }

    /// The credentials that the command line or the environment names.
    pub(crate) fn credentials(&self) -> Result<Credentials, Failure> {
        let identity = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some((cert.clone(), key.clone())),
            (None, None) => None,
            (Some(_), None) => return Err(Failure::Usage("--cert needs --key".to_owned())),
            (None, Some(_)) => return Err(Failure::Usage("--key needs --cert".to_owned())),
        };
        let tls = match &self.tls_ca {
            Some(ca) => Some(ClientTlsFiles {
                ca: ca.clone(),
                identity,
            }),
            None if identity.is_some() => {
                let text = "--cert needs --tls-ca, the CAs of the server's certificate";
                return Err(Failure::Usage(text.to_owned()));
            }
            None => None,
        };
        let token = self.token_file.as_deref().map(token).transpose()?;
        Ok(Credentials { tls, token })
    }
}

/// The token in a file.
fn token(path: &Path) -> Result<String, Failure> {
    let failed = |reason: &dyn std::fmt::Display| {
        Failure::Usage(format!("the token file {}: {reason}", path.display()))
    };
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(MAX_TOKEN_FILE).read_to_string(&mut text))
        .map_err(|error| failed(&error))?;
    match text.trim() {
        "" => Err(failed(&"it is empty")),
        token => Ok(token.to_owned()),
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
Over TCP rsm serves requests that change something only to clients that prove an identity, by --cert and --key or by
--token-file, unless it was started with --insecure-admin.

Exit codes:
  0  done; also if the reader of the output ended first
  1  the server refused, found nothing, there is no path, or the route does not arrive
  2  the command line is wrong, or names a column that the table does not have
  3  no server could be reached, or the connection broke";
