mod ask;
mod check;
mod export;
mod import;
mod probe;

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Subcommand, ValueEnum};
use rsm_gdr::render::{EXPORTERS, ExportOptions, JOB_FILES};
use rsm_proto::v1;

use crate::arguments::Global;
use crate::failure::Failure;
use crate::session::Session;

/// GPU hosts: inventories, the port for each GPU, findings
#[derive(Debug, Subcommand)]
pub(crate) enum GpuCommand {
    /// Prints this host's GPUs and adapters from /sys, for `import --file-format sysfs`
    Probe(probe::ProbeArguments),
    /// Imports the inventory of a host, or those of many, into the server
    Import {
        /// The name of the host, or with --machine-type of the machine type; without it, each file
        /// of the folder is named after its host, or each line of the file begins with its host's
        #[arg(long)]
        host: Option<String>,
        /// The format of the file; without it, its content gives the format
        #[arg(long, value_enum, value_name = "FORMAT")]
        file_format: Option<FileFormat>,
        /// Import a machine type, for hosts without an inventory of their own
        #[arg(long, requires = "host")]
        machine_type: bool,
        /// The file, the folder, or the output of a parallel shell such as pdsh
        path: PathBuf,
    },
    /// How many hosts have inventories, and how old these are
    Status,
    /// Removes the inventories of hosts, or machine types, from the server
    Forget {
        /// Hosts, also as node lists (host-[001-016]), or with --machine-type machine types
        #[arg(required = true, value_name = "HOST")]
        hosts: Vec<String>,
        /// Remove machine types: hosts without an inventory of their own have none any more
        #[arg(long)]
        machine_type: bool,
    },
    /// Hosts with GPUs
    Hosts,
    /// Faults of hosts and their cables; exit code 1 if there is an error, or no host to check
    Check(check::CheckArguments),
    /// Hosts whose answers change with inventories or the fabric, until interrupted
    Watch,
    /// The port that each GPU of a host should use, and why
    Hints {
        /// The host
        host: String,
    },
    /// The relation and the paths between two GPUs, or the ports of the GPUs of two hosts
    Pair {
        /// A GPU, as HOST:INDEX, or a host
        #[arg(value_parser = gpu)]
        from: (String, Option<u32>),
        /// Another GPU or host
        #[arg(value_parser = gpu)]
        to: (String, Option<u32>),
    },
    /// The order of ranks for a job, and the load of its traffic
    Plan {
        /// The hosts, as a list like gpu[001-064,070],login-1; all of them if left out
        #[arg(long, value_name = "HOSTS")]
        hosts: Vec<String>,
        /// GPUs of each host
        #[arg(long, default_value_t = 8, value_name = "COUNT")]
        gpus: u32,
        /// The communication pattern
        #[arg(long, value_enum, default_value = "ring")]
        pattern: PatternName,
        /// Print the job's file for a launcher instead
        #[arg(long, value_name = "FORMAT", value_parser = job_files())]
        file: Option<String>,
    },
    /// A file for another program
    Export {
        /// The format of the file
        #[arg(value_parser = exporters())]
        file: String,
        /// The host, for formats of a single host
        #[arg(long, default_value = "", hide_default_value = true)]
        host: String,
        /// The files of all hosts, for formats of a single host; needs --dir
        #[arg(long, requires = "dir", conflicts_with = "host")]
        all: bool,
        /// The folder for the files of all hosts, each named after its host
        #[arg(long, requires = "all", value_name = "FOLDER")]
        dir: Option<PathBuf>,
        /// NCCL's version: files for 2.30.7 and later have rails and planes
        #[arg(long, default_value = "2.30.7", value_name = "VERSION")]
        nccl: String,
        /// The domain of Kubernetes' labels
        #[arg(long, default_value = ExportOptions::LABEL_DOMAIN, value_name = "DOMAIN")]
        prefix: String,
        /// The service level that the file pins; the server's own if left out
        #[arg(long, value_name = "SL", value_parser = clap::value_parser!(u8).range(0..16))]
        sl: Option<u8>,
    },
}

/// Parses `host-001:3`, or `host-001`: names of hosts contain no colons.
fn gpu(text: &str) -> Result<(String, Option<u32>), String> {
    let Some((host, index)) = text.rsplit_once(':') else {
        return Ok((text.to_owned(), None));
    };
    let index = index.parse();
    let index = index.map_err(|_| "expected HOST:INDEX, like host-001:3, or HOST".to_owned())?;
    Ok((host.to_owned(), Some(index)))
}

/// Declares an argument that takes the names of an enum of the API.
macro_rules! names {
    ($(#[$about:meta])* $name:ident of $message:ident { $($variant:ident),* $(,)? }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
        pub(crate) enum $name { $($variant),* }

        impl From<$name> for i32 {
            fn from(name: $name) -> i32 {
                match name { $($name::$variant => v1::$message::$variant.into()),* }
            }
        }
    };
}

names! {
    /// The format of an inventory file.
    FileFormat of GpuFormat { NvidiaSmi, AmdSmi, NcclXml, Hwloc, Sysfs, Json }
}
names! {
    /// The communication pattern of a job.
    PatternName of GpuPattern { Ring, Tree, RecursiveDoubling, AllToAll }
}
/// The formats of files for other programs, by name.
fn exporters() -> PossibleValuesParser {
    let names = EXPORTERS
        .iter()
        .map(|exporter| PossibleValue::new(exporter.name).help(exporter.about));
    PossibleValuesParser::new(names)
}

/// The formats of files for launchers, by name.
fn job_files() -> PossibleValuesParser {
    let names = JOB_FILES
        .iter()
        .map(|file| PossibleValue::new(file.name).help(file.about));
    PossibleValuesParser::new(names)
}

pub(crate) async fn run(command: GpuCommand, global: Global) -> Result<(), Failure> {
    if let GpuCommand::Probe(arguments) = &command {
        return probe::run(arguments, global.format);
    }
    if matches!(
        command,
        GpuCommand::Import { .. } | GpuCommand::Forget { .. }
    ) {
        global.refuse_list_options()?;
    }
    let mut session = Session::open(global).await?;
    let outcome = ask::run(command, &mut session).await;
    session.end(outcome)
}
