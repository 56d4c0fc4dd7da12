//! The options of every subcommand.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rsm_api::client::{ClientTlsFiles, Credentials, Endpoint};

use crate::failure::Failure;
use crate::operator::operator;
use crate::table::Sort;

/// The options of every subcommand.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// The server: http://HOST:PORT, https://HOST:PORT or unix:/PATH;
    /// without it rsmctl searches the usual places
    #[arg(
        long,
        global = true,
        env = "RSM_SERVER",
        value_name = "URL",
        verbatim_doc_comment
    )]
    pub(crate) server: Option<Endpoint>,
    /// The server's Unix socket, as `rsm --socket`; wins over --server
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
    /// Show and read times in UTC, not in this machine's zone (TZ)
    #[arg(long, global = true)]
    pub(crate) utc: bool,
    /// Print tables with all columns and each row on one line, rather than
    /// as wide as the terminal (where there is none, COLUMNS or 100 columns)
    #[arg(long, global = true, help_heading = TABLES, verbatim_doc_comment)]
    pub(crate) wide: bool,
    /// Colours by severity; by default on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) color: Color,
    /// Sort a table by that column, in reverse as --sort=-COLUMN
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

/// The maximum size of a token file, in bytes: servers accept no token that long.
const MAX_TOKEN_FILE: u64 = 64 * 1024;

impl Global {
    /// The server that the command line or the environment names, if any.
    pub(crate) fn endpoint(&self) -> Option<Endpoint> {
        let socket = self.socket.clone().map(Endpoint::Unix);
        socket.or_else(|| self.server.clone())
    }

    /// Refuses the options of lists, for a command that changes something and has not begun yet.
    pub(crate) fn refuse_list_options(&self) -> Result<(), Failure> {
        if self.sort.is_none() && self.limit.is_none() {
            return Ok(());
        }
        let text = "--sort and --limit are for lists; nothing was done";
        Err(Failure::Usage(text.to_owned()))
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
        Ok(Credentials {
            tls,
            token,
            operator: Some(operator()),
        })
    }
}

/// Reads the token from a file.
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

/// When text has colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless the variable NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Color {
    pub(crate) fn is_on(self) -> bool {
        match self {
            Color::Always => true,
            Color::Never => false,
            // https://no-color.org: any value except an empty value.
            Color::Auto => {
                std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                    && std::io::IsTerminal::is_terminal(&std::io::stdout())
            }
        }
    }
}
