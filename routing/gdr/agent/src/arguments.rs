use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, Subcommand};
use rsm_api::client::{ClientTlsFiles, Credentials, Endpoint};

/// Tells the subnet manager of the GPU host that it runs on.
///
/// Reads /sys, NVIDIA's library (or nvidia-smi, amd-smi, rocm-smi), and
/// reports what it finds: a digest, and the inventory itself where the
/// manager does not know it. Without --every it reports once.
#[derive(Debug, Parser)]
#[command(
    name = "rsm-agent",
    version,
    after_help = HELP,
    args_conflicts_with_subcommands = true,
    verbatim_doc_comment
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// The managers, separated by commas, each as https://HOST:PORT,
    /// http://HOST:PORT or unix:/PATH; all of them get the inventory
    #[arg(
        long,
        env = "RSM_SERVER",
        value_delimiter = ',',
        value_name = "URL",
        verbatim_doc_comment
    )]
    pub(crate) server: Vec<Endpoint>,
    /// The CAs of the managers' certificates, in PEM, for https
    #[arg(long, env = "RSM_TLS_CA", value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// A client certificate to show to the managers, in PEM
    #[arg(
        long,
        env = "RSM_CERT",
        value_name = "FILE",
        requires = "key",
        requires = "tls_ca"
    )]
    cert: Option<PathBuf>,
    /// The private key of --cert, in PEM
    #[arg(long, env = "RSM_KEY", value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// The file of a bearer token (JWT) to show to the managers
    #[arg(long, env = "RSM_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The host's name in lists; its short host name if not given
    #[arg(long, env = "RSM_AGENT_HOST", value_name = "NAME")]
    host: Option<String>,
    /// Stay, and read the host once in so many seconds
    #[arg(long, env = "RSM_AGENT_EVERY", value_name = "SECONDS", value_parser = seconds(5))]
    every: Option<u64>,
    /// With --every, report after so many seconds without a change
    #[arg(
        long,
        env = "RSM_AGENT_HEARTBEAT",
        value_name = "SECONDS",
        default_value_t = 600,
        value_parser = seconds(5),
    )]
    heartbeat: u64,
    /// Wait up to so many seconds, by the host's name, before the first
    /// report, so that not all hosts report at once
    #[arg(
        long,
        env = "RSM_AGENT_SPREAD",
        value_name = "SECONDS",
        default_value_t = 0,
        value_parser = seconds(0),
        verbatim_doc_comment,
    )]
    spread: u64,
    /// How long a single report tries to reach a manager
    #[arg(
        long,
        env = "RSM_AGENT_PATIENCE",
        value_name = "SECONDS",
        default_value_t = 30,
        value_parser = seconds(1),
    )]
    patience: u64,
    /// Report a host without GPUs, too
    #[arg(long, env = "RSM_AGENT_WITHOUT_GPUS")]
    pub(crate) without_gpus: bool,
    /// The mount point of /sys
    #[arg(
        long,
        env = "RSM_AGENT_SYS",
        default_value = "/sys",
        value_name = "DIR"
    )]
    pub(crate) sys: PathBuf,
    /// NVIDIA's library by name or path, or off
    #[arg(
        long,
        env = "RSM_AGENT_NVML",
        default_value = rsm_probe::nvml::LIBRARY,
        value_name = "LIBRARY",
    )]
    pub(crate) nvml: OsString,
    /// The folder of nvidia-smi and the like; by default the search path
    #[arg(long, env = "RSM_AGENT_TOOLS", value_name = "DIR")]
    pub(crate) tools: Option<PathBuf>,
    /// The time that the library, and each of these programs, may take
    #[arg(
        long,
        env = "RSM_AGENT_LIMIT",
        value_name = "SECONDS",
        default_value_t = 20,
        value_parser = seconds(1),
    )]
    limit: u64,
    /// Print the inventory as JSON, and report nothing
    #[arg(long)]
    pub(crate) print: bool,
}

/// Other work than a report.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Asks NVIDIA's library, for the agent itself
    #[command(hide = true)]
    Nvml {
        /// The name or path.
        library: OsString,
    },
    /// Writes the manual page, for packages
    #[command(hide = true)]
    ManPages {
        /// The folder of manuals, such as /usr/share/man.
        dir: PathBuf,
    },
}

const HELP: &str = "\
The identity of the agent needs the role `report` (docs/api.md, Access).

Exit status:
  0  reported, or there is nothing to report
  1  the host could not be read, or the manager refused
  2  the command line is wrong
  3  no manager could be reached";

/// The maximum length of a token file in bytes: servers accept no token of that length.
const MAX_TOKEN_FILE: u64 = 64 * 1024;

/// The parser of a number of seconds, from `least` to one year.
fn seconds(least: u64) -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(least..=31_536_000)
}

impl Arguments {
    /// The interval between two readings; `None` for a single report.
    pub(crate) fn every(&self) -> Option<Duration> {
        self.every.map(Duration::from_secs)
    }

    pub(crate) fn heartbeat(&self) -> Duration {
        Duration::from_secs(self.heartbeat)
    }

    pub(crate) fn spread(&self) -> Duration {
        Duration::from_secs(self.spread)
    }

    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(self.patience)
    }

    pub(crate) fn limit(&self) -> Duration {
        Duration::from_secs(self.limit)
    }

    /// The name of this host: the given name, or the system's name up to the first dot.
    pub(crate) fn host_name(&self) -> String {
        let system = || {
            let system = rustix::system::uname();
            let name = system.nodename().to_string_lossy().into_owned();
            name.split('.').next().unwrap_or_default().to_owned()
        };
        self.host.clone().unwrap_or_else(system)
    }

    /// Reads the proofs of identity again, because tokens are replaced while the agent runs.
    pub(crate) fn credentials(&self) -> Result<Credentials, String> {
        let identity = self.cert.clone().zip(self.key.clone());
        let ca = self.tls_ca.clone();
        Ok(Credentials {
            tls: ca.map(|ca| ClientTlsFiles { ca, identity }),
            token: self.token_file.as_deref().map(token).transpose()?,
            operator: None,
        })
    }
}

/// Reads the token in a file.
fn token(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(MAX_TOKEN_FILE).read_to_string(&mut text))
        .map_err(|error| format!("the token file {}: {error}", path.display()))?;
    match text.trim() {
        "" => Err(format!("the token file {} is empty", path.display())),
        token => Ok(token.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Arguments;

    #[test]
    fn the_help_fits_80_columns() {
        let help = Arguments::command().render_long_help().to_string();
        let long: Vec<&str> = help.lines().filter(|line| line.len() > 80).collect();
        assert!(long.is_empty(), "{}", long.join("\n"));
    }
}
